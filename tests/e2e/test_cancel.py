# SPDX-License-Identifier: Apache-2.0
"""`sluice cancel`: jobs are ended in whatever state they are, softly and at once."""

import pathlib
import signal
import time

import pytest

from conftest import wait_until

SLEEP = ["sleep", "1000"]


@pytest.fixture
def served(machine):
    machine.agent()
    yield machine


def submit(machine, *command, options=(), **how):
    return int(machine.run("sluice", "run", "--detach", "--gpus", "0", *options, "--", *command,
                           **how).ok().out)


def told(machine, number, **how):
    return machine.run("sluice", "jobs", number, "--output", "json", **how).ok().json


def wait_for(machine, number, state):
    wait_until(lambda: told(machine, number)["state"] == state, what=f"{state} of job {number}")
    return told(machine, number)


def alive(pid):
    return pathlib.Path(f"/proc/{pid}").exists()


def test_cancel_in_every_state(machine):
    machine.start("t4x1")
    machine.agent()
    runs = int(machine.run("sluice", "run", "-d", "--gpus", "1", "--", *SLEEP).ok().out)
    waits = int(machine.run("sluice", "run", "-d", "--gpus", "1", "--", "touch",
                            machine.directory / "ran").ok().out)
    machine.run("sluice", "cancel", waits).ok()
    job = told(machine, waits)
    assert job["state"] == "Cancelled" and job["reason"] == "User" and job["exit_code"] is None
    pid = wait_for(machine, runs, "Running")["attempt"]["pid"]
    machine.run("sluice", "cancel", runs).ok()
    assert wait_for(machine, runs, "Cancelled")["signal"] == signal.SIGTERM
    assert not alive(pid)
    reply = machine.run("sluice", "cancel", runs).ok()
    assert "has ended already" in reply.err
    assert machine.run("sluice", "cancel", "-q", runs).ok().err == ""
    assert machine.run("sluice", "cancel", 99).rc == 64
    assert machine.run("sluice", "cancel", "--signal", "NOPE", runs).rc == 64
    assert not (machine.directory / "ran").exists()


def test_cancel_right_after_submission(served):
    """In Starting, or in whatever it has come to."""
    numbers = [submit(served, *SLEEP) for _ in range(10)]
    served.run("sluice", "cancel", *numbers).ok()
    for number in numbers:
        wait_for(served, number, "Cancelled")


def test_signal_grace_and_now(served):
    script = "trap 'echo int' INT; trap '' TERM; echo ready; while :; do sleep 0.01; done"

    def ready():
        number = submit(served, "sh", "-c", script)
        wait_until(lambda: "ready" in served.run("sluice", "logs", number).out)
        return number

    number = ready()
    start = time.monotonic()
    served.run("sluice", "cancel", "--signal", "INT", "--grace", "300ms", number).ok()
    assert wait_for(served, number, "Cancelled")["signal"] == signal.SIGKILL
    assert time.monotonic() - start >= 0.3
    assert "int" in served.run("sluice", "logs", number).out
    number = ready()
    served.run("sluice", "cancel", "--grace", "1h", number).ok()
    served.run("sluice", "cancel", "--now", number).ok()  # the second one shortens it
    assert wait_for(served, number, "Cancelled")["signal"] == signal.SIGKILL


def test_cancel_of_many_processes(served):
    script = "for i in $(seq 300); do sleep 1000 & done; echo ready; wait"
    number = submit(served, "sh", "-c", script)
    wait_until(lambda: "ready" in served.run("sluice", "logs", number).out)
    start = time.monotonic()
    served.run("sluice", "cancel", "--grace", "100ms", number).ok()
    wait_for(served, number, "Cancelled")
    assert time.monotonic() - start < 10
