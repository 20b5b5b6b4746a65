# SPDX-License-Identifier: Apache-2.0
"""Time-slicing from a ConfigMap: one that the node's label chooses, and one that is edited while pods run."""

import pytest

from conftest import LABEL, cleaned, gpus_of

EDITED = "edited"


def test_a_label_of_the_node_chooses_the_configuration(service, node):
    service.kubectl("label", "--overwrite", "node", node.name, f"{LABEL}=shared")
    service.wait_allocatable(node, 32)
    for other in service.nodes[1:]:
        assert service.allocatable(other) == 8

    names = [f"part-{number}" for number in range(9)]
    for name in names:
        service.pod(name, node)
    for name in names:
        service.wait_phase(name, "Running")
    held = [gpus_of(service, name) for name in names]
    assert all(len(one) == 1 for one in held)
    assert len({one[0] for one in held}) == 8, "nine pods are not spread over eight GPUs"

    service.clear()
    service.kubectl("label", "--overwrite", "node", node.name, f"{LABEL}=whole")
    service.wait_allocatable(node, 8)


def configmap(sharing):
    """A ConfigMap that the cluster's own people keep, with one configuration."""
    text = f"version: v1\n{sharing}sluice: {{labels: {{mode: file}}}}\n"
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": EDITED}, "data": {"any": text}}


def sliced(more=""):
    return configmap(f"sharing: {{timeSlicing: {{{more}resources: [{{name: nvidia.com/gpu, replicas: 4}}]}}}}\n")


@pytest.fixture
def edited(cluster):
    cluster.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "sluice"}})
    try:
        with cleaned(cluster):
            cluster.apply(configmap(""), "sluice")
            cluster.install(f"--set=config.name={EDITED}")
            for one in cluster.nodes:
                cluster.wait_allocatable(one, 8)
            yield cluster
    finally:
        cluster.kubectl("delete", "configmap", EDITED, "-n", "sluice", "--ignore-not-found")


def starts(cluster):
    """Pod of the service -> how often each of its containers was started."""
    pods = cluster.get("pods", namespace="sluice", selector="app.kubernetes.io/name=sluice")
    return {pod["metadata"]["name"]: [one["restartCount"] for one in pod["status"]["containerStatuses"]] for pod in pods}


def test_an_edit_counts_without_a_restart(edited, node):
    """The kubelet brings the new text into the pod within a minute or so: doc/kubernetes.md. A GPU that a pod has whole is not
    shared out before that pod has ended."""
    edited.pod("held", node, gpus=2)
    edited.wait_phase("held", "Running")
    held, before = gpus_of(edited, "held"), starts(edited)

    edited.apply(sliced(), "sluice")
    edited.wait_allocatable(node, 24, seconds=150)
    for other in edited.nodes[1:]:
        edited.wait_allocatable(other, 32, seconds=150)
    # To the scheduler, what "held" has counts as two of the 24.
    edited.pod("parts", node, gpus=22)
    edited.wait_phase("parts", "Running")
    assert len(gpus_of(edited, "parts")) == 6 and not set(gpus_of(edited, "parts")) & set(held)
    edited.kubectl("delete", "pod", "parts", "--grace-period=1")

    edited.apply(sliced("renameByDefault: true, "), "sluice")
    edited.wait_allocatable(node, 24, "nvidia.com/gpu.shared", seconds=150)
    edited.wait_allocatable(node, 0)
    assert gpus_of(edited, "held") == held and edited.phase("held") == "Running"
    edited.kubectl("delete", "pod", "held", "--grace-period=1")
    edited.wait_allocatable(node, 32, "nvidia.com/gpu.shared", seconds=150)

    edited.apply(configmap(""), "sluice")
    edited.wait_allocatable(node, 8, seconds=150)
    edited.wait_allocatable(node, 0, "nvidia.com/gpu.shared")
    assert starts(edited) == before
