#!/bin/sh
# setup.sh FOR...: installs the Debian packages that building ("build"), the demo and the benchmarks ("demo"), the tests
# ("test"), the soak ("soak", Slurm), Debian packages ("deb") and clean roots ("root") need, if any of them is missing;
# prints nothing when all are there. Only names that every release has: where Debian puts a version into the name of a
# package, the one without a version depends on the release's own (libclang-rt-dev: libclang-rt-14-dev in 12, -19- in
# 13).
set -eu
[ -n "${SOFTFABRIC_NO_INSTALL:-}" ] && exit 0
packages=""
for what in "$@"; do
	case $what in
	build) packages="$packages gcc libc6-dev make meson ninja-build pkg-config libfabric-dev libibverbs-dev
		libbsd-dev libsodium-dev python3 scdoc" ;;
	demo) packages="$packages python3 libfabric-bin openmpi-bin libopenmpi-dev netpipe-openmpi iproute2 gnuplot-nox
		ucx-utils" ;;
	test) packages="$packages python3 libcmocka-dev libfabric-bin openmpi-bin libopenmpi-dev netpipe-openmpi
		python3-mpi4py hpcc iproute2 tshark zsh ibverbs-utils perftest python3-pyverbs
		universal-ctags clang libclang-rt-dev gcc-aarch64-linux-gnu libc6-dev-arm64-cross qemu-user" ;;
	soak) packages="$packages slurmctld slurmd slurm-client munge" ;;
	deb) packages="$packages build-essential debhelper lintian" ;;
	root) packages="$packages debootstrap" ;;
	*) echo "setup.sh: unknown: $what" >&2; exit 1 ;;
	esac
done
missing=""
for p in $packages; do
	[ "$(dpkg-query -W -f='${db:Status-Abbrev}' "$p" 2>/dev/null)" = "ii " ] || missing="$missing $p"
done
[ -z "$missing" ] && exit 0
run="env DEBIAN_FRONTEND=noninteractive" # behind sudo, which drops the environment
[ "$(id -u)" = 0 ] || run="sudo $run"
echo "installing:$missing"
# shellcheck disable=SC2086
$run apt-get install -y -qq --no-install-recommends $missing >/dev/null 2>&1 ||
	{ $run apt-get update -qq && $run apt-get install -y -qq --no-install-recommends $missing >/dev/null; }
