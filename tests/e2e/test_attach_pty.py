# SPDX-License-Identifier: Apache-2.0
"""Jobs with a terminal: `sluice run --pty` and `sluice attach`, as somebody at a terminal."""

import fcntl
import os
import pty
import select
import signal
import struct
import subprocess
import termios
import time

import pytest

from conftest import SLUICE, wait_until

DEADLINE_S = 15
LEAVE = b"\x1d\x1d"


class Seat:
    """A terminal with a program at it."""

    def __init__(self, machine, *command, rows=30, columns=100, **who):
        self.near, far = pty.openpty()
        self.shown = b""
        self.resize(rows, columns)
        self.before = termios.tcgetattr(far)
        self.far = far
        self.child = subprocess.Popen(
            [SLUICE, *[str(word) for word in command]], env=machine.env, stdin=far, stdout=far,
            stderr=far, start_new_session=True, preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),
            **who)
        machine.children.append(self.child)

    def resize(self, rows, columns):
        fcntl.ioctl(self.near, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    def type(self, text):
        os.write(self.near, text)

    def read(self, timeout):
        if select.select([self.near], [], [], timeout)[0]:
            self.shown += os.read(self.near, 65536)

    def expect(self, text, deadline_s=DEADLINE_S):
        end = time.monotonic() + deadline_s
        while text not in self.shown:
            assert time.monotonic() < end, self.shown.decode(errors="replace")
            self.read(0.5)
        self.shown = self.shown[self.shown.index(text) + len(text):]

    def wait(self):
        end = time.monotonic() + DEADLINE_S
        while self.child.poll() is None:
            assert time.monotonic() < end, self.shown.decode(errors="replace")
            self.read(0.01)
        self.read(0)
        assert termios.tcgetattr(self.far) == self.before, "the terminal is not as it was"
        os.close(self.near)
        os.close(self.far)
        return self.child.returncode


def number_of(machine):
    return machine.run("sluice", "jobs", "--output", "json").ok().json["jobs"][-1]["id"]


def shell(machine):
    """One who sits at it: before its first word what is typed is shown by his own terminal."""
    seat = Seat(machine, "run", "--pty", "--gpus", "0", "--env", "PS1=ready$ ", "--", "sh", "-i")
    seat.expect(b"ready$ ")
    return seat


def test_a_shell(served):
    seat = shell(served)
    seat.type(b"tty; echo $((6*7)); stty size; test -t 2 && echo yes\r")
    seat.expect(b"/dev/pts/")
    seat.expect(b"42\r\n30 100\r\nyes\r\n")
    seat.resize(11, 22)
    os.kill(seat.child.pid, signal.SIGWINCH)
    seat.type(b"sleep 0.1; stty size\r")
    seat.expect(b"11 22\r\n")
    seat.type(b"sleep 1000\r")
    seat.expect(b"sleep 1000\r\n")
    for _ in range(10):  # the shell drops one that comes before it has started its command
        seat.type(b"\x03")
        seat.read(0.5)
        seat.read(0.1)
        if b"ready$ " in seat.shown:
            break
    seat.expect(b"ready$ ")
    while seat.child.poll() is None:  # one more ^C that was under way takes what was typed before it away
        seat.type(b"exit 7\r")
        seat.shown = b""
        end = time.monotonic() + DEADLINE_S / 10
        while seat.child.poll() is None and b"ready$ " not in seat.shown and time.monotonic() < end:
            seat.read(0.1)
    assert seat.wait() == 7
    assert "42" in served.run("sluice", "logs", number_of(served)).ok().out


def test_leaving_and_coming_back(served):
    seat = shell(served)
    seat.type(b'x=kept; echo he""re\r')
    seat.expect(b"here\r\n")
    seat.type(LEAVE)
    assert seat.wait() == 0
    assert b"sluice attach" in seat.shown
    number = number_of(served)
    assert served.job(number)["state"] == "Running"
    first, second = Seat(served, "attach", number), Seat(served, "attach", number)
    first.expect(b"here\r\n")  # what was before
    second.expect(b"here\r\n")
    first.type(b"echo still $x\r")
    first.expect(b"still kept\r\n")
    second.expect(b"still kept\r\n")
    second.type(b"exit 3\r")
    assert (first.wait(), second.wait()) == (3, 3)
    reply = served.run("sluice", "attach", number)
    assert reply.rc == 64 and "has ended" in reply.err


def test_one_ctrl_bracket_is_the_jobs(served):
    seat = Seat(served, "run", "--pty", "--gpus", "0", "--", "sh", "-c",
                "stty raw -echo; echo ready; head -c 2 | od -An -c")
    seat.expect(b"ready")
    seat.type(b"\x1dx")
    seat.expect(b"035   x")
    assert seat.wait() == 0


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root to hide the terminals")
def test_a_job_that_can_have_no_terminal_says_so(machine):
    if subprocess.run(["unshare", "-m", "mount", "--bind", "/dev/null", "/dev/ptmx"], check=False,
                      capture_output=True).returncode:
        pytest.skip("nothing can be mounted here")
    wrapper = machine.directory / "agent"
    wrapper.write_text(f'#!/bin/sh\nexec unshare -m sh -c \'mount --bind /dev/null /dev/ptmx && exec "$@"\' sh {SLUICE} "$@"\n')
    wrapper.chmod(0o755)
    machine.agent(program=str(wrapper))
    reply = machine.run("sluice", "run", "--pty", "--gpus", "0", "--", "true", stdin=subprocess.DEVNULL,
                        timeout=DEADLINE_S)
    assert reply.rc == 125 and "LaunchError" in reply.err and "terminal" in reply.err, reply
    assert machine.run("sluice", "run", "--gpus", "0", "--", "true").rc == 0


@pytest.mark.skipif(os.geteuid() != 0, reason="--mounts needs root")
def test_a_terminal_on_the_mounts_of_a_simulated_machine(machine):
    machine.start("t4x1")
    mounts = [SLUICE, "sim", "exec", "--mounts", "--root", machine.root, "--state", machine.state, "--", SLUICE]
    if machine.run(*mounts, "--version").rc:
        pytest.skip("nothing can be mounted here")
    reply = machine.run(*mounts, "run", "--pty", "--gpus", "0", "--", "sh", "-c", "tty; test -t 0 && stty size",
                        stdin=subprocess.DEVNULL, timeout=DEADLINE_S)
    assert reply.rc == 0 and "/dev/pts/" in reply.out, reply


def test_a_killed_client_and_agent_do_not_end_it(served):
    seat = shell(served)
    seat.type(b"echo here\r")
    seat.expect(b"here\r\n")
    served.service.kill()
    served.service.wait()
    seat.type(b"echo without\r")
    seat.expect(b"without\r\n")
    served.agent()
    seat.type(b"echo again\r")
    seat.expect(b"again\r\n")
    number = number_of(served)
    seat.child.kill()
    seat.child.wait()
    again = Seat(served, "attach", number)
    again.type(b"seq 1 100000 | tail -1; exit 4\r")
    again.expect(b"100000\r\n")
    assert again.wait() == 4


def test_the_terminal_is_given_back_after_a_signal(served):
    seat = shell(served)
    seat.type(b"echo here\r")
    seat.expect(b"here\r\n")
    seat.child.terminate()
    assert seat.wait() == 143
    served.run("sluice", "cancel", "--now", number_of(served)).ok()


def test_one_that_is_faster_than_anybody(served):
    for i in range(5):
        seat = Seat(served, "run", "--pty", "--gpus", "0", "--", "sh", "-c", f"echo quick {i}; exit {i}")
        seat.expect(b"quick %d\r\n" % i)
        assert seat.wait() == i


def test_without_a_terminal_of_ones_own(served):
    done = served.run("sluice", "run", "--pty", "--gpus", "0", "--", "sh", "-c", "tty; read x; echo got $x",
                      input="words\n")
    assert done.rc == 0 and "/dev/pts/" in done.out and "got words" in done.out
    done = served.run("sluice", "run", "--pty", "--gpus", "0", "--", "tty", stdin=subprocess.DEVNULL)
    assert done.rc == 0 and done.out.startswith("/dev/pts/")


def test_who_may_not(served):
    number = served.submit("sleep", "1000")
    wait_until(lambda: served.job(number)["state"] == "Running")
    reply = served.run("sluice", "attach", number)
    assert reply.rc == 64 and "--pty" in reply.err
    reply = served.run("sluice", "attach", "999")
    assert reply.rc == 64 and "there is no job 999" in reply.err


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root to be another user")
def test_a_member_is_sat_at_by_its_number_in_the_array(served):
    other = served.submit("cat", options=["--pty"])
    served.submit("cat", options=["--pty"])  # its number is `other` + 1
    served.job_in(other, "Running")
    for number, why in ((f"{other}.1", f"job {other} has no member 1"), (f"{other}.x", "is no number of a job"),
                        (f"{other}.7", f"job {other} has no member 7")):  # nor is there a job `other` + 7
        reply = served.run("sluice", "attach", number, stdin=subprocess.DEVNULL)
        assert reply.rc == 64 and why in reply.err, reply

    array = served.submit("sh", "-c", "read x; exit $SLUICE_ARRAY_INDEX", options=["--pty", "--array", "2"])
    served.job_in(array + 1, "Running")
    seat = Seat(served, "attach", f"{array}.1")
    seat.type(b"\r")
    assert seat.wait() == 1
    reply = served.run("sluice", "attach", f"{array}.1")
    assert reply.rc == 64 and f"job {array}.1 has ended" in reply.err, reply


def test_nobody_elses(served):
    nobody = {"user": 65534, "group": 65534, "extra_groups": [], "cwd": "/"}
    if subprocess.run([SLUICE, "--version"], check=False, capture_output=True, **nobody).returncode:
        pytest.skip("the build cannot be read by another user")
    number = served.submit("cat", options=["--pty"])
    served.job_in(number, "Running")
    reply = served.run("sluice", "attach", number, **nobody)
    assert reply.rc == 77, reply
    socket = served.state_dir / "j" / str(number) / "terminal"
    assert subprocess.run(["python3", "-c", "import socket, sys\n"
                           "socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET).connect(sys.argv[1])",
                           socket], check=False, capture_output=True, **nobody).returncode != 0
    own = served.submit("sh", "-c", "stat -c %u $(tty); echo can > $(tty); read x", options=["--pty"], **nobody)
    wait_until(lambda: "can" in served.run("sluice", "logs", own).out)
    assert "65534" in served.run("sluice", "logs", own).out


def test_every_attempt_is_sat_at(served):
    seat = Seat(served, "run", "--pty", "--gpus", "0", "--retries", "1", "--", "sh", "-c",
                "echo attempt $SLUICE_ATTEMPT; read line; echo got $line; exit 3")
    for attempt in (1, 2):
        seat.expect(f"attempt {attempt}\r\n".encode(), deadline_s=40)
        seat.type(b"word\r")
        seat.expect(b"got word\r\n")
    assert seat.wait() == 3


@pytest.mark.parametrize("text", ["", "one\n", "one\ntwo", "x" * 3000 + "\n"])
@pytest.mark.parametrize("how", ["file", "pipe"])
def test_input_that_is_no_terminal_ends(served, text, how):
    path = served.directory / "input"
    path.write_text(text)
    path = path if text or how == "pipe" else "/dev/null"
    command = [SLUICE, "run", "--pty", "--gpus", "0", "--", "sh", "-c", "stty -echo; cat"]
    with open(path, "rb") as file, subprocess.Popen(["cat", path], stdout=subprocess.PIPE) as cat:
        done = subprocess.run(command, env=served.env, capture_output=True, text=True, timeout=DEADLINE_S,
                              stdin=file if how == "file" else cat.stdout)
    assert done.returncode == 0, done
    assert done.stdout.replace("\r\n", "\n").endswith(text), done


def test_who_waits_for_a_terminal_survives_an_agent_that_is_killed(served):
    seat = Seat(served, "run", "--pty", "--hold", "--gpus", "0", "--", "sh", "-c",
                "echo here; read word; echo got $word; exit 5")
    wait_until(lambda: served.run("sluice", "jobs", "--output", "json").ok().json["jobs"])
    number = number_of(served)
    for _ in range(3):
        seat.read(0.2)
        assert seat.child.poll() is None, seat.shown
        served.service.kill()
        served.service.wait()
        served.agent()
    served.run("sluice", "jobs", "release", number).ok()
    seat.expect(b"here\r\n")
    served.service.kill()
    served.service.wait()
    seat.type(b"it\r")
    seat.expect(b"got it\r\n")
    served.agent()
    assert seat.wait() == 5


@pytest.mark.skipif(os.geteuid() != 0, reason="takes root, to be several users")
def test_the_owner_of_a_job_of_roots_agent_and_nobody_else(machine):
    """Whose file the output is does not matter: with a limit it is root's."""
    machine.agent()
    owner, other = ({"user": uid, "group": uid, "extra_groups": [], "cwd": "/"} for uid in (61001, 61002))
    number = machine.submit("sh", "-c", "read word; echo heard $word; sleep 1000", options=("--pty",), **owner)
    machine.job_in(number, "Running", **owner)
    seat = Seat(machine, "attach", number, **owner)
    seat.type(b"hello\n")
    seat.expect(b"heard hello")
    seat.type(LEAVE)
    assert seat.wait() == 0
    reply = machine.run("sluice", "attach", number, stdin=subprocess.DEVNULL, **other)
    assert reply.rc != 0 and "heard" not in reply.out, reply
    machine.run("sluice", "cancel", "--now", number, **owner).ok()
