#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-2-Clause
# efa beside the stock providers, interleaved turn by turn, as ratios: bench.sh BUILD [OUTPUT_FOLDER]. Table on the terminal, CSV and
# plots in OUTPUT_FOLDER (BUILD/bench). local: against shm; net: against tcp (and udp;ofi_rxd) over loopback, shared memory off.
. "$(dirname "$0")/../lib.sh"
out=${2:-$build/bench}
mkdir -p "$out"
rounds=${ROUNDS:-40}
ofi=$build/tests/perf/bench_ofi
need python3
[ -x "$ofi" ] || fail "$ofi was not built"
csv=$out/bench.csv
: >"$csv"

# cpus_pick - two processors that share a cache at the moment, if there are any
cpus_pick() {
	"$ofi" -t place | awk '{ at[$2] = at[$2] ? at[$2] : $1 } END { print at["near"] ? at["near"] : at["far"] ? at["far"] : at["smt"] ? at["smt"] : "0,0" }'
}

# row SUITE ARGUMENTS... - one comparison; the last -p is what the others are measured by
row() {
	local suite=$1
	shift
	timeout 100 "$ofi" -n "$rounds" -c "$(cpus_pick)" "$@" 2>"$tmp/err" | sed "s/^/$suite,/" >>"$csv"
	[ "${PIPESTATUS[0]}" = 0 ] || echo "  $suite $*: $(tail -1 "$tmp/err")" >>"$out/failed.txt"
	printf . >&2
}

rm -f "$out/failed.txt"
net=(-e FI_EFA_ENABLE_SHM_TRANSFER=0)
lat_sizes="8 64 1024 4096 16384 65536 262144 1048576 4194304"
for size in $lat_sizes; do row local -t lat -s $size -p efa -p shm; done
for size in 8 1024 16384 65536 1048576; do row local -t bw -s $size -p efa -p shm; done
row local -t rate -s 8 -p efa -p shm
row local -t put -s 8 -p efa -e FI_EFA_USE_DEVICE_RDMA=1 -p shm
row idle -t put_idle -s 8 -p efa -e FI_EFA_USE_DEVICE_RDMA=1
for size in 8 1024 16384 65536 1048576; do row net -t lat -s $size -p efa "${net[@]}" -p "udp;ofi_rxd" -p tcp; done
for size in 1024 65536 1048576; do row net -t bw -s $size -p efa "${net[@]}" -p "udp;ofi_rxd" -p tcp; done
row net -t rate -s 8 -p efa "${net[@]}" -p "udp;ofi_rxd" -p tcp
row loss -t bw -s 1048576 -p efa -e "SOFTFABRIC_NET=udp;loss=1%;seed=7" -p efa "${net[@]}"
row depth -t lat -s 8 -p efa -d 1000 -p efa -d 10000 -e FI_EFA_RX_SIZE=20000 -p efa -d 100000 -e FI_EFA_RX_SIZE=200000 -p efa
row depth_shm -t lat -s 8 -p shm -d 1000 -p shm
timeout 100 "$ofi" -n 5 -c 0,0 -t lat -s 8 -p efa -p shm 2>/dev/null | sed 's/^/local,/' >>"$csv"

"$(dirname "$0")/instr.sh" "$build" | sed 's/^/count,/' >>"$csv"
printf . >&2
timeout 100 "$build/tests/perf/bench_mem" efa 64 100000 2>>"$out/failed.txt" | sed 's/^/memory,/' >>"$csv"
if command -v mpirun >/dev/null && command -v mpicc >/dev/null; then
	mpi_build mpi_barrier
	on_two() { taskset -c "$(cpus_pick)" timeout 100 mpirun --oversubscribe --bind-to none -np 16 "$@" "$tmp/mpi_barrier" 2>"$tmp/err" |
		awk '/^barrier/ { print $2 }'; }
	for _ in 1 2 3; do
		echo "mpi,barrier,16,efa,$(on_two -x FI_PROVIDER_PATH "${mca_mtl[@]}")" >>"$csv"
		echo "mpi,barrier,16,ompi-vader,$(on_two --mca pml ob1 --mca btl vader,self)" >>"$csv"
	done
fi
echo >&2
python3 "$(dirname "$0")/report.py" "$csv" "$out"
[ -s "$out/failed.txt" ] && { echo "Not measured:"; cat "$out/failed.txt"; }
if command -v gnuplot >/dev/null; then
	for plot in latency bandwidth; do
		gnuplot -e "out='$out'; what='$plot'" "$(dirname "$0")/plot.gp" 2>"$tmp/err" || { echo "gnuplot: $(head -1 "$tmp/err")"; continue; }
		echo "plot: $out/$plot.png"
	done
fi
exit 0
