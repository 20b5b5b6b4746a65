# SPDX-License-Identifier: Apache-2.0
"""The package itself, before anybody installs it."""

import re

from conftest import BUILT, ROOT, needs, package, run


def field(name):
    return run("dpkg-deb", "--field", package(), name).out.strip()


def test_lintian_finds_nothing(tmp_path):
    needs("lintian")
    changes, = BUILT.glob("*.changes")
    done = run("lintian", "--allow-root", "--fail-on", "warning,error", changes, timeout=300, rc=None)
    assert (done.rc, done.out) == (0, ""), done


def test_one_version():
    text = (ROOT / "meson.build").read_text(encoding="utf-8")
    version = re.search(r"version: '([^']+)'", text).group(1)
    assert field("Version") == version
    spec = (ROOT / "packaging/debian/changelog").read_text(encoding="utf-8")
    assert spec.startswith(f"sluice ({version}) ")


def test_nothing_of_a_driver_is_needed():
    """Its libraries are opened when the service runs; those that the program links are named by dpkg-shlibdeps."""
    needed = field("Depends")
    assert "libc6 (" in needed and "libevent-core-" in needed
    assert "nvidia" not in needed and "cuda" not in needed
