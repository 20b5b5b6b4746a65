# SPDX-License-Identifier: Apache-2.0
"""Who is next: what users have had counts against their jobs, fades, and outlives the service; the score says why."""

import json
import os

import pytest

from conftest import wait_until

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="jobs of several users need root")

ALICE, BOB = 4000, 4001


def ask(machine, uid, *words):
    return int(machine.run("sluice", "run", "-d", *words, user=uid, group=uid, extra_groups=[], cwd="/").ok().out)


def used(machine):
    """GPU-hours that count, by user id."""
    usage = json.loads(machine.run("sluice", "jobs", "usage", "--output", "json").ok().out)["usage"]
    return {use["uid"]: use["recent_gpu_hours"] for use in usage}


def test_who_has_had_less_is_next_also_after_a_restart(machine):
    machine.start("t4x1")
    agent = machine.agent()
    had = ask(machine, ALICE, "--gpus", "1", "--", "sleep", "1.2")
    machine.job_in(had, "Succeeded")
    hours = used(machine)[ALICE]
    assert 1.1 / 3600 <= hours < 20 / 3600, hours  # it has faded a little
    assert "RECENT" in machine.run("sluice", "jobs", "usage").ok().out

    agent.terminate()
    assert agent.wait(timeout=20) == 0
    machine.agent()
    again = used(machine)[ALICE]
    assert 0.99 * hours < again <= 1.0001 * hours, (hours, again)

    # A user of whom nothing is known has the GPU; of those that wait, hers came first.
    runs = ask(machine, 4002, "--gpus", "1", "--", "sleep", "1000")
    machine.job_in(runs, "Running")
    hers = ask(machine, ALICE, "--gpus", "1", "--", "sleep", "1000")
    his = ask(machine, BOB, "--gpus", "1", "--", "sleep", "1000")
    behind = wait_until(lambda: (job := machine.job(hers))["reason"] == "QueueOrder" and job)
    assert behind["reason_text"] == f"behind {his}", behind

    score = wait_until(lambda: (score := machine.job(hers)["score"])["age"] > 0 and score)
    assert score["usage"] > machine.job(his)["score"]["usage"] == 0
    assert score["age"] > 0 and score["size"] == score["priority"] == 0 and score["gpus_now"] == 0
    assert abs(score["total"] - (score["age"] - score["usage"])) < 0.001, score
    assert score["half_life_seconds"] == 86400 and 0.9 * hours < score["usage_gpu_hours"] <= hours
    shown = machine.run("sluice", "jobs", hers).ok().out
    assert "score" in shown and "age" in shown and "GPU-hours that count (half as much after 1d00h), and 0 GPUs now" in shown, shown

    # Others see that it waits, and not why it stands where it stands.
    theirs = machine.run("sluice", "jobs", "--output", "json", hers, user=BOB, group=BOB, extra_groups=[], cwd="/").ok().out
    assert json.loads(theirs)["score"] is None
    assert machine.job(runs)["score"] is None  # it runs
    machine.run("sluice", "cancel", "--now", runs).ok()
    machine.job_in(his, "Running")


def test_weights_and_half_life_are_configured(machine):
    machine.start("t4x1")
    config = machine.directory / "config.yaml"
    config.write_text("sluice: {jobs: {fairness: {halfLife: infinite, age: 0, size: 7, usage: 0, priority: 3}}}")
    machine.agent("--config", config)
    had = ask(machine, ALICE, "--gpus", "1", "--", "sleep", "0.5")
    machine.job_in(had, "Succeeded")
    runs = ask(machine, BOB, "--gpus", "1", "--", "sleep", "1000")
    machine.job_in(runs, "Running")
    hers = ask(machine, ALICE, "--gpus", "1", "--priority", "-2", "--", "true")
    machine.job_in(hers, "Pending")
    score = wait_until(lambda: machine.job(hers)["score"])
    assert (score["age"], score["usage"], score["priority"], score["total"]) == (0, 0, -6, -6)
    assert score["half_life_seconds"] is None
    assert "(for ever)" in machine.run("sluice", "jobs", hers).ok().out
    reply = machine.run("sluice", "config", "check", config)
    assert reply.rc == 0, reply.err
    config.write_text("sluice: {jobs: {fairness: {usage: -1}}}")
    reply = machine.run("sluice", "config", "check", config)
    assert reply.rc != 0 and "sluice.jobs.fairness.usage: expected a number" in reply.out, reply.out


def test_a_wide_job_says_when_it_starts_and_is_not_delayed(machine):
    """What runs has limits: the wide job starts when they say, and only what ends before goes first."""
    machine.start("dgx-a100")
    config = machine.directory / "config.yaml"
    config.write_text("sluice: {jobs: {reserveAfter: 300ms}}")
    machine.agent("--config", config)
    runs = [ask(machine, BOB, "--gpus", "1", "--time", "20s", "--", "sleep", "1000") for _ in range(7)]
    for job in runs:
        machine.job_in(job, "Running")
    wide = ask(machine, ALICE, "--gpus", "8", "--", "sleep", "1000")
    job = wait_until(lambda: (job := machine.job(wide))["score"] and job["score"]["reserved"] and job)
    limit = machine.job(runs[0])["attempt"]["started_unix"] + 20
    score = job["score"]
    assert "reserved, have 1, need 8" in job["reason_text"] and not score["start_is_estimate"], job
    assert limit - 1 <= score["starts_unix"] <= limit + 5, (limit, score)
    shown = machine.run("sluice", "jobs", wide).ok().out
    assert " at the latest: GPUs are reserved for it" in shown, shown

    long = ask(machine, BOB, "--gpus", "1", "--time", "1h", "--", "sleep", "1000")
    said = wait_until(lambda: (job := machine.job(long))["reason"] == "QueueOrder" and job)
    assert said["reason_text"] == f"behind {wide}, for which GPUs are reserved", said
    short = ask(machine, BOB, "--gpus", "1", "--time", "5s", "--", "sleep", "0.2")
    assert machine.job_in(short, "Succeeded")
    machine.job_in(wide, "Running")
    assert machine.job(wide)["attempt"]["started_unix"] <= limit + 15  # they are asked to end, then killed
    assert machine.job(long)["state"] == "Pending"


def test_what_jobs_of_a_name_have_taken_is_an_estimate(machine):
    machine.start("t4x1")
    agent = machine.agent()
    for _ in range(5):
        machine.job_in(ask(machine, ALICE, "--name", "often", "--gpus", "1", "--", "sleep", "0.4"), "Succeeded")
    agent.terminate()
    assert agent.wait(timeout=20) == 0
    machine.agent()
    machine.job_in(ask(machine, BOB, "--gpus", "1", "--", "sleep", "1000"), "Running")
    waits = ask(machine, ALICE, "--name", "often", "--gpus", "1", "--", "sleep", "0.4")
    estimate = wait_until(lambda: (score := machine.job(waits)["score"]) and score["estimate_seconds"])
    assert 0.4 < estimate < 10, estimate
    assert "an estimate by its user's last jobs of this name" in machine.run("sluice", "jobs", waits).ok().out
    other = ask(machine, BOB, "--name", "often", "--gpus", "1", "--", "true")
    assert wait_until(lambda: machine.job(other)["score"])["estimate_seconds"] is None
