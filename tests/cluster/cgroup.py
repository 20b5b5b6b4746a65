# SPDX-License-Identifier: Apache-2.0
"""The control group of a node, in every hierarchy of this machine (both generations)."""

import pathlib

ROOT = pathlib.Path("/sys/fs/cgroup")


def hierarchies():
    if (ROOT / "cgroup.controllers").exists():
        return [ROOT]
    return [one for one in ROOT.iterdir() if one.is_dir() and not one.is_symlink()]


def make(name):
    """Makes the group `name` with what its children will need."""
    for hierarchy in hierarchies():
        group = hierarchy / name
        group.mkdir(exist_ok=True)
        # The first generation starts a group without processors.
        for setting in ("cpuset.cpus", "cpuset.mems"):
            if (group / setting).exists() and (hierarchy / setting).exists():
                (group / setting).write_text((hierarchy / setting).read_text())
        if (group / "cgroup.subtree_control").exists():
            for controller in (hierarchy / "cgroup.controllers").read_text().split():
                try:
                    (hierarchy / "cgroup.subtree_control").write_text(f"+{controller}")
                    (group / "cgroup.subtree_control").write_text(f"+{controller}")
                except OSError:
                    continue  # one that this machine keeps to itself; the kubelet names it if it needs it


def remove(name):
    """Removes the group and all below it; its processes have ended."""
    for hierarchy in hierarchies():
        group = hierarchy / name
        if group.is_dir():
            for one in sorted((path for path in group.rglob("*") if path.is_dir()), reverse=True):
                one.rmdir()
            group.rmdir()


def left(name):
    return [str(hierarchy / name) for hierarchy in hierarchies() if (hierarchy / name).exists()]
