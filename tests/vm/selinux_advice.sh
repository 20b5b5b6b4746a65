# SPDX-License-Identifier: Apache-2.0
# An enforcing SELinux on which nothing was prepared: `sluice doctor` and `sluice runtime configure` say that it keeps the host's nodes
# of GPUs from containers and what to do, and doing that, to the letter, is enough. Permissive and without a policy for containers they
# say nothing. The nodes have the driver's numbers and nothing behind them, as in selinux.sh.
# packages: selinux-policy-default selinux-policy-dev selinux-policy-src policycoreutils auditd make m4 gawk zstd podman crun busybox-static
# arguments: security=selinux selinux=1 enforcing=0
# memory: 2048
# minutes: 40
# files: tests/selinux/debian.cil
. /test/lib.sh

image=localhost/test:1
mode() { sluice doctor --all --only selinux.mode; }
configure() { sluice runtime configure --runtime podman; }
opens='for node in "$@"; do (: <"$node") 2>&1; done'
# By hand, past the container's own nodes, as a container has it that cannot make nodes: of an ordinary user, or with a volume.
bound() {
	podman run --rm --network none --device-cgroup-rule "c 195:* rwm" -v /dev/nvidia0:/dev/nvidia0 "$image" sh -c "$opens" sh /dev/nvidia0
}

check "the package installs" apt-get -q install -y --no-install-recommends /test/new.deb
check "what the host's policy lacks beside container-selinux loads" semodule -i /test/files/debian.cil
chcon -t bin_t /usr/bin/crun # debian.cil says why
mknod -m 666 /dev/nvidia0 c 195 0
restorecon /dev/nvidia0
mkdir -p /test/image/bin
cp /bin/busybox /test/image/bin/
for name in sh cat; do ln -s busybox "/test/image/bin/$name"; done
mkdir -p /test/image/tmp /test/image/proc /test/image/dev /test/image/sys /test/image/etc /test/image/run
tar -C /test/image -c . >/test/image.tar
check "podman takes an image" podman import -q /test/image.tar "$image"
restorecon -R /var/lib/containers

# --- permissive ---
check "permissive, doctor finds nothing" has "permissive" mode
check "nor does runtime configure" not has "SELinux" configure
check "and a container opens the host's node" has "No such device" bound

# --- enforcing ---
check "SELinux enforces" setenforce 1
check "the kernel's boolean for devices is not in this policy" not test -e /sys/fs/selinux/booleans/container_use_devices
check "the node is kept from a container" has "ermission denied" bound
check "doctor says so" has "no rule for the GPUs' nodes" mode
check "runtime configure warns" has "warning: SELinux is enforcing and keeps containers from the host's nodes of GPUs" configure
check "what it says beside the module works, too" has "No such device" \
	podman run --rm --network none --device-cgroup-rule "c 195:* rwm" --security-opt label=disable -v /dev/nvidia0:/dev/nvidia0 "$image" \
	sh -c "$opens" sh /dev/nvidia0

# --- the advice, to the letter ---
of_doctor=$(sluice doctor --only selinux.mode --output json | grep -o 'semodule -i [^"]*')
of_configure=$(configure 2>&1 | sed -n "s/^warning: .*'\(semodule -i [^']*\)'.*/\1/p")
echo "# $of_doctor"
check "doctor names a command" test -n "$of_doctor"
check "the same as runtime configure" test "$of_doctor" = "$of_configure"
check "it is done" sh -c "$of_doctor"
check "the container opens the node now" has "No such device" bound
check "doctor is content" has "containers may use devices" mode
check "and runtime configure" not has "SELinux" configure
check "taken back, it is kept from it again" semodule -r sluice-gpu
check "and that is told" has "no rule for the GPUs' nodes" mode
finish
