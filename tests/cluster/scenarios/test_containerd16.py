# SPDX-License-Identifier: Apache-2.0
"""A node whose runtime is Debian's containerd 1.6, which knows no CDI: the service sees that, and pods get exactly their
GPUs all the same, by device nodes that the kubelet passes on."""

import pytest

from conftest import cleaned, install, wait
from test_cdi import has_exactly, minors_of


@pytest.fixture
def old(cluster):
    node = cluster.nodes[-1]
    node.change_containerd(old=True)
    try:
        cluster.load_images(node)
        wait("the node tells of containerd 1.6", 120, lambda: version(cluster, node).startswith("containerd://1.6"))
        cluster.wait_ready()
        with cleaned(cluster):
            install(cluster)
            yield node
    finally:
        node.change_containerd(old=False)
        cluster.load_images(node)
        wait("the node tells of its own containerd", 120, lambda: version(cluster, node).startswith("containerd://2"))
        cluster.wait_ready()


def version(cluster, node):
    return cluster.get("node", node.name)["status"]["nodeInfo"]["containerRuntimeVersion"]


def test_pods_get_their_gpus(cluster, old):
    wait("the service says who injects", 60,
         lambda: "cannot do CDI" in cluster.agent(old, "sluice", "agent", "status"), every=0.5)
    for name, count in (("one", 1), ("three", 3)):
        cluster.pod(name, old, gpus=count)
    for name, count in (("one", 1), ("three", 3)):
        cluster.wait_phase(name, "Running")
        has_exactly(cluster, old, name, count)
    assert not minors_of(cluster, "one") & minors_of(cluster, "three")
