# SPDX-License-Identifier: Apache-2.0
"""From NVIDIA's device plugin to the service and back, on a real kubelet, under pods that run: the plugin is NVIDIA's own
program, which finds the simulated GPUs by the simulated NVML."""

import copy

import images
import pytest

from conftest import cleaned, gpus_of, wait

LABEL = {"app": "nvidia-device-plugin"}
DAEMONSET = {
    "apiVersion": "apps/v1", "kind": "DaemonSet", "metadata": {"name": "nvidia-device-plugin", "namespace": "kube-system"},
    "spec": {
        "selector": {"matchLabels": LABEL},
        "template": {
            "metadata": {"labels": LABEL},
            "spec": {
                "priorityClassName": "system-node-critical", "terminationGracePeriodSeconds": 5,
                "automountServiceAccountToken": False,
                "containers": [{
                    "name": "plugin", "image": "localhost/nvidia-device-plugin:1", "imagePullPolicy": "Never",
                    "command": ["nvidia-device-plugin"],
                    # No runtime of NVIDIA's is on the node: the kubelet is told of the device nodes themselves.
                    "env": [{"name": "PASS_DEVICE_SPECS", "value": "true"}, {"name": "DEVICE_DISCOVERY_STRATEGY", "value": "nvml"},
                            {"name": "LD_LIBRARY_PATH", "value": "/run/nvidia/simlib"},
                            {"name": "SLUICE_SIM_STATE", "value": "/run/nvidia/sim.state"}],
                    "securityContext": {"privileged": True},
                    "volumeMounts": [
                        {"name": "plugins", "mountPath": "/var/lib/kubelet/device-plugins"},
                        {"name": "run", "mountPath": "/run/nvidia"}, {"name": "dev", "mountPath": "/dev"},
                        {"name": "libraries", "mountPath": "/usr/lib/x86_64-linux-gnu", "readOnly": True}]}],
                "volumes": [
                    {"name": "plugins", "hostPath": {"path": "/var/lib/kubelet/device-plugins"}},
                    {"name": "run", "hostPath": {"path": "/run/nvidia"}}, {"name": "dev", "hostPath": {"path": "/dev"}},
                    {"name": "libraries", "hostPath": {"path": "/usr/lib/x86_64-linux-gnu"}}]}}}}


# What both plugins read where GPUs are shared.
SHARED = "version: v1\nsharing: {timeSlicing: {resources: [{name: nvidia.com/gpu, replicas: 2}]}}\n"
CONFIGMAP = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "nvidia-config"}, "data": {"config.yaml": SHARED}}


def daemonset(shared):
    """Theirs, whose GPUs are shared as SHARED says, or whole."""
    made = copy.deepcopy(DAEMONSET)
    if shared:
        pod = made["spec"]["template"]["spec"]
        pod["containers"][0]["env"].append({"name": "CONFIG_FILE", "value": "/config/config.yaml"})
        pod["containers"][0]["volumeMounts"].append({"name": "config", "mountPath": "/config"})
        pod["volumes"].append({"name": "config", "configMap": {"name": CONFIGMAP["metadata"]["name"]}})
    return made


def plugin_pods(cluster):
    return cluster.get("pods", namespace="kube-system", selector="app=nvidia-device-plugin")


def start_theirs(cluster, shared=False):
    cluster.apply(CONFIGMAP, namespace="kube-system")
    cluster.apply(daemonset(shared), namespace="kube-system")
    wait(lambda: f"NVIDIA's plugin runs: {[pod['status'].get('phase') for pod in plugin_pods(cluster)]}", 60,
         lambda: [pod["status"].get("phase") for pod in plugin_pods(cluster)] == ["Running"] * len(cluster.nodes), every=0.5)
    for one in cluster.nodes:
        cluster.wait_allocatable(one, 16 if shared else 8)


def end_theirs(cluster):
    cluster.kubectl("delete", "daemonset", "nvidia-device-plugin", "-n", "kube-system", "--ignore-not-found",
                    "--cascade=foreground", timeout=120)
    cluster.kubectl("delete", "configmap", CONFIGMAP["metadata"]["name"], "-n", "kube-system", "--ignore-not-found")


@pytest.fixture
def loaded(cluster):
    """The nodes with NVIDIA's plugin as an image; whichever plugin a scenario starts is gone afterwards."""
    archive = images.make("nvidia")
    for one in cluster.nodes:
        one.load(archive)
    with cleaned(cluster):
        try:
            yield cluster
        finally:
            end_theirs(cluster)


@pytest.fixture
def theirs(loaded):
    """NVIDIA's plugin on every node."""
    start_theirs(loaded)
    return loaded


def resources(cluster, node):
    """What the kubelet has to give that is NVIDIA's: name -> number."""
    found = cluster.get("node", node.name)["status"]["allocatable"]
    return {name: count for name, count in found.items() if name.startswith("nvidia.com/")}


def holders(cluster, names):
    """GPU -> the pods that see it."""
    found = {}
    for name in names:
        for gpu in gpus_of(cluster, name):
            found.setdefault(gpu, []).append(name)
    return found


def nobody_has_one_twice(cluster, names, count):
    held = holders(cluster, names)
    assert all(len(pods) == 1 for pods in held.values()) and len(held) == count, held
    return held


def full(cluster, name):
    """One more pod with a GPU is not admitted."""
    def is_unschedulable():
        conditions = cluster.get("pod", name)["status"].get("conditions", [])
        return any(one["type"] == "PodScheduled" and one["status"] == "False" for one in conditions)
    wait(f"{name} finds no GPU", 20, is_unschedulable)
    cluster.kubectl("delete", "pod", name, "--grace-period=0", "--force")


def restarts(cluster, name):
    return sum(one["restartCount"] for one in cluster.get("pod", name)["status"].get("containerStatuses", []))


def test_to_us_and_back_under_running_pods(theirs, node):
    before = resources(theirs, node)
    assert before == {"nvidia.com/gpu": "8"}
    theirs.pod("theirs", node, gpus=3)
    theirs.wait_phase("theirs", "Running")
    held = gpus_of(theirs, "theirs")
    assert len(held) == 3

    end_theirs(theirs)
    theirs.pod("between", node, gpus=1)
    theirs.install()
    theirs.wait_allocatable(node, 8)
    assert resources(theirs, node) == before
    theirs.pod("ours", node, gpus=4)
    theirs.wait_phase("ours", "Running")
    # A pod that was bound in between may have been refused for want of a plugin; the guide says so.
    theirs.wait_phase("between", "Running", "Failed")
    names = ["theirs", "ours"] + (["between"] if theirs.phase("between") == "Running" else [])
    if len(names) == 2:
        assert theirs.get("pod", "between")["status"]["reason"] == "UnexpectedAdmissionError"
    count = nobody_has_one_twice(theirs, names, 8 if "between" in names else 7)
    print(f"migration: to the service, {count}; the pod in between: {theirs.phase('between')}")
    if "between" in names:
        theirs.pod("ninth", node)
        full(theirs, "ninth")
    assert gpus_of(theirs, "theirs") == held and theirs.phase("theirs") == "Running" and restarts(theirs, "theirs") == 0

    theirs.uninstall()
    start_theirs(theirs)
    assert resources(theirs, node) == before
    nobody_has_one_twice(theirs, names, 8 if "between" in names else 7)
    theirs.kubectl("delete", "pod", "ours", "--grace-period=1")
    theirs.pod("again", node, gpus=4)
    theirs.wait_phase("again", "Running")
    nobody_has_one_twice(theirs, [name for name in names if name != "ours"] + ["again"], 8 if "between" in names else 7)
    assert gpus_of(theirs, "theirs") == held and restarts(theirs, "theirs") == 0


def test_both_at_once(theirs, node):
    """As a rolling update has them for a moment: the older one's end takes nothing from the newer one for good."""
    theirs.pod("held", node, gpus=3)
    theirs.wait_phase("held", "Running")
    held = gpus_of(theirs, "held")
    theirs.install()
    end_theirs(theirs)
    theirs.wait_allocatable(node, 8)
    theirs.pod("more", node, gpus=5)
    theirs.wait_phase("more", "Running", seconds=90)
    nobody_has_one_twice(theirs, ["held", "more"], 8)
    assert gpus_of(theirs, "held") == held


def promised(cluster, node, names):
    """Pod -> the shares that the kubelet has given to it; no share is given to two."""
    given = node.promised()
    found = {name: set(given[cluster.get("pod", name)["metadata"]["uid"]]) for name in names}
    assert len(set().union(*found.values())) == sum(map(len, found.values())), found
    return found


def test_shared_gpus_to_us_and_back(loaded, node):
    """The same text of sharing for both plugins: a pod keeps its share, and all others are to be had."""
    start_theirs(loaded, shared=True)
    some = [f"share-{number}" for number in range(3)]
    for name in some:
        loaded.pod(name, node)
    for name in some:
        loaded.wait_phase(name, "Running")
    before, held = resources(loaded, node), {name: gpus_of(loaded, name) for name in some}
    shares = promised(loaded, node, some)
    assert before == {"nvidia.com/gpu": "16"}

    end_theirs(loaded)
    loaded.install(f"--set-literal=config.map.default={SHARED}")
    loaded.wait_allocatable(node, 16)
    loaded.pod("ours", node, gpus=13)
    loaded.wait_phase("ours", "Running")
    loaded.pod("one-more", node)
    full(loaded, "one-more")
    assert resources(loaded, node) == before and len(promised(loaded, node, [*some, "ours"])["ours"]) == 13

    loaded.uninstall()
    start_theirs(loaded, shared=True)
    loaded.kubectl("delete", "pod", "ours", "--grace-period=1")
    loaded.pod("again", node, gpus=13)
    loaded.wait_phase("again", "Running")
    assert resources(loaded, node) == before
    found = promised(loaded, node, [*some, "again"])
    assert {name: found[name] for name in some} == shares and {name: gpus_of(loaded, name) for name in some} == held
    assert all(restarts(loaded, name) == 0 for name in some)
