# SPDX-License-Identifier: Apache-2.0
"""Supervisors that the helper forks while many jobs start are what executed ones are, and nothing is lost with it."""

import os
import pathlib
import re
import shutil
import signal

from conftest import BUILD, alive, wait_until

PROGRAM = BUILD / "src" / "libexec" / "supervise" / "sluice-supervise"
# As it is at the moment, and of this process alone.
OWN = re.compile(r"^(Pid|Tgid|NStgid|NSpid|NSpgid|NSsid|State|Vm\w+|Rss\w+|\w*_ctxt_switches|SigQ|FDSize|Threads|Mems_\w+|x86_\w+|CoreDumping|THP_\w+)$")


def of(pid, name):
    return pathlib.Path(f"/proc/{pid}/{name}").read_bytes()


def first_address(pid):
    """The same only in processes of which one was forked from the other."""
    return of(pid, "maps").split(b"-")[0]


def helper(machine):
    """The process that forks supervisors, or None."""
    for child in of(machine.service.pid, f"task/{machine.service.pid}/children").split():
        try:
            if b"--spawner" in of(int(child), "cmdline").split(b"\0"):
                return int(child)
        except OSError:
            continue
    return None


def supervisor(machine, number):
    machine.job_in(number, "Running")
    text = (machine.state_dir / "j" / str(number) / "claim.1").read_text()
    return int(re.search(r"^pid (\d+)$", text, re.MULTILINE).group(1))


def many(machine, count, command="sleep 1000"):
    """Jobs that are started one right after the other; their numbers."""
    reply = machine.run("sluice", "run", "-d", "--gpus", "0", "--lines", "-", input=f"{command}\n" * count).ok()
    return [int(number) for number in reply.out.split()]


def forked(machine, count=12):
    """The number of a job with a forked supervisor, and that of an executed one."""
    numbers = many(machine, count)
    pids = {number: supervisor(machine, number) for number in numbers}
    parent = helper(machine)
    assert parent, "no helper"
    like = {number: first_address(pid) == first_address(parent) for number, pid in pids.items()}
    assert True in like.values() and False in like.values(), like
    return [next(number for number in numbers if like[number] is what) for what in (True, False)]


def shape(pid):
    """All that an executed process has fresh."""
    status = dict(line.split(":", 1) for line in of(pid, "status").decode().splitlines())
    fds = {int(fd): re.sub(r"job-\d+-[0-9a-f]+|\d{2,}|/j/\d+", "N", os.readlink(f"/proc/{pid}/fd/{fd}")) for fd in os.listdir(f"/proc/{pid}/fd")}
    stat = of(pid, "stat").decode().rpartition(")")[2].split()
    words = [word for word in of(pid, "cmdline").split(b"\0") if word]
    assert [int(stat[2]), int(stat[3])] == [pid, pid], "it leads its session and its group"
    return {"status": {key: value for key, value in status.items() if not OWN.match(key)}, "limits": of(pid, "limits"),
            "environ": of(pid, "environ"), "cgroup": of(pid, "cgroup"), "fds": fds, "comm": of(pid, "comm"),
            "words": words[:2] + words[3:], "exe": os.readlink(f"/proc/{pid}/exe"), "parent": int(stat[1]),
            "cwd": os.readlink(f"/proc/{pid}/cwd"), "oom": of(pid, "oom_score_adj"),
            "namespaces": [os.readlink(f"/proc/{pid}/ns/{name}") for name in ("pid", "mnt", "net", "user")]}


def test_forked_is_as_executed(machine):
    machine.agent()
    one, other = (supervisor(machine, number) for number in forked(machine))
    # Both have moved to where supervisors are, a moment after the start.
    wait_until(lambda: shape(one)["cgroup"] == shape(other)["cgroup"], what="the same cgroup")
    for key, value in shape(one).items():
        assert value == shape(other)[key], key
    assert shape(one)["parent"] == machine.service.pid


def test_jobs_outlive_helper_and_agent(machine):
    machine.agent()
    number, _ = forked(machine)
    pid = supervisor(machine, number)
    parent = helper(machine)
    os.kill(parent, signal.SIGKILL)
    wait_until(lambda: not alive(parent), what="the end of the helper")
    quick = many(machine, 8, "exec true")
    for each in quick:
        machine.job_in(each, "Succeeded")
    machine.service.kill()
    machine.service.wait()
    assert alive(pid)
    machine.agent()
    assert machine.job(number)["state"] == "Running" and supervisor(machine, number) == pid
    machine.run("sluice", "cancel", number).ok()
    machine.job_in(number, "Cancelled")


def test_a_helper_that_stands_still(machine):
    """It is killed, and what it was asked for last starts all the same."""
    machine.agent()
    forked(machine)
    parent = helper(machine)
    os.kill(parent, signal.SIGSTOP)
    numbers = many(machine, 4, "exec true")
    for number in numbers:
        machine.job_in(number, "Succeeded")
    assert not alive(parent)


def test_it_ends_with_its_use_and_with_the_agent(machine):
    machine.agent()
    forked(machine)
    parent = helper(machine)
    wait_until(lambda: not alive(parent), what="the end of an idle helper")
    many(machine, 6, "exec true")
    parent = wait_until(lambda: helper(machine), what="a helper")
    machine.service.kill()
    machine.service.wait()
    wait_until(lambda: not alive(parent), what="the end of a helper without an agent")


def test_another_program_is_another_helper(machine):
    """As after an upgrade of the package."""
    program = machine.directory / "sluice-supervise"
    shutil.copy(PROGRAM, program)
    machine.env["SLUICE_SUPERVISOR"] = str(program)
    machine.agent()
    forked(machine)
    before = helper(machine)
    shutil.copy(PROGRAM, machine.directory / "new")
    (machine.directory / "new").rename(program)
    number, _ = forked(machine)
    assert helper(machine) != before and not alive(before)
    assert "deleted" not in os.readlink(f"/proc/{supervisor(machine, number)}/exe")
