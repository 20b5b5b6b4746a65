# SPDX-License-Identifier: Apache-2.0
"""`sluice cancel`: jobs are ended in whatever state they are, softly and at once."""

import signal
import time

from conftest import alive, wait_until

SLEEP = ["sleep", "1000"]


def test_cancel_in_every_state(machine):
    machine.start("t4x1")
    machine.agent()
    runs = int(machine.run("sluice", "run", "-d", "--gpus", "1", "--", *SLEEP).ok().out)
    waits = int(machine.run("sluice", "run", "-d", "--gpus", "1", "--", "touch",
                            machine.directory / "ran").ok().out)
    machine.run("sluice", "cancel", waits).ok()
    job = machine.job(waits)
    assert job["state"] == "Cancelled" and job["reason"] == "User" and job["exit_code"] is None
    pid = machine.job_in(runs, "Running")["attempt"]["pid"]
    machine.run("sluice", "cancel", runs).ok()
    assert machine.job_in(runs, "Cancelled")["signal"] == signal.SIGTERM
    assert not alive(pid)
    reply = machine.run("sluice", "cancel", runs).ok()
    assert "has ended already" in reply.err
    assert machine.run("sluice", "cancel", "-q", runs).ok().err == ""
    assert machine.run("sluice", "cancel", 99).rc == 64
    assert machine.run("sluice", "cancel", "--signal", "NOPE", runs).rc == 64
    assert not (machine.directory / "ran").exists()


def test_cancel_right_after_submission(served):
    """In Starting, or in whatever it has come to."""
    numbers = [served.submit(*SLEEP) for _ in range(10)]
    served.run("sluice", "cancel", *numbers).ok()
    for number in numbers:
        served.job_in(number, "Cancelled")


def test_signal_grace_and_now(served):
    script = "trap 'echo int' INT; trap '' TERM; echo ready; while :; do sleep 0.01; done"

    def ready():
        number = served.submit("sh", "-c", script)
        wait_until(lambda: "ready" in served.run("sluice", "logs", number).out)
        return number

    number = ready()
    start = time.monotonic()
    served.run("sluice", "cancel", "--signal", "INT", "--grace", "300ms", number).ok()
    assert served.job_in(number, "Cancelled")["signal"] == signal.SIGKILL
    assert time.monotonic() - start >= 0.3
    assert "int" in served.run("sluice", "logs", number).out
    number = ready()
    served.run("sluice", "cancel", "--grace", "1h", number).ok()
    served.run("sluice", "cancel", "--now", number).ok()  # the second one shortens it
    assert served.job_in(number, "Cancelled")["signal"] == signal.SIGKILL


def test_cancel_of_many_processes(served):
    script = "for i in $(seq 300); do sleep 1000 & done; echo ready; wait"
    number = served.submit("sh", "-c", script)
    wait_until(lambda: "ready" in served.run("sluice", "logs", number).out)
    served.run("sluice", "cancel", "--grace", "100ms", number).ok()
    served.job_in(number, "Cancelled")
