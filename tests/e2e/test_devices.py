# SPDX-License-Identifier: Apache-2.0
"""`sluice devices`: what it shows is what the machine is, and no broken driver is more than one
clear line and a documented exit code."""

import os
import pathlib
import subprocess
import time

import pytest

from conftest import BUILD, SLUICE, base_environment

FAKES = BUILD / "tests" / "unit" / "hardware" / "fake"
SLACK_S = 10  # for a machine on which other tests run
PROFILES = ["dgx1", "dgx2", "dgx-a100", "hgx-h100", "t4x1", "t4x4", "workstation"]


def devices(machine, *options, rc=0, **more):
    reply = machine.run("sluice", "devices", "--output", "json", *options, **more)
    assert reply.rc == rc, reply
    return reply.json if rc == 0 else reply


def one_line(reply, rc, *words):
    """The documented code, one line, and every word in it."""
    assert reply.rc == rc, reply
    assert reply.out == "" and len(reply.err.strip().splitlines()) == 1, reply
    for word in words:
        assert word in reply.err, reply


@pytest.mark.parametrize("profile", PROFILES)
def test_shows_what_the_machine_is(machine, profile):
    machine.start(profile)
    truth, seen = machine.show(), devices(machine)
    assert seen["simulated"] is True
    assert len(seen["gpus"]) == len(truth["gpus"])
    for real, gpu in zip(truth["gpus"], seen["gpus"]):
        assert gpu["uuid"] == real["uuid"]
        assert gpu["state"] == "ok" and gpu["reason"] is None
        assert gpu["name"] == real["name"]
        assert gpu["memory_total_bytes"] == gpu["readings"]["memory_total_bytes"]
        assert gpu["readings"]["memory_total_bytes"] == (
            gpu["readings"]["memory_used_bytes"] + gpu["readings"]["memory_free_bytes"]
            + gpu["readings"]["memory_reserved_bytes"])


@pytest.mark.parametrize("driver", ["470.256.02", "535.183.06", "580.105.08", "590.48.01"])
def test_every_driver_age(machine, driver):
    machine.start("dgx-a100", "--driver", driver)
    seen = devices(machine)
    assert seen["driver_version"] == driver
    assert f"/{driver.split('.')[0]}/libnvidia-ml.so.1" in seen["library"]
    assert [gpu["state"] for gpu in seen["gpus"]] == ["ok"] * 8
    assert all(gpu["readings"]["power_mw"] > 0 for gpu in seen["gpus"])
    assert all(gpu["numa_node"] is not None for gpu in seen["gpus"])


def test_table_says_simulated_and_names_the_library(machine):
    machine.start("t4x4")
    reply = machine.run("sluice", "devices").ok()
    head = reply.out.splitlines()[0]
    assert head.startswith("4 simulated GPUs, driver 580.105.08, CUDA 13.0, library /")
    assert head.endswith("libnvidia-ml.so.1")
    assert reply.out.count("Tesla T4") == 4


def test_mig_devices_are_nested(machine):
    machine.start("dgx-a100", "--mig", "mixed")
    seen = devices(machine)
    profiles = [sorted(mig["profile"] for mig in gpu["mig"]["devices"]) for gpu in seen["gpus"]]
    assert profiles[:4] == [[]] * 4
    assert profiles[4] == profiles[5] == ["2g.10gb", "2g.10gb", "3g.20gb"]
    assert profiles[6] == ["1g.5gb"] * 6 + ["1g.5gb+me"]
    every = [mig for gpu in seen["gpus"] for mig in gpu["mig"]["devices"]]
    assert len({mig["uuid"] for mig in every}) == len(every) == 20
    assert all(mig["memory_total_bytes"] > 0 for mig in every)
    table = machine.run("sluice", "devices").ok().out
    assert table.count("MIG 1g.5gb") == 14


def test_processes(machine):
    machine.start("dgx-a100", "--gpus", "2")
    child = machine.load("1", "--util", "0.5", "--mem", "2GiB")
    gpus = devices(machine)["gpus"]
    assert gpus[0]["processes"] == []
    [process] = gpus[1]["processes"]
    assert process["pid"] == child.pid and process["compute"] and process["gi"] is None
    assert process["memory_bytes"] >= 2 << 30


def test_absent_is_not_zero(machine):
    machine.start("workstation")
    readings = devices(machine)["gpus"][0]["readings"]
    assert "ecc_uncorrected_volatile" not in readings
    assert "nvlink_active" not in readings and "nvlink_errors" not in readings
    assert "fan_percent" in readings


def test_a_lost_gpu_never_hides_the_others(machine):
    machine.start("dgx-a100")
    before = devices(machine)
    machine.sim("inject", "lost", "--gpu", "3")
    gpus = devices(machine)["gpus"]
    assert [gpu["state"] for gpu in gpus] == ["ok"] * 3 + ["lost"] + ["ok"] * 4
    lost = gpus[3]
    assert lost["uuid"] == before["gpus"][3]["uuid"]
    assert lost["bus"] == before["gpus"][3]["bus"]
    assert "fallen off the bus" in lost["reason"]
    assert lost["readings"] == {}
    assert gpus[4]["uuid"] == before["gpus"][4]["uuid"]


def test_all_lost(machine):
    machine.start("t4x4")
    for gpu in range(4):
        machine.sim("inject", "lost", "--gpu", gpu)
    assert [gpu["state"] for gpu in devices(machine)["gpus"]] == ["lost"] * 4


def test_a_hung_gpu_costs_its_deadline_only(machine):
    machine.start("dgx-a100")
    machine.sim("inject", "hang", "any", "--gpu", "5")
    begin = time.monotonic()
    gpus = devices(machine, "--timeout", "4s")["gpus"]
    assert time.monotonic() - begin < 4 + SLACK_S
    assert [gpu["state"] for gpu in gpus] == ["ok"] * 5 + ["hung"] + ["ok"] * 2
    assert gpus[5]["uuid"].startswith("GPU-51ce51ce-")
    assert "did not come back" in gpus[5]["reason"]


@pytest.mark.parametrize("function", ["nvmlDeviceGetName", "nvmlDeviceGetPowerUsage"])
def test_a_hang_anywhere(machine, function):
    """While the identity is read, and while the readings are."""
    machine.start("t4x4")
    machine.sim("inject", "hang", function, "--gpu", "2")
    gpus = devices(machine, "--timeout", "4s")["gpus"]
    assert [gpu["state"] for gpu in gpus] == ["ok", "ok", "hung", "ok"]
    assert function in gpus[2]["reason"]


def test_two_hung_gpus(machine):
    machine.start("t4x4")
    for gpu in (0, 3):
        machine.sim("inject", "hang", "any", "--gpu", gpu)
    gpus = devices(machine, "--timeout", "6s")["gpus"]
    assert [gpu["state"] for gpu in gpus] == ["hung", "ok", "ok", "hung"]


def test_the_whole_driver_hangs(machine):
    machine.start("t4x1")
    machine.sim("inject", "hang", "nvmlInit")
    begin = time.monotonic()
    one_line(machine.run("sluice", "devices", "--timeout", "2s"), 124, "nvmlInit_v2", "2 s")
    assert time.monotonic() - begin < 2 + SLACK_S


def test_gpus_that_vanish_while_they_are_counted(machine):
    machine.start("dgx-a100")
    machine.sim("fault", "nvmlDeviceGetHandleByIndex_v2", "ret=6", "after=7")
    gpus = devices(machine)["gpus"]
    assert [gpu["state"] for gpu in gpus[:7]] == ["ok"] * 7
    assert len(gpus) == 8 and gpus[7]["state"] == "error" and gpus[7]["uuid"]


def test_a_gpu_that_vanishes_between_two_calls(machine):
    machine.start("dgx-a100")
    machine.sim("fault", "nvmlDeviceGetPowerUsage", "ret=15", "gpu=2")
    gpus = devices(machine)["gpus"]
    assert gpus[2]["readings"] == {}
    assert [gpu["readings"] != {} for gpu in gpus] == [True] * 2 + [False] + [True] * 5


# ---- drivers that are not there, or half there


def bare(directory, **more):
    """An environment that is pointed at a simulated machine which does not exist."""
    env = base_environment()
    env["SLUICE_SIM_STATE"] = str(directory / "sim.state")
    env.update(more)
    return env


def run_in(machine, env):
    return machine.run("env", "-i", *[f"{key}={value}" for key, value in env.items()], SLUICE,
                       "devices")


def test_no_driver(machine):
    machine.start("t4x1")
    machine.sim("inject", "no-driver")
    one_line(machine.run("sluice", "devices"), 69, "sluice sim status", "sluice sim start")


def test_no_permission(machine):
    machine.start("t4x1")
    machine.sim("inject", "no-permission")
    one_line(machine.run("sluice", "devices"), 77, "/dev/nvidiactl")


def test_version_mismatch_names_both(machine):
    machine.start("t4x1")
    machine.sim("inject", "version-mismatch")
    module = machine.read("/sys/module/nvidia/version").strip()
    one_line(machine.run("sluice", "devices"), 69, "library 580.105.08", f"module {module}")
    assert module != "580.105.08"


def test_no_library(machine):
    one_line(run_in(machine, bare(machine.directory)), 69, "libnvidia-ml.so.1", "sluice sim exec")


def test_no_library_and_no_simulator(machine):
    """What somebody without a GPU sees. Not asked where a driver really is."""
    if any(pathlib.Path(path).exists() for path in (
            "/usr/lib/x86_64-linux-gnu/libnvidia-ml.so.1", "/usr/lib64/libnvidia-ml.so.1",
            "/usr/local/nvidia/lib64/libnvidia-ml.so.1", "/proc/driver/nvidia")):
        pytest.skip("this machine has an NVIDIA driver")
    env = base_environment()
    env["XDG_RUNTIME_DIR"] = str(machine.directory)
    reply = run_in(machine, env)
    if pathlib.Path("/run/sluice/sim.state").exists():
        one_line(reply, 69, "sluice sim exec -- sluice devices")
        return
    one_line(reply, 69, "is the NVIDIA driver installed?")
    state = machine.directory / "sluice" / "sim.state"
    state.parent.mkdir()
    state.touch()
    # Root's machine is in /run/sluice and nowhere else.
    one_line(run_in(machine, env), 69,
             "is the NVIDIA driver installed?" if os.geteuid() == 0 else "sluice sim exec -- sluice devices")


def test_library_is_no_library(machine):
    library = machine.directory / "libnvidia-ml.so.1"
    library.write_text("not ELF")
    env = bare(machine.directory, LD_LIBRARY_PATH=str(machine.directory))
    one_line(run_in(machine, env), 69, "half installed", str(library))


def test_library_cut_short(machine):
    whole = (FAKES / "whole" / "libnvidia-ml.so.1").read_bytes()
    (machine.directory / "libnvidia-ml.so.1").write_bytes(whole[:4096])
    env = bare(machine.directory, LD_LIBRARY_PATH=str(machine.directory))
    one_line(run_in(machine, env), 69, "half installed")


def test_library_without_a_symbol(machine):
    env = bare(machine.directory, LD_LIBRARY_PATH=str(FAKES / "broken"))
    one_line(run_in(machine, env), 69, "nvmlDeviceGetUUID", "half installed")


def test_a_real_driver_is_never_touched(machine):
    """With a simulated machine asked for, a library that shows a real GPU ends everything."""
    env = bare(machine.directory, LD_LIBRARY_PATH=str(FAKES / "whole"), FAKE_NVML="gpus=1 real")
    one_line(run_in(machine, env), 77, "not simulated")


def test_state_cut_short(machine):
    machine.start("t4x1")
    with open(machine.state, "r+b") as state:
        size = os.fstat(state.fileno()).st_size
        state.truncate(size // 2)
    reply = machine.run("sluice", "devices")
    assert reply.rc == 69 and "reboot" not in reply.err, reply
    assert f"the simulated machine in '{machine.state}' is damaged" in reply.err, reply


def test_state_of_another_user(machine):
    if os.geteuid() != 0:
        pytest.skip("needs root, to become somebody else")
    machine.start("t4x1")
    os.chmod(machine.state, 0o600)
    for directory in (machine.directory, machine.root):
        os.chmod(directory, 0o755)
    reply = machine.run("setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", SLUICE, "devices")
    if "setpriv" in reply.err or reply.rc in (126, 127):
        pytest.skip(f"cannot become another user here: {reply.err}")
    assert reply.rc == 77 and f"the simulated machine in '{machine.state}' belongs" in reply.err, reply


def test_state_gone(machine):
    machine.start("t4x1")
    os.unlink(machine.state)
    one_line(machine.run("sluice", "devices"), 69, str(machine.state))


def test_sixty_four_gpus(machine):
    env = bare(machine.directory, LD_LIBRARY_PATH=str(FAKES / "whole"), FAKE_NVML="gpus=64")
    reply = run_in(machine, env).ok()
    assert reply.out.startswith("64 simulated GPUs")
    assert reply.out.count("GPU-51ce51ce-") == 64


def test_old_library_with_plain_names(machine):
    env = bare(machine.directory, LD_LIBRARY_PATH=str(FAKES / "old"), FAKE_NVML="gpus=3")
    reply = run_in(machine, env).ok()
    assert reply.out.startswith("3 simulated GPUs")


def test_unreadable_and_wrong_files_cost_their_value_only(machine):
    machine.start("dgx-a100", "--gpus", "2")
    device = machine.path("/sys/bus/pci/devices").joinpath("0000:07:00.0").resolve()
    (device / "numa_node").unlink()
    (device / "numa_node").symlink_to("nowhere")
    (device / "local_cpulist").unlink()
    (device / "local_cpulist").mkdir()
    node = machine.path("/dev/nvidia0")
    if node.exists() or node.is_symlink():
        node.unlink()
    node.symlink_to("/dev/zero")
    gpus = devices(machine)["gpus"]
    assert gpus[0]["numa_node"] is None and gpus[0]["state"] == "ok"
    assert gpus[1]["numa_node"] is not None


def test_full_device(machine):
    machine.start("t4x1")
    with open("/dev/full", "w", encoding="utf-8") as full:
        child = machine.spawn("sluice", "devices", stdout=full, stderr=subprocess.PIPE)
        _, err = child.communicate(timeout=20)
    assert child.returncode == 1
    assert err.splitlines() == ["sluice devices: cannot write the output: No space left on device"]


def test_nothing_is_left_behind(machine):
    """No probe outlives its command, not even one that hangs."""
    machine.start("t4x1")
    machine.sim("inject", "hang", "nvmlInit")
    machine.run("sluice", "devices", "--timeout", "1s")
    left = []
    for process in pathlib.Path("/proc").glob("[0-9]*"):
        try:
            words = (process / "cmdline").read_bytes().split(b"\0")
            env = (process / "environ").read_bytes()
        except OSError:
            continue
        if words[:2] == [b"sluice", b"probe"] and str(machine.state).encode() in env:
            left.append(words)
    assert left == []
