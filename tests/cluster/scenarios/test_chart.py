# SPDX-License-Identifier: Apache-2.0
"""The chart is installed, serves pods, is upgraded under them and uninstalled: nothing of it is left on a node."""

import pytest

from conftest import cleaned, gpus_of, install, wait


def of_service(node):
    """What lies on the node that the service made."""
    listed = node.run("sh", "-c", "ls -d /var/lib/kubelet/device-plugins/*nvidia* /var/run/cdi/* /var/lib/sluice/* "
                      "/run/nvidia/validations/* /etc/kubernetes/node-feature-discovery/features.d/* 2>/dev/null || true")
    return listed.split()


def labels(cluster, node):
    """The labels and annotations of the node that are the service's words."""
    metadata = cluster.get("node", node.name)["metadata"]
    return [key for key in [*metadata["labels"], *metadata["annotations"]]
            if key.startswith(("nvidia.com/", "sluice.dev/", "nfd.node.kubernetes.io/"))]


def unschedulable(cluster, name):
    conditions = cluster.get("pod", name)["status"].get("conditions", [])
    return any(one["type"] == "PodScheduled" and one["status"] == "False" for one in conditions)


@pytest.fixture(autouse=True)
def nothing_stays(cluster):
    with cleaned(cluster):
        yield


def test_pods_get_exactly_their_gpus_through_an_upgrade(cluster, node):
    install(cluster)
    wait("labels of the node", 30, lambda: labels(cluster, node))
    cluster.pod("one", node, gpus=1)
    cluster.pod("three", node, gpus=3)
    for name in ("one", "three"):
        cluster.wait_phase(name, "Running")
    one, three = gpus_of(cluster, "one"), gpus_of(cluster, "three")
    assert (len(one), len(three)) == (1, 3) and not set(one) & set(three)

    install(cluster, "--set=podAnnotations.example=changed")
    cluster.pod("four", node, gpus=4)
    cluster.wait_phase("four", "Running")
    assert not set(gpus_of(cluster, "four")) & {*one, *three}
    cluster.pod("ninth", node, gpus=1)
    wait("the ninth GPU is not to be had", 20, lambda: unschedulable(cluster, "ninth"))
    for name in ("one", "three"):
        assert cluster.phase(name) == "Running"

    cluster.clear()
    # The labels go while the pods still have the right to take them away: doc/kubernetes.md.
    cluster.kubectl("delete", "daemonset", "sluice", "-n", "sluice", "--cascade=foreground")
    cluster.uninstall()
    wait(lambda: f"nothing is left on {node.name}, there is {of_service(node)}", 30, lambda: not of_service(node))
    wait(lambda: f"no label is left, there are {labels(cluster, node)}", 30, lambda: not labels(cluster, node))
    cluster.wait_allocatable(node, 0)
