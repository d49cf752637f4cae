#!/bin/bash
# What the built module $1 shows to and wants from the world: its entry points; libfabric, libm and the C library; of
# libfabric only what 1.17 has, so that one build runs under every core from there on. Then: meson install of $2 puts it
# where the README says.
set -euo pipefail
so=$1 build=$2
for tool in readelf nm; do
	command -v $tool >/dev/null || { echo "SKIP: $tool is not installed"; exit 77; }
done
bad=0
# complain TEXT LINES - fails the test if there are lines
complain() {
	[ -z "$2" ] && return 0
	printf '%s:\n%s\n' "$1" "$2"
	bad=1
}

# An instrumented build brings its runtime along.
if nm -D "$so" | grep -qE ' U __(asan|tsan|ubsan)_'; then echo "SKIP: built with a sanitizer"; exit 77; fi

nm -D --defined-only "$so" | grep -q ' T fi_prov_ini$' || complain "not exported" "fi_prov_ini"
# More is exported by the one that -DFABRIC_DIRECT is for.
complain "exported" "$(nm -D --defined-only "$so" | awk '{print $3}' |
	grep -vxE "fi_prov_ini$([[ $so = *libopx* ]] && echo '|opx_fi_[a-z_]+')" || true)"
# The loader is the C library's: it owns __tls_get_addr().
complain "libraries that are not meant to be needed" "$(readelf -dW "$so" | sed -n 's/.*(NEEDED).*\[\(.*\)\]/\1/p' |
	grep -vxE 'libfabric\.so\.1|libsodium\.so\.[0-9]+|libm\.so\.6|libc\.so\.6|ld-linux.*\.so\.[0-9]+' || true)"
readelf -dW "$so" | grep -q '(NEEDED).*\[libfabric\.so\.1\]' || complain "not needed" "libfabric.so.1"
known='fi_(log|log_enabled|param_define|param_get|strerror|tostr|version)@FABRIC_1\.0
fi_tostr_r@FABRIC_1\.4'
complain "symbols that libfabric 1.17 does not have in this version" "$(nm -D --undefined-only "$so" |
	awk '{print $2}' | grep -E '@FABRIC_|^fi_' | grep -vxE "$known" || true)"
complain "run paths" "$(readelf -dW "$so" | grep -E 'RPATH|RUNPATH' || true)"
complain "text relocations" "$(readelf -dW "$so" | grep TEXTREL || true)"
# It is static (base/guard.c asks for that), and the C library keeps only some 1.6 KiB for all libraries that are loaded
# late: above that libfabric skips a module without a word.
tls=$(readelf -lW "$so" | awk '$1 == "TLS" { print $6 }')
((${tls:-0} <= 256)) || complain "thread-local memory above 256 bytes" "$((tls)) bytes"
readelf -dW "$so" | grep -q 'FLAGS_1.*NODELETE' || complain "not marked" "-z nodelete"

tmp=$(mktemp -d "${TMPDIR:-/tmp}/softfabric-abi.XXXXXX")
trap 'rm -rf "$tmp"' EXIT
DESTDIR=$tmp meson install -C "$build" --no-rebuild --quiet >/dev/null
files=$(cd "$tmp" && find . -type f)
name=$(basename "$so")
echo "$files" | grep -qF "/softfabric/$name" ||
	complain "installed, but $name in \$libdir/softfabric is not among them" "${files:-nothing}"
complain "installed beside the modules" "$(echo "$files" |
	grep -vE '/softfabric/lib([a-z]+-fi|softfabric-verbs)\.so$|/include/|/share/|/bin/softfabric$' |
	grep -vE '/softfabric/softfabric-(probe|bench)$|/pkgconfig/softfabric\.pc$' |
	grep -vE '/wireshark/plugins/softfabric\.lua$' || true)"
exit $bad
