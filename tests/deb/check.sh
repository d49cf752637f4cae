#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
# Installs the packages in the folder $1, has them do what a newcomer does, and removes them: for a root that nobody
# needs afterwards.
set -u
debs=$(cd "${1:?the folder of the packages}" && pwd)
export DEBIAN_FRONTEND=noninteractive
cd / || exit 1
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
failed=0
# step WHAT COMMAND... - says whether the command did it
step() {
	local what=$1
	shift
	if "$@" >"$tmp/out" 2>&1; then
		echo "ok   $what"
	else
		echo "FAIL $what (status $?)"
		sed 's/^/     /' "$tmp/out"
		failed=1
	fi
}

installed() {
	apt-get update -qq && apt-get install -y -qq --no-install-recommends \
		"$debs"/softfabric_*.deb "$debs"/softfabric-dev_*.deb "$debs"/softfabric-wireshark_*.deb \
		tshark man-db libfabric-bin openmpi-bin netpipe-openmpi iproute2 pkg-config gcc libc6-dev
}
# libfabric finds the modules where it looks by itself.
found() { fi_info -p "$1" | grep -x "provider: $1"; }
# mpi PROVIDER ARGUMENTS... - NetPIPE on two ranks over it, and the adapters' counters say so
mpi() {
	local provider=$1
	shift
	timeout 300 softfabric run -p "$provider" --json="$tmp/run" "$@" -- \
		mpirun --allow-run-as-root --oversubscribe -np 2 NPopenmpi -n 10 -u 1024 -o "$tmp/np" &&
		python3 -c 'import json, sys
sys.exit(sum(a["sent_bytes"] for a in json.load(open(sys.argv[1]))["adapters"]) < 1000)' "$tmp/run"
}
# captured PROVIDER - tshark finds the dissector by itself, and leaves no datagram of that job unread
captured() {
	timeout 300 softfabric capture -q -o "$tmp/cap" -p "$1" -- \
		mpirun --allow-run-as-root --oversubscribe -np 2 NPopenmpi -n 5 -u 64 -o "$tmp/np" &&
		softfabric decode "$tmp/cap" >"$tmp/decoded" &&
		tshark -o udp.try_heuristic_first:TRUE -r "$tmp/cap" -T fields -e softfabric.op >"$tmp/ops" &&
		grep -q fi_tsend "$tmp/ops" && [ "$(wc -l <"$tmp/ops")" = "$(wc -l <"$tmp/decoded")" ] &&
		[ -z "$(tshark -o udp.try_heuristic_first:TRUE -r "$tmp/cap" -Y '_ws.malformed || !softfabric')" ]
}
compiled() {
	printf '#include <rdma/%s.h>\n' fi_ext_efa fi_cxi_ext fi_ext_softfabric >"$tmp/a.c"
	echo 'int main(void) { return 0; }' >>"$tmp/a.c"
	# shellcheck disable=SC2046
	cc -Wall -Werror -o "$tmp/a" "$tmp/a.c" $(pkg-config --cflags softfabric) &&
		[ -d "$(pkg-config --variable=moduledir softfabric)" ]
}
# What dpkg removes must be all that it put there: nothing of ours may have been written beside it.
removed() {
	apt-get purge -y -qq softfabric softfabric-dev softfabric-wireshark &&
		[ -z "$(find /usr /etc /var/lib /opt /dev/shm -path '*softfabric*' ! -path '/var/lib/apt/*')" ] &&
		! found efa
}

step "the packages are installed" installed
for p in efa cxi opx; do
	step "$p: libfabric $(fi_info --version | awk '/^libfabric: / { print $2 }') finds it by itself" found $p
	step "$p: softfabric run -- mpirun, $(mpirun --version | head -1)" mpi $p
done
if unshare -mn true 2>/dev/null; then
	step "efa: two virtual hosts, 1 % loss" mpi efa --hosts 2 --net "loss=1%;seed=7"
else
	echo "skip virtual hosts: no namespaces here"
fi
for p in efa cxi opx; do
	step "$p: a capture, by softfabric decode and by $(tshark --version | sed -n '1s/ (Git.*//p')" captured $p
done
step "the manual's pages" sh -c 'for p in 1/softfabric 5/softfabric_net 7/fi_softfabric_efa; do
	man -w "${p%/*}" "${p#*/}" || exit; done'
step "softfabric doctor" softfabric doctor
step "softfabric why" sh -c 'softfabric why -p cxi caps=multicast; [ $? = 1 ]'
step "softfabric run by somebody else" \
	setpriv --reuid 65534 --clear-groups env HOME=/tmp softfabric run -q -p opx -- fi_info -p opx
step "a program with the extensions' headers compiles" compiled
step "the packages are removed, and nothing is left" removed
exit $failed
