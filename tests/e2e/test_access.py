# SPDX-License-Identifier: Apache-2.0
"""Who may do what with whose job: its owner, root, the members of sluice.jobs.adminGroup, others."""

import json
import os
import signal

import pytest

from conftest import wait_until

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="takes root, for jobs of several users")

ALICE, BOB, CAROL, ADMINS = 61001, 61002, 61003, 61900
SECRET = "correct-horse"


def be(uid, *groups):
    """What makes a program run as this user."""
    return {"user": uid, "group": uid, "extra_groups": list(groups), "cwd": "/"}


def configure(machine, text):
    machine.config = machine.directory / "config.yaml"
    machine.config.write_text(text)
    return machine.agent("--config", machine.config)


@pytest.fixture
def lab(machine):
    """A service with three users, of whom Carol is an administrator."""
    configure(machine, f"sluice: {{jobs: {{adminGroup: '{ADMINS}'}}}}")
    return machine


def secret_job(machine):
    number = machine.submit("sh", "-c", f"echo {SECRET}; exec sleep 1000",
                            options=("--name", f"name-{SECRET}"),
                            env={"TOKEN": SECRET}, **be(ALICE))
    machine.job_in(number, "Running")
    wait_until(lambda: SECRET in machine.run("sluice", "logs", number, **be(ALICE)).out)
    return number


def test_nobody_else_sees_what_a_job_is(lab):
    number = secret_job(lab)
    waits = lab.submit("sh", "-c", f"true {SECRET}", options=(
        "--name", f"name-{SECRET}", "--after", number), env={"TOKEN": SECRET}, **be(ALICE))
    numbers = [number, waits]
    for viewer in (be(BOB), be(CAROL, ADMINS)):
        for command in ([["jobs"], ["jobs", "--all", "--output", "json"], ["top", "--once"],
                         ["agent", "status"], ["agent", "status", "--output", "json"]] +
                        [["jobs", one] for one in numbers] +
                        [["jobs", one, "--output", "json"] for one in numbers] +
                        [["logs", one] for one in numbers]):
            reply = lab.run("sluice", *command, **viewer)
            assert SECRET not in reply.out + reply.err, f"{command}\n{reply}"
        listed = lab.run("sluice", "jobs", "--output", "json", **viewer).ok().json
        listed = listed.get("jobs", listed) if isinstance(listed, dict) else listed
        mine = [job for job in listed if job["id"] == number]
        assert mine and mine[0]["state"] == "Running", listed
        assert lab.run("sluice", "logs", number, **viewer).rc == 77
    # Its owner and root do.
    for viewer in (be(ALICE), be(0)):
        assert SECRET in lab.run("sluice", "jobs", number, "--output", "json", **viewer).ok().out
        assert SECRET in lab.run("sluice", "logs", number, **viewer).ok().out
    # Nor do the files of the job tell.
    found = [path for path in lab.state_dir.rglob("*") if path.is_file()]
    readable = [path for path in found if path.stat().st_mode & 0o077 and
                SECRET.encode() in path.read_bytes() and path.stat().st_mode & 0o004]
    assert not [path for path in readable if os.stat(path.parent).st_mode & 0o001], readable


def test_why_a_job_failed_names_its_command_to_its_owner_alone(lab):
    number = lab.submit(f"/nowhere/{SECRET}", **be(ALICE))
    job = lab.job_in(number, "Failed", **be(ALICE))
    assert SECRET in json.dumps(job)
    for command in (["jobs"], ["jobs", number], ["jobs", number, "--output", "json"]):
        reply = lab.run("sluice", *command, **be(BOB)).ok()
        assert SECRET not in reply.out + reply.err and "Failed" in reply.out, reply


def test_who_may_cancel(lab):
    number = secret_job(lab)
    reply = lab.run("sluice", "cancel", number, "--now", **be(BOB))
    assert reply.rc == 77 and f"job {number} belongs to" in reply.err, reply
    assert SECRET not in reply.err
    lab.run("sluice", "cancel", number, "--now", **be(CAROL, ADMINS)).ok()
    job = lab.job_in(number, "Cancelled", **be(ALICE))
    assert str(CAROL) in json.dumps(job)  # by whom
    # The group of the process counts, whether it is the first or one of many.
    number = secret_job(lab)
    lab.run("sluice", "cancel", number, "--now", user=CAROL, group=ADMINS, extra_groups=[],
            cwd="/").ok()
    lab.job_in(number, "Cancelled", **be(ALICE))


def test_a_variable_is_the_owners_to_set(lab):
    """By LD_PRELOAD an administrator would become the job's user."""
    number = lab.submit("sleep", "1000", options=("--hold",), **be(ALICE))
    change = ("sluice", "jobs", "set", number, "--env", "LD_PRELOAD=/tmp/x.so")
    for who in (be(BOB), be(CAROL, ADMINS)):
        assert lab.run(*change, **who).rc == 77
    lab.run(*change, **be(ALICE)).ok()
    lab.run("sluice", "jobs", "set", number, "--priority", 7, **be(CAROL, ADMINS)).ok()
    assert lab.run("sluice", "jobs", "set", number, "--priority", 8, **be(ALICE)).rc == 77
    assert lab.run("sluice", "jobs", "drain", **be(ALICE)).rc == 77


def test_priorities_above_0_are_the_administrators(lab):
    how = ("sluice", "run", "--detach", "--gpus", 0)
    reply = lab.run(*how, "--priority", 1, "--", "true", **be(BOB))
    assert reply.rc == 77 and "adminGroup" in reply.err, reply
    for who, priority in ((be(BOB), 0), (be(BOB), -100), (be(CAROL, ADMINS), 100), (be(0), 100)):
        lab.run(*how, f"--priority={priority}", "--", "true", **who).ok()


def test_without_the_group_root_alone(machine):
    configure(machine, "sluice: {jobs: {adminGroup: no-such-group-here}}")
    wait_until(lambda: "no group 'no-such-group-here'" in
               machine.run("sluice", "agent", "status").out + machine.run("sluice", "agent", "status").err)
    number = secret_job(machine)
    assert machine.run("sluice", "cancel", number, **be(CAROL, ADMINS)).rc == 77
    # A reload makes her one, and takes it away again.
    machine.config.write_text(f"sluice: {{jobs: {{adminGroup: '{ADMINS}'}}}}")
    os.kill(machine.service.pid, signal.SIGHUP)
    wait_until(lambda: machine.run("sluice", "cancel", number, "--now",
                                   **be(CAROL, ADMINS)).rc == 0)
    machine.config.write_text("sluice: {}")
    os.kill(machine.service.pid, signal.SIGHUP)
    number = secret_job(machine)
    wait_until(lambda: machine.run("sluice", "cancel", number, "--now",
                                   **be(CAROL, ADMINS)).rc == 77)
    machine.run("sluice", "cancel", number, "--now").ok()


def test_a_user_database_that_hangs(machine):
    """Nobody waits for it: jobs are taken, run and listed."""
    tools = machine.directory / "tools"
    tools.mkdir()
    (tools / "getent").write_text("#!/bin/sh\nexec sleep 1000\n")
    (tools / "getent").chmod(0o755)
    machine.env["PATH"] = f"{tools}:{machine.env['PATH']}"
    configure(machine, "sluice: {jobs: {adminGroup: of-the-directory, groups: "
              "[{group: other-of-it, gpus: 1}, {group: '61002', pending: 1}]}}")
    status = machine.run("sluice", "agent", "status").ok()
    assert "of-the-directory" in status.out + status.err and "being asked" in status.out + status.err
    number = machine.submit("true", **be(BOB))
    machine.job_in(number, "Succeeded", **be(BOB))
