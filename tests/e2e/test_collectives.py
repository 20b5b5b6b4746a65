# SPDX-License-Identifier: Apache-2.0
"""nccl-tests' operations between processes, as a user types them: every operation is right, the table is one
that what reads nccl-tests reads, and a rank that dies or stalls ends the run and is named."""

import json
import os
import re
import shutil
import signal
import subprocess
import time

import pytest

from conftest import alive, wait_until

OPS = ["all_reduce", "reduce_scatter", "all_gather", "alltoall", "alltoallv", "gather", "scatter", "broadcast",
       "reduce", "sendrecv", "hypercube"]
ROW = re.compile(r"^ *(\d+) +(\d+) +(\w+) +(\w+) +(-?\d+)((?: +[0-9.e+]+| +N/A){8})$")


def collectives(machine, *arguments, **how):
    return machine.run("sluice", "bench", "collectives", *arguments, **how)


def rows(text):
    """Of nccl-tests' table: [(size, count, type, redop, root, [8 values])]."""
    found = [ROW.match(line) for line in text.splitlines() if line and not line.startswith("#")]
    assert all(found), text
    return [(int(m[1]), int(m[2]), m[3], m[4], int(m[5]), m[6].split()) for m in found]


@pytest.mark.parametrize("ranks", [1, 2, 3, 4])
def test_every_operation_is_right(machine, ranks):
    done = collectives(machine, "all", "-b", "7", "-e", "40000", "-f", "19", "-n", "2", "--ranks", ranks,
                       "--allow-single", "-r", "all", "-u", "1")
    assert done.rc == 0, done
    begun = [line.split()[-1] for line in done.out.splitlines() if "test starting" in line]
    assert begun == [op for op in OPS if op != "hypercube" or ranks in (1, 2, 4)]
    for size, count, _, _, root, values in rows(done.out):
        assert values[3] == "0" and values[7] in ("0", "N/A"), done.out
        assert -1 <= root < ranks and size <= 40000 and count <= 40000
    assert "Out of bounds values : 0 OK" in done.out
    assert ("hypercube is left out" in done.out) == (ranks == 3)


@pytest.mark.parametrize("memory", ["private", "registered"])
def test_types_and_reductions(machine, memory):
    done = collectives(machine, "all_reduce", "reduce", "-b", "1000", "-e", "100K", "-f", "97", "-n", "1", "-d", "all",
                       "-o", "all", "-g", "2", "--memory", memory, "--check", "all")
    assert done.rc == 0, done
    assert {(row[2], row[3]) for row in rows(done.out)} == {
        (kind, redop) for redop in ("sum", "prod", "min", "max", "avg")
        for kind in ("int8", "uint8", "int32", "uint32", "int64", "uint64", "half", "bfloat16", "float", "double")}


def test_the_call_of_the_slides(machine):
    """-b 8 -e 256M -f 2 -g 8, but for the largest sizes."""
    done = collectives(machine, "-b", "8", "-e", "1M", "-f", "2", "-g", "8", "-n", "1", "--timing", "stream")
    assert done.rc == 0, done
    assert [row[0] for row in rows(done.out)] == [8 << i for i in range(18)]
    lines = done.out.splitlines()
    assert lines[0].startswith("# sluice version ") and "backend: shm" in lines[0]
    assert lines[1].startswith("# nThread 1 nGpus 8 minBytes 8 maxBytes 1048576 step: 2(factor) warmup iters: 1 "
                               "iters: 1 agg iters: 1 validation: 1 graph: 0")
    assert len([line for line in lines if line.startswith("#  Rank")]) == 8
    # what widely used parsers look for: busbw is the eighth column
    assert all(float(line.split()[7]) >= 0 for line in lines if line and line[0] == " ")


def test_columns_of_single_operations_and_time(machine):
    done = collectives(machine, "-b", "64", "-e", "64", "-g", "2", "-I", "1", "-K", "2", "-S", "1")
    assert done.rc == 0, done
    line = next(line for line in done.out.splitlines() if line.startswith(" "))
    assert re.search(r" \d{4}-\d\d-\d\d \d\d:\d\d:\d\d$", line)
    assert len(line.split()) == 5 + 16 + 2
    assert done.out.count("i_cv%") == 2


def test_json_has_every_operation_of_every_rank(machine):
    machine.env |= {"NCCL_DEBUG": "INFO", "NCCL_TOKEN": "hunter2", "AWS_SECRET_ACCESS_KEY": "hunter2"}
    file = machine.directory / "nccl.json"
    done = collectives(machine, "all_gather", "-b", "1K", "-e", "4K", "-f", "2", "-g", "3", "-n", "7", "--format", "json",
                       "-J", file, "--seed", "5")
    assert done.rc == 0 and "hunter2" not in done.out + file.read_text(), done
    ours, theirs = done.json, json.loads(file.read_text())
    assert ours["schema"] == "sluice.result/1" and ours["seed"] == 5 and ours["verdicts"] == []
    assert ours["argv"][1:3] == ["bench", "collectives"]
    assert [run["size"] for run in ours["runs"]] == [row["size"] for row in theirs["results"]] == [1008, 2016, 4080]
    assert len(ours["runs"][0]["metrics"]["out_of_place_isolated"]["samples"]) == 7
    assert [check["status"] for check in ours["checks"]] == ["PASS"]
    assert theirs["version"] == 3 and "NCCL_DEBUG=INFO" in theirs["env"]
    assert theirs["config"]["iterations"] == 7 and len(theirs["config"]["devices"]) == 3
    for row in theirs["results"]:
        single = row["in_place_per_iter"]
        ranks = single["per_process_max_times_us"]
        assert len(ranks) == 3
        assert single["times_us"] == [max(rank[i] for rank in ranks) for i in range(7)]
        assert row["out_of_place"]["nwrong"] == 0 and row["redop"] == "none" and row["root"].strip() == "-1"
    # a file that is there stays
    assert collectives(machine, "-b", "8", "-e", "8", "-g", "2", "-J", file).rc == 0
    assert json.loads(file.read_text()) == theirs and file.with_name("nccl.json.0").exists()


def test_text_has_both_timings(machine):
    done = collectives(machine, "broadcast", "-b", "8", "-e", "64", "-f", "8", "-g", "2", "--format", "text")
    assert done.rc == 0 and "stream    alone" in done.out, done
    assert "every element of every result was checked" in done.out and "latency" in done.out


@pytest.mark.parametrize("arguments, message", [
    (["-b", "0"], "-b takes a size from 1 up"),
    (["-b", "many"], "-b takes a size from 1 up"),
    (["-b", "2M", "-e", "1M"], "-b 2097152 is more than -e 1048576"),
    (["-i", "1M", "-f", "2"], "-i and -f"),
    (["-f", "1"], "'--stepfactor': 1 is outside the range"),
    (["-n", "0"], "'--iters': 0 is outside the range 1 to"),
    (["-G", "1", "-I", "1"], "-G and -I"),
    (["-G", "1", "-z", "3"], "-G and -z 3"),
    (["--ranks", "0"], "'--ranks': 0 is outside the range 1 to"),
    (["--backend", "shm", "--ranks", "65"], "--backend shm takes 1 to 64"),
    (["all_reduse"], "did you mean 'all_reduce'? (all_reduce, reduce_scatter"),
    (["-d", "float8"], "(int8, uint8, int32"),
    (["-o", "mulsum"], "(sum, prod, min, max, avg, all)"),
    (["-r", "2", "-g", "2"], "there are 2 ranks, from 0 to 1"),
    (["--expect", "/nonexistent"], "/nonexistent"),
    (["-e", "900T", "-f", "2"], "MiB; ask for smaller sizes, or fewer ranks"),
])
def test_wrong_usage(machine, arguments, message):
    done = collectives(machine, *arguments)
    assert done.rc == 64 and message in done.err and done.out == "", done


def test_unknown_options_are_left_out(machine):
    done = collectives(machine, "-b", "8", "-e", "8", "-g", "2", "-Q", "3", "--newer=yes", "-n", "1")
    assert done.rc == 0, done
    assert "unknown option '-Q' is left out" in done.err and "unknown option '--newer' is left out" in done.err


def test_one_rank_says_nothing(machine):
    done = collectives(machine, "-b", "8", "-e", "8", "--ranks", "1")
    assert done.rc == 3 and "there is one rank" in done.err, done
    assert rows(done.out)[0][5][2] == "N/A"
    assert collectives(machine, "-b", "8", "-e", "8", "--ranks", "1", "--allow-single").rc == 0


def test_nothing_to_do_and_nowhere_to_write(machine):
    done = collectives(machine, "hypercube", "-b", "8", "-e", "64K", "-f", "4", "--ranks", "3", "--format", "text")
    assert done.rc == 3 and "can be done by 3 ranks" in done.err and "none is wrong" not in done.out, done
    with open("/dev/full", "w", encoding="utf-8") as full:
        assert machine.spawn("sluice", "bench", "collectives", "-b", "8", "-e", "8", "-g", "2", stdout=full,
                             stderr=subprocess.DEVNULL).wait(30) == 73
    assert collectives(machine, "-b", "8", "-e", "8", "-g", "2", "-J", "/nonexistent/x").rc == 73


def test_a_started_rank_that_would_measure_alone_is_refused(machine):
    alone = {"OMPI_COMM_WORLD_SIZE": "4", "OMPI_COMM_WORLD_RANK": "0"}
    done = collectives(machine, "--backend", "shm", "-b", "8", "-e", "8", env=machine.env | alone)
    assert done.rc == 64 and "4 processes were started" in done.err, done
    for alone in ({"WORLD_SIZE": "4", "RANK": "0"}, {"SLURM_NTASKS": "4", "SLURM_PROCID": "0"}):
        done = collectives(machine, "-b", "8", "-e", "8", "--ranks", "2", env=machine.env | alone)
        assert done.rc == 64 and "4 processes were started" in done.err, done


def test_gates_and_expectations(machine):
    call = ["-b", "8", "-e", "1M", "-f", "131072", "-g", "2", "-n", "5"]
    assert collectives(machine, *call, "--min-busbw", "0.0001", "--max-latency-us", "60000000").rc == 0
    slow = collectives(machine, *call, "--min-busbw", "100000")
    assert slow.rc == 1 and "# SLOW peak_busbw all_reduce" in slow.out, slow
    assert collectives(machine, *call, "--max-latency-us", "0.0001").rc == 1
    small = collectives(machine, "-b", "8", "-e", "8", "-g", "2", "--min-busbw", "100000")
    assert small.rc == 0 and "says nothing of sizes below 1 MiB" in small.out, small
    file = machine.directory / "class"
    file.write_text("# this one\nall_reduce float any peak_busbw >= 0.0001\nall_reduce f32 8 latency_us <= 1e0\n")
    wrong = collectives(machine, *call, "--expect", file)
    assert wrong.rc == 64 and "line 3: '1e0' is no number" in wrong.err, wrong
    file.write_text("all_reduce float any peak_busbw >= 0.0001\nall_reduce float 1M latency_us >= 100000000\n")
    done = collectives(machine, *call, "--expect", file)
    assert done.rc == 1 and "# PASS expectation all_reduce float any" in done.out, done
    assert "# SLOW expectation all_reduce float 1048576 latency_us >= 1e+08" in done.out
    file.write_text("reduce float any peak_busbw >= 1\n")
    assert collectives(machine, *call, "--expect", file).rc == 3
    least = collectives(machine, *call, env=machine.env | {"NCCL_TESTS_MIN_BW": "1000000"})
    assert least.rc == 1 and re.search(r"Avg bus bandwidth    : [0-9.e+-]+ FAILED", least.out), least


class Endless:
    """A run that goes on until something happens to it; its ranks' process ids."""

    def __init__(self, machine, *options):
        self.process = machine.spawn("sluice", "bench", "collectives", "-b", "64K", "-e", "64K", "-N", "0", "-g", "3",
                                     *options, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        self.ranks = []
        for line in self.process.stdout:
            if line.startswith("#  Rank"):
                self.ranks.append(int(line.split(" Pid ")[1].split()[0]))
            if line.startswith(" "):
                break
        assert len(self.ranks) == 3

    def end(self):
        out, err = self.process.communicate(timeout=30)
        wait_until(lambda: not any(map(alive, self.ranks)), what="the ranks' end")
        return self.process.returncode, out, err


def test_a_killed_rank_is_named_and_nothing_stays(machine):
    run = Endless(machine)
    begun = time.monotonic()
    os.kill(run.ranks[1], signal.SIGKILL)
    code, out, err = run.end()
    assert code == 2 and time.monotonic() - begun < 5, (code, out, err)  # 2 s, and this machine may be busy
    assert "rank 1 was killed by signal 9" in err and "all_reduce of 65536 bytes" in err
    # what was measured before was right, and says nothing of the run
    assert "Out of bounds values : 0 FAILED" in out and "# Ended early          : rank 1 was killed" in out


def test_a_report_of_a_run_that_died_has_no_pass(machine):
    file, brief = machine.directory / "r.json", machine.directory / "brief.json"
    machine.env["SLUICE_RESULT_FILE"] = str(brief)
    run = Endless(machine, "-J", file)
    os.kill(run.ranks[1], signal.SIGKILL)
    assert run.end()[0] == 2
    recorded = json.loads(file.read_text())
    assert recorded["results"] and recorded["out_of_bounds"]["okay"] == "false", recorded["out_of_bounds"]
    assert "rank 1 was killed" in recorded["errors"][0]
    assert json.loads(brief.read_text())["runs"][0]["rc"] == 2


def test_sizes_that_become_nothing_show_nothing(machine):
    done = collectives(machine, "all_gather", "-b", "8", "-e", "8", "-g", "2", "-n", "1")
    assert done.rc == 3 and "Out of bounds values : N/A" in done.out, done
    assert "rounded down to 16 bytes" in done.err, done
    unchecked = collectives(machine, "-b", "8", "-e", "8", "-g", "2", "-n", "1", "-c", "0")
    assert unchecked.rc == 0 and "Out of bounds values : N/A" in unchecked.out, unchecked


def test_a_stalled_rank_is_named_when_its_time_is_over(machine):
    run = Endless(machine, "-T", "1")
    os.kill(run.ranks[2], signal.SIGSTOP)
    code, _, err = run.end()
    assert code == 2 and "rank 2" in err, err


def test_interrupting_prints_what_there_is(machine):
    file = machine.directory / "r.json"
    run = Endless(machine, "-J", file)
    run.process.send_signal(signal.SIGINT)
    code, out, _ = run.end()
    assert code == 130 and "Out of bounds values : 0 OK" in out
    recorded = json.loads(file.read_text())
    assert recorded["results"] and "signal 2" in recorded["errors"][0]


def test_compare_reads_the_table(machine):
    call = "sluice bench collectives -b 1M -e 1M -g 2 -n 2"
    done = machine.run("sluice", "bench", "compare", "--a", call, "--b", call, "--parse", "nccl", "--pairs", "2",
                       "--aa", "skip", "--warmup", "0", "--output", "json")
    assert done.rc == 3, done  # two pairs decide nothing
    for run in done.json["runs"]:
        metric = run["metrics"]["output"]
        assert metric["unit"] == "GB/s" and metric["better"] == "higher" and metric["samples"][0] > 0
        assert "all_reduce_peak_busbw" in run["metrics"] and "all_reduce_latency" in run["metrics"]


@pytest.mark.parametrize("family, options", [("openmpi", ["--allow-run-as-root", "--oversubscribe"]), ("mpich", [])])
def test_ranks_of_an_mpirun(machine, family, options):
    mpirun = f"mpirun.{family}"
    if not shutil.which(mpirun):
        pytest.skip(f"{mpirun} is not installed: tools/setup mpi")
    if os.geteuid() != 0 and options:
        options = options[1:]
    done = machine.run(mpirun, *options, "-n", "2", "sluice", "bench", "collectives", "all", "-b", "8", "-e", "4K",
                       "-f", "64", "-n", "2", "--quiet", timeout=60)
    assert done.rc == 0 and "backend: mpi" in done.out, done
    found = rows(done.out)
    assert len(found) == len(OPS) * 2 and all(row[5][3] == "0" for row in found)
    assert done.out.count("Out of bounds values") == 1  # one rank prints
