# SPDX-License-Identifier: BSD-2-Clause
"""softfabric doctor: what this machine permits, each finding with its mend."""
import ctypes
import errno
import os
import platform
import resource
import shutil
import signal
import socket
import struct

from . import ask, hosts, out, places

EPILOG = """\
ok: as it should be; note: works, but slower or with something missing; bad: does not work.
exit status: 0 nothing is bad; 1 something is. --strict: 1 for notes as well."""
MIB = 1 << 20
SHM_LEAST, SHM_GOOD = 16 * MIB, 256 * MIB
SOL_UDP, UDP_SEGMENT, UDP_GRO = 17, 103, 104
SOCKET_GOOD = 4 * MIB
MEMBARRIER_QUERY, MEMBARRIER_GLOBAL_EXPEDITED = 0, 2
SYS_MEMBARRIER = {"x86_64": 324, "aarch64": 283}

OK, NOTE, BAD = "ok", "note", "bad"


def finding(level, what, text, mend=None):
    return {"level": level, "what": what, "text": text, "mend": mend}


def read_number(path):
    try:
        with open(path, encoding="ascii") as f:
            return int(f.read())
    except (OSError, ValueError):
        return None


# --- shared memory, memory of other processes ---

def shm():
    """Tries what a port does: a file that is as long as it says."""
    what, grow = "shared memory", "mount -o remount,size=1g /dev/shm; in a container: docker run --shm-size=1g"
    path = "/dev/shm/softfabric-doctor-%d" % os.getpid()
    try:
        stat = os.statvfs("/dev/shm")
        fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600)
    except OSError as e:
        mend = {errno.EROFS: "mount -o remount,rw /dev/shm", errno.ENOENT: "mount -t tmpfs tmpfs /dev/shm",
                errno.ENOSPC: "remove files from /dev/shm that nobody uses, or %s" % grow,
                }.get(e.errno, "chmod 1777 /dev/shm")
        return [finding(BAD, what, "no file can be made in /dev/shm: %s" % e.strerror, mend)]
    try:
        os.posix_fallocate(fd, 0, 4 * MIB)
    except OSError as e:
        return [finding(BAD, what, "4 MiB of /dev/shm cannot be had: %s" % e.strerror,
                        "remove files from /dev/shm that nobody uses, or %s" % grow)]
    finally:
        os.close(fd)
        os.unlink(path)
    free, size = stat.f_bavail * stat.f_frsize, stat.f_blocks * stat.f_frsize
    text = "%s of %s in /dev/shm are free" % (out.amount(free), out.amount(size))
    if free < SHM_LEAST:
        return [finding(BAD, what, text, grow)]
    return [finding(NOTE, what, text + "; many ranks need more", grow) if free < SHM_GOOD else finding(OK, what, text)]


def siblings():
    """Whether a process may read the memory of another one of the same user, as adapters do for long messages."""
    what = "memory of other processes"
    scope = read_number("/proc/sys/kernel/yama/ptrace_scope")
    buf = ctypes.create_string_buffer(b"softfabric")
    owner = os.fork()
    if not owner:  # ends with us, whatever ends us
        for s in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(s, signal.SIG_DFL)
        hosts.call("prctl", hosts.PR_SET_PDEATHSIG, signal.SIGKILL)
        while True:
            signal.pause()
    reader = os.fork()
    if not reader:
        iov = struct.pack("QQ", ctypes.addressof(buf), 10)
        mine = ctypes.create_string_buffer(10)
        local = struct.pack("QQ", ctypes.addressof(mine), 10)
        got = hosts.libc.process_vm_readv(owner, local, ctypes.c_ulong(1), iov, ctypes.c_ulong(1), ctypes.c_ulong(0))
        os._exit(0 if got == 10 else ctypes.get_errno() or 1)
    status = os.waitstatus_to_exitcode(os.waitpid(reader, 0)[1])
    os.kill(owner, signal.SIGKILL)
    os.waitpid(owner, 0)
    if not status:
        return [finding(OK, what, "process_vm_readv works between processes of one user")]
    mend = "sysctl -w kernel.yama.ptrace_scope=0" if scope else "in a container: docker run --cap-add SYS_PTRACE"
    return [finding(NOTE, what, "process_vm_readv is refused (%s%s): long local messages are copied twice" % (
        os.strerror(status), ", ptrace_scope %d" % scope if scope else ""), mend)]


def membarrier():
    nr = SYS_MEMBARRIER.get(platform.machine())
    if not nr:
        return []
    cmds = hosts.libc.syscall(ctypes.c_long(nr), MEMBARRIER_QUERY, 0, 0)
    if cmds >= 0 and cmds & MEMBARRIER_GLOBAL_EXPEDITED:
        return [finding(OK, "membarrier", "sleepers pay for waking up, senders do not")]
    return [finding(NOTE, "membarrier", "not permitted: each local message costs a fence",
                    "in a container: a seccomp profile that permits membarrier(2)")]


# --- network ---

def udp():
    found = []
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as s:
        missing = []
        for name, option in (("UDP_SEGMENT", UDP_SEGMENT), ("UDP_GRO", UDP_GRO)):
            try:
                s.setsockopt(SOL_UDP, option, 0)
            except OSError:
                missing.append(name)
        if missing:
            found.append(finding(NOTE, "UDP offloads",
                                 "%s missing: more system calls between hosts" % " and ".join(missing),
                                 "Linux 5.0 or later"))
        else:
            found.append(finding(OK, "UDP offloads", "UDP_SEGMENT and UDP_GRO"))
    for what, name in (("socket receive buffer", "rmem_max"), ("socket send buffer", "wmem_max")):
        limit = read_number("/proc/sys/net/core/" + name)
        if limit is None or limit >= SOCKET_GOOD or os.geteuid() == 0:
            found.append(finding(OK, what,
                                 "up to %s" % out.amount(limit) if limit is not None and limit >= SOCKET_GOOD
                                 else "as large as asked for"))
        else:
            found.append(finding(NOTE, what, "at most %s: bursts between hosts lose datagrams, which are repeated"
                                 % out.amount(limit),
                                 "sysctl -w net.core.%s=%d" % (name, SOCKET_GOOD)))
    return found


def namespaces():
    missing = [t for t in ("ip", "nsenter") if not shutil.which(t)]
    why = hosts.possible()
    if why:
        return [finding(NOTE, "virtual hosts", "no namespaces here (%s): softfabric run --hosts does not work" % why,
                        "run it " + hosts.MEND)]
    if missing:
        return [finding(NOTE, "virtual hosts", "%s missing: softfabric run --hosts does not work" % ", ".join(missing),
                        "apt install iproute2 util-linux")]
    return [finding(OK, "virtual hosts",
                    "network namespaces can be made%s" % ("" if os.geteuid() == 0 else ", without root"))]


# --- the machine ---

def cores():
    n = len(os.sched_getaffinity(0))
    if n > 1:
        return [finding(OK, "cores", "%d" % n)]
    return [finding(NOTE, "cores", "one: polling ranks take turns, and everything is slow",
                    "more than one core; in a container: docker run --cpus=2")]


def limits():
    found = []
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    level = OK if soft >= 256 else NOTE
    found.append(finding(level, "open files", "up to %d" % soft,
                         None if level == OK else "ulimit -n %d" % min(4096, hard)))
    soft = resource.getrlimit(resource.RLIMIT_MEMLOCK)[0]
    text = "unlimited" if soft == resource.RLIM_INFINITY else out.amount(soft)
    found.append(finding(OK, "locked memory", "%s; soft adapters lock none, so any limit will do" % text))
    return found


# --- software ---

def libfabrics(progress):
    found, files = [], places.libfabrics()
    if not files:
        return [finding(BAD, "libfabric", "there is none", "apt install libfabric1")]
    for file in files:
        progress.say("asking %s" % file)
        try:
            with ask.Libfabric(file, any_version=True) as lib:
                found += one_libfabric(file, lib)
        except out.Refused as e:
            found.append(finding(BAD, "libfabric", "%s: %s" % (file, e), "apt install --reinstall libfabric1"))
    return found


def one_libfabric(file, lib):
    if ask.is_old(lib.version):
        return [finding(BAD, "libfabric", "%s is %s: too old" % (file, lib.version),
                        "%s or later: Debian 12 has it" % places.OLDEST)]
    loaded, refused = [], []
    for p in places.built():
        a = lib.ask_of(p, {"domain_attr.mr_mode": sum(lib.words("domain_attr.mr_mode")["words"].values()) & ~3,
                           "mode": sum(lib.words("mode")["words"].values())})
        if a["infos"]:
            loaded.append(p)
        else:
            refused.append("%s (%s)" % (p, a["reasons"].get(p, "refused by its room")
                                        if p in a["loaded"] else "not loaded"))
    text = "%s: %s, our modules load: %s" % (file, lib.version, ", ".join(loaded) or "none")
    if refused:
        return [finding(BAD, "libfabric", "%s; not: %s" % (text, ", ".join(refused)),
                        "softfabric info; FI_LOG_LEVEL=info fi_info says what the loader says")]
    if ask.version_of(lib.version) > ask.version_of(places.NEWEST):
        return [finding(NOTE, "libfabric", text + "; newer than what it was tested with, %s" % places.NEWEST,
                        "report what goes wrong")]
    return [finding(OK, "libfabric", text)]


def mpis(progress):
    progress.say("asking the MPIs")
    found = [finding(OK, "MPI", "%s %s: %s" % (name, version, file)) for name, file, version in places.mpis()]
    return found or [finding(NOTE, "MPI", "no mpirun in PATH", "apt install openmpi-bin")]


def room():
    errors = ask.unheard(os.environ) + ask.room_errors(ask.room())
    if errors:
        return [finding(BAD, "room", e, "correct it, or unset the variable") for e in errors]
    return [finding(OK, "room", "SOFTFABRIC_* are understood")]


def modules():
    missing = [p for p in places.PROVIDERS if p not in places.built()]
    if missing:
        return [finding(BAD, "modules", "%s not in %s" % (", ".join(missing), places.modules),
                        "build them (ninja), or install the package again")]
    return [finding(OK, "modules", places.modules)]


def examine():
    progress = out.Progress()
    found = modules() + room() + shm() + siblings() + membarrier() + udp() + cores() + limits() + namespaces()
    found += libfabrics(progress) + mpis(progress)
    progress.end()
    return found


def main(argv):
    ap = out.Parser(prog="softfabric doctor", description=__doc__, epilog=EPILOG)
    ap.add_argument("--strict", action="store_true", help="notes count as bad")
    ap.add_json("findings")
    args = ap.parse_args(argv)
    found = examine()
    worst = any(f["level"] == BAD or (args.strict and f["level"] == NOTE) for f in found)
    if args.json:
        out.put_json(args.json, {"ok": not worst, "findings": found})
        return int(worst)
    for f in found:
        print("%-5s %s: %s" % (f["level"], f["what"], f["text"]))
        if f["mend"]:
            print("      mend: %s" % f["mend"])
    print("%d bad, %d notes" % tuple(sum(f["level"] == level for f in found) for level in (BAD, NOTE)))
    return int(worst)
