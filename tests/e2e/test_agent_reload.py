# SPDX-License-Identifier: Apache-2.0
"""The configuration of a running agent: read again, refused, applied, and never at a job's cost."""

import os
import signal

import pytest

from agent_client import Agent, code_of, pb
from conftest import DEADLINE_S, wait_until

SHARED = """version: v1
sharing:
  timeSlicing:
    resources:
    - name: nvidia.com/gpu
      replicas: 4
"""
INVALID = """version: v1
sharing:
  timeSlicing:
    resources:
    - name: nvidia.com/gpu
      replicas: many
"""
TWO_DOORS = """version: v1
sluice:
  doors:
    kubelet: {devices: [0]}
    queue: {devices: [%s, 1]}
"""


@pytest.fixture
def config(machine):
    machine.start("dgx-a100", "--gpus", "4", "--dev-style", "file")
    return machine.directory / "config.yaml"


def start(machine, config, text="version: v1\n"):
    config.write_text(text)
    agent = Agent(machine, "--config", str(config))
    assert agent.is_ready, agent.text()
    wait_until(lambda: agent.client().status().gpus == 4)
    return agent


def test_a_valid_one_is_applied(machine, config):
    agent = start(machine, config)
    client = agent.client()
    share = {"gpus": 1, "share_numerator": 1, "share_denominator": 4}
    running = client.submit("sleep", "100", gpus=4)
    client.wait(running.id, (pb.RUNNING,))
    assert code_of(client.submit, "true", **share)[0] == "FAILED_PRECONDITION"
    before = client.status().configured_unix_ns
    config.write_text(SHARED)
    # How many are changed depends on whether the agent has noticed by itself before.
    assert "changed" in machine.run("sluice", "agent", "reload").ok().out
    assert client.status().configured_unix_ns > before
    job = client.submit("sleep", "100", **share)
    assert client.get(running.id).state == pb.RUNNING
    client.cancel(running.id)
    client.wait(running.id)
    [grant] = client.wait(job.id, (pb.RUNNING,)).attempt.grants
    assert grant.slot_count == 4 and len(grant.slots) == 1
    agent.logged("nvidia.com/gpu")
    client.cancel(job.id)
    client.wait(job.id)
    assert agent.end() == 0


def test_an_invalid_one_is_refused(machine, config):
    agent = start(machine, config, SHARED)
    client = agent.client()
    share = {"gpus": 1, "share_numerator": 1, "share_denominator": 4}
    job = client.submit("sleep", "100", **share)
    client.wait(job.id, (pb.RUNNING,))
    config.write_text(INVALID)
    reply = machine.run("sluice", "agent", "reload")
    assert reply.rc == 65 and f"{config}:6:17" in reply.err, reply
    status = client.status()
    assert f"{config}:6:17" in status.configuration_error
    assert client.get(job.id).state == pb.RUNNING
    other = client.submit("sleep", "100", **share)  # what was before still holds
    client.wait(other.id, (pb.RUNNING,))
    assert "6:17" in machine.run("sluice", "agent", "status").out
    config.write_text(SHARED)
    os.kill(agent.pid, signal.SIGHUP)
    wait_until(lambda: not client.status().configuration_error)
    for number in (job.id, other.id):
        client.cancel(number)
        client.wait(number)
    assert agent.end() == 0


def test_a_signal_with_an_invalid_one(machine, config):
    agent = start(machine, config)
    config.write_text(INVALID)
    os.kill(agent.pid, signal.SIGHUP)
    wait_until(lambda: "6:17" in agent.client().status().configuration_error)
    agent.logged("config.yaml:6:17")
    config.unlink()
    os.kill(agent.pid, signal.SIGHUP)
    wait_until(lambda: "No such file" in agent.client().status().configuration_error)
    assert agent.end() == 0


def test_a_device_of_two_doors_is_refused(machine, config):
    agent = start(machine, config)
    gpus = next(agent.client().node.Watch(pb.WatchRequest(once=True), timeout=DEADLINE_S)).gpus
    # By the file alone, and only with the machine beside it.
    for name in ("0", gpus[0].uuid):
        config.write_text(TWO_DOORS % name)
        reply = machine.run("sluice", "agent", "reload")
        assert reply.rc == 65 and name in reply.err, reply
        assert agent.client().status().configuration_error
    assert agent.client().submit("true", gpus=4, dry_run=True).gpus == 4
    assert agent.end() == 0


def test_a_device_leaves_when_its_job_has_ended(machine, config):
    agent = start(machine, config)
    client = agent.client()
    job = client.submit("sleep", "100", gpus=1, gpu_ids="3")
    client.wait(job.id, (pb.RUNNING,))
    config.write_text("version: v1\nsluice:\n  doors:\n    queue: {devices: [0, 1]}\n")
    machine.run("sluice", "agent", "reload").ok()
    [warning] = [text for text in client.status().warnings if "not the queue's" in text]
    assert "GPU 3" in warning and str(job.id) in warning
    assert client.get(job.id).state == pb.RUNNING
    assert code_of(client.submit, "true", gpus=3)[0] == "FAILED_PRECONDITION"
    two = client.submit("true", gpus=2)
    assert client.wait(two.id).state == pb.SUCCEEDED
    client.cancel(job.id)
    client.wait(job.id)
    wait_until(lambda: not [text for text in client.status().warnings if "not the queue's" in text])
    assert agent.end() == 0


def test_a_file_that_comes_later_in_the_usual_place(machine, config):
    del config
    agent = Agent(machine)
    client = agent.client()
    assert client.status().configuration == ""
    usual = machine.root / "etc/sluice/config.yaml"
    usual.parent.mkdir(parents=True)
    usual.write_text(SHARED)
    machine.run("sluice", "agent", "reload").ok()
    assert client.status().configuration == str(usual)
    usual.unlink()
    usual.parent.rmdir()
    machine.run("sluice", "agent", "reload").ok()
    assert client.status().configuration == ""
    assert agent.end() == 0


@pytest.mark.parametrize("text", [INVALID, None], ids=["invalid", "missing"])
def test_one_that_is_wrong_at_the_start(machine, config, text):
    if text:
        config.write_text(text)
    reply = machine.run("sluice", "agent", "--config", config)
    assert reply.rc == 65 and str(config) in reply.err, reply


def test_many_at_once(machine, config):
    agent = start(machine, config)
    client = agent.client()
    for i in range(40):
        config.write_text(SHARED if i % 2 else "version: v1\n")
        os.kill(agent.pid, signal.SIGHUP)
        client.node.Reload.future(pb.ReloadRequest(), timeout=DEADLINE_S)
    assert machine.run("sluice", "agent", "reload").ok()
    assert client.status().pid == agent.pid
    assert agent.end() == 0
