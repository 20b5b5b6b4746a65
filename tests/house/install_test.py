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
                   "share/sluice/profiles/dgx-a100.profile"]:
        assert wanted in present
    for age in ("470", "535", "580", "590"):
        assert any(path.endswith(f"sluice/sim/{age}/libnvidia-ml.so.1") for path in present)


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
