# SPDX-License-Identifier: Apache-2.0
"""The programs of a cluster, built from the Go modules in go/. They are kept under the hash of what they are made of, so
that a second build costs nothing."""

import hashlib
import json
import os
import pathlib
import re
import shutil
import subprocess
import time

from place import CACHE, HERE, Failure, alone

# What a distribution's Go is given where it is older than the modules ask for: a module of its own.
TOOLCHAIN = "go1.26.8"
BUILT_SECONDS = "built-seconds"
RENAMED = {"server": "etcd"}


def version(module, name):
    """The version of a module that go/NAME/go.mod requires."""
    return re.search(rf"{re.escape(module)} v(\S+)", (HERE / "go" / name / "go.mod").read_text()).group(1)


def flags(name):
    """What the linker writes into the programs of go/NAME: their versions, which their peers compare."""
    if name == "k8s":
        kubernetes = version("k8s.io/kubernetes", name)
        major, minor = kubernetes.split(".")[:2]
        return (f"-X k8s.io/component-base/version.gitVersion=v{kubernetes} -X k8s.io/component-base/version.gitMajor={major} "
                f"-X k8s.io/component-base/version.gitMinor={minor} -X k8s.io/client-go/pkg/version.gitVersion=v{kubernetes}")
    if name == "containerd":
        return f"-X github.com/containerd/containerd/v2/version.Version={version('github.com/containerd/containerd/v2', name)}"
    if name == "nfd":
        return f"-X sigs.k8s.io/node-feature-discovery/pkg/version.version=v{version('sigs.k8s.io/node-feature-discovery', name)}"
    return ""


def folder(name):
    """Where the programs of go/NAME are, built or not."""
    made_of = b"".join(one.read_bytes() for one in sorted((HERE / "go" / name).iterdir())) + TOOLCHAIN.encode()
    return CACHE / f"{name}-{hashlib.sha256(made_of).hexdigest()[:16]}"


def go():
    """A Go that is new enough: the machine's, else the pinned one, which the module proxy has."""
    found = shutil.which("go")
    if not found:
        raise Failure("Go is not installed; run tools/setup conformance")
    release = re.search(r"go1\.(\d+)", subprocess.run([found, "version"], capture_output=True, text=True, check=True).stdout)
    if int(release.group(1)) >= int(TOOLCHAIN.split(".")[1]):
        return found

    module = f"golang.org/toolchain@v0.0.1-{TOOLCHAIN}.linux-amd64"
    root = CACHE / TOOLCHAIN
    if not (root / "bin/go").exists():
        print(f"cluster: fetching {TOOLCHAIN}", flush=True)
        environment = {**os.environ, "GOFLAGS": "-modcacherw", "GOTOOLCHAIN": "local"}
        subprocess.run([found, "mod", "download", module], env=environment, check=True, cwd="/")
        cache = subprocess.run([found, "env", "GOMODCACHE"], capture_output=True, text=True, check=True).stdout.strip()
        partial = root.with_suffix(".partial")
        shutil.rmtree(partial, ignore_errors=True)
        shutil.copytree(pathlib.Path(cache) / module, partial)
        for program in [*partial.glob("bin/*"), *partial.glob("pkg/tool/*/*")]:
            program.chmod(0o755)
        partial.rename(root)
    return str(root / "bin/go")


def source(module, name):
    """Where the source of a module lies that go/NAME/go.mod requires, with the objects that it brings for a cluster."""
    done = subprocess.run([go(), "mod", "download", "-json", module], cwd=HERE / "go" / name, capture_output=True, text=True,
                          env={**os.environ, "GOFLAGS": "-mod=readonly -modcacherw", "GOTOOLCHAIN": "local"}, check=False)
    if done.returncode:
        raise Failure(f"{module} cannot be had (is there a network?): {done.stdout[-500:]}")
    return pathlib.Path(json.loads(done.stdout)["Dir"])


def build(name):
    """Builds the programs of go/NAME unless they are there; their folder."""
    with alone("build"):
        return folder(name) if folder(name).exists() else build_anew(name)


def build_anew(name):
    ready = folder(name)
    print(f"cluster: building {name} (minutes, the first time)", flush=True)
    start = time.monotonic()
    partial = ready.with_name(ready.name + ".partial")
    shutil.rmtree(partial, ignore_errors=True)
    partial.mkdir(parents=True)
    environment = {**os.environ, "GOBIN": str(partial), "GOFLAGS": "-mod=readonly", "GOTOOLCHAIN": "local"}
    done = subprocess.run([go(), "install", "-trimpath", "-buildvcs=false", "-ldflags", f"-s -w {flags(name)}", "tool"],
                          cwd=HERE / "go" / name, env=environment, check=False)
    if done.returncode:
        raise Failure(f"building tests/cluster/go/{name} failed (is there a network?)")
    for old, new in RENAMED.items():
        if (partial / old).exists():
            (partial / old).rename(partial / new)
    partial.rename(ready)
    (ready / BUILT_SECONDS).write_text(f"{time.monotonic() - start:.0f}")
    print(f"cluster: {name} built in {(time.monotonic() - start) / 60:.1f} min", flush=True)
    return ready


def built_seconds():
    """How long each group of programs took to build, where that was written down."""
    return {name: int((folder(name) / BUILT_SECONDS).read_text()) for name in ALL if (folder(name) / BUILT_SECONDS).exists()}


def old_containerd():
    """The folder of Debian's containerd (1.6 in Debian 12), taken out of its package without installing it."""
    ready = CACHE / "debian-containerd"
    with alone("containerd"):
        if not ready.exists():
            if not shutil.which("apt-get"):
                raise Failure("Debian's containerd is had by apt-get, which this machine has not")
            partial = ready.with_suffix(".partial")
            shutil.rmtree(partial, ignore_errors=True)
            partial.mkdir(parents=True)
            subprocess.run(["apt-get", "-qq", "download", "containerd"], cwd=partial, check=True, stderr=subprocess.DEVNULL)
            subprocess.run(["dpkg", "-x", *map(str, partial.glob("containerd_*.deb")), str(partial / "root")], check=True)
            partial.rename(ready)
    return ready / "root/usr/bin"


# What a cluster is made of, and what only some scenarios start on it.
CLUSTER = ("k8s", "containerd", "cni", "helm")
ALL = (*CLUSTER, "nfd", "nvidia", "coredns")


def program(name):
    """The path of one built program."""
    for one in ALL:
        path = folder(one) / name
        if path.exists():
            return path
    raise Failure(f"'{name}' is not built; run tests/cluster/run build")
