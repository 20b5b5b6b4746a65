# SPDX-License-Identifier: Apache-2.0
"""Jobs that are ended because their GPUs do nothing, and what is run at the end of a job."""

import time

import pytest


@pytest.fixture
def sampled(machine):
    machine.start("t4x1")
    machine.agent()
    return machine


def ended(machine, number):
    machine.run("sluice", "jobs", "wait", number)
    return machine.job(number)


def test_a_job_that_does_nothing_is_ended(sampled):
    end = sampled.directory / "end"
    began = time.monotonic()
    done = sampled.run("sluice", "run", "--gpus", "1", "--idle-timeout", "1s", "--on-end",
                       f"echo $SLUICE_STATE $SLUICE_REASON $SLUICE_EXIT_CODE >> {end}", "--", "sleep", "1000")
    assert done.rc == 124 and "IdleTimeout" in done.err, done
    assert time.monotonic() - began > 1
    assert end.read_text() == "Failed IdleTimeout 124\n"
    job = sampled.job(1)
    assert (job["state"], job["reason"], job["exit_code"]) == ("Failed", "IdleTimeout", 124)


def test_one_that_computes_is_not(sampled):
    sim = f"--root {sampled.root} --state {sampled.state}"
    number = sampled.submit(
        "sh", "-c", "$0 sim load " + sim + " --gpu 0 --util 0.5 -- sleep 3; exec sleep 1000",
        sampled.run("sluice", "--version").command[0], gpus=1, options=["--idle-timeout", "1s"])
    began = time.monotonic()
    job = ended(sampled, number)
    assert job["reason"] == "IdleTimeout" and time.monotonic() - began > 3


def test_words_at_the_terminal_count(sampled):
    number = sampled.submit("sh", "-c", "for i in $(seq 30); do echo $i; sleep 0.1; done; exit 3", gpus=1,
                            options=["--pty", "--idle-timeout", "1s"])
    assert ended(sampled, number)["exit_code"] == 3


def test_it_is_for_jobs_with_gpus(sampled):
    reply = sampled.run("sluice", "run", "--gpus", "0", "--idle-timeout", "1s", "--", "true")
    assert reply.rc == 64 and "--idle-timeout" in reply.err


def test_what_is_run_at_the_end_runs_once_and_changes_nothing(sampled):
    end = sampled.directory / "end"
    command = f"echo $SLUICE_JOB_ID $SLUICE_STATE $SLUICE_REASON gpus:$CUDA_VISIBLE_DEVICES >> {end}; exit 9"
    assert sampled.run("sluice", "run", "--gpus", "1", "--on-end", command, "--", "true").rc == 0
    assert sampled.run("sluice", "run", "--gpus", "1", "--on-end", command, "--", "sh", "-c", "exit 4").rc == 4
    number = sampled.submit("sleep", "1000", options=["--on-end", command])
    sampled.job_in(number, "Running")
    sampled.run("sluice", "cancel", number).ok()
    assert ended(sampled, number)["state"] == "Cancelled"
    assert end.read_text() == "1 Succeeded gpus:\n2 Failed ExitCode gpus:\n3 Cancelled User gpus:\n"
