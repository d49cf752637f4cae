#!/bin/bash
# meson install of the build $1 of the source tree $2: every header of include/ is there, where the README says, and can be included
# alone, twice, by C and (where there is a compiler) by C++.
set -euo pipefail
build=$1 src=$2
tmp=$(mktemp -d "${TMPDIR:-/tmp}/softfabric-install.XXXXXX")
trap 'rm -rf "$tmp"' EXIT
DESTDIR=$tmp/dest meson install -C "$build" --no-rebuild --quiet >/dev/null
compilers="cc -std=c11"
command -v c++ >/dev/null && compilers="$compilers
c++ -std=c++11"
bad=0
for h in "$src"/include/*.h; do
	name=$(basename "$h")
	found=$(find "$tmp/dest" -path "*/include/softfabric/rdma/$name")
	[ -n "$found" ] || { echo "not installed: $name"; bad=1; continue; }
	printf '#include <rdma/%s>\n' "$name" "$name" >"$tmp/one.c"
	while read -r compiler; do
		# shellcheck disable=SC2086
		$compiler -Wall -Wextra -Werror -fsyntax-only -x "$([ "${compiler%% *}" = cc ] && echo c || echo c++)" \
			-I"${found%/rdma/*}" "$tmp/one.c" || { echo "$name: not by $compiler"; bad=1; }
	done <<<"$compilers"
done
[ $bad = 0 ] && echo "installed: $(find "$tmp/dest" -name '*.h' | wc -l) headers"
exit $bad
