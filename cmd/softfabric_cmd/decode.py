# SPDX-License-Identifier: BSD-2-Clause
"""softfabric decode: prints a capture as text, with what Wireshark shows of it."""
import argparse
import contextlib
import json
import os
import sys

from . import fabric, layouts, out, pcapng, places

USAGE = "softfabric decode [-v] [--json] FILE"
EPILOG = """\
  softfabric decode run.pcapng
One line for each datagram: number, seconds, direction (> left, < came in), ends, what it is, the fi_ operation that it
belongs to.
-v adds all fields under each line; --json prints one object a line. Sealed datagrams stay closed: capture
with pcap= instead.
exit status: 0 all was read and understood; 1 the file cannot be read, was cut, or has datagrams that are not
understood."""
MARKS = {"softfabric.retransmission": "repeats #%d", "softfabric.duplicate": "doubles #%d",
         "softfabric.refuses": "refuses #%d",
         "softfabric.malformed": "MALFORMED: %s"}
DONE = {1: "left", 2: "arrived"}


def said(known, names, fields):
    """The line of one datagram."""
    vals, words = dict(fields), list(names)
    if "softfabric.seal.mode" in vals:
        return "sealed, %s: contents closed to us" % known.text("softfabric.seal.mode", vals["softfabric.seal.mode"])
    for name, value in fields:
        if name == "softfabric.op":
            words.append("[%s" % value)
        elif name == "softfabric.msg":
            words.append("#%d" % value)
        elif name == "softfabric.bytes":
            words.append("%d bytes]" % value)
        elif name == "softfabric.complete":
            words.append("all has " + DONE[value])
        elif name in MARKS:
            words.append(MARKS[name] % value)
    return " ".join(words)


def plain(text):
    """Of a file that somebody else made: it must not drive the terminal."""
    return "".join(c if c.isprintable() else "\\x%02x" % ord(c) for c in text)


class Printer:
    def __init__(self, args, known):
        self.args, self.known, self.began = args, known, None

    def put(self, n, p, ends, names, fields):
        self.began = p.at_ns if self.began is None else self.began
        at = (p.at_ns - self.began) / 1e9
        if self.args.json:
            if fields is not None:
                shown = [(k, v.hex() if isinstance(v, bytes) else v) for k, v in fields]
                print(json.dumps({"number": n, "time": at, "comments": p.comments, "fields": shown}))
            return
        if fields is None:
            print("%6d %.6f   not of softfabric" % (n, at))
            return
        who = p.iface.name
        notes = "  (%s)" % plain(who) if who and self.args.verbose else ""
        notes += "".join("  ** " + plain(c) for c in p.comments)
        way = {pcapng.IN: "<", pcapng.OUT: ">"}.get(p.way, " ")
        print("%6d %.6f %s %s -> %s  %s%s" % (n, at, way, ends[0], ends[1], said(self.known, names, fields), notes))
        for name, value in fields if self.args.verbose else ():
            print("         %s = %s" % (name, value if isinstance(value, str) else self.known.text(name, value)))


def read(path, args, known):
    fab, printer, bad, strange = fabric.Fabric(known), Printer(args, known), 0, 0
    progress = None if os.isatty(1) else out.Progress()  # lines on a terminal say it themselves
    with pcapng.File(path) as f, contextlib.ExitStack() as at_end:
        at_end.callback(progress.end if progress else int)
        for n, p in enumerate(f, 1):
            if progress and n % 1024 == 0:
                progress.say("%d datagrams" % n)
            got = pcapng.udp(p)
            fields = fab.dissect(n, p.way, *got) if got else None
            bad += any(k == "softfabric.malformed" for k, _ in fields or ())
            strange += fields is None
            printer.put(n, p, got, fab.said, fields)
        sys.stdout.flush()
        if f.cut:
            raise out.Refused("%s ends inside a block: what is above is all that it has" % path, 1)
    if bad:
        raise out.Refused("%d datagrams of %s are not understood: made by another version, or damaged" % (bad, path), 1)
    return 0


def main(argv):
    ap = out.Parser(prog="softfabric decode", usage=USAGE, description=__doc__, epilog=EPILOG)
    ap.add_argument("-v", "--verbose", action="store_true", help="all fields")
    ap.add_argument("--json", action="store_true", help="one JSON object a line")
    ap.add_argument("file", metavar="FILE")
    args = argparse.ArgumentParser.parse_args(ap, argv)  # here --json takes no value
    return read(args.file, args, layouts.Layouts(places.wire))
