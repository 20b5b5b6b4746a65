# SPDX-License-Identifier: Apache-2.0
"""`sluice labels`: the labels of every simulated machine, and the feature file in a loop.

The golden sets are labels/NAME.txt, printed with --no-timestamp. SLUICE_GOLDEN=write writes them
anew: read the difference before it is committed.
"""

import os
import pathlib
import re
import signal
import stat

import pytest

from conftest import ROOT, wait_until

GOLDEN = pathlib.Path(__file__).parent / "labels"
VALUE = re.compile(r"([A-Za-z0-9]([A-Za-z0-9._-]{0,61}[A-Za-z0-9])?)?")
T4 = (ROOT / "sim/profiles/t4x1.profile").read_text().partition("[model t4]")[2]
A100 = (ROOT / "sim/profiles/a100-mig.profile").read_text().partition("[model a100-sxm4-40gb]")[2]
A100 = A100.partition("[mig")[0].replace("mig = yes", "mig = no")

# What the peer's own tests expect of each of its strategies (tests/expected-output*.txt of
# https://github.com/NVIDIA/k8s-device-plugin), and vgpu.present, which its newer versions always have.
ALWAYS = set("""cuda.driver.major cuda.driver.minor cuda.driver.rev cuda.runtime.major
    cuda.runtime.minor cuda.driver-version.major cuda.driver-version.minor
    cuda.driver-version.revision cuda.driver-version.full cuda.runtime-version.major
    cuda.runtime-version.minor cuda.runtime-version.full gpu.machine gpu.count gpu.replicas
    gpu.sharing-strategy gpu.product gpu.memory gpu.family gpu.mode mig.capable gpu.compute.major
    gpu.compute.minor mps.capable vgpu.present""".split())
ATTRIBUTES = set("""multiprocessors engines.copy engines.decoder engines.encoder engines.jpeg
    engines.ofa slices.gi slices.ci""".split())
SHARED = set("product count replicas sharing-strategy memory".split())


def parse(text):
    """{"gpu.count": "8"}, after a look at every line: valid, in order, none twice."""
    lines = [line for line in text.splitlines() if not line.startswith("#")]
    assert lines == sorted(set(lines), key=lambda line: line.partition("=")[0].encode())
    found = {}
    for line in lines:
        key, equals, value = line.partition("=")
        prefix, _, name = key.partition("/")
        assert equals and prefix in ("nvidia.com", "sluice.dev"), line
        assert name and VALUE.fullmatch(name) and VALUE.fullmatch(value), line
        found[name if prefix == "nvidia.com" else key] = value
    return found


def labels(machine, *options, **how):
    reply = machine.run("sluice", "labels", "--no-timestamp", *options, **how).ok()
    assert "the GPUs are simulated" in reply.err
    return parse(reply.out)


def config(machine, text):
    path = machine.directory / "config.yaml"
    path.write_text(text)
    return "--config-file", path


# ---- golden sets

@pytest.mark.parametrize("name, profile, start, strategy", [
    ("t4x1", "t4x1", [], "none"),
    ("t4x4-vgpu", "t4x4", ["--vgpu-guest"], "none"),
    ("workstation", "workstation", [], "none"),
    ("dgx1", "dgx1", [], "none"),
    ("dgx2", "dgx2", [], "mixed"),
    ("dgx-a100", "dgx-a100", [], "none"),
    ("dgx-a100-old", "dgx-a100", ["--driver", "470.256.02"], "single"),
    ("hgx-h100-fabric", "hgx-h100", ["--fabric", "--driver", "590.48.01"], "none"),
    ("a100-mig-none", "a100-mig", [], "none"),
    ("a100-mig-single", "a100-mig", [], "single"),
    ("a100-mig-mixed", "a100-mig", [], "mixed"),
    ("h100-mig-mixed", "h100-mig", ["--driver", "535.183.06"], "mixed"),
    ("dgx-a100-mixed-single", "dgx-a100", ["--mig", "mixed"], "single"),
    ("dgx-a100-mixed-mixed", "dgx-a100", ["--mig", "mixed"], "mixed"),
])
def test_golden(machine, name, profile, start, strategy):
    machine.start(profile, *start)
    reply = machine.run("sluice", "labels", "--no-timestamp", "--mig-strategy", strategy).ok()
    path = GOLDEN / f"{name}.txt"
    if os.environ.get("SLUICE_GOLDEN") == "write":
        path.write_text(reply.out)
    assert reply.out == path.read_text()
    found = parse(reply.out)
    keys = set(found) - {"mig.strategy", "gpu.clique", "vgpu.host-driver-version",
                         "vgpu.host-driver-branch"}
    profiles = {key.split(".product")[0] for key in keys if key.startswith("mig-") and
                key.endswith(".product")}
    expected = ALWAYS | {f"{profile}.{suffix}" for profile in profiles
                         for suffix in SHARED | ATTRIBUTES}
    assert keys == expected
    assert (strategy == "none") == ("mig.strategy" not in found)


def test_one_profile_everywhere(machine):
    """The peer's example of the strategy single: what each MIG device is, not the GPU."""
    machine.start("dgx-a100", "--gpus", "2", "--mig", "single")
    found = labels(machine, "--mig-strategy", "single")
    assert found["gpu.product"] == "NVIDIA-A100-SXM4-40GB-MIG-1g.5gb"
    assert found["gpu.count"] == "14" and found["gpu.memory"] == "4864"
    assert set(found) == ALWAYS | {"mig.strategy"} | {f"gpu.{name}" for name in ATTRIBUTES}


def test_json_and_again(machine):
    machine.start("a100-mig")
    first = machine.run("sluice", "labels", "--no-timestamp", "--mig-strategy=mixed")
    again = machine.run("sluice", "labels", "--no-timestamp", "--mig-strategy=mixed")
    assert first.out == again.out
    reply = machine.run("sluice", "labels", "--no-timestamp", "--mig-strategy=mixed", "-o", "json")
    json = reply.ok().json
    assert json["simulated"] is True and json["warnings"] == []
    assert [f"{key}={value}" for key, value in json["labels"].items()] == first.out.splitlines()
    with_time = parse(machine.run("sluice", "labels").out)
    assert re.fullmatch(r"[0-9]{10}", with_time["gfd.timestamp"])


# ---- sharing, names, several models

@pytest.mark.parametrize("file, product, replicas", [
    ("time-slicing-t4", "Tesla-T4-SHARED", None), ("time-slicing-5-renamed", "Tesla-T4", "5"),
    ("time-slicing-none", "Tesla-T4", "1")])
def test_documents(machine, file, product, replicas):
    machine.start("t4x4")
    path = ROOT / "tests/documents/config" / f"{file}.yaml"
    found = labels(machine, "--config-file", path, "--oneshot", "--output-file=")
    assert found["gpu.product"] == product
    assert found["gpu.count"] == "4"
    assert found["gpu.replicas"] == (replicas or found["gpu.replicas"])
    shared = found["gpu.replicas"] != "1"
    assert found["gpu.sharing-strategy"] == ("time-slicing" if shared else "none")


def two_models(machine, name="Tesla T4"):
    path = machine.directory / "two.profile"
    t4 = T4.replace("name = Tesla T4", f"name = {name}")
    path.write_text("[machine]\nname = two\nproduct = Two (models)\nlevels = else 30\nbus = 07 0f 47 4e\nnuma = 0 0 0 0\n"
                    "cpus_per_node = 4\nmodel = t4\n"
                    f"[model a100]{A100}\n[model t4]{t4}\n"
                    "[gpu 1]\nmodel = a100\n[gpu 3]\nmodel = a100\n")
    machine.start(path)


def test_several_models(machine):
    two_models(machine)
    reply = machine.run("sluice", "labels", "--no-timestamp").ok()
    assert ("warning: several GPU models: NVIDIA A100-SXM4-40GB x2, Tesla T4 x2; labels describe "
            "NVIDIA A100-SXM4-40GB") in reply.err
    before = parse(reply.out)
    assert before["gpu.product"] == "NVIDIA-A100-SXM4-40GB" and before["gpu.count"] == "2"
    assert before["gpu.memory"] == "40960" and before["gpu.machine"] == "Two-models"
    machine.sim("inject", "lost", "--gpu", "0")
    machine.sim("inject", "lost", "--gpu", "1")
    after = labels(machine)
    assert after == {**before, "gpu.count": "1"}
    found = labels(machine, *config(machine, """
resources: {gpus: [{pattern: "*A100*", name: a100}, {pattern: "*T4*", name: t4}]}
sharing: {timeSlicing: {resources: [{name: t4, replicas: 3}]}}
sluice: {labels: {present: true, extended: true}}
"""))
    assert found["t4.product"] == "Tesla-T4-SHARED" and found["t4.replicas"] == "3"
    assert found["a100.count"] == "1" and found["gpu.present"] == "true"
    assert found["sluice.dev/gpu.models"] == "2"
    assert found["sluice.dev/gpu-model.tesla-t4.memory"] == "15360"


def test_long_names_are_cut(machine):
    two_models(machine, "NVIDIA RTX PRO 6000 Blackwell Max-Q Workstation Edition (300 W / 96 GB)")
    machine.sim("inject", "lost", "--gpu", "1")
    machine.sim("inject", "lost", "--gpu", "3")
    found = labels(machine, *config(
        machine, "sharing: {timeSlicing: {resources: [{name: gpu, replicas: 2}]}}"))
    assert found["gpu.product"] == "NVIDIA-RTX-PRO-6000-Blackwell-Max-Q-Workstation-Edition-SHARED"
    assert found["gpu.count"] == "2"


def test_devices_that_are_excluded_are_not_counted(machine):
    machine.start("t4x4")
    assert labels(machine, *config(machine, "sluice: {devices: {exclude: [0]}}"))["gpu.count"] == "3"


# ---- what fails costs its own labels only

def test_a_lost_gpu(machine):
    machine.start("dgx-a100")
    before = labels(machine)
    machine.sim("inject", "lost", "--gpu", "3")
    assert labels(machine) == {**before, "gpu.count": "7"}


@pytest.mark.parametrize("function, without", [
    ("nvmlDeviceGetMemoryInfo", {"gpu.memory"}),
    ("nvmlDeviceGetCudaComputeCapability", {"gpu.family", "gpu.compute.major",
                                            "gpu.compute.minor"}),
    ("nvmlDeviceGetName", set()),
    ("nvmlDeviceGetGpuFabricInfo", set())])
def test_a_function_that_fails(machine, function, without):
    machine.start("t4x1")
    machine.sim("fault", function, "ret=999")
    assert set(labels(machine)) == ALWAYS - without


def test_the_newer_fabric_function_alone(machine):
    machine.start("hgx-h100", "--fabric", "--gpus", "2")
    before = labels(machine)
    assert before["gpu.clique"] == "51ce51ce-fab1-1c01-8000-51ce51ce0001.1"
    machine.sim("fault", "nvmlDeviceGetGpuFabricInfo", "ret=13")
    assert labels(machine) == before


def test_files_that_are_not_there(machine):
    machine.start("t4x1", "--vgpu-guest")
    before = labels(machine)
    assert before["vgpu.present"] == "true" and before["vgpu.host-driver-branch"] == "r580_00"
    device = next((machine.root / "sys/bus/pci/devices").glob("*:1e.0"))
    space = (device / "config").read_bytes()
    (device / "config").unlink()
    (device / "config").write_bytes(space[:64])  # what an ordinary user gets
    (device / "class").unlink()
    (machine.root / "sys/class/dmi/id/product_name").unlink()
    reply = machine.run("sluice", "labels", "--no-timestamp").ok()
    assert "warning: no vgpu labels" in reply.err
    found = parse(reply.out)
    assert found == {**{key: value for key, value in before.items() if not key.startswith("vgpu")},
                     "gpu.machine": "unknown", "gpu.mode": "unknown"}
    name = machine.directory / "name"
    name.write_text("To Be Filled By O.E.M.\n")
    assert labels(machine, "--machine-type-file", name)["gpu.machine"] == "To-Be-Filled-By-O.E.M"


def test_no_driver(machine):
    machine.start("t4x1")
    machine.sim("inject", "no-driver")
    reply = machine.run("sluice", "labels")
    assert reply.rc == 1 and reply.out == "" and "sluice sim status" in reply.err
    reply = machine.run("sluice", "labels", env={"GFD_FAIL_ON_INIT_ERROR": "FALSE"}).ok()
    assert set(parse(reply.out)) == {"gfd.timestamp", "vgpu.present"}


# ---- refused

@pytest.mark.parametrize("options, words", [
    (["--device-discovery-strategy", "x"], "invalid --device-discovery-strategy option x"),
    (["--device-discovery-strategy", "vfio"], "not built yet"),
    (["--mig-strategy", "x"], "unknown MIG strategy: x"),
    (["--oneshot=false", "--sleep-interval", "0s"], "invalid duration"),
    (["--sleep-interval", "-5s"], "--sleep-interval"),
    (["--use-node-feature-api"], "kept by 'sluice agent'"),
    (["--config-file", "/nonexistent/c.yaml"], "/nonexistent/c.yaml"),
    (["--output-file", "/nonexistent/features.d/gfd"], "/nonexistent/features.d"),
    (["--oneshot=false", "--output-file", "/nonexistent/features.d/gfd"], "features.d"),
])
def test_refused(machine, options, words):
    machine.start("t4x1")
    reply = machine.run("sluice", "labels", *options)
    assert reply.rc == 1 and words in reply.err and reply.out == "", reply


@pytest.mark.parametrize("mode", ["nodefeature", "direct"])
def test_modes_of_the_api(machine, mode):
    """Printing is right in any mode; publishing is not, while it is not built."""
    machine.start("t4x1")
    options = config(machine, f"sluice: {{labels: {{mode: {mode}}}}}")
    assert labels(machine, *options)["gpu.count"] == "1"
    reply = machine.run("sluice", "labels", *options, "--output-file", machine.directory / "gfd")
    assert reply.rc == 1 and "kept by 'sluice agent'" in reply.err
    assert not (machine.directory / "gfd").exists()


def test_wrong_usage(machine):
    machine.start("t4x1")
    assert machine.run("sluice", "labels", "--output", "yaml").rc == 64
    assert machine.run("sluice", "labels", "--output", "json", "--oneshot=false").rc == 64


# ---- the feature file

def test_a_file_is_written_once(machine):
    machine.start("t4x1")
    path = machine.directory / "gfd"
    old = os.umask(0o077)
    try:
        reply = machine.run("sluice", "labels", "--no-timestamp", "--output", path).ok()
    finally:
        os.umask(old)
    assert reply.out == "" and stat.S_IMODE(path.stat().st_mode) == 0o644
    assert parse(path.read_text())["gpu.count"] == "1"
    before = path.stat()
    machine.run("sluice", "labels", "--no-timestamp", env={"GFD_OUTPUT_FILE": str(path)}).ok()
    assert path.stat().st_ino == before.st_ino and path.stat().st_mtime_ns == before.st_mtime_ns
    assert sorted(entry.name for entry in machine.directory.glob("*gfd*")) == ["gfd"]


def test_a_file_that_cannot_be_written(machine):
    machine.start("t4x1")
    reply = machine.run("sluice", "labels", "--output-file", machine.directory)
    assert reply.rc == 1 and str(machine.directory) in reply.err


def loop(machine, path, *options):
    child = machine.spawn("sluice", "labels", "--oneshot=false", "--sleep-interval=100ms",
                          "--output-file", path, *options)
    wait_until(path.exists, what="the feature file")
    return child


def value(path, key):
    return parse(path.read_text()).get(key)


def end(child, number=signal.SIGTERM):
    child.send_signal(number)
    assert child.wait(timeout=60) == 0


def test_loop(machine):
    machine.start("t4x4")
    path = machine.directory / "gfd"
    child = loop(machine, path)
    start = value(path, "gfd.timestamp")
    before = path.stat()
    machine.sim("inject", "lost", "--gpu", "2")
    wait_until(lambda: value(path, "gpu.count") == "3", what="a count without the lost GPU")
    assert path.stat().st_ino != before.st_ino
    machine.sim("heal")
    wait_until(lambda: value(path, "gpu.count") == "4", what="a count with the GPU")
    assert value(path, "gfd.timestamp") == start  # once per start
    path.unlink()
    wait_until(path.exists, what="the file again")
    end(child)
    assert not path.exists()


def test_reload(machine):
    machine.start("t4x1")
    path = machine.directory / "gfd"
    settings = config(machine, "sluice: {labels: {onExit: keep}}")
    child = loop(machine, path, *settings, "--sleep-interval=infinite")
    assert value(path, "gpu.replicas") == "1"
    config(machine, "sharing: {timeSlicing: {resources: [{name: gpu, replicas: 7}]}}\n"
                    "sluice: {labels: {onExit: keep, expiry: 10m}}")
    child.send_signal(signal.SIGHUP)
    wait_until(lambda: value(path, "gpu.replicas") == "7", what="the new configuration")
    assert re.match(r"# \+expiry-time=20[0-9-]{8}T[0-9:]{8}Z\n", path.read_text())
    settings[1].write_text("sluice: {labels: {onExit: never}}")
    child.send_signal(signal.SIGHUP)  # refused: all stays as it was
    end(child, signal.SIGINT)
    assert value(path, "gpu.replicas") == "7"


def test_infinite_keeps_the_file(machine):
    machine.start("t4x1")
    path = machine.directory / "gfd"
    end(loop(machine, path, "--sleep-interval=infinite"), signal.SIGQUIT)
    assert path.exists()


def test_the_driver_goes_away(machine):
    machine.start("t4x1")
    path = machine.directory / "gfd"
    child = loop(machine, path, *config(machine, "sluice: {labels: {keepOnError: 0s}}"))
    assert value(path, "gpu.count") == "1"
    machine.sim("inject", "no-driver")
    wait_until(lambda: set(parse(path.read_text())) == {"gfd.timestamp", "vgpu.present"},
               what="labels of no GPU")
    machine.sim("heal")
    wait_until(lambda: value(path, "gpu.count") == "1", what="the driver again")
    end(child)
