#!/bin/sh
# sanitize.sh [-q] [DIR]: unit tests and a part of the conformance and fault tests under AddressSanitizer + UBSan (DIR/asan) and
# ThreadSanitizer (DIR/tsan). -q: the bounded part that `make test` has time for. Finds are in the logs of the builds.
set -u
quick=
[ "${1:-}" = -q ] && { quick=1; shift; }
src=$(cd "$(dirname "$0")/.." && pwd)
top=${1:-$src/build-sanitize}
jobs=${TEST_JOBS:-2}
rc=0

# GCC's runtimes may be missing where clang's are there, and the other way round.
probe() { echo 'int main(void) { return 0; }' | ${CC:-cc} -x c -fsanitize="$1" - -o "$top/probe" 2>/dev/null && "$top/probe"; }

# Sanitizers make GCC see things (-Wnonnull after an inlined check): warnings are for the plain build.
build() { # name, b_sanitize
	[ -f "$top/$1/build.ninja" ] || meson setup "$top/$1" "$src" -Dbuildtype=debugoptimized -Doptimization=1 -Db_sanitize="$2" \
		-Db_lundef=false -Db_lto=false -Dfuzz=false -Dwerror=false >"$top/$1.log" 2>&1 || { cat "$top/$1.log"; return 1; }
	ninja -C "$top/$1" -j "$jobs" --quiet >"$top/$1.log" 2>&1 || { tail -20 "$top/$1.log"; return 1; }
}

# The provider is loaded by a program that has the runtime itself: conformance and fault programs of the same build.
run() { # name, suites...
	dir=$top/$1
	shift
	for suite; do set -- "$@" --suite "$suite"; shift; done
	meson test -C "$dir" --no-rebuild --print-errorlogs --num-processes "$jobs" --timeout-multiplier 6 "$@" || rc=1
}

mkdir -p "$top"
export ASAN_OPTIONS="${ASAN_OPTIONS:-abort_on_error=0}"
export LSAN_OPTIONS="suppressions=$src/tools/lsan.supp:print_suppressions=0"
export UBSAN_OPTIONS="print_stacktrace=1:halt_on_error=1:${UBSAN_OPTIONS:-}"
# stock libfabric is not instrumented: its mutexes seem to be unlocked only
export TSAN_OPTIONS="suppressions=$src/tools/tsan.supp:report_mutex_bugs=0:die_after_fork=0:halt_on_error=1:${TSAN_OPTIONS:-}"
export SLOW=6
if probe address,undefined; then
	if build asan address,undefined; then
		run asan unit
		# these also end with everything open, on purpose
		[ -n "$quick" ] || ASAN_OPTIONS="detect_leaks=0:$ASAN_OPTIONS" run asan conform fault
	else
		rc=1
	fi
else
	echo "SKIP: the compiler has no AddressSanitizer"
fi
if [ -z "$quick" ]; then
	if probe thread; then
		if build tsan thread; then run tsan unit conform; else rc=1; fi
	else
		echo "SKIP: the compiler has no ThreadSanitizer"
	fi
fi
exit $rc
