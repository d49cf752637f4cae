#!/bin/sh
# run_fuzz.sh BUILD TARGET [SECONDS|keep]: builds tests/fuzz/fuzz_TARGET.c with clang's libFuzzer and runs it; TARGET
# "lib" only builds what the others link, cxi_X and opx_X are fuzz_X.c with that provider. Finds stay in
# BUILD/fuzz/TARGET. Exit 77: no clang, or no fuzzer runtime. A run begins with the inputs of corpus/TARGET.hex, within
# its SECONDS. "keep" writes that file anew: the best of it and of what runs have found, but for what takes longer than
# 2 s.
set -u
build=$1 target=$2 seconds=${3:-4}
src=$(cd "$(dirname "$0")/../.." && pwd)
dir=$build/fuzz
cc=${FUZZ_CC:-clang}
flags="-std=gnu17 -D_GNU_SOURCE -I$src/src -I$src/include -O1 -g -fno-omit-frame-pointer -fno-strict-aliasing"
flags="$flags -Wno-unused-parameter"
libs="-lfabric -lcmocka -lpthread -lm -lrt"
if pkg-config --exists libsodium; then
	flags="$flags -DSF_HAS_SODIUM $(pkg-config --cflags libsodium)" libs="$libs $(pkg-config --libs libsodium)"
fi
san="-fsanitize=address,undefined -fno-sanitize-recover=undefined"

mkdir -p "$dir"
echo 'int LLVMFuzzerTestOneInput(const unsigned char *d, unsigned long n) { return n > 1 && d[0] == 1 ? 0 : 0; }' \
	>"$dir/probe.c"
if ! $cc -fsanitize=fuzzer,address "$dir/probe.c" -o "$dir/probe" 2>/dev/null; then
	echo "SKIP: $cc has no fuzzer runtime (Debian: libclang-rt-dev)"
	exit 77
fi
lib() {
	cd "$src" || exit 1
	find src/base src/link src/nic src/kit src/prov/efa src/prov/cxi src/prov/opx -name '*.c' |
		FLAGS="$flags $san" DIR="$dir" CC_="$cc" xargs -P "${FUZZ_JOBS:-2}" -I{} sh -c '
			o=$DIR/$(echo {} | tr / _).o
			[ "$o" -nt {} ] && [ "$o" -nt tests/fuzz/run_fuzz.sh ] &&
				[ -z "$(find src -name "*.h" -newer "$o" | head -1)" ] && exit 0
			$CC_ $FLAGS -fsanitize=fuzzer-no-link -c {} -o "$o" || exit 255' || exit 1
	rm -f "$dir"/lib*.a
	# what is there now, not what an older tree left; each provider has the entry point that libfabric calls
	objs() { find "$@" -name '*.c' | tr / _ | sed "s|.*|$dir/&.o|"; }
	ar rcs "$dir/libefa.a" $(objs src/prov/efa) && ar rcs "$dir/libcxi.a" $(objs src/prov/cxi) &&
		ar rcs "$dir/libopx.a" $(objs src/prov/opx) &&
		ar rcs "$dir/libsf.a" $(objs src/base src/link src/nic src/kit) || exit 1
}
if [ "$target" = lib ]; then
	lib
	exit 0
fi
[ -f "$dir/libsf.a" ] || lib
cd "$src" || exit 1
prov=efa def= more= file=$target lines=60
case $target in
cxi_*) prov=cxi def=-DFUZZ_CXI file=${target#cxi_} ;;
opx_info | opx_ops) prov=opx def=-DFUZZ_OPX file=${target#opx_} ;;
opx_text) prov=opx ;;
opx_rx) prov=opx more=tests/unit/opx_world.c ;;
rel) more=tests/unit/sim.c ;;
opx_rel) more="$(ls src/prov/opx/flow/*.c) src/prov/opx/opx_proto.c src/prov/opx/opx_err.c"
	more="$more tests/unit/opx_rig.c tests/unit/opx_wire.c" ;;
esac
case $target in
*ops | *_rel | *_rx) lines=20 ;; # each takes its time: a replay stays well under a second
esac
# shellcheck disable=SC2086
$cc $flags $san -fsanitize=fuzzer $def "tests/fuzz/fuzz_$file.c" $more "$dir/lib$prov.a" "$dir/libsf.a" \
	-o "$dir/fuzz_$target" $libs || exit 1
mkdir -p "$dir/$target"
cd "$dir/$target" || exit 1
export ASAN_OPTIONS="abort_on_error=0:detect_leaks=1:${ASAN_OPTIONS:-}" UBSAN_OPTIONS=print_stacktrace=1
kept=$src/tests/fuzz/corpus/$target.hex
rm -rf seed none control
mkdir -p corpus seed none
python3 "$src/tests/fuzz/corpus.py" expand "$kept" seed || exit 1
if [ "$seconds" = keep ]; then
	"../fuzz_$target" -set_cover_merge=1 -merge_control_file=control -artifact_prefix=none/ -timeout=2 \
		-rss_limit_mb=2048 -max_len=4096 none seed corpus >log 2>&1 ||
		{ tail -60 log; exit 1; }
	python3 "$src/tests/fuzz/corpus.py" keep control "$kept" $lines
	exit
fi
"../fuzz_$target" -max_total_time="$seconds" -seed="${SEED:-1}" -timeout=20 -rss_limit_mb=2048 -max_len=4096 \
	-print_final_stats=0 -verbosity=0 corpus seed >log 2>&1
rc=$?
if [ $rc -ne 0 ]; then
	tail -60 log
	echo "repeat: $dir/fuzz_$target $dir/$target/$(ls -t | grep -E '^(crash|leak|timeout|oom)' | head -1)"
	exit 1
fi
