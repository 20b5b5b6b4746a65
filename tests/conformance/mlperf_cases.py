# SPDX-License-Identifier: Apache-2.0
"""MLCommons' own checker of training logs (mlperf_logging, installed into a virtual environment of its own) and
`sluice mlperf` judge the same logs, made as those of real submitters are: each line of a good log left out, said twice,
swapped with the next, without its value, without its metadata; each key of its tables with strange values and each tensor
of the closed division left out and twice; and random results beside random reference convergence points."""

import concurrent.futures
import json
import os
import pathlib
import random
import shutil
import subprocess
import tempfile

BESIDE = ("nice", "-n", "19")  # what the other cases wait for goes first
HERE = pathlib.Path(__file__).resolve().parent
BENCHMARKS = {"0.6.0": ("resnet", "ssd", "maskrcnn", "transformer", "gnmt"),
              "0.7.0": ("resnet", "ssd", "maskrcnn", "transformer", "gnmt", "minigo", "dlrm", "bert"),
              "1.0.0": ("resnet", "ssd", "maskrcnn", "minigo", "dlrm", "bert", "rnnt", "unet3d"),
              "1.1.0": ("resnet", "ssd", "maskrcnn", "minigo", "dlrm", "bert", "rnnt", "unet3d")}
RUNS = {"unet3d": 40, "bert": 10, "rnnt": 10, "resnet": 5, "ssd": 5, "maskrcnn": 5}
RESULTS = 40
REACHED = {"resnet": 0.76, "ssd": 0.24, "maskrcnn": {"BBOX": 0.38, "SEGM": 0.34}, "transformer": 0.26, "gnmt": 0.25,
           "minigo": 0.6, "dlrm": 0.81, "bert": 0.73, "rnnt": 0.05, "unet3d": 0.91}
MISSED = {**{name: 0.1 for name in REACHED}, "maskrcnn": {"BBOX": 0.5, "SEGM": 0.3}}
# What the tables take of a key, where that is not 2.
VALUES = {
    "opt_learning_rate_decay_boundary_epochs": [40, 50], "opt_learning_rate_decay_steps": [1, 2], "opt_adam_epsilon": 1e-9,
    "num_image_candidates": 6000, "opt_learning_rate_decay_factor": 0.1, "actual_selfplay_games_per_generation": 8200,
    "min_selfplay_games_per_generation": 8192, "lars_opt_end_learning_rate": 0.0001, "sgd_opt_end_learning_rate": 0.0001,
    "lars_epsilon": 0.0, "lars_opt_weight_decay": 0.0002, "sgd_opt_weight_decay": 5e-05, "max_samples": 50,
    "opt_lamb_epsilon": 1e-9, "opt_gradient_clip_norm": float("inf"), "opt_lamb_learning_rate_min": 1e-5,
    "opt_learning_rate_alt_decay_func": True, "opt_learning_rate_alt_warmup_func": True, "data_train_num_buckets": 6,
    "data_speed_perturbaton_min": 0.85, "data_speed_perturbaton_max": 1.15, "data_spec_augment_freq_min": 0,
    "data_spec_augment_freq_max": 20, "data_spec_augment_time_n": 10, "data_spec_augment_time_min": 0,
    "data_spec_augment_time_max": 0.03, "eval_max_prediction_symbols": 300}
OF_A_BENCHMARK = {("rnnt", "eval_samples"): 2703, ("unet3d", "train_samples"): 168, ("unet3d", "eval_samples"): 42,
                  ("rnnt", "opt_weight_decay"): 0.001, ("rnnt", "opt_name"): "lamb", ("transformer", "opt_name"): "adam",
                  ("unet3d", "opt_name"): "sgd"}
# 0.6.0 has one table for both divisions.
OLD = {"resnet": {"opt_name": "sgd", "opt_base_learning_rate": 1, "opt_learning_rate_warmup_epochs": 1,
                  "opt_learning_rate_decay_boundary_epochs": [1], "model_bn_span": 1},
       "ssd": dict.fromkeys(("opt_base_learning_rate", "opt_weight_decay", "opt_learning_rate_warmup_steps",
                             "opt_learning_rate_warmup_factor", "max_samples", "model_bn_span"), 1),
       "maskrcnn": dict.fromkeys(("opt_base_learning_rate", "opt_learning_rate_warmup_steps",
                                  "opt_learning_rate_warmup_factor", "num_image_candidates"), 1),
       "transformer": {"opt_name": "adam", "opt_base_learning_rate": 1, "opt_learning_rate_warmup_steps": 1,
                       "max_sequence_length": 1, "opt_adam_beta_1": 0.9, "opt_adam_beta_2": 0.997, "opt_adam_epsilon": 1},
       "gnmt": {"opt_learning_rate_alt_decay_func": True, "opt_learning_rate_alt_warmup_func": False,
                **dict.fromkeys(("opt_base_learning_rate", "opt_learning_rate_decay_interval",
                                 "opt_learning_rate_decay_factor", "opt_learning_rate_decay_steps",
                                 "opt_learning_rate_remain_steps", "opt_learning_rate_warmup_steps",
                                 "max_sequence_length"), 1)}}
STRANGE = (None, "", "x", True, 0, -3, 0.3, 7, [], [1, 2], [40, 61], float("nan"))  # in place of a value


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

    def ask(self, what, where, *more):
        done = subprocess.run([*BESIDE, self.python, str(HERE / "mlperf/ask.py"), what, str(where), *more], capture_output=True,
                              text=True, timeout=600, check=True)
        return json.loads(done.stdout)

    def ours(self, *arguments):
        return subprocess.run([*BESIDE, self.sluice, "mlperf", *map(str, arguments)], capture_output=True, text=True, timeout=60,
                              check=False)


def settings(benchmark, ruleset, table, optimiser):
    """(key, value, metadata) of what the closed division wants of this benchmark besides."""
    if ruleset == "0.6.0":
        return [(key, value, {}) for key, value in OLD[benchmark].items()]
    keys = dict.fromkeys(table["common"]["keys"] + table[benchmark]["keys"])
    if benchmark == "resnet":
        keys |= dict.fromkeys(table[f"resnet_{optimiser}"]["keys"])
    log = []
    for key in keys:
        value = OF_A_BENCHMARK.get((benchmark, key), optimiser if key == "opt_name" else VALUES.get(key, 2))
        metadata = {"method": "discard"} if key == "max_sequence_length" else {}
        if key == "weights_initialization":
            log += [(key, None, {"tensor": name}) for name in table[benchmark]["tensors"]]
        elif not key.startswith(("submission_", "eval_", "block_", "train_samples")) or "symbols" in key:
            log.append((key, value, metadata))
    return log


def good(benchmark, ruleset, more=(), division="open", first=1, late=False):
    """(key, value, metadata, seconds) of a log that is accepted. `more`: settings. `late`: what it is of stands at its end, put
    there afterwards, with a time of 0."""
    def events(keys):
        return [(key, value, {}, 1) for key, value in keys]

    log = [("cache_clear", True, {}, 0), ("init_start", None, {}, 0)]
    names = [(f"submission_{key}", value, {}, 0 if late else 1) for key, value in (
        ("org", "us"), ("platform", "box"), ("division", division), ("status", "onprem"), ("benchmark", benchmark))]
    log += [] if late else names
    if ruleset == "0.6.0":
        log += events((("submission_entry", {"a": [1, {"b": None}]}), ("submission_poc_name", "x")))
    log += events((key, OF_A_BENCHMARK.get((benchmark, key), 8)) for key in ("train_samples", "eval_samples"))
    log += [(*setting, 1) for setting in more]
    log += events((key, 8) for key in ("global_batch_size", "seed") if key not in [setting[0] for setting in more])
    log += [("init_stop", None, {}, 2), ("run_start", None, {}, 2)]
    for epoch in (first, first + 1):
        number, block = {"epoch_num": epoch}, {"first_epoch_num": epoch}
        accuracy = REACHED[benchmark] if epoch > first else MISSED[benchmark]
        log += [("block_start", None, {**block, "epoch_count": 1}, 3), ("epoch_start", None, number, 3),
                ("epoch_stop", None, number, 4), ("block_stop", None, block, 4), ("eval_start", None, number, 5),
                ("eval_accuracy", accuracy, number, 5), ("eval_stop", None, number, 5)]
    return [*log, ("run_stop", None, {"status": "success"}, 9), *(names if late else [])]


def changed(log, skip=()):
    """Name and log of everything that may be wrong with one."""
    yield "good", log
    for at, (key, value, metadata, seconds) in enumerate(log):
        if key in skip:
            continue
        rest = log[at + 1:]
        yield f"{at}-{key}-left-out", log[:at] + rest
        yield f"{at}-{key}-twice", log[:at + 1] + [log[at]] + rest
        yield f"{at}-{key}-without-metadata", log[:at] + [(key, value, {}, seconds)] + rest
        if key != "eval_accuracy":  # 0.6.0 takes an accuracy that is none
            yield f"{at}-{key}-without-value", log[:at] + [(key, None, metadata, seconds)] + rest
        if rest:
            yield f"{at}-{key}-after-{rest[0][0]}", log[:at] + [rest[0], log[at]] + rest[1:]


def strange(log, more):
    """The same for settings: their values, and the tensors."""
    yield "good", log
    keys = {setting[0] for setting in more if setting[0] != "weights_initialization"}
    for at, (key, value, metadata, seconds) in enumerate(log):
        before, rest = log[:at], log[at + 1:]
        if key in keys:
            yield f"{at}-{key}-left-out", before + rest
            yield f"{at}-{key}-twice", before + [log[at], log[at]] + rest
            yield f"{at}-{key}-with-another-value", before + [log[at], (key, [value], metadata, seconds)] + rest
            yield f"{at}-{key}-without-metadata", before + [(key, value, {}, seconds)] + rest
            for number, other in enumerate(STRANGE):
                yield f"{at}-{key}-{number}", before + [(key, other, metadata, seconds)] + rest
        elif key == "weights_initialization" and at % 17 == 0:
            yield f"{at}-tensor-left-out", before + rest
            yield f"{at}-tensor-twice", before + [log[at], log[at]] + rest
            yield f"{at}-tensor-renamed", before + [(key, value, {"tensor": metadata["tensor"] + "x"}, seconds)] + rest
            yield f"{at}-tensor-without-name", before + [(key, value, {}, seconds)] + rest
        elif key == "eval_accuracy":
            for number, other in enumerate((*STRANGE, 1.0, 1.5, {"BBOX": 0.9}, {"BBOX": 0.3, "SEGM": 0.5})):
                yield f"{at}-{key}-{number}", before + [(key, other, metadata, seconds)] + rest
        elif key in ("submission_benchmark", "train_samples", "eval_samples"):
            yield f"{at}-{key}-unknown", before + [(key, "chess", metadata, seconds)] + rest
            yield f"{at}-{key}-left-out", before + rest
            if (log[6][1], key) != ("rnnt", "train_samples"):  # whose table forgets the check of the others
                yield f"{at}-{key}-empty", before + [(key, "", metadata, seconds)] + rest
        elif key == "run_stop":
            yield f"{at}-aborted", [event for event in before if event[1] != REACHED[log[6][1]]] + [
                (key, value, {"status": "aborted"}, seconds)]


def kind(key):
    return "INTERVAL_START" if key.endswith("_start") else "INTERVAL_END" if key.endswith("_stop") else "POINT_IN_TIME"


def write(path, log, is_old, style="ours"):
    """As a submitter's library does. "google": without event_type, every other line without namespace as well; "nvidia":
    output of a launcher before and between; "intel": v0.6 with metadata in Python's notation."""
    with open(path, "w", encoding="utf-8") as file:
        for number, (key, value, metadata, seconds) in enumerate(log):
            metadata = {**metadata, "file": "train.py", "lineno": number}
            body = {"namespace": "main" if style == "google" else "", "time_ms": seconds * 1000 + number,
                    "event_type": kind(key), "key": key, "value": value, "metadata": metadata}
            if style == "google":
                del body["event_type"]
                if number % 2:
                    del body["namespace"]
            if style == "nvidia":
                file.write(f"+ '[' {number} -eq 1 ']'\n{number % 8}: ")
            if style == "intel":  # value in JSON, metadata by str()
                file.write(f":::MLL {seconds + number / 1000:.6f} {key}: "
                           + f'{{"value": {json.dumps(value)}, "metadata": {metadata}}}\n')
            elif is_old:
                file.write(f":::MLL {seconds + number / 1000:.6f} {key}: "
                           + json.dumps({"value": value, "metadata": metadata}) + "\n")
            else:
                file.write(":::MLLOG " + json.dumps(body) + "\n")


def verdicts(mlperf, directory, ruleset, *options):
    """What ours says of each log of a directory: accepted or not, and its first words."""
    done = mlperf.ours("check", directory, "--ruleset", ruleset, *options)
    told = {}
    for line in done.stdout.splitlines():
        name, _, said = line.removeprefix(f"{directory}/").partition(": ")
        if " findings, " in said:
            told.setdefault(name, [False, ""])[0] = said.startswith("0 findings")
        elif not said.startswith("and "):
            told.setdefault(name, [False, said])
    return told


def compare(mlperf, directory, ruleset, strict=False):
    theirs = mlperf.ask(ruleset, directory, *(["strict"] if strict else []))
    ours = verdicts(mlperf, directory, ruleset, *(["--strict"] if strict else []))
    problems = [f"{name}: {'accepted' if accepted else 'refused'}, ours: {ours.get(name)}"
                for name, accepted in theirs.items() if ours.get(name, [None])[0] != accepted]
    return problems, theirs


def logs(mlperf, ruleset, benchmark):
    """Events of the open division, in several styles, changed in every way."""
    problems, said = [], []
    # What 0.6.0 wants of values of settings is looked at elsewhere.
    more = settings(benchmark, ruleset, None, None) if ruleset == "0.6.0" else []
    if benchmark == "minigo" and ruleset != "0.6.0":
        more = [("actual_selfplay_games_per_generation", 8200, {})]
    for style, first, late in (("ours", 1, False), ("google", 0, True), ("nvidia", 1, False)):
        if ruleset == "0.6.0" and style == "google":
            continue
        with tempfile.TemporaryDirectory() as name:
            directory = pathlib.Path(name)
            log = good(benchmark, ruleset, more, first=first, late=late)
            for what, other in changed(log, {setting[0] for setting in more}):
                write(directory / f"{what}.log", other, ruleset == "0.6.0", style)
            (directory / "empty.log").write_text("no line of a training\n")
            wrong, theirs = compare(mlperf, directory, ruleset, style == "nvidia")
            if not theirs["good.log"] or all(theirs.values()):
                wrong.append("the good log is refused, or nothing is")
            problems += [f"{style}: {line}" for line in wrong]
            said.append(f"{sum(theirs.values())} of {len(theirs)}")
    return problems, f"{', '.join(said)} accepted"


def notation(mlperf):
    """Python's notation, which their checker refuses: so does ours, and a summary reads it."""
    with tempfile.TemporaryDirectory() as name:
        directory = pathlib.Path(name)
        write(directory / "good.log", good("resnet", "0.6.0", settings("resnet", "0.6.0", None, None)), True, "intel")
        problems, theirs = compare(mlperf, directory, "0.6.0")
        run = json.loads(mlperf.ours("summary", "--output", "json", directory / "good.log").stdout)["runs"][0]
    if any(theirs.values()) or run["broken_lines"] or run["end"] != "ended" or not run["minutes"] > 0.1:
        problems.append(f"{theirs}, {run}")
    return problems, f"{run['lines']} lines"


def rules(mlperf, ruleset, benchmark):
    """The closed division: each key of the tables left out, twice, with strange values; each tensor."""
    problems, said = [], []
    table = mlperf.ask("tables", ruleset).get("closed")
    for optimiser in ("sgd", "lars") if benchmark == "resnet" and table else ("sgd",):
        with tempfile.TemporaryDirectory() as name:
            directory = pathlib.Path(name)
            more = settings(benchmark, ruleset, table, optimiser)
            for what, log in strange(good(benchmark, ruleset, more, "closed"), more):
                if not (ruleset == "0.6.0" and "eval_accuracy" in what):  # which is stricter here
                    write(directory / f"{what}.log", log, ruleset == "0.6.0", "google")
            wrong, theirs = compare(mlperf, directory, ruleset)
            if not theirs["good.log"] or all(theirs.values()):
                wrong.append("the good log is refused, or nothing is")
            problems += wrong
            said.append(f"{sum(theirs.values())} of {len(theirs)}")
    return problems, f"{', '.join(said)} accepted"


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


def begin(run, mlperf):
    """The cases only compute: with what the others, which wait much, leave of the processors. What to wait for."""
    pool = concurrent.futures.ThreadPoolExecutor(os.cpu_count() or 1)
    cases = [pool.submit(run.check, f"mlperf check {ruleset} {benchmark} {division}", function, mlperf, ruleset, benchmark)
             for ruleset, benchmarks in BENCHMARKS.items() for benchmark in benchmarks
             for division, function in (("open", logs), ("closed", rules))]
    return [*cases, pool.submit(run.check, "mlperf check of Python's notation", notation, mlperf),
            pool.submit(run.check, "mlperf rcp", convergence, mlperf)]
