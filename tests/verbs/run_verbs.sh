#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-2-Clause
# Verbs programs of Debian, unmodified, on the soft EFA adapter: run_verbs.sh BUILD CASE.
if [[ "${2:-}" = *netns ]] && [ -z "${SOFTFABRIC_NETNS:-}" ]; then
	export SOFTFABRIC_NETNS=1
	user=(-Ur)
	[ "$(id -u)" = 0 ] && user=()
	unshare "${user[@]:+${user[@]}}" -nm --propagation private true 2>/dev/null || {
		echo "SKIP: this system forbids network namespaces"; exit 77; }
	exec unshare "${user[@]:+${user[@]}}" -nm --propagation private --pid --fork --kill-child --mount-proc "$0" "$@"
fi
name=efa
. "$(dirname "$0")/../lib.sh"
case=${2:-devinfo}
preload=$build/src/verbs/libsoftfabric-verbs.so
[ -f "$preload" ] || fail "$preload was not built"
port=$((20000 + $$ * 64 % 12000)) # 64 of its own, below those that the kernel gives away
interop=$build/tests/verbs/interop
export FI_EFA_ENABLE_SHM_TRANSFER=0 # all of it through the adapter, nothing past it

# verbs COMMAND... - on the soft adapter, with Debian's own providers
verbs() { env -u FI_PROVIDER_PATH LD_PRELOAD="$preload" timeout 60 "$@"; }

# listens PORT - somebody does, within ten seconds
listens() {
	local hex
	hex=$(printf ':%04X 00000000:0000 0A' "$1")
	for _ in $(seq 200); do
		grep -qi "$hex" /proc/net/tcp && return
		sed 's/:\([0-9A-F]*\) 0*:0000 0A/:\1 00000000:0000 0A/' /proc/net/tcp6 2>/dev/null |
			grep -qi "$hex" && return
		sleep 0.05
	done
	fail "nobody listens on port $1: $(cat "$tmp/server")"
}

# pair PROGRAM OPTIONS... - perftest's server and client
pair() {
	local server
	port=$((port + 1))
	verbs "$@" -x 0 -p $port >"$tmp/server" 2>&1 &
	server=$!
	listens $port
	verbs "$@" -x 0 -p $port 127.0.0.1 >"$tmp/client" 2>&1 || fail "$*: client: $(cat "$tmp/client")"
	wait $server || fail "$*: server: $(cat "$tmp/server")"
	grep -q '^ [0-9]' "$tmp/client" || fail "$*: no result: $(cat "$tmp/client")"
}

# ucx TRANSPORT TEST SIZE - ucx_perftest's server and client
ucx() {
	local server run=(ucx_perftest -t "$2" -s "$3" -n 200 -w 10)
	[ "$2" != am_lat ] || run+=(-x "${1/ud_v/ud_verbs}" -d "$UCX_NET_DEVICES")
	port=$((port + 1))
	UCX_TLS=$1 verbs "${run[@]}" -p $port >"$tmp/server" 2>&1 &
	server=$!
	listens $port
	UCX_TLS=$1 verbs "${run[@]}" -p $port 127.0.0.1 >"$tmp/client" 2>&1 || fail "$*: client: $(cat "$tmp/client")"
	wait $server || fail "$*: server: $(cat "$tmp/server")"
	grep -q '^Final: *200' "$tmp/client" || fail "$*: no result: $(cat "$tmp/client")"
}

# side theirs|ours COMMAND... - Debian's provider on the soft adapter, or our provider
side() {
	local who=$1
	shift
	if [ "$who" = theirs ]; then verbs "$@"; else timeout 60 "$@"; fi
}

# far theirs|ours COMMAND... - the same on the other host
far() {
	local set="FI_PROVIDER_PATH=$FI_PROVIDER_PATH"
	[ "$1" = theirs ] && set="LD_PRELOAD=$preload"
	shift
	ip netns exec h2 env -u FI_PROVIDER_PATH "$set" timeout 60 "$@"
}

# pingpong SERVER CLIENT OPTIONS...
pingpong() {
	local s=$1 c=$2 server
	shift 2
	port=$((port + 1))
	side "$s" fi_pingpong -p efa -c "$@" -B $port >"$tmp/server" 2>&1 &
	server=$!
	listens $port
	side "$c" fi_pingpong -p efa -c "$@" -P $port 127.0.0.1 >"$tmp/client" 2>&1 ||
		fail "$c to $s, $*: $(cat "$tmp/client")"
	wait $server || fail "$c to $s, $*: server: $(cat "$tmp/server")"
}

# room SET - the adapter and the parameters with which libfabric takes the protocols of that set
room() {
	local release
	release=$(fi_info --version | sed -n 's/^libfabric: 1\.\([0-9]*\).*/\1/p')
	export FI_EFA_USE_DEVICE_RDMA=1 FI_EFA_RUNT_SIZE=0 SOFTFABRIC_EFA="gen=efa2-full"
	case $1 in
	packets) export FI_EFA_USE_DEVICE_RDMA=0 ;;
	runt) export FI_EFA_RUNT_SIZE=200000 ;;
	esac
	# Writes by packets beside reads by the adapter: releases before 1.18 never write by it, and do not say which
	# generation they are, so that their peers take them for a later one.
	if [ "$1" = read ] || [ "$1" = runt ]; then
		[ "${release:-99}" -lt 18 ] || export SOFTFABRIC_EFA="gen=efa0-read"
	fi
}

# judge SET - what the two sides have said of it
judge() {
	local what="$1, $s serves $c, $SOFTFABRIC_NET"
	[ "$2$3" = 00 ] || fail "$what: server $(tail -3 "$tmp/server") client $(tail -3 "$tmp/client")"
	grep -h '^SKIP' "$tmp/server" | sed "s/^/$1: /"
	grep -q '^sent by network [1-9][0-9]*, by memory 0;' "$tmp/server" "$tmp/client" ||
		fail "$what: not by the network: $(grep -h '^sent' "$tmp/server" "$tmp/client")"
	case $SOFTFABRIC_NET in
	*loss*) grep -q 'lost [1-9][0-9]*, out of order [1-9]' "$tmp/server" "$tmp/client" || fail "$what: no loss" ;;
	esac
	rows=$((rows + $(grep -c '^ok' "$tmp/server")))
}

# protocols SERVER CLIENT SET... - all of these, both ways
rows=0
protocols() {
	local s=$1 c=$2 set server client
	shift 2
	export SOFTFABRIC_NET=${SOFTFABRIC_NET:-}
	for set in "$@"; do
		room "$set"
		port=$((port + 1))
		side "$s" "$interop" "$s" "$set" $port >"$tmp/server" 2>&1 &
		server=$!
		"${away:-side}" "$c" "$interop" "$c" "$set" $port "${at:-127.0.0.1}" >"$tmp/client" 2>&1
		client=$?
		wait $server
		judge "$set" $? $client
	done
}

# two_hosts - this one and h2, at 10.77.0.1 and 10.77.0.2
two_hosts() {
	mount -t tmpfs tmpfs /run || skip "this system forbids mounts in a namespace"
	ip link set lo up
	ip netns add h2 2>"$tmp/err" || skip "no namespace: $(cat "$tmp/err")"
	ip link add eth0 type veth peer name eth0 netns h2 2>"$tmp/err" || skip "no veth: $(cat "$tmp/err")"
	ip addr add 10.77.0.1/24 dev eth0
	ip link set eth0 up
	ip -n h2 addr add 10.77.0.2/24 dev eth0
	ip -n h2 link set lo up
	ip -n h2 link set eth0 up
	export SOFTFABRIC_NET="if=eth0"
}

# is_direct - fi_pingpong takes the fabric efa-direct where libfabric has it (from 2.1 on); ours does not offer it
is_direct() { verbs fi_info -p efa 2>/dev/null | grep -q 'fabric: efa-direct'; }

# Trees of others are in other folders.
export TMPDIR=$tmp
trees() { find "$tmp" -maxdepth 1 -name "softfabric-verbs-$(id -u)-*" | wc -l; }

case $case in
devinfo)
	need ibv_devinfo ibv_devices
	SOFTFABRIC_EFA="nics=2" verbs ibv_devices >"$tmp/out" || fail "ibv_devices: $(cat "$tmp/out")"
	[ "$(grep -c rdmap "$tmp/out")" = 2 ] || fail "ibv_devices: $(cat "$tmp/out")"
	verbs ibv_devinfo -v >"$tmp/out" 2>&1 || fail "ibv_devinfo: $(cat "$tmp/out")"
	for want in 'vendor_id:.*0x1d0f' 'hw_ver:.*0xEFA2' 'max_qp:.*256' 'PORT_ACTIVE' 'GID\[ *0\]:.*fe80:' \
		'active_width:.*4X'; do
		grep -q "$want" "$tmp/out" || fail "ibv_devinfo has no $want: $(cat "$tmp/out")"
	done
	SOFTFABRIC_EFA="nics=0" verbs ibv_devinfo >"$tmp/out" 2>&1 &&
		fail "a device where there is none: $(cat "$tmp/out")"
	[ "$(trees)" = 0 ] || fail "$(trees) sysfs trees are left behind"
	pass "devices, their attributes, no files left"
	;;
perftest)
	need ib_send_bw ib_send_lat ib_read_bw
	export SOFTFABRIC_EFA="gen=efa1-rw" # the newest that Debian 12's perftest knows
	pair ib_send_bw -c SRD -n 500
	pair ib_send_lat -c SRD -n 200
	pair ib_read_bw -c SRD -n 200
	pair ib_send_bw -c UD -n 100 -Q 1
	pair ib_send_bw -c SRD -n 500 -q 8
	pass "SRD send and read, UD, eight queue pairs"
	;;
pyverbs)
	py=/usr/bin/python3
	tests=$(dpkg -L python3-pyverbs 2>/dev/null | grep -m 1 /tests/__init__.py)
	[ -f "$tests" ] || skip "python3-pyverbs is not installed, or without its tests"
	cp -r "$(dirname "$tests")" "$tmp/tests" && gunzip -f "$tmp"/tests/*.gz
	# its later releases look there for the name of the network device
	! grep -q "'rdma', 'link'" "$tmp/tests/base.py" || rdma link show -j >/dev/null 2>&1 ||
		skip "these tests need \`rdma link show\`, which has no answer on a kernel without RDMA"
	verbs $py "$tmp/tests/run_tests.py" --dev rdmap0s6 tests.test_efa_srd tests.test_efadv >"$tmp/out" 2>&1 ||
		fail "$(tail -50 "$tmp/out")"
	grep -q '^Ran 1[6-9] tests\|^Ran [2-9][0-9] tests' "$tmp/out" && grep -q '^OK$' "$tmp/out" ||
		fail "not all ran: $(tail -50 "$tmp/out")"
	general=$(printf 'tests.test_%s ' cq_events cqex cq pd mr device addr qp qpex fork parent_domain)
	# shellcheck disable=SC2086
	verbs $py "$tmp/tests/run_tests.py" --dev rdmap0s6 $general >"$tmp/out" 2>&1 || fail "$(tail -50 "$tmp/out")"
	ran=$(sed -n 's/^Ran \([0-9]*\) tests.*/\1/p' "$tmp/out")
	skipped=$(sed -n 's/^OK (.*skipped=\([0-9]*\).*/\1/p' "$tmp/out")
	[ $((${ran:-0} - ${skipped:-0})) -ge 35 ] ||
		fail "${ran:-0} tests, of which ${skipped:-0} were skipped: $(tail -50 "$tmp/out")"
	pass "EFA's own tests, none skipped; the general ones, what the adapter has not is skipped"
	;;
pingpong)
	need fi_pingpong
	FI_EFA_ENABLE_SHM_TRANSFER=1 pingpong theirs theirs -e rdm
	pingpong theirs theirs -e rdm
	pingpong theirs theirs -e dgram
	pass "Debian's efa provider, reliable and not"
	;;
interop)
	need fi_pingpong fi_info
	! is_direct || skip "fi_pingpong takes efa-direct here, which is not ours; see the case protocols"
	pingpong theirs ours -e rdm
	pingpong ours theirs -e rdm
	pingpong theirs ours -e dgram
	pass "Debian's provider and ours"
	;;
mpi)
	need mpirun mpicc
	mpi_build mpi_verify
	run=(mpirun --allow-run-as-root --oversubscribe --mca pml cm --mca mtl ofi --mca btl self)
	run+=(--mca opal_common_ofi_provider_include efa)
	# One program for both ranks: mpirun of Open MPI 5.0.7 crashes when it is given two.
	cat >"$tmp/rank" <<-EOF
		#!/bin/sh
		[ "\$OMPI_COMM_WORLD_RANK" = 1 ] || { unset FI_PROVIDER_PATH; export LD_PRELOAD="$preload"; }
		exec "\$@"
	EOF
	chmod +x "$tmp/rank"
	# Each test by itself: after "truncation" Debian's provider has lost a packet buffer, and aborts.
	for t in ring unexpected synchronous; do
		program="$tmp/mpi_verify 3000000 $t"
		# shellcheck disable=SC2086
		timeout 60 "${run[@]}" -np 2 -x FI_PROVIDER_PATH "$tmp/rank" $program >"$tmp/out" 2>&1 ||
			fail "$t: $(tail -30 "$tmp/out")"
		grep -q "ok $t" "$tmp/out" || fail "$t did not run: $(cat "$tmp/out")"
	done
	pass "one rank over Debian's provider, one over ours"
	;;
ucx)
	need ucx_info ucx_perftest
	export UCX_NET_DEVICES=rdmap0s6:1
	verbs ucx_info -d >"$tmp/out" 2>&1 || fail "ucx_info: $(cat "$tmp/out")"
	grep -q 'Device: rdmap0s6:1' "$tmp/out" || fail "ucx_info does not show the device: $(cat "$tmp/out")"
	transports=(ud_v)
	! grep -q 'Transport: srd' "$tmp/out" || transports+=(srd)
	# What UCX 1.13 asks of every adapter, and EFA has not
	export SOFTFABRIC_EFA="lenient=yes" UCX_UD_VERBS_TX_MIN_SGE=1 UCX_UD_VERBS_TX_MIN_INLINE=32 UCX_IB_IS_GLOBAL=y
	for t in "${transports[@]}"; do
		for test in "am_lat 8" "tag_lat 8" "tag_bw 65536" "stream_lat 3000" "ucp_am_lat 20000" "ucp_put_lat 8" \
			"ucp_get 5000"; do
			# shellcheck disable=SC2086
			ucx "$t" $test
		done
	done
	SOFTFABRIC_NET="udp" ucx ud_v tag_bw 65536
	ran="UCX over ${transports[*]}"
	if command -v mpirun mpicc >/dev/null && ompi_info 2>/dev/null | grep -q 'pml: ucx'; then
		mpi_build mpi_verify
		UCX_TLS=ud_v,self LD_PRELOAD=$preload timeout 60 mpirun --allow-run-as-root --oversubscribe -np 2 \
			--mca pml ucx --mca pml_ucx_tls any --mca pml_ucx_devices any --mca btl self \
			"$tmp/mpi_verify" 300000 >"$tmp/out" 2>&1 || fail "Open MPI: $(tail -30 "$tmp/out")"
		grep -q 'ok ring' "$tmp/out" || fail "Open MPI: $(cat "$tmp/out")"
		ran="$ran, and Open MPI, every byte, over it"
	fi
	pass "$ran"
	;;
protocols)
	need fi_info
	protocols theirs ours packets runt
	SOFTFABRIC_NET="udp;loss=5%;reorder=5%;seed=7" protocols ours theirs packets runt
	pass "every protocol by name, clean and with loss: $rows rows"
	;;
protocols_long)
	need fi_info fi_pingpong
	SOFTFABRIC_NET="loss=5%;reorder=5%;seed=7" pingpong ours theirs -e rdm
	SOFTFABRIC_NET="loss=5%;reorder=5%;seed=8" pingpong theirs ours -e rdm
	for net in "" "udp" "udp;loss=5%;reorder=5%;seed=1" "udp;loss=5%;reorder=5%;seed=2"; do
		SOFTFABRIC_NET=$net protocols theirs ours packets read runt write
		SOFTFABRIC_NET=$net protocols ours theirs packets read runt write
	done
	pass "every protocol by name, clean and with loss, $rows rows"
	;;
protocols_netns)
	need fi_info ip
	two_hosts
	away=far at=10.77.0.1
	for net in "" ";loss=5%;reorder=5%;seed=3" ";loss=5%;reorder=5%;mtu=1500;seed=4"; do
		export SOFTFABRIC_NET="if=eth0$net"
		protocols theirs ours packets read runt write
		protocols ours theirs packets read runt write
	done
	pass "every protocol by name between two hosts, clean and with loss, $rows rows"
	;;
netns)
	need fi_pingpong fi_info ip
	two_hosts
	for c in theirs ours; do
		[ $c = theirs ] || ! is_direct || continue
		port=$((port + 1))
		side theirs fi_pingpong -p efa -e rdm -c -B $port >"$tmp/server" 2>&1 &
		server=$!
		listens $port
		far $c fi_pingpong -p efa -e rdm -c -P $port 10.77.0.1 >"$tmp/client" 2>&1 ||
			fail "$c: $(cat "$tmp/client")"
		wait $server || fail "server of $c: $(cat "$tmp/server")"
	done
	pass "two hosts: Debian's provider with itself, and with ours if it speaks the same fabric"
	;;
killed)
	need ib_send_lat ibv_devices
	LD_PRELOAD=$preload ib_send_lat -c SRD -x 0 -p $port >"$tmp/server" 2>&1 &
	server=$!
	children+=("$server")
	listens $port
	[ "$(trees)" = 1 ] || fail "no sysfs tree while a program runs"
	kill -9 $server
	wait 2>/dev/null
	[ "$(trees)" = 1 ] || fail "the killed program's tree has gone by itself"
	verbs ibv_devices >/dev/null
	[ "$(trees)" = 0 ] || fail "the killed program's tree is still there"
	pass "the next program removes what a killed one left"
	;;
*)
	fail "there is no case $case"
	;;
esac
