# SPDX-License-Identifier: Apache-2.0
"""sluice.jobs.enforce: a user gets a GPU through a job alone. On stand-in nodes with the driver's numbers, which the
kernel knows no device for: who may open one is told ENXIO, who may not EACCES."""

import os
import signal
import stat
import subprocess

import pytest

from conftest import wait_until

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="takes root, for jobs of several users")

ALICE, GROUP = 61001, 61900
ON = f"sluice: {{jobs: {{enforce: true, enforceGroup: '{GROUP}'}}}}"
OFF = "sluice: {jobs: {enforce: false}}"
MAY = "No such device"
MUST_NOT = "Permission denied"


def be(uid):
    return {"user": uid, "group": uid, "extra_groups": [], "cwd": "/"}


@pytest.fixture
def box(machine_factory):
    machine = machine_factory(opens_nodes=True)
    machine.start("dgx-a100", "--gpus", "2", "--dev-style", "nvidia")
    node = machine.path("/dev/nvidia0")
    if not stat.S_ISCHR(node.stat().st_mode):
        pytest.skip("no device nodes can be made here")
    try:
        os.close(os.open(node, os.O_RDWR))
    except PermissionError:
        pytest.skip("this file system permits no device nodes")
    except OSError:
        pass
    try:
        subprocess.run(["unshare", "-m", "true"], check=True, capture_output=True)
    except (OSError, subprocess.CalledProcessError):
        pytest.skip("no mount namespaces can be made here")
    machine.config = machine.directory / "config.yaml"
    return machine


def modes(machine):
    """Of every node: its mode and owner."""
    found = {}
    for path in sorted(machine.path("/dev").rglob("nvidia*")):
        status = path.lstat()
        if stat.S_ISCHR(status.st_mode):
            found[path.name] = (stat.S_IMODE(status.st_mode), status.st_uid, status.st_gid)
    return found


def is_closed(machine):
    return all(found == (0o660, 0, GROUP) for name, found in modes(machine).items()
               if name != "nvidia-modeset")


def configure(machine, text):
    machine.config.write_text(text)
    if machine.service and machine.service.poll() is None:
        os.kill(machine.service.pid, signal.SIGHUP)


def start(machine, text):
    configure(machine, text)
    return machine.agent("--config", machine.config)


def tries(machine):
    """A shell that says of each GPU whether it may be opened, without looking at CUDA_VISIBLE_DEVICES."""
    nodes = " ".join(str(machine.path(f"/dev/{name}")) for name in ("nvidia0", "nvidia1", "nvidiactl"))
    return f"for node in {nodes}; do (: < $node) 2>&1 | sed 's,.*: ,,'; done"


def test_a_user_gets_a_gpu_through_a_job_alone(box):
    before = modes(box)
    assert before["nvidia0"][0] & 0o006 == 0o006
    start(box, ON)
    wait_until(lambda: is_closed(box), what="closed nodes")
    outside = box.run("sh", "-c", tries(box), **be(ALICE))
    assert outside.out.count(MUST_NOT) == 3, outside
    for gpu in (0, 1):
        number = int(box.run("sluice", "run", "--detach", "--gpu-ids", gpu, "--", "sh", "-c",
                             tries(box), **be(ALICE)).ok().out)
        box.job_in(number, "Succeeded", **be(ALICE))
        said = box.run("sluice", "logs", number, **be(ALICE)).out.splitlines()
        expected = [MUST_NOT, MUST_NOT, MAY]
        expected[gpu] = MAY
        assert [MAY if MAY in line else line for line in said] == expected, said
    # One without a GPU opens none, and nobody has got the group.
    number = box.submit("sh", "-c", f"id -G; {tries(box)}", **be(ALICE))
    box.job_in(number, "Succeeded", **be(ALICE))
    said = box.run("sluice", "logs", number, **be(ALICE)).out
    assert said.count(MUST_NOT) == 3 and str(GROUP) not in said, said
    # Switched off: all is as it was.
    configure(box, OFF)
    wait_until(lambda: modes(box) == before, what="nodes as they were")


def test_what_a_driver_makes_anew_is_closed_again(box):
    start(box, ON)
    wait_until(lambda: is_closed(box), what="closed nodes")
    node = box.path("/dev/nvidia1")
    os.chmod(node, 0o666)
    os.chown(node, 0, 0)
    wait_until(lambda: is_closed(box), what="a node that was opened")
    device = node.stat().st_rdev
    node.unlink()
    os.mknod(node, stat.S_IFCHR | 0o666, device)
    os.chmod(node, 0o666)
    wait_until(lambda: is_closed(box), what="a node that was made anew")


def test_the_end_of_the_agent_opens_nothing(box):
    """Neither a crash nor an upgrade; --cleanup does, and so does a start with another configuration."""
    before = modes(box)
    agent = start(box, ON)
    wait_until(lambda: is_closed(box), what="closed nodes")
    agent.send_signal(signal.SIGKILL)
    agent.wait()
    assert is_closed(box)
    agent = start(box, ON)
    wait_until(lambda: is_closed(box))
    agent.send_signal(signal.SIGTERM)
    agent.wait()
    assert is_closed(box)
    reply = box.run("sluice", "agent", "--cleanup")
    assert reply.rc == 0 and "open again" in reply.out + reply.err, reply
    assert modes(box) == before
    agent = start(box, ON)
    wait_until(lambda: is_closed(box), what="closed nodes")
    agent.send_signal(signal.SIGKILL)
    agent.wait()
    start(box, OFF)
    wait_until(lambda: modes(box) == before, what="nodes as they were")


def test_gpus_that_are_not_the_queues_stay_open(box):
    start(box, f"sluice: {{devices: {{exclude: [0]}}, jobs: {{enforce: true, enforceGroup: '{GROUP}'}}}}")
    wait_until(lambda: modes(box)["nvidia1"] == (0o660, 0, GROUP), what="a closed node")
    assert modes(box)["nvidia0"][0] & 0o006 == 0o006
    assert modes(box)["nvidiactl"][0] & 0o006 == 0o006


def test_a_group_that_is_not_there(box):
    start(box, "sluice: {jobs: {enforce: true, enforceGroup: no-such-group-here}}")
    wait_until(lambda: modes(box)["nvidia0"] == (0o660, 0, 0), what="a closed node")
    status = box.run("sluice", "agent", "status").ok()
    assert "no group 'no-such-group-here'" in status.out + status.err


def test_workers_get_the_gpus_of_their_job(box):
    """Each command in a worker finds its own GPU's node and the control node, and not its neighbour's."""
    start(box, ON)
    wait_until(lambda: is_closed(box), what="closed nodes")
    number = int(box.run("sluice", "run", "--detach", "--workers", 2, "--mpi", "ranks", "--", "sh", "-c",
                         tries(box), **be(ALICE)).ok().out)
    box.job_in(number, "Succeeded", **be(ALICE))
    for worker in (0, 1):
        said = box.run("sluice", "logs", number, "--worker", worker, **be(ALICE)).out.splitlines()
        assert [MAY in line for line in said] == [worker == 0, worker == 1, True], said
