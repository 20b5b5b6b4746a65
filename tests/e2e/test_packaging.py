# SPDX-License-Identifier: Apache-2.0
"""The units of systemd, as systemd reads them. What they do is seen only where systemd runs."""

import os
import shutil
import subprocess

import pytest

from conftest import DEADLINE_S, ROOT, SLUICE

UNITS = ROOT / "packaging" / "systemd"


@pytest.mark.parametrize("name, mode", [("sluice.service", "--system"),
                                        ("sluice-user.service", "--user")])
def test_a_unit_is_understood(tmp_path, name, mode):
    if not shutil.which("systemd-analyze"):
        pytest.skip("needs systemd-analyze")
    text = (UNITS / f"{name}.in").read_text(encoding="utf-8")
    unit = tmp_path / "sluice.service"
    unit.write_text(text.replace("@bindir@", os.path.dirname(SLUICE)), encoding="utf-8")
    done = subprocess.run(["systemd-analyze", mode, "--man=no", "verify", str(unit)],
                          env={**os.environ, "XDG_RUNTIME_DIR": str(tmp_path)},
                          capture_output=True, text=True, check=False, timeout=DEADLINE_S)
    complaints = [line for line in done.stderr.splitlines() if "sluice" in line]
    assert not complaints, complaints
    assert done.returncode == 0, done.stderr


def test_nothing_restricts_the_jobs():
    """Whatever the service may not do, its jobs could not do either."""
    inherited = ("NoNewPrivileges", "Protect", "Private", "Restrict", "SystemCall", "Capability",
                 "MemoryDeny", "ReadOnly", "Inaccessible", "OOMScoreAdjust", "Limit", "Nice")
    for unit in UNITS.glob("*.in"):
        for line in unit.read_text(encoding="utf-8").splitlines():
            assert not line.startswith(inherited), f"{unit.name}: {line}"
        assert "KillMode=process" in unit.read_text(encoding="utf-8")
