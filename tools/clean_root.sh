#!/usr/bin/env bash
# clean_root.sh RELEASE [TARGET...]: make TARGET... (default: demo test) on a machine that has nothing but a minimal
# Debian RELEASE ("bookworm", "trixie") and a copy of this tree: a root made by debootstrap from where this machine's
# own packages come from. It lies in $TMPDIR (/var/tmp, 4 GB) and goes at the end; ROOT=DIR makes it in DIR, leaves it
# there, and uses it again. What runs there sees neither this machine's files nor its processes nor its /dev/shm, and
# the network is this machine's, for the packages. Exit status 77: that is impossible here.
set -u
src=$(cd "$(dirname "$0")/.." && pwd)

skip() { echo "SKIP: $*"; exit 77; }

# Within: own mount, process and IPC namespaces, the root is to become /.
if [ "${1:-}" = --inside ]; then
	root=$2
	shift 2
	mount --bind "$root" "$root" && cd "$root" || exit 1
	mount -t proc proc proc && mount --rbind /sys sys && mount --rbind /dev dev &&
		mount -t tmpfs -o mode=1777 tmpfs dev/shm || exit 1
	pivot_root . mnt && cd / && umount -l mnt || exit 1
	proxies=$(env | grep -iE '^(https?|ftp|no)_proxy=')
	IFS=$'\n'
	# shellcheck disable=SC2086
	exec env -i PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin HOME=/root LC_ALL=C.UTF-8 \
		DEBIAN_FRONTEND=noninteractive SEED="${SEED:-20261121}" TEST_JOBS="${TEST_JOBS:-2}" $proxies bash -c '
		set -e
		cd /src
		command -v make >/dev/null || {
			apt-get update -qq && apt-get install -y -qq --no-install-recommends make >/dev/null; }
		for target; do echo "== make $target"; make --no-print-directory "$target"; done' clean_root "$@"
fi

release=${1:?the name of a Debian release}
shift
[ $# -gt 0 ] || set -- demo test
[ "$(id -u)" = 0 ] || skip "a root of its own can be made by root only"
command -v debootstrap >/dev/null || "$src/tools/setup.sh" root || :
command -v debootstrap >/dev/null || skip "debootstrap is not installed, and cannot be"
unshare -m --propagation private --pid --fork --ipc true 2>/dev/null || skip "this system forbids mount namespaces"
# The archive that this machine's own release comes from.
own=$(. /etc/os-release && echo "${VERSION_CODENAME:-}")
# shellcheck disable=SC2016 # apt-get's, not the shell's
mirror=$(apt-get indextargets --format '$(REPO_URI)' 'Created-By: Packages' "Codename: $own" 'Component: main' \
	2>/dev/null | head -1)
[ -n "$mirror" ] || skip "no archive is configured that has the main packages of ${own:-this system}"

top=
root=${ROOT:-}
[ -n "$root" ] || { top=$(mktemp -d "${TMPDIR:-/var/tmp}/softfabric-root.XXXXXX") && root=$top/root || exit 1; }
# The namespace and with it all mounts are gone before this runs; --one-file-system is for the case that they are not.
trap '[ -z "$top" ] || rm -rf --one-file-system "$top"' EXIT
trap 'exit 130' INT TERM
# debootstrap's own folder is gone when it is done.
if [ ! -x "$root/usr/bin/apt-get" ] || [ -d "$root/debootstrap" ]; then
	mkdir -p "$root"
	debootstrap --variant=minbase --include=ca-certificates --force-check-gpg "$release" "$root" "$mirror" \
		>"$root.log" 2>&1 ||
		skip "debootstrap from $mirror: $(tail -1 "$root.log")"
fi
cp -L /etc/resolv.conf /etc/hosts "$root/etc/"
echo force-unsafe-io >"$root/etc/dpkg/dpkg.cfg.d/unsafe-io" # nothing here has to outlive a power failure
apt-config dump | grep -i '^Acquire::https\?::Proxy' >"$root/etc/apt/apt.conf.d/99proxy"
mkdir -p "$root/src"
tar -C "$src" --exclude-vcs --exclude='./build*' -c . | tar -C "$root/src" -x || exit 1
unshare -m --propagation private --pid --fork --ipc --kill-child "$src/tools/clean_root.sh" --inside "$root" "$@"
