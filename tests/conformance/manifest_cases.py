# SPDX-License-Identifier: Apache-2.0
"""The Helm chart rendered by Helm, for the oldest and the newest Kubernetes, and what comes out read by the code of
both: decoded strictly, validated as their API servers do, the admission policy evaluated. Nothing is applied."""

import json
import os
import pathlib
import re
import shlex
import shutil
import subprocess
import tempfile

import yaml

from kubelet_cases import FLAGS

HERE = pathlib.Path(__file__).resolve().parent / "manifests"
ROOT = HERE.parent.parent.parent
CHART = ROOT / "packaging" / "helm" / "sluice"
BUILD = 1800  # seconds on a slow machine
KUBERNETES = {"oldest": "1.25.16", "newest": "1.36.3"}
PRESETS = ["values", *sorted(path.stem for path in CHART.glob("values-*.yaml"))]
# Besides the presets: what is off in all of them.
SETTINGS = {
    "every right": ["--set", "features.labels=any,features.nodeLabel=true,events=true"],
    "direct": ["--set", "features.labels=direct"],
    "nodefeature": ["--set", "features.labels=nodefeature"],
    "nothing": ["--set", "features.kubelet=false,features.cdi=false,features.labels=none,features.validations=false"],
    "several configurations": ["-f", str(ROOT / "tests" / "documents" / "manifests" / "several-configs-values.yaml")],
    "the file of a document": ["--set-file", "config.map.config="
                               + str(ROOT / "tests" / "documents" / "config" / "time-slicing-none.yaml")],
    "others' ConfigMaps": ["--set", "config.name=mine,rdma.configMap=rdma-devices"],
    "metrics": ["--set", "metrics.serviceMonitor.enabled=true,metrics.prometheusRule.enabled=true"],
    "metrics for few": ["--set", "metrics.tokenSecret=page,metrics.hosts={gpus.example},metrics.address=[::],metrics.port=9500,"
                        "metrics.serviceMonitor.enabled=true,metrics.networkPolicy.enabled=true,"
                        "metrics.networkPolicy.from[0].namespaceSelector.matchLabels.a=b"],
    "no metrics": ["--set", "metrics.enabled=false"],
    "every value": ["--set", "hostPID=true,runtimeClassName=nvidia,priorityClassName=,imagePullSecrets[0].name=key,"
                    "image.digest=sha256:" + "0" * 64 + ",uninstall.nodes=7,namespace.create=true,"
                    "podLabels.a=b,podAnnotations.c=d,nodeSelector.openshift\\.com/gpu-accelerator=f,"
                    "extraEnv[0].name=G,extraEnv[0].value=h,"
                    "extraVolumes[0].name=more,extraVolumes[0].emptyDir.sizeLimit=1Mi,"
                    "extraVolumeMounts[0].name=more,extraVolumeMounts[0].mountPath=/more,extraVolumeMounts[0].readOnly=true"],
    "openshift, restricted, rdma": ["-f", str(CHART / "values-restricted.yaml"), "--set",
                                    "openshift.enabled=true,openshift.rdma.enabled=true,"
                                    "openshift.rdma.namespaces={training,test}"],
    "restricted, a type of its own": ["-f", str(CHART / "values-restricted.yaml"), "--set",
                                      "openshift.enabled=true,seLinuxType=sluice.process"],
    "a driver elsewhere": ["--set", "driver.root=/home/kubernetes/bin/nvidia"],
    "a driver container": ["--set", "driver.root=/run/nvidia/driver,features.validations=false"],
    "other names": ["--set", "fullnameOverride=gpu-service,nameOverride=gpu,serviceAccount.create=false,"
                    "serviceAccount.name=mine,events=true"],
}
REFUSED = {
    "a name of NVIDIA's chart": (["--set", "gfd.enabled=true"], "gfd"),
    "a name that is not there": (["--set", "imagge.tag=1"], "imagge"),
    "a name that is not there, deeper": (["--set", "features.metrics=true"], "metrics"),
    "a word for a number": (["--set-string", "metrics.port=http"], "/metrics/port"),
    "an address that is none": (["--set", "metrics.address=localhost"], "/metrics/address"),
    "a word for yes": (["--set-string", "hostPID=yes"], "/hostPID"),
    "an unknown profile": (["--set", "profile=baseline"], "/profile"),
    "an unknown mode of labels": (["--set", "features.labels=nfd"], "/features/labels"),
    "the tag latest": (["--set", "image.tag=latest"], "/image/tag"),
    "a tag in the repository": (["--set", "image.repository=x/sluice:1"], "/image/repository"),
    "a configuration that is no text": (["--set", "config.map.default.version=v1"], "/config/map/default"),
    "a configuration with a name that no file has": (["--set-string", "config.map.-a=version: v1"], "'-a'"),
    "a configuration that is no YAML": (["--set-string", "config.map.default=a: ["], "config.map.default is no YAML"),
    "no image": (["--set", "image.repository="], "make image"),
    "CDI without a privilege": (["--set", "profile=restricted"], "writes no CDI specification"),
    "Kubernetes that is too old": (["--kube-version", "1.24.0"], "kubeVersion"),
}


class Manifests:
    """The programs; made by install()."""

    def __init__(self):
        self.helm = None
        self.readers = {}  # "oldest": program
        self.missing = []  # why some cannot be had

    def install(self, folder, step, unavailable):
        go = shutil.which("go")
        if not go:
            self.missing.append("Go is not installed: apt install golang-go")
            return
        print("building Helm and readers of manifests (minutes, the first time)", flush=True)
        try:
            for name, package in (("helm", "helm.sh/helm/v3/cmd/helm"), ("oldest", "."), ("newest", ".")):
                program = folder / (name if name == "helm" else f"manifests-{name}")
                flags = {**os.environ, "GOFLAGS": FLAGS.get(name, "-mod=readonly")}
                step([go, "build", "-buildvcs=false", "-ldflags=-s -w", "-o", str(program), package], HERE / name,
                     f"building {name} of the manifests' readers (is there a network?)", flags, BUILD)
                if name == "helm":
                    self.helm = str(program)
                else:
                    self.readers[name] = str(program)
        except unavailable as error:
            self.missing.append(str(error))

    def template(self, arguments, release="newest", image="localhost/sluice"):
        """What Helm renders, or its complaint with a status that is not 0."""
        version = [] if "--kube-version" in arguments else ["--kube-version", KUBERNETES[release]]
        return subprocess.run(
            [self.helm, "template", "sluice", str(CHART), "-n", "sluice", "--set", f"image.repository={image}", *version,
             *arguments], capture_output=True, text=True, timeout=120, check=False)

    def read(self, release, text, namespace=""):
        arguments = ["check", namespace] if release == "newest" else []
        done = subprocess.run([self.readers[release], *arguments], input=text, capture_output=True, text=True, timeout=120,
                              check=False)
        lines = done.stdout.splitlines()
        if done.returncode or not lines:
            return [f"{release}: {done.stderr.strip()}"], 0
        return [f"{release}: {line}" for line in lines[:-1]], int(lines[-1].split()[0])


def objects(text):
    return [found for found in yaml.safe_load_all(text) if found]


def pods(found):
    for one in found:
        if one["kind"] in ("DaemonSet", "Job"):
            yield one["kind"], one["spec"]["template"]["spec"]


def rights(found):
    """Each right that is given to somebody, and none that reaches further than its name."""
    problems = []
    for one in found:
        for rule in one.get("rules") or []:
            for key in ("apiGroups", "resources", "verbs"):
                if "*" in rule[key]:
                    problems.append(f"{one['kind']} {one['metadata']['name']}: {key} has a '*'")
            if "secrets" in rule["resources"] or set(rule["verbs"]) & {"escalate", "bind", "impersonate"}:
                problems.append(f"{one['kind']} {one['metadata']['name']}: {rule}")
    return problems


# What libexec/sluice-kube asks for, by what is switched on.
NODES = ("", "nodes")
ASKED = {
    "nothing": {},
    "several configurations": {NODES: {"list", "watch"}},
    "others' ConfigMaps": {NODES: {"list", "watch"}},
    "nodefeature": {NODES: {"get", "list", "watch"}, ("", "pods"): {"get"},
                    ("nfd.k8s-sigs.io", "nodefeatures"): {"create", "delete", "get", "update"}},
    "direct": {NODES: {"get", "list", "patch", "watch"}},
    "every right": {NODES: {"get", "list", "patch", "watch"}, ("", "pods"): {"get"},
                    ("nfd.k8s-sigs.io", "nodefeatures"): {"create", "delete", "get", "update"},
                    ("", "events"): {"create", "patch"}},
}


def asked(manifests, name):
    """The rights are those of the table, no more and no less."""
    given = {}
    for one in objects(manifests.template(["--no-hooks", *SETTINGS[name]]).stdout):
        for rule in one.get("rules") or []:
            for group in rule["apiGroups"]:
                for resource in rule["resources"]:
                    given.setdefault((group, resource), set()).update(rule["verbs"])
    return [] if given == ASKED[name] else [f"gives {given}, asks for {ASKED[name]}"], f"{len(given)} resources"


def restricted(found):
    """No privilege at all in the service's pod."""
    problems = []
    for kind, pod in pods(found):
        if kind != "DaemonSet":
            continue
        context = pod["containers"][0]["securityContext"]
        if context.get("privileged") or context.get("allowPrivilegeEscalation") is not False:
            problems.append(f"privileged: {context}")
        if context["capabilities"] != {"drop": ["ALL"]} or pod.get("hostPID") or pod.get("hostNetwork"):
            problems.append(f"not restricted: {context}")
        for volume in pod["volumes"]:
            if volume.get("hostPath", {}).get("path") in ("/", "/dev", "/run", "/etc"):
                problems.append(f"too much of the host: {volume}")
    return problems


def closed(found, features):
    """Doors that are off have no mounts and no rights."""
    problems = []
    text = yaml.safe_dump_all(found)
    gone = {"/var/lib/kubelet": "kubelet", "/var/run/cdi": "cdi", "features.d": "labels", "/run/nvidia": "validations",
            "/run/mellanox": "rdma"}
    for path, feature in gone.items():
        if not features[feature] and path in text:
            problems.append(f"{path} although {feature} is off")
    if any(one["kind"].endswith("Role") for one in found):
        problems.append("a role although nothing needs one")
    return problems


def rendered(manifests, arguments, release, count=0):
    done = manifests.template(arguments, release)
    if done.returncode:
        return [done.stderr.strip()], ""
    found = objects(done.stdout)
    problems, seen = manifests.read("oldest", done.stdout)
    more, all_seen = manifests.read("newest", done.stdout)
    # A policy is newer than the oldest release, which must not be given one.
    foreign = sum(one["kind"].startswith("ValidatingAdmission") or "coreos" in one["apiVersion"]
                  or "openshift" in one["apiVersion"] for one in found)
    problems += more + rights(found)
    if all_seen != len(found) or seen != len(found) - foreign:
        problems.append(f"{len(found)} objects, read {seen} and {all_seen}")
    policies = sum(one["kind"] == "ValidatingAdmissionPolicy" for one in found)
    # One for each account that may patch nodes: the service's, and that of the Job which cleans up.
    wants = sum("patch" in rule["verbs"] and "nodes" in rule["resources"] for one in found for rule in one.get("rules") or [])
    if policies != (wants if release == "newest" else 0):
        problems.append(f"{policies} admission policies on {release}")
    if ":latest" in done.stdout:
        problems.append("an image without a version")
    if "profile: restricted" in done.stdout or any("restricted" in part for part in arguments):
        problems += restricted(found)
    return problems, f"{len(found)} objects"


def nothing(manifests, arguments):
    done = manifests.template(["--no-hooks", *arguments])
    return closed(objects(done.stdout), dict.fromkeys(("kubelet", "cdi", "labels", "validations", "rdma"), False)), ""


def refused(manifests, arguments, word):
    done = manifests.template(arguments)
    if done.returncode == 0:
        return ["taken"], ""
    return ([] if word in done.stderr else [f"it does not say '{word}': {done.stderr.strip()}"]), \
        done.stderr.strip().splitlines()[-1][:100]


def same_files(manifests):
    done = subprocess.run([str(ROOT / "tools" / "manifests"), "--check", "--helm", manifests.helm], capture_output=True,
                          text=True, timeout=300, check=False)
    return (done.stdout + done.stderr).strip().splitlines() if done.returncode else [], ""


def plain(found):
    """Without what only Helm wants, in one order."""
    for one in found:
        labels = one["metadata"].get("labels", {})
        labels.pop("app.kubernetes.io/managed-by", None)
        labels.pop("helm.sh/chart", None)
    return sorted(found, key=lambda one: (one["kind"], one["metadata"]["name"]))


def kustomize(manifests, directory, arguments):
    """What kustomize builds is what Helm renders."""
    done = subprocess.run([manifests.readers["newest"], "kustomize", str(ROOT / "packaging" / "kustomize" / directory)],
                          capture_output=True, text=True, timeout=120, check=False)
    if done.returncode:
        return [done.stderr.strip()], ""
    template = manifests.template(["--no-hooks", "--set", "namespace.create=true", *arguments], "oldest")
    built, wanted = plain(objects(done.stdout)), plain(objects(template.stdout))
    return [] if built == wanted else [f"kustomize builds {[one['kind'] for one in built]}, Helm "
                                       f"{[one['kind'] for one in wanted]}, or they differ inside"], f"{len(built)} objects"


def pages(manifests):
    """Helm takes what our pages tell people to type."""
    problems, count = [], 0
    for page in (ROOT / "README.md", *sorted((ROOT / "doc").glob("*.md"))):
        text = page.read_text(encoding="utf-8").replace("\\\n", " ")
        for line in re.findall(r"^ +helm (?:install|upgrade|template) sluice (packaging/helm/sluice .*)", text, re.M):
            words = shlex.split(line.partition("#")[0].replace("REGISTRY", "registry.example").replace("NUMBER", "3"))
            words = [word for word in words[1:] if word not in ("--create-namespace", "--reuse-values")]
            if "YOUR-VALUES.yaml" in words:
                words = words[:words.index("YOUR-VALUES.yaml") - 1]
            count += 1
            done = manifests.template([str(ROOT / word) if word.startswith("packaging/") else word for word in words])
            if done.returncode:
                problems.append(f"{page.name}: {line}: {done.stderr.strip()}")
    return problems if count else ["no command was found"], f"{count} commands"


# --- the admission policy ----------------------------------------------------------------------------

NODE_NAME = "authentication.kubernetes.io/node-name"
AGENT = "system:serviceaccount:sluice:sluice"
LABELS = {"kubernetes.io/hostname": "one", "nvidia.com/gpu.count": "8", "other.example/x": "y"}


def node(labels, **more):
    made = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "one", "labels": labels}, "spec": {"podCIDR": "10.0.0.0/24"}}
    for key, value in more.items():
        made["spec" if key in ("taints", "unschedulable") else "metadata"][key] = value
    return made


def request(after, wanted, **more):
    made = {"user": AGENT, "operation": "UPDATE", "target": "one", "extra": {NODE_NAME: ["one"]}, "before": node(LABELS),
            "after": after, "wanted": wanted}
    return {**made, **more}


def policy_cases():
    mine = {**LABELS, "nvidia.com/gpu.count": "4", "nvidia.com/mig.capable": "true", "sluice.dev/health": "ok",
            "feature.node.kubernetes.io/pci-10de.present": "true"}
    fewer = {key: value for key, value in LABELS.items() if not key.startswith("nvidia")}
    return {
        "labels of ours": request(node(mine), "admit"),
        "a label of ours goes": request(node(fewer), "admit"),
        "nothing changes": request(node(LABELS), "admit"),
        "a node without labels": request(node(mine), "deny", before=node({})),
        "a node without labels gets ours": request(node({"nvidia.com/gpu.count": "8"}), "admit", before=node(None)),
        "somebody else changes what he likes": request(node({}), "", user="system:serviceaccount:kube-system:x"),
        "another node": request(node(mine), "deny", extra={NODE_NAME: ["two"]}),
        "a token without a node": request(node(mine), "deny", extra={}),
        "a token of two nodes": request(node(mine), "deny", extra={NODE_NAME: ["two", "one"]}),
        "a label of somebody else": request(node({**LABELS, "other.example/x": "z"}), "deny"),
        "a label of somebody else goes": request(node({key: LABELS[key] for key in list(LABELS)[:2]}), "deny"),
        "a label of Kubernetes": request(node({**LABELS, "node-role.kubernetes.io/control-plane": ""}), "deny"),
        "nearly ours": request(node({**LABELS, "xnvidia.com/a": "b"}), "deny"),
        "another of node feature discovery": request(node({**LABELS, "feature.node.kubernetes.io/a": "b"}), "deny"),
        "a taint": request(node(LABELS, taints=[{"key": "a", "effect": "NoExecute"}]), "deny"),
        "cordoned": request(node(LABELS, unschedulable=True), "deny"),
        "an annotation": request(node(LABELS, annotations={"a": "b"}), "deny"),
        "what nfd-master remembers": request(node(mine, annotations={"nfd.node.kubernetes.io/feature-labels": "a"}), "admit"),
        "more than nfd-master remembers": request(
            node(mine, annotations={"nfd.node.kubernetes.io/feature-labels": "a", "b": "c"}), "deny"),
        "an annotation goes": request(node(LABELS), "deny", before=node(LABELS, annotations={"a": "b"})),
        "a finalizer": request(node(LABELS, finalizers=["a.example/b"]), "deny"),
        "an owner": request(node(LABELS, ownerReferences=[{"apiVersion": "v1", "kind": "Pod", "name": "a", "uid": "b"}]), "deny"),
        "its status": request(node(LABELS), "deny", subresource="status"),
        "a new node": request(node(mine), "deny", operation="CREATE", before=None),
        "a node goes": request(None, "deny", operation="DELETE"),
    }


def policy(manifests):
    done = manifests.template(["--set", "features.labels=direct", "-s", "templates/admission.yaml"])
    text = "".join(part for part in re.split(r"^---\n", done.stdout, flags=re.M) if "kind: ValidatingAdmissionPolicy\n" in part)
    cases = policy_cases()
    with tempfile.NamedTemporaryFile("w", suffix=".json") as file:
        json.dump([{"name": name, **of} for name, of in cases.items()], file)
        file.flush()
        asked = subprocess.run([manifests.readers["newest"], "policy", file.name], input=text, capture_output=True,
                               text=True, timeout=120, check=False)
    if asked.returncode:
        return [asked.stderr.strip()], ""
    answers = {answer["name"]: answer for answer in json.loads(asked.stdout)}
    problems = [f"{name}: {answers[name]['action'] or 'not about it'} {answers[name]['reasons']}, should be "
                f"{of['wanted'] or 'not about it'}" for name, of in cases.items() if answers[name]["action"] != of["wanted"]]
    problems += [f"{name}: {reason}" for name, answer in answers.items() for reason in answer["reasons"]
                 if "expression" in reason or "compil" in reason]
    return problems, f"{len(cases)} requests"


def check(run, manifests):
    if not manifests.helm or len(manifests.readers) < len(KUBERNETES):
        return
    for release in KUBERNETES:
        for preset in PRESETS:
            run.check(f"manifests {preset} on {KUBERNETES[release]}", rendered, manifests,
                      ["-f", str(CHART / f"{preset}.yaml")], release)
        for name, arguments in SETTINGS.items():
            run.check(f"manifests {name} on {KUBERNETES[release]}", rendered, manifests, arguments, release)
    run.check("manifests nothing is on", nothing, manifests, SETTINGS["nothing"])
    for name in ASKED:
        run.check(f"manifests rights of {name}", asked, manifests, name)
    for name, (arguments, word) in REFUSED.items():
        run.check(f"manifests refused: {name}", refused, manifests, arguments, word)
    run.check("manifests rendered files", same_files, manifests)
    for directory in ("base", "openshift", "restricted"):
        preset = [] if directory == "base" else ["-f", str(CHART / f"values-{directory}.yaml")]
        run.check(f"manifests kustomize {directory}", kustomize, manifests, directory, preset)
    run.check("manifests commands of the pages", pages, manifests)
    run.check("manifests admission policy", policy, manifests)
