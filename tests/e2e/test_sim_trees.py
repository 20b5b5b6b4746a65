# SPDX-License-Identifier: Apache-2.0
"""The files around a simulated driver: that they agree with the readings, whatever happens."""

import ctypes
import os
import pathlib
import shutil
import stat
import struct
import subprocess
import time

import pytest

from conftest import SLUICE

PROFILES = ["dgx1", "dgx2", "dgx-a100", "hgx-h100", "t4x1", "t4x4", "workstation", "a100-mig"]
MAJORS = {"nvidia-uvm": 510, "nvidia-caps": 509, "nvidia-caps-imex-channels": 508}


def can_make_nodes(directory):
    try:
        os.mknod(directory / "node", stat.S_IFCHR | 0o600, os.makedev(195, 255))
    except PermissionError:
        return False
    os.unlink(directory / "node")
    return True


@pytest.fixture
def nodes(tmp_path):
    if not can_make_nodes(tmp_path):
        pytest.skip("making device nodes is not permitted here")


def bdf(gpu):
    """NVML's 8-digit upper-case name of a PCI function as sysfs writes it."""
    domain, rest = gpu["pci_bus_id"].split(":", 1)
    return f"{int(domain, 16):04x}:{rest.lower()}"


READ_NVML = r"""
import ctypes, json
nvml = ctypes.CDLL("libnvidia-ml.so.1")
text, number, handle = ctypes.create_string_buffer(96), ctypes.c_uint(), ctypes.c_void_p()
assert nvml.nvmlInit_v2() == 0
assert nvml.nvmlSystemGetDriverVersion(text, 96) == 0
driver, gpus = text.value.decode(), []
assert nvml.nvmlDeviceGetCount_v2(ctypes.byref(number)) == 0
for index in range(number.value):
    if nvml.nvmlDeviceGetHandleByIndex_v2(index, ctypes.byref(handle)) != 0:
        continue
    if nvml.nvmlDeviceGetUUID(handle, text, 96) != 0:
        continue
    gpu = {"uuid": text.value.decode()}
    assert nvml.nvmlDeviceGetMinorNumber(handle, ctypes.byref(number)) == 0
    gpu["minor"] = number.value
    pci = ctypes.create_string_buffer(68)
    assert nvml.nvmlDeviceGetPciInfo_v3(handle, pci) == 0
    gpu["pci_bus_id"] = pci.raw[36:68].split(b"\0")[0].decode()
    gpus.append(gpu)
print(json.dumps({"driver": driver, "gpus": gpus}))
"""


def check_agreement(machine, is_node=True):
    """For each GPU that is there: the same minor, bus id, UUID, NUMA node and version everywhere."""
    truth = machine.show()
    there = [gpu for gpu in truth["gpus"] if gpu["health"] != "unplugged"]
    version = truth["machine"]["driver_version"]
    nvml = machine.run("/usr/bin/python3", "-c", READ_NVML).ok().json
    answering = [gpu for gpu in there if gpu["health"] == "ok"]
    assert nvml["driver"] == version
    assert [(gpu["uuid"], gpu["minor"], gpu["pci_bus_id"]) for gpu in nvml["gpus"]] == \
        [(gpu["uuid"], gpu["minor"], gpu["pci_bus_id"]) for gpu in answering]

    assert version in machine.read("/proc/driver/nvidia/version").splitlines()[0]
    assert machine.read("/sys/module/nvidia/version") == version + "\n"
    assert sorted(os.listdir(machine.path("/proc/driver/nvidia/gpus"))) == \
        sorted(bdf(gpu) for gpu in there)
    for gpu in there:
        information = dict(
            (key.strip(), value.strip()) for key, value in
            (line.split(":", 1) for line in
             machine.read(f"/proc/driver/nvidia/gpus/{bdf(gpu)}/information").splitlines()))
        assert information["GPU UUID"] == gpu["uuid"]
        assert information["Device Minor"] == str(gpu["minor"])
        assert information["Bus Location"] == bdf(gpu)
        assert information["Model"] == gpu["name"]
        function = machine.path("/sys/bus/pci/devices") / bdf(gpu)
        assert function.is_symlink() and (function / "vendor").read_text() == "0x10de\n"
        assert (function / "numa_node").read_text() == f"{gpu['numa_node']}\n"
        assert (function / "driver").resolve().name == "nvidia"
        assert f"PCI_SLOT_NAME={bdf(gpu)}\n" in (function / "uevent").read_text()
        node = machine.path(f"/dev/nvidia{gpu['minor']}").lstat()
        if is_node:
            assert stat.S_ISCHR(node.st_mode) and node.st_rdev == os.makedev(195, gpu["minor"])
        for name in ("card", "render"):
            link = machine.path(f"/dev/dri/by-path/pci-{bdf(gpu)}-{name}")
            assert link.resolve().exists()
            assert (function / "drm" / link.resolve().name).is_dir()
    minors = sorted(int(name[6:]) for name in os.listdir(machine.path("/dev"))
                    if name.startswith("nvidia") and name[6:].isdigit())
    assert minors == sorted(gpu["minor"] for gpu in there)
    devices = os.listdir(machine.path("/sys/bus/pci/drivers/nvidia"))
    assert sorted(name for name in devices if ":" in name) == sorted(bdf(gpu) for gpu in there)


@pytest.mark.parametrize("profile", PROFILES)
def test_everything_agrees(machine, nodes, profile):
    machine.start(profile)
    check_agreement(machine)


def test_everything_agrees_with_permuted_minors(machine, nodes):
    machine.start("t4x4", "--minors", "3,1,0,2")
    assert [gpu["minor"] for gpu in machine.show()["gpus"]] == [3, 1, 0, 2]
    check_agreement(machine)


def test_everything_agrees_through_faults(machine, nodes):
    machine.start("dgx-a100", "--minors", "7,6,5,4,3,2,1,0")
    for step in (["inject", "hotunplug", "--gpu", "2"], ["inject", "lost", "--gpu", "5"],
                 ["inject", "hotplug", "--gpu", "2"], ["inject", "hotunplug", "--gpu", "0"],
                 ["heal", "--gpu", "5"], ["heal"], ["reload-driver"]):
        machine.sim(*step)
        check_agreement(machine)
    assert all(gpu["health"] == "ok" for gpu in machine.show()["gpus"])


def test_plain_files_need_no_privilege(machine):
    machine.start("dgx-a100", "--dev-style", "file")
    check_agreement(machine, is_node=False)
    assert machine.path("/dev/nvidiactl").is_file()


def test_openable_nodes_open(machine, nodes):
    machine.start("dgx-a100", "--dev-style", "openable", "--gpus", "4")
    numbers = [machine.path(f"/dev/sluice-sim{minor}").stat().st_rdev for minor in range(4)]
    assert len(set(numbers)) == 4
    assert not machine.path("/dev/nvidia0").exists()
    assert all(os.major(number) == 1 for number in numbers)


def test_ordinary_nodes(machine, nodes):
    machine.start("dgx-a100", "--mig", "single", "--fabric")
    numbers = {"nvidiactl": (195, 255), "nvidia-modeset": (195, 254), "nvidia-uvm": (510, 0),
               "nvidia-uvm-tools": (510, 1), "nvidia-caps/nvidia-cap1": (509, 1),
               "nvidia-caps/nvidia-cap2": (509, 2), "dri/card3": (226, 3),
               "dri/renderD131": (226, 131),
               "nvidia-caps-imex-channels/channel0": (508, 0)}
    for name, (major, minor) in numbers.items():
        status = machine.path("/dev").joinpath(name).lstat()
        assert stat.S_ISCHR(status.st_mode), name
        assert status.st_rdev == os.makedev(major, minor), name
    lines = machine.read("/proc/devices").splitlines()
    for name, major in MAJORS.items():
        assert f"{major:3d} {name}" in lines


def levels_by_path(machine, first, second):
    """NVML's topology level from the two paths alone: switches are upstream ports that both pass."""
    paths = [os.path.realpath(machine.path("/sys/bus/pci/devices") / bdf(gpu)).split("/")
             for gpu in (first, second)]
    common = os.path.commonprefix(paths)
    root = [part for part in common if part.startswith("pci")]
    if not root:
        return 40 if first["numa_node"] == second["numa_node"] else 50
    bridges = [part for part in common if ":" in part and not part.startswith("pci")]
    if not bridges:
        return 30
    rest = max(len(path) - len(common) for path in paths)
    return 10 if rest <= 2 else 20  # a downstream port and the GPU: one switch


@pytest.mark.parametrize("profile", PROFILES)
def test_topology_levels_follow_from_the_paths(machine, profile):
    machine.start(profile, "--dev-style", "file")
    truth = machine.show()
    for i, first in enumerate(truth["gpus"]):
        for j, second in enumerate(truth["gpus"]):
            if i != j:
                assert levels_by_path(machine, first, second) == truth["machine"]["levels"][i][j], \
                    (i, j)


def functions(machine, wanted):
    """PCI functions whose class begins with `wanted`."""
    directory = machine.path("/sys/bus/pci/devices")
    return sorted(name for name in os.listdir(directory)
                  if (directory / name / "class").read_text().startswith(wanted))


@pytest.mark.parametrize("profile, adapters, switches", [
    ("dgx1", 4, 0), ("dgx-a100", 10, 6), ("workstation", 0, 0), ("t4x1", 0, 0)])
def test_adapters_and_switches(machine, profile, adapters, switches):
    machine.start(profile, "--dev-style", "file")
    assert len(functions(machine, "0x0207") + functions(machine, "0x0200")) == adapters
    found = functions(machine, "0x0680")
    assert len(found) == switches
    remote = {link["peer"] for gpu in machine.show()["gpus"] for link in gpu["nvlink"]
              if ":" in link["peer"]}
    assert {name[4:] for name in remote} == {name.upper() for name in found}


def test_adapters_share_switches_with_gpus(machine):
    machine.start("dgx-a100", "--dev-style", "file")
    directory = machine.path("/sys/bus/pci/devices")
    roots = {}
    for kind in ("0x0302", "0x0207"):
        for name in functions(machine, kind):
            port = os.path.realpath(directory / name).split("/sys/devices/")[1].split("/")[1]
            roots.setdefault(port, []).append(kind)
    shared = [kinds for kinds in roots.values() if "0x0302" in kinds]
    assert len(shared) == 4 and all(sorted(kinds) == ["0x0207"] * 2 + ["0x0302"] * 2
                                    for kinds in shared)


def test_config_space_is_coherent(machine):
    machine.start("dgx-a100", "--dev-style", "file", "--vgpu-guest")
    directory = machine.path("/sys/bus/pci/devices")
    for name in os.listdir(directory):
        config = (directory / name / "config").read_bytes()
        assert len(config) in (256, 4096)  # ports have extended capabilities
        vendor, device = struct.unpack_from("<HH", config, 0)
        assert (directory / name / "vendor").read_text() == f"0x{vendor:04x}\n"
        assert (directory / name / "device").read_text() == f"0x{device:04x}\n"
        code = config[0x0b] << 16 | config[0x0a] << 8 | config[0x09]
        assert (directory / name / "class").read_text() == f"0x{code:06x}\n"
        seen, at = {}, config[0x34]
        while at:
            assert at not in seen, "the capabilities go in a circle"
            seen[at], at = config[at], config[at + 1]
        if code == 0x060400:
            assert config[0x0e] & 0x7f == 1
            assert config[0x18] == int(name.split(":")[1], 16)
            assert config[0x18] <= config[0x19] <= config[0x1a]
        if (code >> 8) == 0x0302:
            assert seen.get(0xd0) == 0x09 and config[0xd3:0xd5] == b"VF"
            assert b"580.105.08" in config[0xd0:]
            assert len((directory / name / "resource").read_text().splitlines()) == 13


@pytest.mark.skipif(shutil.which("lspci") is None, reason="lspci is not installed")
@pytest.mark.parametrize("profile", ["dgx1", "dgx-a100", "hgx-h100", "t4x4", "workstation"])
def test_lspci_lists_the_gpus(machine, profile):
    machine.start(profile, "--dev-style", "file")
    done = subprocess.run(["lspci", "-D", "-n", "-O", f"sysfs.path={machine.path('/sys/bus/pci')}"],
                          capture_output=True, text=True, timeout=30, check=True)
    listed = [line.split()[0] for line in done.stdout.splitlines()
              if line.split()[1] in ("0302:", "0300:") and line.split()[2].startswith("10de:")]
    assert sorted(listed) == sorted(bdf(gpu) for gpu in machine.show()["gpus"])
    assert done.stderr == ""


def test_lost_gpu_answers_with_ones(machine):
    machine.start("dgx-a100", "--dev-style", "file")
    config = machine.path("/sys/bus/pci/devices/0000:47:00.0/config")
    assert config.read_bytes()[:2] == b"\xde\x10"
    machine.sim("inject", "lost", "--gpu", "2")
    assert config.read_bytes() == b"\xff" * 256
    machine.sim("heal")
    assert config.read_bytes()[:2] == b"\xde\x10"


def test_mig_capabilities(machine, nodes):
    machine.start("dgx-a100", "--mig", "mixed")
    text = machine.read("/proc/driver/nvidia-caps/mig-minors")
    minors = dict(line.rsplit(" ", 1) for line in text.splitlines())
    assert text.startswith("config 1\nmonitor 2\ngpu0/gi0/access 3\n")
    assert text.endswith("gpu31/gi14/ci7/access 4322\n")
    capabilities = machine.path("/proc/driver/nvidia/capabilities")
    assert "DeviceFileMode: 256\n" in (capabilities / "mig/config").read_text()
    expected = set()
    for gpu in machine.show()["gpus"]:
        for instance in gpu["mig"]["instances"]:
            for name in (f"gi{instance['gi']}", f"gi{instance['gi']}/ci{instance['ci']}"):
                expected.add((gpu["minor"], name))
    found = set()
    for path in capabilities.glob("gpu*/mig/**/access"):
        parts = path.relative_to(capabilities).parts
        minor, name = int(parts[0][3:]), "/".join(parts[2:-1])
        found.add((minor, name))
        body = dict(line.split(": ") for line in path.read_text().splitlines())
        assert body == {"DeviceFileMinor": minors[f"gpu{minor}/{name}/access"],
                        "DeviceFileMode": "292", "DeviceFileModify": "1"}
        node = machine.path(f"/dev/nvidia-caps/nvidia-cap{body['DeviceFileMinor']}").lstat()
        assert node.st_rdev == os.makedev(509, int(body["DeviceFileMinor"]))
    assert found == expected and len(found) > 10


def test_mig_capabilities_follow_a_new_layout(machine):
    machine.start("dgx-a100", "--mig", "single", "--dev-style", "file")
    capabilities = machine.path("/proc/driver/nvidia/capabilities")
    before = {gpu["uuid"] for gpu in machine.show()["gpus"] for gpu in gpu["mig"]["instances"]}
    machine.sim("inject", "mig", "hetero")
    gpus = machine.show()["gpus"]
    for gpu in gpus:
        names = sorted(os.listdir(capabilities / f"gpu{gpu['minor']}/mig"))
        assert names == sorted({f"gi{instance['gi']}" for instance in gpu["mig"]["instances"]})
    assert len(gpus[0]["mig"]["instances"]) == 3 and len(before) == 56


def test_no_mig_files_without_mig(machine):
    machine.start("dgx1", "--dev-style", "file")
    assert not machine.path("/proc/driver/nvidia-caps").exists()
    assert not machine.path("/dev/nvidia-caps").exists()
    assert not machine.path("/proc/driver/nvidia/capabilities/mig").exists()


def test_params_are_readable_by_nvidia_modprobe(machine):
    machine.start("t4x1")
    values = {}
    for line in machine.read("/proc/driver/nvidia/params").splitlines()[:6]:
        key, value = line.split(": ")
        assert len(key) < 32
        values[key] = int(value)
    assert values["DeviceFileMode"] == 438 and values["ModifyDeviceFiles"] == 1
    assert machine.read("/proc/driver/nvidia/params").splitlines()[-1] == 'ExcludedGpus: ""'


@pytest.mark.parametrize("module, text", [
    ("open", "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  580.105.08  Release Build  ("),
    ("closed", "NVRM version: NVIDIA UNIX x86_64 Kernel Module  580.105.08  ")])
def test_version_forms(machine, module, text):
    machine.start("t4x1", "--kernel-module", module)
    first, second = machine.read("/proc/driver/nvidia/version").splitlines()
    assert first.startswith(text) and second.startswith("GCC version:  ")


@pytest.mark.parametrize("layout, directory", [
    ("debian", "usr/lib/x86_64-linux-gnu"), ("rhel", "usr/lib64")])
def test_driver_root(machine, layout, directory):
    machine.start("dgx-a100", "--layout", layout, "--dev-style", "file")
    libraries = machine.root / directory
    assert os.readlink(libraries / "libcuda.so.1") == "libcuda.so.580.105.08"
    for name in ("libcuda.so.1", "libnvidia-ml.so.1", "libnvidia-ptxjitcompiler.so.1"):
        ctypes.CDLL(str(libraries / name))  # the loader takes it
    assert machine.path("/usr/bin/nvidia-smi").stat().st_mode & 0o111
    assert machine.path("/lib/firmware/nvidia/580.105.08/gsp_ga10x.bin").stat().st_size > 0
    ldconfig = shutil.which("ldconfig") or "/sbin/ldconfig"
    if not pathlib.Path(ldconfig).exists():
        pytest.skip("ldconfig is not installed")
    listed = subprocess.run([ldconfig, "-p", "-C", str(machine.path("/etc/ld.so.cache"))],
                            capture_output=True, text=True, timeout=30, check=True).stdout
    assert f"libcuda.so.1 (libc6,x86-64) => /{directory}/libcuda.so.1" in listed
    for line in listed.splitlines()[1:]:
        assert (machine.root / line.split("=> /")[1]).exists(), line


def test_half_installed_drivers(machine_factory, nodes):
    def start(name):
        machine = machine_factory()
        machine.start("t4x1", "--break", name)
        return machine

    machine = start("uvm-missing")
    assert not machine.path("/dev/nvidia-uvm").exists()
    assert "nvidia-uvm" not in machine.read("/proc/devices")
    machine = start("stale-dri")
    drm = machine.path("/sys/bus/pci/devices/0000:00:1e.0/drm")
    if not drm.exists():
        drm = next(machine.path("/sys/bus/pci/devices").glob("*/drm"))
    stale = [name for name in os.listdir(drm) if not machine.path(f"/dev/dri/{name}").exists()]
    assert stale == ["controlD64"]
    machine = start("wrong-minor")
    assert machine.path("/dev/nvidia0").lstat().st_rdev == os.makedev(195, 1)
    machine = start("mode-0600")
    assert stat.S_IMODE(machine.path("/dev/nvidia0").lstat().st_mode) == 0o600


def test_sync_changes_only_what_differs(machine):
    machine.start("dgx-a100", "--dev-style", "file")

    def stamps():
        return {str(path): (path.lstat().st_ino, path.lstat().st_ctime_ns)
                for path in machine.root.rglob("*") if path.name not in ("kmsg", "uevent")}

    before = stamps()
    machine.sim("sync")
    assert stamps() == before
    machine.sim("inject", "lost", "--gpu", "0")
    changed = {path for path, stamp in stamps().items() if before.get(path) != stamp}
    files = {os.path.basename(path) for path in changed if os.path.isfile(path)}
    assert files == {"config", ".sluice-sim"}


def test_what_was_removed_by_hand_comes_back(machine):
    machine.start("t4x1", "--dev-style", "file")
    machine.path("/proc/driver/nvidia/version").unlink()
    machine.path("/dev/nvidia0").unlink()
    machine.sim("sync")
    check_agreement(machine, is_node=False)


def test_numa_nodes(machine):
    machine.start("dgx-a100", "--dev-style", "file")
    nodes = sorted(machine.path("/sys/devices/system/node").glob("node*"))
    assert len(nodes) == 8
    for gpu in machine.show()["gpus"]:
        function = machine.path("/sys/bus/pci/devices") / bdf(gpu)
        node = machine.path(f"/sys/devices/system/node/node{gpu['numa_node']}")
        assert (function / "local_cpulist").read_text() == (node / "cpulist").read_text()
        assert (function / "local_cpus").read_text() == (node / "cpumap").read_text()
    distances = (nodes[0] / "distance").read_text().split()
    assert distances[0] == "10" and len(distances) == 8
    product = machine.read("/sys/class/dmi/id/product_name")
    assert product == machine.show()["machine"]["product"] + "\n"


@pytest.mark.skipif(os.geteuid() != 0, reason="a mount namespace needs root")
def test_exec_with_mounts(machine):
    if subprocess.run(["unshare", "-m", "mount", "-t", "tmpfs", "none", "/mnt"],
                      capture_output=True, check=False).returncode != 0:
        pytest.skip("mount namespaces are not permitted here")
    machine.start("dgx-a100", "--dev-style", "file")
    reply = machine.sim("exec", "--mounts", "--", "/bin/sh", "-c",
                        "ls /proc/driver/nvidia/gpus; cat /sys/bus/pci/devices/0000:07:00.0/vendor;"
                        "ls /dev/nvidia0 /dev/null /sys/devices/system/cpu/online; readlink -f "
                        "/sys/bus/pci/devices/0000:07:00.0; echo x >/dev/null && echo fine")
    assert "0000:07:00.0\n" in reply.out and "0x10de\n" in reply.out
    assert "/sys/devices/pci0000:00/" in reply.out and reply.out.endswith("fine\n"), reply
    assert not os.path.exists("/dev/nvidia0") or os.path.exists("/proc/driver/nvidia/version")


@pytest.mark.skipif(os.geteuid() != 0, reason="a mount namespace needs root")
def test_exec_with_mounts_shows_the_specifications_of_the_machine(machine):
    """Whether this computer has a /var/run/cdi or not, which stays as it is; and the rest of /run is there."""
    if subprocess.run(["unshare", "-m", "mount", "-t", "tmpfs", "none", "/mnt"],
                      capture_output=True, check=False).returncode != 0:
        pytest.skip("mount namespaces are not permitted here")
    machine.start("t4x1", "--dev-style", "file")
    machine.sim("exec", "--mounts", "--", "/bin/sh", "-c", "echo {} >/var/run/cdi/made.json")
    specifications = machine.path("/var/run/cdi")
    assert (specifications / "made.json").read_text() == "{}\n"
    before = sorted(os.listdir("/run"))
    seen = machine.sim("exec", "--mounts", "--", "ls", "-a", "/run/cdi", "/run").out.split()
    assert "made.json" in seen and set(before) <= set(seen)
    assert sorted(os.listdir("/run")) == before
    for place in ("mkdir /run/cdi", "true"):
        done = subprocess.run(
            ["unshare", "-m", "/bin/sh", "-c", f'mount -t tmpfs none /run && {place} && exec "$@"', "sh",
             SLUICE, "sim", "exec", "--mounts", "--root", machine.root, "--state", machine.state,
             "--", "cat", "/var/run/cdi/made.json"],
            env=machine.base, capture_output=True, text=True, check=False, timeout=60)
        assert done.stdout == "{}\n", (place, done)


def test_kernel_log_is_stamped_with_the_monotonic_clock(machine):
    """Readers take the age of a record from it; only a virtual machine has a time of its own."""
    machine.start("t4x1")
    before = time.monotonic_ns() // 1000
    machine.sim("inject", "xid", "13", "--gpu", "0")
    stamp = int(machine.read("kmsg").splitlines()[0].split(",")[2])
    assert before <= stamp <= time.monotonic_ns() // 1000


def test_kernel_log_of_a_virtual_machine_has_its_time(machine):
    machine.start("t4x1", "--clock", "virtual")
    machine.sim("clock", "advance", "90s")
    machine.sim("inject", "xid", "13", "--gpu", "0")
    assert machine.read("kmsg").splitlines()[0].split(",")[2] == "90000000"
