# SPDX-License-Identifier: Apache-2.0
# An enforcing SELinux: the service, its jobs and their remote shell, the page, and with the modules of packaging/selinux what
# containers and the service's pod need. Debian's policy is the reference policy; its module for containers is only in
# its source and was built from that with the image (tests/vm/image.py). tests/selinux says what it lacks beside
# container-selinux and udica. GPUs are simulated: their nodes have the driver's numbers and nothing behind them, so
# that one that may be opened says "No such device", and one that SELinux keeps "Permission denied".
# packages: selinux-policy-default selinux-policy-dev selinux-policy-src policycoreutils auditd make m4 gawk zstd podman crun busybox-static
# arguments: security=selinux selinux=1 enforcing=0
# memory: 2048
# minutes: 40
# files: packaging/selinux/sluice.cil packaging/selinux/sluice-gpu.cil packaging/selinux/sluice-jobs.cil tests/selinux/debian.cil tests/selinux/udica.cil
. /test/lib.sh

log=/var/log/audit/audit.log
image=localhost/test:1
runs_as() { # PROGRAM TYPE
	ps -e -o label,comm | grep " $1" | grep -q ":$2:" || { ps -e -o label,comm && return 1; }
}
# What was denied to the service, its jobs and what is in containers. Not by us: a shell that opens a node without a driver has the
# kernel look for one.
denials() {
	grep -a -h 'avc: *denied' "$log" | grep -a -E 'comm="sluice|sluice\.process|container_t|xserver_misc_device_t' | grep -a -v -E 'module_request|comm="runcon"'
}
outputs_in_order() {
	sluice run --gpus 0 --name order -- sh -c 'for i in 1 2 3; do echo $i; sleep 0.2; echo $i$i >&2; sleep 0.2; done' >/dev/null 2>&1
	[ "$(sluice logs order 2>/dev/null | grep -v "==>" | tr '\n' ' ')" = "1 11 2 22 3 33 " ] || { sluice logs order && return 1; }
}
no_denials() { [ -z "$(denials)" ] || { denials && return 1; }; }
in_container() { # OPTIONS... SCRIPT
	podman run --rm --network none "$@"
}
in_pod() { podman exec pod /bin/busybox sh -c "$1"; }
opens='for node in "$@"; do (: <"$node") 2>&1; done'
# By hand, past the container's own nodes, as a container has it that cannot make nodes: of an ordinary user, or with a volume.
bound() { in_container --device-cgroup-rule "c 195:* rwm" -v /dev/nvidia0:/dev/nvidia0 "$image" sh -c "$opens" sh /dev/nvidia0; }

# --- enforcing, on a labelled tree ---
check "the tree has labels" has ":shadow_t:" ls -Z /etc/shadow
check "systemd has a type" runs_as systemd init_t
cd /test/files
check "our modules load" semodule -i debian.cil udica.cil sluice.cil sluice-gpu.cil sluice-jobs.cil
cd /
chcon -t bin_t /usr/bin/crun # debian.cil says why
systemctl start auditd.service
check "SELinux enforces" setenforce 1
check "which can be seen" has "ermission denied" runcon -t container_t cat /etc/shadow

# --- the service ---
check "the package installs" apt-get -q install -y --no-install-recommends /test/new.deb
check "the service is up" until_true systemctl is-active sluice.service
systemctl stop sluice.service
check "a simulated machine" sluice sim start --root /srv/sim --profile dgx-a100 --gpus 2 --dev-style nvidia
check "its files have the labels of a driver's" setfiles -F -r /srv/sim /etc/selinux/default/contexts/files/file_contexts /srv/sim
for i in 0 1; do mknod -m 666 /dev/nvidia$i c 195 $i; done
restorecon /dev/nvidia0 /dev/nvidia1
check "as the nodes have" has ":xserver_misc_device_t:" ls -Z /dev/nvidia0
mkdir -p /srv/sim/var/run/cdi /run/cdi /etc/systemd/system/sluice.service.d
mount --bind /srv/sim/var/run/cdi /run/cdi
{
	echo "[Service]"
	sluice sim env --root /srv/sim | sed -n "s/^export \(LD_LIBRARY_PATH\|SLUICE_SIM_STATE\|SLUICE_ROOT\)='\(.*\)'.*/Environment=\1=\2/p"
} >/etc/systemd/system/sluice.service.d/sim.conf
systemctl daemon-reload
check "the service starts on it" systemctl start sluice.service
check "and sees its GPUs" until_true has "2 simulated" sluice agent status
for program in sluice sluice-web sluice-supervis; do
	check "$program runs as services without a type do" runs_as $program initrc_t
done
check "a job runs" has "GPU-51ce51ce" sluice run -- sh -c 'echo $CUDA_VISIBLE_DEVICES'
check "with nothing of another GPU" has "not permitted" sluice run --gpu-ids 0 -- sh -c "$opens" sh /dev/nvidia1
check "and limits" sluice run --gpus 0 --mem 64Mi --pids 20 -- true
check "both outputs are in their order" outputs_in_order
check "workers have a remote shell" has "worker 1" sluice run --workers 2 --name sum -- \
	sh -c '$HYDRA_LAUNCHER_EXEC -x -n me@sum-worker-1 echo worker \$SLUICE_WORKER'
check "metrics are served" has "sluice_gpus 2" busybox wget -q -O - http://127.0.0.1:9400/metrics
check "and the page" has "<!doctype" busybox wget -q -O - http://127.0.0.1:9400/

# --- containers ---
mkdir -p /test/image/bin /test/image/usr
cp /bin/busybox /test/image/bin/
for name in sh cat head; do ln -s busybox "/test/image/bin/$name"; done
ln -s usr/lib /test/image/lib
ln -s usr/lib64 /test/image/lib64
for name in tmp proc dev sys etc/cdi run srv/pod var/lib/sluice var/lib/kubelet/device-plugins var/lib/kubelet/pod-resources; do
	mkdir -p "/test/image/$name"
done
tar -C /test/image -c . >/test/image.tar
check "podman takes an image" podman import -q /test/image.tar "$image"
restorecon -R /var/lib/containers
check "a container is confined" has ":container_t:" in_container "$image" cat /proc/self/attr/current
check "it opens the GPU that it was given" has "No such device" in_container --device sluice.sim/gpu=0 "$image" sh -c "$opens" sh /dev/nvidia0
check "and no other" has "o such file" in_container --device sluice.sim/gpu=0 "$image" sh -c "$opens" sh /dev/nvidia1
check "it reads the driver's library" has ELF in_container --device sluice.sim/gpu=0 "$image" head -c 4 /usr/lib/x86_64-linux-gnu/libcuda.so.1
check "a job's container does" has "No such device" sluice run --gpu-ids 1 --image "$image" --pull never -- sh -c "$opens" sh /dev/nvidia1
check "the host's own node, with sluice-gpu.cil" has "No such device" bound

# --- the service as the pod of the profile restricted ---
mkdir -p /srv/pod /var/lib/sluice-pod /var/lib/kubelet/device-plugins /var/lib/kubelet/pod-resources /etc/cdi
restorecon -RF /var/lib/kubelet /var/lib/sluice-pod /etc/cdi
sluice sim start --root /srv/pod/root --state /srv/pod/state --profile dgx-a100 --gpus 2 --dev-style nvidia >/dev/null
chcon -R -t container_file_t /srv/pod # what the runtime would have put into the pod
chcon -t xserver_misc_device_t /srv/pod/root/dev/nvidia[0-9c]*[0-9l]
pod="--detach --name pod --network none --read-only --read-only-tmpfs=false --cap-drop all --security-opt no-new-privileges
	--security-opt label=type:sluice.process --tmpfs /run --volume /usr:/usr:ro --volume /srv/pod:/srv/pod
	--volume /var/lib/sluice-pod:/var/lib/sluice --volume /var/lib/kubelet/device-plugins:/var/lib/kubelet/device-plugins
	--volume /var/lib/kubelet/pod-resources:/var/lib/kubelet/pod-resources:ro --volume /etc/cdi:/etc/cdi:ro
	--env SLUICE_SIM_STATE=/srv/pod/state --env SLUICE_ROOT=/srv/pod/root
	--env LD_LIBRARY_PATH=/usr/lib/x86_64-linux-gnu/sluice/sim/580"
check "a pod of the service" podman run $pod "$image" /bin/busybox sh -c 'exec /usr/bin/sluice agent'
check "runs as its own type" runs_as sluice sluice.process
check "it sees GPUs" until_true has "2 simulated" in_pod "/usr/bin/sluice agent status"
check "it serves metrics" has "sluice_gpus 2" nsenter --net --target "$(podman inspect --format '{{.State.Pid}}' pod)" \
	busybox wget -q -O - http://127.0.0.1:9400/metrics
check "it has written its state" test -s /var/lib/sluice-pod/queue.db
check "it ends when it is told to" podman stop --time 20 pod
podman logs pod 2>&1 | sed 's/^/# pod: /'
podman rm --force pod >/dev/null

check "nothing of ours was denied" no_denials

# --- without a module, something is ---
check "the module for GPUs is taken away" semodule -r sluice-gpu
check "the host's own node is kept from a container" has "ermission denied" bound
check "not the node that the runtime makes" has "No such device" in_container --device sluice.sim/gpu=0 "$image" sh -c "$opens" sh /dev/nvidia0
check "the denial is in the log" has "xserver_misc_device_t" denials
finish
