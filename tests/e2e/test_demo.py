# SPDX-License-Identifier: Apache-2.0
"""tools/demo: that it ends well, cleans up, and that its comparison can fail."""

import copy
import importlib.machinery
import importlib.util
import json
import os
import pathlib
import re
import signal
import subprocess
import sys
import urllib.request

import pytest

from conftest import BUILD, DEADLINE_S, ROOT, base_environment, environments, wait_until

DEMO = ROOT / "tools" / "demo"


def load():
    """The program as a module; it has no .py."""
    sys.dont_write_bytecode = True
    loader = importlib.machinery.SourceFileLoader("demo", str(DEMO))
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader("demo", loader))
    loader.exec_module(module)
    return module


demo = load()


def start(tmp_path, *options):
    env = {**base_environment(), "TMPDIR": str(tmp_path), "SLUICE_WEB_ADDRESS": "127.0.0.1:0"}
    return subprocess.Popen([str(DEMO), "--build", str(BUILD), "--no-build", "--simulated", *options],
                            env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def left_of(tmp_path):
    """Processes that still know of the directory."""
    return [path.parent.name for path in environments()
            if str(tmp_path).encode() in read(path)]


def read(path):
    try:
        return path.read_bytes()
    except OSError:
        return b""


@pytest.fixture(scope="module")
def real_run(tmp_path_factory):
    """One run of the demo: (what it printed, what it wrote down)."""
    directory = tmp_path_factory.mktemp("demo")
    process = start(directory, "--json", str(directory / "json"), "--stay")
    lines = []
    for line in process.stdout:
        lines.append(line)
        if line.startswith("Ctrl-C"):
            break
    out = "".join(lines)
    stays = re.search(r"the service stays, with two jobs: (http\S+) (http\S+/metrics)\n", out)
    assert stays, out + process.communicate()[1]
    for address, part in zip(stays.groups(), (b"SIMULATED", b'simulated="true"')):
        with urllib.request.urlopen(address, timeout=DEADLINE_S) as answer:
            assert part in answer.read()
    process.send_signal(signal.SIGINT)
    rest, err = process.communicate(timeout=300)
    assert process.returncode == 0 and "ending the service" in rest, out + rest + err
    told = json.loads((directory / "json").read_text())
    (directory / "json").unlink()
    assert list(directory.iterdir()) == [] and left_of(directory) == []  # it cleans up
    return out, told


def test_jobs_run_where_the_service_saw_them(real_run):
    out, told = real_run
    assert told["simulated"] is True and "simulated" in out.splitlines()[0]
    assert [(job["name"], job["wanted"]) for job in told["jobs"]] == [
        (name, wanted) for name, wanted, _, _ in demo.JOBS]
    assert all(job["told"]["exit_code"] == 0 and job["claim"]["how"] == "simulated"
               for job in told["jobs"])
    assert "seen by the service" in out and "what the service saw agree" in out
    assert "waits: WaitingForGPU" in out and "waits: QueueOrder" in out
    assert "100 GPUs" in out and "has 8" in out and "exit code 78" in out
    assert "SIGKILL" in out and "the service is back" in out
    assert "100 % done" in out  # of the one that is watched
    series = re.search(r"its metrics: http://127\.0\.0\.1:\d+/metrics \((\d+) series\)", out)
    assert int(series[1]) > 500  # it has asked, and was answered
    shared = [job for job in told["jobs"] if job["share"]]
    assert any(one["told"]["attempt"]["gpus"][0]["uuid"] ==
               other["told"]["attempt"]["gpus"][0]["uuid"] for one in shared for other in shared
               if one is not other)


def changed(jobs, name, change):
    copied = copy.deepcopy(jobs)
    change(next(job for job in copied if job["name"] == name))
    return demo.disagreements(copied)


def test_a_lie_is_found(real_run):
    jobs = real_run[1]["jobs"]
    assert demo.disagreements(jobs) == []

    def elsewhere(job):
        job["claim"]["gpus"][0]["uuid"] = "GPU-51ce51ce-elsewhere"
    found = changed(jobs, "pair", elsewhere)
    assert any("the service gave it" in text for text in found)
    assert any("the service saw it on" in text for text in found)

    def unseen(job):
        job["told"]["attempt"]["observed"] = []
    assert any("none" in text for text in changed(jobs, "single", unseen))

    def other_time(job):
        job["claim"]["begin_unix"] += 50
        job["claim"]["end_unix"] += 50
    assert any("outside of the time" in text for text in changed(jobs, "four", other_time))

    def failed(job):
        job["told"]["exit_code"] = 1
    assert any("exit code 1" in text for text in changed(jobs, "small", failed))

    def fewer(job):
        job["wanted"] = 7
    assert any("wanted 7" in text for text in changed(jobs, "all", fewer))

    def twice(job):
        job["told"]["attempt"]["number"] = 2
    assert any("started 2 times" in text for text in changed(jobs, "single", twice))

    def stranger(job):
        job["told"]["attempt"]["observed"][0]["pid"] += 1
    assert any("the service saw" in text for text in changed(jobs, "pair", stranger))


def job_of(name, slots, begin, end, count=4):
    gpu = {"uuid": "a", "slots": slots, "slot_count": count}
    return {"name": name, "wanted": 1,
            "claim": {"pid": 1, "pid_namespace": os.stat("/proc/self/ns/pid").st_ino, "how": "simulated",
                      "begin_unix": begin, "end_unix": end, "gpus": [{"uuid": "a"}]},
            "told": {"exit_code": 0, "state": "Succeeded", "attempt": {
                "number": 1, "gpus": [gpu],
                "observed": [{"pid": 1, "uuid": "a", "first_unix": begin, "last_unix": end}]}}}


def test_an_overlap_is_found():
    whole = [0, 1, 2, 3]
    assert demo.disagreements([job_of("x", whole, 1, 2), job_of("y", whole, 2, 3)]) == []
    assert demo.disagreements([job_of("x", [0], 1, 3), job_of("y", [1, 2], 2, 4)]) == []
    found = demo.disagreements([job_of("x", [0], 1, 3), job_of("y", [0, 1], 2, 4)])
    assert any("same slots" in text for text in found)
    found = demo.disagreements([job_of("x", whole, 1, 3), job_of("y", whole, 2, 4)])
    assert any("same slots" in text for text in found)
    assert any("the service saw x and y on a" in text for text in found)


def test_the_configuration_fits_any_machine():
    text = demo.CONFIG.read_text(encoding="utf-8")
    assert demo.config_for(8, text) == (text, [6, 7])
    assert demo.config_for(4, text)[1] == [3] and 'devices: ["3"]' in demo.config_for(4, text)[0]
    assert demo.config_for(1, text)[1] == [0]


def test_an_interrupt_cleans_up(tmp_path):
    process = start(tmp_path)

    def running():
        return "on the simulated GPUs" in process.stdout.readline()
    wait_until(running, deadline_s=4 * DEADLINE_S, what="the first look at the GPUs")
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=4 * DEADLINE_S)
    assert process.returncode == 130 and "cleaning up" in err
    assert list(tmp_path.iterdir()) == [] and left_of(tmp_path) == []
