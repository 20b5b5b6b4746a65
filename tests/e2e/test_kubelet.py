# SPDX-License-Identifier: Apache-2.0
"""The kubelet door of the service, against a kubelet that comes, dies and comes again."""

import os
import random
import shutil
import signal
import socket
import subprocess
import threading
import time

import pytest

from conftest import DEADLINE_S, wait_until
from kubelet import STEPS, Kubelet, Plugin, grpc, sockets
from test_agent_patience import HANGING_SYNC

RESTARTS = int(os.environ.get("KUBELET_RESTARTS", "200"))
SEED = int(os.environ.get("KUBELET_SEED", "7"))


def kubelet_of(machine, **how):
    directory = machine.path("/var/lib/kubelet/device-plugins")
    directory.mkdir(parents=True, exist_ok=True)
    return Kubelet(directory, **how)


@pytest.fixture
def kubelets():
    made = []
    yield made
    for kubelet in made:
        kubelet.die()


@pytest.fixture
def node(machine, kubelets):
    """A machine of eight GPUs with a kubelet; its service does not run yet."""
    machine.start("dgx-a100")
    kubelets.append(kubelet_of(machine))
    machine.kubelet = kubelets[0]
    return machine


def status_of(machine):
    return machine.run("sluice", "agent", "status", "-o", "json").ok().json


def status(machine):
    return status_of(machine)["kubelet"]


def resources(machine):
    """Those of the kubelet door; none before it is open."""
    return (status(machine) or {"resources": []})["resources"]


def test_registered_listed_allocated(node):
    node.kubelet.start()
    node.agent()
    endpoint = node.kubelet.wait(8)
    uuids = {gpu["uuid"] for gpu in node.show()["gpus"]}
    assert set(endpoint.devices) == uuids
    uuid = sorted(uuids)[3]
    assert endpoint.allocate(uuid).envs[0].value == uuid
    told = status(node)
    assert told["socket"] == str(node.kubelet.socket)
    assert [(r["name"], r["endpoint"], r["state"], r["devices"], r["healthy"], r["allocations"],
             r["registrations"], r["problem"]) for r in told["resources"]] == [
        ("nvidia.com/gpu", "nvidia-gpu.sock", "attached", 8, 8, 1, 1, None)]
    text = node.run("sluice", "agent", "status").ok().out
    assert "nvidia.com/gpu: attached, 8 of 8 devices healthy, 1 allocations" in text


def test_the_kubelet_comes_later(node):
    node.agent()
    wait_until(lambda: resources(node), what="a resource")
    assert "no kubelet" in resources(node)[0]["problem"]
    node.kubelet.start()
    node.kubelet.wait(8)


def test_the_directory_comes_later(machine, kubelets):
    machine.start("dgx-a100")
    machine.agent()
    assert status(machine) is None
    kubelets.append(kubelet_of(machine))
    kubelets[0].start()
    kubelets[0].wait(8)


def test_the_directory_is_replaced(node):
    node.kubelet.start()
    node.agent()
    node.kubelet.wait(8)
    for _ in range(3):
        node.kubelet.die()
        os.rename(node.kubelet.directory, f"{node.kubelet.directory}.old")
        shutil.rmtree(f"{node.kubelet.directory}.old")
        node.kubelet.start()
        node.kubelet.wait(8, deadline_s=5)


def test_the_directory_is_a_link(machine, kubelets, tmp_path):
    """To another disk, say; no event tells that it leads elsewhere by now."""
    machine.start("dgx-a100")
    link = machine.path("/var/lib/kubelet/device-plugins")
    link.parent.mkdir(parents=True, exist_ok=True)
    kubelets.append(Kubelet(link))
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        kubelets[0].die()
        link.unlink(missing_ok=True)
        link.symlink_to(tmp_path / name)
        kubelets[0].start()
        if name == "one":
            machine.agent()
        kubelets[0].wait(8)
        assert "nvidia-gpu.sock" in os.listdir(tmp_path / name)


def test_a_full_disk(machine, kubelets):
    """It is said, and tried again until there is room."""
    machine.start("dgx-a100")
    directory = machine.path("/var/lib/kubelet/device-plugins")
    directory.mkdir(parents=True)
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "nr_inodes=4", "none", directory],
                      stderr=subprocess.DEVNULL, check=False).returncode != 0:
        pytest.skip("may not mount")
    try:
        kubelets.append(Kubelet(directory))
        kubelets[0].start()
        filler = [directory / f"filler-{number}" for number in range(8)]
        with pytest.raises(OSError, match="No space left"):
            for path in filler:
                path.touch()
        machine.agent()
        wait_until(lambda: any("No space left" in (resource["problem"] or "")
                               for resource in resources(machine)), what="its problem")
        filler[0].unlink()
        kubelets[0].wait(8)
    finally:
        subprocess.run(["umount", "-l", directory], check=True)


def test_a_directory_that_goes_gives_nothing_away(node):
    """A GPU that the kubelet's containers may have is not the queue's for a moment."""
    node.kubelet.start()
    agent = node.agent()
    node.kubelet.wait(8)
    node.kubelet.die()
    shutil.rmtree(node.kubelet.directory)
    reread = status_of(node)["configured_unix_ns"]
    agent.send_signal(signal.SIGHUP)
    wait_until(lambda: status_of(node)["configured_unix_ns"] > reread, what="a reload")
    assert [(r["name"], r["devices"]) for r in resources(node)] == [("nvidia.com/gpu", 8)]
    reply = node.run("sluice", "run", "--detach", "--gpus", "1", "--", "true")
    assert reply.rc != 0, f"{reply}"


def test_registered_before_the_disk_answers(node):
    """What else the service opens at its start may take its time. On a busy machine the GPUs are not
    always known soon enough, and then the disk is waited for: one of several starts is enough."""
    compiler = shutil.which("cc") or pytest.skip("needs a compiler")
    source, library = node.directory / "hang.c", node.directory / "hang.so"
    source.write_text(HANGING_SYNC)
    subprocess.run([compiler, "-shared", "-fPIC", "-o", str(library), str(source), "-ldl"],
                   check=True, timeout=DEADLINE_S)
    hang = node.directory / "hang"
    hang.touch()
    node.kubelet.start()
    for attempt in range(8):
        agent = node.spawn("sluice", "agent", "--state-dir", node.directory / f"disk-{attempt}",
                           env={"LD_PRELOAD": str(library), "HANG_FILE": str(hang)},
                           stdin=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            node.kubelet.wait(8, deadline_s=2)
            break
        except AssertionError:
            agent.kill()
            agent.wait()
    node.kubelet.wait(8, deadline_s=2)
    assert node.run("sluice", "agent", "status").rc != 0
    hang.unlink()
    wait_until(lambda: node.run("sluice", "agent", "status").rc == 0, what="an answer")
    assert resources(node)[0]["state"] == "attached"
    agent.terminate()
    assert agent.wait(timeout=20) == 0


def test_restarts_at_random_points(node):
    dice = random.Random(SEED)
    node.agent()
    node.kubelet.start()
    for count in range(RESTARTS):
        step = dice.choice((*STEPS, None))
        delay = dice.choice((0, 0, 0.001, 0.005, 0.02))
        node.kubelet.die_at = None
        node.kubelet.die()
        node.kubelet.start(die_at=step)
        time.sleep(delay)
        if count % 20 == 19:
            node.kubelet.die()
            node.kubelet.start()
            endpoint = node.kubelet.wait(8)
            # It stays so.
            assert not endpoint.ended.wait(0.1)
            assert endpoint.allocate(*list(endpoint.devices)[:2]).envs
    # The list may be there before the registration is answered.
    wait_until(lambda: [(r["state"], r["devices"], r["healthy"]) for r in resources(node)] == [
        ("attached", 8, 8)], what="an attached resource")


def test_a_careless_kubelet(machine, kubelets):
    """A newer registration must not be taken down by the end of the older stream."""
    machine.start("dgx-a100")
    kubelets.append(kubelet_of(machine, careless=True))
    kubelet = kubelets[0].start()
    agent = machine.agent()
    kubelet.wait(8)
    for _ in range(20):
        count = len(kubelet.requests)
        agent.send_signal(signal.SIGHUP)
        wait_until(lambda: len(kubelet.requests) > count, what="another registration")
        kubelet.wait(8, deadline_s=5)


def test_the_agent_is_killed(node):
    node.kubelet.start()
    for _ in range(5):
        agent = node.agent()
        node.kubelet.wait(8)
        agent.kill()
        agent.wait()
        wait_until(lambda: node.kubelet.resource() is None, what="the end of the stream")
        assert sockets(node.kubelet.directory) == ["kubelet.sock", "nvidia-gpu.sock"]
    agent = node.agent()
    node.kubelet.wait(8)
    agent.terminate()
    assert agent.wait(timeout=20) == 0
    assert sockets(node.kubelet.directory) == ["kubelet.sock"]


def test_our_socket_is_removed(node):
    node.kubelet.start()
    node.agent()
    first = node.kubelet.wait(8)
    (node.kubelet.directory / "nvidia-gpu.sock").unlink()
    assert first.ended.wait(5)
    second = node.kubelet.wait(8)
    assert second is not first
    assert second.allocate(next(iter(second.devices))).envs


@pytest.mark.parametrize("careless", [False, True, "deaf"])
def test_a_rolling_update(machine, kubelets, careless):
    """The plugin before us ends only after we have come: not without devices in the end."""
    machine.start("dgx-a100")
    kubelets.append(kubelet_of(machine, careless=careless))
    kubelet = kubelets[0].start()
    other = Plugin(kubelet.directory, "GPU-old")
    other.register()
    kubelet.wait(1)
    machine.agent()
    kubelet.wait(8)
    assert "another device plugin serves" in resources(machine)[0]["problem"]
    other.stop()
    wait_until(lambda: sockets(kubelet.directory) == ["kubelet.sock", "nvidia-gpu.sock"],
               what="our socket, made again")
    endpoint = kubelet.settled(8)
    assert endpoint.allocate(next(iter(endpoint.devices))).envs


def test_an_end_that_nobody_sees(machine, kubelets):
    """Our socket and our stream are as they were, and the kubelet has forgotten us."""
    machine.start("dgx-a100")
    kubelets.append(kubelet_of(machine, careless="deaf"))
    kubelet = kubelets[0].start()
    other = Plugin(kubelet.directory, "GPU-old")
    other.register()
    kubelet.wait(1)
    machine.agent()
    kubelet.wait(8)
    other.stop(unlink=False)
    wait_until(lambda: kubelet.resource() is None, what="a kubelet that has forgotten us")
    kubelet.wait(8)


def test_another_plugin_comes(node):
    """Somebody starts one beside us: we are the last to register."""
    node.kubelet.start()
    node.agent()
    node.kubelet.wait(8)
    other = Plugin(node.kubelet.directory, "GPU-new")
    other.register()
    node.kubelet.wait(8)
    other.stop()
    node.kubelet.wait(8)
    wait_until(lambda: sockets(node.kubelet.directory) == ["kubelet.sock", "nvidia-gpu.sock"],
               what="our socket, made again")
    node.kubelet.settled(8)


def test_mig_devices(machine, kubelets, tmp_path):
    """56 instances, each with its nodes."""
    config = tmp_path / "config.yaml"
    config.write_text("version: v1\nflags: {migStrategy: mixed, plugin: {passDeviceSpecs: true}}\n")
    machine.start("dgx-a100", "--mig", "single")
    kubelets.append(kubelet_of(machine))
    kubelet = kubelets[0].start()
    machine.agent("--config", config)
    endpoint = kubelet.wait(56, "nvidia.com/mig-1g.5gb")
    reply = endpoint.allocate(next(iter(endpoint.devices)))
    assert len([spec for spec in reply.devices if "nvidia-caps" in spec.host_path]) == 2


@pytest.mark.parametrize("what", ["file", "directory", "link"])
def test_no_socket_of_a_kubelet(node, what):
    """What is no kubelet's socket is a problem in the status, and is tried again."""
    if what == "file":
        node.kubelet.socket.write_text("")
    elif what == "directory":
        node.kubelet.socket.mkdir()
    else:
        node.kubelet.socket.symlink_to("/nowhere")
    node.agent()
    told = wait_until(lambda: [r for r in resources(node) if r["problem"]],
                      what="a problem")
    assert told[0]["state"] == "waiting"
    assert "kubelet.sock" in told[0]["problem"]
    if what == "directory":
        node.kubelet.socket.rmdir()
    else:
        node.kubelet.socket.unlink()
    node.kubelet.start()
    node.kubelet.wait(8)


def test_nothing_is_registered(node):
    node.kubelet.start()
    node.agent("--kubelet-socket", "")
    wait_until(lambda: "nvidia-gpu.sock" in sockets(node.kubelet.directory), what="our socket")
    wait_until(lambda: resources(node), what="a resource")
    assert not node.kubelet.requests
    assert resources(node)[0]["state"] == "waiting"


def test_another_place(machine, kubelets, tmp_path):
    machine.start("dgx-a100")
    # longer than the address of a socket
    directory = machine.path("/" + "d" * 120)
    directory.mkdir()
    short = machine.path("/k")
    short.symlink_to(directory)
    kubelets.append(Kubelet(short))
    kubelets[0].start()
    machine.agent("--kubelet-socket", directory / "kubelet.sock")
    kubelets[0].wait(8)


def test_resources_come_and_go(node, tmp_path):
    """Only what changed is touched; what goes is empty first."""
    config = tmp_path / "config.yaml"
    config.write_text("version: v1\n")
    node.kubelet.start()
    agent = node.agent("--config", config)
    first = node.kubelet.wait(8)
    config.write_text("version: v1\nsharing: {timeSlicing: {resources: "
                      "[{name: nvidia.com/gpu, rename: nvidia.com/small, replicas: 4,"
                      " devices: [0, 1]}]}}\n")
    agent.send_signal(signal.SIGHUP)
    node.kubelet.wait(8, "nvidia.com/small")
    node.kubelet.wait(6)
    small = node.kubelet.resource("nvidia.com/small")
    config.write_text("version: v1\n")
    agent.send_signal(signal.SIGHUP)
    node.kubelet.wait(8)
    assert small.ended.wait(5)
    assert small.lists[-1] == []
    assert first.lists[0] == first.lists[-1] or len(first.lists) > 1
    assert sockets(node.kubelet.directory) == ["kubelet.sock", "nvidia-gpu.sock"]


def test_sharing_changes_while_devices_are_allocated(node, tmp_path):
    """The stream stays open, and only a device that is gone meanwhile is refused."""
    config, new = tmp_path / "config.yaml", tmp_path / "new"

    def share(replicas):
        new.write_text("version: v1\nsharing: {timeSlicing: {resources: "
                       f"[{{name: nvidia.com/gpu, replicas: {replicas}}}]}}}}\n")
        new.rename(config)

    share(4)
    node.kubelet.start()
    node.agent("--config", config)
    endpoint = node.kubelet.wait(32)
    refused, over = [], threading.Event()

    def allocate():
        while not over.is_set():
            device = random.choice(sorted(endpoint.devices))
            try:
                assert endpoint.allocate(device).envs[0].value == device.split("::")[0]
            except grpc.RpcError as error:
                refused.append(error.details())

    threads = [threading.Thread(target=allocate) for _ in range(4)]
    for thread in threads:
        thread.start()
    try:
        for replicas in (7, 4) * 3:
            share(replicas)
            node.kubelet.wait(8 * replicas)
    finally:
        over.set()
        for thread in threads:
            thread.join()
    assert all("invalid request: unknown device: " in text for text in refused), refused
    assert not endpoint.ended.is_set()


def test_an_xid_marks_every_replica(node, tmp_path):
    """And only those of its GPU; on the stream that is open."""
    config = tmp_path / "config.yaml"
    config.write_text("version: v1\nsharing: {timeSlicing: {resources: "
                      "[{name: nvidia.com/gpu, replicas: 5}]}}\n")
    node.kubelet.start()
    node.agent("--config", config)
    endpoint = node.kubelet.wait(40)
    uuid = node.show()["gpus"][3]["uuid"]
    node.sim("inject", "xid", "79", "--gpu", "3")
    marked = {f"{uuid}::{replica}" for replica in range(5)}
    wait_until(lambda: {device for device, health in endpoint.devices.items()
                        if health == "Unhealthy"} == marked, what="five unhealthy devices")
    assert len(endpoint.devices) == 40
    assert not endpoint.ended.is_set()


def test_without_driver(node):
    """The devices stay, all unhealthy; and are well again with the driver."""
    node.kubelet.start()
    node.agent()
    endpoint = node.kubelet.wait(8)
    node.sim("inject", "no-driver")
    wait_until(lambda: set(endpoint.devices.values()) == {"Unhealthy"}, what="unhealthy devices")
    assert len(endpoint.devices) == 8
    node.sim("heal")
    node.kubelet.wait(8)
    assert not endpoint.ended.is_set()


def test_a_killed_agent_leaves_no_sockets_to_whoever_comes_next(node):
    """Its cleanup removes them, and those of another plugin stay."""
    node.kubelet.start()
    agent = node.agent()
    node.kubelet.wait(8)
    ours = node.kubelet.directory / "nvidia-gpu.sock"
    noted = node.state_dir / "kubelet-sockets"
    wait_until(lambda: noted.exists() and str(ours) in noted.read_text(), what="the note")
    other = node.kubelet.directory / "nvidia-mig-1g.5gb.sock"
    foreign = socket.socket(socket.AF_UNIX)
    foreign.bind(str(other))
    foreign.close()
    agent.kill()
    agent.wait(DEADLINE_S)
    assert ours.is_socket()
    said = node.run("sluice", "agent", "--cleanup", "--purge").ok().out
    assert f"removed: '{ours}'" in said and not ours.exists() and other.is_socket(), said
