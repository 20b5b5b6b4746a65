# SPDX-License-Identifier: Apache-2.0
# What scenarios share. They run with set -u and without set -e: each check says what came of it, and the next one follows.
set -u
export LC_ALL=C.UTF-8 DEBIAN_FRONTEND=noninteractive HOME=/root
passed=0
failed=0
. /host/in/settings # machines, seed

# check TEXT COMMAND...: the command ends well.
check() {
	text=$1
	shift
	if said=$("$@" 2>&1); then
		echo "ok $text"
		passed=$((passed + 1))
	else
		echo "not ok $text"
		printf '%s\n' "$said" | sed 's/^/# /'
		failed=$((failed + 1))
	fi
}

# not COMMAND...: it does not.
not() {
	! "$@"
}

# until_true COMMAND...: it does within two minutes, which an emulated machine beside others may need, or within $patience seconds.
until_true() {
	end=$(($(date +%s) + ${patience:-120}))
	until "$@" >/dev/null 2>&1; do
		if [ "$(date +%s)" -ge "$end" ]; then
			"$@" # what it says now
			return
		fi
		sleep 0.2
	done
}

# has TEXT COMMAND...: what it says has the text.
has() {
	wanted=$1
	shift
	said=$("$@" 2>&1)
	case $said in
	*"$wanted"*) return 0 ;;
	esac
	printf '%s\n(no "%s")\n' "$said" "$wanted"
	return 1
}

apt_works() {
	[ -z "$(dpkg --audit)" ] && apt-get -q check && apt-get -q install -f -y
}

# install_with_gpus: the package, and a service that finds eight GPUs, all simulated; they are made anew at each boot, the same.
install_with_gpus() {
	apt-get -q install -y --no-install-recommends /test/new.deb >/dev/null 2>&1
	systemctl stop sluice.service
	mkdir -p /etc/systemd/system/sluice.service.d
	cat >/usr/local/bin/make-gpus <<'TXT'
#!/bin/sh
[ -e /run/gpus.state ] || sluice sim start --alongside --profile dgx-a100 --seed 1 --root /run/gpus --state /run/gpus.state --dev-style file
TXT
	chmod 755 /usr/local/bin/make-gpus
	make-gpus >/dev/null
	{
		printf '[Service]\nExecStartPre=/usr/local/bin/make-gpus\n'
		sluice sim env --root /run/gpus --state /run/gpus.state |
			sed -n "s/^export \(LD_LIBRARY_PATH\|SLUICE_SIM_STATE\|SLUICE_ROOT\)='\(.*\)'.*$/Environment=\1=\2/p"
	} >/etc/systemd/system/sluice.service.d/gpus.conf
	systemctl daemon-reload
	systemctl start sluice.service
}

# meet NAME: waits until all machines of the scenario have come here.
meet() {
	touch "/host/meet.$1.$machine"
	for other in $(seq "$machines"); do
		until_true test -e "/host/meet.$1.$other" || return
	done
}

# The phase of a scenario that boots more than once: 0 at first. It lies on the machine's own disk.
phase() {
	cat /test/phase 2>/dev/null || echo 0
}

# keep_counts PHASE: what was counted so far, and where the scenario goes on after the next boot.
keep_counts() {
	echo "passed=$passed failed=$failed" >/test/counts
	echo "$1" >/test/phase
	sync
}

# reboot_into PHASE: an orderly reboot, after which the scenario is started again, with that phase.
reboot_into() {
	keep_counts "$1"
	touch /run/boots-again
	systemctl reboot
	sleep 600
}

# cut_power_in SECONDS PHASE: comes back at once; so many seconds later the machine is gone without a warning, and boots again.
cut_power_in() {
	keep_counts "$2"
	touch /run/boots-again
	(sleep "$1" && : >"/host/cut.$machine") &
}

if [ -e /test/counts ]; then
	. /test/counts
fi

finish() {
	[ "$failed" -eq 0 ] || journalctl --boot --no-pager --lines 400 # in the log
	echo "vm: $passed passed, $failed failed"
	sync
}
