#!/bin/sh
# Runs every test of the build directory $1 and closes with the line "N passed, N failed, N skipped".
#
# Tests run TEST_JOBS at a time (2). One that fails then is run once more alone: on a machine with fewer free cores than
# jobs some timing bound may be missed for lack of CPU. That a second run was needed is said, and a second failure
# counts.
set -u
build=${1:-build}
[ $# = 0 ] || shift
ulimit -c 0
# One seed for every random test, so that a run can be repeated; SEED=... gives others.
export SEED="${SEED:-20261121}"
meson test -C "$build" --no-rebuild --print-errorlogs --num-processes "${TEST_JOBS:-2}" "$@"
exec python3 - "$build" "$@" <<'PY'
import json, subprocess, sys

build, options = sys.argv[1], sys.argv[2:]
log = build + "/meson-logs/testlog.json"

def results():
    rows = [json.loads(line) for line in open(log)]
    return {row["name"].split(" / ")[-1]: row["result"] for row in rows}

GOOD = ("OK", "EXPECTEDFAIL")
result = results()
again = [name for name, r in result.items() if r not in GOOD + ("SKIP",)]
if 0 < len(again) <= 8:
    for name in again:
        print("second run, alone: " + name, flush=True)
        subprocess.run(["meson", "test", "-C", build, "--no-rebuild", "--print-errorlogs", "--num-processes", "1",
                        *options, name])
        result[name] = results().get(name, "FAIL")
    print("needed a second run: " + ", ".join("%s (%s)" % (n, result[n]) for n in again))
passed = sum(r in GOOD for r in result.values())
skipped = sum(r == "SKIP" for r in result.values())
failed = len(result) - passed - skipped
print("%d passed, %d failed, %d skipped" % (passed, failed, skipped))
sys.exit(1 if failed or not passed else 0)
PY
