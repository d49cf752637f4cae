#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-2-Clause
# MPI over a provider between three hosts: run_netns.sh BUILD CASE [PROVIDER].
#
#    +--- h1 ---------+    +--- h2 ---------+    +--- h3 ---------+      each host: own network and UTS namespace,
#    | ranks 0, 1     |    | ranks 2, 3     |    | ranks 4, 5     |      ranks of one host meet in shared memory,
#    | eth0 10.77.0.1 |    | eth0 10.77.0.2 |    | eth0 10.77.0.3 |      those of two hosts by UDP
#    +-------+--------+    +-------+--------+    +-------+--------+
#            | veth                | veth                | veth          tc netem (or the provider's own faults,
#    +-------+---------------------+---------------------+--------+      without netem in the kernel) loses and reorders
#    | br0  10.77.0.254                                            |
#    |      mpirun: starts the ranks through agent.sh              |      everything lies in one private network and
#    +-------------------------------------------------------------+      mount namespace: nothing is left behind
if [ -z "${SOFTFABRIC_NETNS:-}" ]; then
	export SOFTFABRIC_NETNS=1
	user=(-Ur)
	[ "$(id -u)" = 0 ] && user=()
	unshare "${user[@]:+${user[@]}}" -nm --propagation private true 2>/dev/null || {
		echo "SKIP: this system forbids network namespaces"; exit 77; }
	exec unshare "${user[@]:+${user[@]}}" -nm --propagation private --pid --fork --kill-child --mount-proc "$0" "$@"
fi
name=${3:-efa}
. "$(dirname "$0")/../lib.sh"
case=${2:-loss}
need mpirun mpicc python3 ip
hosts="h1 h2 h3"
mtu=1500
netem=''

hosts_up() {
	local n=0 h
	mount -t tmpfs tmpfs /run || skip "this system forbids mounts in a namespace"
	ip link set lo up
	ip link add br0 type bridge 2>"$tmp/err" || skip "no bridge: $(cat "$tmp/err")"
	ip link set br0 mtu "$mtu" up
	ip addr add 10.77.0.254/24 dev br0
	for h in $hosts; do
		n=$((n + 1))
		ip netns add "$h" 2>"$tmp/err" || skip "no namespace: $(cat "$tmp/err")"
		ip link add "p$n" mtu "$mtu" type veth peer name eth0 mtu "$mtu" netns "$h" || skip "no veth"
		ip link set "p$n" master br0 up
		ip -n "$h" link set lo up
		ip -n "$h" link set eth0 up
		ip -n "$h" addr add "10.77.0.$n/24" dev eth0
	done
	# Ports of a new bridge may take a moment until they forward.
	for h in $hosts; do
		for _ in $(seq 50); do
			ip netns exec "$h" ip neigh flush dev eth0
			ip netns exec "$h" bash -c 'echo >/dev/tcp/10.77.0.254/1' 2>&1 | grep -q refused && continue 2
		done
		fail "$h does not reach the bridge"
	done
}

# bad_weather - 1 % loss and reordering, by the kernel if it can
bad_weather() {
	local h
	for h in $hosts; do
		if ip netns exec "$h" \
			tc qdisc add dev eth0 root netem delay 200us loss 1% reorder 95% 50% 2>/dev/null; then
			netem=kernel
		else
			netem=provider
		fi
	done
	if [ $netem = kernel ]; then
		echo "  loss and reordering by tc netem"
	else
		echo "  this kernel has no netem: loss and reordering by SOFTFABRIC_NET"
		SOFTFABRIC_NET="$SOFTFABRIC_NET;loss=1%;reorder=5%;seed=7"
	fi
}

# ranks PER_HOST SECONDS ARGUMENTS... - MPI ranks on the three hosts
ranks() {
	local per=$1 limit=$2 list='' h
	shift 2
	for h in $hosts; do list=$list,$h:$per; done
	mpi_run $((per * 3)) "$limit" --host "${list#,}" --map-by slot "$@"
}

# verify PATH[ retrans] PER_HOST SECONDS ARGUMENTS...
verify() {
	local path=$1
	shift
	export SOFTFABRIC_STATS=$tmp/stats
	ranks "$@" >"$tmp/out" 2>&1
	local rc=$?
	[ $rc = 0 ] || { tail -40 "$tmp/out"; fail "$case: exit status $rc of mpirun"; }
	grep -v '^payload: ' "$tmp/out"
	# shellcheck disable=SC2086
	python3 "$here/mpi/proof.py" "$tmp/out" "$tmp/stats" $path || fail "$case: the adapters did not carry it"
}

# How mpirun reaches the hosts, in the words of Open MPI 4 and of Open MPI 5.
export OMPI_MCA_plm_rsh_agent=$here/netns/agent.sh PRTE_MCA_plm_ssh_agent=$here/netns/agent.sh
export OMPI_MCA_oob_tcp_if_include=10.77.0.0/24 PRTE_MCA_prte_if_include=10.77.0.0/24
export OMPI_MCA_orte_keep_fqdn_hostnames=1 PRTE_MCA_prte_keep_fqdn_hostnames=1
export SOFTFABRIC_NET="shm,udp;if=eth0"
case $case in
clear)
	hosts_up
	mpi_build mpi_verify
	verify any 2 120 "${mca_mtl[@]}" "$tmp/mpi_verify"
	;;
jumbo)
	mtu=9000
	hosts_up
	mpi_build mpi_verify
	verify any 2 120 "${mca_mtl[@]}" "$tmp/mpi_verify"
	;;
loss)
	hosts_up
	bad_weather
	mpi_build mpi_verify
	verify "any retrans" 2 180 "${mca_mtl[@]}" "$tmp/mpi_verify" 1048576
	;;
loss_rma)
	hosts_up
	bad_weather
	mpi_build mpi_rma
	verify "net retrans" 1 180 "${mca_btl[@]}" "$tmp/mpi_rma" 1048576
	;;
flap)
	# The interface of one host goes away for a second, several times, while messages fly. Between two times it is
	# there for two: one is half gone before the last lost datagram has been repeated.
	hosts_up
	mpi_build mpi_verify
	: >"$tmp/flaps"
	(while sleep 2; do
		ip link set p2 down
		sleep 1
		ip link set p2 up
		echo >>"$tmp/flaps"
	done) &
	children+=($!)
	flaps=0 lossy=''
	# On a quick machine one run is over before that, or lies between two times: then there are further ones.
	for _ in 1 2 3 4 5; do
		if [ "$flaps" -ge 2 ] && [ "$lossy" ]; then break; fi
		rm -f "$tmp/stats"
		verify any 2 240 "${mca_mtl[@]}" "$tmp/mpi_verify" 4194304
		python3 "$here/mpi/proof.py" "$tmp/out" "$tmp/stats" any retrans >/dev/null && lossy=yes
		flaps=$(wc -l <"$tmp/flaps")
	done
	[ "$flaps" -ge 2 ] || fail "$case: the runs were over before the interface had gone twice"
	[ "$lossy" ] || fail "$case: no run has repeated a packet"
	echo "  the interface of h2 went away $flaps times"
	;;
no_if)
	# Without the key if= nothing leaves the host: the job ends with an error, in bounded time, and the log names
	# the key.
	hosts_up
	mpi_build mpi_verify
	unset SOFTFABRIC_NET
	ranks 1 100 -x FI_LOG_LEVEL=warn "${mca_mtl[@]}" "$tmp/mpi_verify" 8 >"$tmp/out" 2>&1
	rc=$?
	[ $rc = 0 ] && fail "$case: ran without an interface"
	[ $rc = 124 ] && { tail -20 "$tmp/out"; fail "$case: hung"; }
	why='(no adapter with this address on this host;|no host has LID 0x[0-9a-f]*:)'
	grep -Eq "$why between hosts set SOFTFABRIC_NET=\"if=" "$tmp/out" || {
		tail -20 "$tmp/out"; fail "$case: nothing says what to set"; }
	;;
vni)
	# Two hosts in different VNIs: of the same UDP ports (they differ by 24) the target counts and refuses; of
	# others nobody answers.
	hosts_up
	for vni in 10 34 11; do
		at=$tmp/at$vni
		FI_CXI_DEFAULT_VNI=10 timeout 90 ip netns exec h1 "$build/tests/netns/vni" recv "$at" >"$at.recv" &
		children+=($!)
		FI_CXI_DEFAULT_VNI=$vni timeout 90 ip netns exec h2 "$build/tests/netns/vni" send "$at" >"$at.send" || {
			cat "$at".*; fail "$case: sender with VNI $vni"; }
		touch "$at.done"
		wait $! || { cat "$at".*; fail "$case: receiver"; }
		echo "  VNI 10 <- $vni: $(cat "$at.send"); $(cat "$at.recv")"
	done
	grep -q '^sent 10 failed 0 ' "$tmp/at10.send" &&
		grep -q '^received 5 touched [1-9][0-9]* vni_not_found 0$' "$tmp/at10.recv" ||
		fail "$case: the same VNI does not get through"
	grep -q '^sent 0 failed 10 errno 25$' "$tmp/at34.send" &&
		grep -q '^received 0 touched 0 vni_not_found [1-9]' "$tmp/at34.recv" ||
		fail "$case: another VNI on the same ports is not refused and counted"
	grep -q '^sent 0 failed 10 errno 2$' "$tmp/at11.send" &&
		grep -q '^received 0 touched 0 vni_not_found 0$' "$tmp/at11.recv" ||
		fail "$case: another VNI on other ports"
	;;
seal)
	# Two hosts with one key exchange messages; with no key, another key or another setting of secrecy at one of
	# them nothing gets through: an end in bounded time, and a line that says why.
	need fi_pingpong
	hosts_up
	for k in one two; do
		head -c 32 /dev/urandom >"$tmp/$k"
		chmod 600 "$tmp/$k"
	done
	export FI_LOG_LEVEL=warn
	base="udp;if=eth0;dead_after=2s"
	# exchange ROOM1 ROOM2 - what h1 and h2 say to each other
	exchange() {
		SOFTFABRIC_NET=$1 timeout 60 ip netns exec h1 \
			fi_pingpong -p "$name" -e rdm -I 100 -S 65536 >"$tmp/h1" 2>&1 &
		local server=$!
		for _ in $(seq 100); do
			ip netns exec h1 ss -ltn | grep -q :47592 && break
			sleep 0.1
		done
		SOFTFABRIC_NET=$2 timeout 60 ip netns exec h2 \
			fi_pingpong -p "$name" -e rdm -I 100 -S 65536 10.77.0.1 >"$tmp/h2" 2>&1
		local rc=$?
		kill "$server" 2>/dev/null
		wait "$server"
		return $rc
	}
	# told MESSAGE - the case has failed: what h1 and h2 said, and why that is wrong
	told() { cat "$tmp/h1" "$tmp/h2"; fail "$case: $1"; }
	exchange "$base;key=$tmp/one" "$base;key=$tmp/one" || told "one key at both hosts"
	exchange "$base;key=$tmp/one;secrecy=yes" "$base;key=$tmp/one;secrecy=yes" || told "secrecy at both hosts"
	while read -r room1 room2 why; do
		exchange "$base$room1" "$base$room2"
		rc=$?
		[ $rc = 0 ] && fail "$case: $room1 and $room2 understand each other"
		[ $rc = 124 ] && told "$room1 and $room2: hung"
		cat "$tmp/h1" "$tmp/h2" | grep -q "$why" || told "$room1 and $room2: nothing says $why"
		echo "  ${room1##*/} and ${room2##*/}: $why"
	done <<-EOT
		;key=$tmp/one ; has.no.seal
		; ;key=$tmp/one has.no.key=
		;key=$tmp/one ;key=$tmp/two sealed.with.another.key
		;key=$tmp/one ;key=$tmp/one;secrecy=yes another.setting.of.secrecy
	EOT
	;;
*)
	fail "no case $case"
	;;
esac
pass "$case"
