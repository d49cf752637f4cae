#!/bin/bash
# Cross-builds base, link and the adapters for 64-bit Arm into $1 and runs their unit and litmus tests under qemu's user-mode emulator:
# another instruction set, another compiler back end. That says nothing about weak memory order on real hardware: the emulator runs on
# this machine's. Exit status 77: the compiler or the emulator is missing.
set -euo pipefail
here=$(cd "$(dirname "$0")/.." && pwd)
build=${1:-$here/build-arm}

for tool in aarch64-linux-gnu-gcc qemu-aarch64; do
	command -v $tool >/dev/null || { echo "SKIP: $tool is not installed"; exit 77; }
done
[ -d /usr/aarch64-linux-gnu/lib ] || { echo "SKIP: no C library for aarch64 in /usr/aarch64-linux-gnu"; exit 77; }

[ -f "$build/build.ninja" ] || meson setup --cross-file "$here/tools/aarch64.ini" "$build" "$here" >/dev/null
nice ninja -C "$build" --quiet
