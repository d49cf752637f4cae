# SPDX-License-Identifier: BSD-2-Clause
# shellcheck shell=bash disable=SC2034
# What the test scripts with real programs share. Source it; then $prov is the folder of the module and $tmp a private
# folder that goes at exit. A test ends with pass, fail or skip.
set -u
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
build=$(cd "${1:-build}" && pwd) || exit 1
# Which provider: efa, cxi, opx. A script that takes it as an argument sets it before it sources this file; all: every
# one that is built, named in $providers, their modules in one folder as users have them.
name=${name:-${SOFTFABRIC_NAME:-efa}}
providers=$name
if [ "$name" = all ]; then
	export SOFTFABRIC_PROV=$build/src/prov
	providers=$(for name in efa cxi opx; do [ -e "$SOFTFABRIC_PROV/lib$name-fi.so" ] && echo "$name"; done)
	name=${providers%%[[:space:]]*}
fi
prov=${SOFTFABRIC_PROV:-$build/src/prov/$name}
tmp=$(mktemp -d "${TMPDIR:-/tmp}/softfabric-test.XXXXXX")
children=()
cleanup=()

at_exit() {
	local c
	for c in "${cleanup[@]:+${cleanup[@]}}"; do eval "$c"; done
	for c in "${children[@]:+${children[@]}}"; do kill -- "$c" 2>/dev/null; done
	rm -rf "$tmp"
}
trap at_exit EXIT
trap 'exit 130' INT TERM

pass() { echo "PASS: $*"; exit 0; }
fail() { echo "FAIL: $*"; exit 1; }
skip() { echo "SKIP: $*"; exit 77; }
# need PROGRAM... - skips unless all are installed
need() {
	local p
	for p in "$@"; do command -v "$p" >/dev/null || skip "$p is not installed"; done
}

[ -f "$prov/lib$name-fi.so" ] || fail "$prov/lib$name-fi.so was not built"
export FI_PROVIDER_PATH=$prov
# Meson's test runner puts the module's folder there, where libfabric would find it without being told.
LD_LIBRARY_PATH=$(printf %s "${LD_LIBRARY_PATH:-}" | tr : '\n' | grep -vxF "$prov" | paste -sd:)
export LD_LIBRARY_PATH
export SEED=${SEED:-20261121}
# Of this run alone, as every job has on real machines.
export FI_CXI_DEFAULT_VNI=$((1000 + $$ % 60000)) FI_OPX_UUID
FI_OPX_UUID=$(printf %016x $$)
ulimit -c 0
# A room left over in the environment must not decide what is tested.
unset SOFTFABRIC_NET SOFTFABRIC_CONF SOFTFABRIC_EFA SOFTFABRIC_CXI SOFTFABRIC_STATS FI_PROVIDER FI_LOG_LEVEL \
	FI_EFA_ENABLE_SHM_TRANSFER

# mpi_build PROGRAM... - compiles tests/mpi/PROGRAM.c to $tmp/PROGRAM. The build keeps what was compiled, a second each:
# some fifty cases of `make test` want the same two programs.
mpi_build() {
	local p kept new version
	version=$(mpicc --showme:version 2>&1 | cksum | cut -d' ' -f1)
	mkdir -p "$build/mpi"
	for p in "$@"; do
		kept=$build/mpi/$p-$version
		if [ -z "$(find "$kept" -newer "$here/mpi/$p.c" -newer "$here/mpi/mpi_kit.c" \
			-newer "$here/mpi/mpi_kit.h" -newer "$here/lib.sh" 2>/dev/null)" ]; then
			# not the process id: cases in namespaces of their own may have the same
			new=$(mktemp "$kept.XXXXXX")
			mpicc -O2 -g -std=gnu17 -D_GNU_SOURCE -Wall -Wextra -Wshadow -Wvla -Werror \
				-Wno-missing-field-initializers -o "$new" "$here/mpi/$p.c" "$here/mpi/mpi_kit.c" ||
				{ rm -f "$new" && fail "$p does not compile"; }
			chmod 755 "$new"
			mv "$new" "$kept" # whole, for another case that looks just now
		fi
		cp "$kept" "$tmp/$p"
	done
}

# Debian 12's libfabric brings libinfinipath along, which would turn each crash into an exit status and leave a
# backtrace where the program was started. Meson's tests have it from tests/meson.build.
export IPATH_NO_BACKTRACE=1

# await_port PORT - waits until a server listens there: fi_pingpong says nothing when it does
await_port() {
	local hex until=$((SECONDS + 30))
	hex=$(printf %04X "$1")
	while ! grep -qi ":$hex .* 0A " /proc/net/tcp /proc/net/tcp6 2>/dev/null; do
		[ $SECONDS -lt $until ] || return 1
		sleep 0.05
	done
}

# Open MPI refuses root unless told, and wants a quiet temporary folder of its own. Its starter is ORTE
# (OMPI_MCA_orte_...) up to Open MPI 4 and PRRTE (PRTE_MCA_prte_...) from 5 on; each knows only its own names.
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
export OMPI_MCA_orte_tmpdir_base=$tmp PRTE_MCA_prte_tmpdir_base=$tmp OMPI_MCA_mpi_show_help_aggregate=0
# What carries messages: mtl = matching by libfabric, btl = one-sided by libfabric, two-sided by ob1 on top of it.
mca_mtl=(--mca pml cm --mca mtl ofi --mca opal_common_ofi_provider_include "$name" --mca btl ^openib)
mca_btl=(--mca pml ob1 --mca btl "ofi,self" --mca btl_ofi_mode 2 --mca opal_common_ofi_provider_include "$name"
	--mca osc rdma --mca osc_rdma_btls ofi)

# mpi_run RANKS SECONDS ARGUMENTS... - one mpirun with the environment of this script
mpi_run() {
	local ranks=$1 limit=$2 v pass_env=()
	shift 2
	for v in FI_PROVIDER_PATH SEED "${!SOFTFABRIC_@}" "${!FI_EFA_@}" "${!FI_CXI_@}" "${!FI_OPX_@}" \
		"${!MPI_KIT_@}"; do
		[ -n "${!v+set}" ] && pass_env+=(-x "$v")
	done
	timeout -k 5 "$limit" mpirun --oversubscribe --bind-to none -np "$ranks" "${pass_env[@]:+${pass_env[@]}}" "$@"
}
