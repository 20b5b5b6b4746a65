# SPDX-License-Identifier: Apache-2.0
"""What is kept of a job's output: up to a limit, with a copy, and never at the job's cost."""

import os
import pathlib
import re
import subprocess
import sys
import time

import pytest

from conftest import SLUICE, wait_until

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


def finished(machine, script, *options, **how):
    number = machine.submit("sh", "-c", script, options=options, **how)
    machine.run("sluice", "jobs", "wait", number)
    return number


def test_beyond_the_limit_the_job_goes_on(limited):
    began = time.monotonic()
    number = finished(limited, "yes | head -c 500000000; echo $? >&2")
    print(f"500 MB in {time.monotonic() - began:.1f} s")
    job = limited.job(number)
    assert (job["state"], job["exit_code"], job["reason"]) == ("Succeeded", 0, "OutputLost"), job
    errors = limited.run("sluice", "logs", "--stderr", number).ok().out
    assert "0\n" in errors and "sluice: output beyond 64 KiB was dropped\n" in errors
    logs = limited.run("sluice", "logs", "-o", number).ok()
    assert logs.out == "y\n" * 32768  # and no word of ours among them
    assert "not all of it was kept" in logs.err and "logLimit" in logs.err, logs


def test_output_that_was_lost_is_no_success_of_run(limited):
    script = "head -c 100000 /dev/zero"
    done = limited.run("sluice", "run", "--gpus", "0", "--", "sh", "-c", script)
    assert done.rc == 73 and done.out == "\0" * 65536, (done.rc, len(done.out), done.err)
    assert "OutputLost" in done.err and "beyond 64 KiB" in done.err, done.err
    assert limited.run("sluice", "run", "--gpus", "0", "--", "sh", "-c", script + "; exit 3").rc == 3


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
    assert "no\n" in limited.run("sluice", "logs", "--stderr", number).ok().out
    assert limited.job(finished(limited, "seq 1 10", "-o", copy))["reason"] is None
    # Relative to where it is submitted; it is appended to.
    done = limited.run("sluice", "run", "--gpus", "0", "-o", "copy", "--", "echo", "more",
                       cwd=limited.directory).ok()
    assert done.out == "more\n" and copy.read_text().endswith("10\nmore\n")


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
    new = limited.directory / "new"
    for path, why in ((link, "not a plain file"), (new, "Permission denied")):
        done = limited.run("sluice", "run", "--gpus", "0", "-o", path, "--", "touch", limited.directory / "ran",
                           **NOBODY)
        assert done.rc == 64 and str(path) in done.err and why in done.err, done
    assert not limited.run("sluice", "jobs", "-a", "--output", "json").ok().json["jobs"]

    # What is changed after it was looked at.
    limited.directory.chmod(0o777)
    link.unlink()
    for path, why in ((link, "Too many levels"), (new, "Permission denied")):
        number = limited.submit("echo", "out", options=["--hold", "-o", path], **NOBODY)
        if path == link:
            link.symlink_to(victim)
        limited.directory.chmod(0o755)
        limited.run("sluice", "jobs", "release", number).ok()
        assert limited.job_in(number, "Succeeded")["reason"] == "OutputLost"
        assert f"sluice: no copy of the output in '{path}': {why}" in limited.run(
            "sluice", "logs", "--stderr", number).ok().out
        limited.directory.chmod(0o777)
    assert victim.read_text() == "precious" and not new.exists()


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root to mount a small disk")
def test_a_copy_on_a_full_disk_is_no_success(limited):
    disk = limited.directory / "disk"
    disk.mkdir()
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", disk], check=False).returncode:
        pytest.skip("a small disk cannot be mounted")
    try:
        done = limited.run("sluice", "run", "--gpus", "0", "-o", disk / "copy", "--", "head", "-c", "65000", "/dev/zero")
        assert done.rc == 0, done.err
        done = limited.run("sluice", "run", "--gpus", "0", "-o", disk / "copy", "--", "head", "-c", "65000", "/dev/zero")
        assert done.rc == 73 and "No space left" in done.err and len(done.out) == 65000, done.err
    finally:
        subprocess.run(["umount", "-l", disk], check=True)


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
        job = machine.job(number)
        assert (job["exit_code"], job["reason"]) == (0, "OutputLost"), job
        size = (files(machine, number) / "out.1").stat().st_size
        assert 1 << 20 < size < 24 << 20
        assert not (files(machine, number) / "out.1").read_bytes().strip(b"\0")  # its data alone
        assert "sluice: output was dropped from 20" in (files(machine, number) / "err.1").read_text()
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


OTHERS = {"user": 65533, "group": 65534, "extra_groups": [], "cwd": "/"}
# What the owner of a job tries with its output: to write to it, by whatever name, or to take it over.
WRITES = """
import os, sys
def tries(what, *arguments):
    try:
        what(*arguments)
    except OSError as error:
        return error.strerror
    return "done"
for path in sys.argv[1:]:
    print(tries(os.open, path, os.O_WRONLY | os.O_APPEND), tries(os.chmod, path, 0o666), tries(os.truncate, path, 0),
          tries(os.unlink, path), tries(os.rename, path, path + "x"), sep=",")
"""


def refused(machine, *paths):
    """What becomes of each try, for each path."""
    done = machine.run(sys.executable, "-c", WRITES, *paths, **NOBODY).ok()
    return [line.split(",") for line in done.out.splitlines()]


def can_be_another(machine):
    for program in (machine.run("sluice", "--version").command[0], sys.executable):
        if subprocess.run([program, "--version"], check=False, capture_output=True, **NOBODY).returncode:
            pytest.skip(f"{program} cannot be executed by another user")


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root to be another user")
def test_its_owner_reads_the_output_and_writes_none_of_it(limited):
    can_be_another(limited)
    go = limited.directory / "go"
    number = limited.submit("sh", "-c", f"echo one; until test -e {go}; do sleep 0.01; done; "
                            "for fd in 1 2; do readlink /proc/self/fd/$fd; done; yes | head -c 500000", **NOBODY)
    wait_until(lambda: limited.run("sluice", "logs", number, **NOBODY).out == "one\n")
    paths = [files(limited, number) / name for name in ("out.1", "err.1")]
    denied = ["Permission denied", "Operation not permitted", "Permission denied", "Permission denied",
              "Permission denied"]
    assert refused(limited, *paths) == [denied, denied]
    go.touch()
    limited.run("sluice", "jobs", "wait", number).ok()
    assert refused(limited, *paths) == [denied, denied]
    assert paths[0].stat().st_size < (64 << 10) + 100
    # He reads it himself: nobody is there who could do it for him.
    limited.kill_service()
    text = limited.run("sluice", "logs", "-o", number, **NOBODY).ok().out
    assert text.startswith("one\npipe:[") and len(text) == 64 << 10
    assert "output beyond 64 KiB was dropped" in limited.run("sluice", "logs", "--stderr", number, **NOBODY).ok().out
    reply = limited.run("sluice", "logs", number, **OTHERS)
    assert reply.rc == 77 and "belongs to another user" in reply.err


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root to be another user")
def test_nor_of_the_order_of_its_outputs(limited):
    """Its user reads the index, and cannot fill the disk by it."""
    can_be_another(limited)
    number = finished(limited, "echo a; echo b >&2; echo c", **NOBODY)
    index = files(limited, number) / "order.1"
    assert refused(limited, index)[0][0] == "Permission denied"
    assert limited.run("sluice", "logs", number, **NOBODY).ok().out == "a\nb\nc\n"
    assert limited.run("sluice", "logs", number).ok().out == "a\nb\nc\n"


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root to be another user")
def test_nor_of_that_of_its_workers(machine):
    can_be_another(machine)
    machine.start("dgx-a100", "--gpus", "2")
    config = machine.directory / "limit.yaml"
    config.write_text("sluice: {jobs: {logLimit: 64Ki}}\n")
    machine.agent("--config", config)
    number = machine.submit("sh", "-c", "yes | head -c 500000; yes no | head -c 300000 >&2", gpus=1,
                            options=("--workers", 2, "--mpi", "ranks"), **NOBODY)
    machine.run("sluice", "jobs", "wait", number, timeout=120).ok()
    paths = [files(machine, number) / f"w{worker}.{name}.1" for worker in (0, 1) for name in ("out", "err")]
    assert machine.job(number)["reason"] == "OutputLost"
    for path in paths:
        text = path.read_text()
        if ".out." in path.name:
            assert text == "y\n" * 32768, path
        else:  # its own, and what is to be said of both
            assert text.count("sluice: output beyond 64 KiB was dropped\n") == 2, path
            assert 64 << 10 < len(text) < (64 << 10) + 200, path
    assert {line[0] for line in refused(machine, *paths)} == {"Permission denied"}
    assert machine.run("sluice", "logs", "--worker", 1, number, **NOBODY).ok().out.startswith("y\ny\n")


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root to be another user")
@pytest.mark.parametrize("limit", ["", "64Ki"])
def test_nobody_else_sees_how_much_it_is(machine, limit):
    can_be_another(machine)
    machine.start("t4x1")
    config = machine.directory / "limit.yaml"
    config.write_text(f"sluice: {{jobs: {{logLimit: {limit or 0}}}}}\n")
    machine.agent("--config", config)
    for who in (NOBODY, {}):
        number = machine.submit("sh", "-c", "echo secret", **who)
        machine.run("sluice", "jobs", "wait", number).ok()
        look = f"import os; print(os.stat({str(files(machine, number) / 'out.1')!r}).st_size)"
        reply = machine.run(sys.executable, "-c", look, **OTHERS)
        assert reply.rc == 1 and "PermissionError" in reply.err, reply
        reply = machine.run(sys.executable, "-c", look, **who).ok()
        assert reply.out == "7\n"
        assert machine.run("sluice", "logs", number, **who).ok().out == "secret\n"
    # As agents before this one left them.
    for number in (1, 2):
        files(machine, number).chmod(0o711)
    machine.kill_service()
    machine.agent("--config", config)
    wait_until(lambda: all(not files(machine, number).stat().st_mode & 1 for number in (1, 2)))
    assert machine.run("sluice", "logs", 1, **NOBODY).ok().out == "secret\n"


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root to mount a disk")
def test_where_there_are_no_access_control_lists(machine):
    """The agent reads for the owner what he cannot, and only his group can look at its size."""
    can_be_another(machine)
    machine.start("t4x1")
    config = machine.directory / "limit.yaml"
    config.write_text("sluice: {jobs: {logLimit: 64Ki}}\n")
    machine.state_dir.mkdir(parents=True, exist_ok=True)
    if subprocess.run(["mount", "-t", "ramfs", "ramfs", machine.state_dir], check=False).returncode:
        pytest.skip("a disk cannot be mounted")
    try:
        machine.state_dir.chmod(0o711)
        machine.agent("--config", config)
        done = machine.run("sluice", "run", "--gpus", "0", "--", "echo", "mine", **NOBODY).ok()
        assert done.out == "mine\n"
        out = files(machine, 1) / "out.1"
        assert (out.stat().st_uid, out.stat().st_mode & 0o777) == (0, 0o600)
        assert refused(machine, out)[0][0] == "Permission denied"
        assert machine.run("sluice", "logs", 1, **NOBODY).ok().out == "mine\n"
        reply = machine.run(sys.executable, "-c", f"import os; os.stat({str(out)!r})", user=65533, group=65533,
                            extra_groups=[], cwd="/")
        assert "PermissionError" in reply.err
        # What each rank wrote beside the first the agent does not tell, and nothing else in its place.
        reply = machine.run("sluice", "logs", "--worker", 1, 1, **NOBODY)
        assert reply.rc != 0 and not reply.out
    finally:
        machine.kill_service()
        subprocess.run(["umount", "-l", machine.state_dir], check=True)


CAP_SYS_RESOURCE = 1 << 24
# Enters a user namespace with the same numbers as outside.
INSIDE = """
import ctypes, os, sys
ready, is_mapped = os.pipe(), os.pipe()
if os.fork() == 0:
    os.read(ready[0], 1)
    for name in ("uid_map", "gid_map"):
        with open(f"/proc/{os.getppid()}/{name}", "w") as file:
            file.write("0 0 65536")
    os.write(is_mapped[1], b"x")
    os._exit(0)
if ctypes.CDLL(None).unshare(0x10000000) != 0: # CLONE_NEWUSER
    os._exit(77)
os.write(ready[1], b"x")
os.close(is_mapped[1])
if os.read(is_mapped[0], 1) != b"x":
    os._exit(77)
os.wait()
"""


def capabilities(pid):
    return int(re.search(r"CapEff:\s*(\w+)", pathlib.Path(f"/proc/{pid}/status").read_text())[1], 16)


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root to be root in a user namespace")
def test_what_root_writes_for_a_user_counts_against_his_quota(machine):
    """The kernel asks whoever writes for one capability, and lets go past the owner's quota whoever has it. In a user
    namespace of its own root has all of them, also where it lacks some outside."""
    if subprocess.run([sys.executable, "-c", INSIDE], check=False, capture_output=True).returncode:
        pytest.skip("no user namespace can be had")
    inside = machine.directory / "inside"
    inside.write_text(f"#!{sys.executable}\n{INSIDE}os.execv({SLUICE!r}, sys.argv)\n")
    inside.chmod(0o755)
    machine.agent(program=str(inside))
    number = machine.submit("sleep", "1000")
    attempt = machine.job_in(number, "Running")["attempt"]
    assert not capabilities(attempt["supervisor_pid"]) & CAP_SYS_RESOURCE
    assert capabilities(attempt["pid"]) & CAP_SYS_RESOURCE  # a job of root's own is as it was
