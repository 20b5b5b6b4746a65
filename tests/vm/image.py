# SPDX-License-Identifier: Apache-2.0
"""The disk that all machines start from: a Debian 12 with every package that a scenario wants, made once and kept under a
hash of what it is made of. Each machine writes into an overlay of its own."""

import contextlib
import fcntl
import hashlib
import os
import pathlib
import shutil
import subprocess
import tempfile
import time

SIZE_MIB = 6144  # sparse: what lies in it is a sixth of that
# The whole kernel, not the one for clouds: rdma_rxe, XFS and netem are in this one only. A package that one scenario alone wants
# stands in its comment instead.
PACKAGES = set("""
	systemd-sysv udev dbus dbus-user-session libpam-systemd linux-image-amd64 procps kmod iproute2 e2fsprogs xfsprogs zstd attr
	strace podman crun runc uidmap slirp4netns fuse-overlayfs busybox-static selinux-policy-default selinux-utils policycoreutils
	auditd rdma-core ibverbs-utils perftest sqlite3
""".split())

# Small initial RAM disk: an emulated processor unpacks it at each boot. Manuals and translations are read by nobody.
BEFORE = r"""
mkdir -p "$1/etc/initramfs-tools/conf.d" "$1/etc/dpkg/dpkg.cfg.d"
printf 'MODULES=list\n' >"$1/etc/initramfs-tools/conf.d/vm"
printf 'virtio_pci\nvirtio_blk\next4\n' >"$1/etc/initramfs-tools/modules"
printf 'path-exclude=/usr/share/man/*\npath-exclude=/usr/share/locale/*\npath-exclude=/usr/share/doc/*\nforce-unsafe-io\n' \
	>"$1/etc/dpkg/dpkg.cfg.d/vm"
"""

# What the packages of one scenario would start in the machines of all others is off; a scenario starts what it wants. What it
# runs comes from outside at each boot, so that the image stays the same when a scenario changes.
# The mount is tried again: while udev loads 9pnet_virtio, the transport is known and its devices are not ("no channels available").
AFTER = r"""
rm -f "$1"/etc/systemd/system/multi-user.target.wants/* "$1"/etc/systemd/system/timers.target.wants/*
mkdir -p "$1/host" "$1/test" "$1/etc/systemd/system/timers.target.wants"
cat >"$1/etc/systemd/system/scenario.service" <<'TXT'
[Unit]
After=multi-user.target
[Service]
Type=oneshot
StandardOutput=tty
StandardError=inherit
TTYPath=/dev/ttyS1
TimeoutStartSec=infinity
ExecStart=/bin/sh -c "until mount -t 9p -o trans=virtio,version=9p2000.L,msize=131072,cache=none host /host; do sleep 0.2; done; exec sh /host/in/start"
TXT
printf '[Timer]\nOnBootSec=1\nAccuracySec=1ms\n' >"$1/etc/systemd/system/scenario.timer"
ln -s ../scenario.timer "$1/etc/systemd/system/timers.target.wants/scenario.timer"
ln -sf /dev/null "$1/etc/systemd/system/serial-getty@ttyS0.service"
ln -sf /dev/null "$1/etc/systemd/system/serial-getty@ttyS1.service"
printf '/dev/vda / ext4 defaults 0 1\n' >"$1/etc/fstab"
sed -i 's/slumber=30$/slumber=600/' "$1/usr/share/initramfs-tools/scripts/local" # on a busy machine the disk is found late
chroot "$1" update-initramfs -u
"""

# Labels for machines that boot with SELinux; the others do not look at them. Debian has the reference policy's module for
# containers in the source of its policy only. /proc of its own, or setfiles would take the tree for a file system without labels.
LABEL = r"""
set -e
mount -t proc none /proc
mkdir /tmp/policy
cd /tmp/policy
tar --zstd --strip-components=4 -xf /usr/src/selinux-policy-src.tar.zst --wildcards 'selinux-policy-src/policy/modules/services/container.*'
make -s -f /usr/share/selinux/devel/Makefile container.pp >make.log 2>&1 || { cat make.log; exit 1; }
semodule -n -i container.pp
cd /
rm -r /tmp/policy
sed -i 's/^SELINUX=.*/SELINUX=enforcing/' /etc/selinux/config
setfiles -F /etc/selinux/default/contexts/files/file_contexts /
"""


class Failure(Exception):
    """What this machine cannot do, or what went wrong; the text says it."""


def needed_by(deb):
    """The packages that ours depends on: a machine has no network to get them from."""
    field = subprocess.run(["dpkg-deb", "--field", deb, "Depends"], check=True, capture_output=True, text=True).stdout
    return {one.split("(")[0].split("|")[0].strip() for one in field.split(",") if one.strip()}


def name_of(packages):
    made_of = "\n".join([*sorted(packages), BEFORE, AFTER, LABEL, str(SIZE_MIB), os.environ.get("DEBIAN_MIRROR", "")])
    return hashlib.sha256(made_of.encode()).hexdigest()[:16]


def make(place, packages):
    """Makes place, a directory with disk, kernel and initrd; whole or not at all."""
    new = pathlib.Path(tempfile.mkdtemp(prefix="new.", dir=place.parent))
    try:
        before, after = new / "before", new / "after"
        before.write_text("#!/bin/sh\nset -e\n" + BEFORE)
        after.write_text("#!/bin/sh\nset -e\n" + AFTER)
        before.chmod(0o700)
        after.chmod(0o700)
        root = new / "root"
        mirror = [os.environ["DEBIAN_MIRROR"]] if os.environ.get("DEBIAN_MIRROR") else []
        # What it mounts below the root is seen by nobody else, and gone with it, however it ends: the tree is taken away below.
        subprocess.run(
            ["unshare", "--mount", "mmdebstrap", "--quiet", "--variant=apt", f"--include={','.join(sorted(packages))}",
             f"--setup-hook={before} \"$1\"", f"--customize-hook={after} \"$1\"", "--format=directory", "bookworm", root, *mirror],
            check=True)
        # An empty one is filled at each first boot; without one systemd would enable all services again.
        (root / "etc/machine-id").write_text("")
        shutil.copy(next(root.glob("boot/vmlinuz-*")), new / "kernel")
        shutil.copy(next(root.glob("boot/initrd.img-*")), new / "initrd")
        if (root / "usr/src/selinux-policy-src.tar.zst").exists():
            subprocess.run(["unshare", "--mount", "chroot", root, "sh", "-c", LABEL], check=True)
        subprocess.run(["mke2fs", "-q", "-F", "-t", "ext4", "-d", root, new / "disk", f"{SIZE_MIB}M"], check=True)
        (new / "packages").write_text("\n".join(sorted(packages)) + "\n")
        shutil.rmtree(root)
        before.unlink()
        after.unlink()
        new.chmod(0o755)
        new.rename(place)
    except subprocess.CalledProcessError as error:
        raise Failure(f"no image: {error}") from None
    finally:
        shutil.rmtree(new, ignore_errors=True)


def drop_others(images, keep):
    """Takes away images that were made of something else and that nobody runs from."""
    for other in images.iterdir():
        if other == keep or not (other / "disk").exists():
            continue
        with open(other / "disk") as disk, contextlib.suppress(BlockingIOError):
            fcntl.flock(disk, fcntl.LOCK_EX | fcntl.LOCK_NB)
            shutil.rmtree(other)


def get(images, packages, fresh, say):
    """The directory of the image, made if it is not there, and a lock that keeps it as long as it is open."""
    images.mkdir(parents=True, exist_ok=True)
    place = images / name_of(packages)
    with open(images / "lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        for unfinished in images.glob("new.*"):
            shutil.rmtree(unfinished)
        if fresh:
            shutil.rmtree(place, ignore_errors=True)
        if not place.exists():
            say(f"making the image, a Debian 12 with {len(packages)} packages and what they need")
            start = time.monotonic()
            make(place, packages)
            used = (place / "disk").stat().st_blocks * 512 // 2**20
            say(f"image {place.name} made in {time.monotonic() - start:.0f} s, {used} MiB")
        held = open(place / "disk")
        fcntl.flock(held, fcntl.LOCK_SH)
        drop_others(images, place)
    return place, held
