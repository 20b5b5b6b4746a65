# SPDX-License-Identifier: Apache-2.0
"""sluice-runtime: containers that ask for GPUs in the words of before CDI, with runc, crun and podman; who may ask; and
bundles that are not what they should be.

The nodes of --dev-style nvidia have the driver's numbers and no driver: opening one that is allowed fails with ENXIO
("No such device or address"), opening one that is not allowed fails with EPERM. /nodes in a container has all of the
machine's nodes, so that what the device cgroup says can be asked for each."""

import json
import os
import pathlib
import subprocess

import pytest

from conftest import SLUICE, Reply
from containers import WITHOUT_UNIFIED, Bundle, image, needs, simulated

ALLOWED, DENIED, ABSENT = "No such device or address", "Operation not permitted", "No such file or directory"
RUNTIMES = {"runc": (), "crun": WITHOUT_UNIFIED}
# what a node says, in the container and to those who have found it otherwise
ASK = 'for n in 0 1 2; do cat /dev/nvidia$n; cat /nodes/nvidia$n; done 2>&1 | sed "s/.*: //"'
MOUNTS = "cat /proc/self/mountinfo"  # the files that earlier ones were mounted on are still in the image
VISIBLE = "NVIDIA_VISIBLE_DEVICES"
SYS_ADMIN = "CAP_SYS_ADMIN"


def expected(*gpus):
    """The output of ASK for a container that has these."""
    return "".join(f"{ALLOWED}\n{ALLOWED}\n" if n in gpus else f"{ABSENT}\n{DENIED}\n" for n in range(3))


@pytest.fixture(scope="module")
def gpus():
    needs("runc")
    with simulated("t4x4", "--gpus", "3", "--dev-style", "nvidia") as machine:
        (machine.directory / "sluice-runtime").symlink_to(SLUICE)
        image(machine.directory / "box")
        (machine.directory / "box/bin/sed").symlink_to("busybox")
        yield machine


class Wrapped:
    """A bundle that sluice-runtime starts."""

    def __init__(self, gpus, directory, runtime="runc", privileged=True, **settings):
        self.gpus, self.directory, self.before = gpus, directory, RUNTIMES[runtime]
        self.box = Bundle(directory / "bundle", gpus.directory / "box", runtime)
        self.box.runtime = gpus.directory / "sluice-runtime"
        self.config = self.box.config
        if privileged:
            self.config["process"]["capabilities"]["bounding"].append(SYS_ADMIN)
        self.config["mounts"].append({"destination": "/nodes", "source": str(gpus.path("/dev")), "type": "bind",
                                      "options": ["rbind", "ro"]})
        self.settings = directory / "config.yaml"
        self.settings.write_text(json.dumps({"sluice": {"cdi": {"runtime": {"runtimes": [runtime], **settings}}}}))

    def ask(self, script=ASK, **variables):
        self.config["process"]["env"] += [f"{name}={value}" for name, value in variables.items()]
        self.box.shell(script)
        return self.box.run(*self.before, env={**self.gpus.env, "SLUICE_CONFIG": str(self.settings)})


@pytest.fixture(params=RUNTIMES)
def runtime(request):
    needs(request.param)
    return request.param


@pytest.mark.parametrize("value,has", [("0,2", (0, 2)), ("all", (0, 1, 2)), ("none", ()), ("void", ()), ("", ()),
                                       (" 1 ,", (1,)), ("sluice.sim/gpu=1,0", (0, 1))])
def test_values_of_the_variable(gpus, tmp_path, value, has):
    reply = Wrapped(gpus, tmp_path).ask(**{VISIBLE: value}).ok()
    assert reply.out == expected(*has)


def test_each_runtime_gives_exactly_that(gpus, runtime, tmp_path):
    box = Wrapped(gpus, tmp_path, runtime)
    reply = box.ask(f"{ASK}; {MOUNTS}; env", **{VISIBLE: "1"}).ok()
    assert reply.out.startswith(expected(1))
    assert " /usr/lib64/libcuda.so.1 " in reply.out and " /usr/bin/nvidia-smi " in reply.out
    assert "libnvidia-encode" not in reply.out  # utility and compute, while nothing else is asked for
    assert f"{VISIBLE}=void\n" in reply.out  # no hook that is left over finds anything to do


def test_a_uuid(gpus, tmp_path):
    uuid = gpus.show()["gpus"][2]["uuid"]
    assert Wrapped(gpus, tmp_path).ask(**{VISIBLE: uuid}).ok().out == expected(2)


def test_capabilities_of_the_driver(gpus, tmp_path):
    script = f"{MOUNTS}; ls /dev"
    reply = Wrapped(gpus, tmp_path / "some").ask(script, **{VISIBLE: "0", "NVIDIA_DRIVER_CAPABILITIES": "utility"}).ok()
    assert "libnvidia-ml.so.1 " in reply.out and "libcuda" not in reply.out and "nvidia-uvm" not in reply.out
    reply = Wrapped(gpus, tmp_path / "odd").ask(script, **{VISIBLE: "0", "NVIDIA_DRIVER_CAPABILITIES": "compute,fly"})
    assert reply.rc == 1
    assert "NVIDIA_DRIVER_CAPABILITIES: 'fly' is no driver capability" in reply.err


def test_an_unprivileged_container_asks_in_vain(gpus, runtime, tmp_path):
    """What an image brings along is no permission: config.json stays as it is, byte for byte."""
    box = Wrapped(gpus, tmp_path, runtime, privileged=False)
    box.config["annotations"] = {"cdi.k8s.io/image": "sluice.sim/gpu=all"}
    box.config["mounts"].append({"destination": "/var/run/nvidia-container-devices/all", "source": "/dev/null",
                                 "type": "bind", "options": ["bind"]})
    reply = box.ask(**{VISIBLE: "all", "CUDA_VERSION": "8.0.61"}).ok()
    assert reply.out == expected()
    assert (tmp_path / "bundle/config.json").read_text() == json.dumps(box.config)


def test_settings_open_each_source(gpus, tmp_path):
    box = Wrapped(gpus, tmp_path / "a", privileged=False, annotations=True)
    box.config["annotations"] = {"cdi.k8s.io/x": "sluice.sim/gpu=0"}
    assert box.ask(**{VISIBLE: "all"}).ok().out == expected(0)
    box = Wrapped(gpus, tmp_path / "b", privileged=False, volumeMounts=True)
    box.config["mounts"].append({"destination": "/var/run/nvidia-container-devices/cdi/sluice.sim/gpu/1",
                                 "source": "/dev/null", "type": "bind", "options": ["bind"]})
    assert box.ask(**{VISIBLE: "all"}).ok().out == expected(1)
    box = Wrapped(gpus, tmp_path / "c", privileged=False, unprivilegedEnvvar=True)
    assert box.ask(**{VISIBLE: "2"}).ok().out == expected(2)
    box = Wrapped(gpus, tmp_path / "d", swarmVariables=["DOCKER_RESOURCE_GPU"])
    assert box.ask(**{VISIBLE: "all", "DOCKER_RESOURCE_GPU": "0"}).ok().out == expected(0)


def test_check_prints_what_would_be_applied(gpus, tmp_path):
    """`sluice cdi check --apply` edits as the tests' own applier does, and changes no file."""
    ours, theirs = (Bundle(tmp_path / name, gpus.directory / "box") for name in ("ours", "theirs"))
    names = ("sluice.sim/gpu=0", "sluice.sim/gpu=2")
    path, before = ours.write(), ours.write().read_text()
    command = ("sluice", "cdi", "check", "--apply", path, "--device", names[0], "--device", names[1])
    reply = gpus.run(*command).ok()
    assert path.read_text() == before
    wanted = theirs.give(gpus, *names).config
    assert [entry["path"] for entry in reply.json["linux"]["devices"]] == [
        entry["path"] for entry in wanted["linux"]["devices"]]
    assert reply.json["linux"]["resources"]["devices"] == wanted["linux"]["resources"]["devices"]
    assert {entry["destination"] for entry in reply.json["mounts"]} == {
        entry["destination"] for entry in wanted["mounts"]}
    path.write_text(reply.out)  # again changes nothing
    assert gpus.run(*command).ok().out == reply.out
    ours.config = reply.json
    assert ours.shell("for n in 0 1 2; do cat /dev/nvidia$n; done 2>&1 | sed 's/.*: //'").run().ok().out == (
        f"{ALLOWED}\n{ABSENT}\n{ALLOWED}\n")
    reply = gpus.run(*command[:-1], "sluice.sim/gpu=7")
    assert reply.rc == 1 and reply.out == "" and "'sluice.sim/gpu=7': no such device" in reply.err
    path.write_text("{")
    assert gpus.run(*command).rc == 2
    assert gpus.run("sluice", "cdi", "check", "--apply", path).rc == 64


def test_mig_devices_and_their_management(tmp_path):
    needs("runc")
    with simulated("dgx-a100", "--mig", "single", "--gpus", "1", "--dev-style", "nvidia") as machine:
        (machine.directory / "sluice-runtime").symlink_to(SLUICE)
        image(machine.directory / "box")
        caps = machine.path("/proc/driver/nvidia-caps/mig-minors").read_text().splitlines()
        config = next(line.split()[1] for line in caps if line.startswith("config "))
        script = "ls /dev/nvidia-caps /dev; cat /nodes/nvidia-caps/nvidia-cap* 2>&1 | sed 's/.*: //' | sort | uniq -c"
        (machine.directory / "box/bin/sed").symlink_to("busybox")
        for name in ("sort", "uniq"):
            (machine.directory / "box/bin" / name).symlink_to("busybox")
        reply = Wrapped(machine, tmp_path / "one").ask(script, **{VISIBLE: "0:1"}).ok()
        allowed = [line.split()[0] for line in reply.out.splitlines() if ALLOWED in line]
        assert allowed == ["2"], reply  # of the GPU instance and of the compute instance
        assert "nvidia0\n" in reply.out
        assert f"nvidia-cap{config}\n" not in reply.out
        reply = Wrapped(machine, tmp_path / "all").ask(script, NVIDIA_MIG_CONFIG_DEVICES="all",
                                                       **{VISIBLE: "0:1"}).ok()
        assert f"nvidia-cap{config}\n" in reply.out
        allowed = [line.split()[0] for line in reply.out.splitlines() if ALLOWED in line]
        assert allowed == ["3"], reply
        box = Wrapped(machine, tmp_path / "no", privileged=False, unprivilegedEnvvar=True)
        reply = box.ask(script, NVIDIA_MIG_CONFIG_DEVICES="all", **{VISIBLE: "0:1"})
        assert reply.rc == 1 and "only a privileged container may have MIG's management" in reply.err


# -- without a container: what the runtime would be told


class Alone:
    """sluice-runtime before a runtime that only says that it was started."""

    def __init__(self, machine, directory):
        self.machine, self.bundle, self.started = machine, directory / "bundle", directory / "started"
        self.bundle.mkdir()
        self.program = directory / "sluice-runtime"
        self.program.symlink_to(SLUICE)
        fake = directory / "fake"
        fake.write_text(f'#!/bin/sh\necho $$ "$@" > {self.started}\n')
        fake.chmod(0o755)
        self.settings = directory / "config.yaml"
        self.settings.write_text(f"sluice: {{cdi: {{runtime: {{runtimes: [runc-that-is-not-there, {fake}]}}}}}}\n")
        self.log = directory / "log"
        self.file = self.bundle / "config.json"
        cdi = machine.path("/var/run/cdi")
        cdi.mkdir(parents=True, exist_ok=True)
        (cdi / "gpu.json").write_text(json.dumps(
            {"cdiVersion": "0.5.0", "kind": "nvidia.com/gpu",
             "devices": [{"name": "0", "containerEdits": {"env": ["GPU=0"]}}]}))

    def put(self, *env, **parts):
        self.file.write_text(json.dumps(
            {"process": {"env": list(env), "capabilities": {"bounding": [SYS_ADMIN]}}, **parts}))

    def run(self, *arguments, before=()):
        arguments = arguments or ("--log", self.log, "--log-format=json", "create", "--bundle", self.bundle, "id")
        command = [str(part) for part in (*before, self.program, *arguments)]
        self.started.unlink(missing_ok=True)
        self.log.unlink(missing_ok=True)
        child = subprocess.Popen(command, env={**self.machine.env, "SLUICE_CONFIG": str(self.settings)},
                                 stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        out, err = child.communicate(timeout=60)
        self.pid = child.pid
        return Reply(command, child.returncode, out, err)

    def refuses(self, says, before=()):
        reply = self.run(before=before)
        assert reply.rc == 1, reply
        assert says in reply.err and reply.err.startswith("sluice-runtime: "), reply
        assert not self.started.exists()
        line = json.loads(self.log.read_text())
        assert line["level"] == "error" and says in line["msg"] and "T" in line["time"]
        assert sorted(path.name for path in self.bundle.iterdir()) in ([], ["config.json"])


@pytest.fixture
def alone(machine, tmp_path):
    machine.start("t4x4", "--gpus", "1")
    return Alone(machine, tmp_path)


def test_becomes_the_runtime(alone):
    """No process is started: the runtime has the number that the caller knows, and its words."""
    alone.put(f"{VISIBLE}=0", rlimits=[18446744073709551615, 1.5])
    alone.run().ok()
    assert alone.started.read_text() == (f"{alone.pid} --log {alone.log} --log-format=json create --bundle "
                                         f"{alone.bundle} id\n")
    assert '"GPU=0"' in alone.file.read_text()
    assert '"rlimits":[18446744073709551615,1.5]' in alone.file.read_text()
    for words in (("state", "id"), ("delete", "--force", "id"), ("--version",), ("run", "--help"), ()):
        before = alone.file.read_text()
        alone.run(*(words or ("",)), before=("env", "-C", str(alone.bundle))).ok()
        assert alone.started.read_text().split()[1:] == list(words)
        assert alone.file.read_text() == before


def test_a_wrong_configuration_stops_nothing_but_starts(alone):
    alone.put()
    fake = pathlib.Path(alone.settings.read_text().split("there, ")[1].split("]")[0])
    (fake.parent / "runc").symlink_to(fake)
    alone.settings.write_text("sluice: {cdi: {runtime: {runtime: [a]}}}\n")
    alone.machine.env["PATH"] = f"{fake.parent}:{alone.machine.env['PATH']}"
    alone.refuses("config.yaml:1:26: sluice.cdi.runtime: unknown key 'runtime'")
    reply = alone.run("kill", "id").ok()
    assert "unknown key" in reply.err
    assert alone.started.read_text().split()[1:] == ["kill", "id"]


def test_what_cannot_be_given_is_said(alone):
    alone.put(f"{VISIBLE}=7")
    alone.refuses("CDI device 'nvidia.com/gpu=7': no such device")
    alone.put(f"{VISIBLE}=0\n1")
    alone.refuses("is no device")
    alone.machine.path("/var/run/cdi/gpu.json").unlink()
    alone.put(f"{VISIBLE}=0")
    alone.refuses("no CDI specification has GPUs")


def test_bundles_that_are_no_bundles(alone, tmp_path):
    alone.refuses("No such file or directory")
    os.mkfifo(alone.file)
    alone.refuses("is no regular file")
    alone.file.unlink()
    secret = tmp_path / "secret"
    secret.write_text("root:secret\n")
    alone.file.symlink_to(secret)
    alone.refuses("it is a link")
    assert secret.read_text() == "root:secret\n"
    alone.file.unlink()
    asks = f'"process": {{"env": ["{VISIBLE}=0"], "capabilities": {{"bounding": ["{SYS_ADMIN}"]}}}}'
    for text, says in ((f'{{{asks}, "x": "{"x" * (4 << 20)}"}}', "larger than"),
                       (f'{{{asks}, "x": {"[" * 100000}{"]" * 100000}}}', "nested deeper than 64 levels"),
                       (f'{{{asks}, "x": [{"0," * 300000}0]}}', "more than 262144 values"),
                       (f'{{{asks}, {asks}}}', "a key is there twice"),
                       (f'{{{asks}, "mounts": {{}}, "linux": 3', "it is not JSON"),
                       (f'{{{asks}, "process ": "\\u0001number:1"}}', "like a number of ours"),
                       ("", "it is not JSON"), ("root:secret", "it is not JSON")):
        alone.file.write_text(text)
        alone.refuses(says)
        assert alone.file.read_text() == text
        assert "secret" not in alone.log.read_text()


def test_a_bundle_that_cannot_be_written(alone):
    """On a file system that is full or read-only config.json stays whole, and no container starts without its GPU."""
    needs()
    alone.put(f"{VISIBLE}=0")
    text = alone.file.read_text()
    ro = ("unshare", "-m", "sh", "-c", f'mount --bind {alone.bundle} {alone.bundle} && '
          f'mount -o remount,bind,ro {alone.bundle} && exec "$@"', "sh")
    alone.refuses("Read-only file system", before=ro)
    full = ("unshare", "-m", "sh", "-c",
            f'mount -t tmpfs -o size=8k none {alone.bundle} && printf %s "$0" > {alone.file} && '
            f'head -c 8k /dev/zero > {alone.bundle}/filler 2>/dev/null; "$@"; rc=$?; '
            f'[ "$(cat {alone.file})" = "$0" ] || rc=99; exit $rc', text)
    alone.refuses("No space left on device", before=full)
    assert alone.file.read_text() == text


def test_owner_and_mode_stay(alone):
    alone.put(f"{VISIBLE}=0")
    alone.file.chmod(0o640)
    before = alone.file.stat()
    if os.geteuid() == 0:
        os.chown(alone.file, 1234, 5678)
        before = alone.file.stat()
    alone.run().ok()
    after = alone.file.stat()
    assert (after.st_mode, after.st_uid, after.st_gid) == (before.st_mode, before.st_uid, before.st_gid)
