#!/bin/bash
# Runs clang-tidy with .clang-tidy's checks over src/; every finding is an error. $1: a build folder set up with clang,
# made if missing, because gcc's compile commands have options that clang does not know.
set -euo pipefail
cd "$(dirname "$0")/.."
build=${1:-build-clang}
for tool in clang run-clang-tidy; do
	command -v $tool >/dev/null || { echo "$tool is not installed"; exit 1; }
done
[ -f "$build/build.ninja" ] || CC=clang meson setup "$build" >/dev/null
out=$(nice run-clang-tidy -j"${JOBS:-2}" -quiet -p "$build" "$PWD/src/.*\.c$" 2>/dev/null) && exit 0
printf '%s\n' "$out" | grep -v '^clang-tidy'
exit 1
