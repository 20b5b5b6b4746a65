# SPDX-License-Identifier: Apache-2.0
"""tools/fuzz tells a finding, a clean run and a target that did not run apart. The compiler and the
targets are pretended."""

import glob
import importlib.machinery
import importlib.util
import os
import subprocess

import pytest

from conftest import TOOLS


@pytest.fixture
def fuzz(tmp_path):
    folder = tmp_path / "build"
    programs = tmp_path / "bin"
    (folder / "tests" / "fuzz").mkdir(parents=True)
    (folder / "build.ninja").write_text("")
    programs.mkdir()

    def program(path, text):
        path.write_text("#!/bin/sh\n" + text + "\n")
        path.chmod(0o755)

    program(programs / "clang", "exit 0")
    program(programs / "ninja", "exit 0")

    def run(script, *arguments, targets=("text",)):
        for target in targets:
            program(folder / "tests" / "fuzz" / f"{target}_fuzz", script)
        return subprocess.run(
            [os.path.join(TOOLS, "fuzz"), *targets, "--seconds", "1", "--seed", "4", "--build", folder,
             *arguments], capture_output=True, text=True, check=False,
            env={**os.environ, "PATH": f"{programs}:{os.environ['PATH']}"})

    run.folder = folder
    return run


def test_no_finding(fuzz):
    result = fuzz("echo 'stat::number_of_executed_units: 71' >&2")
    assert result.returncode == 0
    assert result.stdout.splitlines() == [
        "fuzz text: 71 executions in 1 s, seed 4: no finding", "1 passed, 0 failed"]


def test_several_targets(fuzz):
    result = fuzz("echo 'stat::number_of_executed_units: 71' >&2", targets=("text", "address"))
    assert result.stdout.splitlines() == [
        "fuzz text: 71 executions in 1 s, seed 4: no finding", "fuzz address: 71 executions in 1 s, seed 4: no finding",
        "2 passed, 0 failed"]


def test_a_finding_is_shown_and_kept(fuzz):
    result = fuzz("echo 'ERROR: heap-buffer-overflow' >&2; echo 'stat::number_of_executed_units: 9' >&2;"
                  "exit 77")
    assert result.returncode == 1
    assert "fuzz text: 9 executions in 1 s, seed 4: a FINDING" in result.stdout
    assert "heap-buffer-overflow" in result.stdout
    assert result.stdout.splitlines()[-1] == "0 passed, 1 failed"
    assert "heap-buffer-overflow" in (fuzz.folder / "findings" / "text" / "log").read_text()


def test_a_target_that_does_nothing_has_not_passed(fuzz):
    result = fuzz("exit 0")
    assert result.returncode == 1
    assert result.stdout.splitlines()[-1] == "0 passed, 1 failed"


def test_an_unknown_target(fuzz):
    result = subprocess.run([os.path.join(TOOLS, "fuzz"), "nothing", "--build", fuzz.folder],
                            capture_output=True, text=True, check=False)
    if result.returncode == 77:
        pytest.skip("clang is not installed")
    assert result.returncode == 64
    assert "no target 'nothing'; there are: " in result.stderr and " text " in result.stderr


@pytest.fixture
def tool():
    loader = importlib.machinery.SourceFileLoader("fuzz_tool", os.path.join(TOOLS, "fuzz"))
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader("fuzz_tool", loader))
    loader.exec_module(module)
    return module


def test_minutes_are_shared_out_and_changed_parsers_come_first(tool, monkeypatch):
    monkeypatch.setattr(tool, "recently_changed", lambda: {"src/base/text.c"})
    monkeypatch.setattr(tool, "searched", lambda: {})

    plan = tool.shared_out(["quantity", "text", "toml"], 1, 2)
    assert plan == [("text", 80), ("quantity", 20), ("toml", 20)]


def test_what_was_changed_is_known_without_history(tool, tmp_path, monkeypatch, capsys):
    """One commit without a parent, as of a history that was squashed or is not there."""
    def git(*words):
        subprocess.run(["git", "-C", tmp_path, "-c", "user.name=n", "-c", "user.email=e", *words], check=True, capture_output=True)

    for name in ("one", "two"):
        for path, text in ((f"tests/fuzz/{name}_fuzz.c", f'#include "base/{name}.h"\n'), (f"src/base/{name}.c", "int x;\n")):
            (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
            (tmp_path / path).write_text(text)
    git("init", "-q")
    git("add", "-A")
    git("commit", "-qm", "all of it")
    monkeypatch.setattr(tool, "ROOT", str(tmp_path))
    monkeypatch.setattr(tool, "SEARCHED", str(tmp_path / "tests/fuzz/searched"))
    assert tool.changed(["one", "two"]) == set() and "is not known" in capsys.readouterr().out

    tool.note(["one", "two"])
    assert tool.changed(["one", "two"]) == set() and capsys.readouterr().out == ""
    (tmp_path / "src/base/two.c").write_text("int y;\n")
    (tmp_path / "tests/fuzz/three_fuzz.c").write_text("")
    assert tool.changed(["one", "two", "three"]) == {"two", "three"}
    git("commit", "-qam", "two and no more")
    tool.note(["one", "two"])
    assert tool.changed(["one", "two"]) == {"two"}


@pytest.fixture
def soak(monkeypatch):
    """The arguments that a soak of 60 or 6000 seconds gives to tools/fuzz."""
    loader = importlib.machinery.SourceFileLoader("soak_tool", os.path.join(TOOLS, "..", "tests", "soak", "soak.py"))
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader("soak_tool", loader))
    loader.exec_module(module)
    called = []

    def run(command, **_):
        called.append(command[1:])
        return subprocess.CompletedProcess(command, 0, "", "")

    monkeypatch.setattr(module.subprocess, "run", run)
    monkeypatch.setattr(module.shutil, "which", lambda _: "clang")
    monkeypatch.setattr(module.os, "cpu_count", lambda: 2)

    def ask(seconds, seed):
        storm = module.Storm.__new__(module.Storm)
        storm.seed = seed
        storm.fuzz(seconds)
        targets, _, rest = " ".join(called.pop()).partition(" --seconds ")
        return targets.split(), int(rest.split()[0])

    return ask


def test_a_short_soak_searches_as_many_targets_as_it_has_time_for(soak):
    known = len(glob.glob(os.path.join(TOOLS, "..", "tests", "fuzz", "*_fuzz.c")))
    chosen, each = soak(12, seed=1)
    assert (len(chosen), each) == (12, 2) and chosen != soak(12, seed=2)[0] and chosen == soak(12, seed=1)[0]
    chosen, each = soak(known * 5, seed=1)
    assert (len(set(chosen)), each) == (known, 10)
    assert len(soak(0.5, seed=1)[0]) == 1
