# SPDX-License-Identifier: Apache-2.0
"""Files that people copied from published documents (tests/documents), given to the commands and to a service. What
Kubernetes says of the manifests is in tests/conformance/document_cases.py."""

import re

import pytest
import yaml

from conftest import ROOT
from kubelet import Kubelet

DOCUMENTS = ROOT / "tests" / "documents"
MANIFESTS = DOCUMENTS / "manifests"
PAGE = ROOT / "doc" / "documents.md"


def test_every_file_stands_in_the_page():
    linked = set(re.findall(r"\(\.\./tests/documents/([^)]+)\)", PAGE.read_text()))
    assert all((DOCUMENTS / name).is_file() for name in linked)
    files = {f"manifests/{path.name}" for path in MANIFESTS.iterdir()
             if path.suffix != ".md" and ".printed." not in path.name}
    assert files <= linked, files - linked
    for printed in MANIFESTS.glob("*.printed.yaml"):
        completed = sorted(MANIFESTS.glob(printed.name.replace(".printed.yaml", "*.yaml")))
        assert len(completed) > 1 and printed.with_name(printed.name + ".errors").stat().st_size > 0


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
