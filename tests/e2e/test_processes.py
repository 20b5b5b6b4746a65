# SPDX-License-Identifier: Apache-2.0
"""`sluice processes`: which process is on which GPU, and their coming and going."""

import json
import os
import signal
import subprocess

from conftest import wait_until


def seen(machine):
    return machine.run("sluice", "processes", "--output", "json").ok().json


def test_processes_of_all_gpus(machine):
    machine.start("dgx-a100")
    uuids = [gpu["uuid"] for gpu in machine.show()["gpus"]]
    assert seen(machine)["processes"] == []
    loads = [machine.load(gpu, "--util", "0.5", "--mem", "1GiB") for gpu in (0, 5)]
    told = seen(machine)
    assert told["simulated"] is True and len(told["processes"]) == 2
    for load, gpu, entry in zip(loads, (0, 5), told["processes"]):
        assert (entry["pid"], entry["gpu_index"], entry["uuid"]) == (load.pid, gpu, uuids[gpu])
        assert entry["name"] == "sleep" and entry["type"] == "compute"
        assert entry["memory_bytes"] >= 1 << 30
    table = machine.run("sluice", "processes").ok().out
    assert table.startswith("8 simulated GPUs") and f"{loads[1].pid}  sleep" in table


def test_a_process_on_a_mig_device_carries_its_uuid(machine):
    machine.start("a100-mig")
    gpu = next(gpu for gpu in machine.show()["gpus"] if gpu["mig"])
    mig = machine.run("sluice", "run", "--gpu-ids", f"{gpu['index']}:0", "--", "sh", "-c",
                      "echo $CUDA_VISIBLE_DEVICES").ok().out.strip()
    load = machine.load(mig, "--util", "0.5")
    assert [(entry["pid"], entry["uuid"]) for entry in seen(machine)["processes"]] == [
        (load.pid, mig)]


def test_watch_prints_who_comes_and_goes(machine):
    machine.start("t4x4")
    watcher = machine.spawn("sluice", "processes", "--watch", "--period", "20ms", "--output",
                            "json", stdout=subprocess.PIPE)
    first = json.loads(watcher.stdout.readline())
    assert first["event"] == "watching" and first["gpus"] == 4 and first["simulated"] is True
    load = machine.load(2, "--util", "0.5")
    come = json.loads(watcher.stdout.readline())
    assert (come["event"], come["pid"], come["gpu_index"]) == ("seen", load.pid, 2)
    os.kill(load.pid, signal.SIGKILL)
    load.wait()
    gone = json.loads(watcher.stdout.readline())
    assert (gone["event"], gone["pid"], gone["gpu_index"]) == ("gone", load.pid, 2)
    assert gone["look"] > come["look"] and gone["time_unix"] > come["time_unix"]


def test_watch_ends_when_nobody_reads(machine):
    machine.start("t4x1")
    watcher = machine.spawn("sluice", "processes", "--watch", "--period", "20ms",
                            stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    machine.load(0)
    assert "seen" in watcher.stdout.readline()
    watcher.stdout.close()

    def ended():
        machine.load(0).kill()
        return watcher.poll() is not None
    wait_until(ended, what="the end of the watcher")


def test_without_a_driver(machine):
    machine.start("t4x1")
    machine.sim("stop")
    for options in ([], ["--watch"]):
        reply = machine.run("sluice", "processes", *options)
        assert reply.rc == 69 and reply.out == "" and len(reply.err.splitlines()) == 1, reply
