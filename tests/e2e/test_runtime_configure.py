# SPDX-License-Identifier: Apache-2.0
"""`sluice runtime configure`: files of many runtimes and versions, and there and back again.

tests/documents/runtimes/RUNTIME-VERSION+NAME is the tree of files of such a machine, and the same name
with .out what the command says of it. SLUICE_WRITE_GOLDEN=1 writes those anew.
"""

import json
import os
import re
import shutil
import stat
import subprocess
import tomllib

import pytest

from conftest import ROOT, SLUICE, base_environment

DOCUMENTS = ROOT / "tests" / "documents" / "runtimes"
CASES = sorted(path.name[:-len(".out")] for path in DOCUMENTS.glob("*.out"))
if os.environ.get("SLUICE_WRITE_GOLDEN"):
    CASES = sorted({path.name for path in DOCUMENTS.iterdir() if path.is_dir()} | set(CASES))
CRI = {2: "io.containerd.grpc.v1.cri", 3: "io.containerd.cri.v1.runtime"}


def configure(root, runtime, *arguments, rc=0, env=None):
    done = subprocess.run(
        [SLUICE, "runtime", "configure", "--runtime", runtime,
         *(["--root", str(root)] if root else []), *map(str, arguments)],
        env={**base_environment(), **(env or {})}, capture_output=True, check=False, timeout=60)
    out = done.stdout.decode() + done.stderr.decode()
    assert rc is None or done.returncode == rc, out
    return done.returncode, out


def tree(directory):
    """Every file below a directory, with its bytes and mode."""
    return {path.relative_to(directory): (path.read_bytes(), path.stat().st_mode)
            for path in directory.rglob("*") if path.is_file()}


def place(name, directory):
    """The files of a case below `directory`, and the arguments for it."""
    if (DOCUMENTS / name).is_dir():
        shutil.copytree(DOCUMENTS / name, directory, dirs_exist_ok=True)
    runtime, version = name.partition("+")[0].split("-", 1)
    return runtime, ("--runtime-version", version)


def effective(directory, file):
    """What a file says, read by another parser; None if it does not understand it."""
    try:
        text = (directory / file).read_bytes()
        if file.suffix == ".json":
            return json.loads(text.decode("utf-8-sig") or "{}")
        return tomllib.loads(text.decode())
    except (FileNotFoundError, ValueError):
        return {}


def switched_on(before, file):
    """The same with CDI on, by hand."""
    if file.suffix == ".json":
        before.setdefault("features", {})["cdi"] = True
    else:
        before.setdefault("version", 2)
        plugins = before.setdefault("plugins", {})
        plugins.setdefault(CRI[before["version"]], {})["enable_cdi"] = True
    return before


@pytest.mark.parametrize("name", CASES)
def test_what_is_said(name, tmp_path):
    runtime, version = place(name, tmp_path)
    before = tree(tmp_path)
    code, out = configure(tmp_path, runtime, *version, rc=None)
    assert tree(tmp_path) == before  # only --apply changes anything
    out = f"{out.replace(str(tmp_path), '')}exit {code}\n"
    golden = DOCUMENTS / f"{name}.out"
    if os.environ.get("SLUICE_WRITE_GOLDEN"):
        golden.write_text(out, encoding="utf-8")
    assert out == golden.read_text(encoding="utf-8")


@pytest.mark.parametrize("name", CASES)
def test_there_and_back(name, tmp_path):
    runtime, version = place(name, tmp_path)
    before = tree(tmp_path)
    code, said = configure(tmp_path, runtime, *version, "--output", "json", rc=None)
    code_of_apply, _ = configure(tmp_path, runtime, *version, "--apply", rc=None)
    assert code == code_of_apply
    after = tree(tmp_path)
    if code != 0 or json.loads(said)["state"] != "change":
        assert after == before
        return
    changed = [path for path in after if after[path] != before.get(path)
               and path.suffix != ".sluice-bak"]
    assert [f"{tmp_path}/{path}" for path in changed] == [json.loads(said)["file"]]
    [file] = changed
    if file.name == "99-sluice-cdi.toml":
        main = effective(tmp_path, file.parents[1] / "config.toml")
        assert effective(tmp_path, file) == switched_on({"version": main["version"]}, file)
    else:
        assert effective(tmp_path, file) == switched_on(effective(DOCUMENTS / name, file), file)
    # twice is once
    configure(tmp_path, runtime, *version, "--apply")
    assert tree(tmp_path) == after
    assert json.loads(configure(tmp_path, runtime, *version, "--output", "json")[1])["state"] == "ready"
    # and back
    assert "restored" in (back := configure(tmp_path, runtime, "--undo")[1]) or "removed" in back
    assert tree(tmp_path) == before
    assert "nothing to do" in configure(tmp_path, runtime, "--undo")[1]
    assert tree(tmp_path) == before


def test_owner_and_mode_stay(tmp_path):
    runtime, version = place("docker-27.5.1+usual", tmp_path)
    file = tmp_path / "etc/docker/daemon.json"
    file.chmod(0o640)
    if os.getuid() == 0:
        os.chown(file, 12, 34)
    owner = (file.stat().st_uid, file.stat().st_gid)
    configure(tmp_path, runtime, *version, "--apply", env={"UMASK": "077"})
    for path in (file, file.with_name("daemon.json.sluice-bak")):
        assert path.stat().st_mode & 0o7777 == 0o640
        assert (path.stat().st_uid, path.stat().st_gid) == owner


@pytest.mark.parametrize("name,line", [("docker-27.5.1+usual", '"cdi": true'),
                                       ("containerd-1.7.27+default", "enable_cdi = true")])
def test_a_file_that_was_changed_since_is_left_alone(name, line, tmp_path):
    runtime, version = place(name, tmp_path)
    file = json.loads(configure(tmp_path, runtime, *version, "--output", "json")[1])["file"]
    configure(tmp_path, runtime, *version, "--apply")
    with open(file, encoding="utf-8") as stream:
        text = stream.read()
    changed = "\n" + text  # one line further down
    with open(file, "w", encoding="utf-8") as stream:
        stream.write(changed)
    before = tree(tmp_path)
    _, out = configure(tmp_path, runtime, "--undo", rc=65)
    number = next(i for i, found in enumerate(changed.split("\n"), 1) if line in found)
    assert f"take '{line}' in its line {number} out" in out
    assert tree(tmp_path) == before
    # As it was left again: now it goes.
    with open(file, "w", encoding="utf-8") as stream:
        stream.write(text)
    configure(tmp_path, runtime, "--undo")


def test_a_drop_in_that_was_changed_is_left_alone(tmp_path):
    runtime, version = place("containerd-2.1.0+off-with-drop-ins", tmp_path)
    configure(tmp_path, runtime, *version, "--apply")
    drop_in = tmp_path / "etc/containerd/conf.d/99-sluice-cdi.toml"
    text = drop_in.read_text()
    drop_in.write_text(text + "# mine\n")
    _, out = configure(tmp_path, runtime, "--undo", rc=65)
    assert "was changed since" in out and drop_in.exists()
    drop_in.write_text(text)
    configure(tmp_path, runtime, "--undo")
    assert not drop_in.exists()


def test_links_are_followed_but_not_out_of_the_root(tmp_path):
    runtime, version = place("docker-27.5.1+usual", tmp_path / "root")
    file = tmp_path / "root/etc/docker/daemon.json"
    inside = file.with_name("real.json")
    file.rename(inside)
    file.symlink_to("real.json")
    configure(tmp_path / "root", runtime, *version, "--apply")
    assert file.is_symlink() and '"cdi": true' in inside.read_text()
    configure(tmp_path / "root", runtime, "--undo")
    assert file.is_symlink() and "cdi" not in inside.read_text()
    outside = tmp_path / "outside.json"
    inside.rename(outside)
    file.unlink()
    file.symlink_to(outside)
    before = outside.read_bytes()
    assert "leads out of" in configure(tmp_path / "root", runtime, *version, "--apply", rc=65)[1]
    assert outside.read_bytes() == before
    # Nor by a directory, when there is no file yet.
    shutil.rmtree(file.parent)
    file.parent.symlink_to(tmp_path)
    assert "leads out of" in configure(tmp_path / "root", runtime, *version, "--apply", rc=65)[1]
    assert not (tmp_path / "daemon.json").exists()
    file.parent.unlink()
    # What is no file is not replaced by one, and nothing is left beside it.
    pipe = tmp_path / "odd" / "pipe"
    pipe.parent.mkdir()
    os.mkfifo(pipe)
    for odd, why in ((pipe, "no regular file"), ("", "no name of a file"),
                     (f"{pipe.parent}/new/", "no name of a file")):
        error = configure(None, runtime, *version, "--config", odd, "--apply", rc=65)[1]
        assert f"'{odd}': is {why}" in error
    assert stat.S_ISFIFO(pipe.stat().st_mode) and os.listdir(pipe.parent) == ["pipe"]
    missing = tmp_path / "missing"
    assert f"there is no directory '{missing}'" in configure(missing, runtime, *version, rc=65)[1]
    file.parent.mkdir()
    file.symlink_to("none.json")
    assert "leads to nothing" in configure(tmp_path / "root", runtime, *version, "--apply", rc=65)[1]


def test_a_file_of_another_place(tmp_path):
    file = tmp_path / "daemon.json"
    file.write_text('{"debug": true}\n')
    configure(None, "docker", "--config", file, "--runtime-version", "27.0.3", "--apply")
    assert json.loads(file.read_text()) == {"debug": True, "features": {"cdi": True}}
    configure(None, "docker", "--config", file, "--undo")
    assert file.read_text() == '{"debug": true}\n'


def test_a_simulated_machine_has_files_of_its_own(machine):
    machine.start("t4x1")
    reply = machine.run("sluice", "runtime", "configure", "--runtime", "docker", "--apply",
                        "--runtime-version", "27.0.3").ok()
    assert json.loads(machine.read("/etc/docker/daemon.json")) == {"features": {"cdi": True}}
    assert str(machine.path("/etc/docker/daemon.json")) in reply.out
    machine.run("sluice", "runtime", "configure", "--runtime", "docker", "--undo").ok()
    assert not machine.path("/etc/docker/daemon.json").exists()


def test_where_nothing_can_be_written(tmp_path):
    runtime, version = place("docker-27.5.1+usual", tmp_path)
    directory = tmp_path / "etc/docker"
    before = tree(tmp_path)
    if os.getuid() == 0:
        # A directory stands in the way of the copy.
        (directory / "daemon.json.sluice-bak").mkdir()
        assert "cannot write" in configure(tmp_path, runtime, *version, "--apply", rc=None)[1]
        (directory / "daemon.json.sluice-bak").rmdir()
    else:
        directory.chmod(0o555)
        configure(tmp_path, runtime, *version, "--apply", rc=77)
        directory.chmod(0o755)
    assert tree(tmp_path) == before


def program(directory, name, text):
    path = directory / name
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return {"PATH": f"{directory}:/usr/bin:/bin"}


def test_the_version_is_asked_for(tmp_path):
    env = program(tmp_path, "dockerd", '[ "$1" = --version ] && echo "Docker version 24.0.9, build 1"')
    assert "docker 24.0.9 has no CDI" in configure(None, "docker", env=env, rc=1)[1]
    env = program(tmp_path, "dockerd", "echo hello")
    assert "printed no version" in configure(None, "docker", env=env, rc=1)[1]
    env = program(tmp_path, "crio", 'echo "crio version 1.31.2"')
    assert re.search("CRI-O 1.31.2 does CDI by itself", configure(None, "crio", env=env)[1])


def test_a_runtime_that_is_not_installed(tmp_path):
    for runtime, name in [("docker", "dockerd"), ("crio", "crio"), ("containerd", "containerd")]:
        if shutil.which(name, path="/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin"):
            continue
        out = configure(None, runtime, rc=1, env={"PATH": str(tmp_path)})[1]
        assert f"{runtime} is not installed" in out and name in out


def test_podman_of_this_machine():
    if not shutil.which("podman"):
        pytest.skip("podman is not installed")
    version = subprocess.run(["podman", "--version"], capture_output=True, text=True, check=True).stdout.split()[-1]
    assert configure(None, "podman")[1].startswith(f"podman {version} does CDI by itself\n")


def test_mistakes_in_the_command_line(tmp_path):
    configure(tmp_path, "docker", "--apply", "--undo", rc=64)
    configure(tmp_path, "docker", rc=64)  # which version has that root?
    configure(tmp_path, "docker", "--runtime-version", "new", rc=64)
    configure(tmp_path, "podman", "--runtime-version", "5.0", "--config", "/x", rc=64)
    configure(None, "docker", "--root", "relative", "--runtime-version", "27.0", rc=64)
    configure(None, "rkt", rc=64)
