# SPDX-License-Identifier: Apache-2.0
"""Faults of GPUs as a pod of the service sees them: it has no /proc of the driver, so nobody can tell it the address of
a GPU that is lost."""

from conftest import wait


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
