# SPDX-License-Identifier: Apache-2.0
"""Training logs in MLPerf's form, as a user writes, reads, checks and compares them."""

import json

import pytest


def mlperf(machine, *arguments):
    return machine.run("sluice", "mlperf", *arguments)


def write(path, minutes, status="success", benchmark="resnet", accuracy=0.76, epoch=40):
    events = [("cache_clear", "POINT_IN_TIME", True, {}, 0), ("init_start", "INTERVAL_START", None, {}, 0)]
    events += [(f"submission_{key}", "POINT_IN_TIME", value, {}, 1) for key, value in (
        ("org", "us"), ("platform", "a \x1b[31mmachine"), ("division", "closed"), ("status", "onprem"), ("benchmark", benchmark))]
    events += [(key, "POINT_IN_TIME", 8, {}, 1) for key in ("train_samples", "eval_samples", "global_batch_size")]
    block = {"first_epoch_num": 1, "epoch_count": epoch}
    events += [("init_stop", "INTERVAL_END", None, {}, 2), ("run_start", "INTERVAL_START", None, {}, 2),
               ("block_start", "INTERVAL_START", None, block, 2), ("block_stop", "INTERVAL_END", None, block, 3),
               ("eval_accuracy", "POINT_IN_TIME", accuracy, {"epoch_num": epoch}, 3),
               ("run_stop", "INTERVAL_END", None, {"status": status}, 2 + 60 * minutes)]
    path.write_text("noise\n" + "".join(
        "3: :::MLLOG " + json.dumps({"namespace": "", "time_ms": int(seconds * 1000), "event_type": kind, "key": key,
                                     "value": value, "metadata": metadata}) + "\n"
        for key, kind, value, metadata, seconds in events))
    return path


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
    bad = write(machine.directory / "bad.log", 30, accuracy=0.5)
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
