# SPDX-License-Identifier: Apache-2.0
# What scenarios share. They run with set -u and without set -e: each check says what came of it, and the next one follows.
set -u
export LC_ALL=C.UTF-8 DEBIAN_FRONTEND=noninteractive HOME=/root
passed=0
failed=0
echo # the boot loader and the kernel may have left a line that is not ended

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

# until_true COMMAND...: it does within a minute, which an emulated machine may need.
until_true() {
	end=$(($(date +%s) + 60))
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

finish() {
	echo "vm: $passed passed, $failed failed"
	sync
}
