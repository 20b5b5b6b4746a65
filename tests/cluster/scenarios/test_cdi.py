# SPDX-License-Identifier: Apache-2.0
"""A pod's GPU by CDI: the container has the nodes of exactly the GPUs that the kubelet gave to the pod, may open no
other, and finds the driver's library; in each way of telling the runtime."""

import pytest

CONFIGURATION = ("version: v1\nflags: {plugin: {deviceListStrategy: [%s], deviceIDStrategy: %s}}\n"
                 "sluice: {cdi: {write: true}, labels: {mode: direct, onExit: remove}}\n")
# Opening a node that the container may use fails otherwise than by its control group: no driver is behind the number.
OPEN = "mknod /tmp/n%d c 195 %d; cat /tmp/n%d 2>&1; true"
REFUSED = "Operation not permitted"


def minors_of(cluster, name):
    listed = cluster.kubectl("exec", name, "--", "sh", "-c", "ls -d /dev/nvidia[0-9]* | sed s,/dev/nvidia,,")
    return {int(one) for one in listed.split()}


def given(cluster, node, name):
    """The minors of the GPUs that the kubelet gave to the pod, by its own book and the machine's."""
    uid = cluster.get("pod", name)["metadata"]["uid"]
    gpus = {gpu["uuid"]: gpu["minor"] for gpu in node.gpus()}
    by_index = {str(gpu["index"]): gpu["minor"] for gpu in node.gpus()}
    return {gpus.get(one, by_index.get(one)) for one in node.promised()[uid]}


def may_open(cluster, name, minor):
    said = cluster.kubectl("exec", name, "--", "sh", "-c", OPEN % (minor, minor, minor))
    return REFUSED not in said


@pytest.mark.parametrize("strategy, identifier", [("cdi-cri", "uuid"), ("cdi-cri", "index"), ("cdi-annotations", "uuid")])
def test_exactly_its_gpus(cluster, node, strategy, identifier):
    cluster.install(f"--set-literal=config.map.default={CONFIGURATION % (strategy, identifier)}")
    try:
        for one in cluster.nodes:
            cluster.wait_allocatable(one, 8)
        for name, count in (("one", 1), ("three", 3)):
            cluster.pod(name, node, gpus=count)
        for name, count in (("one", 1), ("three", 3)):
            cluster.wait_phase(name, "Running")
            minors = minors_of(cluster, name)
            assert len(minors) == count and minors == given(cluster, node, name)
            assert {minor for minor in range(8) if may_open(cluster, name, minor)} == minors
            cluster.kubectl("exec", name, "--", "ls", "/dev/nvidiactl", "/usr/lib/x86_64-linux-gnu/libcuda.so.1")
        assert not minors_of(cluster, "one") & minors_of(cluster, "three")
    finally:
        cluster.clear()
        cluster.uninstall()


def test_without_a_gpu(service, node):
    """A pod that asked for none has none, and may open none."""
    service.pod("none", node, gpus=0)
    service.wait_phase("none", "Running")
    assert service.kubectl("exec", "none", "--", "sh", "-c", "ls -d /dev/nvidia* 2>/dev/null || true").split() == []
    assert not any(may_open(service, "none", minor) for minor in range(8))
