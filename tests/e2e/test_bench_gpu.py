# SPDX-License-Identifier: Apache-2.0
"""Loads for a GPU on the simulated driver, as a user types them: figures, faults, refusals, sharing."""

import json
import os
import pathlib
import shutil
import signal
import subprocess

import pytest

from conftest import SLUICE

LIBRARY = pathlib.Path(os.environ["MESON_BUILD_ROOT"]) / "sim/cuda/libcuda.so.1"
pytestmark = pytest.mark.skipif(not LIBRARY.exists(), reason=f"no simulated driver library: {LIBRARY}")

SHORT = ("--seconds", "4", "--warmup", "1", "--seed", "7", "--json")


@pytest.fixture(name="gpu")
def fixture_gpu(machine):
    """sluice bench gpu ARGUMENTS on one simulated T4."""
    machine.start("t4x1")

    def run(*arguments, fault=None, **how):
        env = {"SLUICE_SIM_CUDA_FAULT": fault} if fault else {}
        return machine.run("sluice", "bench", "gpu", *arguments, env=env, **how)
    run.machine = machine
    return run


def lines(reply):
    return [json.loads(line) for line in reply.out.splitlines()]


def summary(reply):
    last = lines(reply)[-1]
    assert last["summary"] is True and last["simulated"] is True, reply
    return last


@pytest.mark.parametrize("mode", ["gemm", "burn", "small", "graph", "lc", "ruler"])
def test_each_mode(gpu, mode):
    done = gpu(mode, *SHORT)
    last = summary(done)
    assert done.rc == 0 and last["mode"] == mode and last["device"] == "Tesla T4", done
    assert last["ptx"] == "sl75" and last["cc"] == "7.5" and last["clock_mhz"]
    if mode != "ruler":
        assert [line["counts"] for line in lines(done)[:-1]] == [False, True, True, False]
    assert all(line["simulated"] is True for line in lines(done))


@pytest.mark.parametrize("mode", ["gemm", "graph"])
def test_both_ways_of_finding_calls_give_the_same(gpu, mode):
    """A virtual clock: the same work takes the same time."""
    one, other = (summary(gpu(mode, *SHORT, "--resolve", way)) for way in ("dlsym", "getprocaddress"))
    assert (one["resolve"], other["resolve"]) == ("dlsym", "getprocaddress")
    for key in ("kernels", "tflops", "launch_ns", "seconds_counted", "gpu_busy"):
        assert one.get(key) == other.get(key), key


def test_a_rate_is_work_over_time(gpu):
    done = gpu("gemm", *SHORT, "--size", "1024,2048,512")
    seconds, last = lines(done)[:-1], summary(done)
    each = 2 * 1024 * 2048 * 512 / 1e12
    assert last["verified"] == "small size, simulated" and last["kernel"] == "sl_hgemm"
    assert last["tflops"] == pytest.approx(seconds[1]["kernels"] * each, rel=2e-3)
    assert last["gpu_busy"] <= 1.0001 and last["clock_mhz"] is not None
    assert summary(gpu("burn", *SHORT))["verified"] == summary(gpu("lc", *SHORT))["verified"] == "small size, simulated"


def test_for_people(gpu):
    done = gpu("gemm", "--seconds", "6")
    assert done.rc == 0 and "simulated: these figures are a model's" in done.out, done
    assert done.out.count("(does not count)") == 4 and "verified: small size, simulated" in done.out
    assert all("simulated" in line for line in done.out.splitlines() if "TFLOP/s" in line and "kernels" in line)
    assert gpu("gemm", "--seconds", "6", "--quiet").out.count("TFLOP/s") == 1


def test_memory_in_every_way(gpu):
    done = gpu("alloc", "--target", "1Gi", "--json")
    paths = lines(done)[:-1]
    assert done.rc == 0 and len(paths) == 5, done
    assert all(path["bytes_ok"] == 1 << 30 and path["error"] == 0 for path in paths)
    short = gpu("alloc", "--path", "cuMemAlloc", "--target", "1Ti", "--json")
    path, = lines(short)[:-1]
    assert path["error"] == 2 and path["error_name"] == "CUDA_ERROR_OUT_OF_MEMORY"
    assert 0 < path["bytes_ok"] < 16 << 30
    assert gpu("alloc", "--path", "malloc").rc == 2


@pytest.mark.parametrize("mode,fault,rc,says", [
    ("gemm", "flip@1", 1, "computes wrongly"),
    ("gemm", "nan@1", 1, "computes wrongly"),
    ("burn", "flip@1", 1, "computes wrongly"),
    ("burn", "flip@3", 1, "differ from the first"),
    ("gemm", "die@40", 1, "(719)"),
    ("gemm", "jit", 3, "text sl75"),
    ("gemm", "oom@1", 4, "bytes asked for"),
    ("gemm", "cuInit=802", 3, "nvidia-fabricmanager"),
    ("gemm", "cuInit=100", 3, "CUDA_VISIBLE_DEVICES"),
])
def test_what_goes_wrong_has_its_status_and_no_rate(gpu, mode, fault, rc, says):
    iterations = ("--iterations", "5000") if mode == "burn" else ()
    done = gpu(mode, *SHORT, *iterations, fault=fault)
    assert done.rc == rc and says in done.err, done
    assert not any("tflops" in line for line in lines(done) if line.get("summary")), done


def test_a_kernel_that_never_ends_is_given_up(gpu):
    done = gpu("gemm", "--seconds", "6", "--stall", "1", fault="event-hang", timeout=60)
    assert done.rc == 1 and "nothing came back for 1 s" in done.err, done


def test_a_driver_that_does_not_even_open_is_given_up(gpu, tmp_path):
    compiler = shutil.which("cc") or pytest.skip("needs a compiler")
    library = tmp_path / "libhangs.so"
    source = "#include <unistd.h>\n__attribute__((constructor)) static void hang(void) { for (;;) pause(); }\n"
    subprocess.run([compiler, "-shared", "-fPIC", "-o", library, "-xc", "-"], input=source, text=True, check=True)
    done = gpu("gemm", "--lib", library, "--stall", "1", timeout=60)
    assert done.rc == 1 and "still opening the driver" in done.err, done


def test_a_gpu_that_stands_still_is_not_asked_less(gpu):
    """Ten seconds at 100 requests a second; for one of them nothing moves. Were latencies counted
    from when a request is sent by somebody who waits for answers, one would be long."""
    asked = ("lc", "--seconds", "14", "--seed", "7", "--kernels-per-request", "1", "--json")
    calm = summary(gpu(*asked))
    done = gpu(*asked, fault="stall@720=1000")
    held = summary(done)
    assert calm["p999_ms"] < 100 and held["unfinished"] == 0
    assert held["p999_ms"] >= 900 and held["max_ms"] >= 950
    # A tenth of the requests came meanwhile, evenly: the median is as before, a twentieth have waited for half of it.
    assert held["p50_ms"] < 2 * calm["p50_ms"] and held["mean_ms"] > calm["mean_ms"] + 30


@pytest.mark.parametrize("arguments,rc", [
    (("gemm", "--size", "100"), 2), (("gemm", "--size", "128,128,33"), 2), (("gemm", "--seconds", "4"), 2),
    (("lc", "--rate", "0"), 2), (("burn", "--kernel-us", "0"), 2), (("gemm", "--barrier", "/nowhere/b"), 2),
    (("gemm", "--device", "7"), 3), (("gemm", "--lib", "/nowhere/libcuda.so.1"), 3), (("gemm", "--text", "sl80"), 3),
    (("gemm", "--start-at", "1"), 5), (("nothing",), 64), (("gemm", "--rate", "3"), 64),
])
def test_what_cannot_be_meant(gpu, arguments, rc):
    done = gpu(*arguments)
    assert done.rc == rc and done.err and not done.out, done


def test_without_a_request_there_is_no_latency(gpu):
    done = gpu("lc", "--rate", "0.001", "--seconds", "5", "--seed", "7", "--json", "--quiet")
    assert done.rc == 2 and "no request came" in done.err and "p50_ms" not in lines(done)[-1], done


def test_a_barrier_of_another_run(gpu):
    old = gpu.machine.directory / "barrier"
    old.write_text("1 5\n2 6\n")
    done = gpu("gemm", *SHORT, "--barrier", old, "--tenants", "2")
    assert done.rc == 5 and str(old) in done.err, done


def test_ctrl_c_gives_no_figure(gpu):
    program = gpu.machine.spawn("sluice", "bench", "gpu", "gemm", "--seconds", "500000",
                                stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert "TFLOP/s" in program.stdout.readline()
    program.send_signal(signal.SIGINT)
    out, err = program.communicate(timeout=20)
    assert program.returncode == 130 and "interrupted" in err and "GPU 0" not in out, (out[-500:], err)


def test_two_share_a_gpu_by_time(gpu):
    """Slices of 2 ms and 100 us for a switch: 2 / 2.1 / 2 each, to the digits that are printed."""
    done = gpu("timeslice", "--seconds", "20", "--json", timeout=120)
    result = json.loads(done.out)
    assert done.rc == 0 and result["pass"] and result["is_model"] and result["simulated"], done
    before, one, two, after = result["tenants"]
    assert before["tflops"] == after["tflops"]
    assert f"{100 * one['ratio']:.1f} {100 * two['ratio']:.1f}" == "47.6 47.6"
    assert f"{100 * result['sum_ratio']:.1f}" == "95.2" and "not verified on a T4" in result["note"]
    assert [skip["step"] for skip in result["skipped"]] == ["c", "d"]


def test_switches_that_take_longer_fail_the_rule(gpu):
    done = gpu.machine.run("sluice", "bench", "gpu", "timeslice", "--seconds", "10", timeout=120,
                           env={"SLUICE_SIM_CUDA_SWITCH_US": "400"})
    assert done.rc == 1 and "FAIL" in done.out, done


def test_without_a_driver_nothing_is_said(gpu):
    done = gpu("timeslice", "--seconds", "5", fault="cuInit=100")
    assert done.rc == 3 and not done.out and "exit status 3" in done.err, done
    wrong = gpu("timeslice", "--seconds", "5", fault="flip@1")
    assert wrong.rc == 2 and "computes wrongly" in wrong.err, wrong


EXPERIMENTS = pathlib.Path(__file__).parents[2] / "tools/gpu-experiments"


def test_experiments_write_cells_and_a_table(gpu, tmp_path):
    cells = tmp_path / "cells.jsonl"
    done = gpu.machine.run(EXPERIMENTS, "run", "P1", "P3", "E2", "--sluice", SLUICE, "--to", cells, "--seconds", "5",
                           timeout=120)
    assert done.rc == 0, done
    found = [json.loads(line) for line in cells.read_text().splitlines()]
    assert [(cell["exp"], cell["cell"]) for cell in found] == [
        ("P1", "pointers"), ("P3", "skipped"), ("E2", "alone"), ("E2", "2 processes"), ("E2", "4 processes")]
    assert found[0]["pass"] is True and found[1]["skipped"] and all(cell["simulated"] for cell in found if cell["gpu"])
    assert [round(cell["sum_ratio"], 2) for cell in found[3:]] == [0.95, 0.95] and found[4]["jain"] > 0.9999
    table = gpu.machine.run(EXPERIMENTS, "summary", cells)
    assert table.rc == 0 and "SIMULATED" in table.out and "| E2 | 2 processes | 47.6 / 47.6 % of alone" in table.out


@pytest.mark.parametrize("key,value", [("gpu", "NVIDIA H200"), ("uuid", "GPU-2"), ("cuda", "12.4"), ("simulated", True)])
def test_lines_of_two_machines_make_no_table(gpu, tmp_path, key, value):
    line = {"exp": "E2", "cell": "alone", "gpu": "Tesla T4", "uuid": "GPU-1", "cuda": "13.0", "simulated": False,
            "tenants": [], "pass": None}
    cells = tmp_path / "cells.jsonl"
    cells.write_text(json.dumps(line) + "\n" + json.dumps({**line, key: value}) + "\n")
    done = gpu.machine.run(EXPERIMENTS, "summary", cells)
    assert done.rc == 3 and key in done.err and not done.out, done
