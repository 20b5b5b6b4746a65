# SPDX-License-Identifier: Apache-2.0
"""The calls of the agent, asked by another gRPC library, and clients that do not behave."""

import os
import pathlib
import signal
import socket
import struct
import time
import uuid
from concurrent import futures

import pytest

from agent_client import Agent, FINAL, code_of, pb
from conftest import DEADLINE_S, wait_until

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"


@pytest.fixture
def agent(machine):
    machine.start("dgx-a100", "--gpus", "4", "--dev-style", "file")
    service = Agent(machine)
    assert service.is_ready, service.text()
    yield service
    assert service.process.poll() is None, service.text()  # whatever the test did to it
    assert service.end() == 0, service.text()


def memory_kib(pid):
    """What it has taken for itself. Not its share of the libraries: that grows whenever another
    process that uses them ends, such as the agent of a test beside this one."""
    text = pathlib.Path(f"/proc/{pid}/smaps_rollup").read_text(encoding="ascii")
    fields = dict(line.split(":", 1) for line in text.splitlines()[1:])
    return sum(int(fields[name].split()[0]) for name in ("Anonymous", "Swap"))


def cpu_s(pid):
    fields = pathlib.Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


# --- one job

def test_a_job_from_beginning_to_end(agent):
    client = agent.client()
    reply = client.submit("sh", "-c", "echo out; echo err >&2; exit 3", gpus=2, name="first")
    assert reply.id > 0 and not reply.known and reply.gpus == 2
    states = []
    for job in client.queue.Watch(pb.JobRequest(id=reply.id), timeout=DEADLINE_S):
        states.append(job.state)
    assert states == sorted(states) and states[-1] == pb.FAILED
    job = client.get(reply.id)
    assert (job.name, job.exit_code, job.reason, job.reason_text) == ("first", 3, "ExitCode", "3")
    assert job.simulated and list(job.argv)[0] == b"sh" and job.directory == b"/"
    assert len({grant.uuid for grant in job.attempt.grants}) == 2
    assert 0 < job.submitted_unix_ns <= job.attempt.started_unix_ns <= job.attempt.ended_unix_ns
    assert client.logs(reply.id) == b"out\n"
    assert client.logs(reply.id, stderr=True) == b"err\n"
    assert pathlib.Path(job.attempt.stdout_path).read_bytes() == b"out\n"
    assert not client.get(reply.id, details=False).argv


def test_the_same_key_is_the_same_job(agent):
    client, key = agent.client(), str(uuid.uuid4())
    first = client.submit("true", key=key)
    again = client.submit("true", key=key)
    assert again.id == first.id and again.known
    client.wait(first.id)
    assert client.submit("true", key=key).id == first.id  # also when it has ended
    status, words = code_of(client.submit, "false", key=key)
    assert status == "ALREADY_EXISTS" and str(first.id) in words


@pytest.mark.parametrize("spec, status, words", [
    ({"gpus": 5}, "FAILED_PRECONDITION", "4"),
    ({"gpus": 1, "gpu_ids": "9"}, "INVALID_ARGUMENT", "9"),
    ({"name": "No Such Name"}, "INVALID_ARGUMENT", "name"),
    ({"directory": b"relative"}, "INVALID_ARGUMENT", "directory"),
    ({"directory": b"/with\0nul"}, "INVALID_ARGUMENT", "NUL"),
    ({"environment": [b"A=\0"]}, "INVALID_ARGUMENT", "NUL"),
    ({"umask": 0o7777}, "INVALID_ARGUMENT", "umask"),
    ({"share_numerator": 2, "share_denominator": 1, "gpus": 1}, "INVALID_ARGUMENT", ""),
    ({"limits": [pb.Limit(resource=7)] * 17}, "INVALID_ARGUMENT", "limits"),
], ids=lambda value: str(value)[:30])
def test_what_is_refused_at_once(agent, spec, status, words):
    client = agent.client()
    got = code_of(client.submit, "true", **spec)
    assert got[0] == status and words in got[1], got
    assert client.list() == []


def test_requests_that_say_too_little(agent):
    client = agent.client()
    assert code_of(client.queue.Submit, pb.SubmitRequest(key="x"), timeout=DEADLINE_S)[0] == "INVALID_ARGUMENT"
    assert code_of(client.submit, "true", key="x" * 50)[0] == "INVALID_ARGUMENT"
    assert code_of(client.submit)[0] == "INVALID_ARGUMENT"
    for call, request in ((client.queue.Get, pb.JobRequest(id=7)),
                          (client.queue.Watch, pb.JobRequest(id=7)),
                          (client.queue.Logs, pb.LogsRequest(id=7)),
                          (client.queue.Cancel, pb.CancelRequest(id=7)),
                          (client.queue.Signal, pb.SignalRequest(id=7, signal=2))):
        assert code_of(call, request, timeout=DEADLINE_S)[0] == "NOT_FOUND"
    assert code_of(client.queue.Signal, pb.SignalRequest(id=7, signal=0),
                   timeout=DEADLINE_S)[0] == "INVALID_ARGUMENT"
    assert code_of(client.queue.Cancel, pb.CancelRequest(id=7, signal=999),
                   timeout=DEADLINE_S)[0] == "INVALID_ARGUMENT"
    assert code_of(client.list, states=[77])[0] == "INVALID_ARGUMENT"


def test_waiting_or_not(agent):
    client = agent.client()
    first = client.submit("sleep", "100", gpus=4)
    client.wait(first.id, (pb.RUNNING,))
    status, words = code_of(client.submit, "true", gpus=1, no_wait=True)
    assert status == "RESOURCE_EXHAUSTED" and words, words
    dry = client.submit("true", gpus=1, dry_run=True)
    assert dry.id == 0 and dry.reason and dry.gpus == 1
    second = client.submit("true", gpus=1)
    job = wait_until(lambda: [job for job in [client.get(second.id)] if job.reason])[0]
    assert (job.state, job.reason) == (pb.PENDING, "WaitingForGPU") and str(first.id) in job.reason_text
    reply = client.cancel(first.id)
    assert not reply.was_final
    assert client.wait(first.id).state == pb.CANCELLED
    assert client.wait(second.id).state == pb.SUCCEEDED
    assert client.cancel(second.id).was_final


def test_signals_and_cancel_with_a_grace(agent):
    client = agent.client()
    job = client.submit("sh", "-c", "trap 'echo got; exit 9' USR1; echo ready; while :; do sleep 0.02; done")
    wait_until(lambda: client.logs(job.id) == b"ready\n")
    client.wait(job.id, (pb.RUNNING,))  # the agent may hear of that later than we read the log
    client.queue.Signal(pb.SignalRequest(id=job.id, signal=signal.SIGUSR1), timeout=DEADLINE_S)
    assert client.wait(job.id).exit_code == 9
    deaf = client.submit("sh", "-c", "trap '' TERM; echo ready; while :; do sleep 0.02; done")
    wait_until(lambda: client.logs(deaf.id) == b"ready\n")
    client.cancel(deaf.id, has_grace=True, grace_ns=100_000_000)
    assert client.wait(deaf.id).state == pb.CANCELLED


def test_logs_are_followed(agent):
    client = agent.client()
    gate = agent.machine.directory / "gate"
    job = client.submit("sh", "-c", f"echo one; while ! [ -e {gate} ]; do sleep 0.01; done; "
                        "head -c 300000 /dev/zero; echo two")
    stream = client.queue.Logs(pb.LogsRequest(id=job.id, follow=True), timeout=DEADLINE_S)
    assert next(stream).data == b"one\n"
    gate.touch()
    rest = list(stream)
    assert [chunk.offset for chunk in rest][0] == 4
    data = b"".join(chunk.data for chunk in rest)
    assert data == bytes(300000) + b"two\n"
    assert client.logs(job.id, offset=300004) == b"two\n"
    assert client.logs(job.id, attempt=9) == b""


# --- many jobs

def test_a_long_list_comes_in_pages(agent):
    client = agent.client()
    client.wait(client.submit("sleep", "100", gpus=4).id, (pb.RUNNING,))
    with futures.ThreadPoolExecutor(16) as pool:
        made = list(pool.map(lambda i: client.submit("true", gpus=1, name=f"n{i}").id, range(1100)))
    pages = list(client.queue.List(pb.ListRequest(), timeout=DEADLINE_S))
    assert max(len(page.jobs) for page in pages) == 100 and len(pages) == 12
    assert {job.id for page in pages for job in page.jobs} == {1, *made}
    assert {job.id for job in client.list(states=[pb.RUNNING])} == {1}
    assert len(client.list(user="0" if os.geteuid() == 0 else str(os.geteuid()))) == 1101
    assert client.list(user="nobody-of-that-name") == []
    machine = next(client.node.Watch(pb.WatchRequest(once=True), timeout=DEADLINE_S))
    assert machine.pending == 1100 and machine.running == 1
    assert [job.state for job in machine.jobs] == [pb.PENDING] * 200 + [pb.RUNNING]


def test_final_jobs_are_listed(agent):
    client = agent.client()
    ids = [client.submit("sh", "-c", f"exit {code}").id for code in (0, 1)]
    for number in ids:
        client.wait(number)
    assert {job.id: job.state for job in client.list()} == {ids[0]: pb.SUCCEEDED, ids[1]: pb.FAILED}
    assert [job.id for job in client.list(states=[pb.FAILED])] == [ids[1]]
    assert {job.id for job in client.list(all=True)} == set(ids)
    assert {job.state for job in client.list()} <= set(FINAL)


# --- the machine

def test_the_machine_is_watched(agent):
    client = agent.client()
    job = client.submit("sleep", "100", gpus=1)
    client.wait(job.id, (pb.RUNNING,))
    stream = client.node.Watch(pb.WatchRequest(), timeout=DEADLINE_S)
    first, second = next(stream), next(stream)
    assert second.unix_ns > first.unix_ns and first.simulated and len(first.gpus) == 4
    gpu = first.gpus[0]
    assert gpu.label == "GPU 0" and gpu.state == "ok" and gpu.memory_total_bytes > 1 << 30
    assert gpu.slot_count == 1 and sum(gpu.slots_used for gpu in second.gpus) == 1
    load = agent.machine.load(3)
    use = wait_until(lambda: [use for use in next(stream).uses if use.pid == load.pid])[0]
    assert use.job == 0 and use.uuid == first.gpus[3].uuid and use.uid == os.geteuid()
    assert use.name in ("sluice", "sleep")
    stream.cancel()


# --- clients that do not behave

def connect(agent):
    sock = socket.socket(socket.AF_UNIX)
    sock.settimeout(DEADLINE_S)
    sock.connect(str(agent.socket))
    return sock


@pytest.mark.parametrize("data", [
    b"GET / HTTP/1.1\r\nHost: x\r\n\r\n",
    os.urandom(4096),
    PREFACE + os.urandom(4096),
    PREFACE[:10],
    PREFACE + struct.pack(">I", 5 << 8 | 1)[0:3] + b"\x01",
    PREFACE + b"\0\0\0\4\0\0\0\0\0" + b"\xff\xff\xff\x00\x00\x00\x00\x00\x01" + bytes(1000),
], ids=["http1", "random", "random frames", "half a preface", "half a frame", "a huge frame"])
def test_garbage(agent, data):
    good = agent.client()
    socks = []
    for _ in range(20):
        socks.append(connect(agent))
        try:
            socks[-1].sendall(data)
        except (BrokenPipeError, ConnectionResetError):
            pass
    assert good.status().pid == agent.pid
    assert good.wait(good.submit("true").id).state == pb.SUCCEEDED
    for sock in socks:
        sock.close()
    assert good.status().pid == agent.pid


def test_more_connections_than_there_may_be(agent):
    good = agent.client()
    good.status()
    socks = [connect(agent) for _ in range(300)]
    assert good.status().pid == agent.pid  # who is connected stays so
    assert good.wait(good.submit("true").id).state == pb.SUCCEEDED
    for sock in socks:
        sock.close()
    later = agent.client()
    wait_until(lambda: answers(later))


def answers(client):
    try:
        return client.status().pid
    except Exception:  # pylint: disable=broad-except
        return None


def test_readers_that_do_not_read(agent):
    client = agent.client()
    client.wait(client.submit("sleep", "100", gpus=4).id, (pb.RUNNING,))
    with futures.ThreadPoolExecutor(16) as pool:
        list(pool.map(lambda i: client.submit("true", gpus=1, name="x" * 60).id, range(600)))
    before = memory_kib(agent.pid)
    lazy = agent.client()
    # Watchers of the machine that never take more than their window: each gets what is true when
    # it reads, and nothing is kept for it meanwhile.
    streams = [lazy.node.Watch(pb.WatchRequest()) for _ in range(40)]
    for stream in streams:
        next(stream)
    for _ in range(20):
        assert client.status().pid == agent.pid
        assert len(client.list()) == 601
    assert memory_kib(agent.pid) < before + 8 * 1024
    for stream in streams:
        stream.cancel()


def test_idle_watchers_cost_next_to_nothing(agent):
    client = agent.client()
    blocker = client.submit("sleep", "100", gpus=4)
    client.wait(blocker.id, (pb.RUNNING,))
    waiting = client.submit("true", gpus=1)
    clients = [agent.client() for _ in range(5)]
    streams = [clients[i % 5].queue.Watch(pb.JobRequest(id=waiting.id)) for i in range(400)]
    for stream in streams:
        assert next(stream).state == pb.PENDING
    begin = cpu_s(agent.pid)
    end = time.monotonic() + 3
    samples = client.node.Watch(pb.WatchRequest(), timeout=DEADLINE_S)
    while time.monotonic() < end:
        next(samples)
    samples.cancel()
    assert cpu_s(agent.pid) - begin < 0.6
    client.cancel(blocker.id)
    for stream in streams:
        states = [job.state for job in stream]
        assert states[-1] == pb.SUCCEEDED
    for other in clients:
        other.close()


def test_clients_that_are_killed_leave_nothing(agent):
    client = agent.client()
    for _ in range(50):
        other = agent.client()
        other.status()
        stream = other.node.Watch(pb.WatchRequest())
        next(stream)
        other.close()
    descriptors = pathlib.Path(f"/proc/{agent.pid}/fd")
    wait_until(lambda: len(list(descriptors.iterdir())) < 40, what="few descriptors")
    assert client.status().pid == agent.pid


def test_memory_stays_flat(agent):
    client = agent.client()
    job = client.submit("true")
    client.wait(job.id)

    def some(_):
        for _ in range(100):
            client.status()
            client.get(job.id)
            client.list()
    with futures.ThreadPoolExecutor(4) as pool:
        list(pool.map(some, range(4)))  # 1,200 calls: everything has its size now
        before = memory_kib(agent.pid)
        list(pool.map(some, range(34)))  # 10,200
    after = memory_kib(agent.pid)
    assert after < before + 512, (before, after)
