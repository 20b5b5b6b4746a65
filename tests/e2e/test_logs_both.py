# SPDX-License-Identifier: Apache-2.0
"""`sluice logs` shows output and error output together, in the order in which the job wrote them."""

import json
import os
import signal
import subprocess

import pytest

from conftest import SLUICE, wait_until

FOUR = "echo a; echo b >&2; echo c; echo d >&2"
THOUSAND = "i=0; while [ $i -lt 500 ]; do echo o$i; echo e$i >&2; i=$((i+1)); done"
TURNS = [f"{name}{i}" for i in range(500) for name in "oe"]


@pytest.fixture(params=["files", "pipes"])
def machine(machine_factory, request):
    """Jobs write into their files, or through the supervisor, which limits them."""
    made = machine_factory()
    made.start("dgx-a100", "--gpus", "4")
    if request.param == "pipes":
        config = made.directory / "sluice.yaml"
        config.write_text("sluice: {jobs: {logLimit: 16Mi}}\n")
        made.agent("--config", str(config))
    else:
        made.agent()
    return made


def ran(machine, script, *options):
    """The number of a job that has ended."""
    number = int(machine.run("sluice", "run", "--detach", "--gpus", "0", *options, "--", "sh", "-c", script).ok().out)
    machine.run("sluice", "wait", number)
    wait_until(lambda: machine.job(number)["state"] in ("Succeeded", "Failed"), what=f"the end of job {number}")
    return number


def objects(machine, *arguments):
    out = machine.run("sluice", "logs", "--output", "json", *arguments).ok().out
    return [json.loads(line) for line in out.splitlines()]


def test_four_lines_in_their_order(machine):
    number = ran(machine, FOUR)
    reply = machine.run("sluice", "logs", number).ok()
    assert (reply.out, reply.err) == ("a\nb\nc\nd\n", "")
    assert machine.run("sluice", "logs", "-o", number).ok().out == "a\nc\n"
    assert machine.run("sluice", "logs", "--stdout", number).ok().out == "a\nc\n"
    assert machine.run("sluice", "logs", "-e", number).ok().out == "b\nd\n"
    assert machine.run("sluice", "logs", "-e", "-o", number).ok().out == "a\nb\nc\nd\n"
    for lines, expected in ((0, ""), (1, "d\n"), (3, "b\nc\nd\n"), (9, "a\nb\nc\nd\n")):
        assert machine.run("sluice", "logs", "--tail", lines, number).ok().out == expected
    assert machine.run("sluice", "logs", "-f", "--tail", 2, number).ok().out == "c\nd\n"
    assert [(each["job"], each["attempt"], each["stream"], each["text"]) for each in objects(machine, number)] == \
        [(number, 1, "stdout", "a\n"), (number, 1, "stderr", "b\n"), (number, 1, "stdout", "c\n"),
         (number, 1, "stderr", "d\n")]
    assert objects(machine, "--tail", "1", number)[0]["text"] == "d\n"
    reply = machine.run("sluice", "logs", "--output", "json", "-e", number)
    assert reply.rc == 64 and "without -o and -e" in reply.err


def test_a_thousand_lines_by_turns(machine):
    """Whole lines, one a write, each to the other output than the one before: exact, however late it is looked."""
    number = ran(machine, THOUSAND)
    assert machine.run("sluice", "logs", number).ok().out.split() == TURNS


def test_followed_while_it_writes(machine):
    """What a follower saw, early or late, is what `logs` says afterwards."""
    go = machine.directory / "go"
    script = f"echo first; until [ -e {go} ]; do sleep 0.02; done; {THOUSAND}"
    number = int(machine.run("sluice", "run", "--detach", "--gpus", "0", "--", "sh", "-c", script).ok().out)
    follow = [SLUICE, "logs", "-f", str(number)]
    with subprocess.Popen(follow, env=machine.env, stdout=subprocess.PIPE, text=True) as early:
        assert early.stdout.readline() == "first\n"
        go.touch()
        late = machine.run("sluice", "logs", "-f", number).ok()
        assert early.stdout.read().split() == TURNS and early.wait() == 0
    assert (late.out.split(), late.err) == (["first", *TURNS], "")
    assert machine.run("sluice", "logs", number).ok().out == late.out


def test_one_output_alone_and_odd_bytes(machine):
    number = ran(machine, r"printf 'a\377b\001'; printf 'no end'")
    assert "".join(each["text"] for each in objects(machine, number)) == "a�b\x01no end"
    assert {each["stream"] for each in objects(machine, number)} == {"stdout"}
    number = ran(machine, "echo only >&2")
    assert machine.run("sluice", "logs", number).ok().out == "only\n"
    assert machine.run("sluice", "logs", "-f", number).ok().out == "only\n"


def test_attempts_have_an_order_of_their_own(machine):
    number = ran(machine, f"{FOUR}; echo $SLUICE_ATTEMPT; exit 1", "--retries", "1")
    assert machine.run("sluice", "logs", "--attempt", 1, number).ok().out == "a\nb\nc\nd\n1\n"
    assert machine.run("sluice", "logs", number).ok().out == "a\nb\nc\nd\n2\n"
    assert {each["attempt"] for each in objects(machine, number)} == {2}


def test_where_no_order_was_kept(machine):
    """As of a job of an earlier release: one after the other, which is said; and a wrong index loses no byte."""
    number = ran(machine, FOUR)
    index = os.path.dirname(machine.job(number)["attempt"]["stdout_path"]) + "/order.1"
    kept = open(index, "rb").read()
    for wrong in (b"\xff" * 64, b"\0" * 64, kept[:12], kept[:8] * 3, b""):
        with open(index, "wb") as file:
            file.write(wrong)
        for options in ([], ["-f"], ["--tail", "9"]):
            out = machine.run("sluice", "logs", *options, number).ok().out
            assert sorted(out) == sorted("a\nb\nc\nd\n") and out.index("a") < out.index("c") and \
                out.index("b") < out.index("d"), (wrong, out)
    os.unlink(index)
    reply = machine.run("sluice", "logs", number).ok()
    assert reply.out == "a\nc\nb\nd\n"
    assert f"of job {number} the order of output and error output is not known" in reply.err
    assert reply.err.count("\n") == 1


def test_each_worker_has_an_order(machine):
    """Of ranks: the first one's is the job's."""
    number = ran(machine, f"echo rank $RANK >&2; {FOUR}; echo e", "--workers", "3", "--mpi", "ranks")
    for worker in range(3):
        reply = machine.run("sluice", "logs", "--worker", worker, number).ok()
        assert (reply.out, reply.err) == (f"rank {worker}\na\nb\nc\nd\ne\n", ""), worker
        assert machine.run("sluice", "logs", "--worker", worker, "-e", number).ok().out == f"rank {worker}\nb\nd\n"
    streams = [each["stream"] for each in objects(machine, "--worker", "2", number)]
    assert streams == ["stderr", "stdout", "stderr", "stdout", "stderr", "stdout"]
    turns = ran(machine, THOUSAND, "--workers", "3", "--mpi", "ranks")
    for worker in range(3):
        assert machine.run("sluice", "logs", "--worker", worker, turns).ok().out.splitlines() == TURNS, worker


def test_beside_as_many_jobs_as_the_kernel_has_watches_for(machine):
    """A quarter of the instances of inotify is for jobs: the next one has no order, which is said."""
    with open("/proc/sys/fs/inotify/max_user_instances", encoding="ascii") as file:
        most = int(file.read()) // 4
    count = min(most, 40) + 1
    first = ran(machine, FOUR)
    jobs = [int(machine.run("sluice", "run", "--detach", "--gpus", "0", "--", "sh", "-c", f"{FOUR}; exec sleep 1000").ok().out)
            for _ in range(count)]
    for job in (jobs[0], jobs[-1]):
        wait_until(lambda: "d" in machine.run("sluice", "logs", "-e", job).out, what=f"what job {job} writes")
    assert most < 1 or machine.run("sluice", "logs", first).ok().err == ""
    machine.run("sluice", "cancel", "--now", "--all", "--yes").ok()
    for job in (jobs[0], jobs[-1]):
        machine.job_in(job, "Cancelled")
        said = machine.run("sluice", "logs", job).ok().err
        beyond = job == jobs[-1] and count > most
        assert ("is not known" in said) == beyond, (job, most, said)


def test_a_supervisor_that_is_killed(machine):
    """What it kept until then is shown in its order, and what is there besides."""
    number = int(machine.run("sluice", "run", "--detach", "--gpus", "0", "--", "sh", "-c",
                             f"{FOUR}; exec sleep 1000").ok().out)
    wait_until(lambda: machine.run("sluice", "logs", number).out == "a\nb\nc\nd\n", what="its lines")
    os.kill(machine.job(number)["attempt"]["supervisor_pid"], signal.SIGKILL)
    machine.job_in(number, "Failed")
    assert machine.run("sluice", "logs", number).ok().out == "a\nb\nc\nd\n"
