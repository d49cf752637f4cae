#!/bin/bash
# A program with libfabric that crashes in a test leaves nothing in its folder: Debian 12's libfabric brings along a
# library (libinfinipath) whose handler of fatal signals writes a backtrace there, unless it is told not to
# (IPATH_NO_BACKTRACE). Both by the environment that lib.sh gives and by the one that meson gives every test.
of_meson=${IPATH_NO_BACKTRACE:-}
. "$(dirname "$0")/../lib.sh"
need fi_pingpong
[ -n "$of_meson" ] || fail "meson's tests would leave backtraces: IPATH_NO_BACKTRACE is not set there"
mkdir "$tmp/here" && cd "$tmp/here" || exit 1
port=$((20000 + RANDOM % 20000))
fi_pingpong -p tcp -e rdm -B $port >/dev/null 2>&1 &
children+=($!)
await_port $port || fail "fi_pingpong does not listen"
kill -SEGV $!
wait $!
rc=$?
[ -z "$(ls -A)" ] || fail "a crash left: $(ls -A)"
[ $rc = 139 ] || fail "exit status $rc of a program that died of SIGSEGV"
pass "no crumbs"
