# SPDX-License-Identifier: Apache-2.0
"""What README.md says of two users and one GPU, done as it stands there: a container of Alice's and a plain program of
Bob's share a GPU, and neither reaches another, nor the other's job.

Nobody is added to this machine's users: the service, and with it the jobs, see files of the test's own in /etc. The image
is one that Alice's podman has already."""

import os
import pathlib
import re
import subprocess

import pytest

from conftest import SLUICE, wait_until
from containers import image, needs

README = pathlib.Path(__file__).parents[2] / "README.md"
ALICE, BOB = 4242, 4343
OPENED, DENIED = "No such device or address", "Operation not permitted"  # there is no driver behind the nodes
# A user namespace gets no /proc and /sys of its own while something is mounted on the parts that others see.
PRELUDE = """
umount /proc/driver /proc/devices; umount -l /sys
for name in passwd group subuid subgid; do mount --bind "{0}/$name" "/etc/$name"; done
"""


def commands():
    """The commands of the section: those of root's, Alice's and Bob's."""
    section = README.read_text().split("### Two users, one GPU")[1].split("\n##")[0]
    lines = [line[4:] for line in section.splitlines() if line.startswith("    ")]
    by_user = {user: [re.sub(r"\s+#.*", "", line[len(user) + 2:]) for line in lines if line.startswith(f"{user}$ ")]
               for user in ("alice", "bob")}
    return [line for line in lines if not re.match("(alice|bob)[$] ", line)], by_user


@pytest.fixture
def lab(machine_factory):
    needs("podman", "runc", "conmon", "newuidmap", "setpriv")
    machine = machine_factory(opens_nodes=True)
    machine.start("dgx-a100", "--gpus", "2", "--dev-style", "nvidia")
    machine.path("/var/run/cdi").mkdir(parents=True)
    etc, home = machine.directory / "etc", machine.directory / "alice"
    etc.mkdir()
    for name, line in (("passwd", "{0}:x:{1}:{1}::{2}:/bin/sh"), ("group", "{0}:x:{1}:")):
        text = pathlib.Path("/etc", name).read_text()
        for user, uid, where in (("alice", ALICE, home), ("bob", BOB, "/")):
            text += line.format(user, uid, where) + "\n"
        (etc / name).write_text(text)
    for name in ("subuid", "subgid"):
        (etc / name).write_text("alice:200000:65536\n")
    for name in ("run", "xdg"):
        (home / name).mkdir(parents=True)
    (home / "storage.conf").write_text(f'[storage]\ndriver = "vfs"\ngraphroot = "{home}/graph"\n'
                                       f'rootless_storage_path = "{home}/graph"\nrunroot = "{home}/run/podman"\n')
    (home / "containers.conf").write_text('[containers]\nnetns = "none"\n[engine]\nevents_logger = "none"\n')
    for path in (home, *home.rglob("*")):
        os.chown(path, ALICE, ALICE)
    machine.alice = {"HOME": str(home), "XDG_RUNTIME_DIR": f"{home}/xdg", "CONTAINERS_CONF": f"{home}/containers.conf",
                     "CONTAINERS_STORAGE_CONF": f"{home}/storage.conf"}
    if subprocess.run(["setpriv", "--reuid", str(BOB), "--clear-groups", SLUICE, "--version"],
                      capture_output=True, check=False).returncode != 0:
        pytest.skip(f"other users cannot execute {SLUICE}")
    prepare = machine.directory / "prelude"
    prepare.write_text(PRELUDE.format(etc))
    machine.around = ["sluice", "sim", "exec", "--mounts", "--root", machine.root, "--state", machine.state, "--"]
    tar = machine.directory / "box.tar"
    subprocess.run(["tar", "-C", image(machine.directory / "box"), "-cf", tar, "."], check=True, timeout=60)
    # What fetching the image of the README would do.
    machine.run(*machine.around, "/bin/sh", "-c",
                f". {prepare}; exec setpriv --reuid {ALICE} --regid {ALICE} --clear-groups --inh-caps=-all /bin/sh -c "
                f"'podman --runtime runc import {tar} docker.io/library/debian:12 && podman --runtime runc system migrate'",
                env=machine.alice, cwd="/", timeout=120).ok()
    config = machine.directory / "config.yaml"
    [setup], machine.said = commands()
    write, _, place = setup.partition(" | sudo tee ")
    assert place == "/etc/sluice/config.yaml"
    subprocess.run(["/bin/sh", "-c", f"{write} >{config}"], check=True)
    program = machine.directory / "sluice-mounted"
    program.write_text(f'#!/bin/sh\nexec "{SLUICE}" sim exec --root "{machine.root}" --state "{machine.state}" --mounts '
                       f"-- /bin/sh -c '. {prepare}; exec \"$0\" \"$@\"' \"{SLUICE}\" \"$@\"\n")
    program.chmod(0o755)
    machine.agent("--config", config, program=str(program))
    yield machine
    for job in machine.run("sluice", "jobs", "--output", "json").ok().json["jobs"]:
        machine.run("sluice", "cancel", "--now", "--quiet", job["id"])
        machine.job_in(job["id"], "Cancelled")


def typed(machine, uid, line):
    """The line, as this user types it."""
    path = f"{pathlib.Path(SLUICE).parent}:{machine.env['PATH']}"
    return machine.run("/bin/sh", "-c", line, user=uid, group=uid, extra_groups=[], cwd="/",
                       env={"PATH": path, **(machine.alice if uid == ALICE else {})})


def test_the_readme(lab):
    [container] = lab.said["alice"]
    plain, jobs, own, others = lab.said["bob"]
    assert typed(lab, ALICE, container).ok().out == "1\n"
    assert typed(lab, BOB, plain).ok().out == "2\n"
    for number in (1, 2):
        lab.job_in(number, "Running")
    wait_until(lambda: lab.run("sluice", "logs", "-o", 1).out and
               len(lab.run("sluice", "logs", "--stderr", 2).out.splitlines()) == 2,
               what="what both have to say", deadline_s=20)
    first, second = lab.job(1), lab.job(2)
    [gpu] = first["attempt"]["gpus"]
    assert [one["uuid"] for one in second["attempt"]["gpus"]] == [gpu["uuid"]]
    assert (first["user"], second["user"]) != (second["user"], first["user"])
    assert lab.run("sluice", "logs", "-o", 1).out == f"/dev/nvidia{gpu['gpu_index']}\n"
    assert first["attempt"]["isolation"] == "container", first["attempt"]["isolation_reason"]
    listed = typed(lab, BOB, jobs).ok().out
    assert "alice" in listed or str(ALICE) in listed
    assert "debian" not in listed  # what Alice runs is hers
    reply = typed(lab, BOB, own).ok()
    assert gpu["uuid"] in reply.out
    reply = typed(lab, BOB, others)
    assert reply.rc == 77 and "belongs to" in reply.err
    assert typed(lab, BOB, "sluice cancel 1").rc == 77

    assert second["attempt"]["isolation"] in ("cgroup1", "cgroup2"), second["attempt"]["isolation_reason"]
    said = lab.run("sluice", "logs", "--stderr", 2).out.splitlines()
    for index in range(2):
        [line] = [line for line in said if f"/dev/nvidia{index}" in line]
        assert (OPENED if index == gpu["gpu_index"] else DENIED) in line
    assert typed(lab, ALICE, "sluice cancel --now 1").rc == 0
    lab.job_in(1, "Cancelled")
    assert lab.job(2)["state"] == "Running"
