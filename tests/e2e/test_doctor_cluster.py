# SPDX-License-Identifier: Apache-2.0
"""`sluice doctor --cluster`: each thing that an API server can say of a cluster that is not well is named
by its check, and a cluster that is well has nothing to mend."""

import email.utils
import json
import os
import subprocess
import time

import pytest

from apiserver import ApiServer, Certificates
from conftest import BUILD, ROOT

if not os.path.exists(BUILD / "src" / "libexec" / "cluster" / "sluice-cluster"):
    pytest.skip("sluice-cluster was not built: libcurl is missing", allow_module_level=True)

APIS, SETS, NODES = "/apis", "/apis/apps/v1/daemonsets", "/api/v1/nodes"
NAMESPACE, EVENTS = "/api/v1/namespaces/gpus", "/api/v1/namespaces/gpus/events"
POLICIES, NIC_POLICIES = "/apis/nvidia.com/v1/clusterpolicies", "/apis/mellanox.com/v1alpha1/nicclusterpolicies"
REVIEWS = "/apis/authorization.k8s.io/v1/subjectaccessreviews"
TAGS = "/apis/image.openshift.io/v1/namespaces/openshift/imagestreams/driver-toolkit"
REFUSED = 'Error creating: pods "sluice-" is forbidden: unable to validate against any security context ' \
          'constraint: [provider "anyuid": Forbidden: not usable by user or serviceaccount]'
OSTREE = "feature.node.kubernetes.io/system-os_release.OSTREE_VERSION"


def groups(*names):
    return {"kind": "APIGroupList", "groups": [{"name": name} for name in ("apps", *names)]}


def items(*things, more=""):
    return {"kind": "List", "metadata": {"continue": more}, "items": list(things)}


def daemonset(name="sluice", namespace="gpus", image="registry.example/sluice:1", desired=2, ready=2, owner=None):
    return {"metadata": {"name": name, "namespace": namespace,
                         "labels": {"app.kubernetes.io/name": name} if name == "sluice" else {},
                         "ownerReferences": [{"kind": owner}] if owner else []},
            "spec": {"template": {"spec": {"serviceAccountName": "sluice", "containers": [{"image": image}]}}},
            "status": {"desiredNumberScheduled": desired, "numberReady": ready}}


def node(name, allocatable="8", **labels):
    return {"metadata": {"name": name, "labels": labels},
            "status": {"capacity": {"cpu": "96", "nvidia.com/gpu": "8", "rdma/shared_ib0": "100"},
                       "allocatable": {"cpu": "95", "nvidia.com/gpu": allocatable, "rdma/shared_ib0": "100"}}}


def well():
    return {APIS: groups(), SETS: items(daemonset(), daemonset("kube-proxy", image="registry.k8s.io/kube-proxy")),
            NODES: items(node("n1"), node("n2")),
            NAMESPACE: {"metadata": {"name": "gpus",
                                     "labels": {"pod-security.kubernetes.io/enforce": "privileged"}}}}


def openshift(allowed=True):
    namespace = {"metadata": {"name": "gpus", "labels": {
        "pod-security.kubernetes.io/enforce": "privileged",
        "security.openshift.io/scc.podSecurityLabelSync": "false"}}}
    return {**well(), APIS: groups("security.openshift.io", "image.openshift.io"), NAMESPACE: namespace,
            REVIEWS: {"status": {"allowed": allowed}}, TAGS: {"status": {"tags": [{"tag": "417.94.1"}]}},
            NODES: items(node("n1", **{OSTREE: "417.94.1"}))}


@pytest.fixture(name="certificates", scope="module")
def certificates_fixture(tmp_path_factory):
    return Certificates(tmp_path_factory.mktemp("certificates"))


@pytest.fixture(name="cluster")
def cluster_fixture(certificates, machine, tmp_path):
    server = ApiServer(certificates)
    server.objects = well()
    config = tmp_path / "config"
    config.write_text(json.dumps({
        "current-context": "c", "contexts": [{"name": "c", "context": {"cluster": "k", "user": "u"}}],
        "clusters": [{"name": "k", "cluster": {"server": f"https://127.0.0.1:{server.port}",
                                               "certificate-authority": certificates.path("ca.crt")}}],
        "users": [{"name": "u", "user": {"token": "t"}}]}))
    machine.path("/sys/bus/pci/devices").mkdir(parents=True)

    def ask(**objects):
        return machine.run("sluice", "doctor", "--cluster", "--kubeconfig", str(config), "-o", "json")
    ask.server, ask.machine, ask.config = server, machine, config
    yield ask
    server.stop()


def merge(base, over):
    return {**base, **{key: merge(base[key], value) if isinstance(value, dict) and isinstance(base.get(key), dict)
                       else value for key, value in over.items()}}


def marks(reply):
    return {(finding["id"], finding["status"]) for finding in reply.json["findings"]
            if finding["status"] in ("warn", "fail", "unknown")}


def finding_of(reply, check):
    return next(finding for finding in reply.json["findings"]
                if finding["id"] == check and finding["status"] in ("warn", "fail", "unknown"))


def test_well(cluster):
    cluster.server.date = email.utils.formatdate(time.time(), usegmt=True)
    reply = cluster()
    assert marks(reply) == set() and reply.rc == 0, reply
    assert {finding["id"] for finding in reply.json["findings"] if finding["status"] == "ok"} >= {
        "cluster.access", "time", "cluster.daemonset", "cluster.namespace", "cluster.nodes"}
    # reads, and asks nothing else
    assert {request.method for request in cluster.server.requests} == {"GET"}
    cluster.server.objects = openshift()
    reply = cluster()
    assert marks(reply) == set() and reply.rc == 0, reply
    review = [request for request in cluster.server.requests if request.method == "POST"]
    assert [request.path for request in review] == [REVIEWS]
    assert review[0].json["spec"]["user"] == "system:serviceaccount:gpus:sluice"
    assert review[0].json["spec"]["resourceAttributes"]["name"] == "privileged"


FAULTS = [
    ("a namespace that restricts", "cluster.namespace", "fail", {
        NAMESPACE: {"metadata": {"name": "gpus", "labels": {"pod-security.kubernetes.io/enforce": "baseline"}}}},
     "enforce=privileged"),
    ("no DaemonSet", "cluster.daemonset", "warn", {SETS: items(), "/api/v1/namespaces/sluice": well()[NAMESPACE]},
     "helm install"),
    # whose plugins are no rivals, and have to stay
    ("no DaemonSet beside another plugin", "cluster.daemonset", "warn", {
        SETS: items(daemonset("plugin", "kube-system", "nvcr.io/nvidia/k8s-device-plugin:v0.17")),
        APIS: groups("nvidia.com"), POLICIES: items({"metadata": {"name": "p"}, "spec": {}}),
        "/api/v1/namespaces/sluice": well()[NAMESPACE]}, "helm install"),
    ("pods that are not ready", "cluster.daemonset", "fail", {
        SETS: items(daemonset(ready=1)),
        EVENTS: items({"type": "Normal", "message": "old", "lastTimestamp": "2026-01-03T00:00:00Z"},
                      {"type": "Warning", "message": "newer", "lastTimestamp": "2026-01-02T00:00:00Z"},
                      {"type": "Warning", "message": "older", "lastTimestamp": "2026-01-01T00:00:00Z"})},
     "kubectl -n gpus describe daemonset sluice"),
    ("the GPU Operator's plugin", "cluster.operators", "warn", {
        APIS: groups("nvidia.com"),
        POLICIES: items({"metadata": {"name": "cluster-policy"},
                         "spec": {"gfd": {"enabled": False}}})},
     """kubectl patch clusterpolicy cluster-policy --type merge -p '{"spec":{"devicePlugin":{"enabled":false}}}'"""),
    ("the Network Operator's plugin", "cluster.operators", "warn", {
        APIS: groups("mellanox.com"),
        NIC_POLICIES: items({"metadata": {"name": "nic"}, "spec": {"rdmaSharedDevicePlugin": {"config": "{}"}}})},
     '"rdmaSharedDevicePlugin":null'),
    ("another device plugin", "cluster.plugins", "warn", {
        SETS: items(daemonset(), daemonset("plugin", "kube-system", "nvcr.io/nvidia/k8s-device-plugin:v0.17"))},
     "kubectl -n kube-system delete daemonset plugin"),
    ("a node with an unhealthy GPU", "cluster.nodes", "warn", {NODES: items(node("n1", "7"), node("n2"))},
     "kubectl describe node n1"),
    ("an account without the constraint", "openshift.scc", "fail", openshift(allowed=False),
     "oc adm policy add-scc-to-user privileged -z sluice -n gpus"),
    ("a release without a toolkit", "openshift.toolkit", "warn",
     {**openshift(), NODES: items(node("n1", **{OSTREE: "418.1"}))}, "driver-toolkit"),
    ("no right to list nodes", "cluster.access", "unknown", {NODES: 403}, None),
]


@pytest.mark.parametrize("name, check, status, objects, advice", FAULTS, ids=[row[0] for row in FAULTS])
def test_fault(cluster, name, check, status, objects, advice):
    cluster.server.objects.update(objects)
    reply = cluster()
    assert marks(reply) == {(check, status)}, reply
    finding = finding_of(reply, check)
    assert advice is None or advice in finding["do"], finding
    assert reply.rc == {"fail": 2, "warn": 1, "unknown": 0}[status]


def test_refused_by_openshift(cluster):
    cluster.server.objects = {**openshift(), SETS: items(daemonset(ready=0)),
                              EVENTS: items({"type": "Warning", "message": REFUSED})}
    finding = finding_of(cluster(), "cluster.daemonset")
    assert "security context constraint" in finding["need"]
    assert finding["do"] == "oc adm policy add-scc-to-user privileged -z sluice -n gpus"


def test_the_clock(cluster):
    for ahead, word in [(60, "behind"), (-60, "ahead of")]:
        cluster.server.date = email.utils.formatdate(time.time() + ahead, usegmt=True)
        reply = cluster()
        assert marks(reply) == {("time", "warn")} and word in finding_of(reply, "time")["found"]


def test_lists_in_parts(cluster):
    def part(request):
        first = "continue" not in request.query
        return items(node("n1" if first else "n2", "8" if first else "0"), more="abc_-1" if first else "")
    cluster.server.objects[NODES] = part
    finding = finding_of(cluster(), "cluster.nodes")
    assert finding["object"] == "node n2" and finding["found"].startswith("0 of 8")
    cluster.server.objects[NODES] = items(node("n1"), more="&fieldSelector=x")
    assert "does not end" in finding_of(cluster(), "cluster.access")["found"]


def migrate(cluster):
    return cluster.machine.run("sluice", "doctor", "--cluster", "--migrate", "--kubeconfig", str(cluster.config))


def check_with_chart(yaml, values):
    """Every key is one of the chart's, and with python3-jsonschema its schema is asked too."""
    chart = ROOT / "packaging" / "helm" / "sluice"
    known = yaml.safe_load((chart / "values.yaml").read_text())
    assert set(values) <= set(known)
    assert all(set(values[key]) <= set(known[key]) for key in ("config", "driver", "features"))
    try:
        import jsonschema
    except ImportError:
        return
    whole = merge(known, values)
    whole["image"]["repository"] = "registry.example/sluice"
    jsonschema.validate(whole, json.loads((chart / "values.schema.json").read_text()))


def test_migrate(cluster):
    """What is printed is a values file that our chart accepts."""
    yaml = pytest.importorskip("yaml")
    assert "neither a ClusterPolicy" in migrate(cluster).err
    cluster.server.objects.update({
        APIS: groups("nvidia.com", "mellanox.com"),
        POLICIES: items({"metadata": {"name": "p"}, "spec": {
            "mig": {"strategy": "mixed"}, "driver": {"enabled": True}, "gfd": {"enabled": False},
            "daemonsets": {"tolerations": [{"key": "a\n- b: 'c", "operator": "Exists"}],
                           "priorityClassName": "high"}}}),
        NIC_POLICIES: items({"metadata": {"name": "n"}, "spec": {"rdmaSharedDevicePlugin": {"config": "{}"}}})})
    reply = migrate(cluster).ok()
    values = yaml.safe_load(reply.out)
    assert values == {
        "image": {"repository": ""}, "driver": {"root": "/run/nvidia/driver"},
        "config": {"map": {"default": "version: v1\nflags:\n  migStrategy: mixed\n"}, "default": "default"},
        "features": {"labels": "none", "nodeLabel": True}, "priorityClassName": "high",
        "tolerations": [{"key": "a\n- b: 'c", "operator": "Exists"}], "rdma": {"configMap": "rdma-devices"}}
    check_with_chart(yaml, values)
    cluster.server.objects[POLICIES] = items({"metadata": {"name": "p"}, "spec": {
        "driver": {"enabled": False}, "devicePlugin": {"config": {"name": "plugins", "default": "any"}}}})
    values = yaml.safe_load(migrate(cluster).ok().out)
    assert values["config"] == {"name": "plugins", "default": "any"} and values["driver"] == {"root": "/"}
    assert values["features"] == {"labels": "file"}
    check_with_chart(yaml, values)


def test_hostile_server(cluster):
    deep = b"[" * 100000
    for path, body in [(NODES, deep), (NODES, b"<html>"), (SETS, {"items": 3}), (NODES, {"items": [7, {"status": 7}]}),
                       (SETS, items({"metadata": 3}, daemonset(name="x" * 100000)))]:
        cluster.server.objects = {**well(), path: body}
        reply = cluster()
        assert reply.rc in (0, 1, 2) and reply.json, reply
    # names become parts of commands
    cluster.server.objects = {**well(), NODES: items(node("n1; reboot", "7")), SETS: items(
        daemonset(), daemonset("$(id)", "a b", "nvcr.io/nvidia/k8s-device-plugin:v0.17"))}
    reply = cluster()
    assert finding_of(reply, "cluster.nodes")["do"] == "kubectl describe node ?"
    assert finding_of(reply, "cluster.plugins")["do"] == "kubectl -n ? delete daemonset ?"
    cluster.server.objects[APIS] = 401
    reply = cluster()
    assert reply.rc == 2 and "does not know who asks" in finding_of(reply, "cluster.access")["found"]
    cluster.server.stop()
    reply = cluster()
    assert reply.rc == 2 and marks(reply) == {("cluster.access", "fail")}


def test_the_token_is_in_no_report(cluster):
    """Also where a server repeats it, whole or cut."""
    token = "eyJhbGciOiJSUzI1NiJ9." + "0123456789" * 60
    cluster.config.write_text(cluster.config.read_text().replace('"t"', json.dumps(token)))
    cluster.server._object = lambda request: request.refuse(403, "you are " + request.headers["authorization"])
    reply = cluster()
    assert reply.rc == 2 and "403" in finding_of(reply, "cluster.access")["found"]
    assert token[:21] not in reply.out + reply.err


def test_which_cluster(cluster):
    def ask(*arguments, **environment):
        return cluster.machine.run("sluice", "doctor", "--cluster", "-o", "json", *arguments, env=environment)
    assert ask(KUBECONFIG=f"/nowhere:{cluster.config}").rc == 0
    assert "'/nowhere'" in finding_of(ask(KUBECONFIG="/nowhere:/neither"), "cluster.access")["found"]
    refused = ask("--namespace", "No Such", KUBECONFIG=str(cluster.config))
    assert refused.rc == 64 and "no namespace has such a name: 'No Such'" in refused.err


@pytest.mark.parametrize("arguments", [["--kubec", "/nowhere"], ["--name=x"], ["--nonsense"], ["more"]])
def test_options_of_the_program_are_written_whole(arguments):
    done = subprocess.run([BUILD / "src" / "libexec" / "cluster" / "sluice-cluster", *arguments], capture_output=True,
                          text=True, timeout=60, check=False)
    assert done.returncode == 64 and "usage: sluice-cluster" in done.stderr
