# SPDX-License-Identifier: Apache-2.0
"""RDMA adapters of a node, simulated ones: pods that ask for one get its device nodes by the service and no others."""

import json

import pytest

from conftest import cleaned, wait
from place import ROOT

MANIFESTS = ROOT / "tests/documents/manifests"
RESOURCES = [f"rdma/shared_ib{number}" for number in range(4)]


def nodes_of(cluster, name):
    """The RDMA device nodes that a pod sees."""
    return sorted(cluster.kubectl("exec", name, "--", "sh", "-c", "ls -d /dev/infiniband/* 2>/dev/null || true").split())


def adapters(node):
    """InfiniBand interface of the node -> the nodes that its adapter has, by the machine's own files."""
    found = {}
    for line in node.run("sh", "-c", "for i in /sys/class/net/ib*; do echo $(basename $i) $(readlink -f $i/device); done").splitlines():
        interface, device = line.split()
        listed = node.run("sh", "-c", f"ls -d {device}/infiniband_verbs/* {device}/infiniband_mad/* {device}/infiniband_cm/* "
                          f"2>/dev/null || true")
        found[interface] = {f"/dev/infiniband/{path.rsplit('/', 1)[1]}" for path in listed.split()}
    return found


@pytest.fixture
def rdma(cluster):
    """The service with the ConfigMap of a published document."""
    cluster.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "sluice"}})
    cluster.apply((MANIFESTS / "rdma-configmap.yaml").read_text(), namespace="sluice")
    try:
        with cleaned(cluster):
            cluster.install("--set=rdma.configMap=rdma-devices")
            for one in cluster.nodes:
                for resource in RESOURCES:
                    cluster.wait_allocatable(one, 100, resource)
            yield cluster
    finally:
        cluster.kubectl("delete", "configmap", "rdma-devices", "-n", "sluice", "--ignore-not-found")


def test_a_pod_gets_the_nodes_of_its_adapter(rdma, node):
    known = adapters(node)
    assert len(known) >= 4 and all(known.values())
    for name, resource in (("first", RESOURCES[0]), ("same", RESOURCES[0]), ("third", RESOURCES[2])):
        rdma.pod(name, node, gpus=1, resource=resource)
    rdma.pod("none", node, gpus=0)
    for name in ("first", "same", "third", "none"):
        rdma.wait_phase(name, "Running")
    first = set(nodes_of(rdma, "first"))
    # Shared: two pods have one adapter. rdma_cm is the machine's.
    assert first == set(nodes_of(rdma, "same"))
    assert first - {"/dev/infiniband/rdma_cm"} == known["ib0"] - {"/dev/infiniband/rdma_cm"}
    assert set(nodes_of(rdma, "third")) - {"/dev/infiniband/rdma_cm"} == known["ib2"] - {"/dev/infiniband/rdma_cm"}
    assert not nodes_of(rdma, "none")


def test_the_pod_of_the_document_gets_four(rdma, node):
    known = adapters(node)
    pod = json.loads(rdma.kubectl("create", "--dry-run=client", "-o", "json", "-f", MANIFESTS / "rdma-test-pod.yaml"))
    pod["metadata"]["labels"] = {"scenario": "yes"}
    pod["spec"]["nodeName"] = node.name
    pod["spec"]["containers"][0].update(image="localhost/box:1", imagePullPolicy="Never")
    rdma.apply(pod)
    rdma.wait_phase(pod["metadata"]["name"], "Running")
    wanted = set().union(*(known[f"ib{number}"] for number in range(4))) - {"/dev/infiniband/rdma_cm"}
    assert set(nodes_of(rdma, pod["metadata"]["name"])) - {"/dev/infiniband/rdma_cm"} == wanted


def test_an_adapter_that_is_gone_is_not_given(rdma, node):
    node.sim("inject", "rdma", "0", "gone")
    wait(lambda: f"{RESOURCES[0]} is not to be had: {rdma.allocatable(node, RESOURCES[0])}", 60,
         lambda: rdma.allocatable(node, RESOURCES[0]) == 0)
    node.sim("inject", "rdma", "0", "back")
    rdma.wait_allocatable(node, 100, RESOURCES[0])
