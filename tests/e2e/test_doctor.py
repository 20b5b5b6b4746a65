# SPDX-License-Identifier: Apache-2.0
"""`sluice doctor`: a healthy simulated node has nothing to mend, and each fault that is planted is
named by its check, and by no other."""

import os
import pathlib
import shutil
import socket
import tempfile

import pytest

from conftest import SLUICE, Machine

GPU = "0000:07:00.0"
PCI = f"/sys/bus/pci/devices/{GPU}"


class Plant:
    """Changes files of a machine, and puts them back as they were."""

    def __init__(self, machine):
        self.machine, self.saved = machine, []

    def _take(self, path):
        """Out of the way, to be put back by undo()."""
        kept = None
        if os.path.lexists(path):
            kept = pathlib.Path(tempfile.mkdtemp(prefix="kept-", dir=self.machine.directory)) / "it"
            os.rename(path, kept)
        self.saved.append((path, kept))

    def _save(self, name):
        path = self.machine.path(name)
        for parent in reversed(path.parents):
            if not parent.is_dir():
                self._take(parent)
                parent.mkdir()
        self._take(path)
        return path

    def file(self, name, text):
        self._save(name).write_text(text, encoding="utf-8")

    def link(self, name, target):
        os.symlink(target, self._save(name))

    def gone(self, name):
        self._save(name)

    def undo(self):
        for path, kept in reversed(self.saved):
            if path.is_dir() and not path.is_symlink():
                shutil.rmtree(path)
            else:
                path.unlink(missing_ok=True)
            if kept:
                os.rename(kept, path)
        self.saved = []


# --- a node as it should be ------------------------------------------------------------------------

PACKAGES = {"containerd": "2.1.4-1", "runc": "1.3.0-1", "podman": "5.4.2-1",
            "nvidia-container-toolkit-base": "1.18.0-1"}
LIBRARIES = "/usr/lib/x86_64-linux-gnu"
KUBELET = "/var/lib/kubelet"
FEATURES = "/etc/kubernetes/node-feature-discovery/features.d"


def status_of(**changed):
    """dpkg's list of packages, some of them of another version ("_" stands for "-")."""
    packages = {**PACKAGES, **{name.replace("_", "-"): version for name, version in changed.items()}}
    return "\n".join(f"Package: {name}\nStatus: install ok installed\nVersion: {version}\n"
                     for name, version in packages.items())


def make_socket(path):
    path.parent.mkdir(parents=True, exist_ok=True)
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(path))


def furnish(machine):
    """What the simulator does not make: a kubelet, a runtime, systemd and SELinux."""
    files = {
        "/etc/os-release": "ID=debian\nVERSION_ID=12\nPRETTY_NAME='Debian GNU/Linux 12'\n",
        "/var/lib/dpkg/status": status_of(),
        "/sys/fs/cgroup/cgroup.controllers": "cpu memory pids\n",
        "/sys/fs/selinux/enforce": "1",
        "/sys/fs/selinux/booleans/container_use_devices": "1 1",
        f"{FEATURES}/gfd": "nvidia.com/gpu.count=8\nnvidia.com/mig.capable=true\n",
        f"{FEATURES}/site": "# of this site\nsite.example/rack=7\n",
        "/proc/sys/kernel/osrelease": "6.1.0-28-amd64\n",
        "/run/systemd/system/.keep": "",
        "/proc/803/comm": "kubelet\n",
        f"{KUBELET}/plugins_registry/.keep": "",
    }
    for name, text in files.items():
        machine.path(name).parent.mkdir(parents=True, exist_ok=True)
        machine.path(name).write_text(text, encoding="utf-8")
    make_socket(machine.path(f"{KUBELET}/device-plugins/kubelet.sock"))
    make_socket(machine.path(f"{KUBELET}/pod-resources/kubelet.sock"))
    links = machine.path("/dev/char")
    links.mkdir(parents=True, exist_ok=True)
    for minor in [*range(8), 255]:
        os.symlink("../nvidiactl" if minor == 255 else f"../nvidia{minor}", links / f"195:{minor}")


# --- the faults ------------------------------------------------------------------------------------


def process(plant, pid, name, command="", context=""):
    plant.file(f"/proc/{pid}/comm", f"{name[:15]}\n")
    plant.file(f"/proc/{pid}/cmdline", command.replace(" ", "\0") + "\0")
    plant.file(f"/proc/{pid}/attr/current", context)


def no_module(plant):
    plant.gone("/sys/module/nvidia")
    plant.gone("/proc/driver/nvidia")


def nouveau_in_use(plant):
    plant.file("/sys/module/nouveau/refcnt", "3\n")


def secure_boot(plant):
    plant.file("/sys/firmware/efi/efivars/SecureBoot-8be4df61-93ca-11d2-aa0d-00e098032b8c",
               "\x06\0\0\0\x01")
    plant.file("/sys/module/nvidia/taint", "POE\n")


def old_library(plant):
    for name in ("libnvidia-ml", "libcuda"):
        plant.file(f"{LIBRARIES}/{name}.so.570.86.15", "")
        plant.link(f"{LIBRARIES}/{name}.so.1", f"{name}.so.570.86.15")


def second_driver(plant):
    plant.file("/usr/local/lib/libcuda.so.535.54.03", "")
    plant.link("/usr/local/lib/libcuda.so.1", "libcuda.so.535.54.03")


def old_runc(plant):
    plant.file("/var/lib/dpkg/status", status_of(runc="1.1.5+ds1-1"))
    plant.gone("/dev/char")


def hybrid(plant):
    plant.gone("/sys/fs/cgroup")
    plant.file("/sys/fs/cgroup/unified/cgroup.procs", "")
    plant.file("/var/lib/dpkg/status", status_of(crun="1.8.1-1"))


def hook(plant):
    plant.file("/usr/share/containers/oci/hooks.d/oci-nvidia-hook.json",
               '{"version": "1.0.0", "hook": {"path": "/usr/bin/nvidia-container-runtime-hook"}}')


ADAPTER = "/sys/bus/pci/devices/0000:0c:00.0"
PORT = "/sys/class/infiniband/mlx5_1/ports/1"
POD = "0::/kubepods.slice/kubepods-pod8e5d2f10_0c1b_4c67_9d36_3f6a5b0c7d11.slice/cri-containerd-1.scope\n"


def limits(plant, pid, memlock):
    plant.file(f"/proc/{pid}/limits", "Limit                     Soft Limit           Hard Limit           Units\n"
               f"Max locked memory         {memlock:<21}{memlock:<21}bytes\n")


def port_down(plant):
    plant.file(f"{PORT}/state", "1: DOWN\n")
    plant.file(f"{PORT}/phys_state", "2: Polling\n")


def small_runtime(plant):
    process(plant, 903, "containerd")
    limits(plant, 903, 65536)


def silent_fallback(plant):
    """As Kubernetes does it: IPC_LOCK for a user other than root gets into the bounding set only."""
    process(plant, 904, "python3")
    limits(plant, 904, 8388608)
    plant.file("/proc/904/status", "Name:\tpython3\nUid:\t1000\t1000\t1000\t1000\n"
               "CapEff:\t0000000000000000\nCapBnd:\t00000000a80465fb\n")
    plant.file("/proc/904/cgroup", POD)
    plant.link("/proc/904/fd/5", "/dev/infiniband/uverbs1")


def small_shm(plant):
    process(plant, 905, "python3")
    plant.file("/proc/905/mountinfo", "601 590 0:52 / /dev/shm rw,nosuid - tmpfs shm rw,size=65536k\n")
    for descriptor, name in enumerate(("nvidia0", "nvidia1", "nvidia-uvm")):
        plant.link(f"/proc/905/fd/{descriptor + 5}", f"/dev/{name}")


def redirection(plant):
    """A downstream port between a GPU and its adapter, with access control that redirects."""
    config = bytearray(4096)
    config[0x06], config[0x34] = 0x10, 0x40
    config[0x40:0x44] = bytes([0x10, 0, 0x62, 0])  # PCI Express, a downstream port
    config[0x100:0x108] = bytes([0x0d, 0, 1, 0, 0x1f, 0, 0x1d, 0])  # ACS, its control word
    plant.file("/sys/devices/pci0000:00/0000:00:01.0/0000:03:00.0/0000:04:00.0/config", config.decode("ascii"))


# What is planted -> the check that names it, and as what. Nothing else may change but `also`: what
# cannot be well with that fault either.
FAULTS = [
    ("another driver has a GPU", "driver.bound", "fail",
     lambda plant: plant.link(f"{PCI}/driver", "../../../bus/pci/drivers/nvidiafb"), ()),
    ("no driver has a GPU", "driver.bound", "fail", lambda plant: plant.gone(f"{PCI}/driver"), ()),
    ("nouveau is in use", "driver.nouveau", "fail", nouveau_in_use, ()),
    ("nouveau is not blocked", "driver.nouveau", "warn",
     lambda plant: plant.gone("/etc/modprobe.d"), ()),
    ("the module is not loaded", "driver.loaded", "fail", no_module, ("driver.headers",)),
    ("Secure Boot and an unsigned module", "driver.secureboot", "fail", secure_boot, ()),
    ("libraries of another version", "driver.match", "fail", old_library, ()),
    ("two installations of the driver", "driver.match", "fail", second_driver, ()),
    ("no libraries", "driver.match", "fail",
     lambda plant: plant.gone("/usr/lib"), ()),
    ("nvidia_uvm is not loaded", "driver.modules", "fail",
     lambda plant: plant.gone("/sys/module/nvidia_uvm"), ()),
    ("no node of a GPU", "driver.nodes", "fail", lambda plant: plant.gone("/dev/nvidia3"), ()),
    ("a directory in place of a node", "driver.nodes", "fail",
     lambda plant: plant.file("/dev/nvidiactl/x", ""), ()),
    ("no links for systemd, an old runc", "driver.devchar", "warn", old_runc,
     ("runtime.version",)),
    ("a GPU that needs the open module", "driver.flavour", "fail",
     lambda plant: plant.file(f"{PCI}/device", "0x2901\n"), ()),
    ("no firmware", "driver.firmware", "warn", lambda plant: plant.gone("/lib/firmware"), ()),
    ("no persistence daemon", "driver.persistence", "warn",
     lambda plant: plant.gone("/proc/801"), ()),
    ("no fabric manager", "driver.fabric", "fail", lambda plant: plant.gone("/proc/802"), ()),
    ("GPUs without a NUMA node", "mem.numa", "warn",
     lambda plant: plant.file(f"{PCI}/numa_node", "-1\n"), ()),
    ("docker without CDI", "runtime.cdi", "warn",
     lambda plant: plant.file("/var/lib/dpkg/status", status_of(docker_ce="5:27.3.1-1~debian.12")),
     ()),
    ("a hook beside CDI", "runtime.hook", "warn", hook, ()),
    ("a toolkit with a hole", "runtime.version", "warn",
     lambda plant: plant.file("/var/lib/dpkg/status",
                              status_of(nvidia_container_toolkit_base="1.17.7-1")), ()),
    ("no socket of the kubelet", "kubelet.sockets", "fail",
     lambda plant: plant.gone(f"{KUBELET}/device-plugins/kubelet.sock"), ()),
    ("another device plugin", "kubelet.other", "warn",
     lambda plant: process(plant, 900, "nvidia-device-plugin"), ()),
    ("a label of two files", "labels.clash", "warn",
     lambda plant: plant.file(f"{FEATURES}/site", "nvidia.com/gpu.count=4\n"), ()),
    ("labels of two modes", "labels.clash", "warn",
     lambda plant: plant.file("/etc/sluice/config.yaml",
                              "version: v1\nsluice:\n  labels:\n    mode: direct\n"), ()),
    ("hybrid cgroups with crun", "cgroup", "warn", hybrid, ()),
    ("SELinux keeps devices from containers", "selinux.mode", "warn",
     lambda plant: plant.file("/sys/fs/selinux/booleans/container_use_devices", "0 0"), ()),
    ("the agent as container_t", "selinux.label", "warn",
     lambda plant: process(plant, 901, "sluice", "sluice agent",
                           "system_u:system_r:container_t:s0:c1,c2"), ()),
    ("ib_uverbs is not loaded", "rdma.modules", "fail",
     lambda plant: plant.gone("/sys/module/ib_uverbs"), ()),
    ("RDMA in exclusive network name spaces", "rdma.netns", "fail",
     lambda plant: plant.file("/sys/module/ib_core/parameters/netns_mode", "N\n"), ()),
    ("an adapter without a driver", "rdma.device", "warn",
     lambda plant: plant.gone(f"{ADAPTER}/driver"), ()),
    ("no node of an adapter", "rdma.device", "warn",
     lambda plant: plant.gone("/dev/infiniband/uverbs3"), ()),
    ("a port that is down", "rdma.port", "warn", port_down, ()),
    ("a port that is slow", "rdma.port", "warn",
     lambda plant: plant.file(f"{PORT}/rate", "25 Gb/sec (1X EDR)\n"), ()),
    ("a runtime with little locked memory", "rdma.memlock", "warn", small_runtime, ()),
    ("a job that fell back to TCP", "memlock", "warn", silent_fallback, ()),
    ("nvidia_peermem is not registered", "gdr.path", "fail",
     lambda plant: plant.gone("/sys/kernel/mm/memory_peers"), ()),
    ("neither way to GPU memory", "gdr.modules", "warn",
     lambda plant: (plant.gone("/sys/kernel/mm/memory_peers"), plant.gone("/sys/module/nvidia_peermem")),
     ("gdr.path",)),
    ("an OFED container that is not ready", "gdr.ofed", "fail",
     lambda plant: plant.file("/run/mellanox/drivers/.keep", ""), ()),
    ("a bridge that redirects", "gdr.acs", "warn", redirection, ()),
    ("an IOMMU that translates", "gdr.iommu", "warn",
     lambda plant: plant.file(f"{ADAPTER}/iommu_group/type", "DMA-FQ\n"), ()),
    ("several GPUs and a small /dev/shm", "shm", "warn", small_shm, ()),
]


@pytest.fixture(name="node", scope="module")
def node_fixture():
    """One healthy machine for all: each fault is taken back."""
    memory = "/dev/shm"
    directory = tempfile.mkdtemp(prefix="sluice-", dir=memory if os.access(memory, os.W_OK) else None)
    os.chmod(directory, 0o755)
    machine = Machine(directory)
    try:
        machine.start("dgx-a100")
        furnish(machine)
        yield machine
    finally:
        machine.stop()
        shutil.rmtree(pathlib.Path(directory), ignore_errors=True)


def doctor(node, *arguments):
    return node.run("sluice", "doctor", "--output", "json", *arguments)


def marks(reply):
    """What is wrong: (id, status) of each finding that is not well."""
    return sorted((finding["id"], finding["status"]) for finding in reply.json["findings"]
                  if finding["status"] in ("warn", "fail"))


def test_healthy_node(node):
    reply = doctor(node)
    assert marks(reply) == [], reply
    assert reply.rc == 0
    assert reply.json["simulated"]
    assert "simulated" in node.run("sluice", "doctor").ok().out


@pytest.mark.parametrize("name, check, status, how, also", FAULTS, ids=[row[0] for row in FAULTS])
def test_planted_fault(node, name, check, status, how, also):
    plant = Plant(node)
    try:
        how(plant)
        reply = doctor(node)
    finally:
        plant.undo()
    assert (check, status) in marks(reply), f"{name}: {reply}"
    others = {found for found in marks(reply) if found[0] not in (check, *also)}
    assert not others, f"{name}: {others}"
    assert reply.rc == (2 if any(found[1] == "fail" for found in marks(reply)) else 1)
    finding = next(found for found in reply.json["findings"]
                   if (found["id"], found["status"]) == (check, status))
    assert finding["found"] and finding["why"], finding
    assert marks(doctor(node)) == [], f"{name} was not taken back"


@pytest.mark.parametrize("count, driver, status", [(8, "nvidia", "ok"), (3, "nvidia", "warn"), (0, "nvidia", "fail"),
                                                   (0, "vfio-pci", "skip")])
def test_what_the_kubelet_gives_out(node, count, driver, status):
    from kubelet import serve_on  # needs gRPC, which the other tests do not
    from messages import messages
    pb = messages("podresources")
    reply = pb.AllocatableResourcesResponse()
    for index in range(count):
        reply.devices.add(resource_name="nvidia.com/gpu",
                          device_ids=[f"GPU-{index}::0", f"GPU-{index}::1"])
    plant = Plant(node)
    plant.gone(f"{KUBELET}/pod-resources/kubelet.sock")
    if driver != "nvidia":
        for link in node.path("/sys/bus/pci/drivers/nvidia").glob("0000:*"):
            plant.link(f"/sys/bus/pci/devices/{link.name}/driver", f"../../../bus/pci/drivers/{driver}")
    server = serve_on(node.path(f"{KUBELET}/pod-resources/kubelet.sock"), "v1.PodResourcesLister",
                      {"GetAllocatableResources": lambda _request, _context:
                       reply.SerializeToString()})
    try:
        found = doctor(node)
    finally:
        server.stop(None).wait()
        plant.undo()
    states = {finding["id"]: finding["status"] for finding in found.json["findings"]}
    assert states["kubelet.allocatable"] == status, found


def test_unprivileged(node):
    """Whoever may look at less knows less, and finds no fault that is not there."""
    if os.geteuid() != 0:
        pytest.skip("this user is one already")
    hidden = [node.path("/etc/modprobe.d/nvidia-installer-disable-nouveau.conf"),
              node.path("/sys/fs/selinux/enforce"), node.path(FEATURES)]
    modes = [path.stat().st_mode for path in hidden]
    try:
        for path in hidden:
            path.chmod(0)
        reply = node.run("setpriv", "--reuid", 65534, "--regid", 65534, "--clear-groups",
                         SLUICE, "doctor", "--output", "json")
    finally:
        for path, mode in zip(hidden, modes):
            path.chmod(mode)
    if reply.rc == 127 or "failed to execute" in reply.err:
        pytest.skip("another user may not run the program that was built")
    assert reply.rc == 0 and marks(reply) == [], reply
    unknown = {finding["id"] for finding in reply.json["findings"]
               if finding["status"] == "unknown"}
    assert {"driver.nouveau", "selinux.mode", "labels.clash"} <= unknown


def test_in_a_container(node):
    """Which has processes of its own: a daemon that it cannot see may run all the same."""
    inside = (f"mount --rbind {node.root}/sys /sys && "
              f"exec env -u SLUICE_ROOT -u SLUICE_SIM_STATE {SLUICE} doctor --output json "
              "--only driver.persistence --only driver.fabric")
    reply = node.run("unshare", "--mount", "--pid", "--fork", "--mount-proc", "sh", "-c", inside)
    if not reply.out:
        pytest.skip(f"no name spaces for this user: {reply.err}")
    states = {finding["id"]: finding["status"] for finding in reply.json["findings"]}
    assert states == {"driver.persistence": "unknown", "driver.fabric": "unknown"}, reply


def test_nothing_is_changed(node):
    def all_files():
        return sorted((str(path), path.lstat().st_mtime_ns)
                      for path in node.root.rglob("*"))
    before = all_files()
    node.run("sluice", "doctor", "--all")
    node.run("sluice", "doctor", "--for", "driver-container")
    assert all_files() == before


def test_text(node):
    """For people: what is wrong, and no more."""
    plant = Plant(node)
    try:
        nouveau_in_use(plant)
        text, everything = (node.run("sluice", "doctor", *all_).out for all_ in ((), ("--all",)))
    finally:
        plant.undo()
    assert "8 simulated NVIDIA GPUs" in text
    assert ("fail    driver.nouveau  kernel module nouveau: found it loaded and in use (3 users), "
            "need it unloaded and blocked") in text
    assert "    do   " in text and "    why  " in text and "    see  https://" in text
    assert "1 failure, 0 warnings" in text
    assert "driver.bound" not in text and "\x1b" not in text
    assert "ok      driver.bound" in everything


def test_completion(node):
    """The ids are offered, as the program that is there has them."""
    if not shutil.which("bash"):
        pytest.skip("needs bash")
    script = ("source <(sluice completion bash); COMP_CWORD=3; "
              "COMP_WORDS=(sluice doctor --only driver.no); _sluice; echo ${COMPREPLY[@]}")
    assert node.run("bash", "-c", script).ok().out.split() == ["driver.nouveau", "driver.nodes"]


def test_there_are_twenty_faults():
    assert len({row[0] for row in FAULTS}) >= 20


def test_without_gpus(machine):
    machine.path("/sys/bus/pci/devices").mkdir(parents=True)
    reply = machine.run("sluice", "doctor")
    assert reply.rc == 3
    assert "no NVIDIA GPU" in reply.out


def test_jobs_of_a_simulated_machine_need_no_mount(machine):
    machine.start("t4x1")
    reply = machine.run("sluice", "doctor", "--only", "jobs.isolation")
    assert reply.rc == 3 and "not looked at" in reply.out and "mount" not in reply.out, reply


def test_options(node):
    reply = node.run("sluice", "doctor", "--only", "drver.bound")
    assert reply.rc == 64 and "driver.bound" in reply.err
    assert node.run("sluice", "doctor", "--skip", "nothing").rc == 64
    assert node.run("sluice", "doctor", "--for", "fun").rc == 64
    only = doctor(node, "--only", "driver.bound").json["findings"]
    assert {finding["id"] for finding in only} == {"driver.bound"}
    group = doctor(node, "--only", "driver", "--skip", "driver.bound").json["findings"]
    assert all(finding["id"].startswith("driver.") for finding in group) and group
    assert "driver.bound" not in {finding["id"] for finding in group}
    listed = {row["id"] for row in node.run("sluice", "doctor", "--list", "-o", "json").ok().json}
    assert listed >= {finding["id"] for finding in doctor(node).json["findings"]}
