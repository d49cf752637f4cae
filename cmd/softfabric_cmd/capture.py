# SPDX-License-Identifier: BSD-2-Clause
"""softfabric capture: runs a program as `softfabric run` does, and keeps what its processes sent and received in one
file, by time."""
import hashlib
import heapq
import os
import shutil
import signal
import struct
import sys
import tempfile

from . import folders, out, pcapng, run

USAGE = ("softfabric capture -o FILE [-p PROVIDER] [--hosts N] [--net KEYS] [--efa KEYS] [--cxi KEYS] [--opx KEYS] "
         "[--json[=FILE]] [-q] -- COMMAND [ARG...]")
EPILOG = """\
  softfabric capture -o run.pcapng -p efa -- mpirun -np 2 ./a.out
  softfabric capture -o lossy.pcapng -p cxi --net "loss=1%;seed=7" -- mpirun -np 2 ./a.out
  softfabric decode run.pcapng, or: wireshark run.pcapng
Each process is an interface of the file (frame.interface_name), hosts are named, and a datagram that did not arrive has
a comment (frame.comment). While a capture is on, all traffic runs as datagrams, also between processes of one host.
exit status: the command's own, as of softfabric run; 125 nothing was run; an interrupt ends the command, and what was
captured is kept. A second one ends the merge of the processes' captures: where they are is said."""
LOST = "did not arrive"
COMMENT_MAX = 60000
MIB = 1 << 20


class Arrivals:
    """Which datagrams did not arrive: those whose bytes left more often than they came in.

    For that it keeps a digest of each in files, in shares of which one is in memory at a time.
    """
    SHARE_BYTES, SHARES_MOST = 64 * MIB, 128  # of captures; of files
    record = struct.Struct("<12sQ")

    def __init__(self, folder, total_bytes):
        self.folder = os.path.join(folder, "digests")
        os.mkdir(self.folder)
        cnt = min(self.SHARES_MOST, 1 + total_bytes // self.SHARE_BYTES)
        self.shares = [open(os.path.join(self.folder, str(n)), "w+b") for n in range(cnt)]
        self.lost = bytearray()  # a bit for each datagram

    def note(self, number, p):
        digest = hashlib.blake2b(p.data, digest_size=12).digest()
        share = self.shares[int.from_bytes(digest[:4], "little") % len(self.shares)]
        share.write(self.record.pack(digest, number << 1 | (p.way == pcapng.IN)))

    def records(self, share):
        share.seek(0)
        while True:
            data = share.read(4096 * self.record.size)
            if not data:
                return
            yield from self.record.iter_unpack(data)

    def settle(self, cnt, progress):
        """All @cnt datagrams are noted."""
        self.lost = bytearray(cnt // 8 + 1)
        for n, share in enumerate(self.shares):
            progress.say("looking for what did not arrive, %d of %d" % (n + 1, len(self.shares)))
            came = {}
            for digest, tail in self.records(share):
                if tail & 1:
                    came[digest] = came.get(digest, 0) + 1
            for digest, tail in self.records(share):
                if tail & 1:
                    continue
                left = came.get(digest, 0)
                if left:
                    came[digest] = left - 1
                else:
                    self.lost[tail >> 4] |= 1 << (tail >> 1 & 7)
        self.close()

    def is_lost(self, number):
        return self.lost[number >> 3] >> (number & 7) & 1

    def close(self):
        for share in self.shares:
            share.close()
        shutil.rmtree(self.folder, ignore_errors=True)


class Merge:
    """The captures of several processes as one."""

    def __init__(self, folder):
        self.paths = sorted(os.path.join(folder, f) for f in os.listdir(folder) if f.endswith(".pcapng"))
        self.arrivals = Arrivals(folder, sum(os.path.getsize(p) for p in self.paths))
        self.first, self.ends, self.broken = {}, {}, {}
        self.cnt = self.lost = 0

    def look(self, progress):
        """What came in, who is where: needed before the first packet is written."""
        cnt = 0
        for n, path in enumerate(self.paths):
            self.first[path] = cnt
            for number, p in self.packets(path):
                self.note(number, p)
                cnt = number + 1
                if cnt % 4096 == 0:
                    progress.say("reading capture %d of %d, %d datagrams" % (n + 1, len(self.paths), cnt))
        self.arrivals.settle(cnt, progress)

    def packets(self, path):
        """(number, packet) of one process. One that was killed, or had no room, may have left a part of a file: what
        is there counts."""
        try:
            with pcapng.File(path) as f:
                yield from enumerate(f, self.first[path])
        except out.Refused as e:
            self.broken[path] = str(e)

    def note(self, number, p):
        ends = pcapng.udp(p)
        if not ends or p.way not in (pcapng.IN, pcapng.OUT):
            return
        self.ends.setdefault(ends[0 if p.way == pcapng.OUT else 1], p.iface.name)
        self.arrivals.note(number, p)

    def mark(self, number, p):
        """Says of a datagram that left, to somebody who captured too, that it did not arrive."""
        ends = pcapng.udp(p)
        if p.way == pcapng.OUT and ends and ends[1] in self.ends and self.arrivals.is_lost(number):
            p.comments.append(LOST)
            self.lost += 1

    def names(self):
        """Addresses that are one host's: their names."""
        got = {}
        for end, who in self.ends.items():
            ip = end.rpartition(":")[0].strip("[]")
            got.setdefault(ip, set()).add(who.rpartition("@")[2])
        return {ip: next(iter(h)) for ip, h in got.items() if len(h) == 1 and next(iter(h))}

    def write(self, to, progress):
        said = "; ".join("%s is %s" % e for e in sorted(self.ends.items()))
        to.write(pcapng.section(said[:COMMENT_MAX]))
        if self.ends:
            to.write(pcapng.names_block(self.names()))
        files, ifaces = [self.packets(p) for p in self.paths], {}
        for number, p in heapq.merge(*files, key=lambda n: (n[1].at_ns, n[1].way == pcapng.IN)):
            if p.iface not in ifaces:
                ifaces[p.iface] = len(ifaces)
                to.write(pcapng.interface_block(p.iface))
            self.mark(number, p)
            to.write(pcapng.packet_block(ifaces[p.iface], p))
            self.cnt += 1
            if self.cnt % 4096 == 0:
                progress.say("merging, %d datagrams" % self.cnt)


def finish(folder, to, args):
    """Writes the file, and says what is in it."""
    progress = out.Progress()
    try:
        merge = Merge(folder)
        try:
            merge.look(progress)
            merge.write(to, progress)
            to.close()  # a full disk may be noticed here only
        finally:
            progress.end()
            merge.arrivals.close()
    except OSError as e:
        what = args.output if not e.filename else e.filename
        said = "%s cannot be written: %s: make room, or name a file elsewhere" % (what, e.strerror)
        raise out.Refused(said, 1) from None
    for why in merge.broken.values():
        print("softfabric: one process's part is not whole: %s" % why, file=sys.stderr)
    if args.quiet or args.json == "-":
        return
    if merge.cnt:
        lost = ", %d of them did not arrive" % merge.lost if merge.lost else ""
        said = (args.output, merge.cnt, len(merge.paths), lost)
        print("softfabric: %s: %d datagrams of %d processes%s" % said, file=sys.stderr)
    else:
        print("softfabric: %s is empty: no adapter sent anything" % args.output, file=sys.stderr)


def on_signal(_sig, _frame):
    raise KeyboardInterrupt


def run_and_finish(args, command, to):
    """Whatever ends the merge early, the captures of the processes stay: where, is said."""
    why = None
    try:
        with folders.signals_held():
            args.capture = tempfile.mkdtemp(prefix="softfabric-cap.")
        status = run.run(args, command)
        for s in (signal.SIGTERM, signal.SIGHUP):
            signal.signal(s, on_signal)
        finish(args.capture, to, args)
        return status
    except KeyboardInterrupt:
        why = out.Refused("interrupted, %s is not whole" % args.output, 130)
    except out.Refused as e:
        why = e
    finally:
        is_left = why and args.capture and any(f.endswith(".pcapng") for f in os.listdir(args.capture))
        if args.capture and not is_left:
            shutil.rmtree(args.capture, ignore_errors=True)
    if is_left:
        raise out.Refused("%s; the captures of each process are in %s" % (why, args.capture), why.status)
    raise why


def main(argv):
    ap = out.Parser(prog="softfabric capture", usage=USAGE, description=__doc__, epilog=EPILOG)
    ap.add_argument("-o", "--output", metavar="FILE", required=True, help="the capture, pcapng")
    run.add_room(ap)
    args, command = run.parse(ap, argv, "softfabric capture -o run.pcapng -p efa -- mpirun -np 2 ./a.out")
    rooms = (args.net or "", os.environ.get("SOFTFABRIC_NET", ""))
    if any(k.split("=")[0].strip() == "pcap" for r in rooms for k in r.split(";")):
        raise out.Refused("capture sets pcap itself: leave it out of --net and SOFTFABRIC_NET", 125)
    try:
        to = open(args.output, "wb")  # pylint: disable=consider-using-with
    except OSError as e:
        raise out.Refused("%s cannot be written: %s" % (args.output, e.strerror), 125) from None
    try:
        return run_and_finish(args, command, to)
    finally:
        try:
            to.close()
        except OSError:  # it has been said: flush() has met it before
            pass
