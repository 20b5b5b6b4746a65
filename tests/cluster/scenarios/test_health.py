# SPDX-License-Identifier: Apache-2.0
"""Faults of GPUs as a pod of the service sees them: it has no /proc of the driver, so nobody can tell it the address of
a GPU that is lost."""

from conftest import gpus_of, wait
from test_kills import agent, is_registered


def log_lines(cluster, node):
    pods = cluster.get("pods", namespace="sluice", selector="app.kubernetes.io/name=sluice")
    name = next(pod["metadata"]["name"] for pod in pods if pod["spec"].get("nodeName") == node.name)
    return cluster.kubectl("logs", "-n", "sluice", name).splitlines()


def events(cluster, node):
    return [one["message"] for one in cluster.get("events") if one["involvedObject"]["name"] == node.name]


def test_a_lost_gpu_is_told_once_and_comes_back(service, node):
    before = len(log_lines(service, node))
    node.sim("inject", "xid", "79", "--gpu", "2")
    service.wait_allocatable(node, 7, seconds=30)
    service.pod("after", node, gpus=7)
    service.wait_phase("after", "Running")
    # The service answers, and does not say the same for ever.
    service.agent(node, "sluice", "agent", "status", timeout=20)
    said = log_lines(service, node)[before:]
    assert len(said) < 40, said[-5:]
    wait(lambda: f"an Event of the node names XID 79: {events(service, node)}", 30,
         lambda: any("79" in one for one in events(service, node)))

    service.clear()
    node.sim("heal")
    node.sim("reset-gpu", "--gpu", "2")
    service.agent(node, "sluice", "health", "clear", "2")
    service.wait_allocatable(node, 8)


def test_a_reset_brings_it_back_by_itself(service, node):
    """A pod's own XID is no reason; one that wants a reset is, until there was one: nobody has to clear it. Pods on other
    GPUs do not notice, and a new agent remembers."""
    service.pod("held", node, gpus=4)
    service.wait_phase("held", "Running")
    held = gpus_of(service, "held")
    free = [gpu["index"] for gpu in node.gpus() if f"/dev/nvidia{gpu['minor']}" not in held]
    node.sim("inject", "xid", "13", "--gpu", free[0])
    node.sim("inject", "xid", "119", "--gpu", free[1])
    service.wait_allocatable(node, 7)
    agent(node)
    wait("the service is registered", 60, lambda: is_registered(service, node), every=0.5)
    service.wait_allocatable(node, 7)
    service.pod("rest", node, gpus=3)
    service.wait_phase("rest", "Running")

    node.sim("heal")
    node.sim("reset-gpu", "--gpu", free[1])
    service.wait_allocatable(node, 8)
    assert service.phase("held") == "Running" and gpus_of(service, "held") == held


def test_a_gpu_taken_out_and_put_back(service, node):
    """Pods on other GPUs do not notice, a new one does not get it while it is away, and one gets it when it is there again."""
    service.pod("held", node, gpus=4)
    service.wait_phase("held", "Running")
    held = gpus_of(service, "held")
    away = next(gpu for gpu in node.gpus() if f"/dev/nvidia{gpu['minor']}" not in held)
    node.sim("inject", "hotunplug", "--gpu", away["index"])
    service.wait_allocatable(node, 7)
    service.pod("rest", node, gpus=3)
    service.wait_phase("rest", "Running")
    assert f"/dev/nvidia{away['minor']}" not in gpus_of(service, "rest")

    node.sim("inject", "hotplug", "--gpu", away["index"])
    service.wait_allocatable(node, 8)
    service.pod("last", node)
    service.wait_phase("last", "Running")
    assert gpus_of(service, "last") == [f"/dev/nvidia{away['minor']}"]
    assert service.phase("held") == "Running" and gpus_of(service, "held") == held
