# SPDX-License-Identifier: Apache-2.0
"""When a job may start, how long it may run, and what tells it that its time is nearly over."""

import datetime
import time

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
