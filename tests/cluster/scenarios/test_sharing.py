# SPDX-License-Identifier: Apache-2.0
"""Time-slicing from a ConfigMap, chosen by the node's label, while pods run."""

from conftest import gpus_of

LABEL = "nvidia.com/device-plugin.config"


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
