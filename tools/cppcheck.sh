#!/bin/sh
# Runs cppcheck over src/; every finding is an error. What is wrong about a finding is said in tools/cppcheck.txt.
set -eu
cd "$(dirname "$0")/.."
command -v cppcheck >/dev/null || { echo "cppcheck is not installed"; exit 1; }
# cppcheck reads no system headers; without the list macros it cannot parse the structs that hold lists.
queue=$(echo '#include <sys/queue.h>' | "${CC:-gcc}" -E - | sed -n 's/^# 1 "\(.*queue\.h\)".*/\1/p' | head -n 1)
exec nice cppcheck --quiet --error-exitcode=1 --enable=warning,portability --inline-suppr \
	--suppressions-list=tools/cppcheck.txt --std=c11 -D_GNU_SOURCE -D__cppcheck__ "--include=$queue" \
	-Isrc -Iinclude src
