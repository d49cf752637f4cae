#!/bin/bash
# Cross-builds base, link and the adapters for 64-bit Arm into $1 and runs their unit and litmus tests under qemu's
# user-mode emulator: another instruction set, another compiler back end. That says nothing about weak memory order on
# real hardware: the emulator runs on this machine's. Exit status 77: the compiler or the emulator is missing.
set -euo pipefail
here=$(cd "$(dirname "$0")/.." && pwd)
build=${1:-$here/build-arm}

for tool in aarch64-linux-gnu-gcc qemu-aarch64; do
	command -v $tool >/dev/null || { echo "SKIP: $tool is not installed"; exit 77; }
done
[ -d /usr/aarch64-linux-gnu/lib ] || { echo "SKIP: no C library for aarch64 in /usr/aarch64-linux-gnu"; exit 77; }

# libbsd's headers are macros for any processor. In Debian 12 they lie where the cross compiler looks; in 13 among this
# machine's own, which come last, so that only what is found nowhere else is taken from there.
own=/usr/include/$(gcc -print-multiarch)
[ -f "$build/build.ninja" ] || meson setup -Dwerror=true -Dc_args="-idirafter $own" \
	--cross-file "$here/tools/aarch64.ini" "$build" "$here" >/dev/null
nice ninja -C "$build" --quiet

# What qemu's user mode cannot do; process_vm_readv() is missing too, but those tests see that for themselves.
seccomp="qemu has no seccomp filters"
wipe="qemu accepts MADV_WIPEONFORK and does not do it"
dont="qemu accepts MADV_DONTFORK and does not do it: children find their parent's tables mapped"
populate="qemu accepts MADV_POPULATE_READ and does not do it"
fork="qemu 7.2 breaks an assertion of its own, or its child stands still, when a process with threads forks"
reuse="qemu does not pass SO_ATTACH_REUSEPORT_CBPF on"
skip=""
for t in prog__v4 prog__v6 flood__peers_are_heard flood__handshake_counts flood__sealed flood__raw \
	flood__the_known_are_not_cut flood__ends flood__errors_after; do skip="$skip$t=$reuse;"; done
for t in bulk__kernel_forbids idle_poll__no_system_call; do skip="$skip$t=$seccomp;"; done
for t in forked__only_in_child; do skip="$skip$t=$wipe;"; done
for t in check__small_and_large check__short_file; do skip="$skip$t=$populate;"; done
for t in bulk__initiator_dies shm_seg__fork_beside_a_busy_thread; do skip="$skip$t=$fork;"; done
for t in del__waits_for_a_live_lease del__ignores_leases_on_others del__killed_holder \
	del__killed_holder_with_living_child del__stopped_holder del__sleeping_holder del__busy_holder take__after_del \
	slot__each_once_and_again_after_death tab__owner_dies tab__exit shut__waits_for_its_own_leases \
	shut__stopped_holder; do skip="$skip$t=$dont;"; done

# -v would print every line of every test; what was skipped and why is in the log, so show that.
rc=0
UNIT_SKIP=$skip nice "$here/tools/test.sh" "$build" --suite unit -t 10 || rc=$?
grep -h '^\[ SKIPPED  \] .*: ' "$build/meson-logs/testlog.txt" | sort -u || true
exit $rc
