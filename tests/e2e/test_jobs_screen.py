# SPDX-License-Identifier: Apache-2.0
"""`sluice jobs` on a terminal: one line a job, whatever its size; columns that are asked for; arrays as one line."""

import fcntl
import os
import pty
import re
import struct
import subprocess
import termios
import unicodedata

import pytest

from conftest import SLUICE, wait_until

SLEEP = ["sleep", "1000"]
NOBODY = {"user": 65534, "group": 65534, "extra_groups": [], "cwd": "/"}


def on_terminal(machine, *options, columns=80, rows=24, env=None):
    """What the command writes on a terminal of that size, line by line."""
    near, far = pty.openpty()
    fcntl.ioctl(far, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
    child = subprocess.Popen([SLUICE, "jobs", *map(str, options)], env={**machine.env, **(env or {})},
                             stdin=subprocess.DEVNULL, stdout=far, stderr=subprocess.PIPE)
    os.close(far)
    shown = b""
    while True:
        try:
            some = os.read(near, 65536)
        except OSError:
            break  # the other end is closed
        if not some:
            break
        shown += some
    os.close(near)
    assert child.wait() == 0, child.stderr.read()
    child.stderr.close()
    return shown.decode().replace("\r", "").splitlines()


def width(line):
    return sum(0 if unicodedata.combining(one) else 2 if unicodedata.east_asian_width(one) in "WF" else 1 for one in line)


def submit(machine, *options, command=SLEEP, **who):
    reply = machine.run("sluice", "run", "--detach", *options, "--", *command, **who).ok()
    return int(reply.out.split()[0])


@pytest.fixture(name="lab")
def busy_machine(machine):
    machine.start("dgx-a100")
    machine.agent()
    return machine


def test_one_line_for_each_on_any_width(lab):
    running = submit(lab, "--gpus", "8", "--name", "a-name-that-is-long-enough-to-be-cut", "--time", "2h")
    lab.job_in(running, "Running")
    programs = [lab.directory / name for name in ("漢字のなまえの長いプログラム", "bad\x1b[2J\u202ename")]  # the name of a job that is given none
    for program in programs:
        program.symlink_to("/bin/sleep")
    waiting = submit(lab, "--gpus", "2", "--time", "30m", command=[programs[0], "1000"])
    submit(lab, "--gpus", "2", command=[programs[1], "1000"])
    lab.run("sluice", "jobs", "hold", submit(lab, "--gpus", "1", "--name", "held")).ok()
    for columns in (80, 20, 40, 63, 100, 132, 400):
        lines = on_terminal(lab, columns=columns)
        assert len(lines) == 5 and max(map(width, lines)) <= columns, (columns, lines)
        assert not any(one in "".join(lines) for one in "\x1b\u202e")
    lines = on_terminal(lab)
    assert lines[0].split() == "ID NAME USER STATE GPUS TIME START REASON".split()
    assert [line.split()[0] for line in lines[1:]] == ["1", "2", "3", "4"]
    assert re.search(r"Pending +wants 2 +\S+ +#1 ~119m +WaitingForGPU \(", lines[2]), lines
    assert re.search(r"Pending +wants 2 +\S+ +#2 +QueueOrder \(behind", lines[3]), lines
    assert re.search(r" Held .* User ", lines[4]), lines
    job = lab.job(waiting)
    assert job["queue_place"] == 1 and job["array"] is None
    assert 7000 < job["start_estimate_unix"] - job["submitted_unix"] <= 7201
    assert "1 of those that wait" in lab.run("sluice", "jobs", waiting).ok().out
    assert lab.job(running)["queue_place"] is None
    # A pipe is as wide as a terminal, unless somebody says otherwise.
    plain = lambda lines: [re.sub(r" +[0-9.]+s ", " ", line) for line in lines]  # but for the time
    assert plain(lab.run("sluice", "jobs").ok().out.splitlines()) == plain(lines)
    assert max(map(width, lab.run("sluice", "jobs", env={"COLUMNS": "50"}).ok().out.splitlines())) <= 50
    wide = lab.run("sluice", "jobs", "--wide").ok().out.splitlines()
    assert wide[0].split() == ("ID NAME USER STATE GPUS TIME START EXIT ISOLATION SUBMITTED PRIORITY PROJECT LIMIT REASON").split()
    assert "a-name-that-is-long-enough-to-be-cut" in wide[1] and "…" not in "".join(wide)
    assert plain(on_terminal(lab, "--wide", columns=40)) == plain(wide)


def test_columns(lab):
    number = submit(lab, "--gpus", "1", "--name", "one", "--priority", "0")
    lab.job_in(number, "Running")
    for options in (("--columns", "id,STATE,priority"), ("-o", "id,state,priority"), ("--output=id,state,priority",)):
        assert lab.run("sluice", "jobs", *options).ok().out == "ID  STATE    PRIORITY\n 1  Running         0\n"
    assert lab.run("sluice", "jobs", "-o", "id,name", "--no-header").ok().out == "1  one\n"
    assert lab.run("sluice", "jobs", number, "-o", "id,name", "--no-header").ok().out == "1  one\n"
    assert lab.run("sluice", "jobs", "-o", "table").ok().out.startswith("ID  NAME")
    for bad, why in (("id,stat", "no column 'stat', did you mean 'state'?; the columns are id, name,"),
                     ("id,,name", "no column ''"), ("id,", "no column ''"), ("", "no column ''"),
                     (",".join(["id"] * 25), "at most 24 columns")):
        reply = lab.run("sluice", "jobs", "--columns", bad)
        assert reply.rc == 64 and why in reply.err, reply
    reply = lab.run("sluice", "jobs", "-o", "yaml")
    assert reply.rc == 64 and "--output: there is no column 'yaml'" in reply.err


def test_an_array_is_one_line(lab):
    first = submit(lab, "--gpus", "1", "--array", "500", "--name", "sweep", command=["sh", "-c", "exec sleep 1000"])
    wait_until(lambda: len(lab.run("sluice", "jobs", "--state", "Running", "--members", "--no-header").ok().out.splitlines()) == 8,
               what="eight of them to run")
    [line] = on_terminal(lab, "--no-header")
    assert re.match(rf"{first}  sweep .* Running +\S+ +\S+ +#1 +8 of 500 run, 49", line), line
    [line] = lab.run("sluice", "jobs", "--wide", "--no-header").ok().out.splitlines()
    assert re.search(r" 0,1,2,3,4,5,6,7 .* 8 of 500 run, 492 wait: WaitingForGPU \(", line), line
    lab.run("sluice", "cancel", "--now", f"{first}.0").ok()
    lab.job_in(f"{first}.0", "Cancelled")
    wait_until(lambda: "8 of 500 run, 491 wait, 1 ended: " in lab.run("sluice", "jobs", "--wide").ok().out)
    assert "8 of 500 run, 491 wait, 1 cancelled: " in lab.run("sluice", "jobs", "--wide", "--all").ok().out
    assert "1 of 500 cancelled" in lab.run("sluice", "jobs", "--wide", "--state", "Cancelled").ok().out
    assert len(on_terminal(lab, "--members", "--no-header")) == 499
    members = lab.run("sluice", "jobs", first, "--no-header").ok().out.splitlines()
    assert len(members) == 500 and members[0].split()[0] == f"{first}.1"
    assert {"first": first, "index": 3, "count": 500} in [job["array"] for job in lab.run("sluice", "jobs", "--output", "json").json["jobs"]]


def test_what_has_ended_is_shown_on_request(lab):
    ended = lab.submit("sh", "-c", "exit 3")
    lab.job_in(ended, "Failed")
    assert len(lab.run("sluice", "jobs").ok().out.splitlines()) == 1
    for options in (("--all",), ("-a",), ("--state", "Failed"), ("--since", "1h")):
        header, line = lab.run("sluice", "jobs", *options).ok().out.splitlines()
        assert header.split() == "ID NAME USER STATE TIME EXIT REASON".split() or "GPUS" in header
        assert re.search(r" Failed .* 3 +ExitCode", line), line
    assert [job["id"] for job in lab.run("sluice", "jobs", "--output", "json").ok().json["jobs"]] == [ended]


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root to be another user")
def test_all_of_ones_own_on_a_screen_of_80_by_24(lab):
    if subprocess.run([SLUICE, "--version"], check=False, capture_output=True, **NOBODY).returncode:
        pytest.skip("the build cannot be read by another user")
    for _ in range(30):
        submit(lab, "--gpus", "1", **NOBODY)
    wait_until(lambda: len(lab.run("sluice", "jobs", "--state", "Running", "--no-header").ok().out.splitlines()) == 8, what="eight to run")
    array = submit(lab, "--gpus", "1", "--array", "120", "--name", "sweep")
    own = [submit(lab, "--gpus", str(1 + i % 4), "--name", f"train-{i}") for i in range(12)]
    lines = on_terminal(lab)
    assert len(lines) == 23 and max(map(width, lines)) <= 80, lines  # and the shell's own line
    assert sorted(int(line.split()[0]) for line in lines[1:14]) == sorted([array, *own])
    for line in lines[1:14]:
        assert re.search(r" Pending +\S.* (QueueOrder|WaitingForGPU|120 wait: WaitingForGPU)", line), line
    assert all(" nobody " in line for line in lines[14:22])
    assert lines[22] == "and 22 more jobs of 1 user (0 run, 22 wait): sluice jobs --wide"
    lines = on_terminal(lab, rows=10)
    assert [int(line.split()[0]) for line in lines[1:14]] and len(lines) == 15  # one's own all the same
    assert lines[14].startswith("and 30 more jobs of 1 user (8 run, 22 wait)")
    assert len(on_terminal(lab, "--wide")) == 44
    assert len(on_terminal(lab, "--user", "65534")) == 31
    lab.run("sluice", "cancel", "--now", array).ok()
