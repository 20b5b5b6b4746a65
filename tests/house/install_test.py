# SPDX-License-Identifier: Apache-2.0
"""What `make install` puts in place works from there, and from wherever it is moved to."""

import json
import os
import shutil
import subprocess

import pytest

BUILD = os.environ.get("MESON_BUILD_ROOT", "")
MESON = shutil.which("meson")

pytestmark = pytest.mark.skipif(not (BUILD and MESON), reason="runs below meson only")


def run(prefix, *command, **variables):
    """Runs an installed program without any of the variables that tests and builds set."""
    environment = {name: value for name, value in os.environ.items()
                   if not name.startswith(("SLUICE_", "LD_"))}
    return subprocess.run([os.path.join(prefix, "bin", "sluice"), *command], check=False,
                          capture_output=True, text=True, timeout=60, env={**environment, **variables})


@pytest.fixture(scope="module")
def prefix(tmp_path_factory):
    """The tree as it is installed, moved to a place that nobody configured."""
    destination = tmp_path_factory.mktemp("installed")
    subprocess.run([MESON, "install", "-C", BUILD, "--no-rebuild", "--quiet", "--destdir", destination],
                   check=True, capture_output=True)
    options = json.loads(subprocess.run([MESON, "introspect", BUILD, "--buildoptions"], check=True,
                                        capture_output=True).stdout)
    configured = next(option["value"] for option in options if option["name"] == "prefix")
    moved = tmp_path_factory.mktemp("moved") / "elsewhere"
    shutil.move(destination / configured.lstrip("/"), moved)
    return moved


def files(prefix):
    return [os.path.relpath(os.path.join(folder, name), prefix)
            for folder, _, names in os.walk(prefix) for name in names]


def test_everything_is_there(prefix):
    present = files(prefix)
    commands = json.loads(run(prefix, "__dump").stdout)["commands"]
    for command in commands:
        assert f"share/man/man1/sluice-{command['name']}.1" in present
    for wanted in ["bin/sluice", "share/man/man1/sluice.1",
                   "share/bash-completion/completions/sluice", "share/zsh/site-functions/_sluice",
                   "share/fish/vendor_completions.d/sluice.fish",
                   "share/sluice/profiles/dgx-a100.profile",
                   "share/sluice/prometheus/sluice.rules.yaml", "share/sluice/grafana/sluice-gpu.json"]:
        assert wanted in present
    for age in ("470", "535", "580", "590"):
        assert any(path.endswith(f"sluice/sim/{age}/libnvidia-ml.so.1") for path in present)


def test_programs_is_all_that_is_installed():
    """`ninja programs` builds each program and library that an installation has: whoever runs from the build tree, as
    `make demo` and tools/cross do, misses none."""
    targets = json.loads(subprocess.run([MESON, "introspect", BUILD, "--targets"], check=True, capture_output=True).stdout)
    installed = {os.path.relpath(target["filename"][0], BUILD) for target in targets
                 if target["installed"] and target["type"] in ("executable", "shared library", "shared module")}
    inputs = subprocess.run(["ninja", "-C", BUILD, "-t", "query", "programs"], check=True, capture_output=True, text=True)
    built = {line.strip(" |") for line in inputs.stdout.splitlines()}
    assert len(installed) > 10 and installed <= built, installed - built


def paths(commands, before=()):
    """Every command and verb: its words, the words that may follow, its options."""
    for command in commands:
        words = (*before, command["name"])
        yield words, {verb["name"] for verb in command["commands"]}, {f"--{option['name']}"
                                                                     for option in command["options"]}
        yield from paths(command["commands"], words)


BASH = """
compopt() { :; } # wants to be called by bash's own completion
source "$1"
while read -r line; do
    COMP_LINE="sluice $line"
    COMP_WORDS=(sluice $line)
    [[ $line == *- ]] || COMP_WORDS+=("")
    COMP_CWORD=$((${#COMP_WORDS[@]} - 1))
    COMPREPLY=()
    _sluice
    echo "${COMPREPLY[@]}"
done
"""


def test_completion_knows_every_command(prefix):
    """Asked as bash asks; for the other shells, whose programs may not be there, the words are in the file."""
    completions = prefix / "share/bash-completion/completions/sluice"
    commands = json.loads(run(prefix, "__dump").stdout)["commands"]
    wanted = [((), {command["name"] for command in commands}, {"--help", "--version"}), *paths(commands)]
    assert len(wanted) > len(commands) > 10
    questions = [line for words, _, _ in wanted for line in (" ".join(words), " ".join((*words, "--")))]
    asked = subprocess.run(["bash", "-c", BASH, "bash", completions], input="\n".join(questions) + "\n", text=True,
                           capture_output=True, check=True, timeout=60)
    assert asked.stderr == ""
    answers = asked.stdout.split("\n")
    zsh = (prefix / "share/zsh/site-functions/_sluice").read_text(encoding="utf-8")
    fish = (prefix / "share/fish/vendor_completions.d/sluice.fish").read_text(encoding="utf-8")
    for number, (words, verbs, options) in enumerate(wanted):
        assert verbs <= set(answers[2 * number].split()), words
        if words == ("help",):
            continue  # what follows it is a command, and completed as one
        assert options <= {option.rstrip("=") for option in answers[2 * number + 1].split()}, words
        assert f"'{' '.join(words)}')" in zsh, words
        assert not words or f"'{' '.join(words)}'" in fish, words
        for option in options:
            assert option in zsh and option[2:] in fish, words


def test_no_simulated_library_where_a_loader_looks(prefix):
    for path in files(prefix):
        if "libnvidia-ml" in path:
            assert "/sluice/sim/" in "/" + path


def test_a_simulated_machine_from_the_installed_tree(prefix, tmp_path):
    machine = {"SLUICE_SIM_STATE": str(tmp_path / "machine.state"),
               "SLUICE_RUNTIME_DIR": str(tmp_path / "run")}
    started = run(prefix, "sim", "start", "--profile", "t4x4", "--root", str(tmp_path / "machine"),
                  "--state", machine["SLUICE_SIM_STATE"], "--dev-style", "file", "--alongside")
    assert started.returncode == 0, started.stderr
    try:
        seen = run(prefix, "sim", "exec", "--", str(prefix / "bin" / "sluice"), "devices", "--output",
                   "json", **machine)
        assert seen.returncode == 0, seen.stderr
        answer = json.loads(seen.stdout)
        assert answer["simulated"] is True
        assert [gpu["name"] for gpu in answer["gpus"]] == ["Tesla T4"] * 4
        assert answer["library"].startswith(str(prefix))
    finally:
        stopped = run(prefix, "sim", "stop", **machine)
        assert stopped.returncode == 0, stopped.stderr
