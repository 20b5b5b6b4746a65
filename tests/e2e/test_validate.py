# SPDX-License-Identifier: Apache-2.0
"""Whether GPUs are fit for work, on simulated machines with their simulated driver."""

import json
import os
import pathlib
import signal
import subprocess

import pytest

from conftest import wait_until

FAULT = "SLUICE_SIM_CUDA_FAULT"


@pytest.fixture
def cuda(machine):
    """Starts a machine; skips where this build has no simulated libcuda.so.1."""
    def start(profile, *options):
        machine.start(profile, *options)
        folders = machine.env["LD_LIBRARY_PATH"].split(":")
        if not any((pathlib.Path(folder) / "libcuda.so.1").exists() for folder in folders):
            pytest.skip(f"no simulated libcuda.so.1 in {folders}")
        # What whoever runs the tests was given is no grant of this machine.
        for name in ("NVIDIA_VISIBLE_DEVICES", "CUDA_VISIBLE_DEVICES", "SLUICE_GPUS"):
            machine.env.pop(name, None)
        return machine
    return start


def validate(machine, *arguments, **env):
    return machine.run("sluice", "validate", *arguments, "--output", "json", env=env)


def found(reply, name):
    return [check for check in reply.json["checks"] if check["name"] == name]


def uuids(machine):
    return [gpu["uuid"] for gpu in machine.show()["gpus"]]


# --- without a driver --------------------------------------------------------------------------------------------


def test_no_driver_is_no_statement_until_one_is_expected(machine):
    done = validate(machine)
    assert done.rc == 3 and {check["status"] for check in done.json["checks"]} == {"SKIP"}, done
    assert "libcuda.so.1" in done.json["checks"][0]["reason"] and done.json["checks"][0]["hint"]
    for arguments, env in ((["--expect", "1"], {}), (["--gpus", "0"], {}),
                           ([], {"NVIDIA_VISIBLE_DEVICES": "GPU-12345678"})):
        assert validate(machine, *arguments, **env).rc == 2
    assert machine.run("sluice", "bench", "gpu", "vectoradd").rc == 3


def test_the_result_is_written_after_an_early_error_too(machine, tmp_path):
    path = tmp_path / "r.json"
    assert machine.run("sluice", "validate", "--json", path).rc == 3
    document = json.loads(path.read_text())
    assert document["schema"] == "sluice.result/1" and document["checks"] and not document["runs"]
    assert machine.run("sluice", "validate", "--json", tmp_path / "no" / "r.json").rc == 73


def test_the_result_goes_into_a_file_that_is_mounted(machine, tmp_path):
    """As /dev/termination-log is in a pod: nothing can be put in its place."""
    path, other = tmp_path / "termination-log", tmp_path / "host"
    path.touch()
    other.write_text("x" * 100000)
    mount = f"mount --bind {other} {path}"
    if os.geteuid() != 0 or subprocess.run(["unshare", "-m", "sh", "-c", mount], check=False).returncode:
        pytest.skip("needs to mount in a name space of its own")
    done = machine.run("unshare", "-m", "sh", "-c", f"{mount} && exec sluice validate --json {path}")
    assert done.rc == 3 and json.loads(other.read_text())["schema"] == "sluice.result/1", done
    assert not path.read_text() and not [one for one in tmp_path.iterdir() if path.name in one.name and one != path]


@pytest.mark.parametrize("arguments", [
    ["--level", "0"], ["--level", "4"], ["--only", "everything"], ["--skip", "nothing"], ["--timeout", "0"],
    ["--expect", "-1"], ["--only", "vectoradd", "--skip", "vectoradd"], ["word"]])
def test_refused(machine, arguments):
    assert machine.run("sluice", "validate", *arguments).rc == 64


def test_fill_is_a_share(machine):
    for fill in ("0", "1", "0.99", "much"):
        assert machine.run("sluice", "bench", "gpu", "stress", "--fill", fill).rc == 64


# --- machines ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("profile, gpus", [
    ("t4x1", 1), ("t4x4", 4), ("workstation", 2), ("dgx1", 8), ("dgx-a100", 8), ("hgx-h100", 8), ("dgx2", 16)])
def test_every_gpu_computes(cuda, profile, gpus):
    machine = cuda(profile)
    done = validate(machine, "--expect", gpus)
    assert done.rc == 0, done
    assert [check["target"] for check in found(done, "vectoradd")] == uuids(machine)
    assert all(check["status"] == "PASS" for check in found(done, "vectoradd"))
    assert "simulated" in found(done, "driver")[0]["reason"]
    assert {check["status"] for check in found(done, "settings")} <= {"PASS", "WARN"}
    assert validate(machine, "--expect", gpus + 1).rc == 2


@pytest.mark.parametrize("profile, instances", [("a100-mig", 3), ("h100-mig", 7)])
def test_each_mig_instance_is_checked(cuda, profile, instances):
    machine = cuda(profile)
    done = validate(machine, "--expect", instances, "--level", "2")
    assert done.rc == 0, done
    targets = [check["target"] for check in found(done, "vectoradd")]
    assert len(set(targets)) == instances and all(target.startswith("MIG-") for target in targets)
    assert all(check["status"] == "SKIP" for check in found(done, "p2p"))
    one = validate(machine, NVIDIA_VISIBLE_DEVICES=targets[1], CUDA_VISIBLE_DEVICES=targets[1])
    assert one.rc == 0 and [check["target"] for check in found(one, "vectoradd")] == targets[1:2], one
    assert found(one, "isolation")[0]["status"] == "PASS", one
    load = machine.run("sluice", "bench", "gpu", "small", "--device", targets[1], "--seconds", "4", "--warmup", "1",
                       "--json", "--quiet", env={"CUDA_VISIBLE_DEVICES": targets[1]})
    assert load.rc == 0 and load.json["uuid"] == targets[1], load


def test_links_and_memory(cuda, tmp_path):
    machine = cuda("dgx1", "--gpus", "2")
    path = tmp_path / "r.json"
    done = validate(machine, "--level", "2", "--json", path)
    assert done.rc == 0, done
    names = [check["name"] for check in done.json["checks"]]
    assert names.count("bandwidth") == 2 and names.count("p2p") == 2 and "shm" in names and "memlock" in names
    assert all(check["reason"] for check in done.json["checks"] if check["status"] == "SKIP")
    assert json.loads(path.read_text())["checks"] == done.json["checks"]
    metrics = done.json["runs"][0]["metrics"]
    assert len(metrics["host_to_gpu_engine"]["samples"]) == 3 and metrics["host_to_gpu_engine"]["unit"] == "GB/s"


def test_a_link_below_what_it_can_do(cuda):
    machine = cuda("t4x1")
    machine.sim("inject", "pcie", "width", "4", "--gpu", "0")
    done = validate(machine, "--only", "bandwidth")
    assert done.rc == 1 and found(done, "bandwidth")[0]["status"] == "SLOW", done
    assert "x4" in found(done, "bandwidth")[0]["reason"]


def test_stress_of_all_at_once(cuda):
    machine = cuda("t4x4")
    done = validate(machine, "--only", "stress", "--only", "ecc", "--only", "xid", "--stress-time", "1s")
    assert done.rc == 0 and len(found(done, "stress")) == 4, done
    assert all("simulated" in check["reason"] for check in found(done, "stress"))


def test_a_gpu_in_use_is_left_alone(cuda):
    machine = cuda("t4x1")
    machine.load(0, "--util", "0.5")
    wait_until(lambda: machine.run("sluice", "processes", "--output", "json").json["processes"], what="the load")
    done = machine.run("sluice", "bench", "gpu", "stress", "--output", "json")
    assert found(done, "stress")[0]["status"] == "SKIP" and "uses it" in found(done, "stress")[0]["reason"], done
    forced = machine.run("sluice", "bench", "gpu", "stress", "--force", "--output", "json")
    assert found(forced, "stress")[0]["status"] == "PASS", forced


def test_vectoradd_prints_what_the_sample_prints(cuda):
    machine = cuda("t4x1")
    lines = machine.run("sluice", "bench", "gpu", "vectoradd").ok().out.splitlines()
    assert lines[0].startswith(uuids(machine)[0]) and "[Vector addition of 50000 elements]" in lines
    assert "CUDA kernel launch with 196 blocks of 256 threads" in lines and "Test PASSED" in lines


def test_tables_of_copies(cuda):
    machine = cuda("dgx-a100", "--gpus", "2")
    bandwidth = machine.run("sluice", "bench", "gpu", "bandwidth").ok().out
    assert "host to GPU" in bandwidth and "0 -> 1" in bandwidth and "simulated" in bandwidth
    p2p = machine.run("sluice", "bench", "gpu", "p2p").ok().out
    assert "straight" in p2p and "0 -> 1" in p2p and "1 -> 0" in p2p
    everything = machine.run("sluice", "bench", "gpu", "all", "--time", "1s", "--output", "json")
    assert everything.rc == 0 and {"vectoradd", "bandwidth", "p2p", "stress"} <= {
        check["name"] for check in everything.json["checks"]}, everything


# --- what was given ----------------------------------------------------------------------------------------------


def test_more_in_sight_than_was_given(cuda):
    machine = cuda("t4x4")
    first, second = uuids(machine)[:2]
    done = validate(machine, NVIDIA_VISIBLE_DEVICES=first)
    assert done.rc == 2 and second in found(done, "isolation")[0]["reason"], done
    done = validate(machine, NVIDIA_VISIBLE_DEVICES=f"{first},{second}", CUDA_VISIBLE_DEVICES="0,1")
    assert found(done, "isolation")[0]["value"] == 2, done
    done = validate(machine, SLUICE_GPUS=",".join(uuids(machine)))
    assert done.rc == 0 and found(done, "isolation")[0]["status"] == "PASS", done


def test_nodes_of_other_gpus(cuda):
    machine = cuda("t4x4", "--dev-style", "file")
    first = uuids(machine)[0]
    own = {"NVIDIA_VISIBLE_DEVICES": first, "CUDA_VISIBLE_DEVICES": first}
    done = validate(machine, **own)
    assert done.rc == 2 and "can be opened" in found(done, "isolation")[0]["reason"], done
    for node in (machine.root / "dev").glob("nvidia[1-3]"):
        node.unlink()
    assert found(validate(machine, **own), "isolation")[0]["status"] == "PASS"


def test_only_what_is_named(cuda):
    machine = cuda("t4x4")
    done = validate(machine, "--gpus", f"2,{uuids(machine)[0]}")
    assert [check["target"] for check in found(done, "vectoradd")] == [uuids(machine)[0], uuids(machine)[2]], done
    assert validate(machine, "--gpus", "7").rc == 2
    done = validate(machine, "--only", "train")  # which there is none of: never a pass
    assert done.rc == 3 and (found(done, "train")[0]["status"], found(done, "train")[0]["reason"]) == (
        "SKIP", "there is no training in this version"), done


# --- faults ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("fault, name, hint", [
    ("cuInit=802", "driver", "fabricmanager"), ("cuInit=100", "driver", "device nodes"),
    ("cuInit=3", "driver", "RmInitAdapter"), ("cuInit=803", "driver", "different versions"),
    ("cuInit=804", "driver", "compatibility"), ("cuDevicePrimaryCtxRetain=46", "vectoradd", "exclusive"),
    ("flip@1", "vectoradd", "wrong results"), ("nan@1", "vectoradd", "wrong results"), ("jit", "vectoradd", ""),
    ("oom@1", "vectoradd", "processes"), ("die@1", "vectoradd", "")])
def test_a_fault_gives_its_code_and_hint(cuda, fault, name, hint):
    machine = cuda("t4x4", "--gpus", "2")
    done = validate(machine, **{FAULT: fault})
    failed = [check for check in done.json["checks"] if check["status"] == "FAIL"]
    assert done.rc == 2 and failed and {check["name"] for check in failed} == {name}, done
    assert hint in failed[0]["hint"], done


@pytest.mark.parametrize("fault, reason", [
    ("flip@4", "differ from the first in 1 words"), ("nan@4", "1 NaN or infinite"), ("nan@1", "first result"),
    ("die@5", "CUDA_ERROR_"), ("die@5=999", "CUDA_ERROR_UNKNOWN")])
def test_a_gpu_that_errs_under_stress(cuda, fault, reason):
    machine = cuda("t4x1")
    done = machine.run("sluice", "bench", "gpu", "stress", "--output", "json", env={FAULT: fault})
    check = found(done, "stress")[0]
    assert done.rc == 2 and check["status"] == "FAIL" and reason in check["reason"], done


def test_a_check_that_hangs_is_ended_and_named(cuda):
    machine = cuda("t4x1")
    done = validate(machine, "--only", "bandwidth", "--only", "vectoradd", "--timeout", "1s", **{FAULT: "event-hang"})
    check = found(done, "bandwidth")[0]
    assert done.rc == 2 and check["status"] == "FAIL" and "no answer" in check["reason"] and check["hint"], done
    assert found(done, "vectoradd")[0]["status"] == "PASS"


def test_ctrl_c_reports_what_was_found(cuda, tmp_path):
    machine = cuda("t4x1")
    path = tmp_path / "r.json"
    child = machine.spawn("sluice", "bench", "gpu", "bandwidth", "--json", path, env={FAULT: "event-hang"},
                          stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    line = child.stdout.readline()
    assert "GB/s" in line
    child.send_signal(signal.SIGINT)
    assert child.wait(20) == 130
    document = json.loads(path.read_text())
    assert document["error"] and document["checks"][-1]["status"] == "FAIL"


def test_the_exporter_tells_the_truth(cuda):
    machine = cuda("t4x1")
    assert found(machine.run("sluice", "bench", "gpu", "metrics", "--exporter", "127.0.0.1:1", "--output", "json"),
                 "metrics")[0]["status"] == "SKIP"
    machine.agent("--web-address", "127.0.0.1:0")

    def address():
        reply = machine.run("sluice", "agent", "status", "--output", "json")
        web = reply.json.get("web") or {} if reply.rc == 0 else {}
        return web.get("address") if web.get("pid") else None

    where = wait_until(address, what="the address of the service")
    metrics = ("sluice", "bench", "gpu", "metrics", "--exporter", where, "--output", "json")
    wait_until(lambda: found(machine.run(*metrics), "metrics")[0]["status"] != "SKIP", what="a first reading")
    done = machine.run(*metrics)
    check = found(done, "metrics")[0]
    assert done.rc == 0 and check["status"] == "PASS" and abs(check["value"] / check["limit"] - 1) < 0.02, done


NCCL_FAULT = "SLUICE_SIM_NCCL_FAULT"


def collectives(machine, *arguments, **env):
    done = validate(machine, "--only", "collectives", "--only", "transport", *arguments, **env)
    if any("libnccl" in check["reason"] and check["status"] == "SKIP" for check in done.json["checks"]):
        pytest.skip(f"no simulated libnccl.so.2: {done.json['checks'][0]['reason']}")
    return done


def test_collectives_between_gpus(cuda):
    machine = cuda("dgx1", "--gpus", "4")
    done = collectives(machine)
    assert done.rc == 0 and [check["target"] for check in found(done, "collectives")] == [
        "all_reduce", "all_gather", "reduce_scatter", "broadcast", "sendrecv"], done
    assert found(done, "transport")[0]["status"] == "PASS" and "P2P" in found(done, "transport")[0]["reason"]
    two = collectives(machine, "--gpus", "1,3")
    assert two.rc == 0 and "1 pair" in found(two, "transport")[0]["reason"], two
    assert collectives(machine, "--gpus", "0").rc == 3  # with whom?


@pytest.mark.parametrize("fault, code, name, reason", [
    ("wrong=1:0", 2, "collectives", "of rank 1"), ("hang=1024", 2, "collectives", "rank"),
    ("socket", 1, "transport", "Socket"), ("shm", 2, "collectives", "")])
def test_faults_of_nccl(cuda, fault, code, name, reason):
    machine = cuda("dgx1", "--gpus", "2")
    done = collectives(machine, "--timeout", "2s", **{NCCL_FAULT: fault})
    bad = [check for check in done.json["checks"] if check["status"] in ("FAIL", "SLOW")]
    assert done.rc == code and bad and bad[0]["name"] == name and reason in bad[0]["reason"] and bad[0]["hint"], done


def test_secrets_are_in_no_output(cuda, tmp_path):
    machine = cuda("t4x1")
    path = tmp_path / "r.json"
    secrets = {"AWS_SECRET_ACCESS_KEY": "hunter2secret", "NCCL_TOKEN": "hunter3secret", "CUDA_PASSWORD": "hunter4secret"}
    done = validate(machine, "--level", "2", "--json", path, **secrets)
    text = done.out + done.err + path.read_text()
    assert done.rc == 0 and "hunter" not in text and "NCCL_TOKEN" not in text
    assert not any(name in os.listdir(tmp_path) for name in (".r.json",))
