# SPDX-License-Identifier: Apache-2.0
"""The machine under a running agent: probes that die, GPUs that hang, drivers that go."""

import os
import signal

import pytest

from agent_client import Agent, pb
from conftest import DEADLINE_S, wait_until


@pytest.fixture
def dgx(machine):
    machine.start("dgx-a100", "--gpus", "4", "--dev-style", "file")
    yield machine


def start(machine, **how):
    agent = Agent(machine, "--call-timeout", "2s", "--period", "100ms", **how)
    assert agent.is_ready, agent.text()
    return agent


def probe_of(client):
    pids = [process.pid for process in client.status().processes if process.role == "probe"]
    return pids[0] if pids else None


@pytest.mark.parametrize("signo", [signal.SIGKILL, signal.SIGSTOP])
def test_a_probe_is_replaced(dgx, signo):
    agent = start(dgx)
    client = agent.client()
    wait_until(lambda: client.status().gpus == 4)
    job = client.submit("sleep", "100", gpus=1)
    client.wait(job.id, (pb.RUNNING,))
    first = probe_of(client)
    os.kill(first, signo)
    wait_until(lambda: probe_of(client) not in (None, first))
    wait_until(lambda: not os.path.exists(f"/proc/{first}"))
    before = next(client.node.Watch(pb.WatchRequest(once=True), timeout=DEADLINE_S)).unix_ns
    stream = client.node.Watch(pb.WatchRequest(), timeout=DEADLINE_S)
    while next(stream).unix_ns <= before:
        pass
    stream.cancel()
    assert client.status().gpus == 4
    assert client.get(job.id).state == pb.RUNNING
    other = client.submit("true", gpus=3)
    assert client.wait(other.id).state == pb.SUCCEEDED
    client.cancel(job.id)
    client.wait(job.id)
    assert agent.end() == 0


def test_a_gpu_that_hangs_is_left_out(dgx):
    agent = start(dgx)
    client = agent.client()
    wait_until(lambda: client.status().gpus == 4)
    job = client.submit("sleep", "100", gpus=1, gpu_ids="2")
    client.wait(job.id, (pb.RUNNING,))
    dgx.sim("inject", "hang", "any", "--gpu", "2")
    wait_until(lambda: [text for text in client.status().warnings if "GPU 2 is hung" in text])
    machine = next(client.node.Watch(pb.WatchRequest(once=True), timeout=DEADLINE_S))
    assert [gpu.state for gpu in machine.gpus] == ["ok", "ok", "hung", "ok"]
    assert client.get(job.id).state == pb.RUNNING  # nothing is taken from it
    others = client.submit("true", gpus=3)
    assert client.wait(others.id).state == pb.SUCCEEDED
    waits = client.submit("true", gpu_ids="2", gpus=1)
    wait_until(lambda: client.get(waits.id).reason in ("GPUUnhealthy", "WaitingForGPU"))
    for number in (job.id, waits.id):
        client.cancel(number)
        client.wait(number)
    dgx.sim("heal")
    assert agent.end() == 0


def test_a_machine_without_a_driver(dgx):
    empty = dgx.directory / "nothing"
    empty.mkdir()
    agent = start(dgx, env={"LD_LIBRARY_PATH": str(empty)})
    client = agent.client()
    wait_until(lambda: client.status().driver_error not in ("", "the driver has not been asked yet"))
    assert client.status().gpus == 0 and not client.status().driver
    plain = client.submit("true")
    assert client.wait(plain.id).state == pb.SUCCEEDED
    some = client.submit("true", gpus=1, gpus_if_any=True)
    assert some.gpus == 0 and client.wait(some.id).state == pb.SUCCEEDED
    machine = next(client.node.Watch(pb.WatchRequest(once=True), timeout=DEADLINE_S))
    assert machine.driver_error and not machine.gpus
    assert "GPUs" in dgx.run("sluice", "agent", "status").ok().out
    assert agent.end() == 0


def test_a_driver_that_is_loaded_anew(dgx):
    agent = start(dgx)
    client = agent.client()
    wait_until(lambda: client.status().gpus == 4)
    wait_until(lambda: dgx.sim("reload-driver", rc=None).rc == 0)
    job = client.submit("true", gpus=4)
    assert client.wait(job.id).state == pb.SUCCEEDED
    assert client.status().gpus == 4
    assert agent.end() == 0


def test_a_gpu_that_falls_off_the_bus(dgx):
    agent = start(dgx)
    client = agent.client()
    wait_until(lambda: client.status().gpus == 4)
    dgx.sim("inject", "xid", "79", "--gpu", "1")
    wait_until(lambda: [text for text in client.status().warnings if text.startswith("GPU 1 is")])
    rest = client.submit("true", gpus=3)
    assert client.wait(rest.id).state == pb.SUCCEEDED
    whole = client.submit("true", gpus=4)
    job = wait_until(lambda: [job for job in [client.get(whole.id)] if job.reason])[0]
    assert job.state == pb.PENDING
    client.cancel(whole.id)
    client.wait(whole.id)
    if os.geteuid() == 0:
        agent.logged("xid")
    assert agent.end() == 0
