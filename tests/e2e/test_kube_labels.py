# SPDX-License-Identifier: Apache-2.0
"""Labels through the cluster's API: sluice-kube alone, against an API server that does what it should not, and the
whole agent from one way to another, with a stand-in for nfd-master that takes away what nobody says any more."""

import json
import pathlib
import time

import pytest

import test_kube
from apiserver import NODE, NFD, TRACKED, Discovery
from conftest import DEADLINE_S, wait_until
from test_kube import certificates, fields, kubeconfig, rig, text_field, varint  # noqa: F401

WAYS = {"none": 0, "file": 1, "nodefeature": 2, "direct": 3, "auto": 4}
OBJECT = f"{NFD}/namespaces/default/nodefeatures/nvidia-features-for-{NODE}"
SET = {"nvidia.com/gpu.count": "8", "nvidia.com/gpu.product": "Tesla-T4", "nvidia.com/cuda.driver.rev": ""}
OWN = {"feature.node.kubernetes.io/pci-10de.present": "true"}


def pair(number, key, value):
    inner = text_field(1, key) + text_field(2, value)
    return varint(number << 3 | 2) + varint(len(inner)) + inner


class Publisher(test_kube.Kube):
    def __init__(self, *arguments, **how):
        self.published = []
        super().__init__(*arguments, **how)

    def heard(self, inner):
        self.published.append({
            "way": inner.get(1, 0), "written": bool(inner.get(2)), "on_node": bool(inner.get(3)),
            "ends": bool(inner.get(4)), "problem": inner.get(5, b"").decode()})

    def publish(self, way, labels=None, direct=None, previous="none", namespace="", pod="", until_end=False):
        body = varint(1 << 3) + varint(WAYS[way]) + varint(2 << 3) + varint(WAYS[previous])
        body += text_field(3, namespace) + text_field(4, pod)
        body += b"".join(pair(5, *item) for item in (SET if labels is None else labels).items())
        body += b"".join(pair(6, *item) for item in (direct or {}).items())
        body += (varint(7 << 3) + b"\x01") if until_end else b""
        self.ours.send(varint(2 << 3 | 2) + varint(len(body)) + body)

    def told(self, words):
        """Once it was said, whatever was said since."""
        wait_until(lambda: any(words in state["problem"] for state in self.published),
                   what=f"{words!r} in {self.published}")

    def state(self, **want):
        want = {key: WAYS[value] if key == "way" else value for key, value in want.items()}
        wait_until(lambda: self.published and all(
            want[key] in value if key == "problem" and want[key] else want[key] == value
            for key, value in self.published[-1].items() if key in want),
            what=f"{want} after {self.published}")
        return self.published[-1]


@pytest.fixture
def made(rig, monkeypatch):
    """A server, and start() of a publisher whose minute is short."""
    monkeypatch.setattr(test_kube, "Kube", Publisher)
    rig.publishing = rig.server()
    rig.begin = lambda minute=600: rig.kube(rig.publishing, "--minute-ms", str(minute))
    return rig


def spec(server, path=OBJECT):
    found = server.features.get(path)
    return found and found["spec"]["labels"]


# --- NodeFeature ----------------------------------------------------------------------------------


def test_a_node_feature_and_its_changes(made):
    server = made.publishing
    Discovery(server)
    kube = made.begin()
    kube.publish("nodefeature", direct=OWN, pod="sluice-x7")
    kube.state(way="nodefeature", written=True, on_node=True, ends=True, problem="")
    thing = server.features[OBJECT]
    assert thing["spec"] == {"labels": SET, "features": {"flags": {}, "attributes": {}, "instances": {}}}
    assert thing["kind"] == "NodeFeature" and thing["apiVersion"] == "nfd.k8s-sigs.io/v1alpha1"
    assert thing["metadata"]["labels"] == {"nfd.node.kubernetes.io/node-name": NODE}
    assert thing["metadata"]["ownerReferences"] == [
        {"apiVersion": "apps/v1", "kind": "DaemonSet", "name": "sluice", "uid": "set-uid", "controller": True},
        {"apiVersion": "v1", "kind": "Pod", "name": "sluice-x7", "uid": "pod-uid"}]
    [created] = server.of("post feature")
    assert not server.of("put feature")
    changed = {**SET, "nvidia.com/gpu.count": "7"}
    kube.publish("nodefeature", labels=changed, direct=OWN, pod="sluice-x7")
    [put] = server.wait_for("put feature")
    assert put.time - created.time >= 0.59  # a write each minute at most
    assert spec(server) == changed and put.json["metadata"]["ownerReferences"]
    kube.publish("nodefeature", labels=changed, direct=OWN, pod="sluice-x7")
    kube.end()
    assert len(server.of("put feature", "post feature")) == 2 and spec(server) == changed


def test_what_is_right_already_is_not_written(made):
    server = made.publishing
    Discovery(server)
    server.put_feature(OBJECT, {"kind": "NodeFeature", "metadata": {
        "name": f"nvidia-features-for-{NODE}", "labels": {"nfd.node.kubernetes.io/node-name": NODE}},
        "spec": {"labels": dict(SET)}})
    kube = made.begin()
    kube.publish("nodefeature")
    kube.state(written=True, on_node=True)
    assert not server.of("post feature", "put feature")


def test_one_that_somebody_else_has_just_made(made):
    """409 on both: it is read again."""
    server = made.publishing
    Discovery(server)
    other = {"kind": "NodeFeature", "metadata": {"name": "x", "labels": {}}, "spec": {"labels": {"a.b/c": "d"}}}
    server.plan("post feature", lambda request: (server.put_feature(OBJECT, other),
                                                 request.refuse(409, "already exists")))
    server.plan("put feature", lambda request: request.refuse(409, "the object has been modified"))
    kube = made.begin()
    kube.publish("nodefeature")
    kube.state(written=True)
    assert spec(server) == SET and len(server.of("put feature")) == 2
    assert not any(state["problem"] for state in kube.published)


@pytest.mark.parametrize("status, words", [(401, "expired"), (403, "create of nodefeatures"), (429, "asked too much"),
                                           (500, "500 when asked to create"), (422, "422")])
def test_a_refusal(made, status, words):
    server = made.publishing
    server.plan("post feature", lambda request: request.refuse(status, "no", Retry_After=1))
    kube = made.begin()
    kube.publish("nodefeature")
    kube.told(words)
    kube.state(written=True, problem="")
    first, second = [request.time for request in server.of("post feature")]
    assert second - first >= (0.99 if status == 429 else 0)


def test_a_server_that_does_not_answer(made):
    server = made.publishing
    Discovery(server)
    server.plan("get feature", lambda request: False, lambda request: (request.send(b"HTTP/1.1 200 OK\r\n"), False)[1],
                lambda request: request.reply(200, b"[[" * 200), lambda request: request.reply(200, b"7"))
    kube = made.begin()
    kube.publish("nodefeature")
    kube.told("cannot be asked")
    kube.told("sends what is no object")
    kube.state(written=True, problem="")


def test_without_node_feature_discovery(made):
    made.publishing.has_nfd = False
    kube = made.begin()
    kube.publish("nodefeature")
    kube.told("is node feature discovery installed?")
    made.publishing.has_nfd = True
    kube.state(written=True, problem="")


def test_labels_that_do_not_arrive(made):
    server = made.publishing
    kube = made.begin()
    kube.publish("nodefeature")
    kube.state(written=True, on_node=False, problem="not on the node after 2 minutes")
    Discovery(server).reconcile()
    kube.state(on_node=True, problem="")


def test_drift_and_another_writer(made):
    """What somebody changes is mended once; who does it again at once is not fought."""
    server = made.publishing
    kube = made.begin(200)
    kube.publish("direct", direct=OWN)
    kube.state(written=True, on_node=True)
    server.relabel({**server.labels, "nvidia.com/gpu.count": "1"})
    wait_until(lambda: server.labels["nvidia.com/gpu.count"] == "8")
    server.relabel({**server.labels, "nvidia.com/gpu.count": "1"})
    kube.state(problem="another label source")
    count = len(server.requests)
    time.sleep(0.5)  # nothing happens, and that takes time
    assert server.labels["nvidia.com/gpu.count"] == "1" and len(server.requests) == count
    kube.publish("direct", labels={**SET, "nvidia.com/gpu.count": "2"}, direct=OWN)
    kube.state(problem="")
    wait_until(lambda: server.labels["nvidia.com/gpu.count"] == "2")


def test_how_much_is_asked_when_nothing_happens(made):
    """A look each ten minutes, give or take two."""
    server = made.publishing
    Discovery(server)
    kube = made.begin(60)
    kube.publish("nodefeature")
    kube.state(written=True, on_node=True)
    looks = server.wait_for("get feature", 5)[-4:]
    gaps = [b.time - a.time for a, b in zip(looks, looks[1:])]
    assert all(0.47 <= gap <= 0.9 for gap in gaps), gaps
    assert not server.of("put feature") and len(server.of("get node")) <= 2


def test_what_it_takes(made):
    """The gate of the design, with the labels of a node with MIG and sharing, as a NodeFeature and on the Node."""
    server = made.publishing
    Discovery(server)
    kube = made.begin(200)
    labels = {f"nvidia.com/mig-{i}g.10gb.engines.decoder": "1" * 60 for i in range(300)}
    for way, previous in (("nodefeature", "none"), ("direct", "nodefeature")):
        kube.publish(way, labels=labels, previous=previous)
        kube.state(way=way, on_node=True, ends=True)
    path = pathlib.Path(f"/proc/{kube.process.pid}/smaps_rollup")

    def pss():
        return next(int(line.split()[1]) * 1024 / 1e6 for line in path.read_text(encoding="utf-8").splitlines()
                    if line.startswith("Pss:"))

    wait_until(lambda: pss() <= 9, what="a PSS of 9 MB")
    print(f"\ngate kube_pss {pss():.2f} MB <= 9 ok")


# --- applied to the Node --------------------------------------------------------------------------


def test_applied_to_the_node(made):
    server = made.publishing
    server.change(other="kept")
    kube = made.begin(100)
    kube.publish("direct", direct=OWN)
    kube.state(way="direct", written=True, on_node=True, ends=True, problem="")
    assert server.labels == {"other": "kept", **SET, **OWN}
    # What is not ours any more is taken away by the server; what is somebody else's stays.
    kube.publish("direct", labels={"nvidia.com/gpu.count": "8"}, direct=OWN)
    wait_until(lambda: server.labels == {"other": "kept", "nvidia.com/gpu.count": "8", **OWN})
    kube.publish("none", labels={}, previous="direct")
    wait_until(lambda: server.labels == {"other": "kept"})


def test_withdrawn_at_the_end(made):
    server = made.publishing
    kube = made.begin()
    kube.publish("direct", until_end=True)
    kube.state(written=True)
    kube.end()
    assert not server.labels
    kube = made.begin()
    kube.publish("nodefeature", until_end=True)
    kube.state(written=True)
    kube.end()
    assert not server.features


def test_auto(made):
    """NFD, when it does what it should; else the node itself."""
    server = made.publishing
    Discovery(server)
    kube = made.begin()
    kube.publish("auto", direct=OWN)
    kube.state(way="nodefeature", on_node=True)
    kube.end()
    assert not server.of("patch node")


def test_auto_without_discovery(made):
    made.publishing.has_nfd = False
    kube = made.begin()
    kube.publish("auto", direct=OWN)
    kube.state(way="direct", on_node=True, problem="")
    assert made.publishing.labels == {**SET, **OWN}


def test_auto_without_its_rights(made):
    made.publishing.plan("get feature", lambda request: request.refuse(403, "no"))
    kube = made.begin()
    kube.publish("auto", direct=OWN)
    kube.state(way="direct", on_node=True, problem="")


def test_auto_with_a_discovery_that_does_nothing(made):
    server = made.publishing
    kube = made.begin(200)
    kube.publish("auto", direct=OWN)
    kube.state(way="direct", on_node=True, ends=True, problem="")
    assert not server.features and server.labels == {**SET, **OWN}


@pytest.mark.parametrize("wrong, words", [({"namespace": "No Name"}, "No Name"), ({"pod": "../x"}, "../x")])
def test_names_that_are_none(made, wrong, words):
    kube = made.begin()
    kube.publish("nodefeature", **wrong)
    kube.state(problem=words)
    assert not made.publishing.of("get feature")


# --- from one way to another ----------------------------------------------------------------------


@pytest.mark.parametrize("one, two", [("nodefeature", "direct"), ("direct", "nodefeature")])
def test_no_moment_without_labels(made, one, two):
    server = made.publishing
    Discovery(server)
    kube = made.begin(300)
    kube.publish(one)
    kube.state(way=one, on_node=True)
    server.expected = set(SET)
    kube.publish(two, previous=one)
    kube.state(way=two, on_node=True, ends=True, problem="")
    server.discovery.reconcile()
    assert not server.gaps and set(SET) <= set(server.labels)
    if two == "direct":
        assert not server.features and server.applied == SET
        assert not server.annotations.get(TRACKED)
    else:
        assert spec(server) == SET and not server.applied
        # They are nfd-master's now, and go with their source.
        server.expected = set()
        kube.publish("none", labels={}, previous=two)
        wait_until(lambda: not set(SET) & set(server.labels))


def test_without_discovery_nothing_of_it_stays(made):
    """It has gone, and left its list of labels: what was on it is ours, and an empty list is no list."""
    server = made.publishing
    server.relabel(SET)
    server.annotations[TRACKED] = ",".join(sorted(SET))
    kube = made.begin(200)
    kube.publish("direct", previous="nodefeature")
    kube.state(way="direct", on_node=True, ends=True)
    assert server.applied == SET and TRACKED not in server.annotations


def test_a_discovery_that_does_not_take_over(made):
    """The labels that are there stay there."""
    server = made.publishing
    kube = made.begin(100)
    kube.publish("direct")
    kube.state(on_node=True)
    kube.publish("nodefeature", previous="direct")
    kube.state(written=True, ends=False, problem="does not put the labels on the node")
    assert set(SET) <= set(server.labels)


# --- the whole agent ------------------------------------------------------------------------------

DIRECTORY = "/etc/kubernetes/node-feature-discovery/features.d"


@pytest.fixture
def node(rig, machine):
    machine.start("t4x4", "--dev-style", "file")
    machine.server = rig.server()
    machine.features = machine.path(DIRECTORY)
    machine.features.mkdir(parents=True)
    machine.config = machine.directory / "config.yaml"
    path = rig.directory / "kubeconfig"
    path.write_text(json.dumps(kubeconfig(machine.server, {"tokenFile": "token"},
                                          **{"certificate-authority": "ca.crt"})))
    program = machine.directory / "sluice-kube"  # whose minute is short
    program.write_text(f'#!/bin/sh\nexec {test_kube.PROGRAM} --minute-ms 500 "$@"\n')
    program.chmod(0o755)
    machine.env.pop("KUBERNETES_SERVICE_HOST", None)
    machine.env["SLUICE_KUBE"] = str(program)

    def mode(text):
        new = machine.config.with_suffix(".new")
        new.write_text(f"version: v1\nflags: {{gfd: {{sleepInterval: 300ms, noTimestamp: true}}}}\n"
                       f"sluice: {{labels: {{mode: {text}}}}}\n")
        new.rename(machine.config)

    def begin(*options):
        machine.agent("--node-name", NODE, "--kubeconfig", path, "--config", machine.config, *options)

    machine.mode, machine.begin, machine.kubeconfig = mode, begin, path
    yield machine
    if machine.server.discovery:
        machine.server.discovery.over.set()


def status(machine):
    reply = machine.run("sluice", "agent", "status", "--output", "json").ok().json["labels"]
    return reply["state"], reply["reason"] or ""


def is_settled(machine, way):
    last = machine.state_dir / "labels"
    return last.exists() and last.read_text().startswith(way)


def test_every_way_and_back(node):
    """File, NodeFeature, Node and again: the labels never leave the node, and only one way is left."""
    server = node.server
    server.change(other="kept")
    Discovery(server, node.features)
    node.mode("file")
    node.begin()
    wait_until(lambda: server.labels.get("nvidia.com/gpu.count") == "4")
    printed = node.run("sluice", "labels", "--no-timestamp").ok().out.split()
    keys = {line.partition("=")[0] for line in printed}
    server.expected = keys
    for way in ("nodefeature", "direct", "file", "direct", "nodefeature", "file"):
        node.mode(way)
        wait_until(lambda: is_settled(node, way), what=f"{way}: {status(node)}")
        wait_until(lambda: status(node)[0] == "kept")
        assert (node.features / "gfd").exists() == (way == "file")
        wait_until(lambda: bool(server.features) == (way == "nodefeature"))
        assert bool(server.applied) == (way == "direct"), way
    assert not server.gaps, server.gaps
    assert server.labels["other"] == "kept" and "feature.node.kubernetes.io/pci-10de.present" not in server.labels


def test_the_way_is_remembered_over_a_restart(node):
    server = node.server
    Discovery(server, node.features)
    node.mode("file")
    node.begin()
    wait_until(lambda: server.labels.get("nvidia.com/gpu.count") == "4")
    wait_until(lambda: is_settled(node, "file"))
    server.expected = {key for key in server.labels if key.startswith("nvidia.com/")}
    node.service.terminate()
    assert node.service.wait(timeout=DEADLINE_S) == 0
    node.mode("direct")
    node.begin()
    wait_until(lambda: is_settled(node, "direct") and not (node.features / "gfd").exists())
    server.discovery.reconcile()
    assert not server.gaps
    assert status(node) == ("kept", f"{len(server.expected)} applied to the node")
    assert server.labels["feature.node.kubernetes.io/pci-0302_10de.present"] == "true"


def test_what_is_missing_is_said(node):
    node.mode("direct")
    node.server.plan("patch node", *[lambda request: request.refuse(403, "nodes is forbidden")] * 3)
    node.begin()
    wait_until(lambda: status(node)[0] == "failed" and "patch of nodes" in status(node)[1])
    wait_until(lambda: status(node)[0] == "kept")


def test_what_was_applied_goes_with_an_uninstallation(node):
    """Also when the service ended without taking it away, and another's label stays."""
    server = node.server
    server.change(other="kept")
    node.mode("direct")
    node.begin()
    wait_until(lambda: is_settled(node, "direct") and server.labels.get("nvidia.com/gpu.count") == "4")
    cleanup = ["sluice", "agent", "--cleanup", "--state-dir", node.state_dir, "--runtime-dir", node.runtime_dir,
               "--node-name", NODE, "--kubeconfig", node.kubeconfig]
    refused = node.run(*cleanup)
    assert refused.rc == 75 and server.labels.get("nvidia.com/gpu.count") == "4", refused
    node.service.terminate()
    assert node.service.wait(timeout=DEADLINE_S) == 0 and server.labels.get("nvidia.com/gpu.count") == "4"

    server.plan("patch node", lambda request: request.refuse(503, "later"))
    said = node.run(*cleanup).ok().out
    assert "labels that were applied to the node" in said
    assert server.labels == {"other": "kept"} and not server.applied


def test_without_a_name(machine):
    machine.start("t4x1")
    machine.config = machine.directory / "config.yaml"
    machine.config.write_text("sluice: {labels: {mode: nodefeature}}\n")
    machine.agent("--config", machine.config)
    wait_until(lambda: status(machine)[0] == "failed" and "required flag node-name not set" in status(machine)[1])
