#!/usr/bin/env bash
# deb_roots.sh RELEASE: builds the packages in a clean root of that Debian release, and installs and uses them in
# another one, which has nothing that building needs. Exit status 77: that is impossible here (tools/clean_root.sh says
# why).
set -u
release=${1:?the name of a Debian release}
here=$(cd "$(dirname "$0")" && pwd)
top=$(mktemp -d "${TMPDIR:-/var/tmp}/softfabric-debs.XXXXXX") || exit 1
trap 'rm -rf --one-file-system "$top"' EXIT
trap 'exit 130' INT TERM
ROOT=$top/build "$here/clean_root.sh" "$release" deb || exit
mkdir -p "$top/use/src/build-deb"
cp "$top"/build/src/build-deb/*.deb "$top/use/src/build-deb/" || exit 1
rm -rf --one-file-system "$top/build"
ROOT=$top/use "$here/clean_root.sh" "$release" deb-check
