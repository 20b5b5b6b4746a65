# SPDX-License-Identifier: Apache-2.0
# The package and its units: installed, a service that is up, jobs below what systemd has delegated, restart, upgrade and
# stop under running jobs, the agent of a user, removal, purge.
. /test/lib.sh

scope=/sys/fs/cgroup/sluice.slice/sluice-jobs.scope

# submit NAME OPTION...: a job that runs until /test/NAME.go is there, and exits with 7. Its number.
submit() {
	name=$1
	shift
	sluice run --detach --gpus 0 "$@" -- sh -c "while [ ! -e /test/$name.go ]; do sleep 0.2; done; exit 7"
}
field() { # of a job in JSON
	sluice jobs "$1" --output json | sed -n "s/^.*\"$2\": *\"\{0,1\}\([^\",]*\)\"\{0,1\}.*$/\1/p" | head -n 1
}
group() { field "$1" cgroup; }
is_state() { [ "$(field "$1" state)" = "$2" ]; }
has_exited() { [ "$(field "$1" exit_code)" = "$2" ]; }
lies_below() { case $(group "$1") in "$2"/job-"$1"-*) ;; *) group "$1" && return 1 ;; esac; }
lives() { [ -n "$(cat "$(group "$1")/cgroup.procs")" ]; }
holds() { [ "$(cat "$1")" = "$2" ] || { cat "$1" && return 1; }; }
is_there() { ls -d $1; } # a pattern
ctl_user() { runuser -u tester -- env XDG_RUNTIME_DIR=/run/user/4000 systemctl --user "$@"; }
as_user() { runuser -u tester -- env HOME=/home/tester XDG_RUNTIME_DIR=/run/user/4000 "$@"; }

# --- installed ---
check "the package installs" apt-get -q install -y --no-install-recommends /test/old.deb
check "later runs of apt work" apt_works
check "the account is made" getent passwd sluice
check "the service is up" systemctl is-active sluice.service
check "systemd understands its units" not has "sluice.service:" journalctl --no-pager --boot --identifier systemd --grep "Unknown key\|Failed to parse"

# --- a job ---
a=$(submit a)
check "a job runs" until_true is_state "$a" Running
check "its group is below the scope" lies_below "$a" "$scope"
check "its processes are in it" lives "$a"
check "systemd has delegated the scope" has Delegate=yes systemctl show --property=Delegate sluice-jobs.scope
check "the scope has a keeper" has "sluice-supervise --keep" systemd-cgls --no-pager --full "$scope/supervisors"
check "the top of the hierarchy is systemd's" not is_there "/sys/fs/cgroup/sluice-*"
check "systemd-cgls shows it" has "job-$a-" systemd-cgls --no-pager --unit sluice-jobs.scope
check "systemd-cgtop shows it" has "sluice.slice/sluice-jobs.scope/job-$a-" systemd-cgtop --batch --iterations=2 --delay=1
m=$(submit m --mem 64Mi --cpus 0.5)
until_true is_state "$m" Running
check "the limit of its memory is the kernel's" holds "$(group "$m")/memory.max" 67108864
check "that of its processors as well" holds "$(group "$m")/cpu.max" "50000 100000"
check "and that of its processes" holds "$(group "$a")/pids.max" "$(cat "$(group "$m")/pids.max")"
check "its memory is accounted" test "$(cat "$(group "$m")/memory.current")" -gt 0
check "all of them are limited by the slice" systemctl set-property --runtime sluice.slice MemoryMax=1G
check "which is the kernel's, too" holds /sys/fs/cgroup/sluice.slice/memory.max 1073741824
check "isolation needs no excuse" not has "counted only" sluice jobs "$m"

# --- the service comes and goes ---
check "its supervisors leave the service" until_true not has sluice-supervise systemd-cgls --no-pager --unit sluice.service
check "a restart" systemctl restart sluice.service
check "leaves the job" lives "$a"
check "and the next agent takes it over" until_true is_state "$a" Running
check "nothing was left over in the service" not has left-over journalctl --no-pager --unit sluice.service
check "systemd reads its units again" systemctl daemon-reload
check "and is started again" systemctl daemon-reexec
check "which leaves the group" lies_below "$a" "$scope"
check "and its limit" holds "$(group "$m")/memory.max" 67108864
check "the service stops" systemctl stop sluice.service
check "which leaves nothing of it" not test -e /sys/fs/cgroup/system.slice/sluice.service
check "but the job" test -n "$(cat "$scope/job-$a-"*/cgroup.procs)"
check "and starts" systemctl start sluice.service
check "with the job" until_true is_state "$a" Running

# --- replaced by a newer one ---
before=$(systemctl show --property=MainPID sluice.service)
check "an upgrade" apt-get -q install -y --no-install-recommends /test/new.deb
check "is no problem of apt's" apt_works
check "restarts the service" not has "$before" systemctl show --property=MainPID sluice.service
check "and leaves the job" until_true is_state "$a" Running
b=$(submit b)
check "a new job starts" until_true is_state "$b" Running
check "below the scope" lies_below "$b" "$scope"
touch /test/a.go /test/m.go
check "the old one ends" until_true has_exited "$a" 7
check "and its group is gone" until_true not is_there "$scope/job-$a-*"
check "the top is still systemd's" not is_there "/sys/fs/cgroup/sluice-*"

# --- an administrator ends all jobs ---
check "the scope is stopped" systemctl stop sluice-jobs.scope
check "which ends the job" until_true has_exited "$b" 143
c=$(submit c)
check "the next job" until_true is_state "$c" Running
check "has a new scope" lies_below "$c" "$scope"

# --- of a user ---
useradd --create-home --uid 4000 tester
check "a user's systemd starts" loginctl enable-linger tester
until_true test -S /run/user/4000/systemd/private
check "and a service of the user's" ctl_user start sluice.service
u=$(as_user sluice run --socket /run/user/4000/sluice/agent.sock --detach --gpus 0 --mem 64Mi -- sleep 600)
users=/sys/fs/cgroup/user.slice/user-4000.slice/user@4000.service/sluice.slice/sluice-jobs.scope
check "its jobs are below the user's scope" until_true is_there "$users/job-$u-*"
check "with a limit" holds "$(echo "$users/job-$u-"*)/memory.max" 67108864
check "which a restart leaves" ctl_user restart sluice.service
check "with the job" test -n "$(cat "$users/job-$u-"*/cgroup.procs)"
check "the user's service stops" ctl_user stop sluice.service

# --- gone ---
check "the package is removed under a running job" apt-get -q remove -y sluice
check "apt works" apt_works
check "the service is gone" not systemctl is-active sluice.service
check "the job goes on" test -n "$(cat "$scope/job-$c-"*/cgroup.procs)"
check "it is installed again" apt-get -q install -y --no-install-recommends /test/new.deb
check "and knows the job" until_true is_state "$c" Running
touch /test/c.go
check "which ends" until_true has_exited "$c" 7
check "removed without a job" apt-get -q remove -y sluice
check "the scope ends" until_true not test -e "$scope"
check "installed once more" apt-get -q install -y --no-install-recommends /test/new.deb
d=$(submit d)
until_true is_state "$d" Running
check "purged under a running job" apt-get -q purge -y sluice
check "nothing of it is left" not pgrep -u root -f sluice-supervise
check "in the hierarchy neither" until_true not test -e "$scope"
check "nor of its files" not test -e /var/lib/sluice
check "nor of its unit" not has sluice systemctl list-units --all --plain --no-legend "sluice.service"
check "and apt works" apt_works
finish
