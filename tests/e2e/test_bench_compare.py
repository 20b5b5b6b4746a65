# SPDX-License-Identifier: Apache-2.0
"""Two commands in turns, and what is said of them: as a user types it."""

import json
import pathlib
import random
import signal
import subprocess

import pytest

from conftest import wait_until


def values(directory, name, numbers):
    """A command that says the next of these numbers each time."""
    (directory / name).write_text("".join(f"{number}\n" for number in numbers))
    count = directory / f"{name}.count"
    count.write_text("")
    return f"echo >>{count}; echo v=$(sed -n $(wc -l <{count})p {directory / name})"


def compare(machine, a, b, *options):
    return machine.run("sluice", "bench", "compare", "--a", a, "--b", b, "--parse", "regex:v=([0-9.]+)", "--warmup",
                       "0", "--aa", "skip", *options)


def noisy(ratio, noise, count=40, seed=1):
    source = random.Random(seed)
    return [f"{100 * ratio * (1 + source.gauss(0, noise)):.6f}" for _ in range(count)]


@pytest.mark.parametrize("ratio, noise, verdict, code", [
    (1, 0.002, "EQUIVALENT", 0),
    (1.005, 0.001, "DIFFERENT-BUT-SMALL", 0),
    (1.05, 0.005, "SLOWER", 1),
    (0.95, 0.005, "FASTER", 0),
    (1, 0.2, "INCONCLUSIVE", 3),
])
def test_verdicts(machine, ratio, noise, verdict, code):
    a = values(machine.directory, "a", noisy(1, noise))
    b = values(machine.directory, "b", noisy(ratio, noise, seed=2))
    done = compare(machine, a, b, "--output", "json")
    assert done.rc == code, done
    assert done.json["verdict"] == verdict and done.json["schema"] == "sluice.result/1"
    assert [run["side"] for run in done.json["runs"]].count("A") == 20


def test_files_and_what_is_recorded(machine):
    a = values(machine.directory, "a", noisy(1, 0.001))
    b = values(machine.directory, "b", noisy(1.03, 0.001, seed=2))
    file, page = machine.directory / "r.json", machine.directory / "r.html"
    machine.env |= {"NCCL_DEBUG": "INFO", "NCCL_TOKEN": "hunter2", "AWS_SECRET_ACCESS_KEY": "hunter2"}
    done = compare(machine, a, b, "--json", file, "--html", page, "--seed", "5")
    assert done.rc == 1 and "SLOWER" in done.out and "seed 5" in done.out
    recorded = json.loads(file.read_text())
    assert recorded["fingerprint"]["environment"]["NCCL_DEBUG"] == "INFO"
    assert "bench compare" in " ".join(recorded["argv"]) and recorded["argv"][-2:] == ["--seed", "5"]
    assert "hunter2" not in file.read_text() + page.read_text() + done.out
    assert "<h1>SLOWER</h1>" in page.read_text()
    again = machine.run("sluice", "bench", "compare", "--from", file, "--metric", "output", "--margin", "5%")
    assert again.rc == 0 and "DIFFERENT-BUT-SMALL" in again.out, again
    assert "20 pairs, margin 5 %, seed 5\n" in again.out, again  # of those runs, not of today
    apart = machine.run("sluice", "bench", "compare", "--from", file, file, "--metric", "output")
    assert "pairs, margin" not in apart.out and "seed" not in apart.out, apart  # there is neither
    assert "unpaired" in apart.out, apart
    unrest = [{"side": ("A", "A2")[i % 2], "rc": 0, "metrics": {"output": {"samples": [1 + i % 2]}}} for i in range(40)]
    file.write_text(json.dumps(recorded | {"calibration": {"runs": unrest}}))
    judge = ("sluice", "bench", "compare", "--from", file, "--metric", "output", "--margin", "5%")
    assert machine.run(*judge).rc == 3 and "REFUSED" in machine.run(*judge).out  # as it was when it was recorded
    assert machine.run(*judge, "--aa", "skip").rc == 0
    once, twice = (machine.run(*judge, "--aa", "skip", "--output", "json").json["verdicts"][0]["within_95"]
                   for looks in (1, 2) if file.write_text(json.dumps(recorded | {"looks": looks})))
    assert twice[1] - twice[0] > once[1] - once[0]  # intervals are as wide as they were
    file.write_text(json.dumps(recorded | {"calibration": {"runs": [{"side": "A"}, {"side": "A"}]}}))
    assert "calibration" in machine.run(*judge).err and machine.run(*judge).rc == 65
    file.write_text(json.dumps(recorded)[:1000])
    broken = machine.run("sluice", "bench", "compare", "--from", file)
    assert broken.rc == 65 and str(file) in broken.err and "line 1" in broken.err, broken


def test_failures(machine):
    done = machine.run("sluice", "bench", "compare", "--a", "true", "--b", "echo no such thing >&2; exit 9", "-n", "6")
    assert done.rc == 2 and "B fails" in done.err and "no such thing" in done.err, done
    hangs = compare(machine, "echo v=1", "sleep 100", "--timeout", "100ms", "-n", "6")
    assert hangs.rc == 2 and "too long" in hangs.out, hangs
    few = compare(machine, "echo v=1", "echo v=1", "-n", "5")
    assert few.rc == 3 and "TOO-FEW" in few.out
    nothing = compare(machine, "echo v=1", "echo", "-n", "6")
    assert nothing.rc == 2 and "has no metric 'output'" in nothing.err
    full = machine.run("sluice", "bench", "compare", "--a", "true", "--b", "true", "-n", "6", "--aa", "skip", "--json",
                       "/dev/full/x")
    assert full.rc == 73, full


@pytest.mark.parametrize("options", [
    [], ["--a", "true"], ["--from"], ["--from", "x", "--a", "true"], ["--a", "true", "--b", "true", "file"],
    ["--a", "true", "--b", "true", "--margin", "0"], ["--a", "true", "--b", "true", "--margin", "x%"],
    ["--a", "true", "--b", "true", "--parse", "x"], ["--a", "true", "--b", "true", "--parse", "regex:("],
    ["--a", "true", "--b", "true", "--parse", "regex:x"],
    ["--a", "true", "--b", "true", "--metric", "wall", "--metric", "wall"],
])
def test_what_cannot_be_meant(machine, options):
    assert machine.run("sluice", "bench", "compare", *options).rc == 64


def test_ctrl_c_keeps_what_was_measured(machine):
    file, marks = machine.directory / "r.json", machine.directory / "marks"
    command = f"echo >>{marks}; test $(wc -l <{marks}) -lt 5 || sleep 100"
    program = machine.spawn("sluice", "bench", "compare", "--a", command, "--b", command, "--warmup", "0", "--aa", "skip",
                            "--json", file, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    wait_until(lambda: marks.exists() and len(marks.read_text()) >= 5, what="the fifth run")
    program.send_signal(signal.SIGINT)
    assert program.wait(10) == 130
    assert len(json.loads(file.read_text())["runs"]) == 4


def test_killed_it_leaves_no_command(machine):
    told = machine.directory / "pid"
    program = machine.spawn("sluice", "bench", "compare", "--a", f"echo $$ >{told}.new; mv {told}.new {told}; exec sleep 600",
                            "--b", "true", "--aa", "skip", "--warmup", "0", "-n", "50", stdout=subprocess.DEVNULL)
    wait_until(told.exists, what="the command")
    program.kill()
    program.wait(10)
    wait_until(lambda: "State:\tZ" in state_of(told.read_text().strip()), what="its end")


def state_of(pid):
    """Of a process; a zombie where it is gone (here nobody may reap orphans)."""
    try:
        return pathlib.Path(f"/proc/{pid}/status").read_text(encoding="utf-8")
    except FileNotFoundError:
        return "State:\tZ"


def test_a_verdict_that_nobody_could_read(machine):
    """1 says that B is slower: a full disk says something else."""
    with open("/dev/full", "w", encoding="utf-8") as full:
        assert machine.spawn("sluice", "bench", "compare", "--a", "true", "--b", "true", "-n", "1", "--warmup", "0",
                             "--aa", "skip", stdout=full, stderr=subprocess.DEVNULL).wait(30) == 73


def test_a_scaling_series(machine):
    """Recorded runs that say how many workers they had, or a table."""
    table = machine.directory / "series.csv"
    table.write_text("workers,samples/s\n1,100\n2,190\n4,350\n")
    page = machine.directory / "series.html"
    done = machine.run("sluice", "bench", "compare", "--from", table, "--html", page)
    assert done.rc == 0 and "87.5 %" in done.out, done
    assert "4 workers: 87.5 %" in page.read_text()
    files = []
    for workers, rate in ((1, 100), (2, 150), (4, 200)):
        files.append(machine.directory / f"{workers}.json")
        files[-1].write_text(json.dumps({"schema": "sluice.result/1", "runs": [{"side": "-", "index": 0, "rc": 0, "metrics": {
            "workers": {"unit": "", "better": "higher", "samples": [workers]},
            "samples/s": {"unit": "1/s", "better": "higher", "samples": [rate]}}}]}))
    told = machine.run("sluice", "bench", "compare", "--from", *files, "--output", "json").json
    assert [point["efficiency"] for point in told["scaling"]] == [1, 0.75, 0.5] and told["metric"] == "samples/s"
    parsed = machine.run("sluice", "bench", "compare", "--from", table, "--parse", "regex:(.*)")
    assert parsed.rc == 0 and "87.5 %" in parsed.out, parsed
    table.write_text("workers,samples/s\n1,100\n2,fast\n")
    wrong = machine.run("sluice", "bench", "compare", "--from", table)
    assert wrong.rc == 65 and "line 3: 'fast' is no number" in wrong.err, wrong
    alone = machine.run("sluice", "bench", "compare", "--from", files[0])
    assert alone.rc == 65 and "a series has two at least" in alone.err, alone


def test_gpus_that_are_slowed_down(machine):
    """On a simulated machine whose GPU is too hot; a sample comes once in a second."""
    machine.start("t4x1", "--clock", "virtual")
    machine.sim("inject", "thermal", "--ambient", "60", "--gpu", "0")
    machine.sim("load", "--gpu", "0", "--pid", "4711", "--invented", "--util", "1")
    machine.sim("clock", "advance", "300s")
    file = machine.directory / "result.json"
    done = machine.run("sluice", "bench", "compare", "--a", "sleep 1.1", "--b", "sleep 1.1", "-n", "1", "--warmup", "0",
                       "--aa", "skip", "--json", file)
    told = json.loads(file.read_text())
    assert done.rc == 3 and told["fingerprint"]["simulated"] is True, done
    assert told["fingerprint"]["gpus"][0]["name"] == "Tesla T4"
    assert all(run["env_events"]["gpu_celsius"] > 80 for run in told["runs"]), told["runs"]
    assert told["disturbed_runs"] == 2 and "GPUs were slowed down in some runs: " in done.out, done
    again = machine.run("sluice", "bench", "compare", "--from", file)
    assert all("The GPUs are simulated: " in reply.out for reply in (done, again)), again
    other = machine.directory / "other.json"
    other.write_text(file.read_text().replace("Tesla T4", "Tesla T40"))
    apart = machine.run("sluice", "bench", "compare", "--from", file, other)
    assert "The GPUs are simulated: " in apart.out
    assert "not measured in the same place" in apart.out and "Tesla T40" in apart.out, apart


TRAINS = """
log() { echo ":::MLLOG {\\"namespace\\": \\"\\", \\"time_ms\\": $1, \\"event_type\\": \\"POINT_IN_TIME\\", \\"key\\": \\"$2\\", \\"value\\": 1, \\"metadata\\": $3}"; }
log 1000 run_start {}
log 2000 eval_accuracy '{"epoch_num": 4}'
log %d run_stop '{"status": "%s"}'
"""
HALF = "echo ':::MLLOG {\"key\": \"eval_acc'\n"


def test_training_logs(machine):
    """Speed and convergence apart: both sides take 4 epochs, one of them more time for each."""
    for name, stop, status in (("a", 9000, "success"), ("b", 11000, "success"), ("c", 9000, "aborted")):
        (machine.directory / name).write_text(TRAINS % (stop, status))
    def compare(*sides, options=()):
        a, b = (f"sh {machine.directory}/{side}" for side in sides)
        return machine.run("sluice", "bench", "compare", "--a", a, "--b", b, "--parse", "mllog", "-n", "8", "--warmup", "0",
                           *options)
    # Of six pairs, two metrics leave nothing to be said: twice 2/64.
    slower = compare("a", "b", options=("--metric", "epoch_time", "--metric", "epochs", "--output", "json"))
    verdicts = {one["metric"]: one for one in slower.json["verdicts"]}
    assert slower.rc == 1 and verdicts["epoch_time"]["verdict"] == "SLOWER", slower
    assert verdicts["epoch_time"]["median_a"] == 2 and verdicts["epoch_time"]["median_b"] == 2.5
    assert verdicts["epochs"]["verdict"] == "EQUIVALENT"
    aborted = compare("a", "c", options=("--aa", "skip"))
    assert aborted.rc == 2 and "FAILED" in aborted.out and "the training was aborted" in aborted.out, aborted
    assert compare("a", "b", options=("--metric", "time_to_train")).rc == 1
    # An epoch that cannot be read would make all others longer.
    (machine.directory / "d").write_text(TRAINS % (9000, "success") + HALF)
    cut = compare("a", "d", options=("--aa", "skip"))
    assert cut.rc == 2 and "lines that cannot be read (1)" in cut.out, cut


def test_a_time_to_train_alone_says_nothing(machine):
    file = machine.directory / "r.json"
    runs = [{"side": side, "index": i, "block": i // 4, "slot": 1 + i % 2, "rc": 0, "metrics": {
        "time_to_train": {"unit": "s", "better": "lower", "samples": [10 + i]}}} for i, side in enumerate("ABBAABBAABBA")]
    file.write_text(json.dumps({"schema": "sluice.result/1", "runs": runs}))
    done = machine.run("sluice", "bench", "compare", "--from", file, "--metric", "time_to_train")
    assert done.rc == 65 and "speed and convergence at once" in done.err, done
