#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# usage: tests/cross/smoke.sh BUILD
# What a user of a machine with another processor does first; tools/cross runs it where its programs start.
set -eu
build=$1
place=$(mktemp -d)
export SLUICE_PROFILES="$PWD/sim/profiles" XDG_RUNTIME_DIR="$place" XDG_STATE_HOME="$place" XDG_CONFIG_HOME="$place" HOME="$place"
unset SLUICE_SIM_STATE SLUICE_SIM_PROFILE
sluice=$build/src/cmd/sluice
trap 'status=$?; "$sluice" sim stop >/dev/null 2>&1; rm -rf "$place"; exit $status' EXIT

# expect WORDS COMMAND...: what it prints has the words.
expect() {
	words=$1
	shift
	said=$(timeout 120 "$@" 2>&1) || { echo "failed: $*"; echo "$said"; exit 1; }
	case $said in
	*"$words"*) echo "seen: $words" ;;
	*) echo "no '$words' in what '$*' says:"; echo "$said"; exit 1 ;;
	esac
}

expect "Run a command on GPUs" "$sluice" --help
expect "Tesla T4" "$sluice" sim start --profile t4x4 --alongside
expect "Tesla T4" "$sluice" sim exec -- "$sluice" devices
# the simulated driver's files are those of this processor
find "$place" -name 'libcuda.so.1' -path '*aarch64-linux-gnu*' | grep -q .
readelf --file-header "$(find "$place" -name 'libcuda.so.1')" | grep -q 'Machine: *AArch64'
expect "GPU0" "$sluice" sim exec -- "$sluice" topo
expect "nvidia.com/gpu.product=Tesla-T4" "$sluice" sim exec -- "$sluice" labels
