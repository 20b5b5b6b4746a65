# SPDX-License-Identifier: Apache-2.0
"""The service in a container that has of its host what the DaemonSet of packaging/ says, and no more: the mounts are
enough, and the root file system can be read-only. The GPUs are simulated, the kubelet is a stand-in."""

import json
import os
import subprocess

import pytest

from conftest import DEADLINE_S, ROOT, SLUICE, wait_until
from containers import Bundle, needs
from kubelet import Kubelet

yaml = pytest.importorskip("yaml", reason="needs python3-yaml")

KUSTOMIZE = ROOT / "packaging" / "kustomize"
CLEANUP = ROOT / "packaging" / "kubernetes" / "cleanup.yaml"
FEATURES = "/etc/kubernetes/node-feature-discovery/features.d"
PLUGINS = "/var/lib/kubelet/device-plugins"
OF_THE_HOST = ("/", "/dev", "/sys")  # the others are directories of the test's own


class Pod:
    """The DaemonSet's container, as a bundle of runc's."""

    def __init__(self, directory, machine, profile):
        self.machine, self.directory, self.manifests = machine, directory, KUSTOMIZE / profile
        self.spec = self.object("daemonset")["spec"]["template"]["spec"]
        self.agent = self.spec["containers"][0]
        self.name = f"sluice-pod-{os.getpid()}"
        rootfs = directory / "rootfs"
        for name in ("etc", "proc", "dev", "lib", "lib64", "usr"):
            (rootfs / name).mkdir(parents=True)
        self.bundle = Bundle(directory / "bundle", rootfs)
        self.child = None

    def object(self, kind):
        return yaml.safe_load((self.manifests / f"{kind}.yaml").read_text(encoding="utf-8"))

    def host(self, path):
        """What the pod has as this path of its host."""
        return self.directory / "host" / path.strip("/")

    def source(self, volume):
        if "hostPath" in volume and volume["hostPath"]["path"] in OF_THE_HOST:
            return volume["hostPath"]["path"]
        place = self.host(volume["hostPath"]["path"] if "hostPath" in volume else volume["name"])
        place.mkdir(parents=True, exist_ok=True)
        if "configMap" in volume:
            for name, text in self.object("configmap")["data"].items():
                (place / name).write_text(text, encoding="utf-8")
        return str(place)

    def mounts(self):
        volumes = {volume["name"]: volume for volume in self.spec["volumes"]}
        for mount in sorted(self.agent["volumeMounts"], key=lambda one: one["mountPath"]):
            volume = volumes[mount["name"]]
            if "emptyDir" in volume:
                yield {"destination": mount["mountPath"], "type": "tmpfs", "source": "tmpfs", "options": ["mode=0777"]}
                continue
            how = ["rbind", "ro" if mount.get("readOnly") else "rw",
                   "rslave" if mount.get("mountPropagation") == "HostToContainer" else "rprivate"]
            yield {"destination": mount["mountPath"], "type": "bind", "source": self.source(volume), "options": how}

    def programs(self):
        """In place of an image: what was built, its libraries, and the simulator with its machine."""
        for path in ("/lib", "/lib64", "/usr", str(ROOT), os.environ.get("MESON_BUILD_ROOT", str(ROOT / "build")),
                     str(self.machine.directory)):
            yield {"destination": path, "type": "bind", "source": path, "options": ["rbind", "ro"]}

    def start(self):
        config = self.bundle.config
        taken = {mount["mountPath"] for mount in self.agent["volumeMounts"]}
        kept = [mount for mount in config["mounts"] if not any(
            f"{mount['destination']}/".startswith(f"{path}/") for path in taken & {"/dev", "/sys"})]
        config["mounts"] = [*kept, *self.programs(), *self.mounts()]
        context = self.agent["securityContext"]
        config["root"]["readonly"] = context["readOnlyRootFilesystem"]
        if context.get("privileged"):
            del config["linux"]["maskedPaths"], config["linux"]["readonlyPaths"]
        else:
            assert context["capabilities"] == {"drop": ["ALL"]}
            config["process"]["capabilities"] = {}
            config["process"]["noNewPrivileges"] = not context["allowPrivilegeEscalation"]
        config["process"]["args"] = self.agent["command"]
        config["process"]["env"] = [
            f"PATH={os.path.dirname(SLUICE)}", "KUBERNETES_SERVICE_HOST=192.0.2.1",
            "SLUICE_ROOT=/.",  # the simulated machine's files have their final names here
            *(f"{variable['name']}={variable.get('value', 'node7')}" for variable in self.agent.get("env", [])),
            *(f"{name}={value}" for name, value in self.machine.env.items() if name in ("SLUICE_SIM_STATE", "LD_LIBRARY_PATH"))]
        self.bundle.write()
        with open(self.directory / "log", "wb") as log:
            self.child = subprocess.Popen(
                [SLUICE, "sim", "exec", "--mounts", "--root", str(self.machine.root), "--state", str(self.machine.state),
                 "--", "runc", "--root", str(self.directory / "state"), "run", "--bundle", str(self.bundle.directory),
                 self.name], stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        return self

    def log(self):
        return (self.directory / "log").read_text(errors="replace")

    def wait_for(self, condition, what):
        def look():
            assert self.child.poll() is None, f"it has ended: {self.log()}"
            return condition()

        try:
            return wait_until(look, 15, what=what)
        except AssertionError as error:
            raise AssertionError(f"{error}\n{self.log()}") from error

    def runc(self, *words):
        return subprocess.run(["runc", "--root", str(self.directory / "state"), *words], capture_output=True, text=True,
                              check=False, timeout=DEADLINE_S)

    def probe(self, name):
        return self.runc("exec", self.name, *self.agent[name]["exec"]["command"])

    def clean_up(self):
        """The Job's container in the place of the service's, to its end; what it says."""
        self.stop()
        job = next(one for one in yaml.safe_load_all(CLEANUP.read_text(encoding="utf-8")) if one["kind"] == "Job")
        self.spec = job["spec"]["template"]["spec"]
        self.agent = self.spec["containers"][0]
        self.bundle = Bundle(self.directory / "bundle", self.directory / "rootfs")
        self.start()
        assert self.child.wait(timeout=DEADLINE_S) == 0, self.log()
        return self.log()

    def stop(self):
        if self.child:
            self.runc("delete", "--force", self.name)
            self.child.wait(timeout=DEADLINE_S)


@pytest.fixture
def pod(machine_factory, request):
    needs("runc")
    machine = machine_factory(opens_nodes=True)
    machine.start("t4x4")
    made = Pod(machine.directory / "pod", machine, getattr(request, "param", "base"))  # not tmp_path: too long for the path of a socket
    kubelet = Kubelet(made.host(PLUGINS)).start()
    yield made, kubelet
    made.stop()
    kubelet.die()


@pytest.mark.parametrize("pod", ["base", "restricted"], indirect=True)
def test_the_daemonsets_mounts_are_enough(pod):
    made, kubelet = pod
    made.start()
    made.wait_for(lambda: "nvidia.com/gpu" in kubelet.endpoints and kubelet.endpoints["nvidia.com/gpu"].devices,
                  "the kubelet's devices")
    devices = kubelet.endpoints["nvidia.com/gpu"].devices
    assert len(devices) == 4 and set(devices.values()) == {"Healthy"}, made.log()
    for probe in ("livenessProbe", "readinessProbe"):
        made.wait_for(lambda probe=probe: made.probe(probe).returncode == 0, probe)  # the kubelet comes first
    labels = made.host(FEATURES) / "gfd"
    made.wait_for(labels.exists, "the labels")
    assert "nvidia.com/gpu.count=4\n" in labels.read_text(encoding="utf-8")
    assert (made.host("/var/lib/sluice") / "queue.db").exists()
    if made.agent["securityContext"].get("privileged"):
        made.wait_for((made.host("/run/nvidia") / "validations" / "driver-ready").exists, "the validation files")
        made.wait_for((made.host("/var/run/cdi") / ".sluice.lock").exists, "the CDI directory, which it can write to")
    entries = [json.loads(line) for line in made.log().splitlines() if line.startswith("{")]
    # The files of the simulated driver are in the machine's own directory: there are none to write a specification of.
    errors = [entry for entry in entries if entry["level"] == "error" and "no driver library" not in entry["message"]]
    assert entries and not errors, made.log()
    assert "ead-only file system" not in made.log()


def test_it_ends_in_the_time_that_it_is_given(pod):
    made, kubelet = pod
    made.start()
    made.wait_for(lambda: "nvidia.com/gpu" in kubelet.endpoints, "registration")
    assert made.runc("kill", made.name, "TERM").returncode == 0
    assert made.child.wait(timeout=made.spec["terminationGracePeriodSeconds"] + DEADLINE_S) == 0, made.log()
    assert not [name for name in os.listdir(made.host(PLUGINS)) if name.startswith("nvidia-")]


def test_the_job_leaves_nothing_behind(pod):
    made, kubelet = pod
    made.start()
    files = [made.host(FEATURES) / "gfd", made.host("/run/nvidia") / "validations" / "driver-ready",
             made.host("/var/lib/sluice") / "queue.db"]
    foreign = [made.host(FEATURES) / "others", made.host("/var/run/cdi") / "others.json"]
    for file in files:
        made.wait_for(file.exists, file.name)
    for file in foreign:
        file.write_text("others\n", encoding="utf-8")
    made.clean_up()
    assert not [file for file in files if file.exists()], made.log()
    assert all(file.exists() for file in foreign)
    assert not list(made.host("/var/lib/sluice").iterdir())
