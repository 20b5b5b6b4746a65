# SPDX-License-Identifier: Apache-2.0
"""The images on the nodes, as archives; there is no registry."""

import functools
import hashlib
import io
import json
import shutil
import subprocess
import tarfile

import programs
from place import IMAGES, ROOT, Failure, alone, run

PAUSE = r"""
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>
static void end(int number) { (void)number; _exit(0); }
static void reap(int number) { (void)number; while (waitpid(-1, 0, WNOHANG) > 0) ; }
int main(void) { signal(SIGTERM, end); signal(SIGINT, end); signal(SIGCHLD, reap); for (;;) pause(); }
"""


def archive(name, tree, output, command):
    """An image of one layer, the files below `tree`, in the form that `docker save` has."""
    data = io.BytesIO()
    with tarfile.open(fileobj=data, mode="w") as tar:
        tar.add(tree, arcname=".", filter=owned_by_root)
    layer = data.getvalue()
    digest = hashlib.sha256(layer).hexdigest()
    config = json.dumps({"architecture": "amd64", "os": "linux", "rootfs": {"type": "layers", "diff_ids": [f"sha256:{digest}"]},
                         "config": {"Cmd": command, "Env": ["PATH=/usr/sbin:/usr/bin:/sbin:/bin"]}}).encode()
    config_name = hashlib.sha256(config).hexdigest() + ".json"
    manifest = json.dumps([{"Config": config_name, "RepoTags": [name], "Layers": [f"{digest}/layer.tar"]}]).encode()
    with tarfile.open(output, "w") as tar:
        for path, content in ((config_name, config), (f"{digest}/layer.tar", layer), ("manifest.json", manifest)):
            entry = tarfile.TarInfo(path)
            entry.size = len(content)
            tar.addfile(entry, io.BytesIO(content))


def owned_by_root(entry):
    entry.uid = entry.gid = 0
    return entry


def pause():
    """What holds the namespaces of a pod."""
    tree = IMAGES / "pause"
    tree.mkdir(parents=True, exist_ok=True)
    subprocess.run(["gcc", "-O2", "-static", "-x", "c", "-o", tree / "pause", "-"], input=PAUSE, text=True, check=True)
    archive("localhost/pause:1", tree, IMAGES / "pause.tar", ["/pause"])


def box():
    """A shell and its tools, with a place for the driver's libraries in both layouts."""
    tree = IMAGES / "box"
    for one in ("bin", "etc", "tmp", "usr/lib/x86_64-linux-gnu", "usr/lib64"):
        (tree / one).mkdir(parents=True, exist_ok=True)
    busybox = shutil.which("busybox")
    if not busybox:
        raise Failure("busybox is not installed; run tools/setup check")
    shutil.copy2(busybox, tree / "bin/busybox")
    (tree / "bin/bash").write_text('#!/bin/sh\nexec sh "$@"\n')  # for files that name it
    (tree / "bin/bash").chmod(0o755)
    for applet in run(busybox, "--list").split():
        link = tree / "bin" / applet
        if applet != "busybox" and not link.is_symlink():
            link.symlink_to("busybox")
    (tree / "etc/passwd").write_text("root:x:0:0:root:/:/bin/sh\nnobody:x:65534:65534::/:/bin/sh\n")
    archive("localhost/box:1", tree, IMAGES / "box.tar", ["/bin/sh"])


def nvidia():
    """NVIDIA's device plugin, for nodes that mount their libraries into it."""
    tree = IMAGES / "nvidia"
    for one in ("bin", "tmp", "lib64", "usr/lib/x86_64-linux-gnu"):
        (tree / one).mkdir(parents=True, exist_ok=True)
    programs.build("nvidia")
    shutil.copy2(programs.program("nvidia-device-plugin"), tree / "bin/nvidia-device-plugin")
    shutil.copy2("/lib64/ld-linux-x86-64.so.2", tree / "lib64/ld-linux-x86-64.so.2")
    archive("localhost/nvidia-device-plugin:1", tree, IMAGES / "nvidia.tar", ["nvidia-device-plugin"])


@functools.cache
def packages():
    """The service's package, built once by whoever asks for it in this run."""
    subprocess.run([ROOT / "tools/deb"], check=True, cwd=ROOT, stdout=subprocess.DEVNULL)


def sluice():
    """The service's own, as `make image` builds it from this tree."""
    # The builder keeps the image under its name alone: two trees must not write it at once.
    packages()
    with alone("image"):
        subprocess.run([ROOT / "tools/image"], check=True, cwd=ROOT, stdout=subprocess.DEVNULL)
    built = sorted((ROOT / "build/image").glob("sluice-*.tar"))[-1]
    shutil.copy2(built, IMAGES / "sluice.tar")


MAKERS = {"pause": pause, "box": box, "sluice": sluice}
# What only a scenario gives to the nodes.
OF_SCENARIOS = {"nvidia": nvidia}


def make(name, again=False):
    """The archive of an image, made if it is not there."""
    path = IMAGES / f"{name}.tar"
    IMAGES.mkdir(parents=True, exist_ok=True)
    if again or not path.exists():
        print(f"cluster: image {name}", flush=True)
        {**MAKERS, **OF_SCENARIOS}[name]()
    return path
