# SPDX-License-Identifier: Apache-2.0
"""Two pods on one GPU by time-slicing: the metrics name pod, namespace and container of each share, with what it uses."""

import re

import pytest

from conftest import LABEL, cleaned, gpus_of, install, wait

PODS = [f"part-{number}" for number in range(9)]


@pytest.fixture
def shared(cluster, node):
    with cleaned(cluster):
        install(cluster, "--set=hostPID=true")
        cluster.kubectl("label", "--overwrite", "node", node.name, f"{LABEL}=shared")
        cluster.wait_allocatable(node, 32)
        yield cluster


def metrics(cluster, node, name):
    """{labels: value} of a metric, as Prometheus would read it on the node."""
    pods = cluster.get("pods", namespace="sluice", selector="app.kubernetes.io/name=sluice")
    address = next(pod["status"]["podIP"] for pod in pods if pod["spec"].get("nodeName") == node.name)
    text = node.run("busybox", "wget", "-q", "-O", "-", f"http://{address}:9400/metrics")
    rows = {}
    for line in text.splitlines():
        if line.startswith(name + "{"):
            labels = dict(re.findall(r'(\w+)="([^"]*)"', line))
            rows[labels.get("pod", "")] = (labels, float(line.rsplit(" ", 1)[1]))
    return rows


def load(node, cluster, name, gpu, util):
    """The pod's own process works on its GPU."""
    node.sim_load(node.container_of(cluster.get("pod", name)), gpu, util=util, mem="1GiB")


def test_each_share_has_its_pod(shared, node):
    for name in PODS:
        shared.pod(name, node)
    for name in PODS:
        shared.wait_phase(name, "Running")
    minor = {name: gpus_of(shared, name)[0] for name in PODS}
    first, second = next((one, other) for one in PODS for other in PODS if one < other and minor[one] == minor[other])
    gpu = next(gpu for gpu in node.gpus() if minor[first] == f"/dev/nvidia{gpu['minor']}")
    load(node, shared, first, gpu["index"], "0.6")
    load(node, shared, second, gpu["index"], "0.2")

    def busy():
        return metrics(shared, node, "sluice_container_gpu_busy_seconds_total")

    wait(lambda: f"busy seconds of {first} and {second}: {busy()}", 60,
         lambda: {first, second} <= set(busy()) and busy()[second][1] > 2, every=1)
    rows = busy()
    for name in (first, second):
        labels = rows[name][0]
        assert (labels["namespace"], labels["container"]) == ("default", "main"), labels
        assert gpu["uuid"] in labels.values(), labels
    assert 2 < rows[first][1] / rows[second][1] < 4.5, rows
    others = set(PODS) - {first, second}
    assert all(rows[name][1] == 0 for name in others if name in rows) and others <= set(rows), rows
