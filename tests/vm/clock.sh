# SPDX-License-Identifier: Apache-2.0
# Somebody sets the clock, forward and back, under jobs that wait for a moment, jobs with a limit, and a reservation. GPUs are simulated.
# minutes: 20
. /test/lib.sh

# submit NAME OPTION...: a job that says that it runs, and then waits for /test/NAME.go. Its number.
submit() {
	name=$1
	shift
	sluice run --detach --quiet --name "$name" "$@" -- sh -c "touch /test/$name.ran; while [ ! -e /test/$name.go ]; do sleep 0.2; done" \
		>"/test/number.$name"
}
number() { cat "/test/number.$1"; }
field() { # of a job in JSON
	sluice jobs "$(number "$1")" --output json | sed -n "s/^.*\"$2\": *\"\{0,1\}\([^\",]*\)\"\{0,1\}.*$/\1/p" | head -n 1
}
is() { # NAME FIELD VALUE
	[ "$(field "$1" "$2")" = "$3" ] || { sluice jobs "$(number "$1")" && return 1; }
}
# jump "+4 hours": now, and no service sets it back.
jump() {
	date -s "$1" >/dev/null
}

timedatectl set-ntp false 2>/dev/null
install_with_gpus
check "the service is up" until_true systemctl is-active sluice.service
submit runs --gpus 1 --time 1h
check "a job with a limit of an hour runs" until_true is runs state Running
submit near --gpus 1 --begin now+3h
submit far --gpus 1 --begin now+30h
check "one waits for a moment in 3 hours" until_true is near reason BeginTime
check "one for a moment in 30 hours" until_true is far reason BeginTime

jump "+4 hours"
check "4 hours forward: the one whose moment is over starts" until_true test -e /test/near.ran
check "the other one waits" is far reason BeginTime
check "and a limit of an hour is an hour of running" is runs state Running

jump "-10 hours"
submit back --gpus 1 --begin now+1h
check "10 hours back: a new one waits for its moment" until_true is back reason BeginTime
check "what has started goes on" is near state Running
jump "+30 minutes"
check "half an hour forward: it still waits" is back reason BeginTime
check "and was not started" not test -e /test/back.ran
jump "+31 minutes"
check "its moment has come" until_true test -e /test/back.ran
check "the far one waits" is far reason BeginTime

sluice jobs reserve --gpus 8 --user nobody --begin now+2h --time 1h --lead 1m --name talk >/dev/null
check "GPUs are reserved in 2 hours" has talk sluice jobs reservations
jump "+150 minutes"
submit shut --gpus 1
check "in the window nobody else starts" until_true is shut reason Reserved
check "the service says so" has "reserved: talk for nobody" sluice agent status
jump "+40 minutes"
check "the window is over: it starts" until_true test -e /test/shut.ran

jump "-3 days"
check "3 days back: jobs are listed" sluice jobs
for name in runs near back shut; do
	touch "/test/$name.go"
	check "job $name ends" until_true is "$name" state Succeeded
done
jump "+5 days"
check "the far one starts" until_true test -e /test/far.ran
touch /test/far.go
check "and ends" until_true is far state Succeeded
finish
