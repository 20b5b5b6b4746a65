# SPDX-License-Identifier: Apache-2.0
# A user with a disk quota: what a job writes counts against it, also where root's supervisor carries it into the file. Few
# kernels of test machines have quotas; that of Debian has.
# disks: 64M
. /test/lib.sh

place=/var/lib/sluice
limit_kib=2048
job_bytes=6000000

# quota set UID KIB, quota get UID: what is stored, in bytes. struct if_dqblk (linux/quota.h); syscall 179 is quotactl(2).
quota() {
	perl -e '
		my ($verb, $uid, $kib, $device) = @ARGV;
		my $block = pack("Q8L x4", $kib, 0, 0, 0, 0, 0, 0, 0, 1);
		my $command = ($verb eq "set" ? 0x800008 : 0x800007) << 8;
		syscall(179, $command, $device, $uid + 0, $block) == 0 or die "quotactl: $!\n";
		print +(unpack("Q8L", $block))[2], "\n";
	' "$1" "$2" "${3:-0}" "$(findmnt --noheadings --output SOURCE "$place")"
}
# as NAME: a job of that user's that writes; the number of what it has is 1, 2, ...
as() { runuser -u "$1" -- env HOME=/ sluice run --gpus 0 -- head -c $job_bytes /dev/zero >/dev/null; }
output() { stat --format="%U %s" "$place/j/$1/out.1"; }
is_bounded() { # JOB USER
	set -- $(output "$1") "$2"
	[ "$1" = "$3" ] && [ "$2" -gt 100000 ] && [ "$2" -le $((limit_kib * 1024)) ] || { echo "$*" && return 1; }
}
may_go_past() { # CAP_SYS_RESOURCE is the 25th
	service=$(systemctl show --property=MainPID --value sluice.service)
	set -- $(grep CapEff "/proc/$service/status")
	[ $((0x$2 >> 24 & 1)) -eq 1 ]
}
stores() { # UID BYTES AT MOST
	stored=$(quota get "$1")
	[ "$stored" -gt 100000 ] && [ "$stored" -le "$2" ] || { echo "$stored" && return 1; }
}

apt-get -q install -y --no-install-recommends /test/new.deb >/dev/null 2>&1
systemctl stop sluice.service
useradd --uid 4001 alice
useradd --uid 4002 bob
mke2fs -q -F -t ext4 -O quota -E quotatype=usrquota /dev/disk/by-id/virtio-disk1
check "a disk with quotas is mounted" mount -o usrquota /dev/disk/by-id/virtio-disk1 "$place"
chmod 0711 "$place"
check "a quota can be set" quota set 4001 $limit_kib
systemctl start sluice.service
until_true sluice jobs >/dev/null

check "root's service has what goes past it" may_go_past
check "the job of a user with a quota does not end well" not as alice
check "her output is her own, and within her quota" is_bounded 1 alice
check "it is what the quota counts" stores 4001 $((limit_kib * 1024))
check "a user without one is not held up" as bob
check "his output is root's" has "root $job_bytes" output 2
finish
