# SPDX-License-Identifier: Apache-2.0
"""`sluice top` in a terminal of the test's own, and as text."""

import errno
import fcntl
import os
import pty
import re
import select
import shlex
import signal
import struct
import subprocess
import termios
import time

import pytest
from conftest import DEADLINE_S, SLUICE, wait_until

ENTER, LEAVE = b"\x1b[?1049h", b"\x1b[?1049l"


class Terminal:
    """A program at a terminal that a shell controls, and what it has written there."""

    def __init__(self, machine, command, width=80, height=24, env=None):
        self.raw, self.at, self.ended = b"", 0, None
        self.pid, self.fd = pty.fork()
        if self.pid == 0:
            environment = {**machine.env, "TERM": "xterm", **(env or {})}
            environment.pop("NO_COLOR", None) if not env else None
            os.execve("/bin/bash", ["bash", "--norc", "-mc", command], environment)
        self.resize(width, height)
        self.modes = termios.tcgetattr(self.fd)

    def resize(self, width, height):
        fcntl.ioctl(self.fd, termios.TIOCSWINSZ, struct.pack("HHHH", height, width, 0, 0))

    def read(self, wait_s=0.05):
        """Takes what has been written meanwhile. False: the terminal was closed."""
        if not select.select([self.fd], [], [], wait_s)[0]:
            return True
        try:
            some = os.read(self.fd, 65536)
        except OSError as error:
            assert error.errno == errno.EIO
            some = b""
        self.raw += some
        return some != b""

    def type(self, text):
        os.write(self.fd, text.encode())

    def screens(self):
        """Whole pictures that came after the last one waited for: where each ends, its lines."""
        for found in re.compile(rb"\x1b\[H(.*?)\x1b\[J", re.DOTALL).finditer(self.raw, self.at):
            text = found[1].decode().replace("\r", "")
            yield found.end(), re.sub(r"\x1b\[[0-9;]*[mK]", "", text).split("\n")

    def wait(self, condition, what):
        """The next picture for which the condition holds."""
        end = time.monotonic() + DEADLINE_S
        while True:
            for self.at, screen in self.screens():
                if condition("\n".join(screen)):
                    return screen
            assert self.read() or any(self.screens()), f"{what}: it has ended\n{self.raw!r}"
            assert time.monotonic() < end, f"{what} was not seen\n{self.raw[-3000:]!r}"

    def wait_raw(self, text):
        end = time.monotonic() + DEADLINE_S
        while text not in self.raw:
            assert self.read() or text in self.raw, f"ended without {text!r}: {self.raw[-500:]!r}"
            assert time.monotonic() < end, f"no {text!r} in {self.raw[-3000:]!r}"

    def finish(self):
        """Waits for the end; the exit code."""
        end = time.monotonic() + DEADLINE_S
        while self.read():
            assert time.monotonic() < end, f"it does not end: {self.raw[-1000:]!r}"
        _, status = os.waitpid(self.pid, 0)
        self.ended = os.waitstatus_to_exitcode(status)
        return self.ended

    def close(self):
        if self.ended is None:
            os.kill(self.pid, signal.SIGKILL)
            os.waitpid(self.pid, 0)
        os.close(self.fd)


@pytest.fixture
def terminal(machine):
    made = []

    def make(*options, before="", after="", **how):
        command = f"{before}{shlex.quote(SLUICE)} top {shlex.join(map(str, options))}{after}"
        made.append(Terminal(machine, command, **how))
        return made[-1]

    yield make
    for one in made:
        one.close()


def test_live_shows_what_happens_and_leaves_the_terminal_as_it_was(machine, terminal):
    machine.start("dgx-a100", "--gpus", "4")
    screen = terminal("--socket", machine.path("none"), after="; echo rc=$?; stty -a")
    first = screen.wait(lambda text: "GPU 3 [" in text, "the GPUs")
    assert first[0].startswith("4 simulated GPUs, driver ")
    assert first[1].startswith("No service: ") and first[-1].startswith("q quit")
    assert ENTER in screen.raw and LEAVE not in screen.raw
    load = machine.load(2, "--util", "0.9", "--mem", "10GiB")
    lines = screen.wait(lambda text: f"pid {load.pid} " in text, "the load")
    at = next(i for i, line in enumerate(lines) if line.startswith("GPU 2"))
    assert lines[at + 1].startswith(f"  pid {load.pid} sleep (") and "no job" in lines[at + 1]
    machine.sim("inject", "lost", "--gpu", "1")
    screen.wait(lambda text: "GPU 1 lost: " in text, "the lost GPU")
    screen.type("q")
    assert screen.finish() == 0
    after = screen.raw[screen.raw.index(LEAVE):].decode()
    assert "rc=0" in after and " icanon" in after and " echo " in after
    assert screen.raw.count(ENTER) == screen.raw.count(LEAVE) == 1
    assert screen.raw.count(b"\x1b[?25l") == screen.raw.count(b"\x1b[?25h") == 1


@pytest.mark.parametrize("how", ["interrupt", "terminate", "quit while stopped"])
def test_every_end_restores_the_terminal(machine, terminal, how):
    machine.start("t4x1")
    if how == "quit while stopped":  # Ctrl-Z, another program, fg, q
        screen = terminal(after="; echo stopped=$?; stty -a; fg; echo rc=$?; stty -a")
    else:
        screen = terminal(before="sh -c 'echo pid=$$; exec \"$0\" \"$@\"' ",
                          after="; echo rc=$?; stty -a")
    screen.wait(lambda text: "GPU 0 [" in text, "the GPU")
    rc = 0
    if how == "interrupt":
        screen.type("\x03")
    elif how == "terminate":
        rc = 143
        os.kill(int(re.search(rb"pid=(\d+)", screen.raw)[1]), signal.SIGTERM)
    else:
        screen.type("\x1a")
        screen.wait_raw(b"stopped=")
        start = screen.raw.index(b"stopped=")
        assert LEAVE in screen.raw[:start]
        screen.wait_raw(b" icanon")
        while ENTER not in screen.raw[start:]:
            assert screen.read()
        screen.at = start
        screen.wait(lambda text: "GPU 0 [" in text, "the GPU after fg")
        screen.type("q")
    assert screen.finish() == 0
    after = screen.raw[screen.raw.rindex(LEAVE):].decode()
    assert f"rc={rc}" in after and " icanon" in after and " echo " in after


def test_what_stopped_it_from_outside_does_not_spoil_the_terminal(machine, terminal):
    machine.start("t4x1")
    screen = terminal(before="exec ")  # no shell that would tidy up
    usual = screen.modes
    screen.wait(lambda text: "GPU 0 [" in text, "the GPU")
    assert termios.tcgetattr(screen.fd) != usual
    os.kill(screen.pid, signal.SIGSTOP)
    os.waitpid(screen.pid, os.WUNTRACED)
    termios.tcsetattr(screen.fd, termios.TCSANOW, usual)  # as another program needs it
    os.kill(screen.pid, signal.SIGCONT)
    wait_until(lambda: screen.read() and screen.raw.count(ENTER) == 2, what="the second picture")
    assert termios.tcgetattr(screen.fd) != usual
    os.kill(screen.pid, signal.SIGCONT)
    wait_until(lambda: screen.read() and screen.raw.count(ENTER) == 3, what="the third picture")
    screen.type("q")
    assert screen.finish() == 0
    assert termios.tcgetattr(screen.fd) == usual


def test_it_follows_the_size_of_the_terminal(machine, terminal):
    machine.start("dgx-a100")
    screen = terminal(width=120, height=30)
    wide = screen.wait(lambda text: "GPU 7 [" in text, "all GPUs")
    assert "NAME" in wide[3] and max(map(len, wide)) > 80
    screen.resize(40, 8)
    narrow = screen.wait(lambda text: "above" in text, "a window")
    assert len(narrow) <= 8 and max(map(len, narrow)) <= 40
    assert "NAME" not in narrow[3] and not any("GPU 7 [" in line for line in narrow)
    screen.type("G")
    end = screen.wait(lambda text: "GPU 7 [" in text and "above" in text, "the end")
    assert len(end) <= 8 and end[0].startswith("8 simulated GPUs")
    screen.type("g\x1b[B")  # to the beginning, and a line down
    screen.wait(lambda text: "scroll: 1 line" in text, "the second line")
    # At once, not with the next sample: that would take a second each.
    begin = time.monotonic()
    for width in 2 * list(range(40, 80)):
        screen.resize(width, 8)
        screen.wait(lambda text, width=width: max(map(len, text.split("\n"))) == width,
                    f"a line of {width} columns")
    assert time.monotonic() - begin < DEADLINE_S
    screen.resize(30, 3)
    screen.wait(lambda text: len(text.split("\n")) <= 3, "three lines")
    screen.type("q")
    assert screen.finish() == 0


def test_colours_only_where_they_are_wanted(machine, terminal):
    machine.start("t4x1")
    for env, wanted in (({"NO_COLOR": "1"}, False), ({"NO_COLOR": ""}, True)):
        screen = terminal(env=env)
        screen.wait(lambda text: "GPU 0 [" in text, "the GPU")
        screen.type("q")
        assert screen.finish() == 0
        assert bool(re.search(rb"\x1b\[[0-9;]*m", screen.raw)) is wanted


def test_it_ends_when_the_terminal_goes_away(machine):
    machine.start("t4x1")
    ours, theirs = pty.openpty()
    child = machine.spawn("sluice", "top", stdin=theirs, stdout=theirs, stderr=subprocess.DEVNULL,
                          env={"TERM": "xterm"})
    os.close(theirs)
    assert os.read(ours, 8) == ENTER
    os.close(ours)
    # The hang-up is no signal here: the terminal is not this process's own.
    assert child.wait(timeout=DEADLINE_S) == 0


def test_once_as_text(machine):
    machine.start("dgx-a100", "--gpus", "2")
    load = machine.load(1, "--util", "0.5")
    for options in (["--once"], []):  # no terminal: once as well
        reply = machine.run("sluice", "top", *options).ok()
        lines = reply.out.splitlines()
        assert lines[0].startswith("2 simulated GPUs, driver ")
        assert lines[1].startswith("No service: no agent answers at '")
        assert f"  pid {load.pid} sleep (" in reply.out and "\x1b" not in reply.out
    told = machine.run("sluice", "top", "--once", "--output", "json").ok().json
    assert told["simulated"] is True and told["service_problem"].startswith("No service")
    assert [gpu["label"] for gpu in told["gpus"]] == ["GPU 0", "GPU 1"]
    assert told["jobs"] == [] and told["gpus"][0]["slot_count"] == 0
    (process,) = told["gpus"][1]["processes"]
    assert (process["pid"], process["job"], process["uid"]) == (load.pid, None, os.getuid())


def test_once_without_a_driver_says_both(machine):
    reply = machine.run("sluice", "top", "--once", env={
        "SLUICE_ROOT": str(machine.root), "SLUICE_SOCKET": str(machine.directory / "none")})
    assert reply.rc == 69 and reply.out == ""
    # The second: somebody has a simulated machine, and is told how to see it.
    assert "no agent answers at" in reply.err, reply
    assert "NVIDIA driver" in reply.err or "a simulated machine is running" in reply.err, reply


def test_a_reader_that_goes_away_is_no_failure(machine):
    machine.start("t4x1")
    for options in (["--once"], ["--output", "json"]):
        reading, writing = os.pipe()
        os.close(reading)
        reply = subprocess.run(
            [SLUICE, "top", *options], env=machine.env, stdout=writing, stderr=subprocess.PIPE,
            timeout=DEADLINE_S, check=False)
        os.close(writing)
        assert (reply.returncode, reply.stderr) == (0, b"")
    full = machine.run("sh", "-c", f"exec {shlex.quote(SLUICE)} top --once > /dev/full")
    assert full.rc == 1 and "cannot write the output" in full.err


def test_a_dumb_terminal_gets_text(machine, terminal):
    machine.start("t4x1")
    screen = terminal(env={"TERM": "dumb"})
    assert screen.finish() == 0
    assert b"1 simulated GPU," in screen.raw and b"\x1b" not in screen.raw


# -- with the service

def start_agent(machine, config):
    path = machine.directory / "config.yaml"
    path.write_text(config, encoding="utf-8")
    return machine.agent("--config", path)


SHARED = """
version: v1
sharing: {timeSlicing: {resources: [{name: nvidia.com/gpu, replicas: 4, devices: [0]}]}}
"""


def test_the_service_comes_goes_and_comes_back(machine, terminal):
    machine.start("dgx-a100", "--gpus", "2")
    screen = terminal(width=100)
    lines = screen.wait(lambda text: "GPU 1 [" in text, "the driver's view")
    assert lines[1].startswith("No service: ") and "SLOTS" not in lines[3]
    agent = start_agent(machine, SHARED)
    lines = screen.wait(lambda text: "No service" not in text, "the service")
    assert "SLOTS" in lines[2] and lines[3].startswith("GPU 0   0/4 [")
    agent.kill()
    agent.wait(timeout=DEADLINE_S)
    lines = screen.wait(lambda text: "No service" in text, "its end")
    assert any(line.startswith("GPU 1 ") for line in lines)
    screen.wait(lambda text: "SLOTS" not in text, "the driver's view again")
    start_agent(machine, SHARED)
    screen.wait(lambda text: "No service" not in text and "SLOTS" in text, "the next one")
    screen.type("q")
    assert screen.finish() == 0


def test_jobs_with_their_gpus_and_reasons(machine, terminal):
    machine.start("dgx-a100", "--gpus", "2")
    start_agent(machine, SHARED)

    def submit(*options):
        return machine.run("sluice", "run", "-d", *options).ok().out.strip()

    one = submit("--name", "part", "--share", "--", "sleep", "1000")
    two = submit("--name", "wide", "--gpus", "2", "--", "true")
    three = submit("--name", "last", "--gpus", "1", "--", "true")
    text = wait_until(lambda: next(
        (out for out in [machine.run("sluice", "top", "--once").ok().out]
         if f"{one}  Running" in out and "WaitingForGPU" in out), None), what="the jobs")
    assert text.startswith("2 simulated GPUs") and "No service" not in text
    assert re.search(r"GPU 0 +1/4 \[.*\n  job " + one + r" part \(\w+\), no process on it\n", text)
    assert "1 running, 2 waiting\n" in text
    assert re.search(rf"{two}  Pending .* wide +WaitingForGPU ?\(have 1, need 2; GPU 0: job {one} "
                     r"of \w+\)\n", text)
    assert re.search(rf"{three}  Pending .* last +QueueOrder ?\(behind {two}\)\n", text)
    told = machine.run("sluice", "top", "--output", "json").ok().json
    assert told["service_problem"] is None and (told["running"], told["pending"]) == (1, 2)
    assert told["gpus"][0]["slots_used"] == 1 and told["gpus"][0]["slot_count"] == 4
    assert {job["name"] for job in told["jobs"]} == {"part", "wide", "last"}
    screen = terminal(width=100)
    screen.wait(lambda text: "1 running, 2 waiting" in text, "the jobs")
    machine.run("sluice", "cancel", "--now", one).ok()
    screen.wait(lambda text: "0 running, 0 waiting" in text and "Cancelled" in text
                and text.count("Succeeded") == 2, "the end of all")
    screen.type("q")
    assert screen.finish() == 0
