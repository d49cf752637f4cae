#!/bin/sh
# Installs the Debian packages that building, testing and the demo need, if any is missing; prints nothing when all are there.
set -eu
packages="gcc clang meson ninja-build pkg-config make python3 git
libfabric-dev libfabric-bin libcmocka-dev libbsd-dev
openmpi-bin libopenmpi-dev netpipe-openmpi python3-mpi4py hpcc gnuplot-nox
iproute2 tshark universal-ctags libclang-rt-14-dev
gcc-aarch64-linux-gnu libc6-dev-arm64-cross qemu-user"
[ -n "${SOFTFABRIC_NO_INSTALL:-}" ] && exit 0
missing=""
for p in $packages; do
	[ "$(dpkg-query -W -f='${db:Status-Abbrev}' "$p" 2>/dev/null)" = "ii " ] || missing="$missing $p"
done
[ -z "$missing" ] && exit 0
sudo=""
[ "$(id -u)" = 0 ] || sudo="sudo"
echo "installing:$missing"
export DEBIAN_FRONTEND=noninteractive
# shellcheck disable=SC2086
$sudo apt-get install -y -qq --no-install-recommends $missing >/dev/null 2>&1 ||
	{ $sudo apt-get update -qq && $sudo apt-get install -y -qq --no-install-recommends $missing >/dev/null; }
