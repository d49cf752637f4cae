#!/bin/sh
# Runs every test of the build directory $1 and closes with the line "N passed, N failed, N skipped".
set -u
build=${1:-build}
ulimit -c 0
# One seed for every random test, so that a run can be repeated; SEED=... gives others.
export SEED="${SEED:-20261121}"
meson test -C "$build" --no-rebuild --print-errorlogs --num-processes "${TEST_JOBS:-2}"
rc=$?
python3 - "$build/meson-logs/testlog.json" $rc <<'PY'
import json, sys
count = {"passed": 0, "failed": 0, "skipped": 0}
for line in open(sys.argv[1]):
    result = json.loads(line)["result"]
    count["passed" if result in ("OK", "EXPECTEDFAIL") else "skipped" if result == "SKIP" else "failed"] += 1
print("%(passed)d passed, %(failed)d failed, %(skipped)d skipped" % count)
sys.exit(1 if count["failed"] or int(sys.argv[2]) or not count["passed"] else 0)
PY
