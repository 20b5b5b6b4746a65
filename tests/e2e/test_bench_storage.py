# SPDX-License-Identifier: Apache-2.0
"""How fast a directory is read, as a user types it."""

import json
import signal
import subprocess

import pytest

from conftest import wait_until

SMALL = ("--size", "16Mi", "--files", "50", "--time", "5ms", "--block", "64Ki", "--readers", "2")


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
    program = machine.spawn("sluice", "bench", "storage", place, *SMALL[:4], "--time", "1h", stdout=subprocess.DEVNULL,
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
