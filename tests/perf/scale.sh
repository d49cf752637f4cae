#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-2-Clause
# That scale measures what it says, with four processes: scale.sh BUILD PROVIDER. Looks at each figure, not at its size.
name=$2
. "$(dirname "$0")/../lib.sh"
scale=$build/tests/perf/scale
SCALE_SECONDS=100 timeout 110 "$scale" "$name" 4 20 >"$tmp/out" 2>"$tmp/err" || fail "$(cat "$tmp/err")"
[ ! -s "$tmp/err" ] || fail "$(cat "$tmp/err")"
for what in partners start_ms start_cpu_ms message_cpu_ns message_wall_ns idle_poll_ns process_bytes peer_bytes; do
	awk -F, -v row="$name,4,$what" '$1 "," $2 "," $3 == row && $4 > 0 { n++ } END { exit n != 1 }' "$tmp/out" ||
		fail "$name: $what is not there once and above zero: $(grep ",$what," "$tmp/out")"
done
# Where its processes fail, the job ends, says why and prints nothing else.
timeout 110 "$scale" nobody 4 >"$tmp/out" 2>"$tmp/err" && fail "a provider that is not there was measured"
grep -q "nobody: fi_getinfo" "$tmp/err" || fail "nothing was said of a provider that is not there: $(cat "$tmp/err")"
[ ! -s "$tmp/out" ] || fail "figures of a provider that is not there"
pass "$name"
