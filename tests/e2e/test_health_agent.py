# SPDX-License-Identifier: Apache-2.0
"""The GPUs' health over time: what the agent holds against them, for how long, and who is told."""

import subprocess
import time

import pytest

from agent_client import Agent, pb
from conftest import wait_until
from kubelet import Kubelet

CONFIG = "sluice: {health: {pollInterval: 100ms}}\n"


def start(machine, text=CONFIG, **how):
    config = machine.directory / "config.yaml"
    config.write_text(text)
    agent = Agent(machine, "--config", str(config), "--period", "100ms", **how)
    assert agent.is_ready, agent.text()
    client = agent.client()
    wait_until(lambda: client.status().gpus == len(health(client)) > 0, what=agent.text)
    return agent, client


def health(client):
    return client.node.Health(pb.HealthRequest(), timeout=10).gpus


def states(client):
    return [gpu.state for gpu in health(client)]


def unhealthy(client):
    return [gpu.index for gpu in health(client) if gpu.state == "unhealthy"]


def becomes(client, *indices):
    wait_until(lambda: unhealthy(client) == list(indices), what=f"{indices} unhealthy")


def reset(machine, gpu):
    """Resets a GPU that has used so much energy (about 1.5 s) that whoever watches it sees the counter
    fall, also when his next look is late."""
    wait_until(lambda: machine.show()["gpus"][gpu]["energy_mj"] > 100000, what="energy of the GPU")
    machine.sim("reset-gpu", "--gpu", str(gpu))


@pytest.fixture
def dgx(machine):
    machine.start("dgx-a100", "--gpus", "4", "--dev-style", "file")
    yield machine


def test_an_error_and_a_reset(dgx):
    agent, client = start(dgx)
    dgx.sim("inject", "xid", "119", "--gpu", "1")
    becomes(client, 1)
    agent.logged("GPU 1 is unhealthy (was healthy): XID 119")
    [reason] = health(client)[1].reasons
    assert reason.cause == "xid" and reason.xid == 119 and "reset it" in reason.advice, reason
    waits = client.submit("true", gpu_ids="1", gpus=1)
    wait_until(lambda: client.get(waits.id).reason == "GPUUnhealthy")
    assert "GPU 1, XID 119" in client.get(waits.id).reason_text
    others = client.submit("true", gpus=3)
    assert client.wait(others.id).state == pb.SUCCEEDED
    reset(dgx, 1)
    becomes(client)
    assert client.wait(waits.id).state == pb.SUCCEEDED
    agent.logged("GPU 1 is healthy (was unhealthy)")
    assert agent.end() == 0


@pytest.mark.parametrize("code", [13, 31, 43, 45, 63, 94])
def test_a_jobs_own_error_is_no_reason(dgx, code):
    agent, client = start(dgx)
    dgx.sim("inject", "xid", str(code), "--gpu", "1")
    wait_until(lambda: [xid.xid for xid in health(client)[1].xids] == [code])
    assert unhealthy(client) == []
    assert agent.end() == 0


def test_an_agents_restart_forgets_nothing_and_counts_nothing_twice(dgx):
    agent, client = start(dgx)
    for gpu, code in enumerate((119, 79, 54)):
        dgx.sim("inject", "xid", str(code), "--gpu", str(gpu))
    becomes(client, 0, 1, 2)
    count = [len(gpu.xids) for gpu in health(client)]
    assert agent.end(kill=True) != 0
    agent, client = start(dgx)
    becomes(client, 0, 1, 2)
    assert [len(gpu.xids) for gpu in health(client)] == count
    assert client.node.ClearHealth(pb.ClearHealthRequest(gpu="2"), timeout=5).gpus == 1
    becomes(client, 0, 1)
    reset(dgx, 0)
    becomes(client, 1)
    assert agent.end() == 0
    agent, client = start(dgx)
    assert unhealthy(client) == [1]
    assert agent.end() == 0


def test_what_happened_while_no_agent_ran(dgx):
    agent, client = start(dgx)
    dgx.sim("inject", "ecc", "uncorrected", "--uncontained", "--gpu", "0")
    wait_until(lambda: "recovery-action" in [why.cause for why in health(client)[0].reasons])
    assert agent.end() == 0
    reset(dgx, 0)
    dgx.sim("inject", "xid", "62", "--gpu", "3")
    agent, client = start(dgx)
    becomes(client, 3)
    assert agent.end() == 0


def test_a_lost_gpu_does_not_disturb_the_others(dgx):
    agent, client = start(dgx)
    jobs = [client.submit("sleep", "100", gpus=1, gpu_ids=str(gpu)) for gpu in (0, 3)]
    for job in jobs:
        client.wait(job.id, (pb.RUNNING,))
    dgx.sim("inject", "lost", "--gpu", "2")
    becomes(client, 2)
    assert states(client) == ["healthy", "healthy", "unhealthy", "healthy"]
    assert [client.get(job.id).state for job in jobs] == [pb.RUNNING, pb.RUNNING]
    other = client.submit("true", gpus=1)
    assert client.wait(other.id).state == pb.SUCCEEDED
    for job in jobs:
        client.queue.Cancel(pb.CancelRequest(id=job.id), timeout=5)
        client.wait(job.id)
    assert agent.end() == 0


def test_a_gpu_that_answers_again(dgx):
    agent, client = start(dgx)
    dgx.sim("inject", "reset-required", "--gpu", "2")
    becomes(client, 2)
    dgx.sim("heal", "--gpu", "2")
    becomes(client)
    assert agent.end() == 0


def test_disabled_and_enabled(dgx):
    env = {"DP_DISABLE_HEALTHCHECKS": "all", "DP_ENABLE_HEALTHCHECKS": "79,nonsense"}
    agent, client = start(dgx, env=env)
    agent.logged("'nonsense' is no XID")
    dgx.sim("inject", "xid", "119", "--gpu", "0")
    dgx.sim("inject", "xid", "79", "--gpu", "1")
    becomes(client, 1)
    assert agent.end() == 0


def test_as_the_peer(dgx):
    agent, client = start(
        dgx, "sluice: {health: {policy: peer, ignoreXids: [92], pollInterval: 100ms}}\n")
    for gpu, code in enumerate((63, 92, 109, 13)):
        dgx.sim("inject", "xid", str(code), "--gpu", str(gpu))
    becomes(client, 0)
    assert agent.end() == 0


def test_a_person_decides(dgx):
    agent, client = start(dgx, "sluice: {health: {recover: manual, pollInterval: 1ms}}\n")
    dgx.sim("inject", "xid", "119", "--gpu", "0")
    becomes(client, 0)
    reset(dgx, 0)
    wait_until(lambda: "reset since" in health(client)[0].reasons[0].text)
    assert dgx.run("sluice", "health", "clear", "0").ok().out.startswith("cleared 1 GPU")
    assert unhealthy(client) == []
    assert agent.end() == 0


# --- MIG and replicas ------------------------------------------------------------------------------

def mig_reasons(client):
    """Which MIG devices a job of their own would have to wait for."""
    sick = []
    for device in range(7):
        job = client.submit("true", gpu_ids=f"0:{device}", gpus=1)
        wait_until(lambda number=job.id: client.get(number).reason == "GPUUnhealthy"
                   or client.get(number).state == pb.SUCCEEDED)
        if client.get(job.id).state != pb.SUCCEEDED:
            sick.append(device)
            client.queue.Cancel(pb.CancelRequest(id=job.id), timeout=5)
    return sick


@pytest.fixture
def split(machine):
    machine.start("dgx-a100", "--gpus", "2", "--mig", "single", "--dev-style", "file")
    yield machine


MIXED = "flags: {migStrategy: mixed}\n" + CONFIG


def test_an_error_of_one_mig_instance(split):
    agent, client = start(split, MIXED)
    assert mig_reasons(client) == []
    third = split.run("sluice", "devices", "-o", "json").ok().json["gpus"][0]["mig"]["devices"][3]
    split.sim("inject", "xid", "95", "--gpu", "0", "--mig", f"{third['gi']}/{third['ci']}",
              "--form", "mig")
    becomes(client, 0)
    assert mig_reasons(client) == [3]
    split.sim("inject", "xid", "62", "--gpu", "0")
    wait_until(lambda: [xid.xid for xid in health(client)[0].xids] == [95, 62])
    assert mig_reasons(client) == list(range(7))
    assert agent.end() == 0


def test_an_error_of_the_whole_gpu_marks_all_its_instances(split):
    agent, client = start(split, MIXED)
    split.sim("inject", "xid", "62", "--gpu", "0")
    becomes(client, 0)
    assert mig_reasons(client) == list(range(7))
    assert states(client) == ["unhealthy", "healthy"]
    assert agent.end() == 0


# --- the commands ----------------------------------------------------------------------------------

def test_the_command_asks_the_agent(dgx):
    agent, client = start(dgx)
    assert dgx.run("sluice", "health", "--output", "json").json["source"] == "agent"
    dgx.sim("inject", "xid", "119", "--gpu", "1")
    becomes(client, 1)
    reply = dgx.run("sluice", "health")
    assert reply.rc == 1 and "as the agent has watched" in reply.out, reply
    assert "XID 119" in reply.out and "reset it" in reply.out
    once = dgx.run("sluice", "health", "--once", "--output", "json")
    assert once.rc == 1 and once.json["source"] == "driver"
    assert once.json["gpus"][1]["health"] == "unhealthy"
    reset(dgx, 1)
    becomes(client)
    assert dgx.run("sluice", "health").rc == 0  # it has seen the reset
    assert dgx.run("sluice", "health", "--once").rc == 1  # looking once, nobody can
    assert agent.end() == 0
    assert dgx.run("sluice", "health", "--output", "json").json["source"] == "driver"


def test_clear(dgx):
    agent, client = start(dgx)
    for gpu in range(3):
        dgx.sim("inject", "xid", "54", "--gpu", str(gpu))
    becomes(client, 0, 1, 2)
    bad = dgx.run("sluice", "health", "clear", "9")
    assert bad.rc == 64 and "no GPU '9'" in bad.err, bad
    dgx.run("sluice", "health", "clear", "1").ok()
    becomes(client, 0, 2)
    dgx.run("sluice", "health", "clear", health(client)[2].bus).ok()
    becomes(client, 0)
    dgx.run("sluice", "health", "clear", "all").ok()
    becomes(client)
    assert dgx.run("sluice", "health", "clear").rc == 64
    assert agent.end() == 0
    gone = dgx.run("sluice", "health", "clear", "all")
    assert gone.rc == 69 and "sluice agent" in gone.err, gone


def test_release_and_resume(dgx):
    agent, client = start(dgx)
    runs = client.submit("sleep", "100", gpus=1)
    client.wait(runs.id, (pb.RUNNING,))
    assert [process.role for process in client.status().processes].count("probe") == 1
    reply = dgx.run("sluice", "health", "release", "--for", "30s")
    assert reply.rc == 0 and "released for 30 s" in reply.out, reply
    assert [process.role for process in client.status().processes].count("probe") == 0
    assert client.status().gpus == 4  # what is handed out stays
    assert client.get(runs.id).state == pb.RUNNING
    waits = client.submit("true", gpus=1)
    wait_until(lambda: "driver is released" in client.get(waits.id).reason_text)
    assert "released until" in dgx.run("sluice", "health").out
    dgx.sim("inject", "xid", "119", "--gpu", "2")
    dgx.run("sluice", "health", "resume").ok()
    assert client.wait(waits.id).state == pb.SUCCEEDED
    becomes(client, 2)  # of the log, which was not read meanwhile
    client.queue.Cancel(pb.CancelRequest(id=runs.id), timeout=5)
    assert dgx.run("sluice", "health", "resume").rc == 0  # again does no harm
    assert agent.end() == 0


def test_release_ends_by_itself(dgx):
    agent, client = start(dgx)
    dgx.run("sluice", "health", "release", "--for", "200ms").ok()
    wait_until(lambda: [process.role for process in client.status().processes].count("probe") == 1)
    assert dgx.run("sluice", "health", "release", "--for", "0").rc == 64
    assert dgx.run("sluice", "health", "release", "--for", "8d").rc == 64
    assert agent.end() == 0


def test_release_names_who_holds_the_driver(machine_factory):
    machine = machine_factory(opens_nodes=True)
    machine.start("dgx-a100", "--gpus", "4", "--dev-style", "file")
    agent, client = start(machine)
    node = machine.path("dev/nvidia0")
    with open(node, "rb") as held:
        with subprocess.Popen(["sleep", "100"], stdin=held) as other:
            reply = machine.run("sluice", "health", "release")
            assert reply.rc == 1 and f"process {other.pid} (sleep): /dev/nvidia0" in reply.out
            other.kill()
    machine.run("sluice", "health", "resume").ok()
    wait_until(lambda: client.status().gpus == 4)
    assert agent.end() == 0


def test_how_soon(dgx, capsys):
    """From the injection to the answer; printed, no gate."""
    agent, client = start(dgx)
    took = []
    for _ in range(5):
        begin = time.monotonic()
        dgx.sim("inject", "xid", "54", "--gpu", "1")
        injected = time.monotonic()
        becomes(client, 1)
        took.append((injected - begin, time.monotonic() - injected))
        client.node.ClearHealth(pb.ClearHealthRequest(gpu="all"), timeout=5)
        becomes(client)
    with capsys.disabled():
        print("\nsimulated: injected within, known after:",
              ", ".join(f"{1000 * a:.0f} + {1000 * b:.0f} ms" for a, b in took))
    assert agent.end() == 0


# --- what the kubelet sees -------------------------------------------------------------------------

@pytest.fixture
def node(machine):
    """Starts a machine, a kubelet and the service with this configuration; the kubelet."""
    made = []

    def make(text, *options):
        machine.start("dgx-a100", "--gpus", "2", "--dev-style", "file", *options)
        directory = machine.path("/var/lib/kubelet/device-plugins")
        directory.mkdir(parents=True)
        made.append(Kubelet(directory))
        made[0].start()
        config = machine.directory / "config.yaml"
        config.write_text(text)
        machine.agent("--config", config)
        return made[0]

    yield make
    for kubelet in made:
        kubelet.die()


def marked(endpoint):
    return {device for device, state in endpoint.devices.items() if state == "Unhealthy"}


def marks(endpoint, devices):
    wait_until(lambda: marked(endpoint) == devices, what=f"{devices} unhealthy")


SHARED = """
sharing: {timeSlicing: {resources: [{name: nvidia.com/gpu, replicas: 5}]}}
"""


def test_the_kubelet_sees_all_replicas_change(machine, node, capsys):
    endpoint = node(SHARED + CONFIG).wait(10)
    uuid = machine.show()["gpus"][1]["uuid"]
    replicas = {f"{uuid}::{number}" for number in range(5)}
    took = []
    for _ in range(3):
        machine.sim("inject", "xid", "119", "--gpu", "1")
        begin = time.monotonic()
        marks(endpoint, replicas)
        took.append(time.monotonic() - begin)
        lists = len(endpoint.lists)
        reset(machine, 1)
        marks(endpoint, set())
        assert len(endpoint.lists) == lists + 1, "one update for five replicas"
    assert len(endpoint.devices) == 10 and not endpoint.ended.is_set()
    with capsys.disabled():
        print("\nsimulated: XID to ListAndWatch within",
              ", ".join(f"{1000 * seconds:.0f} ms" for seconds in took))


def test_the_kubelet_sees_the_mig_instance_alone(machine, node):
    kubelet = node(MIXED, "--mig", "single")
    endpoint = kubelet.wait(14, "nvidia.com/mig-1g.5gb")
    first = machine.run("sluice", "devices", "-o", "json").ok().json["gpus"][0]["mig"]["devices"]
    third = first[3]
    machine.sim("inject", "xid", "95", "--gpu", "0", "--mig", f"{third['gi']}/{third['ci']}",
                "--form", "mig")
    marks(endpoint, {third["uuid"]})
    machine.sim("inject", "xid", "79", "--gpu", "0", "--mig", f"{third['gi']}/{third['ci']}")
    marks(endpoint, {mig["uuid"] for mig in first})
    assert not endpoint.ended.is_set()


def without_proc_of_the_driver(machine):
    """The machine's root but for /proc/driver; its path."""
    root, view = machine.path("/"), machine.directory / "view"
    machine.path("/var/lib/kubelet/device-plugins").mkdir(parents=True)
    (view / "proc").mkdir(parents=True)
    for folder, hidden in ((root, "proc"), (root / "proc", "driver")):
        for entry in folder.iterdir():
            if entry.name != hidden:
                (view / entry.relative_to(root)).symlink_to(entry)
    return str(view)


def test_a_lost_gpu_that_nobody_can_name(machine):
    """In a pod of its own the driver's /proc is not there: when the driver has lost a GPU it tells
    neither UUID nor address of it. The kubelet is told all the same, and the service rests."""
    machine.start("t4x4", "--dev-style", "file")
    view = {"SLUICE_ROOT": without_proc_of_the_driver(machine)}
    kubelet = Kubelet(machine.path("/var/lib/kubelet/device-plugins")).start()
    try:
        agent, client = start(machine, env=view)
        endpoint = kubelet.wait(4)
        uuid = machine.show()["gpus"][2]["uuid"]
        machine.sim("inject", "xid", "79", "--gpu", "2")
        marks(endpoint, {uuid})
        becomes(client, 2)
        rests(agent, client)
        assert len(endpoint.devices) == 4 and not endpoint.ended.is_set()

        # Whoever begins now has never known which GPU it is.
        assert agent.end() == 0
        (machine.state_dir / "health").unlink(missing_ok=True)
        agent = Agent(machine, "--period", "100ms", env=view)
        client = agent.client()
        kubelet.wait(3)
        wait_until(lambda: 2 in unhealthy(client), what="GPU 2 unhealthy")
        rests(agent, client)
        assert agent.end() == 0
    finally:
        kubelet.die()


def rests(agent, client):
    """It answers, and says nothing twice, over ten samples."""
    told = len(agent.text().splitlines())
    watch = client.node.Watch(pb.WatchRequest(), timeout=30)
    for _ in range(10):
        next(watch)
    watch.cancel()
    assert client.status().gpus == 4 and len(health(client)) <= 5
    assert len(agent.text().splitlines()) <= told + 3, agent.text()


def test_a_release_takes_nothing_from_the_kubelet(machine, node):
    endpoint = node(CONFIG).wait(2)
    machine.run("sluice", "health", "release").ok()
    machine.run("sluice", "health", "resume").ok()
    uuid = machine.show()["gpus"][0]["uuid"]
    machine.sim("inject", "xid", "54", "--gpu", "0")
    marks(endpoint, {uuid})
    machine.run("sluice", "health", "clear", "all").ok()
    marks(endpoint, set())
    assert [set(devices.values()) for devices in map(dict, endpoint.lists)] == \
        [{"Healthy"}, {"Healthy", "Unhealthy"}, {"Healthy"}]
