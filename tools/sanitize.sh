#!/bin/sh
# sanitize.sh [-q] [DIR]: unit, conformance and fault tests under AddressSanitizer with its leak checker and UBSan
# (DIR/asan), unit and conformance tests and the fault matrix under ThreadSanitizer (DIR/tsan). -q: only the unit tests
# under the first, which `make test` has time for. Finds are in the logs of the builds. What two processes share in
# memory the race checker cannot see; peers in one process and the adapter thread it can. Memcheck is `meson test
# --setup=valgrind`.
set -u
quick= built=--no-rebuild
[ "${1:-}" = -q ] && { quick=1 built=; shift; }
src=$(cd "$(dirname "$0")/.." && pwd)
top=${1:-$src/build-sanitize}
jobs=${TEST_JOBS:-2}
rc=0

# GCC's runtimes may be missing where clang's are there, and the other way round.
probe() {
	echo 'int main(void) { return 0; }' |
		${CC:-cc} -x c -fsanitize="$1" - -o "$top/probe" 2>/dev/null && "$top/probe"
}

# Sanitizers make GCC see things (-Wnonnull after an inlined check): warnings are errors in the plain build only.
build() { # name, b_sanitize
	[ -f "$top/$1/build.ninja" ] || meson setup "$top/$1" "$src" -Dbuildtype=debugoptimized -Doptimization=1 \
		-Db_sanitize="$2" -Dc_args="-fno-sanitize-recover=all -g1" -Db_lundef=false -Dfuzz=false \
		>"$top/$1.log" 2>&1 || { cat "$top/$1.log"; return 1; }
	# of a quick run meson builds only what the unit tests need
	[ -n "$quick" ] || ninja -C "$top/$1" -j "$jobs" --quiet >"$top/$1.log" 2>&1 || {
		tail -20 "$top/$1.log"; return 1; }
}

tests() { # of which build, meson's choice...
	dir=$top/$1
	shift
	meson test -C "$dir" $built --print-errorlogs --num-processes "$jobs" --timeout-multiplier 6 "$@" || rc=1
}

# The provider is loaded by a program that has the runtime itself: conformance and fault programs of the same build.
run() { # name, suites...
	name=$1
	shift
	for suite; do set -- "$@" --suite "$suite"; shift; done
	tests "$name" "$@"
}

mkdir -p "$top"
# intercept_tls_get_addr=0: for thread-local memory of modules the runtime guesses an allocator's header in front of it,
# and the leak checker crashes on a wrong guess; ours has no pointers there.
export ASAN_OPTIONS="intercept_tls_get_addr=0:detect_stack_use_after_return=1:strict_string_checks=1:${ASAN_OPTIONS:-}"
export UBSAN_OPTIONS="print_stacktrace=1:halt_on_error=1:${UBSAN_OPTIONS:-}"
# report_signal_unsafe=0: a guarded access (base/guard.c) leaves the handler of its fault by a jump that the race
# checker does not see, which would be in a signal handler for ever.
export TSAN_OPTIONS="die_after_fork=0:halt_on_error=1:report_signal_unsafe=0:${TSAN_OPTIONS:-}"
export SLOW=6
if probe address,undefined; then
	if build asan address,undefined; then
		run asan unit
		[ -n "$quick" ] || run asan conform fault
	else
		rc=1
	fi
else
	echo "SKIP: the compiler has no AddressSanitizer"
fi
if [ -z "$quick" ]; then
	if probe thread; then
		if build tsan thread; then
			run tsan unit conform
			tests tsan fault_matrix fault_matrix_cxi fault_matrix_opx \
				fault_leave fault_leave_cxi fault_leave_opx
		else
			rc=1
		fi
	else
		echo "SKIP: the compiler has no ThreadSanitizer"
	fi
fi
exit $rc
