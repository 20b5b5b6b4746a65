# SPDX-License-Identifier: Apache-2.0
"""`sluice sim`: life cycle, refusals with their exit codes, load, determinism."""

import json
import os
import pathlib
import shlex
import stat
import subprocess

import pytest

from conftest import SLUICE, base_environment, wait_until

PROFILES = ["dgx1", "dgx2", "dgx-a100", "hgx-h100", "t4x1", "t4x4", "workstation"]


def below(directory):
    """Everything below a directory: names, kinds and contents."""
    found = {}
    for path in sorted(directory.rglob("*")):
        status = path.lstat()
        kind = stat.S_IFMT(status.st_mode)
        content = os.readlink(path) if path.is_symlink() else (
            path.read_bytes() if stat.S_ISREG(kind) else status.st_rdev)
        found[str(path.relative_to(directory))] = (kind, status.st_mode, content)
    return found


def test_every_line_says_simulated(machine):
    for reply in (machine.start("dgx-a100"), machine.sim("status"), machine.sim("env"),
                  machine.sim("inject", "xid", "13", "--gpu", "0"), machine.sim("stop")):
        lines = [line for line in reply.out.splitlines() if line]
        assert lines and all("simulated" in line for line in lines), reply


def test_start_says_what_to_do_next(machine):
    reply = machine.start("t4x1")
    assert "sluice sim exec" in reply.out and "sluice sim stop" in reply.out


@pytest.mark.parametrize("profile", PROFILES)
def test_start_and_stop_leave_nothing(machine, profile):
    machine.start(profile)
    truth = machine.show()
    assert truth["machine"]["simulated"] is True and truth["machine"]["profile"] == profile
    machine.sim("stop")
    assert list(machine.directory.iterdir()) == []


def test_stop_removes_nothing_of_others(machine):
    machine.start("t4x1")
    mine = machine.root / "dev" / "mine"
    mine.write_text("keep")
    reply = machine.sim("stop")
    assert mine.read_text() == "keep" and "stays" in reply.out
    assert sorted(below(machine.root)) == ["dev", "dev/mine"]


def test_starting_again_where_a_service_was(machine):
    machine.start("t4x1")
    machine.agent()
    number = machine.submit("true", gpus=1)
    machine.job_in(number, "Succeeded")
    machine.service.terminate()
    machine.service.wait()
    assert "stays" in machine.sim("stop").out

    machine.start("t4x1")
    machine.agent()
    assert machine.job(number)["state"] == "Succeeded"


def as_user(home, **variables):
    """For subprocess: an ordinary user with nothing but a home, and how they would run sluice."""
    env = {key: value for key, value in base_environment().items() if not key.startswith("XDG_")}
    who = {"user": 65534, "group": 65534, "extra_groups": []} if os.geteuid() == 0 else {}
    if who and subprocess.run([SLUICE, "--version"], check=False, capture_output=True, **who).returncode:
        pytest.skip("the build cannot be read by another user")
    if pathlib.Path(f"/run/user/{who.get('user', os.geteuid())}").exists():
        pytest.skip("this user has a session")
    return {"env": {**env, "HOME": str(home), **variables}, "cwd": "/", **who}


def test_a_user_without_a_session_has_a_machine_in_the_home(machine):
    home = machine.directory / "home"
    home.mkdir()
    home.chmod(0o777)
    how = as_user(home)

    def sim(*arguments):
        return subprocess.run([SLUICE, "sim", *arguments], capture_output=True, text=True, check=False, **how)

    done = sim("start", "--alongside", "--profile", "t4x1")
    assert done.returncode == 0 and f"{home}/.local/state/sluice/sim" in done.stdout, done
    done = sim("exec", "--", SLUICE, "devices")
    assert done.returncode == 0 and "T4" in done.stdout, done
    plain = subprocess.run([SLUICE, "devices"], capture_output=True, text=True, check=False, **how)
    assert plain.returncode == 0 or "a simulated machine is running: use 'sluice sim exec" in plain.stderr, plain
    assert sim("stop").returncode == 0
    assert not (home / ".local/state/sluice/sim").exists()


def test_commands_without_a_machine_say_how_to_start_one(machine):
    for verb in ("status", "show", "stop", "env", "heal"):
        reply = machine.sim(verb, rc=1)
        assert "sluice sim start" in reply.err


def test_a_log_that_cannot_be_written_is_refused(machine):
    for path in ("/nonexistent/log", machine.directory):
        reply = machine.start("t4x1", "--log", path, rc=None)
        assert reply.rc == 2 and f"--log '{path}'" in reply.err, reply
    assert list(machine.directory.iterdir()) == []
    machine.start("t4x1", "--log", machine.directory / "log")
    machine.run("sluice", "devices").ok()
    assert (machine.directory / "log").stat().st_size > 0


def test_second_start_is_refused(machine):
    machine.start("t4x1")
    before = below(machine.root)
    reply = machine.start("dgx1", rc=5)
    assert f"already running in '{machine.state}'" in reply.err
    assert f"'sluice sim stop --state {machine.state}'" in reply.err
    assert below(machine.root) == before
    assert machine.show()["machine"]["profile"] == "t4x1"


def test_root_of_another_machine_is_refused(machine, machine_factory):
    machine.start("t4x1")
    before = below(machine.root)
    other = machine_factory()
    other.root = machine.root
    reply = other.start("dgx1", rc=5)
    assert str(machine.root) in reply.err and not other.state.exists()
    assert below(machine.root) == before


def test_left_over_files_can_be_removed(machine):
    machine.start("t4x1")
    machine.state.unlink()
    machine.start("t4x1", rc=5)
    machine.sim("stop")
    assert list(machine.directory.iterdir()) == []
    machine.sim("stop", rc=1)


def test_stop_ends_calls_that_hang(machine):
    machine.start("t4x1")
    machine.sim("inject", "hang", "nvmlSystemGetDriverVersion")
    program = ("import ctypes; n = ctypes.CDLL('libnvidia-ml.so.1'); assert n.nvmlInit_v2() == 0; "
               "print('ready', flush=True); "
               "n.nvmlSystemGetDriverVersion(ctypes.create_string_buffer(80), 80)")
    child = machine.spawn("/usr/bin/python3", "-c", program, stdout=subprocess.PIPE)
    assert child.stdout.readline() == "ready\n"
    status = pathlib.Path(f"/proc/{child.pid}/stat")
    wait_until(lambda: status.read_text().rsplit(")", 1)[1].split()[0] == "S", what="the hang")
    machine.sim("stop")
    assert child.wait(timeout=30) == 0


def test_what_start_prints_can_be_pasted(machine):
    machine.state = machine.directory / "it's a state"
    lines = machine.start("t4x1").out.splitlines()
    command = next(line for line in lines if line.startswith("run a program")).split(":", 1)[1]
    assert shlex.split(command)[:5] == ["sluice", "sim", "exec", "--state", str(machine.state)]


def test_state_that_is_a_symlink_is_refused(machine):
    victim = machine.directory / "victim"
    victim.write_text("keep")
    machine.state.symlink_to(victim)
    machine.start("t4x1", rc=4)
    machine.sim("show", rc=4)
    machine.sim("stop", rc=4)
    assert victim.read_text() == "keep" and machine.state.is_symlink()
    assert not machine.root.exists()


def test_state_that_is_no_state_is_refused(machine):
    machine.state.write_text("something else\n")
    machine.start("t4x1", rc=4)
    machine.sim("stop", rc=4)
    assert machine.state.read_text() == "something else\n"


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root to give a file away")
def test_state_of_another_user_is_refused(machine):
    machine.start("t4x1")
    os.chown(machine.state, 12345, 12345)
    machine.sim("show", rc=4)
    machine.start("t4x1", rc=4)
    os.chown(machine.state, 0, 0)


def test_truncated_state_can_be_stopped(machine):
    machine.start("t4x1")
    os.truncate(machine.state, 100000)
    machine.sim("show", rc=1)
    machine.sim("stop")
    assert list(machine.directory.iterdir()) == []


@pytest.mark.parametrize("name", ["dev", "sys/bus/pci/devices/0000:07:00.0", "kmsg"])
def test_root_with_something_foreign_is_refused(machine, name):
    path = machine.root / name
    path.parent.mkdir(parents=True)
    path.write_text("keep")
    reply = machine.start("dgx-a100", rc=4)
    assert len(reply.err.splitlines()) == 1 and "not made by sluice" in reply.err
    assert path.read_text() == "keep" and not machine.state.exists()
    assert [str(p) for p in machine.root.rglob("*") if p.is_file()] == [str(path)]


def test_symlink_where_a_node_should_be_is_refused(machine):
    machine.start("dgx-a100")
    victim = machine.directory / "victim"
    victim.write_text("keep")
    node = machine.path("/dev/nvidia3")
    node.unlink()
    node.symlink_to(victim)
    reply = machine.sim("inject", "lost", "--gpu", "1", rc=4)
    assert "nvidia3" in reply.err and "symbolic link" in reply.err
    assert len(reply.err.splitlines()) == 1
    assert machine.show()["gpus"][1]["health"] == "ok", "half a change was published"
    assert victim.read_text() == "keep" and node.is_symlink()


def test_file_that_was_put_in_the_way_is_refused(machine):
    machine.start("dgx-a100")
    machine.sim("inject", "hotunplug", "--gpu", "3")
    mine = machine.path("/dev/nvidia3")
    mine.write_text("keep")
    reply = machine.sim("inject", "hotplug", "--gpu", "3", rc=4)
    assert "nvidia3" in reply.err and len(reply.err.splitlines()) == 1
    assert mine.read_text() == "keep" and machine.show()["gpus"][3]["health"] == "unplugged"
    machine.sim("stop")
    assert mine.read_text() == "keep"


def test_root_that_is_a_symlink_is_refused(machine):
    elsewhere = machine.directory / "elsewhere"
    elsewhere.mkdir()
    machine.root.symlink_to(elsewhere)
    machine.start("t4x1", rc=4)
    assert list(elsewhere.iterdir()) == [] and not machine.state.exists()


def test_real_driver_is_left_alone(machine, tmp_path):
    version = tmp_path / "proc" / "driver" / "nvidia" / "version"
    version.parent.mkdir(parents=True)
    version.write_text("NVRM version: NVIDIA UNIX x86_64 Kernel Module  535.1  x\n")
    reply = machine.sim("start", "--profile", "t4x1", "--host", tmp_path, rc=3)
    assert "--alongside" in reply.err and not machine.state.exists() and not machine.root.exists()
    machine.sim("start", "--profile", "t4x1", "--host", tmp_path, "--alongside")


def test_real_library_in_the_loader_cache_is_found(machine, tmp_path):
    (tmp_path / "etc").mkdir()
    (tmp_path / "etc" / "ld.so.cache").write_bytes(b"x\0libnvidia-ml.so.1\0y")
    machine.sim("start", "--profile", "t4x1", "--host", tmp_path, rc=3)


@pytest.mark.parametrize("directory", ["lib/x86_64-linux-gnu", "lib/aarch64-linux-gnu", "lib64"])
def test_real_library_of_each_processor_is_found(machine, tmp_path, directory):
    (tmp_path / "usr" / directory).mkdir(parents=True)
    (tmp_path / "usr" / directory / "libnvidia-ml.so.1").touch()
    machine.sim("start", "--profile", "t4x1", "--host", tmp_path, rc=3)


@pytest.mark.parametrize("arguments, near", [
    (["start", "--alongside", "--profile", "dgx-a10"], "dgx-a100"),
    (["start", "--alongside", "--profile", "t4x1", "--quirk", "oldt"], "oldts"),
    (["start", "--alongside", "--profile", "t4x1", "--break", "uvm-mising"], "uvm-missing"),
    (["start", "--alongside", "--profile", "t4x1", "--mig", "single"], ""),
])
def test_unknown_words_of_start(machine, arguments, near):
    reply = machine.sim(*arguments, rc=2)
    assert near in reply.err
    assert not machine.state.exists() and not machine.root.exists()


def test_profile_with_an_error_names_line_and_column(machine, tmp_path):
    profile = tmp_path / "mine.profile"
    profile.write_text("nonsense = 1\n")
    reply = machine.start(str(profile), rc=2)
    assert f"{profile}:1:" in reply.err


def test_profiles_are_listed(machine):
    out = machine.run("sluice", "sim", "profiles").ok().out
    for name in PROFILES:
        assert name in out
    listed = json.loads(machine.run("sluice", "sim", "profiles", "--output", "json").ok().out)
    assert set(PROFILES) <= {profile["profile"] for profile in listed}
    assert all(profile["simulated"] and profile["gpus"] >= 1 for profile in listed)


def test_load_lives_as_long_as_its_process(machine):
    machine.start("dgx-a100", "--gpus", "2")
    child = machine.load(0, "--util", "0.8", "--mem", "2GiB")
    entry = wait_until(lambda: [gpu for gpu in machine.show()["gpus"]
                                if gpu["index"] == 0 and gpu["utilization"]["gpu"] == 80])[0]
    assert entry["memory"]["used"] == (2 << 30) + (300 << 20)
    assert entry["memory"]["used"] + entry["memory"]["free"] + entry["memory"]["reserved"] == \
        entry["memory"]["total"]
    assert entry["processes"][0]["pid"] == child.pid
    assert machine.show()["gpus"][1]["processes"] == []
    child.kill()
    child.wait()
    gone = wait_until(lambda: [gpu for gpu in machine.show()["gpus"]
                               if gpu["index"] == 0 and not gpu["processes"]])[0]
    assert gone["memory"]["used"] == 0


def test_job_loads_its_own_gpu_by_uuid(machine):
    machine.start("dgx-a100", "--gpus", "2")
    uuid = machine.show()["gpus"][1]["uuid"]
    script = (f'"{SLUICE}" sim load --gpu {uuid} --pid $$ --util 0.8 --mem 2GiB --for 3s && '
              f'exec "{SLUICE}" sim show --output json --gpu {uuid}')
    reply = machine.run("/bin/sh", "-c", script).ok()
    truth = json.loads(reply.out[reply.out.index("{"):])
    assert [process["memory_bytes"] for process in truth["gpus"][0]["processes"]] == \
        [(2 << 30) + (300 << 20)]


def test_load_ends_after_its_time(machine):
    machine.start("dgx-a100", "--gpus", "1", "--clock", "virtual")
    machine.sim("load", "--gpu", "0", "--pid", "4711", "--invented", "--util", "1", "--for", "3s")
    machine.sim("clock", "advance", "2900ms")
    assert machine.show()["gpus"][0]["utilization"]["gpu"] == 100
    machine.sim("clock", "advance", "200ms")
    assert machine.show()["gpus"][0]["processes"] == []


@pytest.mark.parametrize("arguments, rc, text", [
    (["--gpu", "9", "--pid", "1"], 2, "no GPU 9"),
    (["--gpu", "GPU-51ce51ce-0", "--pid", "1"], 2, "GPU-51ce51ce-0"),
    (["--pid", "1"], 2, "which GPU"),
    (["--gpu", "0", "--pid", "2147483647"], 2, "no process"),
    (["--gpu", "0", "--mig", "7/0", "--pid", "1"], 2, "MIG"),
    (["--gpu", "0", "--pid", "1", "--mem", "41GiB"], 1, "out of memory"),
    (["--gpu", "0"], 64, "process"),
    (["--gpu", "0", "--pid", "1", "--util", "1.5"], 64, "util"),
    (["--gpu", "0", "--pid", "4711", "--remove"], 2, "4711"),
])
def test_load_refuses(machine, arguments, rc, text):
    machine.start("dgx-a100", "--gpus", "2")
    reply = machine.sim("load", *arguments, rc=rc)
    assert text in reply.err
    assert all(gpu["processes"] == [] for gpu in machine.show()["gpus"])


def test_load_in_a_mig_instance(machine):
    machine.start("a100-mig", "--clock", "virtual")
    gpu = machine.show()["gpus"][0]
    assert gpu["mig"]["current"] and gpu["mig"]["instances"]
    instance = gpu["mig"]["instances"][0]
    machine.sim("load", "--gpu", "0", "--pid", "7", "--invented", "--util", "1", rc=2)
    machine.sim("load", "--gpu", instance["uuid"], "--pid", "7", "--invented", "--util", "1")
    process = machine.show()["gpus"][0]["processes"][0]
    assert (process["gi"], process["ci"]) == (instance["gi"], instance["ci"])


def test_exec_sets_the_variables_and_becomes_the_program(machine):
    machine.start("t4x1")
    reply = machine.sim("exec", "--", "/usr/bin/env")
    names = dict(line.split("=", 1) for line in reply.out.splitlines() if "=" in line)
    assert names["SLUICE_ROOT"] == str(machine.root)
    assert names["SLUICE_SIM_STATE"] == str(machine.state)
    assert names["SLUICE_RUNTIME_DIR"] == str(machine.runtime)
    assert names["SLUICE_STATE_DIR"] == str(machine.runtime / "state")
    assert os.path.exists(names["LD_LIBRARY_PATH"].split(":")[0] + "/libnvidia-ml.so.1")
    machine.sim("exec", "--", "/nonexistent", rc=127)
    machine.sim("exec", "--", "/etc/passwd", rc=126)
    machine.sim("exec", "--", "/bin/sh", "-c", "exit 42", rc=42)


@pytest.mark.parametrize("driver, age", [
    ("470.256.02", "470"), ("535.230.02", "535"), ("580.105.08", "580"), ("590.44.01", "590"),
    ("610.1", "590"), ("550.54.15", "535")])
def test_library_age_follows_the_driver(machine, driver, age):
    machine.start("dgx-a100", "--driver", driver)
    assert machine.env["LD_LIBRARY_PATH"].split(":")[0].endswith("/" + age)


def test_exec_from_a_root_with_blanks_and_quotes(machine):
    machine.root = machine.directory / "it's a root"
    machine.start("t4x1")
    assert machine.env["SLUICE_ROOT"] == str(machine.root)


def test_same_seed_and_script_give_the_same_machine(machine_factory):
    texts = []
    for _ in range(2):
        machine = machine_factory()
        machine.start("dgx-a100", "--seed", "7", "--clock", "virtual", "--mig", "mixed")
        machine.sim("load", "--gpu", "1", "--pid", "4711", "--invented", "--util", "0.7",
                    "--mem", "3GiB", "--shape", "sine")
        machine.sim("clock", "advance", "30s")
        machine.sim("inject", "ecc", "uncorrected", "--contained", "--gpu", "1")
        machine.sim("clock", "advance", "5s")
        text = machine.sim("show", "--output", "json").out + machine.read("kmsg")
        texts.append(text.replace(str(machine.directory), "DIR"))
    assert texts[0] == texts[1]
    other = machine_factory()
    other.start("dgx-a100", "--seed", "8", "--clock", "virtual", "--mig", "mixed")
    assert other.show()["gpus"][0]["uuid"] not in texts[0]


def test_virtual_clock_moves_only_by_hand(machine):
    machine.start("t4x1", "--clock", "virtual")
    first = machine.show()
    assert machine.show() == first
    machine.sim("clock", "advance", "10s")
    assert machine.show()["machine"]["tick"] == first["machine"]["tick"] + 100


def test_real_clock_cannot_be_advanced(machine):
    machine.start("t4x1")
    assert machine.sim("clock", "advance", "10s", rc=None).rc in (1, 2)


def test_log_of_calls(machine):
    machine.start("t4x1")
    log = machine.directory / "calls"
    machine.sim("log", log)
    program = "import ctypes; ctypes.CDLL('libnvidia-ml.so.1').nvmlInit_v2()"
    machine.run("/usr/bin/python3", "-c", program).ok()
    assert "nvmlInit" in log.read_text()
    assert "off" in machine.sim("log", "off").out
    size = log.stat().st_size
    machine.run("/usr/bin/python3", "-c", program).ok()
    assert log.stat().st_size == size


@pytest.mark.parametrize("before", ["nothing", "a state of before"])
def test_concurrent_starts_leave_one_machine(machine, before):
    command = [SLUICE, "sim", "start", "--alongside", "--profile", "t4x1", "--root",
               str(machine.root), "--state", str(machine.state)]
    for _ in range(3):
        if before != "nothing":
            machine.state.write_bytes(state_bytes(machine, command)[:-4096])  # as another version's
        children = [subprocess.Popen(command, env=machine.base, stdout=subprocess.DEVNULL,
                                     stderr=subprocess.DEVNULL) for _ in range(8)]
        codes = sorted(child.wait(timeout=30) for child in children)
        assert codes == [0] + [5] * 7
        assert machine.show()["gpus"][0]["minor"] == 0 and machine.path("/proc/driver/nvidia").is_dir()
        stop(machine)


def stop(machine):
    subprocess.run([SLUICE, "sim", "stop", "--root", str(machine.root), "--state", str(machine.state)],
                   env=machine.base, check=True, capture_output=True)


def state_bytes(machine, command):
    subprocess.run(command, env=machine.base, check=True, capture_output=True)
    kept = machine.state.read_bytes()
    stop(machine)
    return kept


def test_the_readme_starts_one_machine_at_a_time():
    readme = (pathlib.Path(__file__).parents[2] / "README.md").read_text()
    verbs = [line.split()[2] for line in readme.splitlines() if line.startswith("    sluice sim st")]
    assert verbs == ["start", "stop"] * (len(verbs) // 2) and verbs, verbs
