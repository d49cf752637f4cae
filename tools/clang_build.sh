#!/bin/bash
# Builds the provider module alone with clang, warnings as errors, in a folder of its own that goes at exit.
set -euo pipefail
here=$(cd "$(dirname "$0")/.." && pwd)
for tool in clang meson ninja; do
	command -v $tool >/dev/null || { echo "SKIP: $tool is not installed"; exit 77; }
done
tmp=$(mktemp -d "${TMPDIR:-/tmp}/softfabric-clang.XXXXXX")
trap 'rm -rf "$tmp"' EXIT
CC=clang nice meson setup -Dwerror=true "$tmp/b" "$here" >"$tmp/log" 2>&1 || { cat "$tmp/log"; exit 1; }
nice ninja -C "$tmp/b" -j2 src/prov/efa/libefa-fi.so >"$tmp/log" 2>&1 || { grep -vE '^\[[0-9]+/' "$tmp/log"; exit 1; }
! grep -E 'warning:' "$tmp/log"
