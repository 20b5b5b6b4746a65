# SPDX-License-Identifier: Apache-2.0
"""RDMA adapters as resources of the kubelet: a simulated machine and a kubelet that registers, lists,
allocates, dies and comes again."""

import json
import os
import pathlib

import pytest

from conftest import wait_until
from kubelet import Kubelet, grpc

DOCUMENTS = pathlib.Path(__file__).parents[1] / "documents" / "rdma"


@pytest.fixture
def node(machine):
    """Four InfiniBand adapters and a kubelet; its service does not run yet."""
    machine.start("dgx1")
    directory = machine.path("/var/lib/kubelet/device-plugins")
    directory.mkdir(parents=True, exist_ok=True)
    machine.kubelet = Kubelet(directory).start()
    machine.config = machine.path("/k8s-rdma-shared-dev-plugin/config.json")
    yield machine
    machine.kubelet.die()


def configure(node, *entries, **more):
    node.config.parent.mkdir(parents=True, exist_ok=True)
    whole = {"configList": [{"rdmaHcaMax": 4, **entry} for entry in entries], **more}
    new = node.config.with_suffix(".new")
    new.write_text(json.dumps(whole))
    new.rename(node.config)


def hca(**more):
    return {"resourceName": "hca", "selectors": {"vendors": ["15b3"]}, **more}


def rdma(node):
    return node.run("sluice", "agent", "status", "-o", "json").ok().json["rdma"]


def nodes(answer):
    assert not answer.envs and not answer.mounts and not answer.annotations
    assert all(spec.host_path == spec.container_path and spec.permissions == "rwm"
               for spec in answer.devices)
    return [spec.container_path.removeprefix("/dev/infiniband/") for spec in answer.devices]


def test_registered_listed_allocated(node):
    configure(node, hca(rdmaHcaMax=1000), {"resourceName": "one", "devices": ["ib1"], "management": False})
    node.agent()
    whole = node.kubelet.wait(1000, "rdma/hca")
    assert list(whole.devices) == [str(n) for n in range(1000)]
    every = sorted(f"{kind}{n}" for n in range(4) for kind in ("uverbs", "umad", "issm"))
    assert nodes(whole.allocate("999")) == nodes(whole.allocate("0", "7")) == sorted(every + ["rdma_cm"])
    assert nodes(node.kubelet.wait(4, "rdma/one").allocate("3")) == ["rdma_cm", "uverbs1"]
    for wrong in ("1000", "00", "GPU-1"):
        with pytest.raises(grpc.RpcError) as refused:
            whole.allocate(wrong)
        assert refused.value.code() == grpc.StatusCode.INVALID_ARGUMENT
        assert refused.value.details() == ('invalid allocation request for "rdma/hca": invalid request: '
                                           f'unknown device: {wrong}')
    told = rdma(node)["resources"][0]
    assert (told["name"], told["units"], told["adapters"], told["healthy"], told["problem"]) == \
        ("rdma/hca", 1000, 4, 4, None)
    assert (told["kubelet"]["endpoint"], told["kubelet"]["state"], told["kubelet"]["allocations"],
            told["kubelet"]["refused"]) == ("rdma-rdma-hca.sock", "attached", 2, 3)
    assert "rdma/hca: 1000 units, 4 of 4 adapters healthy, attached, 2 allocations" in \
        node.run("sluice", "agent", "status").ok().out


@pytest.mark.parametrize("name, resources, absent", [
    ("readme-devices.json", {"rdma/hca_shared_devices_a": 1000}, ["rdma/hca_shared_devices_b"]),
    ("readme-periodic.json", {}, ["rdma/cx5_bond_shared_devices_a", "rdma/cx6dx_shared_devices_b"]),
    ("four-hcas.json", {f"rdma/shared_ib{n}": 100 for n in range(4)}, []),
])
def test_files_that_people_have(node, name, resources, absent):
    """The adapters of this machine are ConnectX-4: what a file says of others is not offered."""
    node.config.parent.mkdir(parents=True)
    node.config.write_bytes((DOCUMENTS / name).read_bytes())
    node.agent()
    for resource, units in resources.items():
        node.kubelet.wait(units, resource)
    if name == "four-hcas.json":
        answer = nodes(node.kubelet.resource("rdma/shared_ib2").allocate("5"))
        assert answer == ["issm2", "rdma_cm", "umad2", "uverbs2"]
    wait_until(lambda: len(rdma(node)["notes"]) == len(absent), what="what is not offered")
    for resource, note in zip(absent, rdma(node)["notes"]):
        assert note == f"{resource} has nothing to hand out on this node: no adapter of this machine " \
            "matches its selectors"
        assert node.kubelet.resource(resource) is None


def soft_adapter(node, name, interface):
    """Files as rdma_rxe of Linux 6.1 makes them, beside the simulated adapters; its node is /dev/null. Returns its port."""
    device = node.path(f"/sys/devices/virtual/infiniband/{name}")
    port = device / "ports/1"
    port.mkdir(parents=True)
    (device / "parent").write_text(f"{interface}\n")
    for file, text in (("state", "4: ACTIVE"), ("phys_state", "5: LinkUp"), ("rate", "2.5 Gb/sec (1X SDR)"),
                       ("link_layer", "Ethernet")):
        (port / file).write_text(f"{text}\n")
    node.path(f"/sys/class/infiniband/{name}").symlink_to(f"../../devices/virtual/infiniband/{name}")
    node.path(f"/sys/class/net/{interface}").mkdir()
    node.path(f"/sys/class/net/{interface}/type").write_text("1\n")
    verbs = node.path("/sys/class/infiniband_verbs/uverbs90")
    verbs.mkdir()
    (verbs / "ibdev").write_text(f"{name}\n")
    (verbs / "dev").write_text("1:3\n")
    node.path("/dev/infiniband/uverbs90").symlink_to("/dev/null")
    return port


def test_an_adapter_in_software(node):
    """Offered where the configuration says so, and else it is told what it would have to say."""
    port = soft_adapter(node, "rxe0", "veth0")
    soft = {"resourceName": "soft", "selectors": {"ifNames": ["veth0"]}, "healthCheck": "port"}
    configure(node, soft, hca(softwareAdapters=True))
    node.agent()
    assert "uverbs90" not in nodes(node.kubelet.wait(4, "rdma/hca").allocate("0"))  # it has no vendor
    wait_until(lambda: len(rdma(node)["notes"]) == 2, what="what is not offered")
    assert rdma(node)["notes"][0] == "rxe0 not offered as rdma/soft: software adapter, and softwareAdapters is not set"
    assert node.kubelet.resource("rdma/soft") is None

    configure(node, soft | {"softwareAdapters": True})
    one = node.kubelet.wait(4, "rdma/soft")
    assert nodes(one.allocate("0")) == ["rdma_cm", "uverbs90"] and not rdma(node)["notes"]
    text = node.run("sluice", "devices", "--rdma").ok().out
    assert text.startswith("4 simulated RDMA devices on 4 network adapters, and 1 in software\n")
    line, = [line.split() for line in text.splitlines() if "rxe0" in line]
    assert line[:9] == ["software", "rxe0", "rdma_rxe", "veth0", "-", "1", "Ethernet", "up", "2.5"]
    found = node.run("sluice", "devices", "--rdma", "--output", "json").ok().json["adapters"][-1]
    assert found["software"] and found["offered"] and not found["simulated"]
    assert [found[key] for key in ("bus", "vendor", "device", "class", "numa_node")] == [None] * 5
    assert "rxe0" not in node.run("sluice", "topo").ok().out

    (port / "state").write_text("1: DOWN\n")
    (port / "phys_state").write_text("3: Disabled\n")
    wait_until(lambda: set(one.devices.values()) == {"Unhealthy"}, what="an unhealthy resource")
    assert "rxe0 (software) is not handed out as rdma/soft: no port is up" in rdma(node)["notes"]
    (port / "state").write_text("4: ACTIVE\n")
    (port / "phys_state").write_text("5: LinkUp\n")
    node.kubelet.wait(4, "rdma/soft")


def test_adapters_go_and_come_back(node):
    configure(node, {"resourceName": "one", "devices": ["ib1"]}, hca())
    node.agent()
    one, whole = node.kubelet.wait(4, "rdma/one"), node.kubelet.wait(4, "rdma/hca")
    node.sim("inject", "rdma", "1", "gone")
    wait_until(lambda: set(one.devices.values()) == {"Unhealthy"}, what="an unhealthy resource")
    wait_until(lambda: "uverbs1" not in nodes(whole.allocate("0")), what="an answer without it")
    with pytest.raises(grpc.RpcError) as refused:
        one.allocate("0")
    assert "no adapter of this machine matches its selectors" in refused.value.details()
    assert "rdma/one has nothing to hand out on this node: no adapter of this machine matches its " \
        "selectors" in rdma(node)["notes"]
    node.sim("inject", "rdma", "1", "back")
    node.kubelet.wait(4, "rdma/one")
    assert nodes(one.allocate("0")) == ["issm1", "rdma_cm", "umad1", "uverbs1"]
    assert rdma(node)["notes"] == []
    assert not one.ended.is_set()


def test_why_one_is_not_offered(node):
    configure(node, hca())
    node.sim("inject", "rdma", "0", "unbound")
    node.sim("inject", "rdma", "2", "no-node")
    node.agent()
    whole = node.kubelet.wait(4, "rdma/hca")
    assert nodes(whole.allocate("0")) == ["issm1", "issm3", "rdma_cm", "umad1", "umad3", "uverbs1", "uverbs3"]
    notes = rdma(node)["notes"]
    assert len(notes) == 2
    assert notes[0].endswith(" not offered as rdma/hca: no driver bound")
    assert notes[1].endswith(" not offered as rdma/hca: node missing: /dev/infiniband/uverbs2")


def test_the_kubelet_restarts(node):
    configure(node, hca())
    node.agent()
    for _ in range(3):
        node.kubelet.wait(4, "rdma/hca")
        node.kubelet.die()
        node.kubelet.start()
    node.kubelet.wait(4, "rdma/hca")


def test_a_configmap_is_swapped(node):
    """A volume of Kubernetes: the file is a link through ..data, which is replaced."""
    volume = node.config.parent
    volume.mkdir(parents=True)

    def publish(version, text):
        (volume / version).mkdir()
        (volume / version / "config.json").write_text(text)
        (volume / "..tmp").symlink_to(version)
        os.rename(volume / "..tmp", volume / "..data")

    publish("..1", json.dumps({"configList": [{**hca(), "rdmaHcaMax": 2}]}))
    node.config.symlink_to("..data/config.json")
    node.agent()
    node.kubelet.wait(2, "rdma/hca")
    publish("..2", json.dumps({"configList": [{**hca(), "rdmaHcaMax": 5},
                                              {"resourceName": "b", "rdmaHcaMax": 1, "devices": ["ib0"]}]}))
    endpoint = node.kubelet.wait(5, "rdma/hca")
    node.kubelet.wait(1, "rdma/b")
    publish("..3", '{"configList": [{"resourceName": "x"}]}')
    wait_until(lambda: rdma(node)["error"], what="a refusal")
    assert "config.json:1:17: configList[0]: neither devices nor selectors is set" in rdma(node)["error"]
    assert len(node.kubelet.devices("rdma/hca")) == 5 and not endpoint.ended.is_set()
    publish("..4", json.dumps({"configList": [{**hca(), "rdmaHcaMax": 3}]}))
    node.kubelet.wait(3, "rdma/hca")
    wait_until(lambda: node.kubelet.resource("rdma/b") is None, what="the end of rdma/b")
    assert rdma(node)["error"] is None


def test_own_keys(node, tmp_path):
    """Below `sluice.rdma` the file of the other plugin does not count."""
    configure(node, {"resourceName": "other", "devices": ["ib0"]})
    path = tmp_path / "c.yaml"
    path.write_text("sluice: {rdma: {configList: [{resourceName: hca, rdmaHcaMax: 3, "
                    "selectors: {ifNames: [ib0, ib1]}}]}}")
    node.agent("--config", path)
    assert nodes(node.kubelet.wait(3, "rdma/hca").allocate("0")) == ["rdma_cm", "uverbs0", "uverbs1"]
    assert node.kubelet.resource("rdma/other") is None
    path.write_text("{}")
    node.kubelet.wait(4, "rdma/other")
    wait_until(lambda: node.kubelet.resource("rdma/hca") is None, what="the end of rdma/hca")


def test_nothing_is_configured(node):
    node.agent()
    assert rdma(node) == {"resources": [], "notes": [], "error": None}


def test_what_the_files_mean_here(machine):
    """`sluice config`: a file is judged, shown in our own words, and held against the machine."""
    machine.start("dgx1")
    path = DOCUMENTS / "readme-devices.json"
    assert machine.run("sluice", "config", "check", "--strict", path).ok().out == f"{path}: ok\n"
    shown = machine.directory / "shown.yaml"
    shown.write_text(machine.run("sluice", "config", "show", path).ok().out)
    first = machine.run("sluice", "config", "show", "-o", "json", path).ok().json["rdma"]
    assert machine.run("sluice", "config", "show", "-o", "json", shown).ok().json["rdma"] == first
    entry = first["configList"][1]
    assert (entry["rdmaHcaMax"], entry["healthCheck"], entry["management"], entry["selectors"]) == \
        (500, "off", True, {"vendors": ["15b3"], "deviceIDs": ["1017"], "ifNames": ["ib3", "ib4"]})
    for what in (path, shown):
        assert machine.run("sluice", "config", "resources", "-o", "json", what).ok().json["rdma"] == {
            "resources": [{"name": "rdma/hca_shared_devices_a", "units": 1000, "adapters": ["mlx5_0", "mlx5_1"]},
                          {"name": "rdma/hca_shared_devices_b", "units": 500, "adapters": []}],
            "notes": ["rdma/hca_shared_devices_b: no adapter of this machine matches its selectors"]}
    text = machine.run("sluice", "config", "resources", path).ok().out
    assert "rdma/hca_shared_devices_a   1000  mlx5_0, mlx5_1\n" in text
