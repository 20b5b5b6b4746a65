# SPDX-License-Identifier: Apache-2.0
"""tools/demo: that it ends well, cleans up, and that its comparison can fail."""

import copy
import importlib.machinery
import importlib.util
import json
import pathlib
import signal
import subprocess
import sys

import pytest

from conftest import BUILD, ROOT, base_environment, wait_until

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
    env = {**base_environment(), "TMPDIR": str(tmp_path)}
    return subprocess.Popen([str(DEMO), "--build", str(BUILD), "--no-build", "--simulated", *options],
                            env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


@pytest.fixture(scope="module")
def real_run(tmp_path_factory):
    """One run of the demo: (what it printed, what it wrote down)."""
    directory = tmp_path_factory.mktemp("demo")
    process = start(directory, "--json", str(directory / "json"))
    out, err = process.communicate(timeout=90)
    assert process.returncode == 0, out + err
    told = json.loads((directory / "json").read_text())
    (directory / "json").unlink()
    assert list(directory.iterdir()) == []  # it cleans up
    return out, told


def test_ten_jobs_run_alone_on_their_gpus(real_run):
    out, told = real_run
    assert told["simulated"] is True and "simulated" in out.splitlines()[0]
    assert [job["wanted"] for job in told["jobs"]] == list(demo.WANTS)
    assert all(job["exit_code"] == 0 and job["claim"]["how"] == "simulated" for job in told["jobs"])
    assert "seen by the probe" in out and "agree" in out.splitlines()[-1]
    assert "waiting for 8 GPUs" in out
    pids = {job["claim"]["pid"] for job in told["jobs"]}
    assert {event["pid"] for event in told["events"] if "pid" in event} == pids


def test_a_lie_is_found(real_run):
    _, told = real_run
    jobs, events = told["jobs"], told["events"]
    assert demo.disagreements(jobs, events) == []

    elsewhere = copy.deepcopy(jobs)
    elsewhere[0]["claim"]["gpus"][0]["uuid"] = "GPU-51ce51ce-elsewhere"
    assert any("the probe saw it on" in text for text in demo.disagreements(elsewhere, events))

    unseen = [event for event in events if event.get("pid") != jobs[2]["claim"]["pid"]]
    assert any("on none" in text for text in demo.disagreements(jobs, unseen))

    other_time = copy.deepcopy(jobs)
    other_time[1]["claim"]["begin_unix"] += 5
    other_time[1]["claim"]["end_unix"] += 5
    assert any("outside of the time" in text for text in demo.disagreements(other_time, events))

    failed = copy.deepcopy(jobs)
    failed[4]["exit_code"] = 1
    assert any("failed" in text for text in demo.disagreements(failed, events))

    fewer = copy.deepcopy(jobs)
    fewer[3]["wanted"] = 7
    assert any("wanted 7" in text for text in demo.disagreements(fewer, events))


def event(kind, pid, uuid, look):
    return {"event": kind, "pid": pid, "uuid": uuid, "look": look, "time_unix": float(look)}


def test_an_overlap_is_found():
    apart = [event("seen", 1, "a", 1), event("gone", 1, "a", 2), event("seen", 2, "a", 2),
             event("seen", 1, "b", 2), event("seen", 9, "b", 3)]
    assert demo.overlaps(apart, {1, 2}) == []
    both = [event("seen", 1, "a", 1), event("seen", 2, "a", 2), event("gone", 1, "a", 3)]
    assert demo.overlaps(both, {1, 2}) == [("a", 1, 2, 2.0)]


def test_an_interrupt_cleans_up(tmp_path):
    process = start(tmp_path)
    lines = []

    def running():
        lines.append(process.stdout.readline())
        return "the probe sees" in lines[-1]
    wait_until(running, what="the first look of the probe")
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=30)
    assert process.returncode == 130 and "cleaning up" in err
    assert list(tmp_path.iterdir()) == []
    left = [path.parent.name for path in pathlib.Path("/proc").glob("[0-9]*/environ")
            if str(tmp_path).encode() in read(path)]
    assert left == []


def read(path):
    try:
        return path.read_bytes()
    except OSError:
        return b""
