# SPDX-License-Identifier: Apache-2.0
"""What a job must not get from the service, and what the service does not let be taken from it."""

import contextlib
import ctypes
import json
import os
import resource
import signal
import sys

import pytest

from conftest import DEADLINE_S, wait_until

ROOT_ONLY = pytest.mark.skipif(os.geteuid() != 0, reason="needs root")
SYS_KEYCTL = {"x86_64": 250, "aarch64": 219}.get(os.uname().machine)
# The serial of the session keyring: KEYCTL_GET_KEYRING_ID of KEY_SPEC_SESSION_KEYRING.
KEYRING = f"ctypes.CDLL(None).syscall({SYS_KEYCTL}, 0, -3, 0)"


def test_a_cancel_that_its_agent_did_not_live_to_pass_on(machine):
    """The agent made the cancel durable and died before the supervisor heard of it."""
    agent = machine.agent()
    job = machine.submit("sleep", "1000")
    machine.job_in(job, "Running")
    agent.send_signal(signal.SIGKILL)
    agent.wait()
    (machine.state_dir / "j" / str(job) / "cancel").touch(mode=0o600)
    machine.agent()
    assert machine.job_in(job, "Cancelled")["signal"] == signal.SIGTERM


def test_jobs_without_gpus_leave_the_agent_its_descriptors(machine):
    """Each job that runs costs the agent some: others are still heard, and what waits says why."""
    limit = (300, 300)
    machine.agent(preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_NOFILE, limit))
    for _ in range(110):
        last = machine.submit("sleep", "1000")
    jobs = machine.run("sluice", "jobs", "--output", "json").ok().json["jobs"]
    waits = [job for job in jobs if job["state"] == "Pending"]
    assert waits and "at a time" in machine.job(last)["reason_text"]
    first = min(job["id"] for job in jobs if job["state"] == "Running")
    machine.run("sluice", "cancel", "--now", first).ok()
    machine.job_in(first, "Cancelled")
    wait_until(lambda: machine.job(waits[0]["id"])["state"] == "Running")


def test_a_job_cannot_write_into_the_lock_of_its_gpu(machine):
    """It holds it, but the directory of the locks is small and not the job's to fill."""
    machine.start("t4x1")
    machine.agent()
    look = ("import fcntl,json,os\n"
            "found={}\n"
            "for name in os.listdir('/proc/self/fd'):\n"
            "    try: path=os.readlink('/proc/self/fd/'+name)\n"
            "    except OSError: continue\n"
            "    if '/gpu/' in path:\n"
            "        found[path]=fcntl.fcntl(int(name),fcntl.F_GETFL)&os.O_ACCMODE\n"
            "print(json.dumps(found))\n")
    found = json.loads(machine.run("sluice", "run", "-g", "1", "--", sys.executable, "-c",
                                   look).ok().out)
    assert len(found) == 1
    assert set(found.values()) == {os.O_RDONLY}
    # for people it still says which job had it last
    assert "name=1\n" in open(next(iter(found)), encoding="utf-8").read()


@ROOT_ONLY
@pytest.mark.skipif(SYS_KEYCTL is None, reason="the number of keyctl() here is not known")
def test_a_job_does_not_possess_the_keys_of_the_agent(machine):
    """Root's session keyring leads to passphrases that the system has asked for."""
    # pylint: disable-next=eval-used
    ours = eval(KEYRING, {"ctypes": ctypes})
    if ours < 0:
        pytest.skip("no keyrings here")
    machine.agent()
    show = f"import ctypes; print({KEYRING})"
    theirs = int(machine.run("sluice", "run", "-g", "0", "--", sys.executable, "-c", show).ok().out)
    assert theirs > 0 and theirs != ours


@contextlib.contextmanager
def never_answering(directory):
    """A file system whose server says nothing, as one of a network that is away."""
    directory.mkdir()
    libc = ctypes.CDLL(None, use_errno=True)
    try:
        server = os.open("/dev/fuse", os.O_RDWR)
    except OSError:
        pytest.skip("no FUSE here")
    options = f"fd={server},rootmode=40000,user_id=0,group_id=0,allow_other"
    if libc.mount(b"silent", os.fsencode(directory), b"fuse", 0, options.encode()) != 0:
        os.close(server)
        pytest.skip("mounting is not permitted here")
    try:
        yield
    finally:
        os.close(server)
        libc.umount2(os.fsencode(directory), 2)  # MNT_DETACH


@ROOT_ONLY
@pytest.mark.parametrize("how", ["cancel", "time"])
def test_a_job_whose_directory_never_answers_can_be_ended(machine, how):
    """It is stuck before its command begins, and has its GPU."""
    machine.start("t4x1")
    machine.agent()
    silent = machine.directory / "silent"
    with never_answering(silent):
        options = ["--time", "1s"] if how == "time" else []
        stuck = int(machine.run("sluice", "run", "--detach", "-g", "1", "--cwd", silent, *options,
                                "--", "true").ok().out)
        wait_until(lambda: (machine.state_dir / "j" / str(stuck) / "claim.1").exists())
        if how == "cancel":
            machine.run("sluice", "cancel", stuck).ok()
        end = machine.job_in(stuck, "Cancelled" if how == "cancel" else "Failed")
        assert end["reason"] == ("User" if how == "cancel" else "DeadlineExceeded")
        machine.run("sluice", "run", "-g", "1", "--", "true").ok()


def test_an_agent_whose_runtime_directory_went_away_is_found_again(machine):
    """As a user's does when he logs out, and comes back empty when he logs in."""
    agent = machine.agent()
    job = machine.submit("sleep", "1000")
    machine.job_in(job, "Running")
    machine.runtime_dir.rename(machine.directory / "old-run")
    machine.runtime_dir.mkdir(mode=0o755)
    wait_until((machine.runtime_dir / "agent.sock").exists, what="the socket")
    assert machine.job(job)["state"] == "Running"
    machine.run("sluice", "cancel", job).ok()
    machine.run("sluice", "run", "-g", "0", "--", "true").ok()
    machine.run("sluice", "agent", "stop").ok()
    assert agent.wait(timeout=DEADLINE_S) == 0
    assert not (machine.runtime_dir / "agent.sock").exists()


@ROOT_ONLY
def test_an_agent_that_root_starts_with_a_strict_umask_is_everybodys(machine):
    machine.run("sluice", "run", "-g", "0", "--", "true", umask=0o077).ok()
    assert machine.runtime_dir.stat().st_mode & 0o777 == 0o755
    machine.run("sluice", "agent", "stop").ok()
