# SPDX-License-Identifier: Apache-2.0
"""Devices of `sluice cdi generate` in OCI bundles: runc and crun, both generations of cgroups, and images whose loaders
look for libraries in different places. Containers see exactly what they were given.

The nodes of --dev-style nvidia have the driver's numbers and no driver: opening one that is allowed fails with ENXIO
("No such device or address"), opening one that is not allowed fails with EPERM."""

import os
import pathlib
import shutil
import subprocess

import pytest

from containers import MULTIARCH, WITHOUT_UNIFIED, Bundle, image, needs, simulated

LOADER = "/lib64/ld-linux-x86-64.so.2"
ALLOWED, DENIED = "No such device or address", "Operation not permitted"

# Linked against libcuda.so.1, and asks for a library at run time as well.
PROGRAM = """
#define _GNU_SOURCE
#include <dlfcn.h>
#include <link.h>
#include <stdio.h>

static int of_driver(struct dl_phdr_info *info, size_t size, void *context)
{
	(void)size;
	(void)context;
	if (__builtin_strstr(info->dlpi_name, "/lib"))
		(void)printf("%s\\n", info->dlpi_name);
	return 0;
}

int main(void)
{
	if (!dlopen("libcuda.so", RTLD_NOW) || !dlopen("libnvidia-ml.so.1", RTLD_NOW)) {
		(void)fprintf(stderr, "%s\\n", dlerror());
		return 1;
	}
	(void)dl_iterate_phdr(of_driver, NULL);
	return 0;
}
"""


@pytest.fixture(scope="module")
def gpus():
    needs("runc")
    with simulated("t4x4", "--gpus", "3", "--dev-style", "nvidia") as machine:
        yield machine


@pytest.fixture
def work(gpus, request):
    directory = gpus.directory / request.node.name.replace("[", "-").rstrip("]")
    directory.mkdir()
    return directory


# What is behind a container of each runtime, in front of its command line
RUNTIMES = {
    "runc": ("runc", ()),
    "crun": ("crun", WITHOUT_UNIFIED),
    "cgroup2": ("runc", ("unshare", "-m", "sh", "-c",
                         'umount -R /sys/fs/cgroup && mount -t cgroup2 none /sys/fs/cgroup && exec "$@"', "sh")),
}


@pytest.fixture(params=RUNTIMES)
def start(request):
    """start(bundle) runs it with one of the runtimes."""
    runtime, before = RUNTIMES[request.param]
    needs(runtime)

    def run(box):
        box.runtime = runtime
        return box.run(*before)

    return run


def opening(*paths):
    return "; ".join(f"echo {path}; cat {path}" for path in paths) + "; true"


def test_exactly_its_gpu(gpus, work, start):
    """Its node opens; another's does not even when the container makes the node itself, as its root may."""
    numbers = os.stat(gpus.path("/dev/nvidia1")).st_rdev
    box = Bundle(work / "bundle", image(work / "rootfs")).shell(
        "ls /dev/nvidia*; echo $NVIDIA_VISIBLE_DEVICES; cat /dev/nvidia0; "
        f"mknod /tmp/other c {os.major(numbers)} {os.minor(numbers)} && cat /tmp/other; true")
    for kind in ("bounding", "effective", "permitted"):
        box.config["process"]["capabilities"][kind].append("CAP_MKNOD")
    reply = start(box.give(gpus, "sluice.sim/gpu=0")).ok()
    assert reply.out.split() == ["/dev/nvidia-modeset", "/dev/nvidia-uvm", "/dev/nvidia-uvm-tools", "/dev/nvidia0",
                                 "/dev/nvidiactl", "void"]
    assert f"/dev/nvidia0': {ALLOWED}" in reply.err and f"/tmp/other': {DENIED}" in reply.err, reply


def test_two_and_all(gpus, work, start):
    root = image(work / "rootfs")
    for name, devices in (("0", ["0"]), ("2", ["2"]), ("all", ["0", "1", "2"])):
        box = Bundle(work / name, root).shell("ls /dev").give(gpus, f"sluice.sim/gpu={name}")
        seen = start(box).ok().out.split()
        seen = [node for node in seen if node.startswith("nvidia") and node[-1].isdigit()]
        assert seen == [f"nvidia{device}" for device in devices]
    uuid = gpus.show()["gpus"][1]["uuid"]
    box = Bundle(work / "two", root).shell("ls /dev").give(gpus, f"sluice.sim/gpu={uuid}", "sluice.sim/gpu=2")
    assert {"nvidia1", "nvidia2"} < set(start(box).ok().out.split())


# Where loaders look -------------------------------------------------------------------------------

def build_program(gpus, path):
    source = path.parent / "program.c"
    source.write_text(PROGRAM)
    library = gpus.path(MULTIARCH / "libcuda.so.1")
    subprocess.run(["cc", "-o", path, source, "-Wl,--no-as-needed", library, "-ldl"], check=True, timeout=60)
    source.unlink()


def loader_of(directories):
    """This computer's loader with other built-in directories: Debian's are overwritten, ends padded with slashes."""
    loader = pathlib.Path(LOADER).read_bytes()
    for old, new in zip((b"/lib/x86_64-linux-gnu/", b"/usr/lib/x86_64-linux-gnu/"), directories):
        if loader.count(b"\0" + old + b"\0") == 0:
            pytest.skip(f"this computer's loader does not name {old.decode()}")
        loader = loader.replace(b"\0" + old + b"\0", b"\0" + new.ljust(len(old), b"/") + b"\0")
    return loader


def layout(root, kind):
    """The C library where the images of `kind` have it, under merged /usr."""
    libraries = pathlib.Path("usr/lib64") if kind == "rhel" else MULTIARCH
    for name in ("usr/lib64", "usr/lib", libraries, "etc", "proc", "sys", "dev", "tmp", "bin"):
        (root / name).mkdir(parents=True, exist_ok=True)
    (root / "lib64").symlink_to("usr/lib64")
    (root / "lib").symlink_to("usr/lib")
    for name in ("libc.so.6", "libdl.so.2"):
        shutil.copy(f"/lib/x86_64-linux-gnu/{name}", root / libraries / name)
    target = root / "usr/lib64/ld-linux-x86-64.so.2"
    if kind == "rhel":
        target.write_bytes(loader_of((b"/lib64/", b"/usr/lib64/")))
        target.chmod(0o755)
    else:
        shutil.copy(LOADER, target)
    if kind != "distroless":  # a cache made before there was a driver
        subprocess.run(["/sbin/ldconfig", "-r", root], check=True, timeout=60)
        assert (root / "etc/ld.so.cache").exists()
    return root


@pytest.mark.parametrize("kind", ["debian", "rhel", "distroless"])
def test_program_finds_the_libraries(gpus, work, kind):
    """Linked by name, and at run time under both names; without a shell, ldconfig or a word in the environment."""
    root = layout(work / "rootfs", kind)
    build_program(gpus, root / "program")
    box = Bundle(work / "bundle", root)
    box.config["process"]["args"] = ["/program"]
    without = box.run()
    assert without.rc == 127 and "libcuda.so.1: cannot open shared object file" in without.err, without
    reply = box.give(gpus, "sluice.sim/gpu=0").run().ok()
    directory = "/lib64" if kind == "rhel" else "/lib/x86_64-linux-gnu"
    loaded = {os.path.normpath(line) for line in reply.out.splitlines()}
    assert {f"{directory}/libcuda.so.1", f"{directory}/libnvidia-ml.so.1"} <= loaded, reply
    assert "LD_LIBRARY_PATH" not in str(box.config["process"]["env"])


def test_only_one_layout_serves_only_those_images(gpus, work):
    """So the default is both: what the other tests see is not this computer's loader looking everywhere."""
    only = gpus.path("/var/run/cdi/only-rhel.json")
    try:
        gpus.run("sluice", "cdi", "generate", "--lib-layout", "rhel", "--vendor", "sluice.test", "--output", only).ok()
        for kind, works in (("debian", False), ("rhel", True)):
            root = layout(work / kind, kind)
            build_program(gpus, root / "program")
            box = Bundle(work / f"bundle-{kind}", root)
            box.config["process"]["args"] = ["/program"]
            assert (box.give(gpus, "sluice.test/gpu=0").run().rc == 0) == works
    finally:
        only.unlink()
