# SPDX-License-Identifier: BSD-2-Clause
"""softfabric top: live counters of the adapters at work on this machine."""
import curses
import os
import sys
import time

from . import counters, live, out

EPILOG = """\
Adapters tell of themselves if SOFTFABRIC_LIVE names a folder: softfabric run sets it, elsewhere it may be /dev/shm.
Twice a second each writes its counters there; sending and receiving know nothing of it.
Keys: a adapters, p ports, e peers, q quits.
exit status: 0; 1 with --json or --once: no adapter tells anything."""
NOBODY = "no adapter tells anything: softfabric run has them do so, elsewhere export SOFTFABRIC_LIVE=/dev/shm"
VIEWS = {"a": "adapters", "p": "ports", "e": "peers"}


def delta(now, before, names):
    return max(0, counters.total(now, names) - counters.total(before, names))


def by_key(adapters):
    return {(a["host"], a["pid"], a["adapter"], a["ports"][0]["addr"] if a["ports"] else ""): a for a in adapters}


class Rates:
    """What changed between two looks, per second; nothing at the first."""

    def __init__(self):
        self.then, self.before, self.seconds = None, {}, 0

    def step(self, adapters):
        now, self.seconds = time.monotonic(), 0
        if self.then:
            self.seconds = now - self.then
        self.last, self.before, self.then = self.before, by_key(adapters), now

    def of(self, adapter, names, port=None):
        key = next(iter(by_key([adapter])))
        old = self.last.get(key)
        if not old or not self.seconds:
            return 0
        if port is not None:
            same = [p for p in old["ports"] if p["addr"] == port["addr"]]
            return delta(port["counters"], same[0]["counters"], names) / self.seconds if same else 0
        return delta(adapter["counters"], old["counters"], names) / self.seconds


def adapter_rows(adapters, rates):
    rows = [("host", "pid", "program", "adapter", "op/s", "sent/s", "received/s", "sent", "received", "repeated",
             "dropped", "peers")]
    for a in adapters:
        c, by = a["counters"], counters.classes(a["counters"])
        rows.append((a["host"], a["pid"], a["program"], a["adapter"], "%.0f" % rates.of(a, counters.OPS),
                     out.amount(rates.of(a, counters.SENT)),
                     out.amount(rates.of(a, counters.RECEIVED)), out.amount(counters.total(c, counters.SENT)),
                     out.amount(counters.total(c, counters.RECEIVED)), counters.total(c, counters.REPEATED),
                     sum(by.get("dropped or refused", {}).values()), sum(p["peers"] for p in a["ports"])))
    return rows


def port_rows(adapters, rates):
    rows = [("pid", "adapter", "port", "frames/s", "sent/s", "frames out", "frames in", "by memory", "datagrams out",
             "in", "repeated", "peers")]
    for a in adapters:
        for p in a["ports"]:
            c = p["counters"]
            rows.append((a["pid"], a["adapter"], p["addr"], "%.0f" % rates.of(a, ("tx_frames",), p),
                         out.amount(rates.of(a, ("tx_bytes",), p)), c.get("tx_frames", 0), c.get("rx_frames", 0),
                         c.get("tx_frames", 0) - c.get("net_tx_frames", 0),
                         *(c.get(n, 0) for n in ("net_tx_dgrams", "net_rx_dgrams", "retrans")), p["peers"]))
    return rows


def peer_rows(adapters, _rates):
    rows = [("pid", "adapter", "port", "peer", "path", "sent", "waiting", "round trip", "status")]
    for a in adapters:
        for p in a["peers"]:
            rtt = p.get("rtt_ns", 0)
            status = p.get("status", 0)
            rows.append((a["pid"], a["adapter"], p["port"], p.get("addr", "?"), p.get("path", "?"), p.get("sent", 0),
                         p.get("waiting", 0), "%.0f us" % (rtt / 1e3) if rtt else "-",
                         os.strerror(-status) if status < 0 else "ok"))
    return rows


ROWS = {"adapters": adapter_rows, "ports": port_rows, "peers": peer_rows}


def summed(a):
    sums = {"operations": counters.OPS, "sent_bytes": counters.SENT, "received_bytes": counters.RECEIVED,
            "repeated": counters.REPEATED}
    return {**a, **{name: counters.total(a["counters"], which) for name, which in sums.items()}}


def lines_of(rows):
    class Lines(list):
        def write(self, text):
            self.extend(text.rstrip("\n").split("\n") if text.strip() else [])
    lines = Lines()
    out.table(rows, lines, "")
    return lines


def screen_loop(screen, dirs, delay, view):
    rates = Rates()
    curses.curs_set(0)
    screen.timeout(max(1, int(delay * 1000)))
    while True:
        adapters = live.read_all(dirs)
        rates.step(adapters)
        height, width = screen.getmaxyx()
        screen.erase()
        head = "softfabric top: %d adapters, %s   (a)dapters (p)orts p(e)ers (q)uit" % (len(adapters), view)
        body = lines_of(ROWS[view](adapters, rates)) if adapters else [NOBODY]
        for y, line in enumerate([head, ""] + body):
            if y < height:
                screen.addnstr(y, 0, line, width - 1, curses.A_REVERSE if y in (0, 2) else 0)
        screen.refresh()
        key = screen.getch()
        if key in (ord("q"), 27):
            return 0
        view = VIEWS.get(chr(key) if 0 < key < 128 else "", view)


def once(dirs, delay, view):
    """Two looks, so that there are rates, as text."""
    rates = Rates()
    rates.step(live.read_all(dirs))
    time.sleep(delay)
    adapters = live.read_all(dirs)
    rates.step(adapters)
    if not adapters:
        raise out.Refused(NOBODY, 1)
    out.table(ROWS[view](adapters, rates))
    return 0


def main(argv):
    ap = out.Parser(prog="softfabric top", description=__doc__, epilog=EPILOG)
    ap.add_argument("-d", "--delay", type=float, default=1.0, metavar="SECONDS", help="between two looks (1)")
    ap.add_argument("-v", "--view", choices=sorted(VIEWS.values()), default="adapters",
                    help="what to begin with (adapters)")
    ap.add_argument("--dir", metavar="FOLDER", help="look in this folder only")
    ap.add_argument("--once", action="store_true", help="one table as text instead of the screen")
    ap.add_json("all counters of all adapters, once,")
    args = ap.parse_args(argv)
    if not 0.1 <= args.delay <= 3600:
        raise out.Refused("--delay takes 0.1 to 3600 seconds, not %g" % args.delay)
    if args.dir and not os.path.isdir(args.dir):
        raise out.Refused("--dir: there is no folder %s" % args.dir)
    dirs = [args.dir] if args.dir else live.folders()
    if args.json:
        adapters = live.read_all(dirs)
        out.put_json(args.json, {"adapters": [summed(a) for a in adapters]})
        return 0 if adapters else 1
    if args.once:
        return once(dirs, args.delay, args.view)
    if not os.isatty(0) or not os.isatty(1):
        raise out.Refused("the screen needs a terminal; --once prints a table, --json all counters")
    try:
        return curses.wrapper(screen_loop, dirs, args.delay, args.view)
    except curses.error as e:
        raise out.Refused("this terminal (TERM=%s) cannot show the screen (%s); --once prints a table"
                          % (os.environ.get("TERM", ""), e), 1) from None
    except KeyboardInterrupt:
        sys.stdout.flush()
        return 0
