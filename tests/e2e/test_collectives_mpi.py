# SPDX-License-Identifier: Apache-2.0
"""`sluice bench collectives` as the program of an mpirun, with the distribution's Open MPI and MPICH: one table
whatever the number of ranks, every element right, ranks that do not find each other refused, a killed one survived."""

import json
import os
import re
import shutil
import signal
import subprocess
import time

import pytest

from conftest import SLUICE, alive, environments, has_entry, wait_until

BOTH = ["openmpi", "mpich"]
NAMED = {"openmpi": "Open MPI v", "mpich": "MPICH Version: "}
ALLOWED = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
# More ranks than processors: Open MPI refuses otherwise, and would spin.
MORE = {"openmpi": ["--oversubscribe"], "mpich": []}
ROW = re.compile(r"^ *(\d+) +(\d+) +(\w+) +(\w+) +(-?\d+)((?: +[0-9.e+]+| +N/A){8})$")


def command(family, ranks, *arguments):
    if not shutil.which(f"mpirun.{family}"):
        pytest.skip(f"mpirun.{family} is not installed: tools/setup mpi")
    return [f"mpirun.{family}", "-n", str(ranks), *MORE[family], SLUICE, "bench", "collectives",
            *map(str, arguments)]


def environment(**more):
    kept = {name: value for name, value in os.environ.items()
            if not name.startswith(("OMPI_", "PMI_", "PMIX_", "SLURM_"))}
    return {**kept, **ALLOWED, **more}


def run(family, ranks, *arguments, **more):
    return subprocess.run(command(family, ranks, *arguments), env=environment(**more), capture_output=True, text=True,
                          timeout=120, check=False)


def rows(text):
    return [match for match in map(ROW.match, text.splitlines()) if match]


@pytest.mark.parametrize("family", BOTH)
def test_one_table_from_the_first_rank(family):
    done = run(family, 2, "all_reduce", "-b", "8", "-e", "64K", "-f", "64", "-n", "3")
    assert done.returncode == 0, done
    assert done.stdout.count("# sluice version") == 1
    assert "backend: mpi (" + NAMED[family] in done.stdout.splitlines()[0]
    assert [int(row[1]) for row in rows(done.stdout)] == [8, 512, 32768]
    assert len(re.findall(r"^#  Rank +\d", done.stdout, re.MULTILINE)) == 2
    assert "Out of bounds values : 0 OK" in done.stdout


@pytest.mark.parametrize("family", BOTH)
def test_every_operation_is_right_on_three_ranks(family):
    done = run(family, 3, "all", "--backend", "mpi", "-b", "7", "-e", "40000", "-f", "19", "-n", "1", "-r", "all", "-u",
               "1", "--timing", "stream")
    assert done.returncode == 0, done
    assert done.stdout.count("test starting") == 10 and "hypercube is left out" in done.stdout


# Sums of bytes would saturate in Open MPI (https://github.com/open-mpi/ompi/issues/8045), there is no floating type of
# 16 bits, and MPICH 4.0.2 dies in MPI_Reduce in place at another root than 0
# (https://github.com/pmodels/mpich/issues/6540).
@pytest.mark.parametrize("family", BOTH)
def test_types_and_reductions_are_right(family):
    for types in ("int8", "uint8", "half", "bfloat16", "int64"):
        done = run(family, 2, "all_reduce", "reduce", "reduce_scatter", "-b", "1000", "-e", "1000", "-n", "1", "-d",
                   types, "-o", "sum" if types == "uint8" else "all", "-r", "all", "--timing", "stream")
        assert done.returncode == 0, done


@pytest.mark.parametrize("family", BOTH)
def test_hypercube_and_json(family):
    done = run(family, 2, "hypercube", "-b", "4K", "-e", "4K", "-n", "2", "--format", "json")
    assert done.returncode == 0, done
    report = json.loads(done.stdout)  # from one rank alone, or it would be none
    assert report["schema"] == "sluice.result/1"
    assert [row["size"] for row in report["results"]] == [4096]


@pytest.mark.parametrize("family", BOTH)
def test_ranks_that_do_not_find_each_other_are_refused(family):
    """As if one had started the ranks with the mpirun of the other family."""
    other = {"openmpi": "PMI_SIZE", "mpich": "OMPI_COMM_WORLD_SIZE"}[family]
    wrong = {"openmpi": "mpirun.mpich", "mpich": "mpirun.openmpi"}[family]
    if not shutil.which(wrong):
        pytest.skip(f"{wrong} is not installed: tools/setup mpi")
    command(family, 1)  # or skips
    line = [SLUICE, "bench", "collectives", "--backend", "mpi", "-b", "8", "-e", "8"]
    done = subprocess.run(line, env=environment(**{other: "4"}), capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 3, done
    assert f"4 ranks were started ({other})" in done.stderr
    assert "there is 1" in done.stderr
    assert not rows(done.stdout)


def test_a_rank_alone_measures_nothing_and_does_not_hang():
    if not any(shutil.which(f"mpirun.{family}") for family in BOTH):
        pytest.skip("no mpirun is installed: tools/setup mpi")
    line = [SLUICE, "bench", "collectives", "--backend", "mpi", "-b", "8", "-e", "8"]
    done = subprocess.run(line, env=environment(), capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 3, done
    assert "one rank" in done.stderr
    done = subprocess.run(line + ["--allow-single"], env=environment(), capture_output=True, text=True, timeout=60,
                          check=False)
    assert done.returncode == 0 and "N/A" in done.stdout, done


def ranks_of(mark):
    return [int(path.parent.name) for path in environments() if has_entry(path, (mark.encode(),)) and
            os.path.basename(os.readlink(path.parent / "exe")) == "sluice"]


@pytest.mark.parametrize("family", BOTH)
def test_a_killed_rank_ends_the_run(family, tmp_path):
    mark = f"COLLECTIVES_TEST={tmp_path}"
    with open(tmp_path / "out", "wb") as out:
        mpirun = subprocess.Popen(command(family, 2, "all_reduce", "-b", "1M", "-e", "1M", "-n", "900000"),
                                  env=environment(COLLECTIVES_TEST=str(tmp_path)), stdout=out, stderr=out,
                                  start_new_session=True)
    try:
        wait_until(lambda: b"Rank  1" in (tmp_path / "out").read_bytes(), what="the head of the table")
        ranks = ranks_of(mark)
        assert len(ranks) == 2, ranks
        os.kill(ranks[1], signal.SIGKILL)
        began = time.monotonic()
        assert mpirun.wait(timeout=30) != 0
        wait_until(lambda: not any(map(alive, ranks)), what="the end of the other rank")
        assert time.monotonic() - began < 30
    finally:
        if mpirun.poll() is None:
            os.killpg(mpirun.pid, signal.SIGKILL)
            mpirun.wait()
