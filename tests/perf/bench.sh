#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-2-Clause
# Our providers beside the stock ones, interleaved turn by turn, as ratios: bench.sh BUILD [OUTPUT_FOLDER]. Table on the
# terminal, CSV and plots in OUTPUT_FOLDER (BUILD/bench). local: against shm and UCX; net: against tcp (and udp;ofi_rxd
# and UCX) over loopback, shared memory off; wake: sleeping for messages, on this host, against tcp; and in
# ibv_get_cq_event(). Ours and the stock ones run on the newest libfabric that is found, or on the one of
# SOFTFABRIC_PEERS, a prefix with lib/libfabric.so.1. UCX takes turns of its own behind each row, raw_limit as well.
# Rows of local and net are measured on near and on far processors, where there are both; PLACE_SECONDS says how long
# to wait for those that a virtual machine has shown before and does not have at the moment. To keep the processors from
# other work begin it by `chrt -r 1`, never by -f: programs that poll for each other and never give way stop even the
# clock that would end them.
name=all
. "$(dirname "$0")/../lib.sh"
out=${2:-$build/bench}
mkdir -p "$out"
rounds=${ROUNDS:-40}
ofi=$build/tests/perf/bench_ofi
need python3
[ -x "$ofi" ] || fail "$ofi was not built"
csv=$out/bench.csv
: >"$csv"

# cpus_of KIND - two processors that are near, or far, at the moment; nothing without any. What was seen is remembered.
cpus_of() {
	"$ofi" -t place | awk -v kind="$1" '$2 == kind { print $1; exit }' | tee "$tmp/cpus"
	[ ! -s "$tmp/cpus" ] || : >"$tmp/seen_$1"
}

# cpus_pick - two processors of the kind that is asked for, else such as share a cache at the moment, if there are any
cpus_pick() {
	local found=''
	[ -z "${on:-}" ] || found=$(cpus_of "$on")
	[ -z "$found" ] || { echo "$found"; return; }
	"$ofi" -t place | awk '{ at[$2] = at[$2] ? at[$2] : $1 }
		END { print at["near"] ? at["near"] : at["far"] ? at["far"] : at["smt"] ? at["smt"] : "0,0" }'
}

# newest - the folder of the newest libfabric, and its version
newest() {
	local dir found
	if [ -n "${SOFTFABRIC_PEERS:-}" ]; then
		found=$SOFTFABRIC_PEERS/lib
	else
		found=$(printf '%s\n' "$LD_LIBRARY_PATH" | tr : '\n'
			/sbin/ldconfig -p | sed -n 's|.*libfabric\.so\.1 .*=> \(.*\)/[^/]*$|\1|p'
			ls -d /usr/local/lib /opt/*/lib /opt/*/lib64 /opt/*/*/lib /opt/*/*/lib64 2>/dev/null)
	fi
	for dir in $found; do
		[ -e "$dir/libfabric.so.1" ] || continue
		echo "$(LD_LIBRARY_PATH=$dir "$ofi" -t version 2>/dev/null || echo 0.0) $dir"
	done | sort -s -rV -k1,1 | head -1
}

# row SUITE ARGUMENTS... - one comparison; the last -p that works is what the others are measured by. A provider that
# does not work costs its own column.
row() {
	local suite=$1
	shift
	timeout 100 "$ofi" -n "$rounds" -c "$(cpus_pick)" "$@" 2>"$tmp/err" | sed "s|^|$suite,|" >>"$csv"
	[ "${PIPESTATUS[0]}" != 124 ] || echo "bench: $suite $*: it did not end" >>"$tmp/err"
	# Who is not there at all is named once, whatever else goes wrong with its row.
	sed -n -e '/fi_getinfo/{s/^bench:/ /p;d}' -e "s|^bench: \(.*\)|  \1 ($suite $2 of $4 bytes)|p" \
		"$tmp/err" >>"$out/failed.txt"
	printf . >&2
}

place_of() { "$ofi" -t place | sed -n "s/^$1 //p"; }

# ucx_once TEST SIZE TRANSPORTS DEVICES CPU,CPU - ns or messages per second of one run of ucx_perftest
ucx_once() {
	local n=20000 server out='' port=$((20000 + RANDOM % 20000)) until=$((SECONDS + 10))
	[ "$2" -le 4096 ] || n=2000
	[ "$2" -lt 1000000 ] || n=100
	[ "$4" = all ] || n=$((n / 10))
	local run=(env "UCX_TLS=$3" "UCX_NET_DEVICES=$4" UCX_LOG_LEVEL=error timeout 20 taskset -c)
	local what=(ucx_perftest -t "$1" -s "$2" -n "$n" -w $((n / 10)) -f -p "$port")
	"${run[@]}" "${5%,*}" "${what[@]}" >/dev/null 2>&1 &
	server=$!
	while [ -z "$out" ] && kill -0 $server 2>/dev/null && [ $SECONDS -lt $until ]; do
		out=$("${run[@]}" "${5#*,}" "${what[@]}" 127.0.0.1 2>"$tmp/err" |
			awk -v t="$1" '$1 ~ /^[0-9]+$/ { print t == "tag_lat" ? $3 * 1000 : $8 }')
		[ -n "$out" ] || sleep 0.05
	done
	kill $server 2>/dev/null
	wait $server 2>/dev/null
	echo "$out"
}

# ucx SUITE TEST SIZE - the same of UCX, over shared memory or TCP, median of five, or of three where rounds are few; a
# run counts where the cores stay
ucx() {
	local tls=posix,cma dev=all kind=tag_bw cpus place value
	command -v ucx_perftest >/dev/null || return
	[ "$1" = local ] || { tls=tcp dev=lo; }
	[ "$2" != lat ] || kind=tag_lat
	for _ in 1 2 3 $([ "$rounds" -le 21 ] || echo 4 5); do
		cpus=$(cpus_pick)
		place=$(place_of "$cpus")
		value=$(ucx_once "$kind" "$3" "$tls" "$dev" "$cpus")
		[ -n "$value" ] || echo "  ucx: $(head -1 "$tmp/err") ($1 $2 of $3 bytes)" >>"$out/failed.txt"
		[ -z "$value" ] || [ "$place" != "$(place_of "$cpus")" ] || echo "$place $value"
	done | sort -k1,1 -k2,2n | awk -v row="$1,$2,$3,0" -v size="$([ "$2" = bw ] && echo "$3" || echo 1)" '
		function say() { if (n) printf "%s,%s,ucx,%d,%.1f,0\n", row, at, n, v[int((n + 1) / 2)] * size }
		$1 != at { say(); at = $1; n = 0 }
		{ v[++n] = $2 }
		END { say() }' >>"$csv"
}

# raw SUITE TEST SIZE - what the machine permits
raw() {
	timeout 60 "$build/tests/perf/raw_limit" "$1" "$2" "$3" "$(cpus_pick)" "$rounds" 2>"$tmp/err" |
		sed "s|^|$1,|" >>"$csv"
	[ "${PIPESTATUS[0]}" = 0 ] || echo "  $(tail -1 "$tmp/err") ($1 $2 of $3 bytes)" >>"$out/failed.txt"
}

# pair SUITE TEST SIZE ARGUMENTS... - row alone
pair() { row "$1" -t "$2" -s "$3" "${@:4}"; }

# versus SUITE TEST SIZE ARGUMENTS... - row, and beside it UCX and the raw limit
versus() {
	pair "$@"
	ucx "$1" "$2" "$3"
	raw "$1" "$2" "$3"
}

# measured SUITE TEST SIZE KIND - a quarter of the rounds at least were on such processors
measured() {
	awk -F, -v OFS=, -v row="$1,$2,$3" -v kind="$4" -v least=$((rounds / 4)) '
		$1 OFS $2 OFS $3 == row && $5 == kind && $6 != "ucx" && $6 != "raw" && $7 >= least { found = 1 }
		END { exit !found }' "$csv"
}

# both pair|versus SUITE TEST SIZE ARGUMENTS... - on processors of each kind that there are; two kinds share the rounds,
# so that the row takes no longer. A kind that is not there now is put off, for second_chance.
both() {
	local kind offered=() all_rounds=$rounds
	for kind in near far; do [ -z "$(cpus_of $kind)" ] || offered+=($kind); done
	[ ${#offered[@]} != 0 ] || "$@"
	local rounds=$((all_rounds / (${#offered[@]} + !${#offered[@]})))
	[ "$rounds" -gt 0 ] || rounds=1
	for kind in "${offered[@]}"; do measured "${@:2:3}" $kind || on=$kind "$@"; done
	for kind in near far; do
		measured "${@:2:3}" $kind || later+=("$kind $(printf '%q ' "$@")")
	done
}

# second_chance - what was put off, while time is left and its kind of processors has been seen at all
second_chance() {
	local left entry kind until=$((SECONDS + ${PLACE_SECONDS:-120})) rounds=$((rounds / 2 + 1))
	while [ ${#later[@]} != 0 ] && [ $SECONDS -lt $until ]; do
		left=()
		for entry in "${later[@]}"; do
			kind=${entry%% *}
			eval "set -- ${entry#* }"
			[ -e "$tmp/seen_$kind" ] || continue
			measured "${@:2:3}" "$kind" && continue
			[ $SECONDS -ge $until ] || [ -z "$(cpus_of "$kind")" ] || on=$kind "$@"
			measured "${@:2:3}" "$kind" || left+=("$entry")
		done
		later=("${left[@]}")
		sleep 0.5
	done
	[ ${#later[@]} = 0 ] || echo "  ${#later[@]} rows on processors that did not come back" >>"$out/failed.txt"
}

rm -f "$out/failed.txt"
read -r version folder < <(newest)
[ -n "${folder:-}" ] || fail "there is no lib/libfabric.so.1 ${SOFTFABRIC_PEERS:+in $SOFTFABRIC_PEERS}"
export LD_LIBRARY_PATH=$folder${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
echo "version,libfabric,$version,$folder" >>"$csv"
if command -v ucx_perftest >/dev/null; then
	echo "version,ucx,$(ucx_info -v | sed -n 's/.*[Vv]ersion[: ]*\([0-9.]*\).*/\1/p' | head -1)" >>"$csv"
else
	echo "  ucx: there is no ucx_perftest (Debian: ucx-utils)" >>"$out/failed.txt"
fi
head -c 32 /dev/urandom >"$tmp/key"
chmod 600 "$tmp/key"
all=() all_net=() all_put=() all_idle=()
for p in $providers; do
	net=(-e SOFTFABRIC_NET=udp)
	[ "$p" = efa ] && net=(-e FI_EFA_ENABLE_SHM_TRANSFER=0)
	all+=(-p "$p")
	all_net+=(-p "$p" "${net[@]}")
	all_put+=(-p "$p")
	all_idle+=(-p "$p")
	[ "$p" = efa ] && all_put+=(-e FI_EFA_USE_DEVICE_RDMA=1) && all_idle+=(-e FI_EFA_USE_DEVICE_RDMA=1)
	# Under manual progress a target of opx that calls nothing serves nobody, on real adapters as here.
	[ "$p" = opx ] && all_idle+=(-a)
	# Goodput under loss. The seed is one room's: the rows differ in what is lost alone.
	for loss in 1 5 20; do
		row "loss$loss" -n $((rounds / 4 + 1)) -t bw -s 1048576 \
			-p "$p" -e "SOFTFABRIC_NET=udp;loss=$loss%;seed=7" -p "$p" "${net[@]}"
	done
	# Protection on the wire beside none.
	for seal in "" ";secrecy=yes"; do
		suite=seal
		[ -z "$seal" ] || suite=secret
		for size in 8 65536; do
			row "$suite" -n $((rounds / 4 + 1)) -t lat -s $size \
				-p "$p" -e "SOFTFABRIC_NET=udp;key=$tmp/key$seal" -p "$p" -e SOFTFABRIC_NET=udp
		done
		row "$suite" -n $((rounds / 4 + 1)) -t bw -s 1048576 \
			-p "$p" -e "SOFTFABRIC_NET=udp;key=$tmp/key$seal" -p "$p" -e SOFTFABRIC_NET=udp
	done
done
later=()
for size in 8 64 1024 4096 16384 65536 262144 1048576 4194304; do both versus local lat $size "${all[@]}" -p shm; done
for size in 8 1024 16384 65536 1048576; do both versus local bw $size "${all[@]}" -p shm; done
both pair local bw_busy 1048576 "${all[@]}" -p shm
both versus local rate 8 "${all[@]}" -p shm
both pair local put 8 "${all_put[@]}" -p shm
for size in 8 4096 65536; do
	for test in puts get gets; do both pair local $test $size "${all_put[@]}" -p shm; done
done
row idle -t put_idle -s 8 "${all_idle[@]}"
for size in 8 1024 16384 65536 1048576; do both versus net lat $size "${all_net[@]}" -p "udp;ofi_rxd" -p tcp; done
for size in 1024 65536 1048576; do both versus net bw $size "${all_net[@]}" -p "udp;ofi_rxd" -p tcp; done
both pair net bw_busy 1048576 "${all_net[@]}" -p tcp
both versus net rate 8 "${all_net[@]}" -p "udp;ofi_rxd" -p tcp
second_chance
# Both sides sleep for each message. efa's queues have no wait objects.
row wake -t wake_cntr -s 8 "${all[@]}" -p tcp
all_cq=()
for p in $providers; do [ "$p" = efa ] || all_cq+=(-p "$p"); done
for test in wake_cq wake_fd; do [ ${#all_cq[@]} = 0 ] || row wake -t $test -s 8 "${all_cq[@]}" -p tcp; done
if [ -x "$build/tests/perf/verbs_wake" ]; then
	for room in memory network; do
		timeout 100 taskset -c "$(cpus_pick)" "$build/tests/perf/verbs_wake" $room 500 2>>"$out/failed.txt" |
			sed 's/^/verbs,/' >>"$csv"
		printf . >&2
	done
fi
timeout 100 "$ofi" -n 5 -c 0,0 -t lat -s 8 "${all[@]}" -p shm 2>/dev/null | sed 's/^/local,/' >>"$csv"

row posted/ -t lat -s 8 -p shm -d 1000 -p shm
for p in $providers; do
	if [ "$p" = opx ]; then
		row posted/ -t lat -s 8 -p opx -d 1000 -p opx -d 10000 -p opx
		continue
	fi
	if [ "$p" = efa ]; then
		row posted/ -t lat -s 8 -p efa -d 1000 -p efa -d 10000 -e FI_EFA_RX_SIZE=20000 \
			-p efa -d 100000 -e FI_EFA_RX_SIZE=200000 -p efa
		continue
	fi
	# Cassini matches by list entries, of which a service has 16,384 unless the room has more; when they run out
	# hybrid goes to software.
	for mode in hardware hybrid software; do
		room=(-e "FI_CXI_RX_MATCH_MODE=$mode")
		[ $mode = hardware ] && room+=(-e SOFTFABRIC_CXI=les=200000)
		for test in lat rate; do
			for kind in posted unexpected; do
				depth=-d
				[ $kind = posted ] || depth=-u
				row "$kind/$mode" -t $test -s 8 -p "$p" $depth 1000 "${room[@]}" \
					-p "$p" $depth 50000 "${room[@]}" -p "$p" "${room[@]}"
			done
		done
	done
done

"$(dirname "$0")/instr.sh" "$build" | sed 's/^/count,/' >>"$csv"
printf . >&2
for p in $providers; do
	timeout 100 "$build/tests/perf/bench_mem" "$p" 64 100000 2>>"$out/failed.txt" | sed "s/^/memory,$p,/" >>"$csv"
done
# Jobs of more and more processes. Who fails, or needs more than a quarter of a minute, is not asked for larger ones.
for p in $providers shm tcp; do
	for n in 2 8 32 64 128 256 512; do
		[ "$n" -le "${SCALE_MAX:-512}" ] || continue
		begin=$SECONDS
		SCALE_SECONDS=25 timeout 40 "$build/tests/perf/scale" "$p" "$n" 2>"$tmp/err" >"$tmp/scale" || {
			echo "  $(tail -1 "$tmp/err") ($n processes)" >>"$out/failed.txt"
			break
		}
		sed 's/^/scale,/' "$tmp/scale" >>"$csv"
		[ $((SECONDS - begin)) -lt 15 ] || break
	done
	printf . >&2
done
for rate in 0 10000 100000; do
	timeout 100 "$build/tests/perf/hello_flood" "$rate" 5000 2>>"$out/failed.txt" | sed 's/^/flood,/' >>"$csv"
done
for rate in 1000 10000 0; do timeout 100 "$build/tests/perf/beset" 10 3000 "$rate" 2>>"$out/failed.txt" >>"$csv"; done
if command -v mpirun >/dev/null && command -v mpicc >/dev/null; then
	mpi_build mpi_barrier
	on_two() {
		taskset -c "$(cpus_pick)" timeout 100 mpirun --oversubscribe --bind-to none -np 16 "$@" \
			"$tmp/mpi_barrier" 2>"$tmp/err" | awk '/^barrier/ { print $2 }'
	}
	for _ in 1 2 3; do
		for p in $providers; do
			# One word of mca_mtl is the provider's name.
			echo "mpi,barrier,16,$p,$(on_two -x FI_PROVIDER_PATH "${mca_mtl[@]/#$name/$p}")" >>"$csv"
		done
		echo "mpi,barrier,16,ompi-vader,$(on_two --mca pml ob1 --mca btl vader,self)" >>"$csv"
	done
fi
echo >&2
python3 "$(dirname "$0")/report.py" "$csv" "$out"
[ -s "$out/failed.txt" ] && { echo "Not measured:"; awk '!seen[$0]++' "$out/failed.txt"; }
if command -v gnuplot >/dev/null; then
	for plot in latency bandwidth scale scale_memory scale_start; do
		[ -s "$out/$plot.dat" ] || continue
		gnuplot -e "out='$out'; what='$plot'" "$(dirname "$0")/plot.gp" 2>"$tmp/err" || {
			echo "gnuplot: $(head -1 "$tmp/err")"; continue; }
		echo "plot: $out/$plot.png"
	done
fi
exit 0
