# SPDX-License-Identifier: Apache-2.0
"""What users leave behind in the directories of their jobs keeps nobody waiting, and in the end it is gone."""

import json
import os
import subprocess
import sys
import time

import pytest

from conftest import wait_until

ROOT = os.geteuid() == 0
# Nobody's: as another user where that is possible.
OTHER = {"user": 65534, "group": 65534, "extra_groups": [], "cwd": "/"} if ROOT else {}
# A tree deeper than any path is long, and many files beside it.
LEAVES = """
import os, sys
os.chdir(os.path.dirname(os.environ["SLUICE_HOSTFILE"]))
os.mkdir("many")
for i in range(int(sys.argv[1])):
    os.close(os.open(f"many/{i}", os.O_CREAT | os.O_WRONLY))
os.mkdir("closed", 0)
for i in range(1500):
    os.mkdir("deeper")
    os.chdir("deeper")
"""


@pytest.fixture
def workers(machine):
    machine.start("dgx-a100", "--gpus", "2")
    machine.agent()
    yield machine


def leave(machine, files):
    if OTHER and subprocess.run([sys.executable, "-c", ""], check=False, **OTHER).returncode:
        pytest.skip("another user cannot execute the interpreter")
    number = machine.submit(sys.executable, "-c", LEAVES, files, gpus=1, options=("--workers", 2), **OTHER)
    machine.run("sluice", "jobs", "wait", number, timeout=120).ok()
    assert machine.job(number)["state"] == "Succeeded", machine.run("sluice", "logs", "--stderr", number)
    return number


def entries(machine, name):
    return os.listdir(machine.state_dir / name) if (machine.state_dir / name).is_dir() else []


def test_a_tree_that_users_left_keeps_nobody_waiting(workers):
    number = leave(workers, 20000)
    # It never lay where the queue lists its jobs, and is gone from where the workers had it.
    assert entries(workers, "workers") == []
    assert sorted(name for name in entries(workers, "j") if not name.isdigit()) == []
    took = []
    while entries(workers, "trash"):
        began = time.monotonic()
        workers.submit("true", options=("--array", 3))
        took.append(time.monotonic() - began)
        assert len(took) < 1000
    print(f"{len(took)} submissions meanwhile, the longest {max(took, default=0):.3f} s")
    assert max(took, default=0) < 5  # the machine may be busy; it took as long as the removal before
    assert workers.run("sluice", "logs", number).ok().out == ""
    assert "cannot be removed" not in (workers.directory / "agent.err").read_text()


@pytest.mark.skipif(not ROOT, reason="needs root to make a file that nobody can remove")
def test_what_cannot_be_removed_is_told_and_in_nobodys_way(workers):
    state = workers.state_dir
    workers.kill_service()
    for name in ("j/tmp.9", "workers/77.1-deadbeef"):
        (state / name / "sub").mkdir(parents=True)
        (state / name / "sub" / "file").write_text("x")
    stuck = [state / "j" / "tmp.9", state / "workers" / "77.1-deadbeef" / "sub" / "file"]
    if any(subprocess.run(["chattr", "+i", path], check=False, capture_output=True).returncode for path in stuck):
        subprocess.run(["chattr", "-i", *stuck], check=False, capture_output=True)
        pytest.skip("this file system has no immutable files")
    try:
        workers.agent()
        first = workers.submit("true", options=("--array", 3))
        workers.run("sluice", "jobs", "wait", first).ok()
        error = workers.directory / "agent.err"
        wait_until(lambda: "cannot be removed, and stay: '77." in error.read_text(), what="that it stays")
        assert "1 directories of ended jobs" in error.read_text(), error.read_text()
        assert (state / "j" / "tmp.9").exists()
    finally:
        left = [path for path in state.rglob("*") if path.name in ("file", "tmp.9")]
        subprocess.run(["chattr", "-i", *left], check=True)
    # Once it can be, it goes.
    workers.kill_service()
    workers.agent()
    wait_until(lambda: not entries(workers, "trash") and not (state / "j" / "tmp.9").exists(), what="a clear trash")


def test_what_a_killed_supervisor_left_goes_as_well(workers):
    number = workers.submit("sleep", "1000", gpus=1, options=("--workers", 2), **OTHER)
    wait_until(lambda: entries(workers, "workers"))
    os.kill(workers.job_in(number, "Running")["attempt"]["supervisor_pid"], 9)
    assert workers.job_in(number, "Failed")["reason"] == "SupervisorLost"
    wait_until(lambda: not entries(workers, "workers") and not entries(workers, "trash"), what="nothing of it")
    jobs = json.loads(workers.run("sluice", "jobs", "--output", "json").ok().out)["jobs"]
    assert [job["id"] for job in jobs] == [] or number in [job["id"] for job in jobs]
