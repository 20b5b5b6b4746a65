# SPDX-License-Identifier: Apache-2.0
"""One chain through all of it, for continuous integration: the chart, a GPU by CDI, shared by configuration, lost and back,
the agent killed, uninstalled. `run chain` brings the cluster up for it and takes it down."""

import pytest

from conftest import LABEL, cleaned, gpus_of, install, wait
from test_cdi import has_exactly, told_by
from test_chart import of_service
from test_kills import agent, is_registered

CDI = "version: v1\nflags: {plugin: {deviceListStrategy: [cdi-cri]}}\nsluice: {labels: {mode: direct, onExit: remove}}\n"


@pytest.fixture(scope="module", autouse=True)
def chart(cluster):
    with cleaned(cluster):
        install(cluster, f"--set-literal=config.map.whole={CDI}")
        yield
    for one in cluster.nodes:
        wait(lambda node=one: f"nothing is left on {node.name}: {of_service(node)}", 30, lambda node=one: not of_service(node))


@pytest.fixture(autouse=True)
def cleared(cluster):
    yield
    cluster.clear()


def test_a_gpu_by_cdi(cluster, node):
    cluster.pod("held", node, gpus=2)
    cluster.wait_phase("held", "Running")
    has_exactly(cluster, node, "held", 2)
    told_by(cluster, node, "held", "cdi-cri", "uuid")


def test_shared_by_configuration(cluster, node):
    cluster.kubectl("label", "--overwrite", "node", node.name, f"{LABEL}=shared")
    cluster.wait_allocatable(node, 32)
    cluster.pod("part", node)
    cluster.wait_phase("part", "Running")
    has_exactly(cluster, node, "part", 1)
    cluster.clear()
    cluster.kubectl("label", "node", node.name, f"{LABEL}-")
    cluster.wait_allocatable(node, 8)


def test_a_gpu_lost_and_back(cluster, node):
    lost = node.gpus()[2]
    node.sim("inject", "xid", "79", "--gpu", "2")
    cluster.wait_allocatable(node, 7)
    cluster.pod("rest", node, gpus=7)
    cluster.wait_phase("rest", "Running")
    has_exactly(cluster, node, "rest", 7)
    assert f"/dev/nvidia{lost['minor']}" not in gpus_of(cluster, "rest")
    cluster.clear()
    node.sim("heal")
    node.sim("reset-gpu", "--gpu", "2")
    cluster.agent(node, "sluice", "health", "clear", "2")
    cluster.wait_allocatable(node, 8)


def test_the_agent_killed(cluster, node):
    cluster.pod("held", node, gpus=5)
    cluster.wait_phase("held", "Running")
    held = gpus_of(cluster, "held")
    agent(node)
    wait("the service is registered", 60, lambda: is_registered(cluster, node), every=0.5)
    cluster.pod("later", node, gpus=3)
    cluster.wait_phase("later", "Running")
    has_exactly(cluster, node, "later", 3)
    assert gpus_of(cluster, "held") == held and not set(gpus_of(cluster, "later")) & set(held)
