# SPDX-License-Identifier: Apache-2.0
"""What the tests of packages share: the package that `tools/deb` built, and a bare Debian 12 to put it into.

    def test_something(bare):
        bare.install()
        assert bare.run("sluice", "--version").out

A bare Debian is a layer over one tree of debootstrap, with processes of its own; both are gone afterwards. There are
two: one of the fewest packages that a Debian has, and one with systemd's tools, which packages use where they are."""

import os
import pathlib
import shutil
import signal
import subprocess
import tempfile
import time

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILT = ROOT / "build" / "deb"
BASES = ROOT / "build" / "packages"
MIRROR = os.environ.get("DEBIAN_MIRROR", "http://deb.debian.org/debian")
DEADLINE_S = 60
COUNTS = {"passed": 0, "failed": 0}


def pytest_runtest_logreport(report):
    if report.failed:
        COUNTS["failed"] += 1
    elif report.passed and report.when == "call":
        COUNTS["passed"] += 1


def pytest_unconfigure(config):
    print("{passed} passed, {failed} failed".format(**COUNTS))


class Reply:
    """What a command returned."""

    def __init__(self, command, done):
        self.command, self.rc, self.out, self.err = command, done.returncode, done.stdout, done.stderr

    def __repr__(self):
        return f"{' '.join(map(str, self.command))} -> {self.rc}\n{self.out}{self.err}"


def run(*command, rc=0, timeout=DEADLINE_S, **how):
    """Runs a command; asserts its exit code unless `rc` is None."""
    command = [str(part) for part in command]
    done = subprocess.run(command, capture_output=True, text=True, errors="replace", timeout=timeout, check=False,
                          **{"stdin": subprocess.DEVNULL, **how})
    reply = Reply(command, done)
    assert rc is None or reply.rc == rc, f"{reply}"
    return reply


def wait_until(condition, what, deadline_s=DEADLINE_S):
    end = time.monotonic() + deadline_s
    while not condition():
        assert time.monotonic() < end, f"{what} did not come true in {deadline_s} s"
        time.sleep(0.02)


def package():
    """The built package of this tree."""
    found = sorted(BUILT.glob("sluice_*.deb"))
    assert len(found) == 1, f"{BUILT} holds {found}: run tools/deb"
    return found[0]


# Name of a tree, and what debootstrap is to put into it as well.
TREES = {"bookworm": [], "bookworm-systemd": ["--include=systemd"]}


def base(name):
    """A tree of debootstrap, made once."""
    tree = BASES / name
    if not (tree / "etc/debian_version").exists():
        made = tree.with_suffix(".new")
        shutil.rmtree(made, ignore_errors=True)
        made.parent.mkdir(parents=True, exist_ok=True)
        run("debootstrap", "--variant=minbase", *TREES[name], "bookworm", made, MIRROR, timeout=600)
        run("chroot", made, "apt-get", "-q", "update", timeout=300)
        made.rename(tree)
    return tree


# The first process: it waits for whoever is orphaned, and it ends with the test.
INIT = """
set -e
mount -t overlay overlay -o lowerdir=$1,upperdir=$2/upper,workdir=$2/work $2/root
mount -t proc proc $2/root/proc
mount -t tmpfs -o mode=1777 tmpfs $2/root/dev/shm
exec chroot $2/root /bin/sh -c 'trap : TERM; echo up; sleep 3600 & wait'
"""


class Bare:
    """A Debian 12 without our package; its own processes and mounts, the network of this machine."""

    def __init__(self, directory, tree):
        self.directory = pathlib.Path(directory)
        self.has_systemd = "systemd" in tree
        for name in ("upper", "work", "root"):
            (self.directory / name).mkdir()
        self.outer = subprocess.Popen(
            ["unshare", "--mount", "--pid", "--ipc", "--uts", "--fork", "--kill-child", "sh", "-c", INIT, "init",
             base(tree), self.directory], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True)
        assert self.outer.stdout.readline() == "up\n"
        children = pathlib.Path(f"/proc/{self.outer.pid}/task/{self.outer.pid}/children")
        self.init = int(children.read_text())
        self.root = pathlib.Path(f"/proc/{self.init}/root")

    def close(self):
        self.outer.send_signal(signal.SIGKILL)
        self.outer.wait()
        shutil.rmtree(self.directory)

    def enter(self, *command):
        return ["nsenter", f"--target={self.init}", "--mount", "--pid", "--ipc", "--uts", "--root", "env",
                "-i", "--chdir=/", "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "HOME=/root",
                "DEBIAN_FRONTEND=noninteractive", "LC_ALL=C.UTF-8", *map(str, command)]

    def run(self, *command, **how):
        return run(*self.enter(*command), **how)

    def path(self, name):
        """A file in it, as seen from here; links that begin with / are not for such paths."""
        return self.root / name.lstrip("/")

    def install(self, deb=None):
        deb = deb or package()
        shutil.copy(deb, self.path("/var/tmp/sluice.deb"))
        reply = self.run("apt-get", "-q", "install", "-y", "--no-install-recommends", "/var/tmp/sluice.deb", timeout=300)
        self.path("/var/tmp/sluice.deb").unlink()
        self.check_apt()
        return reply

    def check_apt(self):
        """No package is left half installed, and the next run of apt is not stopped by what this one left."""
        assert self.run("dpkg", "--audit").out == ""
        self.run("apt-get", "-q", "install", "-y", "--reinstall", "hostname", timeout=300)

    def agent(self):
        """Starts the service as its unit does, on the simulated machine; its Popen."""
        log = open(self.directory / "agent.log", "ab")
        ready, writer = os.pipe()
        command = self.enter("sluice", "sim", "exec", "--", "sluice", "agent", "--ready-fd", writer)
        service = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, pass_fds=(writer,))
        os.close(writer)
        log.close()
        with os.fdopen(ready, "rb") as pipe:
            assert pipe.read(1), (self.directory / "agent.log").read_text(errors="replace")
        return service

    @staticmethod
    def stop(service):
        """Ends it as its unit does: its main process alone is told to."""
        children = pathlib.Path(f"/proc/{service.pid}/task/{service.pid}/children").read_text().split()
        assert len(children) == 1
        os.kill(int(children[0]), signal.SIGTERM)
        service.wait(timeout=DEADLINE_S)


def needs_root():
    if os.geteuid() != 0:
        pytest.skip("needs root")


def needs(*programs):
    for program in programs:
        if not shutil.which(program):
            pytest.skip(f"{program} is not installed: tools/setup packages")


@pytest.fixture(scope="session")
def rpm():
    """The RPM of this tree, built once."""
    needs("rpmbuild", "rpm2cpio")
    directory = pathlib.Path(tempfile.mkdtemp(prefix="sluice-", dir="/var/tmp"))
    try:
        run(ROOT / "tools/rpm", "--output", directory / "rpm", timeout=900)
        made, = (directory / "rpm").glob("RPMS/*/sluice-[0-9]*.rpm")
        yield made
    finally:
        shutil.rmtree(directory)


@pytest.fixture(scope="module", params=sorted(TREES))
def bare(request):
    needs_root()
    needs("debootstrap", "unshare", "nsenter")
    box = Bare(tempfile.mkdtemp(prefix="sluice-", dir="/var/tmp"), request.param)
    try:
        yield box
    finally:
        box.close()
