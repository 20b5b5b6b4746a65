# SPDX-License-Identifier: Apache-2.0
"""Containers for the tests: small root file systems, and OCI bundles that runc or crun runs as they are.

    box = Bundle(directory, image(directory / "rootfs"))
    box.config["process"]["args"] = ["/bin/sh", "-c", "echo hello"]
    assert box.run().ok().out == "hello\\n"

Nothing of the containers stays: each is deleted after its run, and the state of the runtime lies in the
test's own directory."""

import contextlib
import itertools
import json
import os
import pathlib
import shutil
import subprocess
import tempfile

import pytest

from conftest import SLUICE, Machine, Reply

BUSYBOX = shutil.which("busybox") or "busybox"
MULTIARCH = pathlib.Path("usr/lib/x86_64-linux-gnu")
TOOLS = ("sh", "cat", "ls", "stat", "id", "mknod", "grep", "sleep", "true", "test", "env", "readlink", "mount")
NUMBERS = itertools.count()
# Before crun, which refuses a hierarchy of both generations of control groups.
WITHOUT_UNIFIED = ("unshare", "-m", "sh", "-c",
                   '! mountpoint -q /sys/fs/cgroup/unified || umount /sys/fs/cgroup/unified; exec "$@"', "sh")


def needs(*programs):
    """Skips, loudly, when this computer cannot run such tests."""
    if os.geteuid() != 0:
        pytest.skip("needs root")
    for program in ("busybox", *programs):
        if not shutil.which(program):
            pytest.skip(f"{program} is not installed: tools/setup check runtimes")
    if subprocess.run(["ldd", BUSYBOX], capture_output=True, check=False).returncode == 0:
        pytest.skip("busybox is not a static one: tools/setup check")
    if subprocess.run(["unshare", "-m", "mount", "-t", "tmpfs", "none", "/mnt"],
                      capture_output=True, check=False).returncode != 0:
        pytest.skip("mount namespaces are not permitted here")


@contextlib.contextmanager
def simulated(profile, *options):
    """A machine that several tests only look at, with its specification where its runtimes look. On a disk: programs
    load its libraries and open its nodes, which memory file systems do not permit."""
    directory = pathlib.Path(tempfile.mkdtemp(prefix="sluice-"))
    directory.chmod(0o755)
    machine = Machine(directory)
    try:
        machine.start(profile, *options)
        specify(machine)
        yield machine
    finally:
        try:
            machine.stop()
        finally:
            shutil.rmtree(directory)


def specify(machine, *options):
    """`sluice cdi generate` into the machine's /var/run/cdi."""
    directory = machine.path("/var/run/cdi")
    directory.mkdir(parents=True, exist_ok=True)
    machine.run("sluice", "cdi", "generate", "--output", directory / "sluice.sim-gpu.json", *options).ok()


def image(root):
    """A root file system with a static shell and nothing else; no library, no loader, no ld.so.cache."""
    for name in ("bin", "etc", "proc", "sys", "dev", "tmp"):
        (root / name).mkdir(parents=True)
    shutil.copy(BUSYBOX, root / "bin/busybox")
    for name in TOOLS:
        (root / "bin" / name).symlink_to("busybox")
    return root


def node_names(machine):
    """What to put before a runtime that cannot make device nodes and mounts those of the host: there the machine's
    nodes have their final names. A user namespace gets no /proc and no /sys of its own while something is mounted on
    the parts of them that others see, so those are the real ones again."""
    undo = 'umount /proc/driver /proc/devices && umount -l /sys && exec "$@"'
    return (SLUICE, "sim", "exec", "--mounts", "--root", machine.root, "--state", machine.state, "--",
            "/bin/sh", "-c", undo, "sh")


def outside(pid, group):
    """The controllers for which a process is not below a control group of this name."""
    left = []
    for line in pathlib.Path(f"/proc/{pid}/cgroup").read_text().splitlines():
        _, controllers, path = line.split(":", 2)
        if f"/{group}/" not in f"{path}/":
            left += [name for name in controllers.split(",") if name in ("memory", "cpu", "pids", "devices", "")]
    return left


class Bundle:
    """A configuration, a root file system, and the runtime that brings them together."""

    def __init__(self, directory, rootfs, runtime="runc"):
        self.directory, self.runtime = pathlib.Path(directory), runtime
        self.directory.mkdir(parents=True, exist_ok=True)
        (self.directory / "config.json").unlink(missing_ok=True)
        subprocess.run([runtime, "spec"], cwd=self.directory, check=True, timeout=60)
        self.config = json.loads((self.directory / "config.json").read_text())
        self.config["root"] = {"path": str(rootfs), "readonly": False}
        self.config["process"]["terminal"] = False
        del self.config["process"]["rlimits"]  # raising them needs a capability that root may lack

    def shell(self, text):
        self.config["process"]["args"] = ["/bin/sh", "-c", text]
        return self

    def write(self):
        path = self.directory / "config.json"
        path.write_text(json.dumps(self.config))
        return path

    def give(self, machine, *names):
        """Applies CDI devices of the machine to the configuration."""
        arguments = [part for name in names for part in ("--device", name)]
        self.config = machine.run("sluice", "cdi", "check", "--apply", self.write(), *arguments).ok().json
        return self

    def run(self, *before, env=None, timeout=60):
        """Runs it to its end. `before`: a command line to put before that of the runtime."""
        self.write()
        name = f"sluice-test-{os.getpid()}-{next(NUMBERS)}"
        state = self.directory / "state"
        command = [*before, self.runtime, "--root", state, "run", "--bundle", self.directory, name]
        command = [str(part) for part in command]
        try:
            done = subprocess.run(command, env=env, stdin=subprocess.DEVNULL, capture_output=True, text=True,
                                  errors="replace", timeout=timeout, check=False)
        finally:
            subprocess.run([*map(str, before), self.runtime, "--root", state, "delete", "--force", name], env=env,
                           capture_output=True, timeout=60, check=False)
        return Reply(command, done.returncode, done.stdout, done.stderr)
