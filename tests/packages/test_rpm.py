# SPDX-License-Identifier: Apache-2.0
"""The specification of the RPM builds, and its files are those of Debian's package."""

import os
import re

from conftest import needs, package, run


def ask(rpm, *what):
    return run("rpm", "--query", "--package", rpm, *what).out.splitlines()


# What only one of the two families of distributions has.
DEBIAN_ALONE = {"/usr/share/doc/sluice/changelog", "/usr/share/doc/sluice/copyright",
                "/usr/share/lintian/overrides/sluice"}
RPM_ALONE = {"/usr/share/licenses/sluice/LICENSE"}


def common(path):
    """A path without what differs from one distribution to the next."""
    path = re.sub(r"^\.?(/lib/)", r"/usr\1", path.removeprefix("."))
    path = re.sub(r"^/usr/lib(64|/[a-z0-9_]+-linux-gnu[a-z0-9]*)/", "/usr/LIB/", path)
    path = re.sub(r"^/usr/share/licenses/sluice-[^/]*", "/usr/share/licenses/sluice", path)
    return re.sub(r"(/man/man\d/.*|/changelog)\.gz$", r"\1", path)


def test_the_files_are_those_of_the_deb(rpm):
    listed = run("sh", "-c", 'dpkg-deb --fsys-tarfile "$0" | tar -t', package()).out.splitlines()
    deb = {common(path) for path in listed if not path.endswith("/")}
    directories = {line.rsplit(" ", 1)[0] for line in ask(rpm, "--queryformat", "[%{FILENAMES} %{FILEMODES:perms}\n]")
                   if line.rsplit(" ", 1)[1].startswith("d")}
    ours = {common(path) for path in ask(rpm, "--list") if path not in directories}
    assert deb - ours == DEBIAN_ALONE
    assert {path for path in ours - deb if "/.build-id" not in path} == RPM_ALONE


def test_modes_are_equal(rpm):
    """Who may run what; Debian's libraries are not executable and Fedora's are."""
    def of_rpm():
        for line in ask(rpm, "--queryformat", "[%{FILENAMES} %{FILEMODES:octal}\n]"):
            path, mode = line.rsplit(" ", 1)
            yield common(path), int(mode, 8)
    listed = run("sh", "-c", 'dpkg-deb --fsys-tarfile "$0" | tar -tv', package()).out.splitlines()
    deb = {common(line.split()[5]): line[:10] for line in listed if line.startswith("-")}
    for path, mode in of_rpm():
        if path in deb and ".so" not in path:
            assert ("x" in deb[path]) == bool(mode & 0o111), path
            assert not mode & 0o6022, path


def test_nothing_comes_to_depend_on_the_simulator(rpm):
    assert not [line for line in ask(rpm, "--provides") if "nvidia" in line or ".so" in line]


def test_scriptlets_tell_of_failures(rpm, tmp_path):
    """rpm reports a scriptlet after the installation that fails, and keeps a package whose scriptlet before the removal
    does: that one only says it."""
    needs("systemd-sysusers")
    program = tmp_path / "systemd-sysusers"
    program.write_text("#!/bin/sh\necho no account >&2\nexit 4\n")
    program.chmod(0o755)
    after = "".join(run("rpm", "--query", "--package", rpm, "--queryformat", "%{POSTIN}").out)
    done = run("sh", "-c", after, "post", "1", rc=4, env={**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}"})
    assert "no account" in done.err
    before = run("rpm", "--query", "--package", rpm, "--queryformat", "%{PREUN}").out.replace("/usr/bin/sluice", "false")
    assert "not everything" in run("sh", "-c", before, "preun", "0").err
    assert run("sh", "-c", before, "preun", "1").err == ""


def test_same_version_and_suggestions(rpm):
    assert ask(rpm, "--queryformat", "%{VERSION}") == [run("dpkg-deb", "--field", package(), "Version").out.strip()]
    assert ask(rpm, "--suggests") == run("dpkg-deb", "--field", package(), "Suggests").out.strip().split(", ")
