# SPDX-License-Identifier: Apache-2.0
"""Files that people copied from published documents (tests/documents), given to the commands and to a service, and how what
is printed differs from what works. What Kubernetes says of the manifests is in tests/conformance/document_cases.py."""

import configparser
import re

import pytest
import yaml

from conftest import ROOT
from kubelet import Kubelet

DOCUMENTS = ROOT / "tests" / "documents"
MANIFESTS = DOCUMENTS / "manifests"
COMMANDS = DOCUMENTS / "commands"
PAGE = ROOT / "doc" / "documents.md"
PARTS = {"mpijob-short", "mpijob-launcher", "mpijob-worker", "ipc-lock-scc"}  # of what is completed under another name
# Every difference between what is printed and what works; (what is printed, what works).
CORRECTIONS = {
    "benchmark-pod": {
        "spec.containers[maskrcnn].runAsUser": (1000, None),
        "spec.containers[maskrcnn].securityContext.runAsUser": (None, 1000),
        "spec.containers[maskrcnn].securityContext.privileged": (True, None),
        "spec.containers[maskrcnn].env[NVIDIA_VISIBLE_DEVICES].name": ("NVIDIA_VISIBLE_DEVICES", None),
        "spec.containers[maskrcnn].env[NVIDIA_VISIBLE_DEVICES].value": ("all", None)},
    "nccl-job": {
        "spec.template.spec.containers[nv-nccl].restartPolicy": ("Never", None),
        "spec.template.spec.restartPolicy": (None, "Never")},
    "mpijob-v1alpha2": {"spec.mpiReplicaSpecs.Worker.template.spec.serviceAccount": ("mpi", None)},
    "rdma-test-pod": {
        "spec.containers[mofed-test-ctr].image": ("mellanox/centos_7_4_mofed_4[...]", "registry.example.com/mofed-test:1")},
    "volume-static": {
        "spec.csi.volumeHandle": ("16217308676014575381;099B6A7A:5EB99743; path=/gpfs/ess3000_4M/adas",
                                  "16217308676014575381;099B6A7A:5EB99743;path=/gpfs/ess3000_4M/adas")},
    **{f"pod-of-{which}-volume": {
        "spec.restartPolicy": (None, "Never"),
        f"spec.containers[{pod}].command[0]": (None, "ls"),
        f"spec.containers[{pod}].command[1]": (None, "/workspace"),
        f"spec.volumes[{volume}].readOnly": (False, None),
        f"spec.volumes[{volume}].persistentVolumeClaim.readOnly": (None, False)}
        for which, pod, volume in (("static", "a2d2-train", "a2d2-data"), ("dynamic", "a2d2-prep", "a2d2-priv"))},
    "ipc-lock": {
        "metadata.namespace": ("user-namespace", "name-of-the-project"),
        "subjects[mpi].namespace": ("user-namespace", "name-of-the-project"),
        "roleRef.namespace": ("user-namespace", None),
        "userNames[0]": ("system:serviceaccount:user-namespace:mpi", None)},
}


def flat(value, path=""):
    """{"spec.containers[NAME].image": ...}"""
    if isinstance(value, dict):
        return {name: one for key, of in value.items() for name, one in flat(of, f"{path}.{key}" if path else key).items()}
    if isinstance(value, list):
        names = [of["name"] if isinstance(of, dict) and "name" in of else at for at, of in enumerate(value)]
        return {name: one for at, of in zip(names, value) for name, one in flat(of, f"{path}[{at}]").items()}
    return {path: value}


def typed(name):
    """The objects of a file, without the lines that stand for what was left out in print."""
    text = (MANIFESTS / name).read_text().replace("[user-namespace]", "user-namespace")
    return list(yaml.safe_load_all("\n".join(line for line in text.splitlines() if line.strip() != "[...]")))


def printed_job():
    """The listing of the MPIJob, with the parts that the page prints after it."""
    job = typed("mpijob.printed.yaml")[0]
    job["spec"]["mpiReplicaSpecs"] = {**typed("mpijob-launcher.printed.yaml")[0], **typed("mpijob-worker.printed.yaml")[0]}
    return [job]


def test_every_file_stands_in_the_page():
    linked = set(re.findall(r"\(\.\./tests/documents/([^)]+)\)", PAGE.read_text()))
    assert all((DOCUMENTS / name).is_file() for name in linked)
    files = {f"{path.parent.name}/{path.name}" for path in (*MANIFESTS.iterdir(), *COMMANDS.iterdir())
             if path.suffix != ".md" and (".printed." not in path.name or path.parent == COMMANDS)}
    assert files - {f"commands/{path.name}" for path in COMMANDS.glob("*.txt") if ".printed." not in path.name} <= linked, files - linked


def test_every_correction_is_known():
    """What is completed has the content of what is printed, but for what the page of ours says."""
    printed = {path.name.replace(".printed.yaml", "") for path in MANIFESTS.glob("*.printed.yaml")} - PARTS
    assert printed - {"mpijob", "rdma-configmap"} == set(CORRECTIONS) - {"mpijob-v1alpha2"}
    for name, corrections in CORRECTIONS.items():
        before = printed_job() if name == "mpijob-v1alpha2" else typed(f"{name}.printed.yaml")
        after = typed(f"{name}.yaml")[:len(before)]
        found = {}
        for old, new in zip(before, after):
            old, new = flat(old), flat(new)
            found |= {path: (old.get(path), new.get(path)) for path in sorted(old.keys() | new.keys())
                      if old.get(path) != new.get(path)}
        assert found == corrections, name


def test_the_adapters_as_printed(machine):
    """The list breaks off in print: neither a ConfigMap nor, taken out of it, a configuration."""
    text = (MANIFESTS / "rdma-configmap.printed.yaml").read_text()
    with pytest.raises(yaml.YAMLError):
        yaml.safe_load(text)
    path = machine.path("/k8s-rdma-shared-dev-plugin/config.json")
    path.parent.mkdir(parents=True)
    path.write_text(text.partition("config.json: |\n")[2])
    reply = machine.run("sluice", "config", "check", path)
    assert reply.rc == 1 and f"{path}:" in reply.out, reply
    first = yaml.safe_load((MANIFESTS / "rdma-configmap.yaml").read_text())["data"]["config.json"].splitlines()[:5]
    assert all(line in text for line in first)


def test_mpijob_on_one_machine(machine):
    """Not with its image, and without it not with the claim elsewhere; at its own place with the machine's own mpirun."""
    machine.start("dgx-a100")
    machine.agent()
    for version in ("v1alpha2", "v2beta1"):
        path = MANIFESTS / f"mpijob-{version}.yaml"
        claim = f"adas-data-pvc={machine.directory}"
        reply = machine.run("sluice", "run", "--dry-run", "-f", path)
        assert reply.rc == 65 and "say where its files are with --volume adas-data-pvc=PATH" in reply.err, reply
        reply = machine.run("sluice", "run", "--dry-run", "-f", path, "--volume", claim)
        assert reply.rc != 0 and "a job with workers cannot have an image yet: run it with --host" in reply.err, reply
        reply = machine.run("sluice", "run", "--dry-run", "-f", path, "--volume", claim, "--host")
        assert reply.rc == 65 and "with --host nothing can be shown at '/workspace'" in reply.err, reply
        there = machine.directory / f"{version}.yaml"
        text = path.read_text().replace("/workspace/scripts/tf2_comparison/hvd", "/").replace("/workspace", str(machine.directory))
        there.write_text(re.sub(r" *rdma/.*\n", "", text))
        reply = machine.run("sluice", "run", "--dry-run", "-f", there, "--volume", claim, "--host")
        assert reply.rc == 78 and "16" in reply.err and "8" in reply.err, reply  # it has half of the GPUs
        there.write_text(there.read_text().replace("replicas: 16", "replicas: 8").replace('"16"', '"8"'))
        reply = machine.run("sluice", "run", "--dry-run", "-f", there, "--volume", claim, "--host")
        assert reply.rc == 0 and '"workers"' in reply.out, reply


def test_mpijob_of_then_and_of_today(machine):
    """One job; what converts it adds how the launcher reaches workers without an sshd."""
    reply = machine.run("sluice", "controller", "convert", "-f", MANIFESTS / "mpijob-v1alpha2.yaml").ok()
    made, today = (flat(yaml.safe_load(text)) for text in (reply.out, (MANIFESTS / "mpijob-v2beta1.yaml").read_text()))
    assert made.pop("metadata.annotations.sluice.dev/transport") == "exec" and made == today


def test_the_label_that_selects_a_model(machine):
    """The label of the product begins with NVIDIA-: a selector without it finds no node."""
    path = machine.directory / "a100-80gb.profile"
    path.write_text((ROOT / "sim/profiles/dgx-a100.profile").read_text().replace("A100-SXM4-40GB", "A100-SXM4-80GB"))
    machine.start(path)
    reply = machine.run("sluice", "labels", "--no-timestamp", "-o", "json").ok()
    label = f"nvidia.com/gpu.product={reply.json['labels']['nvidia.com/gpu.product']}"
    assert f"--selector={label} " in (COMMANDS / "node-label.txt").read_text()
    assert "--selector=nvidia.com/gpu.product=A100-SXM4-80GB " in (COMMANDS / "node-label.printed.txt").read_text()


def test_values_of_the_operators(machine):
    """Each value that is printed stands in the page that says what becomes of it, and those that work are in our chart."""
    guide = (ROOT / "doc" / "migrate-gpu-operator.md").read_text()
    for value in re.findall(r"--set(?:-string)? ([A-Za-z.]+)=", (COMMANDS / "gpu-operator.printed.txt").read_text()):
        assert f"`{value}`" in guide, value
    chart = yaml.safe_load((ROOT / "packaging/helm/sluice/values.yaml").read_text())
    assert "gfd" not in chart and "`gfd.enabled`" in (ROOT / "doc" / "migrate-device-plugin.md").read_text()
    for name in ("device-plugin", "device-plugin-two"):
        printed, ours = ((COMMANDS / f"{name}{kind}.txt").read_text() for kind in (".printed", ""))
        assert re.findall(r"--set-file (\S+)", printed) == re.findall(r"--set-file (\S+)", ours)
        assert "--set gfd.enabled=true" in printed and "gfd.enabled" not in ours
    source = (ROOT / "src/doctor/checks_system.c").read_text()
    assert (COMMANDS / "restorecon.txt").read_text().splitlines()[-1] in source


def test_the_repository_of_packages():
    """The ConfigMap holds the file that the page shows, whose packages `sluice doctor --packages` looks for."""
    config = yaml.safe_load((MANIFESTS / "repo-config.yaml").read_text())
    command = (COMMANDS / "repo-config.printed.txt").read_text()
    assert f"configmap {config['metadata']['name']} -n {config['metadata']['namespace']} " in command
    (name,) = config["data"]
    assert command.endswith(f"/{name}\n") and f"configMapName={config['metadata']['name']} " in \
        (COMMANDS / "gpu-operator.printed.txt").read_text()
    repository = configparser.ConfigParser(interpolation=None)
    repository.read_string(config["data"][name])
    assert repository["base"]["baseurl"].startswith("http://10.150.168.20/repos/centos/")


@pytest.mark.parametrize("name, resources", [
    ("default", {"nvidia.com/gpu": 40}), ("a100-80gb-config", {"nvidia.com/gpu": 64})])
def test_several_configurations(machine, tmp_path, name, resources):
    """The values of NVIDIA's chart hold whole configurations of ours."""
    values = yaml.safe_load((MANIFESTS / "several-configs-values.yaml").read_text())
    path = tmp_path / "config.yaml"
    path.write_text(values["config"]["map"][name])
    machine.start("dgx-a100")
    reply = machine.run("sluice", "config", "check", "--strict", path).ok()
    assert "ok" in reply.out
    found = machine.run("sluice", "config", "resources", "--output", "json", path).ok().json
    assert {one["name"]: len(one["units"]) for one in found["resources"]} == resources


def test_the_pod_with_four_adapters(machine):
    """On a machine with ten: the configuration unchanged, 100 units each, and the nodes of those four alone."""
    machine.start("dgx-a100")
    path = machine.path("/k8s-rdma-shared-dev-plugin/config.json")
    path.parent.mkdir()
    path.write_text(yaml.safe_load((MANIFESTS / "rdma-configmap.yaml").read_text())["data"]["config.json"])
    assert machine.run("sluice", "config", "check", "--strict", path).ok().out.splitlines() == [f"{path}: ok"]
    pod = yaml.safe_load((MANIFESTS / "rdma-test-pod.yaml").read_text())
    wanted = pod["spec"]["containers"][0]["resources"]["limits"]
    assert len(wanted) == 4
    directory = machine.path("/var/lib/kubelet/device-plugins")
    directory.mkdir(parents=True)
    kubelet = Kubelet(directory).start()
    machine.agent()
    given = set()
    for name, count in wanted.items():
        answer = kubelet.wait(100, name).allocate(*map(str, range(count)))
        given |= {spec.container_path.removeprefix("/dev/infiniband/") for spec in answer.devices}
    kubelet.die()
    assert given == {"rdma_cm", *(f"{kind}{n}" for kind in ("uverbs", "umad", "issm") for n in range(4))}


def test_the_table_of_xids_is_that_of_the_program():
    """doc/migrate-device-plugin.md says what each code means; so does src/hardware/xid.c."""
    text = (ROOT / "doc" / "migrate-device-plugin.md").read_text(encoding="utf-8")
    told, real = {}, {}
    for name, codes in re.findall(r"^\| (app|info|reset|reboot|inspect) \| ([\d -]+)", text, re.M):
        for first, last in re.findall(r"(\d+)(?:-(\d+))?", codes):
            told.update(dict.fromkeys(range(int(first), int(last or first) + 1), name))
    source = (ROOT / "src" / "hardware" / "xid.c").read_text(encoding="utf-8")
    for first, last, name in re.findall(r"\{(\d+), (\d+), XID_([A-Z]+)\}", source):
        real.update(dict.fromkeys(range(int(first), int(last) + 1), name.lower()))
    assert len(real) > 100 and told == real
