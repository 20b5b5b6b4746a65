# SPDX-License-Identifier: Apache-2.0
"""`sluice topo`: the matrix of each machine, from the driver and from /sys alone."""

import pytest

from conftest import SLUICE


def matrix(machine):
    """{("GPU0", "GPU1"): {"connection": "NV12", "pcie": "PXB", "nvlinks": 12}, ...}"""
    devices = machine.run("sluice", "topo", "--output", "json").ok().json["devices"]
    return {(row["name"], column): cell for row in devices for column, cell in row["to"].items()}


def gpu_cells(machine, key):
    found = matrix(machine)
    gpus = sorted({row for row, _ in found if row.startswith("GPU")}, key=lambda name: int(name[3:]))
    return [[found[(a, b)][key] if a != b else "X" for b in gpus] for a in gpus]


# remote GPU of each link, as measured on a DGX-1
DGX1 = [[1, 2, 3, 3, 4, 4], [0, 2, 2, 3, 5, 5], [0, 1, 1, 3, 3, 6], [0, 0, 1, 2, 2, 7],
        [0, 0, 5, 6, 7, 7], [1, 1, 4, 6, 6, 7], [2, 4, 5, 5, 7, 7], [3, 4, 4, 5, 6, 6]]


def test_dgx1_cube_mesh(machine):
    machine.start("dgx1")
    links = gpu_cells(machine, "nvlinks")
    for a in range(8):
        for b in range(8):
            if a != b:
                assert links[a][b] == DGX1[a].count(b), (a, b)
    names = gpu_cells(machine, "connection")
    assert names[0][3] == "NV2" and names[0][1] == "NV1"
    assert names[0][5] == "SYS"  # no NVLink between them
    pcie = gpu_cells(machine, "pcie")
    assert pcie[0][1] == "PIX" and pcie[0][2] == "PHB" and pcie[0][4] == "SYS"


@pytest.mark.parametrize("profile, links, pair, far", [
    ("dgx2", 6, "PIX", "SYS"), ("dgx-a100", 12, "PXB", "SYS"), ("hgx-h100", 18, "NODE", "SYS")])
def test_switches(machine, profile, links, pair, far):
    machine.start(profile)
    names, pcie = gpu_cells(machine, "connection"), gpu_cells(machine, "pcie")
    for a, row in enumerate(names):
        for b, cell in enumerate(row):
            assert cell == ("X" if a == b else f"NV{links}")
    assert pcie[0][1] == pair and pcie[0][-1] == far


def test_no_links(machine):
    machine.start("t4x4")
    assert gpu_cells(machine, "connection")[0] == ["X", "PHB", "PHB", "PHB"]


def test_a_link_that_is_down_does_not_count(machine):
    machine.start("dgx-a100", "--gpus", "2")
    machine.sim("inject", "nvlink", "3", "down", "--gpu", "0")
    assert gpu_cells(machine, "nvlinks")[0][1] == 11


def test_cpus_and_numa(machine):
    machine.start("dgx-a100")
    devices = machine.run("sluice", "topo", "--output", "json").ok().json["devices"]
    gpus = [device for device in devices if device["kind"] == "gpu"]
    assert [gpu["numa_node"] for gpu in gpus] == [3, 3, 1, 1, 7, 7, 5, 5]
    assert all(gpu["cpu_affinity"] for gpu in gpus)
    nics = [device for device in devices if device["kind"] == "nic"]
    assert len(nics) >= 8
    cells = {(row["name"], column): cell["pcie"] for row in devices
             for column, cell in row["to"].items()}
    assert cells[("GPU0", "NIC0")] == cells[("NIC0", "GPU0")] == "PXB"


def test_the_nearest_adapters_of_each_gpu(machine):
    machine.start("dgx-a100")
    devices = machine.run("sluice", "topo", "--output", "json").ok().json["devices"]
    nearest = [[(row["label"], row["pcie"]) for row in device["nearest_rdma"]]
               for device in devices if device["kind"] == "gpu"]
    assert nearest == [[(f"mlx5_{pair * 2}", "PXB"), (f"mlx5_{pair * 2 + 1}", "PXB")]
                       for pair in range(4) for _ in range(2)]
    assert all(device["rdma"] and device["simulated"] for device in devices if device["kind"] == "nic")
    # one that has no RDMA device is nobody's nearest
    machine.sim("inject", "rdma", "mlx5_0", "unbound")
    text = machine.run("sluice", "topo").ok().out
    assert "GPU0: nearest RDMA adapter (PXB): mlx5_1\n" in text
    assert "GPU2: nearest RDMA adapters (PXB): mlx5_2 mlx5_3\n" in text
    assert "NIC1 = mlx5_1 (simulated, 0000:" in text
    assert "NIC0 = 0000:0b:00.0 (simulated, no RDMA device, 0000:0b:00.0)" in text


def test_paths_alone_agree_with_the_driver(machine):
    """Without nvmlDeviceGetTopologyCommonAncestor the same levels come out of /sys."""
    for profile in ("dgx1", "dgx2", "dgx-a100", "t4x4"):
        machine.start(profile)
        told = gpu_cells(machine, "pcie")
        machine.sim("fault", "nvmlDeviceGetTopologyCommonAncestor", "ret=3")
        assert gpu_cells(machine, "pcie") == told, profile
        machine.stop()


def test_a_hung_gpu_keeps_its_place(machine):
    machine.start("dgx-a100")
    machine.sim("inject", "hang", "any", "--gpu", "2")
    reply = machine.run("sluice", "topo", "--timeout", "4s", "--output", "json").ok()
    devices = {device["name"]: device for device in reply.json["devices"]}
    assert devices["GPU2"]["to"]["GPU3"]["connection"] == "PXB"
    assert devices["GPU2"]["numa_node"] == 1
    assert devices["GPU0"]["to"]["GPU1"]["connection"] == "NV12"


def test_matrix_for_people(machine):
    machine.start("dgx-a100")
    lines = machine.run("sluice", "topo").ok().out.splitlines()
    assert "simulated" in lines[0]
    head = lines[2].split()
    assert head[:8] == [f"GPU{n}" for n in range(8)] and "CPU AFFINITY" in lines[2]
    first = lines[3].split()
    assert first[0] == "GPU0" and first[1] == "X" and first[2:9] == ["NV12"] * 7
    assert any(line.startswith("X = itself") for line in lines)


def test_the_real_machine_is_not_mixed_in(machine):
    """A simulated machine without its trees shows no network card of the real one."""
    machine.start("t4x1")
    env = {key: value for key, value in machine.env.items() if key != "SLUICE_ROOT"}
    reply = machine.run("env", "-i", *[f"{key}={value}" for key, value in env.items()], SLUICE,
                        "topo", "--output", "json").ok()
    assert [device["kind"] for device in reply.json["devices"]] == ["gpu"]
