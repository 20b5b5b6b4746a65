# SPDX-License-Identifier: Apache-2.0
"""Labels in all three ways, with a node feature discovery that runs: by a file that nfd-worker reads, by NodeFeature
objects, applied to the node by the service. In each the node has the same labels, and after an uninstallation none."""

import threading
import time

import pytest

from conftest import cleaned, wait
from nfd import NAMESPACE, Discovery

TIMESTAMP = "nvidia.com/gfd.timestamp"


def configuration(way, replicas=1):
    sharing = f"sharing: {{timeSlicing: {{resources: [{{name: nvidia.com/gpu, replicas: {replicas}}}]}}}}\n" if replicas > 1 else ""
    return f"version: v1\n{sharing}sluice: {{labels: {{mode: {way}}}}}\n"


def install(cluster, way, replicas=1):
    cluster.install(f"--set-literal=config.map.default={configuration(way, replicas)}", "--set=features.labels=any")


def labels(cluster, node):
    found = cluster.get("node", node.name)["metadata"]["labels"]
    return {key: value for key, value in found.items() if key.startswith("nvidia.com/") and key != TIMESTAMP}


def printed(cluster, node, **more):
    """What the service itself says that the labels are."""
    lines = cluster.agent(node, "sluice", "labels", "--no-timestamp", "--config-file", "/config/default").splitlines()
    return dict(line.split("=", 1) for line in lines if line.startswith("nvidia.com/"))


def applied(cluster, node):
    """The labels that the service has applied itself, by the node's managedFields."""
    metadata = cluster.get_with_fields(node)["metadata"]
    found = set()
    for entry in metadata["managedFields"]:
        if entry["manager"].startswith("sluice") and entry["operation"] == "Apply":
            found |= {key[2:] for key in entry["fieldsV1"].get("f:metadata", {}).get("f:labels", {}) if key.startswith("f:")}
    return found


def feature_file(node):
    return node.run("sh", "-c", "cat /etc/kubernetes/node-feature-discovery/features.d/gfd 2>/dev/null || true")


class Gaps:
    """Whether the node is without one of `keys` at any moment, as often as the API server can be asked."""

    def __init__(self, cluster, node, keys):
        self.cluster, self.node, self.keys, self.gaps, self.looks = cluster, node, set(keys), [], 0
        self.over = threading.Event()
        self.thread = threading.Thread(target=self.watch, daemon=True)

    def watch(self):
        while not self.over.is_set():
            missing = self.keys - set(labels(self.cluster, self.node))
            self.looks += 1
            if missing:
                self.gaps.append((time.monotonic(), sorted(missing)))

    def __enter__(self):
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.over.set()
        self.thread.join()


@pytest.fixture
def discovery(cluster):
    found = Discovery(cluster)
    try:
        found.up()
        with cleaned(cluster):
            yield found
    finally:
        found.down()


def wait_labels(cluster, node, wanted, what):
    wait(lambda: f"{what}: the node has {sorted(set(labels(cluster, node).items()) ^ set(wanted.items()))} otherwise", 120,
         lambda: labels(cluster, node) == wanted, every=0.5)


def ways(cluster, node):
    """The ways that have left something, of all three."""
    found = {"file": feature_file(node), "nodefeature": cluster.get("nodefeatures.nfd.k8s-sigs.io", namespace="sluice"),
             "direct": applied(cluster, node)}
    return {way for way, what in found.items() if what}


def wait_only(cluster, node, way, seconds):
    """Nothing of the other two ways is left."""
    wait(lambda: f"labels by {way} alone, there are labels by {sorted(ways(cluster, node)) or 'no way'}; the service says: "
         f"{cluster.agent(node, 'sluice', 'agent', 'status')}", seconds, lambda: ways(cluster, node) == {way}, every=1)


def test_every_way_has_the_same_labels_and_leaves_none(cluster, node, discovery):
    install(cluster, "file")
    wait("labels of the file", 60, lambda: labels(cluster, node))
    wanted = printed(cluster, node)
    assert len(wanted) > 15 and wanted["nvidia.com/gpu.count"] == "8"
    wait_labels(cluster, node, wanted, "file")

    for way in ("nodefeature", "direct", "file", "direct", "nodefeature"):
        started = time.monotonic()
        with Gaps(cluster, node, wanted) as gaps:
            install(cluster, way)
            wait_only(cluster, node, way, 180)
        wait_labels(cluster, node, wanted, way)
        assert not gaps.gaps, f"{way}: {gaps.gaps[:3]}"
        print(f"labels: {way} after {time.monotonic() - started:.0f} s, {gaps.looks} looks, never without one of {len(wanted)}")

    # What is stale goes, in the way that holds now.
    install(cluster, "nodefeature", replicas=4)
    wait(lambda: f"shared: {labels(cluster, node)}", 120,
         lambda: labels(cluster, node).get("nvidia.com/gpu.replicas") == "4", every=1)
    wait_labels(cluster, node, printed(cluster, node), "shared")
    assert labels(cluster, node)["nvidia.com/gpu.product"].endswith("-SHARED")


@pytest.mark.parametrize("way", ["file", "nodefeature", "direct"])
def test_none_is_left_after_helm_uninstall(cluster, node, discovery, way):
    install(cluster, way)
    wait("labels", 90, lambda: labels(cluster, node), every=1)
    wait_only(cluster, node, way, 120)
    cluster.uninstall()
    for one in cluster.nodes:
        wait(lambda one=one: f"no label is left on {one.name}: {labels(cluster, one)}", 60, lambda one=one: not labels(cluster, one))
    assert not feature_file(node)
    assert not [name for name in discovery.features(NAMESPACE) if "nvidia" in name]
