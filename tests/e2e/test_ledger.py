# SPDX-License-Identifier: Apache-2.0
"""One GPU is never given away twice: what a job holds no pod gets, what a pod holds no job gets,
whichever door the configuration gives it to meanwhile, and whoever was killed in between."""

import pytest

from conftest import wait_until
from kubelet import Kubelet, grpc
from test_holders import Pods, holders

CONFIG = "version: v1\nsluice: {doors: {kubelet: {devices: %s}, queue: {devices: %s}}}\n"


@pytest.fixture
def node(machine):
    """A machine of two GPUs with a kubelet and a configuration that node.give() writes."""
    machine.start("t4x4", "--gpus", "2")
    machine.others = []
    machine.kubelet = Kubelet(machine.path("/var/lib/kubelet/device-plugins")).start()
    machine.pods = Pods(machine)
    machine.config = machine.directory / "config.yaml"
    machine.uuids = [gpu["uuid"] for gpu in machine.show()["gpus"]]
    yield machine
    machine.kubelet.die()
    for other in machine.others:
        other.stop(None).wait()


def give(node, kubelet, queue, reload=True):
    node.config.write_text(CONFIG % (kubelet, queue))
    if reload:
        node.run("sluice", "agent", "reload").ok()


def health(node):
    """Of the kubelet's GPUs: {number: "Healthy"}."""
    devices = node.kubelet.devices()
    return {node.uuids.index(device): health for device, health in (devices or {}).items()}


def wait_health(node, expected):
    wait_until(lambda: health(node) == expected, what=f"{expected} at the kubelet, not {health(node)}")


def refused(node, number):
    """What Allocate of a GPU says."""
    with pytest.raises(grpc.RpcError) as error:
        node.kubelet.resource().allocate(node.uuids[number])
    return error.value.details()


def held(node):
    """Who holds the GPUs: {number: "job 1" or "ns/pod/container"}."""
    return {node.uuids.index(h["unit"]): f"job {h['job']}" if h["job"] else
            f"{h['namespace']}/{h['pod']}/{h['container']}" if h["pod"] else "starting"
            for h in holders(node)}


def hold(node, number, pod="train-0", resource="nvidia.com/gpu"):
    """A pod does, as the kubelet says."""
    node.pods.held.append(("ml", pod, "main", resource, node.uuids[number]))


def wait_running(node, job):
    wait_until(lambda: node.job(job)["state"] == "Running", what=f"job {job} to run")


def wait_for_holder(node, job, holder):
    """Until the job says for whom it waits."""
    wait_until(lambda: holder in (node.job(job)["reason_text"] or ""), what=f"job {job} to wait for {holder}")
    assert node.job(job)["state"] == "Pending"


def sleeper(node, number):
    return int(node.run("sluice", "run", "--detach", "--gpu-ids", number, "--", "sleep", "600").ok().out)


def test_a_job_keeps_its_gpu_from_pods(node):
    give(node, [1], [0], reload=False)
    node.agent("--config", node.config)
    node.kubelet.wait(1)
    job = sleeper(node, 0)
    wait_running(node, job)
    assert held(node) == {0: "job 1"}

    give(node, [0, 1], [])
    wait_health(node, {0: "Unhealthy", 1: "Healthy"})
    assert f"unit '{node.uuids[0]}' is held by job 1" in refused(node, 0)
    node.kubelet.resource().allocate(node.uuids[1])
    assert held(node) == {0: "job 1", 1: "starting"}
    assert "a job holds it: it is given once it is free" in (node.directory / "agent.err").read_text()

    node.run("sluice", "cancel", job).ok()
    wait_health(node, {0: "Healthy", 1: "Healthy"})
    node.kubelet.resource().allocate(node.uuids[0])
    assert held(node) == {0: "starting", 1: "starting"}
    assert "a container that is being started" in node.run("sluice", "devices").ok().out


def test_a_pod_keeps_its_gpu_from_jobs(node):
    """Although it does not compute, and although the kubelet does not list it yet."""
    give(node, [0], [1], reload=False)
    node.agent("--config", node.config)
    node.kubelet.wait(1).allocate(node.uuids[0])
    give(node, [], [0, 1])
    job = sleeper(node, 0)
    wait_for_holder(node, job, "a container that is being started")
    hold(node, 0)
    wait_for_holder(node, job, "pod ml/train-0/main")
    other = sleeper(node, 1)
    wait_running(node, other)
    assert held(node) == {0: "ml/train-0/main", 1: f"job {other}"}

    node.pods.held.clear()
    wait_running(node, job)
    assert held(node) == {0: f"job {job}", 1: f"job {other}"}


def test_the_agent_is_killed_and_the_doors_change_places(node):
    """With a pod and a job that hold a GPU each. What was promised before stays so."""
    give(node, [0], [1], reload=False)
    node.agent("--config", node.config)
    hold(node, 0)
    node.kubelet.wait(1)
    job = sleeper(node, 1)
    wait_running(node, job)
    wait_until(lambda: held(node) == {0: "ml/train-0/main", 1: f"job {job}"}, what="both holders")
    node.service.kill()
    node.service.wait()

    give(node, [1], [0], reload=False)
    node.agent("--config", node.config)
    wait_health(node, {1: "Unhealthy"})
    assert f"is held by job {job}" in refused(node, 1)
    second = sleeper(node, 0)
    wait_for_holder(node, second, "pod ml/train-0/main")
    assert held(node) == {0: "ml/train-0/main", 1: f"job {job}"}

    node.run("sluice", "cancel", job).ok()
    node.pods.held.clear()
    wait_health(node, {1: "Healthy"})
    wait_running(node, second)
    assert held(node) == {0: f"job {second}"}


def test_killed_while_the_kubelet_is_away(node):
    """Who held what is known by the ledger's file alone."""
    give(node, [0], [1], reload=False)
    node.agent("--config", node.config)
    hold(node, 0)
    wait_until(lambda: held(node) == {0: "ml/train-0/main"}, what="the pod")
    wait_until(lambda: "train-0" in (node.state_dir / "leases").read_text(), what="the file")
    node.service.kill()
    node.service.wait()
    for other in node.others:
        other.stop(None).wait()
    give(node, [], [0, 1], reload=False)
    node.agent("--config", node.config)
    job = sleeper(node, 0)
    wait_for_holder(node, job, "pod ml/train-0/main")
    assert held(node) == {0: "ml/train-0/main"}


def test_a_pod_of_somebody_elses_plugin(node):
    """Its GPU is the queue's: no job gets it. And the other way round: what a job has stays its own."""
    give(node, [], [0, 1], reload=False)
    hold(node, 0, resource="example.com/gpu")
    node.agent("--config", node.config)
    job = sleeper(node, 0)
    wait_for_holder(node, job, "pod ml/train-0/main")
    other = sleeper(node, 1)
    wait_running(node, other)
    hold(node, 1, "late-0", resource="example.com/gpu")
    log = node.directory / "agent.err"
    wait_until(lambda: "container ml/late-0/main: unit "
               f"'{node.uuids[1]}' is held by job {other}" in log.read_text(), what="a warning")
    assert held(node) == {0: "ml/train-0/main", 1: f"job {other}"}


def test_a_gpu_and_its_mig_devices(node):
    """A job has a MIG device of a GPU; then the kubelet is to give that GPU as a whole."""
    node.sim("stop")
    node.start("dgx-a100", "--mig", "single", "--gpus", "2")
    node.pods = Pods(node)
    node.uuids = [gpu["uuid"] for gpu in node.show()["gpus"]]
    node.config.write_text("version: v1\nsluice: {doors: {kubelet: {devices: [1]}, queue: {devices: [0]}}}\n"
                           "flags: {migStrategy: mixed}\n")
    node.agent("--config", node.config)
    node.kubelet.wait(7, "nvidia.com/mig-1g.5gb")
    job = node.submit("sleep", "600", gpus=1)
    wait_running(node, job)
    [holder] = holders(node)
    assert holder["unit"].startswith("MIG-") and holder["job"] == job

    give(node, [0, 1], [])
    wait_health(node, {0: "Unhealthy", 1: "Healthy"})
    assert f"cannot be had while '{holder['unit']}' is held by job {job}" in refused(node, 0)
    assert "a job holds a MIG device of it" in (node.directory / "agent.err").read_text()
    node.run("sluice", "cancel", job).ok()
    wait_health(node, {0: "Healthy", 1: "Healthy"})
