# SPDX-License-Identifier: Apache-2.0
"""The container image: what is in it, what runs from it, and where its service finds a driver."""

import json
import os
import pathlib
import shutil
import tarfile
import tempfile

import pytest

from conftest import ROOT, needs, needs_root, package, run

SIZE_MAX = 15_000_000
# Root may lack the right to raise limits, and crun does not run on every hierarchy of cgroups.
CONFIGURATION = """
[containers]
default_ulimits = ["nofile=1024:1024", "nproc=4096:4096"]
netns = "none"
[engine]
cgroup_manager = "cgroupfs"
runtime = "runc"
events_logger = "none"
"""
MULTIARCH = "usr/lib/x86_64-linux-gnu"


class Image:
    """One that is built into storage of its own."""

    def __init__(self, directory):
        self.directory = directory
        conf, storage = directory / "containers.conf", directory / "storage.conf"
        conf.write_text(CONFIGURATION)
        storage.write_text(f'[storage]\ndriver = "vfs"\ngraphroot = "{directory}/graph"\nrunroot = "{directory}/run"\n')
        self.env = {**os.environ, "CONTAINERS_CONF": str(conf), "CONTAINERS_STORAGE_CONF": str(storage)}
        self.archive = directory / "image.tar"
        self.name = "localhost/sluice-test:1"
        run(ROOT / "tools/image", "--package", package(), "--output", self.archive, "--tag", self.name, env=self.env,
            timeout=300)
        with tarfile.open(self.archive) as archive:
            def blob(digest):
                return archive.extractfile("blobs/" + digest.replace(":", "/"))
            self.digest = json.load(archive.extractfile("index.json"))["manifests"][0]["digest"]
            manifest = json.load(blob(self.digest))
            self.config = json.load(blob(manifest["config"]["digest"]))["config"]
            self.size = sum(layer["size"] for layer in manifest["layers"])
            layer, = manifest["layers"]
            with tarfile.open(fileobj=blob(layer["digest"]), mode="r:gz") as files:
                self.files = {member.name: member for member in files.getmembers()}

    def run(self, *command, options=(), **how):
        return run("podman", "run", "--rm", *options, self.name, *command, env=self.env, **how)


@pytest.fixture(scope="module")
def image():
    needs_root()
    needs("podman", "runc")
    directory = pathlib.Path(tempfile.mkdtemp(prefix="sluice-", dir="/var/tmp"))
    try:
        yield Image(directory)
    finally:
        shutil.rmtree(directory)


def test_built_again_it_is_the_same(image, tmp_path):
    again = Image(tmp_path)
    assert again.digest == image.digest


def test_is_small(image):
    assert image.size <= SIZE_MAX


def test_holds_one_program_and_no_shell(image):
    programs = {name for name, member in image.files.items() if member.isfile() and member.mode & 0o111
                and ".so" not in name}
    assert {name for name in programs if not name.startswith("usr/libexec/sluice/")} == {"usr/bin/sluice"}
    listed = run("sh", "-c", 'dpkg-deb --fsys-tarfile "$0" | tar -t', package()).out.split()
    helpers = {name.removeprefix("./") for name in listed if "/libexec/" in name and not name.endswith("/")}
    assert helpers and {name for name in programs if name.startswith("usr/libexec/sluice/")} == helpers
    assert not [name for name in image.files if "nvidia" in name or "libcuda" in name]
    assert image.run("/bin/sh", rc=None).rc == 127


def test_nobody_but_root_may_change_its_files(image):
    for name, member in image.files.items():
        assert (member.uid, member.gid) == (0, 0), name
        assert member.issym() or not member.mode & 0o022 or name == "tmp", name
        assert not member.mode & 0o6000, name


def test_says_what_it_is(image):
    labels = image.config["Labels"]
    version = run("dpkg-deb", "--field", package(), "Version").out.strip()
    assert labels["org.opencontainers.image.version"] == version
    assert labels["org.opencontainers.image.title"] == "sluice"
    assert labels["org.opencontainers.image.licenses"] == "Apache-2.0"
    assert image.config["Cmd"] == ["/usr/bin/sluice", "agent"]
    assert "Entrypoint" not in image.config


def test_where_its_libraries_come_from(image):
    assert f"{MULTIARCH}/libc.so.6" in image.files
    for owner in ("libc6", "libcurl4", "libevent-core-2.1-7", "ca-certificates"):
        assert f"var/lib/dpkg/status.d/{owner}" in image.files
        assert f"usr/share/doc/{owner}/copyright" in image.files


@pytest.mark.parametrize("options", [(), ("--read-only",)])
def test_programs_run(image, options):
    assert image.run("sluice", "--version", options=options).out.startswith("sluice ")
    # no GPU here: it says so, and it says it well
    told = image.run("sluice", "doctor", "--output", "json", options=options, rc=None)
    assert told.rc in (0, 1, 2, 3) and isinstance(json.loads(told.out), dict), told
    for helper in sorted(name for name in image.files if name.startswith("usr/libexec/sluice/")):
        assert "error while loading" not in image.run("/" + helper, options=options, rc=None).err


def test_a_repository_is_read(image, tmp_path):
    (tmp_path / "Packages").write_text("Package: linux-headers-6.1.0-1-amd64\nVersion: 1\nArchitecture: amd64\n"
                                       "Filename: a.deb\n")
    told = image.run("sluice", "doctor", "--for", "driver-container", "--packages", "/repository", "--system", "debian",
                     "--kernel", "6.1.0-1-amd64", "--output", "json", options=("--volume", f"{tmp_path}:/repository:ro"), rc=None)
    found = [finding["status"] for finding in json.loads(told.out)["findings"] if finding["id"] == "driver.packages"]
    assert found == ["ok", "warn"]  # the headers are there, the compiler is not
    assert image.files["etc/ssl/certs/ca-certificates.crt"].size > 100_000  # for one behind https


@pytest.mark.parametrize("read_only", [False, True])
def test_the_service_serves(image, tmp_path, read_only):
    options = []
    if read_only:
        for name in ("run", "state"):
            (tmp_path / name).mkdir(mode=0o755)
        options = ["--read-only", "--volume", f"{tmp_path}/run:/run/sluice", "--volume",
                   f"{tmp_path}/state:/var/lib/sluice"]
    said = image.run("sluice", "agent", "--exit-idle", "100ms", options=options)
    assert "serving on '/run/sluice/agent.sock'" in said.err


@pytest.fixture(scope="module")
def driver(tmp_path_factory):
    """A library that answers as NVIDIA's does, for two GPUs."""
    made = tmp_path_factory.mktemp("driver") / "libnvidia-ml.so.1"
    run("cc", "-shared", "-fPIC", "-pthread", "-Wl,-soname,libnvidia-ml.so.1", "-o", made,
        ROOT / "tests/unit/hardware/fake_nvml.c")
    return made


def devices(image, options):
    told = image.run("sluice", "devices", "--output", "json", options=options, rc=None)
    return told, [gpu["uuid"] for gpu in json.loads(told.out)["gpus"]] if told.rc == 0 else []


def test_no_driver(image):
    told, gpus = devices(image, ())
    assert not gpus and "no libnvidia-ml.so.1 was found" in told.err


@pytest.mark.parametrize("where", ["/host", "/run/nvidia/driver"])
def test_finds_the_driver(image, driver, tmp_path, where):
    """As Debian installs it: the loader's name leads through /etc, by links that hold in the host's root only."""
    folder, alternatives = tmp_path / MULTIARCH / "nvidia/current", tmp_path / "etc/alternatives"
    folder.mkdir(parents=True)
    alternatives.mkdir(parents=True)
    shutil.copy(driver, folder / driver.name)
    (tmp_path / MULTIARCH / driver.name).symlink_to("/etc/alternatives/nvidia")
    (alternatives / "nvidia").symlink_to(f"/{MULTIARCH}/nvidia/current/{driver.name}")
    told, gpus = devices(image, ("--volume", f"{tmp_path}:{where}:ro"))
    assert len(gpus) == 2, told
    assert json.loads(told.out)["library"] == f"{where}/{MULTIARCH}/nvidia/current/{driver.name}"
