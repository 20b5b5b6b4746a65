# SPDX-License-Identifier: Apache-2.0
# RDMA that is really spoken: each machine makes an adapter in software of its interface (rdma_rxe). Found with the setting and not
# without it, offered to a kubelet, described for containers, followed when its port goes down; and two containers, whose user is
# nobody, send each other memory that they may lock only because of the resource.
# machines: 2
# packages: ibverbs-providers ibverbs-utils rdma-core podman crun python3-grpcio
# memory: 1536
# minutes: 45
# files: tests/vm/rdma_kubelet.py
. /test/lib.sh
patience=300 # two machines, and each waits for the other

root=/test/root
cdi=/var/run/cdi/sluice.dev-rdma.json

configure() { # MORE: of the entries
	mkdir -p /etc/sluice
	cat >/etc/sluice/new.yaml <<TXT
version: v1
sluice:
  rdma:
    periodicUpdateInterval: 5
    configList:
    - {resourceName: soft, rdmaHcaMax: 8, memlock: unlimited, selectors: {ifNames: [eth0], linkTypes: [ether]}$1}
    - {resourceName: plain, rdmaHcaMax: 2, selectors: {drivers: [rdma_rxe]}$1}
    - {resourceName: cards, rdmaHcaMax: 2, selectors: {vendors: ["15b3"]}$1}
TXT
	mv /etc/sluice/new.yaml /etc/sluice/config.yaml
}

# The little that a container needs for the test: a shell, one program, its libraries and the half of the driver that is its user's.
make_root() {
	mkdir -p $root/bin $root/dev $root/proc $root/sys $root/tmp $root/run $root/etc $root/var/tmp
	provider=$(echo /usr/lib/x86_64-linux-gnu/libibverbs/librxe-*.so)
	for file in /bin/sh /usr/bin/ibv_rc_pingpong /usr/bin/ibv_devices; do
		cp "$file" $root/bin/ || return
	done
	for file in "$provider" $(ldd /bin/sh /usr/bin/ibv_rc_pingpong "$provider" | grep -o '/[^ :]*\.so[^ :]*' | sort -u); do
		mkdir -p "$root/${file%/*}"
		cp "$file" "$root$file" || return
	done
	cp -r /etc/libibverbs.d $root/etc/
}

# contained DEVICE COMMAND...: in a container of nobody's with that device, whose processes may lock 64 KiB if nobody does anything.
contained() {
	device=$1
	shift
	(
		ulimit -S -l 64
		ulimit -H -l 64
		timeout 300 podman run --rm --network host --user 65534 --device "sluice.dev/rdma=$device" --rootfs $root "$@"
	)
}
is_listed() { [ "$(contained "$1" /bin/ibv_devices | grep -c rxe0)" = 1 ]; }
limit_is() { has "$2" contained "$1" /bin/sh -c 'echo "soft $(ulimit -S -l) hard $(ulimit -H -l)"'; }

# send DEVICE BYTES ROUNDS: between the two containers; the second machine's calls the first's.
send() {
	name=$1
	shift
	peer=
	[ "$machine" = 1 ] || peer=10.9.0.1
	contained "$name" /bin/ibv_rc_pingpong -d rxe0 -g "$gid" -s "$1" -n "$2" $peer >/test/pingpong.txt 2>&1
}
listens() { grep -q ":4853 .* 0A " /proc/net/tcp /proc/net/tcp6; } # 18515, where the program waits; LISTEN

# --- an adapter ---
check "the modules are there" modprobe -a rdma_rxe ib_uverbs rdma_ucm
check "and the checksum that it takes" modprobe crc32_generic
until_true test -e /sys/class/net/eth0
ip address replace "10.9.0.$machine/24" dev eth0
ip link set eth0 up
check "an adapter is made of an interface" rdma link add rxe0 type rxe netdev eth0
check "its node is there" until_true test -c /dev/infiniband/uverbs0
check "the package installs" apt-get -q install -y --no-install-recommends /test/new.deb

# --- found with the setting, and not without it ---
configure ""
systemctl restart sluice.service
check "without the setting it is told why it is not offered" until_true has \
	"rxe0 not offered as rdma/soft: software adapter, and softwareAdapters is not set" sluice agent status
check "and nothing is described for containers" not test -e $cdi
configure ", softwareAdapters: true"
check "with the setting it is offered, without a restart" until_true has "rdma/soft: 8 units, 1 of 1 adapters healthy" sluice agent status
check "by its driver, too" has "rdma/plain: 2 units, 1 of 1 adapters healthy" sluice agent status
check "and by no vendor" has "no adapter of this machine matches its selectors" sluice agent status
check "the list of adapters shows it" has "and 1 in software" sluice devices --rdma
check "without an address" has '"bus": null' sluice devices --rdma --output json
check "doctor counts it" has "1 in software" sluice doctor --all --only rdma.device
check "and finds its port up" has "1 of 1 up" sluice doctor --all --only rdma.port
check "it is described for containers" until_true test -s $cdi
check "with the numbers of its node" has "\"major\": $((0x$(stat -c %t /dev/infiniband/uverbs0)))" cat $cdi

# --- containers ---
check "the root of a container" make_root
check "a container sees its adapter" is_listed rxe0
check "it locks what the machine allows by itself" limit_is rxe0 "soft 64 hard 64"
check "by the resource it locks without limit, though nobody is root in it" limit_is rdma:soft "soft unlimited hard unlimited"
gid=$(grep -sl "ffff:0a09:000$machine" /sys/class/infiniband/rxe0/ports/1/gids/* | sed 's|.*/||' | head -n 1)
check "the adapter has the interface's address" test -n "$gid"

check "the other machine is as far" meet containers
if [ "$machine" = 2 ]; then
	check "the first container waits" until_true test -e /host/waits.1
else
	(until_true listens && touch /host/waits.1) &
fi
check "two containers send each other memory by RDMA" send rdma:soft 262144 10
sed -n 's/^\([0-9]* \(bytes\|iters\) in\)/# \1/p' /test/pingpong.txt
check "and it is that of the adapter" grep -q "^5242880 bytes" /test/pingpong.txt
check "both have sent" meet sent
check "its packets are counted" test "$(cat /sys/class/infiniband/rxe0/ports/1/hw_counters/sent_pkts)" -gt 2000
check "without the resource's limit that memory cannot be registered" not send rxe0 262144 10
check "and it is the limit" has "register MR" cat /test/pingpong.txt

# --- a kubelet, which is a stand-in ---
python3 /test/files/rdma_kubelet.py >>/test/kubelet.txt 2>&1 &
kubelet=$!
check "the resource registers with a kubelet" until_true has "rdma/soft registered rdma-rdma-soft.sock" cat /test/kubelet.txt
check "its units are healthy" until_true has "rdma/soft healthy 8 of 8" cat /test/kubelet.txt
check "a container is given its CDI device, which brings the hook" until_true has \
	"rdma/soft allocated sluice.dev/rdma=rdma:soft" cat /test/kubelet.txt
check "without memlock the nodes themselves" until_true has \
	"rdma/plain allocated /dev/infiniband/rdma_cm /dev/infiniband/uverbs0" cat /test/kubelet.txt
check "and no node is there to manage a network by" not has umad cat /test/kubelet.txt

# --- the port ---
down_at=$(date +%s%N)
ip link set eth0 down
check "a port that goes down takes the units with it" until_true has "rdma/soft healthy 0 of 8" cat /test/kubelet.txt
up_at=$(date +%s%N)
echo "# from the port's end to Unhealthy at the kubelet: $(((up_at - down_at) / 1000000)) ms"
check "and it is told" until_true has "rxe0 (software) is not handed out as rdma/soft: no port is up" sluice agent status
check "doctor says how it comes back" has "ip link set eth0 up" sluice doctor --only rdma.port
: >/test/kubelet.txt
up_at=$(date +%s%N)
ip link set eth0 up
check "a port that comes up brings them back" until_true has "rdma/soft healthy 8 of 8" cat /test/kubelet.txt
echo "# from the port's return to Healthy at the kubelet: $((($(date +%s%N) - up_at) / 1000000)) ms"
rdma link delete rxe0
: >/test/kubelet.txt
check "an adapter that is taken away as well" until_true has "rdma/soft healthy 0 of 8" sh -c "cat /test/kubelet.txt; sluice agent status"
rdma link add rxe0 type rxe netdev eth0
check "and it comes back" until_true has "rdma/soft healthy 8 of 8" cat /test/kubelet.txt
kill $kubelet
finish
