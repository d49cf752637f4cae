# SPDX-License-Identifier: BSD-2-Clause
"""softfabric capture: runs a program as `softfabric run` does, and keeps what its processes sent and received in one
file, by time."""
import hashlib
import heapq
import os
import sys
import tempfile

from . import out, pcapng, run

USAGE = ("softfabric capture -o FILE [-p PROVIDER] [--hosts N] [--net KEYS] [--efa KEYS] [--cxi KEYS] [--opx KEYS] "
         "[--json[=FILE]] [-q] -- COMMAND [ARG...]")
EPILOG = """\
  softfabric capture -o run.pcapng -p efa -- mpirun -np 2 ./a.out
  softfabric capture -o lossy.pcapng -p cxi --net "loss=1%;seed=7" -- mpirun -np 2 ./a.out
  softfabric decode run.pcapng, or: wireshark run.pcapng
Each process is an interface of the file (frame.interface_name), hosts are named, and a datagram that did not arrive has
a comment (frame.comment). While a capture is on, all traffic runs as datagrams, also between processes of one host.
exit status: the command's own, as of softfabric run; 125 nothing was run; an interrupt ends the command, and what was
captured is kept."""
LOST = "did not arrive"
COMMENT_MAX = 60000


def digest(data):
    return hashlib.blake2b(data, digest_size=12).digest()


class Merge:
    """The captures of several processes as one."""

    def __init__(self, folder):
        self.paths = sorted(os.path.join(folder, f) for f in os.listdir(folder) if f.endswith(".pcapng"))
        self.arrived, self.ends, self.broken = {}, {}, {}
        self.cnt = self.lost = 0

    def look(self, progress):
        """What came in, who is where: needed before the first packet is written."""
        for n, path in enumerate(self.paths):
            progress.say("reading capture %d of %d" % (n + 1, len(self.paths)))
            for p in self.packets(path):
                self.note(p)

    def packets(self, path):
        """Of one process. One that was killed, or had no room, may have left a part of a file: what is there counts."""
        try:
            with pcapng.File(path) as f:
                yield from f
        except out.Refused as e:
            self.broken[path] = str(e)

    def note(self, p):
        ends = pcapng.udp(p)
        if not ends or p.way not in (pcapng.IN, pcapng.OUT):
            return
        self.ends.setdefault(ends[0 if p.way == pcapng.OUT else 1], p.iface.name)
        if p.way == pcapng.IN:
            key = digest(p.data)
            self.arrived[key] = self.arrived.get(key, 0) + 1

    def mark(self, p):
        """Says of a datagram that left, to somebody who captured too, that it did not arrive."""
        ends = pcapng.udp(p)
        if p.way != pcapng.OUT or not ends or ends[1] not in self.ends:
            return
        key = digest(p.data)
        if self.arrived.get(key, 0) > 0:
            self.arrived[key] -= 1
        else:
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
        for p in heapq.merge(*files, key=lambda p: (p.at_ns, p.way == pcapng.IN)):
            if p.iface not in ifaces:
                ifaces[p.iface] = len(ifaces)
                to.write(pcapng.interface_block(p.iface))
            self.mark(p)
            to.write(pcapng.packet_block(ifaces[p.iface], p))
            self.cnt += 1
            if self.cnt % 4096 == 0:
                progress.say("merging, %d datagrams" % self.cnt)


def finish(folder, to, args):
    """Writes the file, and says what is in it."""
    progress, merge = out.Progress(), Merge(folder)
    try:
        merge.look(progress)
        merge.write(to, progress)
        to.flush()
    except OSError as e:
        raise out.Refused("%s cannot be written: %s" % (args.output, e.strerror), 1) from None
    finally:
        progress.end()
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


def main(argv):
    ap = out.Parser(prog="softfabric capture", usage=USAGE, description=__doc__, epilog=EPILOG)
    ap.add_argument("-o", "--output", metavar="FILE", required=True, help="the capture, pcapng")
    run.add_room(ap)
    args, command = run.parse(ap, argv, "softfabric capture -o run.pcapng -p efa -- mpirun -np 2 ./a.out")
    try:
        to = open(args.output, "wb")  # pylint: disable=consider-using-with
    except OSError as e:
        raise out.Refused("%s cannot be written: %s" % (args.output, e.strerror), 125) from None
    with to, tempfile.TemporaryDirectory(prefix="softfabric-cap.") as tmp:
        args.capture = tmp
        status = run.run(args, command)
        finish(tmp, to, args)
    return status
