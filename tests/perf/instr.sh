#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-2-Clause
# Per message, both ends: instructions (callgrind), system calls (strace) and allocations, for our providers and the
# stock ones: instr.sh BUILD. Counts repeat exactly: they are differences of two runs of one process with both ends in
# it. Prints CSV: what,mode,size,provider,per_message; for mode idle per read of a queue to which nothing comes; of a
# mode MODE/PEERS each end knows so many peers more.
name=all
. "$(dirname "$0")/../lib.sh"
one=$build/tests/perf/bench_one

# counts TOOL PROVIDER COUNT SIZE MODE - what the tool counted in one run
counts() {
	local tool=$1
	shift
	case $tool in
	instructions)
		timeout 200 valgrind --tool=callgrind --callgrind-out-file=/dev/null "$one" "$@" 2>&1 |
			awk '/Collected/ { print $4 }' ;;
	syscalls)
		# Only the program's thread: the adapter's own sleeps and wakes by the clock. A yield is how an idle
		# poll waits.
		timeout 100 strace -c -o "$tmp/strace" "$one" "$@" >/dev/null 2>&1 &&
			awk '$NF == "total" { n += $4 } $NF == "sched_yield" { n -= $4 } END { print n }' \
				"$tmp/strace" ;;
	allocations)
		timeout 100 env LD_PRELOAD="$build/tests/perf/malloc_count.so" "$one" "$@" 2>&1 |
			awk '/^allocations:/ { print $2 }' ;;
	esac
}

# row TOOL MODE[/PEERS] SIZE PROVIDER LESS MORE
row() {
	local a b mode
	IFS=/ read -ra mode <<<"$2"
	a=$(counts "$1" "$4" "$5" "$3" "${mode[@]}")
	b=$(counts "$1" "$4" "$6" "$3" "${mode[@]}")
	[ -n "$a" ] && [ -n "$b" ] && awk -v a="$a" -v b="$b" -v n=$(($6 - $5)) -v t="$1,$2,$3,$4" \
		'BEGIN { printf "%s,%.3f\n", t, (b - a) / n }'
}

for p in $providers shm tcp "udp;ofi_rxd"; do
	if command -v valgrind >/dev/null; then
		for mode in inject send; do row instructions $mode 8 "$p" 2000 5000; done
		row instructions stream 8 "$p" 1280 5120
		row instructions idle 8 "$p" 2000 5000
	fi
	if command -v strace >/dev/null; then
		row syscalls inject 8 "$p" 1000 6000
	fi
	row allocations inject 8 "$p" 1000 21000
	row allocations send 4096 "$p" 1000 6000
done
# What a message and an idle poll cost who knows many peers: as much as with two.
command -v valgrind >/dev/null && for p in $providers; do
	for mode in inject send idle; do row instructions $mode/100000 8 "$p" 2000 5000; done
done
exit 0
