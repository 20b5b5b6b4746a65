# SPDX-License-Identifier: Apache-2.0
"""`sluice devices --rdma`: the adapters of a simulated machine, well and with each fault."""

from conftest import SLUICE


def adapters(machine):
    found = machine.run("sluice", "devices", "--rdma", "--output", "json").ok().json
    return found, {device["name"]: (adapter, device) for adapter in found["adapters"]
                   for device in adapter["rdma_devices"]}


def reasons(adapter):
    return [(row["reason"], row["subject"]) for row in adapter["reasons"]]


def test_a_machine_that_is_well(machine):
    machine.start("dgx-a100")
    found, devices = adapters(machine)
    assert found["simulated"] and found["netns_mode"] == "shared" and not found["truncated"]
    assert all(found["modules"].values()) and found["rdma_cm"]["state"] in ("ok", "stand-in")
    assert list(devices) == [f"mlx5_{n}" for n in range(10)]
    for number, (adapter, device) in enumerate(devices.values()):
        ethernet = number >= 8
        assert adapter["simulated"] and adapter["offered"] and not adapter["reasons"]
        assert adapter["vendor"] == "15b3" and adapter["driver"] == "mlx5_core"
        assert [row["link_type"] for row in adapter["interfaces"]] == ["ether" if ethernet else "infiniband"]
        port, = device["ports"]
        assert port["up"] and port["rate_mbit"] == 200_000 and not port["degraded"]
        assert port["counters"]["port_xmit_bytes"] == 1_000_000 * (number + 1)
        assert port["counters"]["link_downed"] == 0
        assert port["link_layer"] == ("Ethernet" if ethernet else "InfiniBand")
        assert [node["kind"] for node in device["nodes"]] == ["uverbs", "umad"] + ["issm"] * (not ethernet)
        assert all(node["state"] in ("ok", "stand-in") for node in device["nodes"])
    assert [adapter["numa_node"] for adapter, _ in devices.values()][:8] == [3, 3, 1, 1, 7, 7, 5, 5]


def test_each_fault_has_its_word(machine):
    machine.start("dgx-a100")
    for fault in (("0", "down"), ("1", "rate", "100"), ("2", "unbound"), ("3", "gone"),
                  ("mlx5_4", "no-node"), ("5", "wrong-node")):
        machine.sim("inject", "rdma", *fault)
    found, devices = adapters(machine)
    port = devices["mlx5_0"][1]["ports"][0]
    assert not port["up"] and port["state"] == "1: DOWN" and devices["mlx5_0"][0]["offered"]
    assert devices["mlx5_1"][1]["ports"][0]["degraded"]
    assert not devices["mlx5_6"][1]["ports"][0]["degraded"]
    assert len(found["adapters"]) == 9 and "mlx5_3" not in devices
    unbound = [adapter for adapter in found["adapters"] if not adapter["rdma_devices"]]
    assert [reasons(adapter) for adapter in unbound] == [[("no driver bound", None)]]
    assert reasons(devices["mlx5_4"][0]) == [("node missing", "/dev/infiniband/uverbs4")]
    assert reasons(devices["mlx5_5"][0]) == [("node has wrong numbers", "/dev/infiniband/uverbs5")]

    text = machine.run("sluice", "devices", "--rdma").ok().out
    assert text.startswith("8 simulated RDMA devices on 9 network adapters\n")
    assert "mlx5_0 (simulated)" in text and "1: DOWN, 2: Polling" in text
    assert "mlx5_1 port 1 carries 100 Gb/s; adapters like it carry 200" in text
    assert "node missing: /dev/infiniband/uverbs4" in text and "uverbs4!" in text

    machine.sim("heal")
    _, devices = adapters(machine)
    assert len(devices) == 10 and all(adapter["offered"] for adapter, _ in devices.values())


def test_uevents_of_an_adapter_that_leaves_and_returns(machine):
    machine.start("dgx1")
    machine.sim("inject", "rdma", "mlx5_1", "gone")
    machine.sim("inject", "rdma", "mlx5_1", "back")
    records = (machine.root / "uevent").read_bytes().split(b"\0\0")
    assert [record.split(b"\0")[1] for record in records if record] == [b"ACTION=remove", b"ACTION=add"]
    assert all(b"SUBSYSTEM=infiniband" in record for record in records if record)


def test_exclusive_netns(machine):
    machine.start("dgx1")
    machine.sim("inject", "rdma-netns", "exclusive")
    found, devices = adapters(machine)
    assert found["netns_mode"] == "exclusive"
    assert all(reasons(adapter) == [("rdma subsystem is in exclusive netns mode", None)]
               for adapter, _ in devices.values())
    assert "rdma system set netns shared" in machine.run("sluice", "devices", "--rdma").ok().out


def test_what_lies_between_gpus_and_adapters(machine):
    """Read by doctor, from configuration space and the groups of the IOMMU."""
    machine.start("dgx-a100")

    def found():
        return {(row["id"], row["status"]) for check in ("gdr.acs", "gdr.iommu")
                for row in machine.run("sluice", "doctor", "--only", check, "--output", "json").json["findings"]}

    well = {("gdr.acs", "ok"), ("gdr.iommu", "ok")}
    assert found() == well
    machine.sim("inject", "acs", "on")
    machine.sim("inject", "iommu", "translate")
    assert found() >= {("gdr.acs", "warn"), ("gdr.iommu", "warn")}
    machine.sim("heal")
    assert found() == well
    machine.sim("inject", "acs", "maybe", rc=2)


def test_refused_faults(machine):
    machine.start("dgx1")
    for arguments, text in ((("mlx5_4", "down"), "mlx5_0 to mlx5_3"), (("0", "dow"), "did you mean 'down'?"),
                            (("0", "down", "2"), "each adapter has 1"), (("0", "rate"), "not a rate"),
                            (("0", "gone", "1"), "takes no number")):
        assert text in machine.sim("inject", "rdma", *arguments, rc=2).err
    machine.sim("inject", "rdma-netns", "closed", rc=2)


def test_a_machine_without_adapters(machine):
    machine.start("workstation")
    assert adapters(machine)[0]["adapters"] == []
    text = machine.run("sluice", "devices", "--rdma").ok().out
    assert "no network adapter" in text
    machine.sim("inject", "rdma", "all", "down", rc=2)


def test_real_machine_answers():
    """Whatever this machine has, the question is answered and nothing is simulated."""
    import json, os, subprocess
    env = {key: value for key, value in os.environ.items() if not key.startswith("SLUICE")}
    reply = subprocess.run([SLUICE, "devices", "--rdma", "--output", "json"], env=env,
                           capture_output=True, text=True, timeout=60, check=True)
    assert json.loads(reply.stdout)["simulated"] is False
