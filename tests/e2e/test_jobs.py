# SPDX-License-Identifier: Apache-2.0
"""`sluice jobs`: what is listed, what others see, and waiting for ends."""

import os
import pathlib
import re
import subprocess

import pytest

from conftest import SLUICE, alive, wait_until

SLEEP = ["sleep", "1000"]
WIDE = "ID NAME USER STATE GPUS TIME START EXIT ISOLATION SUBMITTED PRIORITY PROJECT LIMIT REASON".split()
HEADER = "ID NAME USER STATE GPUS TIME REASON".split()


def test_an_empty_list(served):
    reply = served.run("sluice", "jobs").ok()
    assert reply.out.split() == HEADER
    assert served.run("sluice", "jobs", "--output", "json").ok().json == {"jobs": [], "outside": []}


def test_the_list(machine):
    machine.start("dgx-a100")
    machine.agent()
    first = int(machine.run("sluice", "run", "-d", "--gpus", "8", "--name", "wide", "--",
                            *SLEEP).ok().out)
    second = int(machine.run("sluice", "run", "-d", "--gpus", "2", "--", *SLEEP).ok().out)
    third = machine.submit("sh", "-c", "exit 3")
    machine.job_in(first, "Running")
    machine.job_in(third, "Failed")
    lines = machine.run("sluice", "jobs", "--all", "--wide").ok().out.splitlines()
    assert lines[0].split() == WIDE
    rows = {int(line.split()[0]): line for line in lines[1:]}
    assert set(rows) == {first, second, third}
    assert re.search(r"wide .* Running +0,1,2,3,4,5,6,7 .* (cgroup2|cgroup1|landlock|env) ", rows[first])
    assert re.search(r"sleep .* Pending +wants 2 .* WaitingForGPU \(have 0, need 2", rows[second])
    assert re.search(r"sh .* Failed .* 3 .* ExitCode", rows[third])
    listed = machine.run("sluice", "jobs", "--state", "Failed", "--output", "json").ok().json
    assert [job["id"] for job in listed["jobs"]] == [third]
    assert machine.run("sluice", "jobs", "--state", "Nope").rc == 64
    reply = machine.run("sluice", "jobs", "--user", "nobody-of-that-name")
    assert reply.rc == 64 and "there is no user" in reply.err
    for command, meant in (("jobs wiat 1", "wait"), ("agent stauts", "status")):
        reply = machine.run("sluice", *command.split())
        assert reply.rc == 64 and f"did you mean '{meant}'?" in reply.err


def test_one_in_full(machine):
    machine.start("dgx-a100")
    machine.agent()
    number = int(machine.run("sluice", "run", "-d", "--gpus", "1", "--name", "full", "--", "sh",
                             "-c", "exec sleep 1000", "a\x1b[31mb").ok().out)
    job = machine.job_in(number, "Running")
    attempt = job["attempt"]
    assert job["command"] == ["sh", "-c", "exec sleep 1000", "a\x1b[31mb"]
    assert job["simulated"] is True and job["exit_code"] is None
    assert attempt["gpus"][0]["gpu_index"] == int(attempt["gpus"][0]["label"].split()[1])
    assert alive(attempt["pid"]) and alive(attempt["supervisor_pid"])
    text = machine.run("sluice", "jobs", number).ok().out
    assert text.startswith(f"job {number} full: Running")
    for part in (attempt["gpus"][0]["uuid"], attempt["stdout_path"], str(attempt["pid"]),
                 "simulated", "isolation", attempt["isolation"]):
        assert part in text
    assert "\x1b" not in text and "a\\x1b[31mb" in text
    assert machine.run("sluice", "jobs", 99).rc == 64
    assert machine.run("sluice", "jobs", "x").rc == 64


def test_what_was_seen_on_the_gpu(machine):
    """The agent's own look at the driver, with the job's process."""
    machine.start("t4x1")
    machine.agent()
    script = (f"{SLUICE} sim load --gpu 0 --pid $$ --util 0.5 --mem 1GiB && exec sleep 1000")
    number = int(machine.run("sluice", "run", "-d", "--isolation", "env", "--", "sh", "-c", script).ok().out)  # for its pid
    wait_until(lambda: machine.job(number)["attempt"] and
               machine.job(number)["attempt"]["observed"], what="an observation")
    job = machine.job(number)
    machine.run("sluice", "cancel", "--now", number).ok()
    seen = machine.job_in(number, "Cancelled")["attempt"]["observed"]
    assert {entry["pid"] for entry in seen} == {job["attempt"]["pid"]}
    assert {entry["uuid"] for entry in seen} == {job["attempt"]["gpus"][0]["uuid"]}
    assert all(entry["first_unix"] <= entry["last_unix"] for entry in seen)


def test_watching_the_list(served):
    watch = served.spawn("sluice", "jobs", "--watch", stdout=subprocess.PIPE)
    assert watch.stdout.readline().split() == HEADER
    served.submit(*SLEEP, options=("--name", "seen-later"))
    while "seen-later" not in (line := watch.stdout.readline()):
        assert line
    watch.terminate()


def test_waiting_for_ends(served):
    good = served.submit("true")
    bad = served.submit("sh", "-c", "sleep 0.2; exit 7")
    assert served.run("sluice", "jobs", "wait", good).rc == 0
    assert served.run("sluice", "jobs", "wait", good, bad).rc == 7
    long = served.submit(*SLEEP)
    assert served.run("sluice", "jobs", "wait", "--timeout", "100ms", long).rc == 124
    assert served.run("sluice", "jobs", "wait", 99).rc == 64
    assert served.job(long)["state"] in ("Starting", "Running")


def test_a_job_that_just_ends_is_listed_once(served):
    ended = 0
    while ended < 40:
        for _ in range(4):
            served.submit("true")
        jobs = served.run("sluice", "jobs", "--output", "json").ok().json["jobs"]
        numbers = [job["id"] for job in jobs]
        assert len(numbers) == len(set(numbers)), numbers
        ended = sum(job["state"] == "Succeeded" for job in jobs)


@pytest.mark.parametrize("words", [("cancel", ""), ("logs", ""), ("jobs", "wait", "")])
def test_a_shell_completes_numbers(served, words):
    numbers = [served.submit("true") for _ in range(2)]
    line = " ".join(f"'{word}'" for word in ("sluice", *words))
    reply = served.run("bash", "--norc", "-c", f"""
        compopt() {{ :; }}; source <(sluice completion bash)
        COMP_WORDS=({line}); COMP_CWORD=$((${{#COMP_WORDS[@]}} - 1)); _sluice
        echo "${{COMPREPLY[@]}}" """).ok()
    assert sorted(map(int, reply.out.split())) == sorted(numbers), reply


def test_without_an_agent(machine):
    for command in (["jobs"], ["jobs", "1"], ["jobs", "wait", "1"], ["cancel", "1"]):
        reply = machine.run("sluice", *command)
        assert reply.rc == 69 and str(machine.runtime_dir) in reply.err
        assert "start one with 'sluice agent'" in reply.err


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root to be another user")
def test_what_others_see_and_may(served):
    nobody = {"user": 65534, "group": 65534, "extra_groups": [], "cwd": "/"}
    if subprocess.run([SLUICE, "--version"], check=False, capture_output=True, **nobody).returncode:
        pytest.skip("the build cannot be read by another user")
    number = served.submit("sh", "-c", "exec sleep 1000", "secret")
    served.job_in(number, "Running")
    job = served.job(number, **nobody)
    assert job["state"] == "Running" and job["uid"] == 0
    assert job["command"] is None and job["directory"] is None
    attempt = job["attempt"]
    assert attempt["stdout_path"] is None and attempt["pid"] is None
    assert "secret" not in served.run("sluice", "jobs", number, **nobody).ok().out
    for command in (["cancel", number], ["logs", number], ["logs", "-f", number]):
        assert served.run("sluice", *command, **nobody).rc == 77, command
    own = served.submit(*SLEEP, **nobody)
    listed = served.run("sluice", "jobs", "--user", "65534", "-o", "json").ok().json["jobs"]
    assert [job["id"] for job in listed] == [own]
    served.run("sluice", "cancel", "--now", own).ok()  # root may
    served.job_in(own, "Cancelled")


def has_socket(pid):
    links = (os.readlink(one) for one in pathlib.Path(f"/proc/{pid}/fd").iterdir())
    return any(link.startswith("socket:") for link in links)


@pytest.mark.parametrize("ended_meanwhile", [False, True])
def test_who_waits_and_follows_survives_an_agent_that_is_killed(served, ended_meanwhile):
    """`jobs wait` of a job that runs and of one that waits for it; `logs -f` of the first alone, for of one
    that has not started it ends without an agent."""
    go = served.directory / "go"
    first = served.submit("sh", "-c", f"echo one; until test -e {go}; do sleep 0.01; done; echo two; exit 3")
    second = served.submit("echo", "after", options=["--after", str(first)])
    waits = served.spawn("sluice", "jobs", "wait", first, second)
    follow = served.spawn("sluice", "logs", "-f", first, stdout=subprocess.PIPE)
    assert follow.stdout.readline() == "one\n"
    # Who has not asked yet when the agent is killed is told that there is none.
    wait_until(lambda: has_socket(waits.pid), what="jobs wait to connect")
    served.job(first)  # a call that comes after that of `waits`
    for _ in range(3):
        served.service.kill()
        served.service.wait()
        if ended_meanwhile:
            go.touch()
        served.agent()
        assert ended_meanwhile or waits.poll() is None
    go.touch()
    assert follow.communicate(timeout=30)[0] == "two\n"
    waits.communicate(timeout=30)
    assert waits.returncode == 3
