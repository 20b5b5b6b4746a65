# SPDX-License-Identifier: Apache-2.0
"""When a job may start, how long it may run, and what tells it that its time is nearly over."""

import datetime
import os
import time

import pytest

from conftest import wait_until


def number(machine, *arguments):
    return int(machine.run("sluice", "run", "-d", "--gpus", "0", *arguments).ok().out)


def test_begin(machine):
    machine.start("t4x1")
    agent = machine.agent()
    late = number(machine, "--begin", "now+1h", "--", "sh", "-c", "date")
    wait_until(lambda: machine.job(late)["reason"] == "BeginTime")
    job = machine.job(late)
    when = datetime.datetime.fromisoformat(job["reason_text"])
    assert job["state"] == "Pending"
    assert abs(when.timestamp() - job["begin_unix"]) < 1
    assert abs(job["begin_unix"] - time.time() - 3600) < 60
    assert "BeginTime" in machine.run("sluice", "jobs", late).ok().out

    # Neither a restart nor a kill moves it.
    agent.kill()
    agent.wait()
    agent = machine.agent()
    wait_until(lambda: machine.job(late)["reason"] == "BeginTime")
    assert machine.job(late)["begin_unix"] == job["begin_unix"]

    soon = number(machine, "--begin", "now+1", "--", "true")
    assert machine.job_in(soon, "Succeeded")["attempt"]["started_unix"] >= machine.job(soon)["begin_unix"]

    machine.run("sluice", "jobs", "set", "--begin", "now", late).ok()
    machine.job_in(late, "Succeeded")


def test_a_moment_that_cannot_be_meant(machine):
    machine.start("t4x1")
    machine.agent()
    for text, said in (("soon", "'soon' is no time: expected 16:00"), ("2020-01-01", "'2020-01-01' is over"),
                       ("2199-01-01", "more than 50 years away"), ("", "is no time")):
        reply = machine.run("sluice", "run", "-d", "--begin", text, "--", "true")
        assert reply.rc == 64 and said in reply.err and "--begin" in reply.err, reply.err
    held = number(machine, "--hold", "--", "true")
    reply = machine.run("sluice", "jobs", "set", "--begin", "25:00", held)
    assert reply.rc == 64 and "'25:00' is no time" in reply.err
    reply = machine.run("sluice", "run", "--no-wait", "--begin", "tomorrow", "--", "true")
    assert reply.rc == 75 and "BeginTime" in reply.err
    reply = machine.run("sluice", "run", "--dry-run", "--begin", "tomorrow", "--", "true").ok()
    assert "BeginTime" in reply.out + reply.err


JOB = """apiVersion: batch/v1
kind: Job
metadata:
  name: late
  annotations: {{"sluice.dev/begin": "{begin}"}}
spec:
  template:
    spec:
      restartPolicy: Never
      containers: [{{name: c, image: none, command: ["true"]}}]
"""


def test_begin_in_a_file(machine):
    machine.start("t4x1")
    machine.agent()
    path = machine.directory / "job.yaml"
    path.write_text(JOB.format(begin="now+2h"))
    late = int(machine.run("sluice", "run", "-d", "--host", "-f", path).ok().out)
    wait_until(lambda: machine.job(late)["reason"] == "BeginTime")
    path.write_text(JOB.format(begin="whenever"))
    reply = machine.run("sluice", "run", "-d", "--host", "-f", path)
    assert reply.rc == 65 and "sluice.dev/begin" in reply.err and "'whenever' is no time" in reply.err
    exported = machine.run("sluice", "run", "--export", "--image", "debian:12", "--begin", "2030-01-02T03:04:05Z",
                           "--", "true").ok().out
    said = [line.split('"')[1] for line in exported.splitlines() if "sluice.dev/begin" in line]
    assert datetime.datetime.fromisoformat(said[0]).timestamp() == 1893553445


def test_signal_before_the_end(machine):
    machine.start("t4x1")
    agent = machine.agent()
    told = machine.directory / "told"
    script = f"trap 'echo told >> {told}' USR1; until test -e {told}; do sleep 0.05; done; echo saved"
    warned = number(machine, "--time", "63", "--signal", "USR1@60", "--", "sh", "-c", script)
    machine.job_in(warned, "Running")
    assert machine.job(warned)["warning"] == "USR1@60s"
    assert "USR1@60s" in machine.run("sluice", "jobs", warned).ok().out
    agent.kill()  # the supervisor keeps the time
    agent.wait()
    wait_until(told.exists)
    machine.agent()
    machine.job_in(warned, "Succeeded")
    assert machine.run("sluice", "logs", warned).ok().out == "saved\n"
    assert told.read_text() == "told\n"


def test_a_signal_that_cannot_be_meant(machine):
    machine.start("t4x1")
    machine.agent()
    for arguments, said in ((["--signal", "USR1@60"], "no time limit that it could be told of; give it one with --time"),
                            (["--signal", "USR1@120", "--time", "2m"], "would be told before it starts"),
                            (["--signal", "KILL", "--time", "2m"], "no program can act on KILL"),
                            (["--signal", "USR9@60", "--time", "2m"], "'USR9@60' is no signal"),
                            (["--signal", "USR1@soon", "--time", "2m"], "'soon' is no time before the end")):
        reply = machine.run("sluice", "run", "-d", *arguments, "--", "true")
        assert reply.rc == 64 and said in reply.err and "--signal" in reply.err, reply.err


def test_a_limit_is_moved_while_the_job_waits_and_runs(machine):
    machine.start("t4x1")
    agent = machine.agent()
    done = machine.directory / "done"
    runs = number(machine, "--time", "2", "--", "sh", "-c", f"until test -e {done}; do sleep 0.05; done")
    machine.job_in(runs, "Running")
    machine.run("sluice", "jobs", "set", "--time", "+1h", runs).ok()
    assert machine.job(runs)["limit_seconds"] == 3602
    agent.kill()
    agent.wait()
    agent = machine.agent()
    assert machine.job_in(runs, "Running")["limit_seconds"] == 3602
    machine.run("sluice", "jobs", "set", "--time", "-30m", runs).ok()
    assert machine.job(runs)["limit_seconds"] == 1802
    started = machine.job(runs)["attempt"]["started_unix"]
    wait_until(lambda: time.time() - started > 2.5)  # it would have ended
    done.touch()
    machine.job_in(runs, "Succeeded")

    unlimited = number(machine, "--", "sleep", "1000")
    machine.job_in(unlimited, "Running")
    reply = machine.run("sluice", "jobs", "set", "--time", "+1h", unlimited)
    assert reply.rc == 64 and "may run as long as it likes" in reply.err
    machine.run("sluice", "jobs", "set", "--time", "4", unlimited).ok()
    assert machine.job_in(unlimited, "Failed")["reason"] == "DeadlineExceeded"

    waits = number(machine, "--hold", "--time", "1h", "--array", "3", "--", "true")
    machine.run("sluice", "jobs", "set", "--time", "2h", waits).ok()
    assert [machine.job(f"{waits}.{i}")["limit_seconds"] for i in range(3)] == [7200] * 3
    machine.run("sluice", "jobs", "set", "--time", "1h", f"{waits}.1").ok()
    assert [machine.job(f"{waits}.{i}")["limit_seconds"] for i in range(3)] == [7200, 3600, 7200]


def test_a_limit_that_cannot_be(machine):
    machine.start("t4x1")
    machine.agent()
    runs = number(machine, "--time", "1h", "--", "sleep", "1000")
    started = machine.job_in(runs, "Running")["attempt"]["started_unix"]
    wait_until(lambda: time.time() - started > 1.1)
    for text, said in (("1", "has run 1s already"), ("-1h", "1h00m less leaves it nothing"), ("soon", "'soon' is no time"),
                       ("+", "'+' is no time"), ("0", "'0' is no time")):
        reply = machine.run("sluice", "jobs", "set", "--time", text, runs)
        assert reply.rc == 64 and said in reply.err, reply.err
    assert machine.job(runs)["limit_seconds"] == 3600
    reply = machine.run("sluice", "jobs", "set", "--time", "2h", "--priority", "1", runs)
    assert reply.rc == 64 and "leave out --priority" in reply.err
    assert machine.run("sluice", "jobs", "set", "--time", "2h", 999).rc == 64
    machine.run("sluice", "cancel", "--now", runs).ok()
    machine.job_in(runs, "Cancelled")
    assert machine.run("sluice", "jobs", "set", "--time", "2h", runs).rc == 64


ALICE, BOB = 4242, 4343


def as_user(machine, uid, *words):
    return machine.run("sluice", *words, user=uid, group=uid, extra_groups=[], cwd="/")


@pytest.mark.skipif(os.geteuid() != 0, reason="jobs of several users need root")
def test_what_users_may_do_with_limits(machine):
    machine.start("dgx-a100", "--gpus", "2")
    config = machine.directory / "config.yaml"
    config.write_text("sluice: {jobs: {maxTime: 4h, reserveAfter: 500ms}}")
    machine.agent("--config", config)

    reply = as_user(machine, ALICE, "run", "-d", "--time", "5h", "--", "true")
    assert reply.rc == 64 and "sluice.jobs.maxTime" in reply.err
    alices = int(as_user(machine, ALICE, "run", "-d", "--gpus", "1", "--time", "1h", "--", "sleep", "1000").ok().out)
    machine.job_in(alices, "Running")
    bobs = int(as_user(machine, BOB, "run", "-d", "--gpus", "1", "--time", "1h", "--", "sleep", "1000").ok().out)
    assert machine.job_in(bobs, "Running")["limit_seconds"] == 3600

    reply = as_user(machine, BOB, "jobs", "set", "--time", "+1h", alices)
    assert reply.rc == 77, reply.err
    reply = as_user(machine, ALICE, "jobs", "set", "--time", "+4h", alices)
    assert reply.rc == 77 and "jobs may run 4h00m at most here" in reply.err
    as_user(machine, ALICE, "jobs", "set", "--time", "+1h", alices).ok()
    as_user(machine, ALICE, "jobs", "set", "--time", "1h", alices).ok()

    # Another one was promised both GPUs within the hour.
    wide = int(as_user(machine, BOB, "run", "-d", "--gpus", "2", "--time", "1h", "--", "true").ok().out)

    def is_reserved():
        number(machine, "--", "true")  # something happens, and the queue looks at all
        return "reserved" in (machine.job(wide)["reason_text"] or "")

    wait_until(is_reserved)
    reply = as_user(machine, ALICE, "jobs", "set", "--time", "+1h", alices)
    assert reply.rc == 77 and f"job {wide} of" in reply.err and "has waited for 2 GPUs and is to start in" in reply.err, reply.err
    assert "it would start 1h00m later" in reply.err or "it would start 59m59s later" in reply.err, reply.err
    assert machine.job(alices)["limit_seconds"] == 3600
    as_user(machine, ALICE, "jobs", "set", "--time", "-1m", alices).ok()
    machine.run("sluice", "jobs", "set", "--time", "9h", alices).ok()  # root may
    assert machine.job(alices)["limit_seconds"] == 9 * 3600
    endless = int(as_user(machine, ALICE, "run", "-d", "--gpus", "0", "--", "true").ok().out)
    assert machine.job(endless)["limit_seconds"] == 4 * 3600


@pytest.mark.skipif(os.geteuid() != 0, reason="jobs of several users need root")
def test_less_than_a_second_later_is_as_promised(machine):
    """Two that end within a second: one may end a moment after the other, but not both by turns for ever."""
    machine.start("dgx-a100", "--gpus", "2")
    config = machine.directory / "config.yaml"
    config.write_text("sluice: {jobs: {reserveAfter: 500ms}}")
    machine.agent("--config", config)
    both = int(as_user(machine, ALICE, "run", "-d", "--gpus", "1", "--time", "1h", "--array", "2", "--", "sleep", "1000").ok().out)
    first, last = sorted((f"{both}.{i}" for i in range(2)),
                         key=lambda job: machine.job_in(job, "Running")["attempt"]["started_unix"])
    waits = int(as_user(machine, BOB, "run", "-d", "--gpus", "2", "--time", "1h", "--", "true").ok().out)

    def is_due():
        number(machine, "--", "true")
        return "reserved" in (machine.job(waits)["reason_text"] or "")

    wait_until(is_due)
    as_user(machine, ALICE, "jobs", "set", "--time", "+1s", first).ok()
    replies = [as_user(machine, ALICE, "jobs", "set", "--time", "+1s", job) for job in (last, first) * 2]
    refused = [reply for reply in replies if reply.rc == 77]
    assert len(refused) >= 3, replies  # the very first is about a second late, a moment more or less
    assert all(f"job {waits} of" in reply.err and " later: " in reply.err for reply in refused), replies


@pytest.mark.skipif(os.geteuid() != 0, reason="jobs of several users need root")
def test_who_of_a_set_would_delay_another_one_stays(machine):
    """The one that ends last of three may be extended: the others would have the wide one wait for longer."""
    machine.start("dgx-a100", "--gpus", "3")
    config = machine.directory / "config.yaml"
    config.write_text("sluice: {jobs: {reserveAfter: 500ms}}")
    machine.agent("--config", config)
    three = [int(as_user(machine, ALICE, "run", "-d", "--name", "three", "--gpus", "1", "--time", "1h", "--", "sleep", "1000").ok().out)
            for _ in range(3)]
    for job in three:
        machine.job_in(job, "Running")
    waits = int(as_user(machine, BOB, "run", "-d", "--gpus", "2", "--time", "1h", "--", "true").ok().out)

    def is_due():
        number(machine, "--", "true")
        return "reserved" in (machine.job(waits)["reason_text"] or "")

    wait_until(is_due)
    reply = as_user(machine, ALICE, "jobs", "set", "--time", "+1h", "three")
    assert reply.rc == 77 and reply.out == "1 job limited\n" and f"job {waits} of" in reply.err, reply
    assert sorted(machine.job(job)["limit_seconds"] for job in three) == [3600, 3600, 7200]
    assert as_user(machine, ALICE, "jobs", "set", "--time", "30m", "three").ok().out == "3 jobs limited\n"
    assert machine.run("sluice", "jobs", "set", "--time", "+9h", "--user", ALICE).ok().out == "3 jobs limited\n"  # root may
