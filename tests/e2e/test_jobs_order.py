# SPDX-License-Identifier: Apache-2.0
"""Jobs that are held, that wait for others, that are tried again, and arrays: as a user asks for them."""

import os
import time

import pytest

from conftest import wait_until


def number(machine, *arguments):
    return int(machine.run("sluice", "run", "-d", "--gpus", "0", *arguments).ok().out)


def touch(machine, name):
    return ["--", "sh", "-c", f"echo x >> {machine.directory / name}"]


def lines(machine, name):
    path = machine.directory / name
    return len(path.read_text().splitlines()) if path.exists() else 0


def test_hold_release_and_set(machine):
    machine.start("t4x1")
    machine.agent()
    held = number(machine, "--hold", "--env", "WHAT=old", "--", "sh", "-c", "echo $WHAT")
    assert machine.job(held)["state"] == "Held"
    machine.run("sluice", "jobs", "set", "--priority", "7", "--env", "WHAT=new", held).ok()
    assert f"{held}" in machine.run("sluice", "jobs", "--state", "Held").ok().out
    machine.run("sluice", "jobs", "release", held).ok()
    machine.job_in(held, "Succeeded")
    assert machine.run("sluice", "logs", held).ok().out == "new\n"
    assert machine.run("sluice", "jobs", "release", held).rc == 64
    runs = number(machine, "--", "sleep", "1000")
    machine.job_in(runs, "Running")
    reply = machine.run("sluice", "jobs", "hold", runs)
    assert reply.rc == 75 and "only one that waits" in reply.err
    assert machine.run("sluice", "jobs", "set", runs).rc == 64
    assert machine.run("sluice", "jobs", "hold", 99).rc == 64
    machine.run("sluice", "cancel", "--now", runs).ok()


def test_after(machine):
    machine.start("t4x1")
    machine.agent()
    first = number(machine, "--hold", "--", "false")
    good = number(machine, "--after", first, *touch(machine, "good"))
    bad = number(machine, "--after-ok", first, *touch(machine, "bad"))
    behind = number(machine, "--after-ok", bad, *touch(machine, "bad"))
    job = machine.job_in(good, "Pending")
    wait_until(lambda: machine.job(good)["reason"] == "Dependency")
    assert machine.job(good)["reason_text"] == str(first), job
    machine.run("sluice", "jobs", "release", first).ok()
    machine.job_in(good, "Succeeded")
    for one, cause in ((bad, first), (behind, bad)):
        job = machine.job_in(one, "Cancelled")
        assert (job["reason"], job["reason_text"]) == ("DependencyFailed", str(cause))
    assert lines(machine, "bad") == 0
    reply = machine.run("sluice", "run", "-d", "--gpus", "0", "--after", 999, "--", "true")
    assert reply.rc == 64 and "999" in reply.err
    assert machine.run("sluice", "run", "-d", "--after", "x", "--", "true").rc == 64


def test_retries_and_retry(machine):
    machine.start("t4x1")
    machine.agent()
    flag = machine.directory / "flag"
    job = number(machine, "--", "test", "-e", flag)
    assert machine.job_in(job, "Failed")["reason"] == "ExitCode"
    flag.touch()
    machine.run("sluice", "jobs", "retry", job).ok()
    again = machine.job_in(job, "Succeeded")
    assert again["attempt"]["number"] == 2
    assert machine.run("sluice", "jobs", "retry", job).rc == 64
    waits = number(machine, "--retries", "1", *touch(machine, "waits")[:-1], "exit 3")
    wait_until(lambda: machine.job(waits)["reason"] == "Backoff")
    assert "failed 1 of 2 times" in machine.job(waits)["reason_text"]
    machine.run("sluice", "cancel", waits).ok()
    machine.job_in(waits, "Cancelled")
    shown = machine.run("sluice", "jobs", waits).ok().out
    assert "ExitCode (3)" in shown, shown


def test_array(machine):
    machine.start("t4x1")
    machine.agent()
    reply = machine.run("sluice", "run", "--gpus", "0", "--array", "3%1", "--", "sh", "-c",
                        "echo $JOB_COMPLETION_INDEX; exit $JOB_COMPLETION_INDEX")
    assert reply.rc == 1 and "array of 3" in reply.err, reply.err
    first = int(reply.err.split("job ")[1].split()[0])
    for index in range(3):
        assert machine.run("sluice", "logs", f"{first}.{index}").ok().out == f"{index}\n"
    listed = machine.run("sluice", "jobs", first).ok().out
    assert f"{first}.2" in listed, listed
    assert f"job {first}.2" in machine.run("sluice", "jobs", f"{first}.2").ok().out
    assert machine.run("sluice", "jobs", "wait", first).rc == 1
    held = number(machine, "--hold", "--array", "3", *touch(machine, "held"))
    assert machine.run("sluice", "cancel", f"{held}.3").rc == 64  # another job's number, or none
    machine.run("sluice", "cancel", f"{held}.0").ok()
    machine.job_in(f"{held}.0", "Cancelled")
    assert machine.job(held + 1)["state"] == "Held"
    machine.run("sluice", "cancel", held).ok()
    machine.job_in(held + 2, "Cancelled")
    assert machine.run("sluice", "run", "--array", "0", "--", "true").rc == 64


def test_drain_and_gc(machine):
    machine.start("t4x1")
    machine.agent()
    runs = number(machine, "--", "sleep", "1000")
    machine.job_in(runs, "Running")
    machine.run("sluice", "jobs", "drain").ok()
    waits = number(machine, *touch(machine, "ran"))
    wait_until(lambda: machine.job(waits)["reason"] == "Draining")
    assert machine.job(runs)["state"] == "Running"
    assert machine.run("sluice", "run", "--no-wait", "--gpus", "0", "--", "true").rc == 75
    machine.run("sluice", "jobs", "resume").ok()
    machine.job_in(waits, "Succeeded")
    machine.run("sluice", "cancel", "--now", runs).ok()
    assert "forgotten" in machine.run("sluice", "jobs", "gc").ok().out


@pytest.mark.skipif(os.geteuid() != 0, reason="jobs of several users need root")
def test_a_wide_job_starts_while_others_stream_narrow_ones(machine):
    """Seven users always have a job of one GPU that waits; another has one GPU and asks for four."""
    machine.start("dgx-a100")
    config = machine.directory / "config.yaml"
    config.write_text("sluice: {jobs: {reserveAfter: 1500ms}}")
    machine.agent("--config", config)

    def ask(uid, *words):
        return int(machine.run("sluice", "run", "-d", *words, user=uid, group=uid, extra_groups=[], cwd="/").ok().out)

    holds = ask(4000, "--gpus", "1", "--", "sleep", "1000")
    streams = [ask(4001 + i, "--gpus", "1", "--array", "60", "--", "sleep", "0.3") for i in range(7)]
    machine.job_in(f"{streams[-1]}.0", "Running")
    wide = ask(4000, "--gpus", "4", "--", "sleep", "1000")
    reason = wait_until(lambda: (job := machine.job(wide))["state"] == "Running" or "reserved" in (job["reason_text"] or "") and job)
    reserved = time.time()
    if reason is not True:
        assert reason["reason"] == "WaitingForGPU" and "reserved, have " in reason["reason_text"], reason
        assert reason["score"]["reserved"], reason
    began = machine.job_in(wide, "Running")["attempt"]["started_unix"]

    ends = [machine.job(f"{stream}.59")["state"] for stream in streams]
    assert "Pending" in ends, ends  # there would have been enough that are narrower
    machine.run("sluice", "cancel", *streams).ok()
    rows = machine.run("sluice", "jobs", "--all", "--output", "json").ok().json["jobs"]
    starts = {row["id"]: (row["attempt"] or {}).get("started_unix") or 0 for row in rows}
    passed = [job for job, start in starts.items() if job not in (holds, wide) and reserved < start < began]
    assert not passed, passed


@pytest.mark.skipif(os.geteuid() != 0, reason="jobs of several users need root")
def test_a_narrow_job_starts_while_others_stream_wide_ones(machine):
    """Three users always have a job of all GPUs that is due; another asks for one GPU."""
    machine.start("dgx-a100")
    config = machine.directory / "config.yaml"
    config.write_text("sluice: {jobs: {reserveAfter: 100ms}}")
    machine.agent("--config", config)
    wide = {uid: [] for uid in (4001, 4002, 4003)}

    def ask(uid, *words):
        return int(machine.run("sluice", "run", "-d", *words, user=uid, group=uid, extra_groups=[], cwd="/").ok().out)

    def stream():
        """Of each user's two jobs wait, whatever has started."""
        rows = machine.run("sluice", "jobs", "--all", "--output", "json").ok().json["jobs"]
        states = {row["id"]: row["state"] for row in rows}
        for uid, jobs in wide.items():
            for _ in range(2 - sum(states.get(job) == "Pending" for job in jobs)):
                jobs.append(ask(uid, "--gpus", "8", "--", "sleep", "0.4"))
        return states

    stream()
    narrow = ask(4000, "--gpus", "1", "--", "sleep", "1000")
    wait_until(lambda: stream()[narrow] == "Running", deadline_s=90)
    assert max(job for jobs in wide.values() for job in jobs) > narrow, wide  # they had not run out
