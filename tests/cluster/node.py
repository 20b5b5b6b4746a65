# SPDX-License-Identifier: Apache-2.0
"""A node: a simulated machine with GPUs, containerd and a kubelet, in a space of its own."""

import base64
import json
import os
import pathlib
import re
import shutil
import signal
import subprocess

import cgroup
from control import DNS_ADDRESS, DOMAIN, certificate
from place import BASE, HERE, PKI, PREFIX, SLUICE, Failure, run, wait
from programs import folder, old_containerd, program
from space import Space

CONTAINERD = "/run/containerd/containerd.sock"
# The minor numbers of the GPUs: none is its GPU's index, so that whoever takes one for the other is found out.
MINORS = "1,4,7,2,5,0,3,6"
# Runs a program without the boot id that the node plays: the simulator knows its state by the one of this machine.
TRUE_BOOT = ("unshare", "--mount", "sh", "-c", 'umount /proc/sys/kernel/random/boot_id && exec "$@"', "sh")

CONTAINERD_TOML = """version = 3
root = "/var/lib/containerd"
state = "/run/containerd"
[grpc]
  address = "{socket}"
[plugins."io.containerd.cri.v1.images"]
  snapshotter = "overlayfs"
[plugins."io.containerd.cri.v1.images".pinned_images]
  sandbox = "localhost/pause:1"
[plugins."io.containerd.cri.v1.runtime".containerd.runtimes.runc]
  runtime_type = "io.containerd.runc.v2"
[plugins."io.containerd.cri.v1.runtime".containerd.runtimes.runc.options]
  SystemdCgroup = false
[plugins."io.containerd.cri.v1.runtime"]
  # a root without CAP_SYS_RESOURCE lowers nobody's score
  restrict_oom_score_adj = true
[plugins."io.containerd.cri.v1.runtime".cni]
  bin_dirs = ["{cni}"]
  conf_dir = "{conf}"
"""

# The same for release 1.6, whose file has another version.
CONTAINERD_16_TOML = """version = 2
root = "/var/lib/containerd"
state = "/run/containerd"
[grpc]
  address = "{socket}"
[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = "localhost/pause:1"
  restrict_oom_score_adj = true
  [plugins."io.containerd.grpc.v1.cri".containerd]
    default_runtime_name = "runc"
    [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
      runtime_type = "io.containerd.runc.v2"
      [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc.options]
        SystemdCgroup = false
  [plugins."io.containerd.grpc.v1.cri".cni]
    bin_dir = "{cni}"
    conf_dir = "{conf}"
"""

CNI = """{{"cniVersion": "1.0.0", "name": "bridge", "plugins": [
 {{"type": "bridge", "bridge": "cni0", "isGateway": true, "hairpinMode": true,
  "ipam": {{"type": "host-local", "ranges": [[{{"subnet": "{pods}"}}]], "routes": [{{"dst": "0.0.0.0/0"}}]}}}}]}}
"""

KUBELET = """apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
cgroupDriver: cgroupfs
cgroupRoot: /{group}
failCgroupV1: false
cgroupsPerQOS: true
enforceNodeAllocatable: [pods]
containerRuntimeEndpoint: unix://{socket}
authentication: {{anonymous: {{enabled: false}}, webhook: {{enabled: true}}, x509: {{clientCAFile: {pki}/ca.crt}}}}
authorization: {{mode: Webhook}}
tlsCertFile: {pki}/{name}.crt
tlsPrivateKeyFile: {pki}/{name}.key
failSwapOn: false
maxPods: 250
resolvConf: ""
clusterDNS: [{dns}]
clusterDomain: {domain}
podCIDR: {pods}
imageGCHighThresholdPercent: 99
imageGCLowThresholdPercent: 98
evictionHard: {{memory.available: 100Mi, nodefs.available: 1%, imagefs.available: 1%}}
syncFrequency: 10s
nodeStatusUpdateFrequency: 5s
serializeImagePulls: false
registryPullQPS: 0
"""


class Node(Space):
    def __init__(self, number, profile="dgx-a100"):
        super().__init__(f"node-{number}", 10 + number)
        self.index = number
        self.profile = profile
        self.base = BASE / self.name
        self.group = f"{PREFIX}{self.name}"
        self.pods = f"10.244.{number}.0/24"
        # In the node's /run/nvidia, since the service's pod has that of the host.
        self.machine = self.base / "machine"
        self.state = self.base / "own/run/nvidia/sim.state"

    # The machine ------------------------------------------------------------------------------

    def up(self, *_, **__):
        self.configure()
        cgroup.make(self.group)
        if not self.pids():
            self.boot()
        self.containerd()
        self.kubelet()

    def boot(self):
        """The first process, which makes the node's mounts; then its GPUs."""
        booted = self.base / "booted"
        booted.unlink(missing_ok=True)
        if not self.machine.exists():
            # Its files alone: the state is made anew at each boot, in the /run that the first process empties.
            self.sim_start(self.base / "first.state")
            self.numa_nodes()
        super().up(SLUICE, "sim", "exec", "--mounts", "--root", self.machine, "--state", self.base / "first.state", "--",
                   "python3", HERE / "init.py", self.name, self.base, self.machine, ready=booted.exists)
        shutil.copy2(self.base / "first.state", self.state)
        shutil.copytree(self.libraries(), self.state.with_name("simlib"), dirs_exist_ok=True)

    def sim_start(self, state):
        run(SLUICE, "sim", "start", "--profile", self.profile, "--seed", self.index, "--minors", MINORS, "--dev-style", "nvidia",
            "--root", self.machine, "--state", state)

    def sim(self, *arguments):
        """`sluice sim VERB`: faults and readings of this node's GPUs."""
        return run(SLUICE, "sim", *arguments, "--root", self.machine, "--state", self.state)

    def sim_load(self, pid, gpu, **load):
        """A process of the node, by the number that it has there, works on a GPU; `load` are options of `sluice sim load`."""
        options = [word for name, value in load.items() for word in (f"--{name}", value)]
        self.run(*TRUE_BOOT, SLUICE, "sim", "load", "--gpu", gpu, "--pid", pid, *options, "--root", self.machine, "--state",
                 "/run/nvidia/sim.state")

    def sluice(self, *arguments):
        """The program on the node itself, as root, with an agent of its own: what it says and its exit status."""
        own = self.base / "own/run/program"
        own.mkdir(parents=True, exist_ok=True)
        environment = [f"SLUICE_STATE_DIR={own}/state", f"SLUICE_RUNTIME_DIR={own}", f"SLUICE_SIM_STATE={self.state}",
                       f"LD_LIBRARY_PATH={self.libraries()}", "SLUICE_ROOT=/."]
        command = self.inside(*TRUE_BOOT, "env", *environment, str(SLUICE), *arguments)
        return subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)

    def libraries(self):
        """The directory of the simulated driver's libraries, of the age that the machine's driver has."""
        said = run(SLUICE, "sim", "env", "--root", self.machine, "--state", self.base / "first.state")
        value = re.search(r"LD_LIBRARY_PATH='?([^:' ]+)", said).group(1)
        return pathlib.Path(value)

    def numa_nodes(self):
        """What the kubelet reads of each: memory and processors, which are this machine's, dealt out."""
        nodes = sorted((self.machine / "sys/devices/system/node").glob("node[0-9]*"))
        total = int(pathlib.Path("/proc/meminfo").read_text().split()[1])
        for one in nodes:
            (one / "hugepages").mkdir(exist_ok=True)
            (one / "meminfo").write_text(f"Node {one.name[4:]} MemTotal:       {total // len(nodes)} kB\n")
        for cpu in range(os.cpu_count() if nodes else 0):
            link = nodes[cpu % len(nodes)] / f"cpu{cpu}"
            if not link.is_symlink():
                link.symlink_to(f"../../cpu/cpu{cpu}")

    def configure(self):
        if not (PKI / f"{self.name}.crt").exists():
            certificate(self.name, f"/O=system:nodes/CN=system:node:{self.name}", f"DNS:{self.name},IP:{self.address}")
        conf = self.base / "conf"
        (conf / "cni").mkdir(parents=True, exist_ok=True)
        text = CONTAINERD_16_TOML if self.runs_old() else CONTAINERD_TOML
        (conf / "containerd.toml").write_text(text.format(socket=CONTAINERD, cni=folder("cni"), conf=conf / "cni"))
        (conf / "cni/10-bridge.conflist").write_text(CNI.format(pods=self.pods))
        (conf / "kubelet.yaml").write_text(
            KUBELET.format(group=self.group, socket=CONTAINERD, pki=PKI, name=self.name, pods=self.pods, dns=DNS_ADDRESS, domain=DOMAIN))

    # Its programs -----------------------------------------------------------------------------

    def containerd(self):
        programs = old_containerd() if self.runs_old() else folder("containerd")
        path = f"PATH={programs}:/usr/sbin:/usr/bin:/sbin:/bin"
        self.start("containerd", "env", path, programs / "containerd", "--config", self.base / "conf/containerd.toml")
        wait(f"containerd of {self.name}", 60, lambda: self.works("version"))

    def kubelet(self):
        wait(f"containerd of {self.name}", 60, lambda: self.works("version"))
        self.start("kubelet", program("kubelet"), "--config", self.base / "conf/kubelet.yaml", "--kubeconfig",
                   PKI / f"{self.name}.conf", "--hostname-override", self.name, "--node-ip", self.address, "--v=2")

    def runs_old(self):
        """Whether its runtime is Debian's containerd instead of the newest."""
        return (self.base / "old-containerd").exists()

    def change_containerd(self, old):
        """Another containerd, which begins with nothing: the node is started anew."""
        self.kill()
        shutil.rmtree(self.base / "own/var/lib/containerd")
        mark = self.base / "old-containerd"
        mark.touch() if old else mark.unlink(missing_ok=True)
        self.up()

    def ctr(self, *arguments, **options):
        return self.run(program("ctr"), "--address", CONTAINERD, "--namespace", "k8s.io", *arguments, **options)

    def works(self, *arguments):
        try:
            return bool(self.ctr(*arguments, timeout=5))
        except (Failure, OSError):
            return False

    def container_of(self, pod):
        """The first process of the only container of a pod (as the API server has it), as the node numbers it."""
        full = pod["status"]["containerStatuses"][0]["containerID"].removeprefix("containerd://")
        rows = (line.split() for line in self.ctr("tasks", "ls").splitlines())
        return next(int(row[1]) for row in rows if row[0] == full)

    def book(self):
        """What the kubelet wrote down about devices: an entry for each container that has some."""
        path = self.base / "own/var/lib/kubelet/device-plugins/kubelet_internal_checkpoint"
        return json.loads(path.read_text())["Data"]["PodDeviceEntries"] or [] if path.exists() else []

    def promised(self):
        """What the kubelet has given to pods: {uid of the pod: identifiers of devices}."""
        found = {}
        for entry in self.book():
            ids = [one for numa in entry["DeviceIDs"].values() for one in numa]
            found.setdefault(entry["PodUID"], []).extend(ids)
        return found

    def answer(self, uid):
        """The bytes of the plugin's answer for the only container of a pod."""
        return next(base64.b64decode(entry["AllocResp"]) for entry in self.book() if entry["PodUID"] == uid)

    def gpus(self):
        """The truth about the simulated machine: its GPUs by `sluice sim show`."""
        return json.loads(self.sim("show", "--output", "json"))["gpus"]

    def boot_id(self):
        return self.run("cat", "/proc/sys/kernel/random/boot_id").strip()

    def load(self, archive):
        # The client of 2.x imports by the server's transfer service unless told otherwise, which 1.6 has not.
        self.ctr("images", "import", "--local", archive, timeout=300)

    # Faults -----------------------------------------------------------------------------------

    def reboot(self):
        """Everything on the node ends at once; then it starts with what its disk has."""
        self.kill()
        self.up()

    def kill(self):
        for name in ("kubelet", "containerd"):
            self.stop(name, signal.SIGKILL)
        super().kill()

    def down(self):
        super().down()
        cgroup.remove(self.group)
