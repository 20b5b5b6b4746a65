# SPDX-License-Identifier: Apache-2.0
"""No job is lost, none runs twice, and no slot has two jobs, whatever is killed: see storm.py.

STORM_SECONDS (default 10) and STORM_SEED choose how long the random storm rages and which; the seed
is printed.
"""

import os
import random
import stat
import subprocess
import time

import pytest

from conftest import BUILD, SLUICE
from storm import Agent, Client, Job, Service, Storm

SECONDS = float(os.environ.get("STORM_SECONDS", "10"))
SEED = os.environ.get("STORM_SEED", str(random.randrange(1 << 31)))
TORTURE = os.environ.get("SLUICE_TORTURE", str(BUILD / "tests" / "e2e" / "sluice-torture"))
JOB = str(BUILD / "tests" / "e2e" / "torture-job")
SUPERVISOR = str(BUILD / "src" / "libexec" / "supervise" / "sluice-supervise")


@pytest.fixture
def slow_supervisor(tmp_path):
    """One that is late now and then: a delay between fork and exec."""
    path = tmp_path / "sluice-supervise"
    path.write_text(f'#!/bin/sh\nif [ $(($$ % 3)) = 0 ]; then sleep 0.0$(($$ % 10)); fi\n'
                    f'exec {SUPERVISOR} "$@"\n')
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return str(path)


def rage(agent, seconds, victims, until=lambda storm: False):
    storm = Storm(agent, JOB, SEED, victims)
    storm.varied = True
    broken = ["the storm did not end"]
    try:
        storm.rage(seconds, until=until)
        broken = storm.check()
        print(storm)
    finally:
        agent.stop(keep=bool(broken))
    return storm, broken


def test_a_storm_loses_nothing_and_doubles_nothing(slow_supervisor):
    agent = Agent(TORTURE, slow_supervisor)
    victims = ["agent"] * 8 + ["supervisor"] * 2 + ["command", "everything"]
    storm, broken = rage(agent, SECONDS, victims)
    assert not broken, f"{storm}\n{agent.state}\n" + "\n".join(broken[:20])
    assert agent.died > SECONDS / 2 and storm.counts["Succeeded"] > SECONDS


def test_a_storm_over_the_service_and_its_clients(machine):
    machine.start("dgx-a100")
    config = machine.directory / "shared.yaml"
    config.write_text("version: v1\nsharing: {timeSlicing: {resources: [{name: nvidia.com/gpu, "
                      "replicas: 2}]}}\nsluice: {jobs: {logLimit: 64Ki}}\n")
    agent = Service(SLUICE, {**machine.env, "SLUICE_CONFIG": str(config)}, 2)
    victims = ["agent"] * 6 + ["supervisor"] * 2 + ["command", "everything"]
    storm, broken = rage(agent, SECONDS, victims)
    assert not broken, f"{storm}\n{agent.state}\n" + "\n".join(broken[:20])
    assert storm.counts["agent killed"] > SECONDS / 4 and storm.counts["Succeeded"] > SECONDS / 2


def test_the_storm_sees_a_queue_that_does_not_look_at_the_lock(slow_supervisor):
    agent = Agent(TORTURE, slow_supervisor, environment={"SLUICE_TORTURE_NO_LOCK": "1"})
    storm, broken = rage(agent, 120, ["agent"], until=lambda storm: storm.has_doubled())
    agent_state = agent.state
    print(f"{len(broken)} findings, such as: {broken[:3]}")
    assert any(line.startswith("doubled") for line in broken), f"{storm}: the witness is blind {agent_state}"


@pytest.fixture
def small_disk(tmp_path):
    """A file system of its own of two megabytes."""
    path = tmp_path / "disk"
    path.mkdir()
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=2m", "none", path],
                             capture_output=True, check=False)
    if mounted.returncode != 0:
        pytest.skip("needs the right to mount a file system")
    yield path
    subprocess.run(["umount", "-l", path], check=True)


def test_a_full_disk_refuses_what_is_new_and_keeps_what_runs(small_disk, tmp_path):
    agent = Agent(TORTURE, SUPERVISOR, state=str(small_disk))
    storm = Storm(agent, JOB, SEED)
    storm.witness = str(tmp_path)
    client = Client(agent)
    try:
        chance = random.Random(SEED)
        running, refused = Job("running", chance, 2), Job("refused", chance, 2)
        for job in (running, refused):
            job.gpus, job.share, job.kind, job.code = 1, 0, "plain", 3
        running.milliseconds = 1000
        storm.jobs[running.key] = running
        storm.submit(client, running)
        deadline = time.monotonic() + 30
        while client.insist("state", running.id).split()[0] != "Running":
            assert time.monotonic() < deadline
        with open(small_disk / "filler", "wb", buffering=0) as filler:
            with pytest.raises(OSError):
                while True:
                    filler.write(bytes(4096))
            with pytest.raises(OSError):
                while True:
                    filler.write(b"x")
        assert client.insist(*storm.request(refused)).startswith("error 28 ")
        # It ends on the full disk, and agents come and go.
        while list(agent.supervisors()):
            assert time.monotonic() < deadline
            time.sleep(0.01)
        starts = agent.starts
        agent.kill()
        while agent.starts == starts:
            time.sleep(0.01)
        assert client.insist(*storm.request(refused)).startswith("error 28 ")
        os.unlink(small_disk / "filler")
        storm.jobs[refused.key] = refused
        storm.submit(client, refused)
        assert not storm.check()
        assert client.insist("state", running.id).split()[:3] == ["Failed", "ExitCode", "3"]
    finally:
        agent.stop()
