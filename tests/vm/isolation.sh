# SPDX-License-Identifier: Apache-2.0
# What keeps jobs apart where systemd has the whole hierarchy and there is cgroup v2 alone: device rules, Landlock, limits, of
# the machine's service and of a lingering user's own agent, and containers of podman with systemd's cgroups, as root and as
# that user, with crun and runc. The GPUs are simulated: their nodes have the driver's numbers and nothing behind them, so
# one that may be opened says ENXIO, one that a cgroup denies EPERM, and one that Landlock denies EACCES.
# packages: podman crun runc uidmap slirp4netns busybox-static dbus-user-session
# memory: 2048
# minutes: 40
. /test/lib.sh

image=localhost/test:1
scope=/sys/fs/cgroup/sluice.slice/sluice-jobs.scope
users=/sys/fs/cgroup/user.slice/user-4000.slice/user@4000.service/sluice.slice/sluice-jobs.scope

# Run by a job: what the nodes of four GPUs say, as "0=ENXIO 1=EPERM ...", and those of what it makes itself.
cat >/test/nodes <<'TXT'
said() { case $1 in *"No such device"*) echo ENXIO ;; *"not permitted"*) echo EPERM ;; *"ermission denied"*) echo EACCES ;;
	*"o such file"*) echo none ;; *) echo "$1" ;; esac; }
opens() { said "$( (: <"$1") 2>&1)"; }
for i in 0 1 2 3; do
	printf '%s=%s ' "$i" "$(opens "${1:-/dev}/nvidia$i")"
done
if mknod /tmp/made.$$ c 195 1 2>/dev/null; then
	echo "made=$(opens /tmp/made.$$)"
else
	echo made=none
fi
TXT
# The words of the four nodes where GPU $1 is the job's and the others say $2.
only() {
	for i in 0 1 2 3; do
		[ "$i" = "$1" ] && printf '%s=ENXIO ' "$i" || printf '%s=%s ' "$i" "$2"
	done
}
field() { # of a job in JSON: NUMBER FIELD
	$as sluice jobs "$1" --output json | sed -n "s/^.*\"$2\": *\"\{0,1\}\([^\",]*\)\"\{0,1\}.*$/\1/p" | head -n 1
}
last() { # number of the latest job
	$as sluice jobs --all --output json | sed -n 's/^.*"id": *\([0-9]*\).*$/\1/p' | sort -n | tail -n 1
}
is() { # NUMBER FIELD VALUE
	found=$(field "$1" "$2")
	[ "$found" = "$3" ] || { echo "$found" && $as sluice jobs "$1" && return 1; }
}
holds() { [ "$(cat "$1")" = "$2" ] || { cat "$1" && return 1; }; }
run() { $as sluice run "$@"; }
nodes() { # OPTIONS...: what a job says of the nodes
	run --gpu-ids 2 "$@" -- sh /test/nodes
}
container() { # OPTIONS...: what a job's container says of the nodes
	run --gpu-ids 2 --image "$image" --pull never "$@" -- sh -c "$(cat /test/nodes)"
}
as_user() { runuser -u tester -- env -C / HOME=/home/tester XDG_RUNTIME_DIR=/run/user/4000 DBUS_SESSION_BUS_ADDRESS=unix:path=/run/user/4000/bus "$@"; }
lies_below() { case $(field "$1" cgroup) in "$2"/job-"$1"-*) ;; *) field "$1" cgroup && return 1 ;; esac; }
has_container() { [ -n "$(find "$(field "$1" cgroup)" -name 'libpod-*')" ]; } # below the job's group
no_containers() { [ -z "$($as podman ps --all --quiet)" ] || { $as podman ps --all && $as sluice jobs --all && return 1; }; }
waits_in() { until_true is "$1" state Running; }
podmans() { # GPU OPTIONS...: what a container says that is started without us
	gpu=$1
	shift
	$as podman run --rm --network none "$@" --device "sluice.sim/gpu=$gpu" "$image" sh -c "$(cat /test/nodes)"
}
# shows_groups SLICE: what the kernel says of a container of podman's, which src/hardware/belonging.c reads (tests/fixtures/cgroups.json).
# It is shown with the monitor's, which is no part of the container and lies where podman was called or in a scope of its own.
shows_groups() {
	id=$($as podman run --detach --network none --cgroup-manager systemd "$image" sleep 600)
	groups=$(for what in Pid ConmonPid; do cat "/proc/$($as podman inspect --format "{{.State.$what}}" "$id")/cgroup"; done)
	echo "# $runtime, $groups" | tr '\n' ' ' && echo
	check "$runtime: podman's container has a scope of systemd's" has "$1/libpod-$id.scope" echo "$groups"
	$as podman rm --force --time 0 "$id" >/dev/null
}

# limits WHERE: those of a job are the kernel's, and its processes are stopped by them.
limits() {
	number=$(run --detach --gpus 0 --mem 64Mi --cpus 0.5 --pids 20 -- sleep 600)
	check "$1: a job with limits runs" waits_in "$number"
	group=$(field "$number" cgroup)
	check "$1: its memory" holds "$group/memory.max" 67108864
	check "$1: its processors" holds "$group/cpu.max" "50000 100000"
	check "$1: its processes" holds "$group/pids.max" 20
	check "$1: it is cancelled" $as sluice cancel --quiet "$number"
	check "$1: more processes than it may have fail" has "fork" run --gpus 0 --pids 20 -- \
		sh -c 'for i in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22; do sleep 5 & done; wait'
	check "$1: more memory than it may have ends it" not run --gpus 0 --mem 64Mi -- \
		perl -e '$a = "x" x (200 << 20); print length $a'
}

# --- the simulated machine, where the host has its own ---
sluice_there() { apt-get -q install -y --no-install-recommends /test/new.deb; }
check "the package installs" sluice_there
systemctl stop sluice.service
check "a simulated machine" sluice sim start --root /srv/sim --profile dgx-a100 --gpus 4 --dev-style nvidia
cp -a /srv/sim/dev/nvidia* /srv/sim/dev/dri /dev/
mkdir -p /srv/sim/var/run/cdi /run/cdi /etc/systemd/system/sluice.service.d /home/tester/.config/systemd/user/sluice.service.d
mount --bind /srv/sim/var/run/cdi /run/cdi
sluice sim env --root /srv/sim | sed -n "s/^export \(LD_LIBRARY_PATH\|SLUICE_SIM_STATE\|SLUICE_ROOT\)='\(.*\)'.*/Environment=\1=\2/p" \
	>/test/environment
{ echo "[Service]" && cat /test/environment; } >/etc/systemd/system/sluice.service.d/sim.conf
cp /etc/systemd/system/sluice.service.d/sim.conf /home/tester/.config/systemd/user/sluice.service.d/
systemctl daemon-reload
check "the service is up" systemctl start sluice.service
as=
until_true has simulated sluice agent status
check "it has specified the GPUs" until_true test -s /run/cdi/sluice.sim-gpu.json
mkdir -p /test/image/bin /test/image/tmp /test/image/proc /test/image/dev /test/image/sys /test/image/etc
cp /bin/busybox /test/image/bin/
for name in sh cat ls mknod sleep; do ln -s busybox "/test/image/bin/$name"; done
tar -C /test/image -c . >/test/image.tar
chmod -R a+rX /test
check "podman takes an image" podman import -q /test/image.tar "$image"
check "its cgroups are systemd's" has systemd podman info --format '{{.Host.CgroupManager}}'
check "its layers are the kernel's overlays" has overlay podman info --format '{{.Store.GraphDriverName}}'

# --- the machine's service, bare jobs ---
check "without us they all open" has "$(only 9 ENXIO)" sh /test/nodes
check "a job of one GPU opens no other, nor one that it makes" has "$(only 2 EPERM)made=none" nodes
check "which is the work of cgroup v2" is "$(last)" isolation cgroup2
check "demanded" has "$(only 2 EPERM)" nodes --isolation cgroup
check "a job of none opens none" has "$(only 9 EPERM)" run --gpus 0 -- sh /test/nodes
check "Landlock" has "$(only 2 EACCES)" nodes --isolation landlock
check "is named" is "$(last)" isolation landlock
check "without, all of them open" has "$(only 9 ENXIO)" nodes --isolation env
check "which is said" is "$(last)" isolation env
number=$(run --detach --gpu-ids 1 -- sleep 600)
waits_in "$number"
check "the job's group is in systemd's scope" lies_below "$number" "$scope"
check "and is still there when systemd reads its units again" systemctl daemon-reload
check "and starts again" systemctl daemon-reexec
group=$(field "$number" cgroup)
check "with its rules" has "$(only 1 EPERM)" sh -c "echo \$\$ >$group/cgroup.procs && exec sh /test/nodes"
sluice cancel --quiet "$number"
limits service

# --- the machine's service, containers ---
for runtime in crun runc; do
	printf '[engine]\nruntime = "%s"\n' "$runtime" >/etc/containers/containers.conf
	check "$runtime: podman by itself gives one GPU" has "$(only 1 none)made=none" podmans 1 --cgroup-manager systemd
	shows_groups 0::/machine.slice
	check "$runtime: in a container" has "$(only 2 none)made=none" container
	check "$runtime: which is said" is "$(last)" isolation container
	number=$(run --detach --gpu-ids 2 --image "$image" --pull never -- sleep 600)
	waits_in "$number"
	check "$runtime: its group is the job's" until_true has_container "$number"
	check "$runtime: below the scope" lies_below "$number" "$scope"
	group=$(field "$number" cgroup)/launcher
	check "$runtime: with the rules around it" has "$(only 2 EPERM)" sh -c "echo \$\$ >$group/cgroup.procs && exec sh /test/nodes"
	check "$runtime: it ends" sluice cancel --quiet "$number"
	check "$runtime: and leaves nothing" until_true no_containers
done

# --- a user's own agent ---
useradd --create-home --uid 4000 tester
echo tester:100000:65536 | tee /etc/subuid >/etc/subgid
chown -R tester: /home/tester
check "a user's systemd starts" loginctl enable-linger tester
until_true test -S /run/user/4000/systemd/private
systemctl stop sluice.service
as="as_user"
check "and a service of the user's" as_user systemctl --user start sluice.service
as="as_user env SLUICE_SOCKET=/run/user/4000/sluice/agent.sock"
until_true $as sluice jobs
check "user: a job of one GPU opens no other" has "$(only 2 EACCES)made=none" nodes
check "user: which is the work of Landlock" is "$(last)" isolation landlock
check "user: cgroups have no device rules of a user's" has "is not reached" nodes --isolation cgroup
check "user: a job of none opens none" has "$(only 9 EACCES)" run --gpus 0 -- sh /test/nodes
number=$(run --detach --gpu-ids 1 -- sleep 600)
waits_in "$number"
check "user: the group is in the user's scope" lies_below "$number" "$users"
$as sluice cancel --quiet "$number"
limits user
check "user: podman takes an image" as_user podman import -q /test/image.tar "$image"
echo "# user: layers by $(as_user podman info --format '{{.Store.GraphDriverName}}')"
for runtime in crun runc; do
	printf '[engine]\nruntime = "%s"\n' "$runtime" >/etc/containers/containers.conf
	check "user, $runtime: podman by itself gives one GPU" has "$(only 1 none)made=none" podmans 1 --cgroup-manager systemd
	shows_groups 0::/user.slice/user-4000.slice/user@4000.service/user.slice
	check "user, $runtime: in a container" has "$(only 2 none)made=none" container
	check "user, $runtime: which is said" is "$(last)" isolation container
done
check "user: all of it has gone" until_true no_containers
finish
