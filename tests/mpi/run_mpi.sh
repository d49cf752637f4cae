#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-2-Clause
# Foreign and own MPI programs over a provider: run_mpi.sh BUILD CASE [PROVIDER]. Payloads are verified by the programs,
# and the adapters' byte counters prove that the provider carried them.
name=${3:-efa}
. "$(dirname "$0")/../lib.sh"
case=${2:-p2p}
need mpirun mpicc python3

# verify PATH[ retrans] RANKS SECONDS ARGUMENTS... - runs a program of ours, then the proof
verify() {
	local path=$1 ranks=$2 limit=$3
	shift 3
	export SOFTFABRIC_STATS=$tmp/stats
	mpi_run "$ranks" "$limit" "$@" >"$tmp/out" 2>&1
	local rc=$?
	[ $rc = 0 ] || { tail -40 "$tmp/out"; fail "$case: exit status $rc of mpirun"; }
	grep -v '^payload: ' "$tmp/out"
	# shellcheck disable=SC2086
	python3 "$here/mpi/proof.py" "$tmp/out" "$tmp/stats" $path || fail "$case: the adapters did not carry it"
}

# must_fail WHAT ARGUMENTS... - a run that is expected to end with an error, and not by the time limit
must_fail() {
	local what=$1 rc
	shift
	mpi_run 4 60 "$@" >"$tmp/out" 2>&1
	rc=$?
	[ $rc = 0 ] && { tail -40 "$tmp/out"; fail "$case: succeeded $what"; }
	[ $rc = 124 ] && { tail -40 "$tmp/out"; fail "$case: hung $what"; }
	return 0
}

# python_mpi - the Python that has mpi4py: Debian's may be behind another one in PATH
python_mpi() {
	local p
	for p in python3 /usr/bin/python3; do
		"$p" -c 'import mpi4py' 2>/dev/null && { echo "$p"; return 0; }
	done
	return 1
}

# has_osc NAME - does this Open MPI have that one-sided component? Open MPI 5 dropped pt2pt.
has_osc() { ompi_info --parsable | grep -q "^mca:osc:$1:"; }

# rma: by whatever this Open MPI has for the provider. The btl/ofi of Open MPI 4 does not offer FI_MR_ENDPOINT, which
# cxi needs.
if [ "$case" = rma ]; then
	if [ "$name" = cxi ] && has_osc pt2pt; then case=rma_pt2pt; else case=rma_btl; fi
fi

case $case in
p2p)
	mpi_build mpi_verify
	verify shm 4 120 "${mca_mtl[@]}" "$tmp/mpi_verify"
	;;
net)
	mpi_build mpi_verify
	if [ "$name" = efa ]; then export FI_EFA_ENABLE_SHM_TRANSFER=0; else export SOFTFABRIC_NET=udp; fi
	verify net 4 120 "${mca_mtl[@]}" "$tmp/mpi_verify"
	;;
loss)
	mpi_build mpi_verify
	export SOFTFABRIC_NET="udp;loss=1%;reorder=5%;dup=1%;seed=7"
	verify "net retrans" 4 120 "${mca_mtl[@]}" "$tmp/mpi_verify" 1048576
	;;
oversubscribed)
	mpi_build mpi_verify
	cores=$(taskset -cp $$ | sed 's/.*: //' | python3 -c '
import sys
cpus = []
for part in sys.stdin.read().strip().split(","):
    low, _, high = part.partition("-")
    cpus += range(int(low), int(high or low) + 1)
print(",".join(map(str, cpus[:2])))')
	verify shm 16 180 "${mca_mtl[@]}" taskset -c "$cores" "$tmp/mpi_verify" 65536
	;;
rma_btl)
	mpi_build mpi_rma
	verify any 4 120 "${mca_btl[@]}" "$tmp/mpi_rma"
	;;
rma_btl_loss)
	mpi_build mpi_rma
	export SOFTFABRIC_NET="udp;loss=1%;reorder=5%;dup=1%;seed=7"
	verify "net retrans" 4 120 "${mca_btl[@]}" "$tmp/mpi_rma" 1048576
	;;
rma_pt2pt)
	has_osc pt2pt || skip "this Open MPI has no osc/pt2pt"
	mpi_build mpi_rma
	verify shm 4 120 "${mca_mtl[@]}" --mca osc pt2pt "$tmp/mpi_rma"
	;;
python)
	py=$(python_mpi) || skip "python3-mpi4py is not installed"
	verify shm 4 120 "${mca_mtl[@]}" "$py" "$here/mpi/mpi_py.py"
	;;
python_net)
	py=$(python_mpi) || skip "python3-mpi4py is not installed"
	export SOFTFABRIC_NET="udp;loss=1%;reorder=5%;seed=7"
	verify "net retrans" 4 120 "${mca_mtl[@]}" "$py" "$here/mpi/mpi_py.py"
	;;
python_rma)
	py=$(python_mpi) || skip "python3-mpi4py is not installed"
	verify any 4 120 "${mca_btl[@]}" "$py" "$here/mpi/mpi_py.py" window
	;;
no_provider)
	# Without our module nothing may carry the messages, or the other cases would prove nothing.
	grep -qs 0x1d0f /sys/class/infiniband/*/device/vendor && skip "this host has a real EFA adapter"
	[ -e /sys/class/cxi ] && skip "this host has a real Cassini adapter"
	[ -e /sys/class/infiniband/hfi1_0 ] && skip "this host has a real HFI1 adapter"
	# The same run with and without it is the proof: what Open MPI says about it differs from release to release.
	mpi_build mpi_verify
	verify shm 4 120 "${mca_mtl[@]}" "$tmp/mpi_verify" 8 >/dev/null
	unset FI_PROVIDER_PATH
	must_fail "with FI_PROVIDER_PATH unset" "${mca_mtl[@]}" "$tmp/mpi_verify" 8
	! grep -q '^  ok ' "$tmp/out" || { tail -40 "$tmp/out"; fail "$case: messages went without the module"; }
	;;
spoiled_payload)
	# The programs' own checks: one wrong bit in one message must end the job.
	mpi_build mpi_verify
	export MPI_KIT_SPOIL=1
	must_fail "with a wrong bit in a payload" "${mca_mtl[@]}" "$tmp/mpi_verify"
	grep -q "^FAIL ring_sendrecv: .*byte 0 of " "$tmp/out" || {
		tail -40 "$tmp/out"; fail "$case: ended for another reason"; }
	;;
netpipe)
	need NPopenmpi
	cd "$tmp" || exit 1
	# -i: it compares every byte, and a wrong one ends it with an error
	mpi_run 2 120 "${mca_mtl[@]}" NPopenmpi -i -u 1048576 -o "$tmp/np.i" >"$tmp/out" 2>&1 || {
		tail "$tmp/out"; fail "$case: wrong data"; }
	mpi_run 2 120 "${mca_mtl[@]}" NPopenmpi -u 4194304 -n 40 -o "$tmp/np" >"$tmp/out" 2>&1 || {
		tail "$tmp/out"; fail netpipe; }
	awk '{ printf "  %8d B %10.3f us %10.1f Mb/s\n", $1, $3 * 1e6, $2 }' "$tmp/np" | awk 'NR % 12 == 1'
	;;
hpcc)
	need hpcc
	cp "$here/mpi/hpccinf.txt" "$tmp" && cd "$tmp" || exit 1
	export OPENBLAS_NUM_THREADS=1 OMP_NUM_THREADS=1
	mpi_run 4 200 -x OPENBLAS_NUM_THREADS -x OMP_NUM_THREADS "${mca_mtl[@]}" hpcc >"$tmp/out" 2>&1 || {
		tail -40 "$tmp/out"; fail "$case"; }
	grep -q '^Success=1' hpccoutf.txt || fail "$case: the summary does not say Success=1"
	grep -q FAILED hpccoutf.txt && fail "$case: a result did not pass its check"
	grep -q "||Ax-b||.*PASSED" hpccoutf.txt || fail "$case: Linpack's residual was not checked"
	figures='HPL_Tflops|PTRANS_GBs|MPIRandomAccess_GUPs|MPIFFT_Gflops|(Avg|Max)PingPong|RandomlyOrderedRing'
	grep -E "^($figures)" hpccoutf.txt | sed 's/^/  /'
	;;
*)
	fail "no case $case"
	;;
esac
pass "$case"
