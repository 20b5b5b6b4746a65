# SPDX-License-Identifier: Apache-2.0
"""Two agents on one machine, as those of two users: the tokens of the GPUs keep their jobs apart."""

import os

from conftest import wait_until


def other_user(machine):
    """The environment of one who has directories of his own."""
    own = {"SLUICE_RUNTIME_DIR": str(machine.directory / "run-2"),
           "SLUICE_STATE_DIR": str(machine.directory / "state-2")}
    for path in own.values():
        os.mkdir(path, 0o700)
    return {**machine.env, **own}


def run(machine, *words, env):
    return int(machine.run("sluice", "run", "-d", *words, env=env).ok().out)


def test_a_job_waits_for_that_of_another_agent(machine):
    machine.start("dgx-a100")
    first, second = machine.env, other_user(machine)
    machine.agent()
    mine = run(machine, "--gpus", "7", "--name", "train", "--", "sleep", "1000", env=first)
    wait_until(lambda: machine.job(mine, env=first)["state"] == "Running", what="the first job")
    try:
        theirs = run(machine, "--gpus", "2", "--", "true", env=second)
        one = run(machine, "--gpus", "1", "--", "true", env=second)  # there is one

        def waits():
            job = machine.job(theirs, env=second)
            return job["state"] == "Pending" and job["reason"] == "WaitingForGPU" and \
                f"job {mine}, pid" in job["reason_text"] and "train" not in job["reason_text"]

        wait_until(waits, what="the reason that names the other's job")
        machine.run("sluice", "cancel", mine, env=first).ok()
        for number in (theirs, one):
            wait_until(lambda: machine.job(number, env=second)["state"] == "Succeeded",
                       what=f"job {number}")
    finally:
        machine.run("sluice", "agent", "stop", env=second)
