# SPDX-License-Identifier: Apache-2.0
"""A pod's GPU by CDI: the container has the nodes of exactly the GPUs that the kubelet gave to the pod, may open no
other, and finds the driver's library; in each way of telling the runtime."""

import re

import pytest

from conftest import cleaned

CONFIGURATION = ("version: v1\nflags: {plugin: {deviceListStrategy: [%s], deviceIDStrategy: %s}}\n"
                 "sluice: {cdi: {write: true}, labels: {mode: direct, onExit: remove}}\n")
# Opening a node that the container may use fails otherwise than by its control group: no driver is behind the number.
OPEN = ("for n in 0 1 2 3 4 5 6 7; do [ -e /tmp/n$n ] || mknod /tmp/n$n c 195 $n; "
        "cat /tmp/n$n 2>&1 | grep -q 'Operation not permitted' || echo $n; done")


def minors_of(cluster, name):
    listed = cluster.kubectl("exec", name, "--", "sh", "-c", "ls -d /dev/nvidia[0-9]* | sed s,/dev/nvidia,,")
    return {int(one) for one in listed.split()}


def gpus_given(cluster, node, name):
    """The GPUs, or those of which it is a share, that the kubelet gave to the pod, by its own book and the machine's."""
    ids = {one.split("::")[0] for one in node.promised()[cluster.get("pod", name)["metadata"]["uid"]]}
    return [gpu for gpu in node.gpus() if gpu["uuid"] in ids]


def given(cluster, node, name):
    return {gpu["minor"] for gpu in gpus_given(cluster, node, name)}


def openable(cluster, name):
    """The minors that the control group lets the pod open."""
    return {int(one) for one in cluster.kubectl("exec", name, "--", "sh", "-c", OPEN).split()}


def has_exactly(cluster, node, name, count):
    """The pod has the nodes of the GPUs that the kubelet gave to it, so many, and may open no other."""
    minors = minors_of(cluster, name)
    assert len(minors) == count and minors == given(cluster, node, name)
    assert openable(cluster, name) == minors


def told_by(cluster, node, name, strategy, identifier):
    """The runtime was told in that way (the service may add the other one), with that name of each GPU and no other."""
    answer = node.answer(cluster.get("pod", name)["metadata"]["uid"])
    wanted = {str(gpu[identifier]) for gpu in gpus_given(cluster, node, name)}
    assert b"/dev/nvidia" not in answer, "device nodes were passed beside the names"
    assert {one.decode() for one in re.findall(rb"/gpu=([-\w]+)", answer)} == wanted
    if strategy == "cdi-annotations":
        assert b"cdi.k8s.io/nvidia-device-plugin_" in answer
    else:  # a message CDIDevice, whose only field is the name
        names = [f"sluice.sim/gpu={one}".encode() for one in wanted]
        assert all(bytes([0x0A, len(one)]) + one in answer for one in names)


@pytest.mark.parametrize("strategy, identifier", [("cdi-cri", "uuid"), ("cdi-cri", "index"), ("cdi-annotations", "uuid")])
def test_exactly_its_gpus(cluster, node, strategy, identifier):
    with cleaned(cluster):
        cluster.install(f"--set-literal=config.map.default={CONFIGURATION % (strategy, identifier)}")
        for one in cluster.nodes:
            cluster.wait_allocatable(one, 8)
        for name, count in (("one", 1), ("three", 3)):
            cluster.pod(name, node, gpus=count)
        for name, count in (("one", 1), ("three", 3)):
            cluster.wait_phase(name, "Running")
            has_exactly(cluster, node, name, count)
            told_by(cluster, node, name, strategy, identifier)
            cluster.kubectl("exec", name, "--", "ls", "/dev/nvidiactl", "/usr/lib/x86_64-linux-gnu/libcuda.so.1")
        assert not minors_of(cluster, "one") & minors_of(cluster, "three")


def test_without_a_gpu(service, node):
    """A pod that asked for none has none, and may open none."""
    service.pod("none", node, gpus=0)
    service.wait_phase("none", "Running")
    assert service.kubectl("exec", "none", "--", "sh", "-c", "ls -d /dev/nvidia* 2>/dev/null || true").split() == []
    assert openable(service, "none") == set()
