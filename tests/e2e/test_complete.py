# SPDX-License-Identifier: Apache-2.0
"""What real shells complete: numbers and names of jobs, members of arrays, users, GPUs, machine profiles."""

import getpass
import shutil
import time

import pytest


@pytest.fixture
def lab(machine):
    machine.start("dgx-a100")
    machine.agent()
    machine.sleeper = machine.submit("sleep", "1000", gpus=8, options=("--name", "train-big"))
    machine.job_in(machine.sleeper, "Running")
    machine.array = machine.submit("true", gpus=1, options=("--array", "3-9:3", "--name", "sweep"))
    return machine


def bash(machine, *words):
    line = " ".join(f"'{word}'" for word in ("sluice", *words))
    return machine.run("bash", "--norc", "-uc", f"""
        compopt() {{ :; }}; source <(sluice completion bash)
        COMP_WORDS=({line}); COMP_CWORD=$((${{#COMP_WORDS[@]}} - 1)); _sluice
        printf '%s\\n' "${{COMPREPLY[@]}}" """).ok().out.split()


def fish(machine, line):
    if not shutil.which("fish"):
        pytest.skip("fish is not installed")
    reply = machine.run("fish", "--no-config", "-c", f"sluice completion fish | source; complete -C '{line}'").ok()
    return dict(row.split("\t") if "\t" in row else (row, "") for row in reply.out.splitlines())


def test_bash(lab):
    jobs = {str(lab.sleeper), str(lab.array)}
    assert set(bash(lab, "cancel", "")) == jobs
    assert set(bash(lab, "cancel", "12-20", "")) == jobs  # and of each further one
    assert bash(lab, "cancel", f"{lab.array}.") == [f"{lab.array}.{index}" for index in (3, 6, 9)]
    assert set(bash(lab, "jobs", "hold", "s")) == {"sweep"}
    assert bash(lab, "logs", "--user", "") == [getpass.getuser()]
    assert bash(lab, "run", "--gpu-ids", "")[:3] == ["0", "1", "2"]
    assert bash(lab, "run", "--gpu-ids", "0,7") == ["0,7"]
    assert "dgx-a100" in bash(lab, "sim", "start", "--profile", "d")


def test_fish_says_what_each_is(lab):
    jobs = fish(lab, "sluice cancel ")
    assert jobs == {str(lab.sleeper): "train-big, Running", str(lab.array): "sweep, array of 3"}
    assert set(fish(lab, "sluice logs --user ")) == {getpass.getuser()}
    assert fish(lab, "sluice run --gpu-ids 7")["7"].startswith("NVIDIA A100")
    assert "dgx-a100" in fish(lab, "sluice sim start --profile d")


def test_zsh_says_what_each_is(lab):
    if not shutil.which("zsh"):
        pytest.skip("zsh is not installed")
    # compadd as it is called, without a terminal.
    reply = lab.run("zsh", "-f", "-c", """
        compdef() { :; }; _files() { echo files; }; _message() { :; }
        compadd() { local -a given; given=("$@"); print -rl -- "${values_[@]}" "${texts_[@]}"; }
        source <(sluice completion zsh)
        words=(sluice cancel ''); CURRENT=3; PREFIX=; _sluice
    """).ok()
    lines = set(reply.out.splitlines())
    assert {str(lab.sleeper), f"{lab.sleeper}  -- train-big, Running", str(lab.array),
            f"{lab.array}  -- sweep, array of 3"} == lines


def test_where_nothing_answers_it_is_quiet_and_short(machine):
    began = time.monotonic()
    assert bash(machine, "cancel", "") == []
    reply = machine.run("sluice", "__complete", "jobs", "").ok()
    assert reply.out == reply.err == ""
    assert machine.run("sluice", "__complete", "nonsense").ok().out == ""
    assert not list(machine.state_dir.glob("*")) if machine.state_dir.exists() else True  # none was started
    print(f"in {time.monotonic() - began:.3f} s")
