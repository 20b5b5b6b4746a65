# SPDX-License-Identifier: Apache-2.0
"""Shared helpers of the end-to-end tests: a private simulated machine for each test.

    def test_something(machine):
        machine.start("dgx-a100", "--gpus", "2")
        reply = machine.run("sluice", "devices", "--output", "json")
        assert reply.rc == 0
        truth = machine.show()
        machine.sim("inject", "xid", "79", "--gpu", "1")

Nothing lies outside the test's own temporary directory, so tests run in parallel, beside a real
driver, as root or not. A program of the machine sees the simulated library only: the variables of
`sluice sim env` are set, and with them sluice refuses to load any other.
"""

import json
import os
import pathlib
import shutil
import signal
import subprocess
import tempfile
import time

import pytest

import cgroups

# A nohup around the tests would have every program here ignore it.
signal.signal(signal.SIGHUP, signal.SIG_DFL)

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = pathlib.Path(os.environ.get("MESON_BUILD_ROOT", ROOT / "build"))
SLUICE = os.environ.get("SLUICE_BIN", str(BUILD / "src" / "cmd" / "sluice"))
DEADLINE_S = 60


def base_environment():
    """Ours, without what would lead to another machine, or whom root becomes to root's directories."""
    foreign = ("SLUICE_", "CUDA_", "NVIDIA_") + (("XDG_",) if os.geteuid() == 0 else ())
    env = {key: value for key, value in os.environ.items() if not key.startswith(foreign) and key != "LD_LIBRARY_PATH"}
    env["SLUICE_SIM_LIBDIR"] = os.environ.get("SLUICE_SIM_LIBDIR", str(BUILD / "sim" / "nvml"))
    env["SLUICE_PROFILES"] = os.environ.get("SLUICE_PROFILES", str(ROOT / "sim" / "profiles"))
    env["PATH"] = os.path.dirname(SLUICE) + os.pathsep + env.get("PATH", "/usr/bin:/bin")
    env["LC_ALL"] = "C.UTF-8"
    env["SLUICE_WEB_ADDRESS"] = "off"  # agents of tests that run side by side have no port to share
    return env


class Reply:
    """What a command returned. `json` parses its standard output."""

    def __init__(self, command, rc, out, err):
        self.command, self.rc, self.out, self.err = command, rc, out, err

    @property
    def json(self):
        return json.loads(self.out)

    def ok(self):
        """Itself, after asserting that the command succeeded."""
        assert self.rc == 0, f"{self}"
        return self

    def __repr__(self):
        return f"{' '.join(self.command)} -> {self.rc}\n{self.out}{self.err}"


def wait_until(condition, deadline_s=DEADLINE_S, what="the condition"):
    """Returns the first true value of condition(); fails after `deadline_s` seconds."""
    end = time.monotonic() + deadline_s
    while True:
        value = condition()
        if value:
            return value
        assert time.monotonic() < end, f"{what} did not come true in {deadline_s} s"
        time.sleep(0.02)


def environments():
    """/proc/PID/environ of every process. It may be gone by now; pathlib's glob would stumble over that."""
    return [pathlib.Path("/proc", name, "environ") for name in os.listdir("/proc") if name.isdigit()]


def has_entry(path, marks):
    try:
        return any(entry in marks for entry in path.read_bytes().split(b"\0"))
    except OSError:
        return False


def is_executing(directory):
    """A process that has memory and no environment executes a program just now, and may be anybody's."""
    try:
        memory = int((directory / "statm").read_text().split()[0])
        return memory > 0 and not (directory / "environ").read_bytes()
    except (OSError, ValueError, IndexError):
        return False


class Machine:
    """A simulated machine with a root, a state and a runtime directory of its own."""

    def __init__(self, directory):
        self.directory = pathlib.Path(directory)
        self.root = self.directory / "root"
        self.state = self.directory / "state"
        self.runtime = self.root / "run"
        self.base = base_environment()
        # Never the agent of the machine on which the tests run.
        self.runtime_dir = self.directory / "run"
        self.state_dir = self.directory / "state-dir"
        # Below the root there is nothing before start(): no kubelet, no /var/run/cdi that is the real one.
        self.own = {"SLUICE_RUNTIME_DIR": str(self.runtime_dir),
                    "SLUICE_STATE_DIR": str(self.state_dir),
                    "SLUICE_ROOT": str(self.root)}
        self.env = {**self.base, **self.own}
        self.children = []
        self.service = None

    # -- the machine itself

    def sim(self, *arguments, rc=0, timeout=DEADLINE_S):
        """`sluice sim ARGUMENTS` on this machine; asserts its exit code unless `rc` is None."""
        verb, *rest = [str(argument) for argument in arguments]
        command = [SLUICE, "sim", verb, "--root", str(self.root), "--state", str(self.state), *rest]
        done = subprocess.run(
            command, env=self.base, capture_output=True, text=True, timeout=timeout, check=False
        )
        reply = Reply(command, done.returncode, done.stdout, done.stderr)
        if rc is not None:
            assert reply.rc == rc, f"{reply}"
        return reply

    def start(self, profile="dgx-a100", *options, rc=0):
        """Starts it. From then on run() and spawn() see it."""
        reply = self.sim("start", "--alongside", "--profile", profile, *options, rc=rc)
        if reply.rc == 0:
            self.refresh()
        return reply

    def refresh(self):
        """Takes the variables of `sluice sim env` over into self.env."""
        self.env = {**self.base, **self.own}
        text = self.sim("env").out
        dump = subprocess.run(
            ["/bin/sh", "-c", f"{text}\nenv -0"],
            env=self.base, capture_output=True, text=True, check=True, timeout=DEADLINE_S,
        ).stdout
        for entry in dump.split("\0"):
            key, equals, value = entry.partition("=")
            if equals and key in ("LD_LIBRARY_PATH", "SLUICE_SIM_STATE", "SLUICE_ROOT",
                                  "SLUICE_RUNTIME_DIR", "SLUICE_STATE_DIR"):
                self.env[key] = value
        self.runtime_dir = pathlib.Path(self.env["SLUICE_RUNTIME_DIR"])
        self.state_dir = pathlib.Path(self.env["SLUICE_STATE_DIR"])

    def show(self):
        """The truth: `sluice sim show --output json`."""
        return self.sim("show", "--output", "json").json

    def stop(self):
        for child in self.children:
            if child.poll() is None:
                child.kill()
            child.wait(timeout=DEADLINE_S)
        self.children = []
        self.service = None
        self.kill_service()
        cgroups.remove(self.state_dir)
        if self.state.exists():
            self.sim("heal", rc=None)  # calls that hang end
            self.sim("stop", rc=None)

    # -- its service

    def agent(self, *options, program=None, **popen):
        """Starts `sluice agent` and returns its Popen once it serves."""
        ready, writer = os.pipe()
        command = [program or SLUICE, "agent", "--period", "100ms", "--ready-fd", str(writer),
                   *[str(option) for option in options]]
        with open(self.directory / "agent.err", "ab") as log:
            self.service = subprocess.Popen(command, env=self.env, stdin=subprocess.DEVNULL,
                                            stdout=log, stderr=log, pass_fds=(writer,),
                                            start_new_session=True, **popen)
        os.close(writer)
        self.children.append(self.service)
        with os.fdopen(ready, "rb") as pipe:
            assert pipe.read(1), (self.directory / "agent.err").read_text(errors="replace")
        return self.service

    def kill_service(self):
        """Kills every process of its agents and jobs, whoever started them."""
        marks = (os.fsencode(f"SLUICE_STATE_DIR={self.state_dir}"),
                 os.fsencode(f"SLUICE_STATE_DIR={self.own['SLUICE_STATE_DIR']}"))
        for _ in range(100):
            left, may_be_left = [], False
            for path in environments():
                if has_entry(path, marks):
                    left.append(int(path.parent.name))
                else:
                    may_be_left |= is_executing(path.parent)
            if not left and not may_be_left:
                return
            for pid in left:
                try:
                    os.kill(pid, signal.SIGKILL)
                except ProcessLookupError:
                    pass
            time.sleep(0.01)

    # -- jobs of it

    def submit(self, *command, gpus=0, options=(), **how):
        """`sluice run --detach`; the job's number."""
        return int(self.run("sluice", "run", "--detach", "--gpus", gpus, *options, "--", *command,
                            **how).ok().out)

    def job(self, number, **how):
        """What `sluice jobs NUMBER` says of it."""
        return self.run("sluice", "jobs", number, "--output", "json", **how).ok().json

    def job_in(self, number, state, **how):
        """The same, once it is in this state."""
        wait_until(lambda: self.job(number, **how)["state"] == state,
                   what=f"{state} of job {number}")
        return self.job(number, **how)

    # -- programs on it

    def run(self, *command, env=None, timeout=DEADLINE_S, **options):
        """Runs a program that sees the machine. "sluice" is the one that was built."""
        command = [str(part) for part in command]
        if command[0] == "sluice":
            command[0] = SLUICE
        done = subprocess.run(
            command, env={**self.env, **(env or {})}, capture_output=True, text=True,
            timeout=timeout, check=False, **options,
        )
        return Reply(command, done.returncode, done.stdout, done.stderr)

    def spawn(self, *command, env=None, **options):
        """Starts a program that sees the machine and returns its Popen; stop() kills it."""
        command = [str(part) for part in command]
        if command[0] == "sluice":
            command[0] = SLUICE
        child = subprocess.Popen(command, env={**self.env, **(env or {})}, text=True, **options)
        self.children.append(child)
        return child

    def load(self, gpu, *options, **popen):
        """A sleeping process with load on a GPU; returns its Popen once the load is entered."""
        child = self.spawn(
            "sluice", "sim", "load", "--root", self.root, "--state", self.state,
            "--gpu", gpu, *options, "--", "sleep", "1000", **popen,
        )
        wait_until(lambda: any(
            process["pid"] == child.pid for entry in self.show()["gpus"]
            for process in entry["processes"]
        ), what=f"the load of process {child.pid}")
        return child

    def path(self, name):
        """A path of the machine: path("/dev/nvidia0")."""
        return self.root / str(name).lstrip("/")

    def read(self, name):
        return self.path(name).read_text(encoding="utf-8")


def alive(pid):
    """Whether there is such a process, and it is more than a zombie."""
    try:
        text = pathlib.Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return False
    return text.rpartition(")")[2].split()[0] != "Z"


def outside(machine, pid):
    """The number here of a process of a job of `machine` that knows itself as `pid`, for jobs have numbers of their
    own; None when it is not there."""
    for path in environments():
        try:
            status = (path.parent / "status").read_text(encoding="utf-8", errors="replace")
            numbers = next(line for line in status.splitlines() if line.startswith("NSpid:")).split()[1:]
            if int(numbers[-1]) == pid and os.fsencode(machine.directory) in path.read_bytes():
                return int(numbers[0])
        except (OSError, StopIteration):
            continue
    return None


@pytest.fixture
def machine_factory():
    """Makes machines, for tests that need several; they are stopped at the end."""
    made = []

    def make(opens_nodes=False):
        """`opens_nodes`: the test opens device nodes, which memory file systems do not permit."""
        # not pytest's tmp_path: its names are too long for the path of a unix socket; and a
        # machine is 2500 files, which a disk that others use as well makes slowly
        memory = "/dev/shm"
        fast = not opens_nodes and os.access(memory, os.W_OK | os.X_OK)
        directory = tempfile.mkdtemp(prefix="sluice-", dir=memory if fast else None)
        os.chmod(directory, 0o755)
        made.append(Machine(directory))
        return made[-1]

    yield make
    for machine in made:
        try:
            machine.stop()
        finally:
            shutil.rmtree(machine.directory, ignore_errors=True)


@pytest.fixture
def machine(machine_factory):
    """A simulated machine that is not started yet: machine.start(PROFILE, OPTIONS...)."""
    return machine_factory()


@pytest.fixture
def served(machine):
    """A service on a machine without GPUs."""
    machine.agent()
    yield machine
