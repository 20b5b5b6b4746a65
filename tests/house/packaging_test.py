# SPDX-License-Identifier: Apache-2.0
"""What packages hand to systemd's tools and to dpkg and rpm: lines that those take, and scriptlets that tell of failures.
Whether a package really installs is what `make packages` tries."""

import pathlib
import re
import shlex
import shutil
import subprocess

import pytest

PACKAGING = pathlib.Path(__file__).resolve().parents[2] / "packaging"
SYSUSERS = sorted(PACKAGING.glob("**/*.sysusers.conf"))
SCRIPTS = sorted(path for path in PACKAGING.glob("debian/sluice.*") if path.suffix in (".postinst", ".postrm", ".prerm",
                                                                                       ".preinst"))


def entries(text):
    """The lines of sysusers.d(5), as lists of fields without their quotes."""
    return [shlex.split(line) for line in text.splitlines() if line.strip() and not line.startswith("#")]


def wrong_of_user(fields):
    """What systemd-sysusers would refuse of a line, or None. The comment becomes a field of /etc/passwd, which ends at
    a colon (sysusers.d(5), passwd(5))."""
    kind, name, *rest = fields
    if kind[0] not in "ugmr":
        return f"no type '{kind}'"
    if not re.fullmatch(r"[a-z_][a-z0-9_-]{0,30}", name):
        return f"no name of an account: '{name}'"
    if kind[0] == "u" and len(rest) > 1 and re.search(r"[:\n\x00-\x1f]", rest[1]):
        return f"no comment of an account: '{rest[1]}'"
    return None if len(fields) <= 6 else "too many fields"


def test_there_is_something_to_read():
    assert SYSUSERS and SCRIPTS


@pytest.mark.parametrize("line", ['u sluice - "sluice: page"', "x sluice - ", "u 9lives -", 'u a - b / /bin/sh more'])
def test_the_reader_finds_what_is_wrong(line):
    assert wrong_of_user(entries(line)[0])


@pytest.mark.parametrize("path", SYSUSERS, ids=lambda path: path.name)
def test_accounts(path):
    for fields in entries(path.read_text(encoding="utf-8")):
        assert wrong_of_user(fields) is None, fields


@pytest.mark.parametrize("path", SYSUSERS, ids=lambda path: path.name)
def test_accounts_as_systemd_reads_them(path, tmp_path):
    if not shutil.which("systemd-sysusers"):
        pytest.skip("systemd-sysusers is not installed")
    (tmp_path / "etc").mkdir()
    with open(path, "rb") as text:
        done = subprocess.run(["systemd-sysusers", f"--root={tmp_path}", "-"], stdin=text, capture_output=True, text=True,
                              check=False)
    assert done.returncode == 0, done.stderr
    assert "sluice:x:" in (tmp_path / "etc/passwd").read_text()


def scriptlets(spec):
    """The scriptlets of a specification of an RPM: {name: text}."""
    found = dict(re.findall(r"^%(pre|post|preun|postun|posttrans)\n(.*?)(?=^%(?!systemd|\{)\w|\Z)", spec, re.M | re.S))
    return {name: re.sub(r"^#.*\n", "", text, flags=re.M) for name, text in found.items()}


def hides(script):
    """The lines that throw away how a command ended or what it said. To ask whether a program is there hides nothing."""
    return [line for line in script.splitlines()
            if re.search(r"\|\|\s*(:|true)\s*(;|$)", line)
            or (re.search(r"(2|&)>\s*(/dev/null|&1)", line) and "command -v" not in line)]


def test_what_hides_is_found():
    assert hides("a || :\nb || true\nc >/dev/null 2>&1\nd 2>/dev/null\ne || echo no >&2\nf &>/dev/null") == [
        "a || :", "b || true", "c >/dev/null 2>&1", "d 2>/dev/null", "f &>/dev/null"]


def test_scriptlets_of_the_rpm_hide_nothing():
    found = scriptlets((PACKAGING / "rpm/sluice.spec").read_text(encoding="utf-8"))
    assert {"post", "preun", "postun"} <= set(found)
    for name, text in found.items():
        assert not hides(text), name


@pytest.mark.parametrize("path", SCRIPTS, ids=lambda path: path.name)
def test_scripts_of_the_deb_hide_nothing(path):
    assert not hides(path.read_text(encoding="utf-8"))
