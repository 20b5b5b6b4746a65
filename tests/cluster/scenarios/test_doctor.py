# SPDX-License-Identifier: Apache-2.0
"""`sluice doctor --cluster`, from outside the cluster's pods, of the real API server: nothing to mend where all is well, and
each made fault by its check, with the command that leads to it."""

import json
import subprocess

import pytest

from conftest import wait
from place import PKI, SLUICE

RIVAL = {"apiVersion": "apps/v1", "kind": "DaemonSet", "metadata": {"name": "rival", "namespace": "kube-system"},
         "spec": {"selector": {"matchLabels": {"app": "rival"}}, "template": {
             "metadata": {"labels": {"app": "rival"}},
             "spec": {"containers": [{"name": "plugin", "image": "nvcr.io/nvidia/k8s-device-plugin:v0.17.1",
                                      "imagePullPolicy": "Never"}]}}}}


def doctor(cluster):
    """(Exit status, {check: finding} of what is not well, all checks that are)."""
    done = subprocess.run(cluster.control.inside(str(SLUICE), "doctor", "--cluster", "--kubeconfig", str(PKI / "admin.conf"),
                                                 "--output", "json"), capture_output=True, text=True, timeout=60, check=False)
    findings = json.loads(done.stdout)["findings"]
    bad = {one["id"]: one for one in findings if one["status"] in ("warn", "fail", "unknown")}
    return done.returncode, bad, {one["id"] for one in findings if one["status"] == "ok"}


def test_well(service):
    status, bad, good = doctor(service)
    assert (status, bad) == (0, {})
    assert good >= {"cluster.access", "time", "cluster.daemonset", "cluster.namespace", "cluster.nodes"}


def test_a_node_with_a_lost_gpu(service, node):
    node.sim("inject", "xid", "79", "--gpu", "2")
    service.wait_allocatable(node, 7)
    status, bad, _ = doctor(service)
    assert (status, set(bad)) == (1, {"cluster.nodes"})
    assert f"kubectl describe node {node.name}" in bad["cluster.nodes"]["do"], bad
    node.sim("heal")
    node.sim("reset-gpu", "--gpu", "2")
    service.agent(node, "sluice", "health", "clear", "2")
    service.wait_allocatable(node, 8)
    assert doctor(service)[:2] == (0, {})


@pytest.fixture
def rival(service):
    service.apply(RIVAL, "kube-system")
    wait("the rival's pods", 60,
         lambda: service.get("daemonset", "rival", namespace="kube-system")["status"].get("desiredNumberScheduled", 0) > 0)
    yield
    service.kubectl("delete", "daemonset", "rival", "-n", "kube-system")


def test_another_device_plugin(service, rival):
    status, bad, _ = doctor(service)
    assert (status, set(bad)) == (1, {"cluster.plugins"})
    assert "kubectl -n kube-system delete daemonset rival" in bad["cluster.plugins"]["do"], bad


def test_a_namespace_that_restricts(service):
    service.kubectl("label", "namespace", "sluice", "pod-security.kubernetes.io/enforce=baseline", "--overwrite")
    try:
        status, bad, _ = doctor(service)
        assert (status, set(bad)) == (2, {"cluster.namespace"})
        assert "enforce=privileged" in bad["cluster.namespace"]["do"], bad
    finally:
        service.kubectl("label", "namespace", "sluice", "pod-security.kubernetes.io/enforce-")
