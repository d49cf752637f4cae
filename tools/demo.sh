#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-2-Clause
# Stock programs over each provider that is built, in a few minutes: demo.sh BUILD. Each step says PASS, SKIP with the
# reason, or FAIL; the exit status is 1 if any failed.
name=all
. "$(dirname "$0")/../tests/lib.sh"
failed=0
table=''

say() { printf '\n== %s\n' "$*"; }
# step NAME COMMAND... - runs one step, status 77 is a skip; its lines are indented
step() {
	local name=$1 rc result
	local -i began=$SECONDS
	shift
	say "$name"
	"$@" >"$tmp/step" 2>&1
	rc=$?
	awk -v rc=$rc '/^(PASS|SKIP)/ { next } rc == 0 && /^  ok / { ok++; next }
		ok { print "  " ok " tests ok"; ok = 0 } { print }' "$tmp/step" |
		sed "s,/[^ ]*/softfabric-test[^/]*/,,; s/^/   /"
	case $rc in
	0) result=PASS ;;
	77) result="SKIP" name="$name: $(sed -n 's/^SKIP: //p' "$tmp/step" | tail -1)" ;;
	*) result=FAIL failed=1 ;;
	esac
	echo "$result: $name"
	table+=$(printf '%-4s  %4d s  %s' "$result" $((SECONDS - began)) "$name")$'\n'
}

info() {
	fi_info -p "$1" | awk '/^provider|fabric:|domain:|version:|type:/' | head -20
	[ "$(fi_info -p "$1" | grep -c "^provider: $1\$")" -ge 1 ]
}

# pingpong PROVIDER - stock fi_pingpong, two processes, every size verified by it (-c)
pingpong() {
	local port=$((20000 + RANDOM % 20000)) server
	timeout 120 fi_pingpong -p "$1" -e rdm -c -B $port -I 100 -S all >"$tmp/server" 2>&1 &
	server=$!
	children+=($server)
	await_port $port || { cat "$tmp/server"; return 1; }
	timeout 120 fi_pingpong -p "$1" -e rdm -c -P $port -I 100 -S all 127.0.0.1 >"$tmp/client" 2>&1 || {
		local rc=$?
		cat "$tmp/client"
		[ $rc != 124 ] || echo "not done in 120 s: both processes spin, beside a load of" \
			"$(cut -d' ' -f1 /proc/loadavg) on $(nproc) CPUs"
		return 1
	}
	wait $server || { cat "$tmp/server"; return 1; }
	awk 'NR == 1 || $1 ~ /^(64|1k|8k|64k|1m|4m|8m)$/' "$tmp/client"
}

mpi_case() { "$here/mpi/run_mpi.sh" "$build" "$@"; }
netns_case() { "$here/netns/run_netns.sh" "$build" "$@"; }

# compare - latency and bandwidth of all providers beside the stock ones, interleaved turn by turn
compare() {
	local p size csv=$tmp/bench.csv out=$build/demo local_=() net=()
	mkdir -p "$out"
	for p in $providers; do
		local_+=(-p "$p")
		net+=(-p "$p")
		[ "$p" = efa ] && net+=(-e FI_EFA_ENABLE_SHM_TRANSFER=0) || net+=(-e SOFTFABRIC_NET=udp)
	done
	# both TEST SIZE ROUNDS - on this host and over UDP
	both() {
		timeout 60 "$build/tests/perf/bench_ofi" -n "$3" -t "$1" -s "$2" "${local_[@]}" -p shm |
			sed 's/^/local,/' >>"$csv" &&
			timeout 60 "$build/tests/perf/bench_ofi" -n "$3" -t "$1" -s "$2" "${net[@]}" -p tcp |
			sed 's/^/net,/' >>"$csv"
	}
	for size in 8 64 1024 4096 16384 65536 1048576; do both lat $size 20 || return 1; done
	for size in 8 1024 16384 65536 1048576; do both bw $size 15 || return 1; done
	both rate 8 20 || return 1
	python3 "$here/perf/report.py" "$csv" "$out" || return 1
	echo "local: shared memory on this host, beside shm; net: UDP over loopback, beside tcp."
	echo "near, far, smt: how the two cores lay to each other while all were measured. Full table: make bench."
	command -v gnuplot >/dev/null || return 0
	for size in latency bandwidth; do
		gnuplot -e "out='$out'; what='$size'" "$here/perf/plot.gp" 2>/dev/null && echo "plot: $out/$size.png"
	done
}

need fi_info fi_pingpong python3
for p in $providers; do
	step "$p: fi_info lists it" info "$p"
	step "$p: fi_pingpong between two processes" pingpong "$p"
	step "$p: MPI, 4 ranks, every byte verified, adapters' counters" mpi_case p2p "$p"
	step "$p: MPI one-sided, every byte verified" mpi_case rma "$p"
	step "$p: without our module the same program must fail" mpi_case no_provider "$p"
	step "$p: NetPIPE, integrity checked" mpi_case netpipe "$p"
	step "$p: three hosts (network namespaces), 1 % loss, reordering" netns_case loss "$p"
done
step "latency and bandwidth beside the stock providers" compare
printf '\n== summary\n%s' "$table"
printf '\n%s after %d s\n' "$([ $failed = 0 ] && echo 'demo: PASS' || echo 'demo: FAIL')" $SECONDS
exit $failed
