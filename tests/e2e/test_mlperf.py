# SPDX-License-Identifier: Apache-2.0
"""Training logs in MLPerf's form, as a user writes, reads, checks and compares them."""

import json
import subprocess

import pytest


def mlperf(machine, *arguments):
    return machine.run("sluice", "mlperf", *arguments)


# What the closed division wants of RNN-T besides, the benchmark with the fewest tensors.
SETTINGS = {"model_weights_initialization_scale": 1, "opt_name": "lamb", "opt_base_learning_rate": 1, "opt_lamb_epsilon": 1e-9,
            "opt_lamb_learning_rate_decay_poly_power": 1, "opt_lamb_learning_rate_hold_epochs": 1,
            "opt_learning_rate_warmup_epochs": 1, "opt_weight_decay": 0.001, "opt_lamb_beta_1": 1, "opt_lamb_beta_2": 1,
            "opt_gradient_clip_norm": float("inf"), "opt_learning_rate_alt_decay_func": True,
            "opt_learning_rate_alt_warmup_func": True, "opt_lamb_learning_rate_min": 1e-5, "data_train_max_duration": 1,
            "data_train_num_buckets": 6, "data_speed_perturbaton_min": 0.85, "data_speed_perturbaton_max": 1.15,
            "data_spec_augment_freq_n": 2, "data_spec_augment_freq_min": 0, "data_spec_augment_freq_max": 20,
            "data_spec_augment_time_n": 10, "data_spec_augment_time_min": 0, "data_spec_augment_time_max": 0.03,
            "model_eval_ema_factor": 1, "eval_max_prediction_symbols": 300, "gradient_accumulation_steps": 1}
TENSORS = ("pre_rnn", "post_rnn", "pred_embed", "dec_rnn", "joint_pred", "joint_enc", "joint_net")


def write(path, minutes, status="success", benchmark="resnet", accuracy=0.76, epoch=40, division="open", more=(), without=()):
    """`more`: (key, value, metadata) of further lines; `without`: members of a line that are left out."""
    events = [("cache_clear", "POINT_IN_TIME", True, {}, 0), ("init_start", "INTERVAL_START", None, {}, 0)]
    events += [(f"submission_{key}", "POINT_IN_TIME", value, {}, 1) for key, value in (
        ("org", "us"), ("platform", "a \x1b[31mmachine"), ("division", division), ("status", "onprem"), ("benchmark", benchmark))]
    events += [(key, "POINT_IN_TIME", value, {}, 1) for key, value in (
        ("train_samples", 8), ("eval_samples", 2703), ("global_batch_size", 8))]
    events += [(key, "POINT_IN_TIME", value, metadata, 1) for key, value, metadata in more]
    block = {"first_epoch_num": 1, "epoch_count": epoch}
    events += [("init_stop", "INTERVAL_END", None, {}, 2), ("run_start", "INTERVAL_START", None, {}, 2),
               ("block_start", "INTERVAL_START", None, block, 2), ("block_stop", "INTERVAL_END", None, block, 3),
               ("eval_accuracy", "POINT_IN_TIME", accuracy, {"epoch_num": epoch}, 3),
               ("run_stop", "INTERVAL_END", None, {"status": status}, 2 + 60 * minutes)]
    lines = [{"namespace": "", "time_ms": int(seconds * 1000), "event_type": kind, "key": key, "value": value,
              "metadata": metadata} for key, kind, value, metadata, seconds in events]
    path.write_text("noise\n" + "".join(
        "3: :::MLLOG " + json.dumps({name: line[name] for name in line if name not in without}) + "\n" for line in lines))
    return path


def closed(path, tensors=TENSORS, settings=None, **changes):
    """A log that the rules of 1.1.0 take of the closed division."""
    more = [(key, value, {}) for key, value in {**SETTINGS, **(settings or {})}.items()]
    more += [("weights_initialization", None, {"tensor": name}) for name in tensors]
    return write(path, 30, **{"benchmark": "rnnt", "accuracy": 0.05, "division": "closed", **changes, "more": [
        *more, *changes.get("more", [])]})


def test_a_score(machine):
    logs = [write(machine.directory / f"{i}.log", minutes) for i, minutes in enumerate((30, 28.5, 29, 29.5, 60))]
    done = mlperf(machine, "summary", *logs)
    assert done.rc == 0 and "29.50 minutes of 5 runs" in done.out and "\x1b" not in done.out, done
    assert mlperf(machine, "summary", *logs, "--output", "json").json["score"]["minutes"] == 29.5
    short = [write(machine.directory / f"short{i}.log", minutes) for i, minutes in enumerate((0, 0, 0, 0, -1))]
    done = mlperf(machine, "summary", *short)
    assert done.rc == 0 and "nan" not in done.out and "no end" in done.out, done  # which one ended before it began
    few = mlperf(machine, "summary", *logs[:3])
    assert few.rc == 3 and "no score" in few.out and "5 wanted" in few.out
    write(logs[0], 30, status="aborted")
    assert mlperf(machine, "summary", *logs).rc == 0  # it is the slowest
    write(logs[1], 30, status="aborted")
    assert "too many runs were aborted" in mlperf(machine, "summary", *logs).out
    write(logs[1], 30, benchmark="bert")
    assert "several benchmarks" in mlperf(machine, "summary", *logs).out


def test_check(machine):
    log = write(machine.directory / "run.log", 30)
    assert mlperf(machine, "check", log).rc == 0
    bad = write(machine.directory / "bad.log", 30, accuracy=0.5, division="closed")
    done = mlperf(machine, "check", log, bad, "--ruleset", "1.0")
    assert done.rc == 2 and "bad.log: the target was not reached: 0.5 of 0.759" in done.out
    assert "'submission_entry' is missing" in mlperf(machine, "check", log, "--ruleset", "0.6.0").out
    assert mlperf(machine, "check", machine.directory / "none.log").rc == 65
    assert mlperf(machine, "check", log, "--ruleset", "9").rc == 64
    # Cut anywhere, and bytes that are no text: findings, nothing else.
    whole = log.read_bytes()
    for end in range(0, len(whole), 97):
        bad.write_bytes(whole[:end])
        assert mlperf(machine, "check", bad).rc == 2
    bad.write_bytes(bytes(range(256)) * 20000 + b":::MLLOG " + b"x" * 5_000_000)
    assert mlperf(machine, "check", bad).rc == 2


def test_logs_as_submitters_write_them(machine):
    """Google's of v0.7 lack event_type, some namespace as well; Intel's of v0.6 are in Python's notation."""
    logs = [write(machine.directory / f"{i}.log", 30 + i, without=("event_type", "namespace")[:1 + i % 2]) for i in range(5)]
    done = mlperf(machine, "summary", *logs)
    assert done.rc == 0 and "32.00 minutes of 5 runs" in done.out and "aborted" not in done.out, done
    assert "cannot be read" not in done.out
    for ruleset in ("0.7.0", "1.1.0"):
        assert mlperf(machine, "check", *logs, "--ruleset", ruleset).rc == 0
    intel = machine.directory / "intel.log"
    intel.write_text(
        ':::MLL 1560873514.706088809 submission_benchmark: {"value": "minigo", "metadata": {"lineno": 0, "file": "manual"}}\n'
        ":::MLL 1560873515.984077135 cache_clear: {value: true, metadata: {lineno: 0, file: manual}}\n"
        ":::MLL 1560873710.141025 run_start: {\"value\": null, \"metadata\": {'lineno': 615, 'file': 'ml_perf/x.py'}}\n"
        ":::MLL 1560875622.040032 eval_result: {\"value\": null, \"metadata\": {'iteration': 14, 'timestamp': 846.0}}\n"
        ":::MLL 1560875622.040346 run_stop: {\"value\": null, \"metadata\": {'lineno': 53, 'status': 'success'}}\n")
    run = mlperf(machine, "summary", intel, "--output", "json").json["runs"][0]
    assert (run["benchmark"], run["minutes"], run["end"], run["broken_lines"]) == ("minigo", 14.1, "ended", 0)
    done = mlperf(machine, "check", intel, "--ruleset", "0.6")
    assert done.rc == 2 and "line 2: it is in Python's notation, not in JSON" in done.out


def test_a_published_score_of_logs_in_python_s_notation(machine):
    """Intel's MiniGo of v0.6: the seconds that its ten logs say make the 14.43 minutes that were published."""
    seconds = (746.014, 749.586, 896.495, 943.636, 1040.279, 850.193, 892.016, 848.149, 860.346, 885.82)
    for number, time in enumerate(seconds):
        (machine.directory / f"result_{number}.txt").write_text(
            ':::MLL 1560873514.7 submission_benchmark: {"value": "minigo", "metadata": {"lineno": 0, "file": "manual"}}\n'
            ":::MLL 1560873710.1 run_start: {\"value\": null, \"metadata\": {'lineno': 615, 'file': 'ml_perf/x.py'}}\n"
            f":::MLL 1560875622.0 eval_result: {{\"value\": null, \"metadata\": {{'iteration': 14, 'timestamp': {time}}}}}\n"
            ":::MLL 1560875622.1 run_stop: {\"value\": null, \"metadata\": {'lineno': 53, 'status': 'success'}}\n")
    done = mlperf(machine, "summary", machine.directory, "--output", "json")
    assert done.rc == 0 and done.json["score"]["minutes"] == 14.43, done
    assert "14.43" in mlperf(machine, "compare", "minigo", "14.43", "--round", "v0.6").out


def test_an_empty_log_is_no_run(machine):
    logs = [write(machine.directory / f"{i}.log", 30) for i in range(4)]
    empty = machine.directory / "4.log"
    empty.write_text("nothing of a training\n")
    done = mlperf(machine, "summary", *logs, empty)
    assert done.rc == 3 and "(4 runs, 0 aborted, 0 without an end, 1 empty, 5 wanted)" in done.out, done
    score = mlperf(machine, "summary", *logs, empty, "--output", "json").json
    assert [run["end"] for run in score["runs"]] == ["ended"] * 4 + ["empty"]
    assert (score["score"]["aborted"], score["score"]["empty"]) == (0, 1)
    table = machine.directory / "rcps.json"
    table.write_text(json.dumps({"ours": {"Benchmark": "resnet", "BS": 8, "Epochs to converge": [40] * 10}}))
    done = mlperf(machine, "rcp", *logs, empty, "--table", table)
    assert done.rc == 65 and "4.log' is empty: no line has ':::MLLOG'" in done.err, done
    empty.write_text("")
    done = mlperf(machine, "check", empty)
    assert done.rc == 2 and "it is empty" in done.out and "1 findings" in done.out and "missing" not in done.out, done


def test_the_closed_division(machine):
    """Each of them is refused by MLCommons' checker, which tests/conformance asks about all of its tables."""
    log = machine.directory / "run.log"
    assert mlperf(machine, "check", closed(log)).rc == 0
    for changes, says in (
            ({"tensors": TENSORS[1:]}, "the tensor 'pre_rnn' was not initialised"),
            ({"tensors": (*TENSORS, "dec_rnn")}, "the tensor 'dec_rnn' was initialised twice"),
            ({"tensors": (*TENSORS, "extra")}, "the tensor 'extra' is none of the benchmark"),
            ({"tensors": ()}, "'weights_initialization' is missing"),
            ({"settings": {"opt_lamb_epsilon": 1e-8}}, "'opt_lamb_epsilon' is not what the rules want: 1e-09"),
            ({"more": [("opt_base_learning_rate", 2, {})]}, "'opt_base_learning_rate' is there 2 times, with different values"),
            ({"accuracy": 0.06}, "the target was not reached: 0.06 of 0.058"),
            ({"accuracy": 0.06, "status": "aborted"}, "the target was not reached: 0.06 of 0.058"),
            ({"benchmark": "chess"}, "1.1.0 has no such benchmark")):
        done = mlperf(machine, "check", closed(log, **changes))
        assert done.rc == 2 and says in done.out, (changes, done)
    closed(log, more=[("opt_base_learning_rate", 1.0, {})])
    assert mlperf(machine, "check", log).rc == 0
    done = mlperf(machine, "check", log, "--strict")
    assert done.rc == 2 and "'opt_base_learning_rate' is there 2 times, and belongs there once" in done.out, done


def test_convergence_beside_the_reference(machine):
    """A directory stands for its results; both sides of the reference are looked at."""
    table = machine.directory / "rcps.json"
    table.write_text(json.dumps({"ours": {"Benchmark": "resnet", "BS": 8, "Epochs to converge":
                                          [38, 39, 39, 40, 40, 40, 40, 41, 41, 42]}}))
    results = machine.directory / "results"
    results.mkdir()
    (results / "notes.txt").write_text("not a log of a run\n")
    for epoch, rc, verdict in ((40, 0, "same"), (30, 2, "faster"), (60, 2, "slower")):
        for number in range(5):
            write(results / f"result_{number}.txt", 30, epoch=epoch)
        done = mlperf(machine, "rcp", results, "--table", table)
        assert done.rc == rc and f"verdict:    {verdict}" in done.out, done
        assert mlperf(machine, "rcp", results, "--table", table, "--output", "json").json["verdict"] == verdict
    assert mlperf(machine, "rcp", results, "--table", table, "--one-sided").rc == 0
    assert "of 5 runs" in mlperf(machine, "summary", results).out
    for number in range(2):
        write(results / f"result_{number}.txt", 30, status="aborted")
    none = mlperf(machine, "rcp", results, "--table", table)
    assert none.rc == 2 and "not converged: too many runs did not converge" in none.out and "result:" not in none.out, none
    assert mlperf(machine, "rcp", results, "--table", table, "--output", "json").json["mean"] is None
    for number in range(2):
        write(results / f"result_{number}.txt", 30, epoch=60)
    few = mlperf(machine, "rcp", *sorted(results.glob("result_[0-3].txt")), "--table", table)
    assert few.rc == 2 and "a result has 5 runs" in few.out and "of 4, the verdict is less sure" in few.out, few
    # Without its last epoch it would have been the fastest.
    text = (results / "result_0.txt").read_text()
    (results / "result_0.txt").write_text(text.replace('"key": "eval_accuracy", "value": 0.76', '"key": "eval_accuracy", "val'))
    broken = mlperf(machine, "rcp", results, "--table", table)
    assert broken.rc == 65 and "result_0.txt': lines that cannot be read (1)" in broken.err, broken
    assert "result_0.txt: lines that cannot be read: 1\n" in mlperf(machine, "summary", results).out
    (results / "result_0.txt").write_text(text)
    assert mlperf(machine, "rcp", results).rc == 64
    write(results / "result_1.txt", 30, benchmark="bert")
    other = mlperf(machine, "rcp", results, "--table", table)
    assert other.rc == 65 and "result_1.txt' is of 'bert', those before it of 'resnet'" in other.err
    table.write_text("{")
    assert "rcps.json': line 1" in mlperf(machine, "rcp", results, "--table", table).err
    (machine.directory / "none").mkdir()
    assert "holds no result_*.txt" in mlperf(machine, "summary", machine.directory / "none").err


def test_log_writes_what_check_reads(machine):
    log = machine.directory / "run.log"
    assert mlperf(machine, "log", "run_start", "--start", "--file", log).rc == 0
    assert mlperf(machine, "log", "eval_accuracy", "0.7", "--meta", "epoch_num=3", "--meta", "note=a \"b\"", "--file", log).rc == 0
    assert mlperf(machine, "log", "run_stop", "--end", "--meta", "status=success", "--file", log).rc == 0
    lines = [json.loads(line.split(" ", 1)[1]) for line in log.read_text().splitlines()]
    assert [line["key"] for line in lines] == ["run_start", "eval_accuracy", "run_stop"]
    assert lines[1]["value"] == 0.7 and lines[1]["metadata"] == {"epoch_num": 3, "note": 'a "b"'}
    assert lines[2]["event_type"] == "INTERVAL_END"
    assert mlperf(machine, "log", "a", "text").out.endswith('"value": "text", "metadata": {}}\n')
    assert mlperf(machine, "log", "not a key").rc == 64
    assert mlperf(machine, "log", "a", "--file", "/no/such/directory/x").rc == 73


@pytest.mark.parametrize("arguments, says", [
    (("gnmt", "21.9", "--system", "DGX-1"), "none: inside the spread"),  # 6.6 % of a spread of 27 %
    (("ssd", "22.9", "--system", "DGX-1"), "outside the spread"),
    (("resnet", "2", "--scope", "max-scale"), "not known"),
])
def test_beside_what_was_published(machine, arguments, says):
    done = mlperf(machine, "compare", *arguments)
    assert done.rc == 0 and says in done.out, done
    assert mlperf(machine, "compare", *arguments, "--output", "json").json


def test_what_was_not_published(machine):
    assert mlperf(machine, "compare", "chess", "20").rc == 3
    assert mlperf(machine, "compare", "gnmt", "0").rc == 64


def test_a_file_without_an_end_is_refused(machine):
    sparse = machine.directory / "sparse"
    with open(sparse, "wb") as file:
        file.truncate(1 << 40)
    for path, why in (("/dev/zero", "neither a file nor a pipe"), (sparse, "larger than 1024 MiB")):
        for command in (["summary", path], ["check", path], ["rcp", path, "--table", path]):
            reply = machine.run("sluice", "mlperf", *command, timeout=10)
            assert reply.rc == 65, reply
            assert command[0] == "rcp" or why in reply.out + reply.err, reply


def test_pipes_are_read_to_their_end(machine):
    log = write(machine.directory / "run.log", 30)
    plain = machine.run("sluice", "mlperf", "summary", log)
    with open(log, "rb") as file, subprocess.Popen(["cat"], stdin=file, stdout=subprocess.PIPE) as cat:
        piped = machine.run("sluice", "mlperf", "summary", "/dev/stdin", stdin=cat.stdout)
    assert (piped.rc, piped.out.replace("/dev/stdin", str(log))) == (plain.rc, plain.out), piped

    endless = subprocess.Popen(["cat", "/dev/zero"], stdout=subprocess.PIPE)
    reply = machine.run("sluice", "mlperf", "summary", "/dev/stdin", stdin=endless.stdout)
    endless.stdout.close()
    endless.wait()
    assert reply.rc == 65 and "larger than 1024 MiB" in reply.err, reply
