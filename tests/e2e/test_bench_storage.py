# SPDX-License-Identifier: Apache-2.0
"""How fast a directory is read, as a user types it."""

import json
import os
import shutil
import signal
import subprocess

import pytest

from conftest import wait_until

SMALL = ("--engine", "own", "--size", "16Mi", "--files", "50", "--time", "5ms", "--block", "64Ki", "--readers", "2")


def storage(machine, *arguments):
    return machine.run("sluice", "bench", "storage", *arguments)


def test_a_directory(machine):
    place, file = machine.directory / "here", machine.directory / "r.json"
    place.mkdir()
    done = storage(machine, place, *SMALL, "--rounds", "2", "--json", file, "--output", "json")
    assert done.rc == 0, done
    assert [(case["pattern"], case["cache"]) for case in done.json["cases"]] == [
        (pattern, cache) for pattern in ("sequential", "random", "files") for cache in ("direct", "cold", "cached")]
    for case in done.json["cases"]:
        assert case.get("skipped") or (case["rate"] > 0 and len(case["runs"]) == 2)
    assert json.loads(file.read_text())["schema"] == "sluice.result/1" and not list(place.iterdir())


def test_two_directories(machine):
    places = [machine.directory / name for name in ("a", "b")]
    for place in places:
        place.mkdir()
    done = storage(machine, places[1], "--against", places[0], *SMALL, "--cache", "cached", "--pattern", "random,files")
    assert done.rc in (0, 1, 3) and "AGAINST" in done.out and done.out.count("\n") == 3, done
    assert not list(places[0].iterdir()) and not list(places[1].iterdir())


def test_ctrl_c_leaves_nothing(machine):
    place = machine.directory / "here"
    place.mkdir()
    program = machine.spawn("sluice", "bench", "storage", place, *SMALL[:6], "--time", "1h", stdout=subprocess.DEVNULL,
                            stderr=subprocess.DEVNULL)
    wait_until(lambda: list(place.glob(".sluice-storage-*/data")), what="the file")
    program.send_signal(signal.SIGINT)
    assert program.wait(20) == 130 and not list(place.iterdir())


@pytest.mark.parametrize("options, code", [
    (["/no/such/place"], 73), ([], 64), (["/tmp", "--block", "5000"], 64), (["/tmp", "--readers", "0"], 64),
    (["/tmp", "--pattern", "backwards"], 64), (["/tmp", "--cache", "warm"], 64), (["/tmp", "--margin", "0"], 64),
    (["/tmp", "--size", "10T"], 73),
])
def test_what_cannot_be_done(machine, options, code):
    assert storage(machine, *options).rc == code


FIO = """#!/bin/sh
echo "$@" >> %s
case "$*" in *--direct=1*) error=%d;; *) error=0;; esac
echo 'fio: a warning'
echo '{"jobs": [{"error": '$error', "read": {"io_bytes": 1048576, "total_ios": 16, "runtime": 10,'
echo '"clat_ns": {"percentile": {"50.000000": 1000000, "99.000000": 2000000}}}}]}'
"""


def with_fio(machine, text):
    program = machine.directory / "bin/fio"
    program.parent.mkdir(exist_ok=True)
    program.write_text(text)
    program.chmod(0o755)
    place = machine.directory / "here"
    place.mkdir(exist_ok=True)
    options = ["--size", "16Mi", "--files", "5", "--time", "5ms", "--block", "64Ki", "--readers", "2", "--rounds", "1"]
    return machine.run("sluice", "bench", "storage", place, *options, "--output", "json",
                       env={"PATH": f"{program.parent}:{os.environ['PATH']}"})


def test_fio_reads_what_it_can(machine):
    """A fio that says what is wanted of it, and what it was asked."""
    asked = machine.directory / "asked"
    done = with_fio(machine, FIO % (asked, 22))
    assert done.rc == 0 and done.json["engine"] == "fio", done
    cases = {(case["pattern"], case["cache"]): case for case in done.json["cases"]}
    assert cases["random", "cached"]["rate"] == pytest.approx(1048576 / 0.01)
    assert cases["random", "cached"]["p99"] == pytest.approx(0.002)
    assert "O_DIRECT" in cases["random", "direct"]["skipped"]
    assert cases["files", "cached"]["rate"] != cases["random", "cached"]["rate"]
    lines = asked.read_text().splitlines()
    assert len(lines) == 4 and "--rw=randread" in lines[2] and "--numjobs=2" in lines[2] and "--bs=65536" in lines[2]
    assert "--size=8388608 --offset_increment=8388608" in lines[0] and "--readonly" in lines[0]


def test_a_fio_that_fails(machine):
    done = with_fio(machine, "#!/bin/sh\necho 'no such engine' >&2\nexit 1\n")
    assert done.rc == 2 and "fio: no such engine" in done.err, done
    assert not list((machine.directory / "here").iterdir())


def test_a_fio_that_never_ends(machine):
    """It has closed what it says its result through: nobody waits for it after an interruption."""
    program, place = machine.directory / "bin/fio", machine.directory / "here"
    began = machine.directory / "began"
    program.parent.mkdir()
    program.write_text(f"#!/bin/sh\necho $$ > {began}.new\nmv {began}.new {began}\nexec >/dev/null 2>&1 sleep 600\n")
    program.chmod(0o755)
    place.mkdir()
    command = machine.spawn("sluice", "bench", "storage", place, *SMALL[2:], env={"PATH": f"{program.parent}:{os.environ['PATH']}"})
    wait_until(began.exists, what="fio's start")
    command.send_signal(signal.SIGINT)
    assert command.wait(10) == 130 and not list(place.iterdir())
    assert not os.path.exists(f"/proc/{began.read_text().strip()}")


@pytest.mark.skipif(not shutil.which("fio"), reason="fio is not installed: nobody to ask")
def test_the_real_fio(machine):
    place = machine.directory / "here:there"  # two names to fio
    place.mkdir()
    done = storage(machine, place, *SMALL[2:], "--engine", "fio", "--cache", "cached", "--rounds", "1", "--output", "json")
    assert done.rc == 0 and all(case["rate"] > 0 and case["p50"] > 0 for case in done.json["cases"]), done
