# SPDX-License-Identifier: Apache-2.0
"""Who is next on a machine of several users: priority, turns, wide jobs, what goes past them, processors and memory,
and which GPUs a job gets."""

import os

import pytest

from conftest import wait_until

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="takes root, for jobs of several users")

ALICE, BOB = 61001, 61002
LONG = ("sleep", "1000")


def be(uid):
    """What makes a program run as this user."""
    return {"user": uid, "group": uid, "extra_groups": [], "cwd": "/"}


@pytest.fixture
def lab(machine):
    """Four GPUs, eight processors and 16 GiB for jobs."""
    machine.start("t4x4")
    config = machine.directory / "config.yaml"
    config.write_text("sluice: {jobs: {cpus: 8, memory: 16Gi}}\n")
    machine.agent("--config", config)
    return machine


def submit(lab, uid, gpus, *options):
    return lab.submit(*LONG, gpus=gpus, options=options, **be(uid))


def started(lab, number):
    """The labels of its GPUs, once it runs."""
    job = lab.job_in(number, "Running")
    return [gpu["label"] for gpu in job["attempt"]["gpus"]]


def reason(lab, number):
    job = lab.job(number)
    assert job["state"] == "Pending", job
    return f"{job['reason']}({job['reason_text']})"


def waits(lab, number, text):
    wait_until(lambda: text in reason(lab, number), what=f"'{text}' of job {number}")


def end(lab, number):
    lab.run("sluice", "cancel", "--now", number).ok()


def test_priority_and_turns(lab):
    first = submit(lab, ALICE, 3)
    second = submit(lab, ALICE, 1)
    started(lab, first)
    started(lab, second)
    mine = submit(lab, ALICE, 1)
    low = submit(lab, BOB, 1, "--priority", -5)
    his = submit(lab, BOB, 1)
    waits(lab, low, f"QueueOrder(behind {his})")
    waits(lab, mine, f"QueueOrder(behind {his})")
    high = lab.submit(*LONG, gpus=1, options=("--priority", 7))  # root's
    waits(lab, his, f"QueueOrder(behind {high})")
    # One GPU after the other: the higher priority; who has none; who came first of those; the lower priority.
    end(lab, second)
    started(lab, high)
    end(lab, high)
    started(lab, his)
    waits(lab, mine, "WaitingForGPU(have 0, need 1")
    end(lab, first)
    started(lab, mine)
    started(lab, low)


def test_a_wide_job_is_not_starved_and_brief_ones_go_past(lab):
    hour = submit(lab, ALICE, 2, "--time", "1h")
    started(lab, hour)
    wide = submit(lab, BOB, 4)
    waits(lab, wide, "WaitingForGPU(have 2, need 4")
    unknown = submit(lab, ALICE, 1)
    waits(lab, unknown, f"QueueOrder(behind {wide})")
    longer = submit(lab, ALICE, 1, "--time", "2h")
    waits(lab, longer, f"QueueOrder(behind {wide})")
    brief = submit(lab, ALICE, 1, "--time", "30m")
    started(lab, brief)
    waits(lab, wide, "WaitingForGPU(have 1, need 4")
    processor = submit(lab, ALICE, 0)
    started(lab, processor)
    # Bob has nothing and came later: what is kept for the first of them stays so.
    end(lab, brief)
    waits(lab, wide, "WaitingForGPU(have 2, need 4")
    end(lab, hour)
    assert len(started(lab, wide)) == 4
    end(lab, wide)
    started(lab, unknown)
    started(lab, longer)


def test_processors_and_memory(lab):
    six = submit(lab, ALICE, 0, "--cpus", 6)
    started(lab, six)
    four = submit(lab, BOB, 0, "--cpus", "4")
    waits(lab, four, "WaitingForCPU(have 2, need 4 of 8)")
    one = submit(lab, ALICE, 0, "--cpus", 1)
    waits(lab, one, f"QueueOrder(behind {four})")
    none = submit(lab, ALICE, 0)
    started(lab, none)
    ten = submit(lab, ALICE, 1, "--mem", "10Gi")
    started(lab, ten)
    more = submit(lab, BOB, 0, "--mem", "6.5Gi")
    waits(lab, more, "WaitingForMemory(have 6Gi, need 6.5Gi of 16Gi)")
    end(lab, ten)
    started(lab, more)
    end(lab, six)
    started(lab, four)
    started(lab, one)
    for options, says in ((("--cpus", 9), "needs 9 processors, jobs can have 8 here"),
                          (("--mem", "17Gi"), "needs 17Gi of memory, jobs can have 16Gi here")):
        reply = lab.run("sluice", "run", "--gpus", 0, *options, "--", "true")
        assert reply.rc == 78 and says in reply.err, reply
    reply = lab.run("sluice", "run", "--dry-run", "--gpus", 0, "--cpus", 8, "--", "true").ok()
    assert "it would wait: WaitingForCPU (have 3, need 8 of 8)" in reply.out, reply


def test_which_gpus(lab):
    assert started(lab, submit(lab, ALICE, 1, "--prefer", "2,3")) == ["GPU 2"]
    assert started(lab, submit(lab, ALICE, 1, "--prefer", "2,3")) == ["GPU 3"]
    assert started(lab, submit(lab, ALICE, 1, "--gpu-type", "*t4*", "--min-gpu-memory", "12Gi"))
    for options, rc, says in ((("--gpu-type", "*H100*"), 78, "needs 1 GPU like '*H100*', this machine has 0; there is: "),
                              (("--min-gpu-memory", "4Ti"), 78, "with 4Ti of memory or more"),
                              (("--gpu-memory", "4Ti"), 78, "--gpu-memory is deprecated; use --min-gpu-memory"),
                              (("--gpu-mem", "4Gi"), 64, "unknown option '--gpu-mem'"),
                              (("--gpu-typ", "*t4*"), 64, "--gpu-typ is not an option; did you mean --gpu-type?"),
                              (("--prefer", "9"), 64, "9"),
                              (("--priority", "-101"), 64, "-100 to 100")):
        reply = lab.run("sluice", "run", *options, "--", "true")
        assert reply.rc == rc and says in reply.err, reply


def test_limits_of_users_and_groups(lab):
    config = lab.directory / "config.yaml"
    config.write_text("sluice: {jobs: {limits: {gpus: 1}, groups: [{group: '61900', gpus: 3}]}}\n")
    lab.run("sluice", "agent", "reload").ok()
    reply = {}
    wait_until(lambda: reply.update(it=lab.run("sluice", "run", "--dry-run", "--gpus", 2, "--", "true", **be(ALICE)))
               or reply["it"].rc == 78, what="the limit of a user")
    assert "needs 2 GPUs, a user may have 1 at a time" in reply["it"].err, reply["it"]
    one = submit(lab, ALICE, 1)
    started(lab, one)
    two = submit(lab, ALICE, 1)
    waits(lab, two, "UserLimit(the user has 1 GPU, needs 1 more, may have 1)")
    group = {**be(BOB), "extra_groups": [61900]}
    his = [lab.submit(*LONG, gpus=gpus, **group) for gpus in (2, 2)]
    started(lab, his[0])
    waits(lab, his[1], "UserLimit(the user has 2 GPUs, needs 2 more, may have 3)")
    # What is known of a user's groups outlasts the agent.
    lab.service.kill()
    lab.service.wait()
    lab.agent("--config", config)
    waits(lab, his[1], "UserLimit(the user has 2 GPUs, needs 2 more, may have 3)")
    end(lab, one)
    started(lab, two)


def test_the_owner_says_how_long_a_job_runs_that_does_not(machine):
    config = machine.directory / "config.yaml"
    config.write_text("sluice: {jobs: {defaultTime: 1s}}\n")
    machine.agent("--config", config)
    own = submit(machine, BOB, 0, "--time", "1h")
    number = submit(machine, ALICE, 0)
    assert machine.job_in(number, "Failed")["reason"] == "DeadlineExceeded"
    assert machine.job(own)["state"] == "Running"
