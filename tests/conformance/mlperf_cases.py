# SPDX-License-Identifier: Apache-2.0
"""MLCommons' own checker of training logs (mlperf_logging, installed into a virtual environment of its own) and
`sluice mlperf` judge the same logs: each line of a good log left out, said twice, swapped with the next, without its
value, without its metadata; and random results beside random reference convergence points."""

import json
import os
import pathlib
import random
import shutil
import subprocess
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
RULESETS = {"0.6.0": ("resnet",), "0.7.0": ("resnet", "dlrm"), "1.0.0": ("resnet", "dlrm"), "1.1.0": ("resnet", "dlrm")}
RUNS = {"unet3d": 40, "bert": 10, "rnnt": 10, "resnet": 5, "ssd": 5, "maskrcnn": 5}
RESULTS = 40
# Optimiser settings, which ours does not look at; 0.6.0 wants them in every division.
SETTINGS = (("opt_name", "sgd"), ("opt_base_learning_rate", 1), ("opt_learning_rate_warmup_epochs", 1),
            ("opt_learning_rate_decay_boundary_epochs", [1]), ("model_bn_span", 1))


class Mlperf:
    def __init__(self, build):
        self.sluice = os.path.join(build, "src/cmd/sluice")
        self.python = None

    def install(self, venv, step, unavailable):
        folder, requirements = venv / "mlperf", HERE / "mlperf/requirements.txt"
        stamp = folder / "stamp"
        if not stamp.exists() or stamp.read_text() != requirements.read_text():
            shutil.rmtree(folder, ignore_errors=True)
            python = os.environ.get("PYTHON", "/usr/bin/python3")
            step([python, "-m", "venv", str(folder)], HERE, "making a virtual environment (is python3-venv installed?)")
            step([str(folder / "bin/python"), "-m", "pip", "install", "--quiet", "--require-hashes", "--no-deps",
                  "--only-binary", ":all:", "-r", str(requirements)], HERE,
                 "installing MLCommons' checker from PyPI (is there a network?)")
            stamp.write_text(requirements.read_text())
        self.python = str(folder / "bin/python")

    def ask(self, what, directory):
        done = subprocess.run([self.python, str(HERE / "mlperf/ask.py"), what, str(directory)], capture_output=True,
                              text=True, timeout=300, check=True)
        return json.loads(done.stdout)

    def ours(self, *arguments):
        return subprocess.run([self.sluice, "mlperf", *map(str, arguments)], capture_output=True, text=True, timeout=60,
                              check=False)


def good(benchmark, ruleset):
    """(key, value, metadata, seconds) of a log that is accepted in the open division."""
    def events(keys):
        return [(key, value, {}, 1) for key, value in keys]

    log = [("cache_clear", True, {}, 0), ("init_start", None, {}, 0)]
    log += events((("submission_org", "us"), ("submission_platform", "box"), ("submission_division", "open"),
                   ("submission_status", "onprem"), ("submission_benchmark", benchmark)))
    if ruleset == "0.6.0":
        log += events((("submission_entry", {}), ("submission_poc_name", "x"), *SETTINGS))
    log += events((key, 8) for key in ("train_samples", "eval_samples", "global_batch_size", "seed"))
    log += [("init_stop", None, {}, 2), ("run_start", None, {}, 2)]
    for epoch in (1, 2):
        number, first = {"epoch_num": epoch}, {"first_epoch_num": epoch}
        log += [("block_start", None, {**first, "epoch_count": 1}, 3), ("epoch_start", None, number, 3),
                ("epoch_stop", None, number, 4), ("block_stop", None, first, 4), ("eval_start", None, number, 5),
                ("eval_accuracy", 0.81, number, 5), ("eval_stop", None, number, 5)]
    return [*log, ("run_stop", None, {"status": "success"}, 9)]


def changed(log):
    """Name and log of everything that may be wrong with one."""
    yield "good", log
    for at, (key, value, metadata, seconds) in enumerate(log):
        if key in dict(SETTINGS):
            continue
        rest = log[at + 1:]
        yield f"{at}-{key}-left-out", log[:at] + rest
        yield f"{at}-{key}-twice", log[:at + 1] + [log[at]] + rest
        yield f"{at}-{key}-without-metadata", log[:at] + [(key, value, {}, seconds)] + rest
        if key != "eval_accuracy":  # 0.6.0 takes an accuracy that is none
            yield f"{at}-{key}-without-value", log[:at] + [(key, None, metadata, seconds)] + rest
        if rest:
            yield f"{at}-{key}-after-{rest[0][0]}", log[:at] + [rest[0], log[at]] + rest[1:]


def kind(key):
    return "INTERVAL_START" if key.endswith("_start") else "INTERVAL_END" if key.endswith("_stop") else "POINT_IN_TIME"


def write(path, log, is_old):
    with open(path, "w", encoding="utf-8") as file:
        for number, (key, value, metadata, seconds) in enumerate(log):
            metadata = {**metadata, "file": "train.py", "lineno": number}
            if is_old:
                file.write(f":::MLL {seconds + number / 1000:.6f} {key}: "
                           + json.dumps({"value": value, "metadata": metadata}) + "\n")
            else:
                file.write(":::MLLOG " + json.dumps({
                    "namespace": "", "time_ms": seconds * 1000 + number, "event_type": kind(key), "key": key,
                    "value": value, "metadata": metadata}) + "\n")


def logs(mlperf, ruleset, benchmark):
    with tempfile.TemporaryDirectory() as name:
        directory = pathlib.Path(name)
        for what, log in changed(good(benchmark, ruleset)):
            write(directory / f"{what}.log", log, ruleset == "0.6.0")
        theirs = mlperf.ask(ruleset, directory)
        problems = []
        for file, accepted in theirs.items():
            done = mlperf.ours("check", directory / file, "--ruleset", ruleset)
            if (done.returncode == 0) != accepted or done.returncode not in (0, 2):
                problems.append(f"{file}: {'accepted' if accepted else 'refused'}, ours: {done.stdout[-200:]}{done.stderr}")
    if not theirs.get("good.log") or all(theirs.values()):
        problems.append("the good log is refused, or nothing is")
    return problems, f"{len(theirs)} logs, {sum(theirs.values())} accepted"


def result(directory, source):
    """A random result and a random table of references."""
    benchmark = source.choice(sorted(RUNS))
    runs, base = RUNS[benchmark], source.uniform(2, 60)
    sizes = sorted(source.sample(range(32, 9000), source.randint(1, 6)))
    table = {}
    for place, size in enumerate(sizes):
        mean = max(1, base * (1 + 0.1 * place * source.uniform(-0.5, 1.5)))
        deviation = source.choice([0, 0.01, 0.05, 0.2]) * mean
        table[f"reference of {size}"] = {
            "Benchmark": benchmark, "BS": size, "Creator": "us", "When": "now", "Platform": "box", "Hyperparams": {},
            "Epochs to converge": [round(max(0.2, source.gauss(mean, deviation)), 3)
                                   for _ in range(2 * runs + source.randint(0, 5))]}
    directory.mkdir()
    (directory / "table.json").write_text(json.dumps(table))
    batch = source.choice([source.choice(sizes), source.randint(20, 10000)])
    mean = base * source.uniform(0.8, 1.3)
    for number in range(runs):
        epoch = round(max(0.3, source.gauss(mean, 0.03 * mean)), 4)
        status = "success" if source.random() > 0.06 else "aborted"
        write(directory / f"result_{number}.txt", [
            ("submission_benchmark", benchmark, {}, 0), ("global_batch_size", batch, {}, 1), ("run_start", None, {}, 2),
            ("eval_accuracy", 0.3, {"epoch_num": epoch / 2}, 3), ("eval_accuracy", 0.8, {"epoch_num": epoch}, 4),
            ("run_stop", None, {"status": status}, 5)], False)


def convergence(mlperf):
    source, problems, passes = random.Random(20), [], 0
    with tempfile.TemporaryDirectory() as name:
        directory = pathlib.Path(name)
        for number in range(RESULTS):
            result(directory / str(number), source)
        theirs = mlperf.ask("rcp", directory)
        for key, (passed, said, factor) in theirs.items():
            number, records = key.split("/")
            folder = directory / number
            done = mlperf.ours("rcp", folder, "--table", folder / "table.json", "--one-sided", "--output", "json",
                               *(["--all-records"] if records == "full_rcps" else []))
            told = json.loads(done.stdout) if done.stdout else {"factor": 0, "verdict": done.stderr}
            passes += passed
            if (done.returncode == 0) != passed or (passed and abs(told["factor"] - factor) > 1e-6):
                problems.append(f"{key}: {said}, {factor}; ours: {told}")
    if passes in (0, len(theirs)):
        problems.append("all results pass, or none")
    return problems, f"{len(theirs)} results, {passes} pass"


def check(run, mlperf):
    for ruleset, benchmarks in RULESETS.items():
        for benchmark in benchmarks:
            run.check(f"mlperf check {ruleset} {benchmark}", logs, mlperf, ruleset, benchmark)
    run.check("mlperf rcp", convergence, mlperf)
