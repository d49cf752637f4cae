#!/bin/bash
# meson install of the build $1 of the source tree $2: every header of include/ is there, where the README says, and can
# be included alone, twice, by C and (where there is a compiler) by C++; so are the modules where pkg-config says, the
# command with all of its verbs, man pages and completions; and uninstalling leaves no file.
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
pc=$(find "$tmp/dest" -name softfabric.pc)
libdir=$(PKG_CONFIG_PATH=${pc%/*} pkg-config --variable=moduledir softfabric)
for f in "$libdir"/lib{efa,cxi,opx}-fi.so; do
	[ -f "$tmp/dest$f" ] || { echo "not installed: $f"; bad=1; }
done
command=$(find "$tmp/dest" -path '*/bin/softfabric')
for verb in $("$command" --help | awk '/^  [a-z]/ { print $1 }'); do
	"$command" help "$verb" >/dev/null || { echo "softfabric $verb --help fails where it is installed"; bad=1; }
done
"$command" --version | grep -qF "$tmp/dest$libdir" || { echo "softfabric --version does not name $libdir"; bad=1; }
for page in "$src"/doc/man/*.scd.in; do
	command -v scdoc >/dev/null || break
	page=$(basename "$page" .scd.in)
	[ -n "$(find "$tmp/dest" -name "$page")" ] || { echo "not installed: $page"; bad=1; }
done
[ "$(find "$tmp/dest" -path '*bash-completion/*/softfabric' -o -path '*zsh/*/_softfabric' | wc -l)" = 2 ] ||
	{ echo "completions are not installed"; bad=1; }
files=$(find "$tmp/dest" -type f -o -type l | wc -l)
(cd "$build" && DESTDIR=$tmp/dest meson --internal uninstall >/dev/null)
left=$(find "$tmp" -path "$tmp/dest/*")
[ -z "$left" ] || { echo "left by uninstall: $left"; bad=1; }
[ $bad = 0 ] && echo "installed: $files files"
exit $bad
