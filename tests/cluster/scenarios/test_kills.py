# SPDX-License-Identifier: Apache-2.0
"""Agent, kubelet and containerd are killed, the node loses its power: pods keep their GPUs, and nobody gets one twice."""

import signal

import pytest

from conftest import Failure, gpus_of, wait


def agent(node):
    node.run("sh", "-c", "kill -KILL $(pgrep -of '^sluice agent')")


def kubelet(node):
    node.stop("kubelet", signal.SIGKILL)
    node.kubelet()


def containerd(node):
    node.stop("containerd", signal.SIGKILL)
    node.containerd()


def is_registered(cluster, node):
    try:
        return "nvidia.com/gpu: attached" in cluster.agent(node, "sluice", "agent", "status", timeout=20)
    except Failure:
        return False


@pytest.mark.parametrize("kill", [agent, kubelet, containerd], ids=lambda one: one.__name__)
def test_pods_keep_their_gpus(service, node, kill):
    service.pod("held", node, gpus=5)
    service.wait_phase("held", "Running")
    held = gpus_of(service, "held")

    kill(node)
    # A pod that is admitted while the plugin is not registered ends with UnexpectedAdmissionError.
    wait("the service is registered", 60, lambda: is_registered(service, node), every=0.5)
    service.pod("later", node, gpus=3)
    service.wait_phase("later", "Running", seconds=90)
    assert gpus_of(service, "held") == held
    assert not set(gpus_of(service, "later")) & set(held)
    service.wait_allocatable(node, 8)


def test_a_power_cut(service, node):
    service.pod("held", node, gpus=5)
    service.wait_phase("held", "Running")
    node.reboot()
    service.wait_ready()
    service.wait_allocatable(node, 8, seconds=120)

    service.clear()
    service.pod("all", node, gpus=8)
    service.wait_phase("all", "Running")
