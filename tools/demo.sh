#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-2-Clause
# Stock programs over the efa provider, in a few minutes: demo.sh BUILD. Each step says PASS, SKIP with the reason, or FAIL; the
# exit status is 1 if any failed.
. "$(dirname "$0")/../tests/lib.sh"
failed=0
started=$SECONDS

say() { printf '\n== %s\n' "$*"; }
# step NAME COMMAND... - runs one step, status 77 is a skip; its lines are indented
step() {
	local name=$1 rc
	shift
	say "$name"
	"$@" >"$tmp/step" 2>&1
	rc=$?
	awk -v rc=$rc '/^(PASS|SKIP)/ { next } rc == 0 && /^  ok / { ok++; next } ok { print "  " ok " tests ok"; ok = 0 } { print }' \
		"$tmp/step" | sed "s,/[^ ]*/softfabric-test[^/]*/,,; s/^/   /"
	case $rc in
	0) echo "PASS: $name" ;;
	77) echo "SKIP: $name: $(sed -n 's/^SKIP: //p' "$tmp/step" | tail -1)" ;;
	*) echo "FAIL: $name"; failed=1 ;;
	esac
}

info() {
	fi_info -p efa | awk '/^provider|fabric:|domain:|version:|type:/' | head -20
	[ "$(fi_info -p efa | grep -c '^provider: efa$')" -ge 1 ]
}

# pingpong - stock fi_pingpong, two processes, every size verified by it (-c)
pingpong() {
	local port=$((20000 + RANDOM % 20000)) server
	timeout 60 fi_pingpong -p efa -e rdm -c -B $port -I 200 -S all >"$tmp/server" 2>&1 &
	server=$!
	children+=($server)
	# The server says nothing when it listens; its port tells.
	for _ in $(seq 100); do
		grep -qi ":$(printf %04X $port) .* 0A " /proc/net/tcp /proc/net/tcp6 2>/dev/null && break
		sleep 0.05
	done
	timeout 60 fi_pingpong -p efa -e rdm -c -P $port -I 200 -S all 127.0.0.1 >"$tmp/client" 2>&1 || { cat "$tmp/client"; return 1; }
	wait $server || { cat "$tmp/server"; return 1; }
	awk 'NR == 1 || $1 ~ /^(64|1k|8k|64k|1m|4m|8m)$/' "$tmp/client"
	! grep -qi "error\|mismatch" "$tmp/client"
}

# part CASE... of another script, with only the lines that say something
mpi_case() { "$here/mpi/run_mpi.sh" "$build" "$1"; }
netns_case() { "$here/netns/run_netns.sh" "$build" "$1"; }

# compare - latency and bandwidth beside the stock providers, interleaved turn by turn
compare() {
	local ofi=$build/tests/perf/bench_ofi csv=$tmp/bench.csv size out=$build/demo
	mkdir -p "$out"
	for size in 8 64 1024 4096 16384 65536 1048576; do
		timeout 60 "$ofi" -n 30 -t lat -s $size -p efa -p shm | sed 's/^/local,/' >>"$csv" || return 1
		timeout 60 "$ofi" -n 30 -t lat -s $size -p efa -e FI_EFA_ENABLE_SHM_TRANSFER=0 -p tcp | sed 's/^/net,/' >>"$csv" || return 1
	done
	for size in 8 1024 16384 65536 1048576; do
		timeout 60 "$ofi" -n 20 -t bw -s $size -p efa -p shm | sed 's/^/local,/' >>"$csv" || return 1
		timeout 60 "$ofi" -n 20 -t bw -s $size -p efa -e FI_EFA_ENABLE_SHM_TRANSFER=0 -p tcp | sed 's/^/net,/' >>"$csv" || return 1
	done
	timeout 60 "$ofi" -n 30 -t rate -s 8 -p efa -p shm | sed 's/^/local,/' >>"$csv" || return 1
	timeout 60 "$ofi" -n 30 -t rate -s 8 -p efa -e FI_EFA_ENABLE_SHM_TRANSFER=0 -p tcp | sed 's/^/net,/' >>"$csv" || return 1
	python3 "$here/perf/report.py" "$csv" "$out" || return 1
	echo "local: shared memory on this host, beside shm; net: UDP over loopback, beside tcp."
	echo "near, far, smt: how the two cores lay to each other while both were measured. Full table: make bench."
	command -v gnuplot >/dev/null || return 0
	for size in latency bandwidth; do
		gnuplot -e "out='$out'; what='$size'" "$here/perf/plot.gp" 2>/dev/null && echo "plot: $out/$size.png"
	done
}

need fi_info fi_pingpong python3
step "fi_info lists the efa provider" info
step "fi_pingpong between two processes" pingpong
step "MPI: 4 ranks, every byte verified, adapters' counters" mpi_case p2p
step "MPI one-sided over libfabric's RMA and atomics" mpi_case rma_btl
step "without our module the same program must fail" mpi_case no_provider
step "NetPIPE, integrity checked" mpi_case netpipe
step "three hosts (network namespaces), 1 % loss, reordering" netns_case loss
step "latency and bandwidth beside the stock providers" compare
printf '\n%s after %d s\n' "$([ $failed = 0 ] && echo 'demo: PASS' || echo 'demo: FAIL')" $((SECONDS - started))
exit $failed
