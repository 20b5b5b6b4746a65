# SPDX-License-Identifier: Apache-2.0
# The power is cut, three times, at a random moment of a storm of submissions, ends and cancellations; the machine boots from the same
# disk. What was answered holds, nothing runs twice, the store is whole. The diary of what was asked, answered, seen and run lies
# with the host, which stays. GPUs are simulated.
# packages: perl sqlite3
# minutes: 50
. /test/lib.sh
patience=300 # a storm on a busy machine

cuts=3
diary=/host/diary
state=/var/lib/sluice

# One row a job: number, state, reason, exit code, name.
rows() {
	until answer=$(sluice jobs --all --output json 2>/dev/null); do
		sleep 0.5 # a busy machine may take longer than a client waits
	done
	printf '%s' "$answer" | perl -MJSON::PP -e '
		for (@{decode_json(join "", <STDIN>)->{jobs}}) {
			print join(" ", $_->{id}, $_->{state}, $_->{reason} || "-", $_->{exit_code} // "-", $_->{name}), "\n";
		}'
}

# submit KEY: a job of that name that says that it runs, and ends soon with its number modulo 5. After a boot it may start before the
# host's directory is there, for which it waits.
submit() {
	sluice run --detach --quiet --key "$1" --name "j-$1" --gpus $((0x$(echo "$1" | cut -c1-2) % 3)) -- sh -c "
		while [ ! -d $diary/twice ]; do sleep 0.2; done
		mkdir $diary/ran/\$SLUICE_JOB_ID.\$SLUICE_ATTEMPT || touch $diary/twice/\$SLUICE_JOB_ID.\$SLUICE_ATTEMPT
		sleep 0.\$((SLUICE_JOB_ID % 10)); exit \$((SLUICE_JOB_ID % 5))"
}

# What was asked is written down before, what was answered afterwards.
submitter() {
	while :; do
		key=$(cat /proc/sys/kernel/random/uuid)
		: >"$diary/asked/$key"
		id=$(submit "$key") && echo "$id" >"$diary/new.$1" && mv "$diary/new.$1" "$diary/answered/$key"
	done
}

# own KEY STUBBORN OPTION...: a job of the canceller's, which ends only when somebody ends it, and where STUBBORN is 1 not before
# its grace is over. A file for each attempt that has begun. Its number.
own() {
	key=$1 stubborn=$2
	shift 2
	until sluice run --detach --quiet --key "$key" --name "c-$key" "$@" -- sh -c "
		[ $stubborn = 0 ] || trap '' TERM
		while [ ! -d $diary/began ]; do sleep 0.2; done
		: >$diary/began/$key.\$SLUICE_ATTEMPT
		exec sleep 3600"; do
		sleep 1
	done
}
has_begun() { ls "$diary/began" | grep "^$1\."; } # its attempts
# cancel ID KEY HOW: once it is answered, cancelled/ID.HOW says what had begun until then.
cancel() {
	until sluice cancel "$1"; do
		sleep 1
	done
	has_begun "$2" >"$diary/new.cancelled"
	mv "$diary/new.cancelled" "$diary/cancelled/$1.$3"
}
# One job runs and keeps a GPU, so that the other, which wants all, waits. Lost with the machine, the first may run again unless it
# was cancelled; every second one still ends when the power goes.
canceller() { # CUT
	turn=1
	while :; do
		runs=$(cat /proc/sys/kernel/random/uuid)
		waits=$(cat /proc/sys/kernel/random/uuid)
		running=$(own "$runs" $((turn % 2)) --gpus 1 --grace 30s --retry-lost)
		until has_begun "$runs"; do sleep 0.2; done
		waiting=$(own "$waits" 0 --gpus 8)
		cancel "$waiting" "$waits" waits
		cancel "$running" "$runs" runs
		: >"$diary/both.$1"
		turn=$((turn + 1))
	done
}
has_both() { [ -e "$diary/both.$1" ] || { tail -n 5 /test/canceller.txt && return 1; }; }
# Ends that somebody was told of.
observer() {
	while :; do
		rows | grep -E ' (Succeeded|Failed|Cancelled) ' >"$diary/new.seen" && mv "$diary/new.seen" "$diary/seen"
	done
}

storm() { # CUT: until the power is gone
	for one in 1 2 3; do
		submitter $one &
	done
	canceller "$1" >/test/canceller.txt 2>&1 &
	observer &
	check "before cut $1: a job that waits and one that runs are cancelled" until_true has_both "$1"
	delay=$(perl -e 'srand($ARGV[0] * 100 + $ARGV[1]); printf "%.2f", 1 + rand(20)' "$seed" "$1")
	echo "# cut $1 comes ${delay} s later"
	cut_power_in "$delay" "$1"
	sleep 600
}

is_known() { # every answered submission is a job with that number and name
	for path in "$diary"/answered/*; do
		grep -q "^$(cat "$path") .* j-${path##*/}$" /test/rows || { echo "${path##*/} is not $(cat "$path")" && return 1; }
	done
}
are_as_seen() { # an end that was told stays as it was
	while read -r row; do
		grep -qxF "$row" /test/rows || { echo "was: $row; is: $(grep "^${row%% *} " /test/rows)" && return 1; }
	done <"$diary/seen"
}
# A cancel that was answered holds: what waited is Cancelled, what ran as well, or was lost with the machine; none of them begins again.
stay_cancelled() {
	rows >/test/rows.cancelled
	for path in "$diary"/cancelled/*; do
		[ -e "$path" ] || { echo "none was cancelled" && return 1; }
		id=${path##*/}
		id=${id%.*}
		ends=Cancelled
		[ "${path##*.}" = waits ] || ends="(Cancelled|Failed NodeRebooted)"
		key=$(sed -n "s/^$id .* c-//p" /test/rows.cancelled)
		grep -qE "^$id $ends " /test/rows.cancelled && [ "$(has_begun "$key")" = "$(cat "$path")" ] ||
			{ echo "$path: $(grep "^$id " /test/rows.cancelled); begun: $(has_begun "$key")" && return 1; }
	done
}
# A command runs once. The number of its attempt may be 2: one that the cut took before its supervisor had claimed it did not run, and
# the job is started again.
none_twice() {
	[ -z "$(ls "$diary/twice")" ] && [ -z "$(ls "$diary/ran" | sed 's/\..*//' | sort | uniq -d)" ] || { ls "$diary/twice" "$diary/ran" && return 1; }
}
is_whole() { # as it was at this boot, before the service has opened it
	[ "$(sqlite3 /run/store/queue.db 'PRAGMA integrity_check; PRAGMA foreign_key_check;')" = ok ]
}
asked_again() { # the same key is the same job, whether the answer came or not
	for path in "$diary"/asked/*; do
		key=${path##*/}
		if [ ! -e "$diary/answered/$key" ]; then
			until_true submit "$key" >/dev/null && id=$(submit "$key") && echo "$id" >"$diary/answered/$key" || return 1
		fi
	done
}
one_each() { # no name twice
	[ "$(sed 's/^.* //' /test/rows | sort | uniq -d | wc -l)" = 0 ]
}
# Those of the canceller's that the cut has saved from it, or they would keep their GPUs.
none_left() { sluice cancel --quiet --yes --now 'c-*' && ! rows | grep -E ' (Pending|Starting|Running|Stopping) .* c-'; }
all_ended() { ! rows | grep -qE ' (Pending|Starting|Running|Stopping) '; }
has_run() { ls -d "$diary/ran/$1".* >/dev/null 2>&1; }
ended_as_told() { # what ended by itself did so with its own code, and had run
	while read -r id state reason code name; do
		case $state.$name in
		Succeeded.j-* | Failed.j-*)
			[ "$reason" = NodeRebooted ] || { [ "$code" = $((id % 5)) ] && has_run "$id"; } || { echo "$id $state $reason $code" && return 1; }
			;;
		esac
	done </test/rows
}

after() { # CUT
	check "after cut $1: the service is up" until_true systemctl is-active sluice.service
	check "it answers" until_true sluice jobs
	check "the store was whole" is_whole
	rows >/test/rows
	check "what was answered is known" is_known
	check "what was told has ended so" are_as_seen
	check "what was cancelled stays so" until_true stay_cancelled
	check "asked again, each submission is answered" asked_again
	rows >/test/rows
	check "and is one job" one_each
	check "no command has run twice" none_twice
	check "of the canceller's jobs none is left" until_true none_left
	cancelled="$(ls "$diary/cancelled" | grep -c waits) waiting and $(ls "$diary/cancelled" | grep -c runs) running ones"
	for path in "$diary"/cancelled/*.runs; do
		id=${path##*/}
		grep "^${id%.*} .* NodeRebooted " /test/rows
	done >/test/lost
	echo "# $(grep -c " j-" /test/rows) jobs, of $(ls "$diary/asked" | wc -l) that were asked for; $(ls "$diary/ran" | wc -l) have run, $(grep -c NodeRebooted /test/rows) were lost with the machine"
	echo "# $cancelled were cancelled, $(wc -l </test/lost) of these lost with the machine"
}

past=$(phase) # cuts
if [ "$past" -eq 0 ]; then
	mkdir -p "$diary/asked" "$diary/answered" "$diary/began" "$diary/cancelled" "$diary/ran" "$diary/twice"
	: >"$diary/seen"
	install_with_gpus
	mkdir -p /etc/systemd/system/sluice.service.d
	printf '[Service]\nExecStartPre=/bin/sh -c "test -e /run/store || cp -r %s /run/store"\n' $state >/etc/systemd/system/sluice.service.d/store.conf
	systemctl daemon-reload
	sync
	storm 1
fi
after "$past"
[ "$past" -ge $cuts ] || [ "$failed" -gt 0 ] || storm $((past + 1))
check "all jobs end" until_true all_ended
rows >/test/rows
check "each with its own code, or lost with the machine" ended_as_told
check "no command has run twice" none_twice
check "nothing that was cancelled has come back" stay_cancelled
check "jobs were lost with the machine" grep -q NodeRebooted /test/rows
check "all GPUs are free again" sluice run --quiet --gpus 8 --time 2m -- true
finish
