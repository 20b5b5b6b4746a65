# SPDX-License-Identifier: Apache-2.0
"""The cgroups of an agent: those of one that was killed nobody else removes."""

import os

MOUNT = "/sys/fs/cgroup"


def digest(text):
    """As jobgroup_digest(): FNV-1a."""
    value = 14695981039346656037
    for byte in os.fsencode(text):
        value = (value ^ byte) * 1099511628211 % (1 << 64)
    return f"{value:016x}"


def remove(state_directory):
    # in cgroup v2 alone, or beside the old hierarchies, in which podman makes groups of the same name
    mounts = [MOUNT, *(entry.path for entry in os.scandir(MOUNT) if entry.is_dir())] if os.path.isdir(MOUNT) else []
    for mount in mounts:
        top = os.path.join(mount, f"sluice-{digest(str(state_directory))}")
        for folder, _, _ in os.walk(top, topdown=False):
            try:
                os.rmdir(folder)
            except OSError:
                pass  # a process is in it


def named(name):
    """Every group of that name, in whatever hierarchy. Those of other agents come and go meanwhile: no glob, which stumbles
    over one that has just gone."""
    return [os.path.join(folder, name) for folder, below, _ in os.walk(MOUNT) if name in below]
