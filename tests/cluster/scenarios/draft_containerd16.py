# SPDX-License-Identifier: Apache-2.0
"""A node whose runtime is Debian's containerd 1.6, which knows no CDI: the service sees that, and pods get exactly their
GPUs all the same, by device nodes that the kubelet passes on.
Open: with the chart's own settings and neither CDI nor NVIDIA's runtime on the node a pod runs without any device of its GPU. Whether
the service should pass the nodes by the kubelet then, or refuse, is to be decided."""

import pytest

from conftest import gpus_of, install, wait


@pytest.fixture
def old(cluster):
    node = cluster.nodes[-1]
    node.change_containerd(old=True)
    try:
        cluster.load_images(node)
        wait("the node tells of containerd 1.6", 120, lambda: version(cluster, node).startswith("containerd://1.6"))
        cluster.wait_ready()
        install(cluster)
        yield node
        cluster.clear()
        cluster.uninstall()
    finally:
        node.change_containerd(old=False)
        cluster.load_images(node)
        wait("the node tells of its own containerd", 120, lambda: version(cluster, node).startswith("containerd://2"))
        cluster.wait_ready()


def version(cluster, node):
    return cluster.get("node", node.name)["status"]["nodeInfo"]["containerRuntimeVersion"]


def test_pods_get_their_gpus(cluster, old):
    for name, count in (("one", 1), ("three", 3)):
        cluster.pod(name, old, gpus=count)
    for name in ("one", "three"):
        cluster.wait_phase(name, "Running")
    one, three = gpus_of(cluster, "one"), gpus_of(cluster, "three")
    assert (len(one), len(three)) == (1, 3) and not set(one) & set(three)
