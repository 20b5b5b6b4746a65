# SPDX-License-Identifier: Apache-2.0
"""What can be said of the manifests without Helm and Kubernetes: the chart's values and their schema, and the files
that tools/manifests has rendered. Their validity is `make conformance`'s business."""

import json
import re
import subprocess

import pytest

from conftest import DEADLINE_S, ROOT, SLUICE

yaml = pytest.importorskip("yaml", reason="needs python3-yaml")

PACKAGING = ROOT / "packaging"
CHART = PACKAGING / "helm" / "sluice"
PRESETS = sorted(CHART.glob("values-*.yaml"))
RENDERED = sorted([*PACKAGING.glob("kubernetes/*.yaml"), *PACKAGING.glob("kustomize/*/*.yaml")])
# All that a pod of ours may have of its host: path, place in the pod, whether it is read-only, propagation.
HOST_PATHS = {
    ("/", "/host", True, "HostToContainer"),
    ("/dev", "/dev", True, None),
    ("/dev/infiniband", "/dev/infiniband", True, None),
    ("/etc/cdi", "/etc/cdi", True, None),
    ("/etc/kubernetes/node-feature-discovery/features.d", "/etc/kubernetes/node-feature-discovery/features.d", False,
     None),
    ("/run/mellanox", "/run/mellanox", True, "HostToContainer"),
    ("/run/nvidia", "/run/nvidia", False, "HostToContainer"),
    ("/sys", "/sys", True, None),
    ("/var/lib/kubelet/device-plugins", "/var/lib/kubelet/device-plugins", False, None),
    ("/var/lib/kubelet/pod-resources", "/var/lib/kubelet/pod-resources", True, None),
    ("/var/lib/sluice", "/var/lib/sluice", False, None),
    ("/var/log/containers", "/var/log/containers", True, None),
    ("/var/log/pods", "/var/log/pods", True, None),
    ("/var/run/cdi", "/var/run/cdi", False, None),
}
# All that may be asked of an API server: group, resource, verbs.
RIGHTS = {
    ("", "nodes", ("list", "watch")),
    ("", "events", ("create", "patch")),
}
# Where one of these stands, the line above says why.
PRIVILEGES = re.compile(r"^(?!\s*#).*\b(hostPath:|privileged: true|hostPID: true|runAsUser: 0|allowedCapabilities: \[|"
                        r"allowHostDirVolumePlugin: true|automountServiceAccountToken: true)")


def objects(path):
    return [found for found in yaml.safe_load_all(path.read_text(encoding="utf-8")) if found]


def daemonsets():
    for path in RENDERED:
        for found in objects(path):
            if found["kind"] == "DaemonSet":
                yield path, found["spec"]["template"]["spec"], found["spec"]


def pods():
    for path in RENDERED:
        for found in objects(path):
            if found["kind"] in ("DaemonSet", "Job"):
                yield path, found["spec"]["template"]["spec"]


def uncommented(text):
    """Lines with a privilege and no comment above them, or above the name of their volume."""
    lines = text.splitlines()
    for number, line in enumerate(lines):
        above = number - 1
        if PRIVILEGES.search(line):
            if "hostPath:" in line:
                assert "name:" in lines[above], line
                above -= 1
            if not lines[above].strip().startswith("#"):
                yield f"{number + 1}: {line.strip()}"


@pytest.mark.parametrize("path", RENDERED, ids=lambda path: f"{path.parent.name}/{path.name}")
def test_every_privilege_has_its_reason(path):
    assert objects(path)
    assert not list(uncommented(path.read_text(encoding="utf-8")))


def test_privileges_of_the_templates_have_their_reasons():
    for path in CHART.glob("templates/*"):
        text = re.sub(r"^\s*\{\{-? (if|else|end|with)[^\n]*\}\}\n", "", path.read_text(encoding="utf-8"), flags=re.M)
        assert not list(uncommented(text)), path


def test_the_pod_has_of_the_host_what_the_table_says():
    count = 0
    for path, pod in pods():
        count += 1
        mounts = {mount["name"]: mount for mount in pod["containers"][0]["volumeMounts"]}
        assert set(mounts) == {volume["name"] for volume in pod["volumes"]}, path
        for volume in pod["volumes"]:
            mount = mounts[volume["name"]]
            if "hostPath" in volume:
                assert (volume["hostPath"]["path"], mount["mountPath"], mount.get("readOnly", False),
                        mount.get("mountPropagation")) in HOST_PATHS, (path, volume)
                assert volume["hostPath"].get("type"), volume
    assert count == 5


def test_a_volume_is_named_once():
    """Whatever is switched on: two of a name stand in the templates only where one excludes the other."""
    text = (CHART / "templates" / "_helpers.tpl").read_text(encoding="utf-8")
    mounts = re.findall(r"^- \{name: ([\w-]+), mountPath: (\S+?)[,}]", text, re.M)
    either = {"run-nvidia"}  # for validations, else for a driver container
    for name, path in mounts:
        assert name in either or [one for one, _ in mounts].count(name) == 1, name
        assert name in either or [one for _, one in mounts].count(path) == 1, path


def test_the_pod_is_what_it_should_be():
    version = re.search(r"version: '([^']+)'", (ROOT / "meson.build").read_text(encoding="utf-8")).group(1)
    for path, pod, spec in daemonsets():
        agent = pod["containers"][0]
        assert agent["image"] == f"localhost/sluice:{version}", path
        assert agent["securityContext"]["readOnlyRootFilesystem"] is True
        # Without it the metrics would call the node as the pod is called.
        assert {"name": "NODE_NAME", "valueFrom": {"fieldRef": {"fieldPath": "spec.nodeName"}}} in agent["env"], path
        assert agent["resources"] == {"requests": {"cpu": "10m", "memory": "16Mi"}, "limits": {"memory": "64Mi"}}
        assert agent["livenessProbe"]["exec"]["command"] == ["sluice", "agent", "status"]
        # the page and the metrics, on the pod's address and never on the host's
        assert agent["args"] == ["--web-address=0.0.0.0:9400"]
        assert agent["ports"] == [{"name": "metrics", "containerPort": 9400, "protocol": "TCP"}]
        assert spec["updateStrategy"]["rollingUpdate"] == {"maxUnavailable": 1, "maxSurge": 0}
        assert pod["automountServiceAccountToken"] is False  # nothing that needs it is on
        variables = {variable["name"]: variable.get("value") for variable in agent["env"]}
        assert not {"NAMESPACE", "POD_NAME"} & set(variables)  # for the API server
        assert variables["FAIL_ON_INIT_ERROR"] == "false"  # a driver that comes later is waited for
        assert pod["hostNetwork"] is False and "hostPID" not in pod and "hostIPC" not in pod
        assert pod["terminationGracePeriodSeconds"] == 5 and pod["dnsPolicy"] == "Default"
        assert pod["priorityClassName"] == "system-node-critical"


def test_the_restricted_profile_has_no_privilege():
    path = PACKAGING / "kustomize" / "restricted" / "daemonset.yaml"
    pod = objects(path)[0]["spec"]["template"]["spec"]
    context = pod["containers"][0]["securityContext"]
    assert context == {"readOnlyRootFilesystem": True, "runAsUser": 0, "allowPrivilegeEscalation": False,
                       "capabilities": {"drop": ["ALL"]}, "seccompProfile": {"type": "RuntimeDefault"}}
    of_the_host = {volume["hostPath"]["path"] for volume in pod["volumes"] if "hostPath" in volume}
    assert not of_the_host & {"/", "/dev", "/run/nvidia", "/var/run/cdi"}
    assert "privileged: true" not in path.read_text(encoding="utf-8")


def test_the_probe_is_a_command_that_is_there(machine):
    for _, pod, _ in daemonsets():
        for probe in ("livenessProbe", "readinessProbe"):
            command = pod["containers"][0][probe]["exec"]["command"]
            assert command[0] == "sluice"
            done = subprocess.run([SLUICE, *command[1:]], env=machine.env, capture_output=True, text=True, check=False,
                                  timeout=DEADLINE_S)
            assert done.returncode != 64, done.stderr  # understood; there is no agent on this machine
            assert done.returncode != 0


def test_the_agent_knows_the_options_that_it_is_given(machine):
    template = (CHART / "templates" / "daemonset.yaml").read_text(encoding="utf-8")
    given = set(re.findall(r"--web-[a-z-]+", template))
    assert given == {"--web-address", "--web-token-file", "--web-host"}
    told = subprocess.run([SLUICE, "agent", "--help"], env=machine.env, capture_output=True, text=True, check=True,
                          timeout=DEADLINE_S).stdout
    assert given <= set(re.findall(r"--[a-z-]+", told))


def test_the_service_finds_the_pods_and_its_port():
    for path in PACKAGING.glob("kustomize/*/service-sluice-metrics.yaml"):
        service = objects(path)[0]["spec"]
        daemonset = objects(path.parent / "daemonset.yaml")[0]["spec"]["template"]
        assert service["clusterIP"] == "None"
        assert service["selector"].items() <= daemonset["metadata"]["labels"].items()
        assert service["ports"][0]["targetPort"] == daemonset["spec"]["containers"][0]["ports"][0]["name"]


def test_rights_are_those_of_the_table():
    found = set()
    for path in RENDERED:
        for one in objects(path):
            for rule in one.get("rules", []):
                if rule["apiGroups"] == ["security.openshift.io"]:
                    assert rule["verbs"] == ["use"] and rule["resourceNames"], path
                    continue
                for group in rule["apiGroups"]:
                    for resource in rule["resources"]:
                        found.add((group, resource, tuple(rule["verbs"])))
    assert found == RIGHTS


def test_versions_are_one_and_nothing_is_the_latest():
    version = re.search(r"version: '([^']+)'", (ROOT / "meson.build").read_text(encoding="utf-8")).group(1)
    chart = objects(CHART / "Chart.yaml")[0]
    assert (chart["version"], chart["appVersion"]) == (version, version)
    for path in [*RENDERED, *PRESETS]:
        assert ":latest" not in path.read_text(encoding="utf-8"), path


def test_kustomizations_list_what_is_there():
    for path in PACKAGING.glob("kustomize/*/kustomization.yaml"):
        listed = objects(path)[0]["resources"]
        there = {file.name for file in path.parent.glob("*.yaml")} - {path.name}
        assert set(listed) == there and len(listed) == len(there), path


# --- values ------------------------------------------------------------------------------------------


def keys(value, path=""):
    if isinstance(value, dict):
        for name, inner in value.items():
            yield f"{path}{name}"
            yield from keys(inner, f"{path}{name}.")


def schema_at(schema, value, path=""):
    """Values that the schema does not name, and names of the schema without a value."""
    properties = schema.get("properties")
    if not properties:
        return
    for name in sorted(properties.keys() ^ value.keys()):
        if f"{path}{name}" not in ("global", "resources.claims"):
            yield f"{path}{name}"
    for name in properties.keys() & value.keys():
        yield from schema_at(properties[name], value[name], f"{path}{name}.")


def closed(schema, path=""):
    for name, inner in schema.get("properties", {}).items():
        yield from closed(inner, f"{path}{name}.")
    if "properties" in schema and schema.get("additionalProperties") is not False:
        yield path


def test_schema_and_values_name_the_same():
    schema = json.loads((CHART / "values.schema.json").read_text(encoding="utf-8"))
    values = objects(CHART / "values.yaml")[0]
    assert not list(schema_at(schema, values))
    assert not list(closed(schema)), "unknown values would be taken"


@pytest.mark.parametrize("path", PRESETS, ids=lambda path: path.stem)
def test_a_preset_sets_what_there_is(path):
    known = set(keys(objects(CHART / "values.yaml")[0]))
    free = ("nodeSelector.", "config.map.")
    unknown = [key for key in keys(objects(path)[0]) if key not in known and not key.startswith(free)]
    assert not unknown


@pytest.mark.parametrize("path", [CHART / "files" / "default.yaml", *PRESETS], ids=lambda path: path.stem)
def test_configurations_of_the_chart_are_taken(path, tmp_path):
    texts = objects(path)[0]["config"]["map"] if path in PRESETS else {"default": path.read_text(encoding="utf-8")}
    assert texts
    for name, text in texts.items():
        file = tmp_path / name
        file.write_text(text, encoding="utf-8")
        done = subprocess.run([SLUICE, "config", "check", str(file)], capture_output=True, text=True, check=False,
                              timeout=DEADLINE_S)
        assert (done.returncode, done.stderr) == (0, ""), done.stdout + done.stderr


def test_the_rules_of_the_chart_are_those_of_the_packages():
    ours = (PACKAGING / "prometheus" / "sluice.rules.yaml").read_text(encoding="utf-8")
    assert (CHART / "files" / "rules.yaml").read_text(encoding="utf-8") == ours, "tools/manifests --write"
    assert ours.count('job="sluice"') == 1  # what monitoring.yaml puts the chart's name in place of
