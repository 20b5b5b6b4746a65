# SPDX-License-Identifier: Apache-2.0
"""podman with the CDI devices of a simulated machine: what a container is given, seen from inside, and what podman says
when it cannot be given.

podman looks for specifications in /var/run/cdi alone, so it runs under `sluice sim exec --mounts`. Its configuration is
the one that works on a machine without systemd whose cgroups are of both generations. The nodes of --dev-style nvidia
have the driver's numbers and no driver: opening one that is allowed fails with ENXIO, one that is not with EPERM."""

import os
import shutil
import stat
import subprocess

import pytest

from conftest import SLUICE, Reply
from containers import MULTIARCH, WITHOUT_UNIFIED, image, needs, simulated, specify

IMAGE = "localhost/box:1"
ALLOWED, DENIED = "No such device or address", "Operation not permitted"
# podman raises limits, for which root may lack the capability; and no network is needed.
CONFIGURATION = """
[containers]
default_ulimits = ["nofile=1024:1024", "nproc=4096:4096"]
netns = "none"
[engine]
cgroup_manager = "cgroupfs"
runtime = "runc"
events_logger = "none"
"""
# crun refuses a hierarchy of both generations of cgroups
ONLY_CGROUP2 = 'umount -R /sys/fs/cgroup && mount -t cgroup2 none /sys/fs/cgroup && exec "$@"'


class Podman:
    """One with storage and state of its own, on a simulated machine."""

    def __init__(self, machine):
        self.machine, self.directory = machine, machine.directory / "podman"
        self.directory.mkdir()
        configuration = self.directory / "containers.conf"
        configuration.write_text(CONFIGURATION)
        self.env = {**machine.base, "CONTAINERS_CONF": str(configuration)}
        root = image(machine.directory / "box")
        tar = subprocess.run(["tar", "-C", root, "-c", "."], check=True, capture_output=True, timeout=60).stdout
        subprocess.run([*self.command(), "import", "-", IMAGE], env=self.env, input=tar, check=True,
                       capture_output=True, timeout=60)

    def command(self):
        return ["podman", "--root", str(self.directory / "root"), "--runroot", str(self.directory / "runroot"),
                "--tmpdir", str(self.directory / "tmp"), "--storage-driver", "vfs"]

    def run(self, devices, script, *options, runtime="runc", around="", timeout=60):
        """`podman run` of a shell with `devices`. `around`: a shell script in front of podman."""
        inside = ["/bin/sh", "-c", around, "sh"] if around else []
        command = [SLUICE, "sim", "exec", "--mounts", "--root", str(self.machine.root), "--state",
                   str(self.machine.state), "--", *inside, *self.command(), "--runtime", runtime, "run", "--rm",
                   "--log-driver", "passthrough",  # who attaches late to a short container sees nothing of it (podman 4.3.1)
                   *(part for device in devices for part in ("--device", f"sluice.sim/gpu={device}")), *options, IMAGE,
                   "/bin/sh", "-c", script]
        done = subprocess.run(command, env=self.env, stdin=subprocess.DEVNULL, capture_output=True, text=True,
                              errors="replace", timeout=timeout, check=False)
        return Reply(command, done.returncode, done.stdout, done.stderr)

    def remove(self):
        subprocess.run([*self.command(), "rm", "--all", "--force"], env=self.env, capture_output=True, check=False,
                       timeout=60)


@pytest.fixture(scope="module")
def podman():
    needs("podman", "runc", "conmon")
    with simulated("t4x4", "--gpus", "3", "--dev-style", "nvidia") as machine:
        made = Podman(machine)
        try:
            yield made
        finally:
            made.remove()


def nodes(reply):
    return sorted(word for word in reply.out.split() if word.startswith("/dev/nvidia") and word[-1].isdigit())


@pytest.mark.parametrize("runtime, around", [
    ("runc", ""), ("crun", WITHOUT_UNIFIED[-2]), ("runc", ONLY_CGROUP2)], ids=["runc", "crun", "cgroup2"])
def test_exactly_its_gpu(podman, runtime, around):
    """Variable, nodes, mounts, and EPERM on the other GPU, whose node root of the container makes itself."""
    numbers = os.stat(podman.machine.path("/dev/nvidia1")).st_rdev
    needs(runtime)
    reply = podman.run(
        ["0"], "echo void=$NVIDIA_VISIBLE_DEVICES; ls /dev/nvidia*; cat /dev/nvidia0; "
        f"mknod /tmp/other c {os.major(numbers)} {os.minor(numbers)} && cat /tmp/other; "
        "grep libcuda /proc/self/mountinfo",
        "--cap-add", "MKNOD", "--pids-limit", "-1", "--env", "NVIDIA_VISIBLE_DEVICES=all", runtime=runtime,
        around=around).ok()
    assert "void=void\n" in reply.out and nodes(reply) == ["/dev/nvidia0"], reply
    assert "/dev/nvidiactl\n" in reply.out and "/dev/nvidia-uvm\n" in reply.out
    assert f"'/dev/nvidia0': {ALLOWED}" in reply.err and f"'/tmp/other': {DENIED}" in reply.err, reply
    mounts = [line.split() for line in reply.out.splitlines() if " /usr/lib" in line]
    assert {mount[4] for mount in mounts} >= {f"/{MULTIARCH}/libcuda.so.1", "/usr/lib64/libcuda.so"}
    for mount in mounts:
        assert {"ro", "nosuid", "nodev"} <= set(mount[5].split(",")), mount


def test_several(podman):
    assert nodes(podman.run(["0", "2"], "ls /dev/nvidia*").ok()) == ["/dev/nvidia0", "/dev/nvidia2"]
    uuid = podman.machine.show()["gpus"][1]["uuid"]
    assert nodes(podman.run([uuid], "ls /dev/nvidia*").ok()) == ["/dev/nvidia1"]
    assert nodes(podman.run(["all"], "ls /dev/nvidia*").ok()) == [f"/dev/nvidia{n}" for n in range(3)]


def test_mode_and_group(podman):
    """podman makes nodes for everybody unless the specification says otherwise."""
    card = podman.machine.path("/dev/dri/card0")
    before = card.stat()
    try:
        os.chown(card, 0, 44)
        card.chmod(0o640)
        specify(podman.machine)
        reply = podman.run(["0"], "stat -c '%n %a %u %g' /dev/dri/card0 /dev/nvidia0").ok()
        assert reply.out == "/dev/dri/card0 640 0 44\n/dev/nvidia0 666 0 0\n", reply
    finally:
        os.chown(card, before.st_uid, before.st_gid)
        card.chmod(stat.S_IMODE(before.st_mode))
        specify(podman.machine)


def test_unknown_device(podman):
    """All that podman says; `sluice cdi check` says more."""
    reply = podman.run(["7"], "true")
    assert reply.rc != 0 and "unresolvable CDI devices sluice.sim/gpu=7" in reply.err, reply


def test_stale_source(podman):
    """A container is not started with less than it asked for."""
    library = podman.machine.path(MULTIARCH / "libcuda.so.1").resolve()
    library.rename(library.with_name("gone"))
    try:
        reply = podman.run(["0"], "echo started")
        assert reply.rc != 0 and "started" not in reply.out and library.name in reply.err, reply
    finally:
        library.with_name("gone").rename(library)
    podman.run(["0"], "true").ok()


USER = 21000
# What a user has whose account may use containers: an entry in each of these files, and a directory.
ACCOUNT = f"""
umount /proc/driver /proc/devices && umount -l /sys || exit 1
cd "$WORK" || exit 1
for name in passwd group subuid subgid; do
    cp /etc/$name $name && chmod 644 $name || exit 1
done
echo box:x:{USER}:{USER}::$WORK/home:/bin/sh >>passwd
echo box:x:{USER}: >>group
echo box:300000:65536 >>subuid
echo box:300000:65536 >>subgid
for name in passwd group subuid subgid; do
    mount --bind $name /etc/$name || exit 1
done
mkdir -p home runtime && chown {USER}:{USER} home runtime && chmod 700 runtime
exec env HOME="$WORK/home" XDG_RUNTIME_DIR="$WORK/runtime" setpriv --reuid {USER} --regid {USER} --clear-groups \
    --inh-caps=-all sh -c "$1"
"""


def test_rootless(podman):
    """An ordinary user: the nodes are mounted, from where they have the same name outside."""
    needs("newuidmap", "setpriv")
    machine = podman.machine
    work = machine.directory / "rootless"
    work.mkdir()
    shutil.copytree(machine.directory / "box", work / "box", symlinks=True)
    specification = machine.path("/var/run/cdi/sluice.sim-gpu.json")
    machine.run("sluice", "sim", "exec", "--mounts", "--root", machine.root, "--state", machine.state, "--", SLUICE,
                "cdi", "generate", "--dev-root", "/", "--output", specification).ok()
    run = "podman --storage-driver vfs --cgroup-manager cgroupfs --events-backend none --runtime runc"
    script = (f"tar -C box -c . | {run} import - {IMAGE} >/dev/null && {run} run --rm --network none "
              f"--device sluice.sim/gpu=1 {IMAGE} /bin/sh -c 'id -u; ls /dev/nvidia*; cat /dev/nvidia1; "
              f"cat /{MULTIARCH}/libcuda.so.1 | grep -c ELF'; kill $(cat runtime/libpod/tmp/pause.pid)")
    try:
        done = subprocess.run(
            [SLUICE, "sim", "exec", "--mounts", "--root", machine.root, "--state", machine.state, "--", "/bin/sh", "-c",
             ACCOUNT, "sh", script], env={**machine.base, "WORK": str(work)}, capture_output=True, text=True,
            stdin=subprocess.DEVNULL, check=False, timeout=120)
        reply = Reply(["podman", "as", "an", "ordinary", "user"], done.returncode, done.stdout, done.stderr)
        assert reply.out.startswith("0\n") and nodes(reply) == ["/dev/nvidia1"], reply
        assert f"'/dev/nvidia1': {ALLOWED}" in reply.err and reply.out.endswith("\n1\n"), reply
    finally:
        specify(machine)
