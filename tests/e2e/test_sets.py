# SPDX-License-Identifier: Apache-2.0
"""Commands that act on many jobs at once: ranges, names, members of arrays, users, states, all."""

import os
import pty
import select
import time

import pytest

from conftest import SLUICE, wait_until

ALICE, BOB = 4711, 4712


@pytest.fixture
def full(machine):
    """One GPU, and somebody has it: what comes next waits."""
    machine.start("t4x1")
    machine.agent()
    machine.job_in(machine.submit("sleep", "1000", gpus=1, options=("--name", "holder")), "Running")
    return machine


def names(machine, *wanted):
    return [machine.submit("true", gpus=1, options=("--name", name)) for name in wanted]


def states(machine, numbers):
    return [machine.job(number)["state"] for number in numbers]


def test_ranges_and_names(full):
    jobs = names(full, "train-0", "train-1", "train-2", "eval", "3d-unet")
    first, last = jobs[0], jobs[2]
    assert full.run("sluice", "jobs", "hold", f"{first}-{last}").ok().out == "3 jobs held\n"
    assert states(full, jobs) == ["Held"] * 3 + ["Pending"] * 2
    assert full.run("sluice", "jobs", "release", "train-[01]").ok().out == "2 jobs released\n"
    assert states(full, jobs) == ["Pending"] * 2 + ["Held"] + ["Pending"] * 2
    assert full.run("sluice", "jobs", "prio", "-p", "-7", "--state", "Held").ok().out == "1 job changed\n"
    assert full.run("sluice", "cancel", "3d-unet", "train-2").ok().out == "2 jobs cancelled\n"
    assert states(full, jobs) == ["Pending"] * 2 + ["Cancelled", "Pending", "Cancelled"]
    assert full.run("sluice", "jobs", "retry", "train-*").ok().out == "1 job begun anew\n"
    assert states(full, jobs) == ["Pending"] * 4 + ["Cancelled"]
    assert full.run("sluice", "cancel", "--all", "--state", "Pending", "-q").ok().out == ""
    assert full.run("sluice", "jobs", "wait", f"{first}-{last}").rc == 143
    listed = full.run("sluice", "jobs", "--all", "--name", "train-*", "--output", "json").ok().json["jobs"]
    assert sorted(job["name"] for job in listed) == ["train-0", "train-1", "train-2"]


def test_what_fits_nothing_is_told(full):
    eval_ = names(full, "eval")[0]
    reply = full.run("sluice", "cancel", "train-*", "--state", "Running")
    assert reply.rc == 64
    assert "no job of yours that waits or runs fits 'train-*' --state Running" in reply.err
    assert full.run("sluice", "cancel", "-q", "train-*").ok().err == ""
    reply = full.run("sluice", "jobs", "hold", "train-*", "eval", 99)  # the others are held all the same
    assert reply.rc == 64 and reply.out == "1 job held\n"
    assert "fits 'train-*'" in reply.err and "there is no job 99" in reply.err
    assert full.job(eval_)["state"] == "Held"
    reply = full.run("sluice", "jobs", "retry", "--all", "--state", "Held")
    assert reply.rc == 64 and "only a job that has failed or was cancelled" in reply.err


def test_wrong_sets_change_nothing(full):
    number = names(full, "eval")[0]
    for words, says in ((["20-12"], "ends before it begins"), (["12-"], "missing at character 4"),
                        (["17.3-x"], "fits"), (["17.3."], "from character 5 on"), (["a[b"], "character 2"),
                        ([], "which jobs?"), (["--all", "3"], "--all means all jobs")):
        reply = full.run("sluice", "cancel", *words)
        assert reply.rc == 64 and says in reply.err, reply
    assert full.run("sluice", "cancel", "eval", "12-").rc == 64
    assert full.job(number)["state"] == "Pending"


def test_members_of_arrays(full):
    array = full.submit("true", gpus=1, options=("--array", "10"))
    assert full.run("sluice", "cancel", f"{array}.3-5", f"{array}.9").ok().out == "4 jobs cancelled\n"
    gone = [i for i in range(10) if full.job(f"{array}.{i}")["state"] == "Cancelled"]
    assert gone == [3, 4, 5, 9]
    assert full.run("sluice", "jobs", "hold", f"{array}-{array}").ok().out == "6 jobs held\n"
    assert full.run("sluice", "jobs", "retry", f"{array}.0-9").ok().out == "4 jobs begun anew\n"


def limits(machine, numbers):
    return [machine.job(number)["limit_seconds"] for number in numbers]


def test_limits_of_many(full):
    jobs = [full.submit("true", gpus=1, options=("--name", name, "--time", "1h")) for name in ("train-0", "train-1", "eval")]
    array = full.submit("true", gpus=1, options=("--array", "3", "--name", "sweep", "--time", "1h"))
    set_ = ("sluice", "jobs", "set", "--time")
    assert full.run(*set_, "+1h", f"{jobs[0]}-{jobs[1]}").ok().out == "2 jobs limited\n"
    assert full.run(*set_, "3h", "train-1", f"{array}.1-2").ok().out == "3 jobs limited\n"
    assert limits(full, [*jobs, f"{array}.0", f"{array}.1", f"{array}.2"]) == [7200, 10800, 3600, 3600, 10800, 10800]
    # Each is judged by itself: less than an hour less leaves nothing to two of them.
    reply = full.run(*set_, "-1h", "--state", "Pending")
    assert reply.rc == 64 and reply.out == "4 jobs limited\n" and reply.err.count("1h00m less leaves it nothing") == 2, reply
    assert full.run(*set_, "5h", "--all").ok().out == "7 jobs limited\n"  # the holder, which runs, is one
    assert limits(full, [1, *jobs, f"{array}.2"]) == [18000] * 5
    reply = full.run(*set_, "5h", "--state", "Failed")
    assert reply.rc == 64 and "only a job that waits or runs can be limited" in reply.err


def test_variables_of_many(full):
    show = ("sh", "-c", "echo $WHAT")
    jobs = [full.submit(*show, gpus=1, options=("--name", name, "--env", "WHAT=old")) for name in ("show-0", "show-1", "other")]
    array = full.submit(*show, gpus=1, options=("--array", "2", "--name", "show-all", "--env", "WHAT=old"))
    assert full.run("sluice", "jobs", "set", "--env", "WHAT=new", "show-*").ok().out == "4 jobs changed\n"
    reply = full.run("sluice", "jobs", "set", "--env", "WHAT=newer", f"{array}.1", "show-1")
    assert reply.rc == 75 and reply.out == "1 job changed\n", reply
    assert "the variables of an array are set for all of it" in reply.err
    full.run("sluice", "cancel", "--now", 1).ok()
    for job, says in zip([*jobs, f"{array}.0", f"{array}.1"], ("new", "newer", "old", "new", "new")):
        full.job_in(job, "Succeeded")
        assert full.run("sluice", "logs", job).ok().out == says + "\n"


def test_ten_thousand_in_one_call(full):
    full.submit("true", gpus=1, options=("--array", "9998", "--name", "many"))
    began = time.monotonic()
    assert full.run("sluice", "jobs", "hold", "many").ok().out == "9998 jobs held\n"
    assert full.run("sluice", "jobs", "set", "--time", "1h", "many").ok().out == "9998 jobs limited\n"
    assert full.run("sluice", "cancel", "many").ok().out == "9998 jobs cancelled\n"
    assert full.run("sluice", "jobs", "retry", "many").ok().out == "9998 jobs begun anew\n"
    print(f"four changes of 9998 jobs: {time.monotonic() - began:.2f} s")
    assert full.run("sluice", "cancel", "many", "-q").ok().out == ""


@pytest.mark.skipif(os.geteuid() != 0, reason="jobs of several users need root")
def test_each_user_has_their_own(full):
    def run(uid, *words):
        return full.run("sluice", *words, user=uid, group=uid, extra_groups=[], cwd="/")

    job = {uid: int(run(uid, "run", "-d", "--gpus", "1", "--name", "train", "--", "true").ok().out) for uid in (ALICE, BOB)}
    reply = run(ALICE, "cancel", f"{job[BOB]}-{job[BOB]}")
    assert reply.rc == 64 and "no job of yours" in reply.err
    reply = run(ALICE, "cancel", "--user", BOB)
    assert reply.rc == 64 and "no job of yours" in reply.err and f"--user {BOB}" in reply.err
    reply = run(ALICE, "cancel", f"{job[BOB]}-{job[BOB]}", job[BOB])
    assert reply.rc == 77 and "belongs to" in reply.err
    assert run(ALICE, "jobs", "hold", "train").ok().out == "1 job held\n"
    assert states(full, [job[ALICE], job[BOB]]) == ["Held", "Pending"]
    assert run(ALICE, "jobs", "--name", "train", "--output", "json").ok().json["jobs"][0]["id"] == job[ALICE]
    assert run(BOB, "cancel", "--all").ok().out == "1 job cancelled\n"
    assert states(full, [job[ALICE], job[BOB]]) == ["Held", "Cancelled"]
    full.run("sluice", "cancel", "--user", ALICE).ok()
    # Of both users, though each user's begin by themselves.
    assert full.run("sluice", "jobs", "retry", "train").ok().out == "2 jobs begun anew\n"


def answer(machine, said, *words):
    """What a terminal shows of the command, and its exit code, where somebody types that."""
    pid, master = pty.fork()
    if pid == 0:
        os.execve(SLUICE, ["sluice", *words], {**machine.env})
    shown, is_said = b"", False
    while select.select([master], [], [], 30)[0]:
        try:
            block = os.read(master, 4096)
        except OSError:
            break
        if not block:
            break
        shown += block
        if b"[y/N]" in shown and not is_said:
            os.write(master, said)
            is_said = True
    os.close(master)
    return shown.decode(), os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), is_said


def test_many_are_asked_about_on_a_terminal(full):
    jobs = names(full, *["train"] * 6)
    shown, rc, is_asked = answer(full, b"n\n", "cancel", "train")
    assert is_asked and "cancel 6 jobs? [y/N]" in shown and "nothing was changed" in shown and rc == 1
    assert states(full, jobs) == ["Pending"] * 6
    shown, rc, is_asked = answer(full, b"y\n", "jobs", "hold", "train")
    assert is_asked and "6 jobs held" in shown and rc == 0
    shown, rc, is_asked = answer(full, b"n\n", "jobs", "set", "--time", "2h", "train")
    assert is_asked and "limit 6 jobs?" in shown and rc == 1 and limits(full, jobs) == [None] * 6
    shown, rc, is_asked = answer(full, b"y\n", "jobs", "set", "--env", "A=1", "train")
    assert is_asked and "6 jobs changed" in shown and rc == 0
    array = full.submit("true", gpus=1, options=("--array", "9"))
    shown, rc, is_asked = answer(full, b"\n", "cancel", str(array))
    assert is_asked and "cancel 9 jobs?" in shown and rc == 1
    assert full.job(f"{array}.0")["state"] == "Pending"
    shown, rc, is_asked = answer(full, b"", "cancel", "--yes", "train")
    assert not is_asked and "6 jobs cancelled" in shown and rc == 0
    wait_until(lambda: set(states(full, jobs)) == {"Cancelled"})


def test_indices_of_an_array_are_as_they_were_written(full):
    array = full.submit("sh", "-c", 'echo "$SLUICE_ARRAY_INDEX $JOB_COMPLETION_INDEX"', options=("--array", "3-17:7,40%1"))
    for index in (3, 10, 17, 40):
        job = full.job_in(f"{array}.{index}", "Succeeded")
        assert job["array_index"] == index if "array_index" in job else True
        assert full.run("sluice", "logs", f"{array}.{index}").ok().out == f"{index} {index}\n"
    assert full.run("sluice", "jobs", f"{array}.4").rc == 64
    rows = full.run("sluice", "jobs", array).ok().out
    assert all(f"{array}.{index} " in rows for index in (3, 10, 17, 40)) and f"{array}.0 " not in rows
    array = full.submit("true", gpus=1, options=("--array", "1,5,9-12"))
    assert full.run("sluice", "cancel", f"{array}.5-10").ok().out == "3 jobs cancelled\n"
    assert [full.job(f"{array}.{i}")["state"] for i in (1, 5, 9, 10, 11, 12)] == ["Pending"] + ["Cancelled"] * 3 + ["Pending"] * 2
    full.run("sluice", "cancel", f"{array}.12").ok()
    assert full.job(f"{array}.12")["state"] == "Cancelled"
    for wrong, says in (("5,1", "character 3"), ("1-5:0", "character 5"), ("0-10000", "at most 10000"), ("1-", "character 3"),
                        ("0", "no number of jobs")):
        reply = full.run("sluice", "run", "--array", wrong, "--", "true")
        assert reply.rc == 64 and says in reply.err, reply


def test_logs_of_several(machine):
    machine.start("t4x1")
    machine.agent()
    array = machine.submit("sh", "-c", "echo member $SLUICE_ARRAY_INDEX", options=("--array", "3-5:2"))
    alone = machine.submit("echo", "alone", options=("--name", "alone"))
    machine.run("sluice", "jobs", "wait", "--all").ok()
    reply = machine.run("sluice", "logs", array, "alo*").ok()
    assert reply.out == (f"==> {array}.3 <==\nmember 3\n\n==> {array}.5 <==\nmember 5\n\n==> {alone} <==\nalone\n")
    assert machine.run("sluice", "logs", "alone").ok().out == f"==> {alone} <==\nalone\n"
    reply = machine.run("sluice", "logs", "alone", 99)
    assert reply.rc == 64 and "alone\n" in reply.out and "99" in reply.err
    assert machine.run("sluice", "logs", "no-such-name").rc == 64
