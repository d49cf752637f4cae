#!/bin/sh
# deb.sh OUT: builds the Debian packages of this tree (debian/) into the folder OUT, and has lintian look at them: an
# error or a warning of its is one of ours. The tree stays as it is: the packages are built from a copy.
set -eu
out=${1:?the folder for the packages}
src=$(cd "$(dirname "$0")/.." && pwd)
mkdir -p "$out"
out=$(cd "$out" && pwd)
tmp=$(mktemp -d "${TMPDIR:-/var/tmp}/softfabric-deb.XXXXXX")
trap 'rm -rf "$tmp"' EXIT
mkdir "$tmp/softfabric"
tar -C "$src" --exclude-vcs --exclude='./build*' -c . | tar -C "$tmp/softfabric" -x
cd "$tmp/softfabric"
dpkg-buildpackage -us -uc >"$out/build.log" 2>&1 || { tail -30 "$out/build.log"; exit 1; }
lintian --allow-root --fail-on error,warning --tag-display-limit 0 ../*.changes
rm -f "$out"/*.deb
cp ../*.deb ../*.dsc ../*.tar.* ../*.changes "$out"
ls "$out"/*.deb
