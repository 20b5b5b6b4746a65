# SPDX-License-Identifier: Apache-2.0
"""What is kept of a job's output: up to a limit, with a copy, and never at the job's cost."""

import os
import subprocess
import time

import pytest

from conftest import wait_until

NOBODY = {"user": 65534, "group": 65534, "extra_groups": [], "cwd": "/"}


@pytest.fixture
def limited(machine):
    machine.start("t4x1")
    config = machine.directory / "limit.yaml"
    config.write_text("sluice: {jobs: {logLimit: 64Ki}}\n")
    machine.agent("--config", config)
    return machine


def files(machine, number):
    return machine.state_dir / "j" / str(number)


def finished(machine, script, *options):
    number = machine.submit("sh", "-c", script, options=options)
    machine.run("sluice", "jobs", "wait", number)
    return number


def test_beyond_the_limit_the_job_goes_on(limited):
    began = time.monotonic()
    number = finished(limited, "yes | head -c 500000000; echo $? >&2")
    print(f"500 MB in {time.monotonic() - began:.1f} s")
    assert limited.job(number)["exit_code"] == 0
    assert limited.run("sluice", "logs", "--stderr", number).ok().out == "0\n"
    out = limited.run("sluice", "logs", number).ok().out
    assert out == "y\n" * 32768 + "\nsluice: output beyond 64 KiB was dropped\n"


def test_logs_follow_without_delay(limited):
    go = limited.directory / "go"
    number = limited.submit("sh", "-c", f"echo one; until test -e {go}; do sleep 0.01; done; echo two")
    follow = limited.spawn("sluice", "logs", "-f", number, stdout=subprocess.PIPE)
    assert follow.stdout.readline() == "one\n"
    go.touch()
    assert follow.stdout.readline() == "two\n"
    assert follow.wait() == 0


def test_a_copy_of_the_output(limited):
    copy = limited.directory / "copy"
    number = finished(limited, "seq 1 100000; echo no >&2", "-o", copy)
    assert copy.read_text() == "".join(f"{i}\n" for i in range(1, 100001))  # has no limit
    assert limited.run("sluice", "logs", "--stderr", number).ok().out == "no\n"
    assert limited.job(number)["reason"] is None
    # Relative to where it is submitted; it is appended to.
    done = limited.run("sluice", "run", "--gpus", "0", "-o", "copy", "--", "echo", "more",
                       cwd=limited.directory).ok()
    assert done.out == "more\n" and copy.read_text().endswith("100000\nmore\n")


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root to be another user")
def test_a_copy_is_opened_as_the_user(limited):
    if subprocess.run(["sluice", "--version"], executable=limited.run("sluice", "--version").command[0],
                      check=False, capture_output=True, **NOBODY).returncode:
        pytest.skip("the build cannot be read by another user")
    victim = limited.directory / "victim"
    victim.write_text("precious")
    victim.chmod(0o666)
    link = limited.directory / "link"
    link.symlink_to(victim)
    limited.directory.chmod(0o755)
    for path, why in ((link, "Too many levels"), (limited.directory / "new", "Permission denied")):
        done = limited.run("sluice", "run", "--gpus", "0", "-o", path, "--", "sh", "-c",
                           "echo out; exit 3", **NOBODY)
        assert done.rc == 3 and done.out == "out\n", done
        assert f"sluice: no copy of the output in '{path}': {why}" in done.err
    assert victim.read_text() == "precious" and not (limited.directory / "new").exists()


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root to mount a small disk")
def test_a_full_disk_holds_nobody_up(machine):
    machine.start("t4x1")
    machine.state_dir.mkdir(parents=True, exist_ok=True)
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=24m,mode=755", "tmpfs", machine.state_dir],
                      check=False).returncode:
        pytest.skip("a small disk cannot be mounted")
    try:
        machine.agent()
        number = finished(machine, "head -c 60000000 /dev/zero")
        assert machine.job(number)["exit_code"] == 0
        size = (files(machine, number) / "out.1").stat().st_size
        assert 1 << 20 < size < 24 << 20
        tail = subprocess.run(["tail", "-c", "200", files(machine, number) / "out.1"],
                              capture_output=True, check=True).stdout.decode(errors="replace")
        assert "sluice: output was dropped from 20" in tail, tail
        # There is room for what matters: another job is accepted, and ends.
        assert machine.job(finished(machine, "exit 4"))["exit_code"] == 4
    finally:
        machine.kill_service()
        subprocess.run(["umount", "-l", machine.state_dir], check=True)


def test_a_supervisor_that_is_killed_takes_the_job_with_it(limited):
    number = limited.submit("sh", "-c", "while :; do echo x; sleep 0.01; done")
    wait_until(lambda: limited.run("sluice", "logs", number).out)
    attempt = limited.job(number)["attempt"]
    os.kill(attempt["supervisor_pid"], 9)
    assert limited.job_in(number, "Failed")["reason"] == "SupervisorLost"
    wait_until(lambda: not os.path.exists(f"/proc/{attempt['pid']}"))
