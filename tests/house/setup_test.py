# SPDX-License-Identifier: Apache-2.0
"""tools/setup with package managers that only pretend, so that nothing is installed."""

import os
import re
import shutil
import subprocess

import pytest

from conftest import TOOLS

# The programs that setup itself runs on; everything else on its PATH is of the test's making.
NEEDED = ("bash", "cat", "sed", "head", "env")


# What meson.build asks for, and the packages that bring it. "threads" comes with the C library.
DEPENDENCIES = {
    "libevent_core": ("libevent-dev", "libevent-devel"),
    "libevent_pthreads": ("libevent-dev", "libevent-devel"),
    "jansson": ("libjansson-dev", "jansson-devel"),
    "yaml-0.1": ("libyaml-dev", "libyaml-devel"),
    "libnghttp2": ("libnghttp2-dev", "libnghttp2-devel"),
    "sqlite3": ("libsqlite3-dev", "sqlite-devel"),
    "cmocka": ("libcmocka-dev", "libcmocka-devel"),
    "threads": ("libc6-dev", "glibc-devel"),
}


class Machine:
    """A PATH with a pretended dpkg and apt-get; a package is installed when its file is there."""

    def __init__(self, folder):
        self.bin = folder / "bin"
        self.packages = folder / "packages"
        self.log = folder / "log"
        self.bin.mkdir()
        self.packages.mkdir()
        self.log.write_text("")
        for name in NEEDED:
            (self.bin / name).symlink_to(shutil.which(name))
        self.program("id", "echo 0")
        self.program("apt-cache", 'echo "Depends: clang-17 (>= 17)"')
        self.program("dpkg-query", f'eval "name=\\${{$#}}"\n[ -e {self.packages}/$name ] && echo -n installed')
        self.program("apt-get", f'echo "apt-get $*" >>{self.log}\n[ "$2" = install ] || exit 0\n'
                     f"for name; do case $name in -*|install) ;; *) : >{self.packages}/$name ;; esac; done")

    def program(self, name, text):
        path = self.bin / name
        path.write_text("#!/bin/bash\n" + text + "\n")
        path.chmod(0o755)

    def setup(self, *arguments):
        return subprocess.run([os.path.join(TOOLS, "setup"), *arguments], capture_output=True,
                              text=True, check=False, env={"PATH": str(self.bin)})


@pytest.fixture
def machine(tmp_path):
    return Machine(tmp_path)


def test_installs_what_is_missing_once(machine):
    result = machine.setup("build", "check")
    assert result.returncode == 0, result.stderr
    log = machine.log.read_text()
    assert "apt-get -q install -y --no-install-recommends" in log
    assert " libevent-dev " in log and " libclang-rt-17-dev " in log and " golang-go" not in log
    machine.log.write_text("")
    again = machine.setup("build", "check")
    assert (again.returncode, machine.log.read_text()) == (0, "")
    assert "everything for build check is installed" in again.stdout


def test_check_installs_nothing(machine):
    result = machine.setup("--check", "conformance")
    assert result.returncode == 1
    assert "missing for conformance: golang-go python3-venv ca-certificates" in result.stderr
    assert machine.log.read_text() == ""


def test_a_program_from_elsewhere_counts(machine):
    machine.program("go", "exit 0")
    result = machine.setup("--check", "conformance")
    assert "missing for conformance: python3-venv ca-certificates" in result.stderr


def test_without_root_and_sudo_it_says_what_is_needed(machine):
    machine.program("id", "echo 1000")
    result = machine.setup("conformance")
    assert result.returncode == 1
    assert result.stderr.splitlines() == [
        "setup: not root, and there is no sudo; install these packages yourself: "
        "golang-go python3-venv ca-certificates nodejs npm python3-yaml python3-scipy "
        "slurmctld slurmd slurm-client munge"]


def test_a_failing_apt_get_is_reported_with_the_list(machine):
    machine.program("apt-get", "exit 100")
    result = machine.setup("conformance")
    assert result.returncode == 1
    assert "apt-get failed; install these packages yourself: golang-go" in result.stderr


def test_wrong_usage(machine):
    result = machine.setup("everything")
    assert result.returncode == 64
    assert "unknown argument 'everything'" in result.stderr


def test_every_library_that_meson_wants_has_its_package():
    with open(os.path.join(TOOLS, "..", "meson.build"), encoding="utf-8") as file:
        wanted = re.findall(r"\bdependency\('([^']+)'", file.read())
    with open(os.path.join(TOOLS, "setup"), encoding="utf-8") as file:
        packages = re.split(r"[\s()=]+", file.read())
    assert wanted
    for name in wanted:
        for package in DEPENDENCIES[name]:  # a new dependency is named above and in tools/setup
            assert package in packages
