# SPDX-License-Identifier: Apache-2.0
"""What the service may do of the cluster's API and where its pods may run, as the API server itself says it: rights of
the account, the admission policy with tokens that name their node, namespaces that enforce pod security."""

import json

import pytest

from cluster import CHART
from conftest import Failure, cleaned, wait
from place import HERE, PKI
from programs import program
from space import NETWORK

ACCOUNT = "sluice"
VERBS = ("get", "list", "watch", "create", "update", "patch", "delete", "deletecollection")
NODES, PODS = ("", "nodes"), ("", "pods")
FEATURES = ("nfd.k8s-sigs.io", "nodefeatures")
# features.labels, more of helm's arguments, and what follows from them: namespace ("*": all), resource, verbs.
RIGHTS = {
    "none": (["--set=features.labels=file"], {}),
    "label of the node": (["--set=features.labels=file,features.nodeLabel=true"], {("*", NODES): {"list", "watch"}}),
    "nodefeature": (["--set=features.labels=nodefeature"], {
        ("*", NODES): {"get", "list", "watch"}, ("sluice", PODS): {"get"},
        ("sluice", FEATURES): {"create", "delete", "get", "update"}}),
    "direct": (["--set=features.labels=direct"], {("*", NODES): {"get", "list", "patch", "watch"}}),
    "everything": (["--set=features.labels=any,features.nodeLabel=true,events=true"], {
        ("*", NODES): {"get", "list", "patch", "watch"}, ("sluice", PODS): {"get"},
        ("sluice", FEATURES): {"create", "delete", "get", "update"}, ("default", ("", "events")): {"create", "patch"}}),
}


def as_token(cluster, token, *arguments, **options):
    """kubectl as whoever has the token."""
    return cluster.control.run(program("kubectl"), "--kubeconfig=/dev/null", f"--server=https://{NETWORK}.1:443",
                               f"--certificate-authority={PKI}/ca.crt", f"--token={token}", *arguments, **options)


def token_of(cluster, node=None, account=ACCOUNT):
    """A token of the account: of its pod on a node, as the kubelet gives it to that, or of no pod."""
    bound = []
    if node:
        pods = cluster.get("pods", namespace="sluice", selector="app.kubernetes.io/name=sluice")
        name = next(pod["metadata"]["name"] for pod in pods if pod["spec"].get("nodeName") == node.name)
        bound = ["--bound-object-kind=Pod", f"--bound-object-name={name}"]
    return cluster.kubectl("create", "token", account, "-n", "sluice", *bound).strip()


def rights(cluster, token, namespace):
    """(group, resource) -> verbs, by the server's own rules for the token."""
    asked = {"apiVersion": "authorization.k8s.io/v1", "kind": "SelfSubjectRulesReview", "spec": {"namespace": namespace}}
    reply = json.loads(as_token(cluster, token, "create", "--validate=false", "-f", "-", "-o", "json", input=json.dumps(asked)))
    found = {}
    for rule in reply["status"]["resourceRules"]:
        assert "*" not in rule["verbs"] + rule["resources"] + rule["apiGroups"], rule
        for group in rule["apiGroups"]:
            for resource in rule["resources"]:
                found.setdefault((group, resource), set()).update(rule["verbs"])
    return found


@pytest.fixture
def chart(cluster):
    with cleaned(cluster):
        yield cluster


def test_the_account_may_exactly_what_its_roles_say(chart, node):
    for name, (arguments, wanted) in RIGHTS.items():
        chart.install(*arguments)
        chart.apply({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "nobody"}}, namespace="sluice")
        token, nobody = token_of(chart, node), token_of(chart, account="nobody")
        for namespace in ("sluice", "default", "kube-system"):
            everybody = rights(chart, nobody, namespace)
            given = {key: verbs for key, verbs in rights(chart, token, namespace).items() if everybody.get(key) != verbs}
            here = {resource: verbs for (where, resource), verbs in wanted.items() if where in ("*", namespace)}
            assert given == here, f"{name}, in {namespace}"
        # The same by single questions, of what would hurt most.
        for verb, *what in (("get", "secrets"), ("create", "pods"), ("create", "pods", "--subresource=exec"), ("update", "nodes"),
                            ("delete", "nodes"), ("patch", "nodes", "--subresource=status"), ("impersonate", "users"),
                            ("list", "pods")):
            with pytest.raises(Failure):
                as_token(chart, token, "auth", "can-i", verb, *what, "-n", "sluice")
        as_token(chart, token, "auth", "can-i", "create", "selfsubjectrulesreviews.authorization.k8s.io")


def patched(cluster, token, node, patch, *more):
    """"": the API server would do it; else why not."""
    try:
        as_token(cluster, token, "patch", "node", node.name, "--type=merge", "--dry-run=server", "-p", json.dumps(patch), *more)
    except Failure as failure:
        return str(failure)
    return ""


def labelled(key, value="x"):
    return {"metadata": {"labels": {key: value}}}


def test_the_policy_holds_the_account_to_its_own_node(chart, node):
    chart.install("--set=features.labels=direct")
    mine, loose = token_of(chart, node), token_of(chart)
    ours = labelled("nvidia.com/gpu.count")
    wait(lambda: f"the policy counts: {patched(chart, loose, node, ours)}", 30,
         lambda: "only the node that the pod runs on" in patched(chart, loose, node, ours))
    admitted = [ours, labelled("sluice.dev/health"), labelled("feature.node.kubernetes.io/pci-10de.present"),
                {"metadata": {"annotations": {"nfd.node.kubernetes.io/feature-labels": "x"}}}]
    for patch in admitted:
        assert patched(chart, mine, node, patch) == "", patch

    denied = {
        "only labels of GPU feature discovery and of sluice": [
            labelled("other.example/x"), labelled("node-role.kubernetes.io/control-plane"), labelled("xnvidia.com/a"),
            labelled("feature.node.kubernetes.io/other"), labelled("kubernetes.io/hostname", "other"),
            labelled("kubernetes.io/hostname", None)],
        "nothing but labels and what nfd-master remembers of them": [
            {"spec": {"unschedulable": True}}, {"spec": {"taints": [{"key": "a", "effect": "NoExecute"}]}},
            {"metadata": {"annotations": {"a": "b"}}}, {"metadata": {"finalizers": ["a.example/b"]}}],
    }
    for why, patches in denied.items():
        for patch in patches:
            said = patched(chart, mine, node, patch)
            assert why in said, f"{patch}: {said or 'admitted'}"
    for other in chart.nodes:
        if other is not node:
            assert "only the node that the pod runs on" in patched(chart, mine, other, ours)
    assert "forbidden" in patched(chart, mine, node, {"status": {"capacity": {"nvidia.com/gpu": "99"}}}, "--subresource=status")


# --- pod security --------------------------------------------------------------------------------

VALUES = {"full": ["--values", HERE / "values-sim.yaml"],
          "restricted": ["--values", CHART / "values-restricted.yaml", "--values", HERE / "values-sim-restricted.yaml"]}


@pytest.fixture
def namespaces(cluster):
    yield cluster
    cluster.clear()
    for level in ("privileged", "baseline", "restricted"):
        # What refuses the service refuses the Job that cleans up after it, too.
        hooks = [] if level == "privileged" else ["--no-hooks"]
        cluster.helm("uninstall", "sluice", "--namespace", f"of-{level}", "--wait", "--ignore-not-found", *hooks, timeout=180)
        cluster.kubectl("delete", "namespace", f"of-{level}", "--ignore-not-found", timeout=120)


def pods_of(cluster, namespace):
    pods = cluster.get("pods", namespace=namespace, selector="app.kubernetes.io/name=sluice")
    return [pod for pod in pods if any(one.get("ready") for one in pod["status"].get("containerStatuses", []))]


def refusals(cluster, namespace):
    return [one["message"] for one in cluster.get("events", namespace=namespace) if one["reason"] == "FailedCreate"]


def install_into(cluster, level, profile):
    namespace = f"of-{level}"
    cluster.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {
        "name": namespace, "labels": {"pod-security.kubernetes.io/enforce": level}}})
    cluster.helm("upgrade", "--install", "sluice", CHART, "--namespace", namespace, *VALUES[profile])
    return namespace


@pytest.mark.parametrize("profile", VALUES)
@pytest.mark.parametrize("level", ["baseline", "restricted"])
def test_other_levels_refuse_directories_of_the_host(namespaces, level, profile):
    namespace = install_into(namespaces, level, profile)
    said = wait(f"{namespace} refuses the pods", 60, lambda: refusals(namespaces, namespace))
    directories = {"baseline": "hostPath volumes", "restricted": 'use restricted volume type "hostPath"'}
    assert directories[level] in said[0] and f'violates PodSecurity "{level}' in said[0], said[0]
    assert ("privileged" in said[0]) == (profile == "full"), said[0]
    assert not pods_of(namespaces, namespace)


@pytest.mark.parametrize("profile", VALUES)
def test_both_profiles_run_where_privileged_is_allowed(namespaces, node, profile):
    namespace = install_into(namespaces, "privileged", profile)
    wait("pods of the service are ready", 90, lambda: len(pods_of(namespaces, namespace)) == len(namespaces.nodes), every=0.5)
    namespaces.wait_allocatable(node, 8)
    namespaces.pod("one", node, command="echo $NVIDIA_VISIBLE_DEVICES; exec sleep 100000")
    namespaces.wait_phase("one", "Running")
    assert namespaces.kubectl("logs", "one").startswith("GPU-") == (profile == "restricted")

    pod = next(one for one in pods_of(namespaces, namespace) if one["spec"]["nodeName"] == node.name)
    page = f"http://{pod['status']['podIP']}:9400/metrics"
    wait("the page answers", 30, lambda: "DCGM_FI_DEV_GPU_TEMP" in node.run("busybox", "wget", "-qO-", page))
    status = dict(line.split(":", 1) for line in node.run("sh", "-c", "cat /proc/$(pgrep -of sluice-web)/status").splitlines())
    assert int(status["CapEff"], 16) == 0 and status["Seccomp"].strip() == "2" and status["NoNewPrivs"].strip() == "1"
    user = status["Uid"].split()[0]
    # With no capability it cannot become another user.
    assert (user == "0") == (profile == "restricted")
    print(f"page: profile {profile}: user {user}, no capability, seccomp, no new privileges")
