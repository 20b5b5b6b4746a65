# SPDX-License-Identifier: Apache-2.0
"""The cluster that is up, for the scenarios."""

import contextlib
import pathlib
import sys

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))

from cluster import Cluster  # noqa: E402
from place import Failure, wait  # noqa: E402

# The label by which a node chooses its configuration.
LABEL = "nvidia.com/device-plugin.config"
# Several configurations, of which the node's label chooses one.
CONFIGURATIONS = {
    "whole": "version: v1\nsluice: {labels: {mode: direct, onExit: remove}}\n",
    "shared": ("version: v1\nsharing: {timeSlicing: {resources: [{name: nvidia.com/gpu, replicas: 4}]}}\n"
               "sluice: {labels: {mode: direct, onExit: remove}}\n"),
}


@pytest.fixture(scope="session")
def cluster():
    found = Cluster()
    if not found.nodes:
        pytest.exit("no cluster is up; run tests/cluster/run up", returncode=1)
    return found


@pytest.fixture
def node(cluster):
    return cluster.nodes[0]


@pytest.fixture
def service(cluster):
    """The chart, installed; taken away afterwards with everything that the scenario made."""
    with cleaned(cluster):
        install(cluster)
        yield cluster


@contextlib.contextmanager
def cleaned(cluster):
    """Takes away at its end what the scenario made: its pods, labels of nodes, faults of GPUs, the chart. It does each of
    these steps whatever becomes of the others, and after an installation that failed as well."""
    with contextlib.ExitStack() as steps:
        steps.callback(cluster.uninstall)
        for one in cluster.nodes:
            steps.callback(one.sim, "heal")
            steps.callback(cluster.kubectl, "label", "node", one.name, f"{LABEL}-")
        steps.callback(cluster.clear)
        yield cluster


def install(cluster, *more):
    values = [f"--set-literal=config.map.{name}={text}" for name, text in CONFIGURATIONS.items()]
    cluster.install(*values, "--set=config.default=whole", "--set=events=true", *more)
    for one in cluster.nodes:
        cluster.wait_allocatable(one, 8)


def gpus_of(cluster, name):
    """The GPU nodes that a pod of a scenario sees, by its own `ls`."""
    return sorted(cluster.kubectl("exec", name, "--", "sh", "-c", "ls -d /dev/nvidia[0-9]*").split())


__all__ = ["Failure", "LABEL", "cleaned", "gpus_of", "install", "wait"]
