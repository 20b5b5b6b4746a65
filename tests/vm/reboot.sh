# SPDX-License-Identifier: Apache-2.0
# A real reboot, in order (`systemctl reboot`), with jobs that run, wait, are held and have ended. GPUs are simulated. Each attempt
# leaves a directory with the host, so that one that has run twice is seen.
# minutes: 30
. /test/lib.sh

# submit NAME OPTION...: a job that says that it runs, and then waits for /test/NAME.go. Its number.
submit() {
	name=$1
	shift
	sluice run --detach --quiet --name "$name" "$@" -- sh -c "mkdir /host/ran.$name.\$SLUICE_ATTEMPT || touch /host/twice
		while [ ! -e /test/$name.go ]; do sleep 0.2; done; exit 7"
}
number() { cat "/test/number.$1"; }
field() { # of a job in JSON
	sluice jobs "$(number "$1")" --output json | sed -n "s/^.*\"$2\": *\"\{0,1\}\([^\",]*\)\"\{0,1\}.*$/\1/p" | head -n 1
}
is() { # NAME FIELD VALUE
	[ "$(field "$1" "$2")" = "$3" ] || { sluice jobs "$(number "$1")" && return 1; }
}

before() {
	install_with_gpus
	check "the service finds GPUs, which are simulated" until_true has "NVIDIA A100" env SLUICE_SIM_STATE=/run/gpus.state \
		SLUICE_ROOT=/run/gpus sluice sim exec --root /run/gpus --state /run/gpus.state -- sluice devices
	submit ended --gpus 1 >/test/number.ended
	touch /test/ended.go
	check "a job ends" until_true is ended exit_code 7
	submit runs --gpus 1 >/test/number.runs
	submit again --gpus 2 --retry-lost >/test/number.again
	check "a job runs" until_true is runs state Running
	check "and one that may run again" until_true is again state Running
	check "they have begun" until_true test -d /host/ran.runs.1 -a -d /host/ran.again.1
	submit waits --gpus 8 >/test/number.waits
	submit held --gpus 1 --hold >/test/number.held
	check "one waits for GPUs" until_true is waits reason WaitingForGPU
	check "one is held" until_true is held state Held
	cat /proc/sys/kernel/random/boot_id >/test/boot
	reboot_into 1
}

after() {
	check "it is another boot" not has "$(cat /test/boot)" cat /proc/sys/kernel/random/boot_id
	check "the service is up" until_true systemctl is-active sluice.service
	check "what has ended has ended as it had" until_true is ended exit_code 7
	check "the job that ran has failed" until_true is runs state Failed
	check "since the machine went down" until_true is runs reason NodeRebooted
	check "what is held is held" until_true is held state Held
	# The two have all GPUs in turn; the second attempt begins no sooner than after its delay.
	touch /test/again.go /test/waits.go /test/held.go
	check "the one that may runs again, as its second attempt" until_true test -d /host/ran.again.2
	check "and ends" until_true is again exit_code 7
	# It starts with the service, before /host is there: no directory of its attempt is seen.
	check "what waited runs and ends" until_true is waits exit_code 7
	sluice jobs release "$(number held)"
	check "what was held runs and ends" until_true is held exit_code 7
	check "as its first attempt" test -d /host/ran.held.1
	check "no attempt has run twice" not test -e /host/twice
	check "nor what was not to run again" not test -e /host/ran.runs.2
	finish
}

case $(phase) in
0) before ;;
1) after ;;
esac
