# SPDX-License-Identifier: Apache-2.0
"""The life of `sluice agent`: start, stop, restart, and everything that is in its way."""

import hashlib
import os
import pathlib
import shutil
import signal
import socket
import subprocess
import time

import pytest

from agent_client import Agent, code_of, pb
from conftest import BUILD, DEADLINE_S, wait_until

ROOT_ONLY = pytest.mark.skipif(os.geteuid() != 0, reason="needs root")


@pytest.fixture
def dgx(machine):
    machine.start("dgx-a100", "--gpus", "4", "--dev-style", "file")
    yield machine


def exit_of(machine, *options, **how):
    """Exit code and last words of an agent that does not come up."""
    reply = machine.run("sluice", "agent", "--log-format", "text", *options, **how)
    return reply.rc, reply.err


def has_job_ended(machine, number, attempt=1):
    state = pathlib.Path(machine.env["SLUICE_STATE_DIR"])
    return (state / "j" / str(number) / f"result.{attempt}").exists()


# --- start and stop

def test_starts_says_so_and_stops(dgx):
    agent = Agent(dgx)
    assert agent.is_ready
    wait_until(lambda: agent.client().status().gpus == 4)
    status = dgx.run("sluice", "agent", "status", "--output", "json").ok().json
    assert status["pid"] == agent.pid and status["gpus"] == 4 and status["simulated"]
    assert [process["role"] for process in status["processes"]] == ["agent", "probe"]
    probe = next(process["pid"] for process in status["processes"] if process["role"] == "probe")
    assert os.readlink(f"/proc/{probe}/exe").endswith("/sluice-probe")
    assert "4 simulated" in dgx.run("sluice", "agent", "status").ok().out
    dgx.run("sluice", "agent", "stop").ok()
    assert agent.process.wait(timeout=DEADLINE_S) == 0
    assert not agent.socket.exists()
    assert dgx.run("sluice", "agent", "status").rc == 69
    assert dgx.run("sluice", "agent", "stop").rc == 69
    again = Agent(dgx)
    assert again.is_ready
    assert again.end() == 0


@pytest.mark.parametrize("signo", [signal.SIGTERM, signal.SIGINT, signal.SIGQUIT])
def test_signals_end_it(dgx, signo):
    agent = Agent(dgx)
    os.kill(agent.pid, signo)
    assert agent.process.wait(timeout=DEADLINE_S) == 0


def test_running_streams_end_with_it(dgx):
    agent = Agent(dgx)
    client = agent.client()
    job = client.submit("sleep", "100")
    client.wait(job.id, (pb.RUNNING,))
    watch = client.queue.Watch(pb.JobRequest(id=job.id), timeout=DEADLINE_S)
    next(watch)
    machine = client.node.Watch(pb.WatchRequest(), timeout=DEADLINE_S)
    next(machine)
    began = time.monotonic()
    os.kill(agent.pid, signal.SIGTERM)
    assert code_of(lambda: watch)[0] == "UNAVAILABLE"
    assert agent.process.wait(timeout=DEADLINE_S) == 0
    assert time.monotonic() - began < 4  # nothing was waited for
    with Serving(dgx) as other:
        other.client().cancel(job.id)
        other.client().wait(job.id)


class Serving:  # pylint: disable=too-few-public-methods
    """An agent for a while."""

    def __init__(self, machine, *options, **how):
        self.agent = Agent(machine, *options, **how)

    def __enter__(self):
        assert self.agent.is_ready, self.agent.text()
        return self.agent

    def __exit__(self, *_):
        self.agent.end()


# --- jobs outlive it

def test_a_job_goes_on_and_is_adopted_after_a_kill(dgx):
    agent = Agent(dgx)
    gate = dgx.directory / "gate"
    job = agent.client().submit(
        "sh", "-c", f"echo before; while ! [ -e {gate} ]; do sleep 0.02; done; echo after; exit 7",
        gpus=1)
    before = agent.client().wait(job.id, (pb.RUNNING,))
    agent.end(kill=True)
    with Serving(dgx) as second:
        client = second.client()
        now = client.wait(job.id, (pb.RUNNING,))
        assert now.attempt.number == 1
        assert now.attempt.supervisor_pid == before.attempt.supervisor_pid
        assert now.attempt.grants == before.attempt.grants
        gate.touch()
        end = client.wait(job.id)
        assert (end.state, end.exit_code, end.attempt.number) == (pb.FAILED, 7, 1)
        assert client.logs(job.id) == b"before\nafter\n"


def test_a_job_that_ends_while_no_agent_is_there(dgx):
    agent = Agent(dgx)
    gate = dgx.directory / "gate"
    job = agent.client().submit("sh", "-c", f"while ! [ -e {gate} ]; do sleep 0.02; done; exit 5")
    agent.client().wait(job.id, (pb.RUNNING,))
    waiting = agent.client().submit("true", gpus=4)
    assert agent.end() == 0
    gate.touch()
    wait_until(lambda: has_job_ended(dgx, job.id))
    with Serving(dgx) as second:
        assert second.client().wait(job.id).exit_code == 5
        assert second.client().wait(waiting.id).state == pb.SUCCEEDED


# --- a second agent, and what an old one left

@pytest.mark.parametrize("same", ["everything", "runtime-dir", "state-dir", "socket"])
def test_a_second_agent_is_refused(dgx, same):
    agent = Agent(dgx)
    client = agent.client()
    options = []
    for name in ("runtime-dir", "state-dir", "socket"):
        if same not in ("everything", name):
            options += [f"--{name}", dgx.directory / f"other-{name}"]
        elif name == "socket" and same == "socket":
            options += ["--socket", agent.socket]
    rc, words = exit_of(dgx, *options)
    assert rc == 75 and str(agent.pid) in words, words
    assert client.status().pid == agent.pid
    assert agent.end() == 0


def test_a_stale_socket_is_replaced(dgx):
    agent = Agent(dgx)
    agent.end(kill=True)
    assert agent.socket.exists()
    with Serving(dgx) as second:
        assert second.client().status().pid == second.pid


def test_somebody_elses_file_in_the_sockets_place(dgx):
    path = dgx.directory / "mine"
    path.write_text("mine")
    rc, words = exit_of(dgx, "--socket", path)
    assert rc == 73 and str(path) in words
    assert path.read_text() == "mine"
    # Nor is one removed that took the place later.
    agent = Agent(dgx)
    agent.socket.unlink()
    other = socket.socket(socket.AF_UNIX)
    other.bind(str(agent.socket))
    assert agent.end() == 0
    assert agent.socket.exists()
    other.close()


def test_many_starts_and_stops_leave_nothing(dgx):
    for _ in range(5):
        with Serving(dgx) as agent:
            probe = [p.pid for p in agent.client().status().processes if p.role == "probe"]
        wait_until(lambda: not pathlib.Path(f"/proc/{probe[0]}").exists())
    names = {path.name for path in pathlib.Path(dgx.env["SLUICE_RUNTIME_DIR"]).iterdir()}
    assert names <= {"agent.lock", "gpu", "state", "start.lock", "agent.log"}, names


# --- places that will not do

def test_a_damaged_database_is_kept(dgx):
    with Serving(dgx) as agent:
        agent.client().wait(agent.client().submit("true").id)
    database = pathlib.Path(dgx.env["SLUICE_STATE_DIR"]) / "queue.db"
    data = bytearray(database.read_bytes())
    data[100:4096] = os.urandom(3996)
    database.write_bytes(data)
    before = hashlib.sha256(database.read_bytes()).hexdigest()
    rc, words = exit_of(dgx)
    assert rc == 65 and "queue.db" in words, (rc, words)
    assert hashlib.sha256(database.read_bytes()).hexdigest() == before
    database.write_bytes(b"this is no database at all" * 200)
    before = database.read_bytes()
    rc, words = exit_of(dgx)
    assert rc == 65 and "queue.db" in words, (rc, words)
    assert database.read_bytes() == before


def test_an_empty_state_beside_jobs_is_no_new_beginning(dgx):
    with Serving(dgx) as agent:
        agent.client().wait(agent.client().submit("true").id)
    state = pathlib.Path(dgx.env["SLUICE_STATE_DIR"])
    for path in state.glob("queue.db*"):
        path.unlink()
    rc, words = exit_of(dgx)
    assert rc == 65 and str(state) in words, (rc, words)


@ROOT_ONLY
def test_a_runtime_directory_of_somebody_else(dgx):
    directory = dgx.directory / "theirs"
    directory.mkdir()
    os.chown(directory, 65534, 65534)
    rc, words = exit_of(dgx, "--runtime-dir", directory)
    assert rc == 77 and "65534" in words
    rc, words = exit_of(dgx, "--state-dir", directory, "--runtime-dir", dgx.directory / "r")
    assert rc == 77 and "65534" in words


def test_a_directory_that_everybody_can_write(dgx):
    directory = dgx.directory / "open"
    directory.mkdir()
    directory.chmod(0o777)
    rc, words = exit_of(dgx, "--runtime-dir", directory)
    assert rc == 77 and "chmod" in words


def test_modes_of_the_state(dgx):
    with Serving(dgx) as agent:
        job = agent.client().submit("sh", "-c", "umask")
        agent.client().wait(job.id)
        state = pathlib.Path(dgx.env["SLUICE_STATE_DIR"])
        wanted = 0o711 if os.geteuid() == 0 else 0o700
        assert state.stat().st_mode & 0o7777 == wanted
        assert (state / "queue.db").stat().st_mode & 0o077 == 0
        assert (state / "j" / str(job.id) / "out.1").stat().st_mode & 0o077 == 0


@pytest.fixture
def small_disk(dgx):
    """A file system of one's own with little room, which can be filled and made read-only."""
    if os.geteuid() != 0:
        pytest.skip("needs root to mount")
    where = dgx.directory / "disk"
    where.mkdir()
    done = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=32m,mode=755", "none", str(where)],
                          capture_output=True, text=True, check=False, timeout=DEADLINE_S)
    if done.returncode != 0:
        pytest.skip(f"cannot mount: {done.stderr}")
    yield where
    dgx.stop()
    subprocess.run(["umount", "-l", str(where)], check=False, timeout=DEADLINE_S)


def test_a_full_disk(dgx, small_disk):
    with Serving(dgx, "--state-dir", str(small_disk / "state")) as agent:
        client = agent.client()
        gate = dgx.directory / "gate"
        job = client.submit("sh", "-c", f"while ! [ -e {gate} ]; do sleep 0.02; done; exit 4")
        client.wait(job.id, (pb.RUNNING,))
        filler = os.open(small_disk / "filler", os.O_WRONLY | os.O_CREAT)
        with pytest.raises(OSError):
            while True:
                os.write(filler, bytes(4096))
        os.close(filler)
        status, words = code_of(client.submit, "true")
        assert status == "ABORTED" and str(small_disk) in words, (status, words)
        assert client.get(job.id).state == pb.RUNNING
        gate.touch()
        wait_until((small_disk / "state/j" / str(job.id) / "result.1").exists)
        (small_disk / "filler").unlink()
        assert client.wait(job.id).exit_code == 4

        def works():
            try:
                return client.submit("true")
            except Exception:  # pylint: disable=broad-except
                return None
        again = wait_until(works)
        assert client.wait(again.id).state == pb.SUCCEEDED


def test_a_state_that_cannot_be_written(dgx, small_disk):
    subprocess.run(["mount", "-o", "remount,ro", str(small_disk)], check=True, timeout=DEADLINE_S)
    rc, words = exit_of(dgx, "--state-dir", small_disk / "state")
    assert rc == 73 and str(small_disk) in words


# --- idle

def test_it_ends_when_it_is_idle(dgx):
    gate = dgx.directory / "gate"
    with Serving(dgx) as before:  # there is a job from the beginning, however late we come
        job = before.client().submit("sh", "-c", f"while ! [ -e {gate} ]; do sleep 0.02; done")
        before.client().wait(job.id, (pb.RUNNING,))
    agent = Agent(dgx, "--exit-idle", "400ms")
    with pytest.raises(subprocess.TimeoutExpired):  # a job is no idleness
        agent.process.wait(timeout=1.2)
    assert agent.client().get(job.id).state == pb.RUNNING
    gate.touch()
    assert agent.process.wait(timeout=DEADLINE_S) == 0
    assert not agent.socket.exists()


# --- the service manager

def manager(path):
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    sock.bind(str(path))
    sock.settimeout(DEADLINE_S)
    return sock


def told(sock, word):
    """The next message that begins so."""
    end = time.monotonic() + DEADLINE_S
    while time.monotonic() < end:
        message = sock.recv(4096).decode()
        if message.startswith(word):
            return message
    raise AssertionError(f"no {word}")


def test_the_service_manager_is_told(dgx):
    sock = manager(dgx.directory / "notify")
    agent = Agent(dgx, env={"NOTIFY_SOCKET": str(dgx.directory / "notify"),
                            "WATCHDOG_USEC": "300000"})
    assert told(sock, "READY=1")
    assert told(sock, "WATCHDOG=1")
    assert told(sock, "WATCHDOG=1")
    environment = pathlib.Path("/proc/{}/environ".format(
        [p.pid for p in agent.client().status().processes if p.role == "probe"][0])).read_bytes()
    assert b"NOTIFY_SOCKET" not in environment and b"WATCHDOG" not in environment
    before = time.monotonic_ns() // 1000
    os.kill(agent.pid, signal.SIGHUP)
    reloading = told(sock, "RELOADING=1")
    stamp = int(reloading.split("MONOTONIC_USEC=")[1])
    assert before <= stamp <= time.monotonic_ns() // 1000
    assert told(sock, "READY=1")
    assert agent.end() == 0
    assert told(sock, "STOPPING=1")
    sock.close()


def test_a_stopped_agent_gives_no_sign_of_life(dgx):
    sock = manager(dgx.directory / "notify")
    agent = Agent(dgx, env={"NOTIFY_SOCKET": str(dgx.directory / "notify"),
                            "WATCHDOG_USEC": "150000"})
    told(sock, "WATCHDOG=1")
    os.kill(agent.pid, signal.SIGSTOP)
    sock.settimeout(0.5)
    with pytest.raises(TimeoutError):
        while True:
            sock.recv(4096)
    os.kill(agent.pid, signal.SIGCONT)
    sock.settimeout(DEADLINE_S)
    assert told(sock, "WATCHDOG=1")
    assert agent.end() == 0
    sock.close()


# --- users

def as_user(uid):
    return ["setpriv", "--reuid", str(uid), "--regid", str(uid), "--clear-groups"]


@pytest.fixture
def people(dgx):
    """Directories of two ordinary users on the machine; skips without root."""
    if os.geteuid() != 0 or not shutil.which("setpriv"):
        pytest.skip("needs root and setpriv")
    env = {}
    for uid in (65534, 65533):
        home = dgx.directory / f"home-{uid}"
        home.mkdir()
        os.chown(home, uid, uid)
        env[uid] = {"SLUICE_RUNTIME_DIR": str(home / "run"), "SLUICE_STATE_DIR": str(home / "state"),
                    "HOME": str(home)}
    yield env


def test_an_ordinary_users_agent(dgx, people):
    agent = Agent(dgx, wrap=as_user(65534), env=people[65534])
    assert agent.is_ready, agent.text()
    client = agent.client()  # root may ask anybody's
    wait_until(lambda: client.status().gpus == 4)
    state = pathlib.Path(people[65534]["SLUICE_STATE_DIR"])
    assert state.stat().st_mode & 0o7777 == 0o700 and state.stat().st_uid == 65534
    command = ["sluice", "agent", "status", "--socket", agent.socket]
    mine = dgx.run(*as_user(65534), os.environ.get("SLUICE_BIN", str(BUILD / "src/cmd/sluice")),
                   *command[1:], env=people[65534])
    assert mine.rc == 0, mine
    other = dgx.run(*as_user(65533), os.environ.get("SLUICE_BIN", str(BUILD / "src/cmd/sluice")),
                    *command[1:], env=people[65533])
    assert other.rc != 0  # his socket is his
    assert agent.end() == 0


ASK_AS = """
import json, os, sys
sys.path.insert(0, sys.argv[1])
from agent_client import Client, code_of, pb
client = Client(sys.argv[2])
job = client.submit("sh", "-c", "id -u; id -g; id -G; sleep 100", gpus=1, name="secret-name")
print(client.wait(job.id, (pb.RUNNING,)).id)
"""


def test_users_of_the_machines_agent(dgx, people):
    agent = Agent(dgx)
    client = agent.client()
    here = str(pathlib.Path(__file__).parent)
    ask = dgx.run(*as_user(65534), "/usr/bin/python3", "-c", ASK_AS, here, agent.socket)
    assert ask.rc == 0, ask
    number = int(ask.out)
    job = client.get(number)
    assert job.uid == 65534 and job.name == "secret-name" and job.argv  # root sees all
    wait_until(lambda: client.logs(number).count(b"\n") == 3)
    assert client.logs(number).split() == [b"65534", b"65534", b"65534"]
    look = f"""
import sys
sys.path.insert(0, {here!r})
from agent_client import Client, code_of, pb
client = Client({str(agent.socket)!r})
job = client.get({number})
assert (job.uid, job.state, job.gpus) == (65534, pb.RUNNING, 1) and job.attempt.grants
assert not job.name and not job.argv and not job.attempt.pid and not job.attempt.stdout_path
[listed] = client.list()
assert not listed.name and listed.id == {number}
for call in (client.queue.Cancel, client.queue.Logs, client.queue.Signal):
    request = {{"Cancel": pb.CancelRequest(id={number}), "Logs": pb.LogsRequest(id={number}),
               "Signal": pb.SignalRequest(id={number}, signal=15)}}
for name, message in request.items():
    assert code_of(getattr(client.queue, name), message, timeout=60)[0] == "PERMISSION_DENIED", name
assert code_of(client.node.Reload, pb.ReloadRequest(), timeout=60)[0] == "PERMISSION_DENIED"
"""
    other = dgx.run(*as_user(65533), "/usr/bin/python3", "-c", look)
    assert other.rc == 0, other
    # A job's own files are within its user's reach, without the agent.
    out = pathlib.Path(client.get(number).attempt.stdout_path)
    assert dgx.run(*as_user(65534), "cat", out).out.startswith("65534")
    assert dgx.run(*as_user(65533), "cat", out).rc != 0
    client.cancel(number)  # root may
    assert client.wait(number).state == pb.CANCELLED
    assert agent.end() == 0


def test_three_agents_share_the_gpus_of_a_machine(dgx, people):
    first = Agent(dgx)
    second = Agent(dgx, wrap=as_user(65534), env=people[65534])
    third = Agent(dgx, wrap=as_user(65533), env=people[65533])
    assert first.is_ready and second.is_ready and third.is_ready
    assert code_of(second.client().submit, "true")[0] == "PERMISSION_DENIED"  # not for root
    here = str(pathlib.Path(__file__).parent)
    clients = [agent.client() for agent in (first, second, third)]
    taken, jobs = set(), []
    for uid, agent, client in zip((0, 65534, 65533), (first, second, third), clients):
        asked = dgx.run(*as_user(uid), "/usr/bin/python3", "-c", ASK_AS, here, agent.socket)
        assert asked.rc == 0, asked
        jobs.append(int(asked.out))
        [grant] = client.get(jobs[-1]).attempt.grants
        taken.add(grant.uuid)
    assert len(taken) == 3  # nobody has another's
    wide = clients[0].submit("true", gpus=2)
    reason = wait_until(lambda: clients[0].get(wide.id).reason)
    assert reason in ("WaitingForGPU", "GPUInUseByOthers"), reason
    for client, job in zip(clients, jobs):
        client.cancel(job)
        client.wait(job)
    assert clients[0].wait(wide.id).state == pb.SUCCEEDED
    for agent in (first, second, third):
        assert agent.end() == 0


# --- time

CLOCK_JUMP = r"""
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>
/* CLOCK_REALTIME, a year later once the file is there. */
int clock_gettime(clockid_t clock, struct timespec *out)
{
	static int (*real)(clockid_t, struct timespec *);
	if (!real)
		real = (int (*)(clockid_t, struct timespec *))dlsym(RTLD_NEXT, "clock_gettime");
	int result = real(clock, out);
	const char *file = getenv("CLOCK_JUMP_FILE");
	if (clock == CLOCK_REALTIME && file && access(file, F_OK) == 0)
		out->tv_sec += 31536000;
	return result;
}
"""


def test_the_clock_jumps(dgx):
    compiler = shutil.which("cc") or pytest.skip("needs a compiler")
    source, library = dgx.directory / "jump.c", dgx.directory / "jump.so"
    source.write_text(CLOCK_JUMP)
    subprocess.run([compiler, "-shared", "-fPIC", "-o", str(library), str(source), "-ldl"],
                   check=True, timeout=DEADLINE_S)
    flag = dgx.directory / "jumped"
    agent = Agent(dgx, "--exit-idle", "1h", env={"LD_PRELOAD": str(library),
                                                 "CLOCK_JUMP_FILE": str(flag)})
    client = agent.client()
    running = client.submit("sleep", "100", deadline_ns=60 * 10**9)
    client.wait(running.id, (pb.RUNNING,))
    flag.touch()
    done = client.submit("true", gpus=1)
    job = client.wait(done.id)
    assert job.state == pb.SUCCEEDED
    flag.unlink()  # and back
    back = client.submit("true", gpus=1)
    assert client.wait(back.id).state == pb.SUCCEEDED
    assert client.get(running.id).state == pb.RUNNING  # its deadline is not a date
    assert {job.id for job in client.list(all=True)} >= {running.id, done.id, back.id}
    client.cancel(running.id)
    client.wait(running.id)
    assert agent.end() == 0
