# SPDX-License-Identifier: Apache-2.0
"""The RPM in a root without anything else: installed by rpm with its dependencies looked at, used, installed once more,
removed. In this order: each test goes on where the one before it stopped.

What a Fedora has beside it are two packages made here: the directories, the shell and the libraries of this machine, and a
systemd whose programs write down how they were called. The second is installed with ours, in one transaction."""

import os
import pathlib
import re
import shutil
import tempfile

import pytest

from conftest import needs, needs_root, run

SPECIFICATION = """
Name: stand-in
Version: 1
Release: 1
Summary: What a Fedora has
License: Apache-2.0
%global __os_install_post %{nil}
%global _build_id_links none
%global debug_package %{nil}
%global _binary_payload w1.gzdio
%description
%package base
Summary: Directories, a shell and libraries
Provides: /bin/sh rtld(GNU_HASH)
%description base
%package -n systemd
Summary: The programs of systemd that scriptlets call
Requires: /bin/sh
%description -n systemd
%install
cp -a %{tree}/base/. %{tree}/systemd/. %{buildroot}
%files base -f %{tree}/base.files
%files -n systemd -f %{tree}/systemd.files
"""

# Directories of Fedora's and RHEL's package "filesystem".
DIRECTORIES = ("etc", "dev", "root", "run", "tmp", "usr/bin", "usr/lib", "usr/lib64", "usr/libexec", "usr/sbin",
               "usr/share/licenses", "usr/share/man/man1", "usr/share/man/man5", "usr/share/man/man7", "var/lib", "var/log")
LINKS = {"bin": "usr/bin", "lib": "usr/lib", "lib64": "usr/lib64", "sbin": "usr/sbin"}

CALLED = """#!/bin/sh
echo "${0##*/} $*" >>/var/log/called
"""
ACCOUNT = """
echo 'sluice:x:990:990:Page and metrics of sluice:/:/usr/sbin/nologin' >>/etc/passwd
[ -f "/usr/lib/sysusers.d/$1" ]
"""
SYSTEMD = {"usr/bin/systemctl": CALLED, "usr/bin/systemd-sysusers": CALLED + ACCOUNT,
           "usr/lib/systemd/systemd-update-helper": CALLED}

# In a namespace of its own: what runs in the root sees nothing of this machine's processes.
WITH_PROC = 'mount -t proc proc "$1/proc" && shift && exec "$@"'


def libraries(*programs):
    """The files that the loader opens for them: {name: path}."""
    found = {}
    for program in programs:
        for line in run("ldd", program, rc=None).out.splitlines():
            path = re.search(r"(/\S+) \(0x", line)
            if path:
                found[pathlib.Path(path[1]).name] = path[1]
    return found


class Root:
    """A root directory with an rpm database as on Fedora."""

    def __init__(self, directory, ours):
        self.directory = pathlib.Path(directory)
        self.tree = self.directory / "root"
        self.ours = ours
        self.stand_ins = {}
        (self.tree / "proc").mkdir(parents=True)

    def rpm(self, *arguments, **how):
        return self.run("rpm", f"--root={self.tree}", "--dbpath=/usr/lib/sysimage/rpm", *arguments, **how)

    def run(self, *command, **how):
        return run("unshare", "--mount", "--pid", "--ipc", "--fork", "--kill-child", "sh", "-c", WITH_PROC, "sh", self.tree,
                   *command, **how)

    def enter(self, *command, **how):
        return self.run("env", "-i", "PATH=/usr/bin:/usr/sbin", "HOME=/root", "chroot", self.tree, *command, **how)

    def files(self):
        """All that is there, without what rpm keeps, what the stand-ins wrote, and the service's own directory below /run:
        jobs that still run hold locks there."""
        skip = ("/usr/lib/sysimage", "/var/tmp", "/var/log/called", "/etc/passwd", "/proc/", "/run/sluice")
        paths = {"/" + str(path.relative_to(self.tree)) for path in self.tree.rglob("*")}
        return {path for path in paths if not path.startswith(skip)}

    def called(self):
        """What the scriptlets have called since the last time this was asked."""
        log = self.tree / "var/log/called"
        lines = log.read_text().splitlines() if log.exists() else []
        log.unlink(missing_ok=True)
        return lines

    def make_stand_ins(self):
        unpacked, place = self.directory / "unpacked", self.directory / "stand-in"
        unpacked.mkdir()
        run("rpm", f"--root={unpacked}", "--dbpath=/rpm", "--install", "--nodeps", "--noscripts", self.ours)
        base, systemd = place / "base", place / "systemd"
        for name in DIRECTORIES:
            (base / name).mkdir(parents=True)
        for name, target in LINKS.items():
            (base / name).symlink_to(target)
        shutil.copy(shutil.which("dash") or "/bin/sh", base / "usr/bin/sh")
        programs = [path for path in unpacked.rglob("*") if path.is_file() and os.access(path, os.X_OK)]
        for name, path in libraries(base / "usr/bin/sh", *programs).items():
            if "/sluice/" not in path:
                shutil.copy(path, base / "usr/lib64" / name)
                (base / "usr/lib64" / name).chmod(0o755)  # rpm asks no others what they provide
        (base / "etc/passwd").write_text("root:x:0:0:root:/root:/bin/sh\n")
        (base / "etc/group").write_text("root:x:0:\n")
        (base / "etc/ld.so.conf").write_text("/usr/lib64\n")
        for name, text in SYSTEMD.items():
            (systemd / name).parent.mkdir(parents=True, exist_ok=True)
            (systemd / name).write_text(text)
            (systemd / name).chmod(0o755)
        for tree in (base, systemd):
            lines = [("%dir " if path.is_dir() and not path.is_symlink() else "") + "/" + str(path.relative_to(tree))
                     for path in sorted(tree.rglob("*"))]
            if tree == systemd:  # its directories are ours as well
                lines = [line for line in lines if not line.startswith("%dir") or line.endswith("/systemd")]
            (place / f"{tree.name}.files").write_text("\n".join(lines) + "\n")
        specification = self.directory / "stand-in.spec"
        specification.write_text(SPECIFICATION)
        run("rpmbuild", "-bb", "--quiet", "--define", f"_topdir {self.directory}/built", "--define", f"tree {place}",
            specification, timeout=120)
        for path in (self.directory / "built").glob("RPMS/*/*.rpm"):
            self.stand_ins[path.name.split("-1-")[0].removeprefix("stand-in-")] = path


@pytest.fixture(scope="module")
def root(rpm):
    needs_root()
    needs("unshare", "chroot", "ldconfig", "ldd")
    with tempfile.TemporaryDirectory(prefix="sluice-", dir="/var/tmp") as directory:
        made = Root(directory, rpm)
        made.make_stand_ins()
        yield made


BEFORE = set()


def test_the_stand_ins(root):
    root.rpm("--install", root.stand_ins["base"])
    run("ldconfig", "-r", root.tree)
    BEFORE.update(root.files())
    assert root.enter("sh", "-c", "echo $((6 * 7))").out == "42\n"


def test_it_asks_for_what_it_needs(root):
    """Without systemd it is installed as well: in a container nothing starts services."""
    root.rpm("--install", "--test", root.ours)


def test_installs_with_systemd_in_one_transaction(root):
    """The programs of systemd that the scriptlets call are there when they do, in whatever order they were named."""
    said = root.rpm("--install", root.ours, root.stand_ins["systemd"])
    assert "scriptlet failed" not in said.err and "warning" not in said.err, said
    assert root.called() == ["systemd-sysusers sluice.conf", "systemd-update-helper install-system-units sluice.service"]
    assert "sluice:" in (root.tree / "etc/passwd").read_text()


def test_files_are_as_packed(root):
    assert root.rpm("--verify", "sluice").out == ""
    listed = root.rpm("--query", "--queryformat", "[%{FILENAMES} %{FILEUSERNAME} %{FILEGROUPNAME} %{FILEMODES:octal}\n]",
                      "sluice").out.splitlines()
    assert len(listed) > 100
    for line in listed:
        path, user, group, mode = line.rsplit(" ", 3)
        there = (root.tree / path.lstrip("/")).lstat()
        assert (user, group, there.st_uid, there.st_gid) == ("root", "root", 0, 0), line
        assert there.st_mode == int(mode, 8), line
        assert (there.st_mode & 0o170000) == 0o120000 or not there.st_mode & 0o6022, line


def test_all_that_came_belongs_to_a_package(root):
    """A directory that nobody owns stays behind, and has the mode that the umask of the moment gives it."""
    owned = set(root.rpm("--query", "--all", "--list").out.splitlines())
    nobodys = root.files() - BEFORE - owned
    assert not nobodys


def test_each_program_has_its_build_id(root):
    """By which debuggers know it: rpm makes a link for each, and Fedora's refuses to build a package where one is missing."""
    named = set()
    for link in (root.tree / "usr/lib/.build-id").rglob("*"):
        if link.is_symlink():
            named.add(os.path.normpath(link.parent / os.readlink(link)))
    paths = [root.tree / path.lstrip("/") for path in root.rpm("--query", "--list", "sluice").out.splitlines()]
    programs = set()
    for path in paths:
        if path.is_file() and not path.is_symlink() and path.read_bytes()[:4] == b"\x7fELF":
            programs.add(str(path))
    assert len(programs) > 10 and named == programs, named ^ programs


def test_it_runs(root):
    version = root.rpm("--query", "--queryformat", "%{VERSION}", "sluice").out
    assert version in root.enter("sluice", "--version").out
    for program in sorted((root.tree / "usr/libexec/sluice").iterdir()):
        said = root.enter(f"/usr/libexec/sluice/{program.name}", rc=None)
        assert "error while loading" not in said.err and said.rc not in (126, 127), said
    told = root.enter("sh", "-c", "sluice sim start --profile t4x4 --alongside && sluice sim exec -- sluice devices; "
                                  "rc=$?; sluice sim stop; exit $rc")
    assert told.out.count("Tesla T4") >= 4, told


def test_an_upgrade_restarts_and_decides_nothing_anew(root):
    root.called()
    root.rpm("--upgrade", "--replacepkgs", root.ours)
    assert root.called() == ["systemd-sysusers sluice.conf", "systemd-update-helper mark-restart-system-units sluice.service"]


def test_nothing_is_left(root):
    """Removed together with systemd, whose programs are there until ours has called them."""
    said = root.rpm("--erase", "sluice", "systemd")
    assert "scriptlet failed" not in said.err and "not everything" not in said.err, said
    assert root.called() == ["systemd-update-helper remove-system-units sluice.service"]
    left = root.files() ^ BEFORE
    assert not left


def test_a_root_without_systemd(root):
    said = root.rpm("--install", root.ours)
    assert "scriptlet failed" not in said.err, said
    assert root.called() == []
    root.rpm("--erase", "sluice")
    left = root.files() ^ BEFORE
    assert not left
