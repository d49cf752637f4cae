# SPDX-License-Identifier: BSD-2-Clause
"""softfabric bench: latency, rate and bandwidth of providers on this machine, ours beside libfabric's own."""
import argparse
import os
import platform
import select
import statistics
import subprocess
import time

from . import ask, hosts, out, picture, places, run

EPILOG = """\
Two processes per provider, on this host, or with --hosts on two virtual hosts; all providers take turns, so that a
noisy machine is noisy for all. lat: microseconds one way; bw: MB/s of messages in windows of 64; rate: thousand
messages of 8 bytes per second. Median of the turns.
--net and so on are for our providers only: stock ones have no conditions.
All load the newest libfabric here, or the one of SOFTFABRIC_PEERS=PREFIX, which has PREFIX/lib/libfabric.so.1; its
version, as its own fi_version() says it, is in the table, the CSV, the JSON and the picture.
exit status: 0; 1 nothing could be measured; 125 the room or the hosts are refused; 130 interrupted, what was measured
is printed."""
TESTS = {"lat": "us", "bw": "MB/s", "rate": "k/s"}
SIZES = {"lat": (8, 64, 512, 4096, 32768, 262144, 1048576), "bw": (512, 4096, 32768, 262144, 1048576), "rate": (8,)}
STOCK = ("shm", "tcp")
WINDOW, ANSWER_S, LARGEST = 64, 30, 64 << 20


class Failed(Exception):
    pass


class Side:
    """One of the two processes of a provider."""

    def __init__(self, words, cpu, env):
        mine = os.sched_getaffinity(0)
        try:
            # inherited: code of ours in the child (preexec_fn) would have Python print what interrupts it there
            if cpu is not None:
                os.sched_setaffinity(0, {cpu})
            self.p = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
                                      text=True, bufsize=1, env=env)
        finally:
            os.sched_setaffinity(0, mine)

    def say(self, line):
        try:
            self.p.stdin.write(line + "\n")
        except OSError:
            pass  # it has ended: hear() says so

    def hear(self, what):
        if not select.select([self.p.stdout], [], [], ANSWER_S)[0]:
            raise Failed("no answer in %d s" % ANSWER_S)
        word, _, rest = self.p.stdout.readline().strip().partition(" ")
        if word != what:
            raise Failed(rest if word == "error" else "its process ended" if not word else "%s %s" % (word, rest))
        return rest

    def end(self):
        try:
            self.p.stdin.close()
            self.p.wait(2)
        except (OSError, subprocess.TimeoutExpired):
            self.p.kill()
            self.p.wait()
        self.p.stdout.close()


class Pair:
    """Two processes with one provider between them."""

    def __init__(self, provider, args, env, cpus):
        self.provider, self.sides, self.ns_per_op = provider, [], {}
        probe = os.path.join(os.path.dirname(places.probe), "softfabric-bench")
        own = {**env, **({k: v for k, v in args.rooms.items()} if provider in places.PROVIDERS else {})}
        try:
            for n in range(2):
                words = [probe, provider, self.address(provider, args, n), str(max(4096, args.largest))]
                host = ["softfabric-on", "h%d" % (n + 1)] if args.between else []
                self.sides.append(Side(host + words, None if args.between else cpus[n % len(cpus)], own))
            said = [s.hear("name").split() for s in self.sides]
            self.libfabric = said[0][-1]
            for s, (name, _) in zip(self.sides, reversed(said)):
                s.say("peer " + name)
            for s in self.sides:
                s.hear("ready")
        except (Failed, OSError) as e:
            self.end()
            raise Failed(str(e)) from None

    @staticmethod
    def address(provider, args, n):
        if provider.split(";")[0] not in ("tcp", "udp", "sockets"):
            return "-"
        return "%s.%d" % (hosts.NET, n + 1) if args.between else "127.0.0.1"

    def order(self, what, size, ops):
        for me, s in enumerate(self.sides):
            s.say("%s %d %d %d" % (what, size, ops, me))
        ns = [int(s.hear("ns")) for s in self.sides]
        return ns[0]

    def turn(self, test, size, turn_s):
        """One value."""
        what, step = ("lat", 1) if test == "lat" else ("stream", WINDOW)
        key = (what, size)
        if key not in self.ns_per_op:
            ops = 8 * step if size <= 65536 else step
            self.ns_per_op[key] = self.order(what, size, ops) / ops
        ops = max(1, int(turn_s * 1e9 / max(1, self.ns_per_op[key]) / step)) * step
        self.ns_per_op[key] = max(1, self.order(what, size, ops) / ops)
        if test == "lat":
            return self.ns_per_op[key] / 2e3
        return size * 1e3 / self.ns_per_op[key] if test == "bw" else 1e6 / self.ns_per_op[key]

    def end(self):
        for s in self.sides:
            s.end()


def pairs_open(args, env, progress):
    pairs, failed = [], {}
    cpus = sorted(os.sched_getaffinity(0))
    for p in args.providers:
        progress.say("starting %s" % p)
        try:
            pairs.append(Pair(p, args, env, cpus))
        except Failed as e:
            failed[p] = str(e)
    return pairs, failed


def measure(args, env, results, failed):
    """Fills @results, [{test, size, provider, value, unit, turns, libfabric}], and @failed, {provider: why}."""
    progress = out.Progress()
    points = [(t, s) for t in args.tests for s in args.sizes.get(t, SIZES[t])]
    pairs, not_started = pairs_open(args, env, progress)
    failed.update(not_started)
    try:
        for at, (test, size) in enumerate(points):
            values = {p: [] for p in pairs}
            for turn in range(args.turns):
                progress.say("[%-20s] %s of %s bytes" % ("#" * (20 * at // len(points)), test, picture.size_name(size)))
                for p in [p for p in pairs if p.provider not in failed]:
                    try:
                        values[p].append(p.turn(test, size, args.turn_s))
                    except Failed as e:
                        failed[p.provider] = "%s of %d bytes: %s" % (test, size, e)
            results += [{"test": test, "size": size, "provider": p.provider, "value": round(statistics.median(v), 3),
                         "unit": TESTS[test], "turns": len(v), "libfabric": p.libfabric}
                        for p, v in values.items() if v]
    finally:
        progress.end()
        for p in pairs:
            p.end()


# --- what was measured ---

def number(v):
    return "%.2f" % v if v < 100 else "%.0f" % v


def libfabric_said(results):
    """What the processes that were measured had loaded."""
    return " and ".join(dict.fromkeys(r["libfabric"] for r in results))


def put_table(args, results, failed):
    names = [p for p in args.providers if any(r["provider"] == p for r in results)]
    rows = [("test", "bytes") + tuple(names)]
    for test, size in dict.fromkeys((r["test"], r["size"]) for r in results):
        by = {r["provider"]: r["value"] for r in results if (r["test"], r["size"]) == (test, size)}
        rows.append(("%s, %s" % (test, TESTS[test]), size) + tuple(number(by[n]) if n in by else "-" for n in names))
    print("between %s%s:" % ("two virtual hosts" if args.between else "two processes of this host",
                             ", " + args.said if args.said else ""))
    if results:
        print("all on libfabric %s (%s)" % (libfabric_said(results), args.libfabric))
        out.table(rows)
    for p, why in failed.items():
        near = "" if p in places.PROVIDERS + STOCK else out.nearest(p, places.PROVIDERS + STOCK)
        print("  %s: not measured: %s%s" % (p, why, near))


def write(file, text):
    try:
        with open(file, "w", encoding="utf-8") as f:
            f.write(text)
    except OSError as e:
        raise out.Refused("%s cannot be written: %s" % (file, e.strerror), 1) from None


def series(args, results, test):
    return {p: [(r["size"], r["value"]) for r in results if (r["test"], r["provider"]) == (test, p) and r["value"] > 0]
            for p in args.providers}


def put_all(args, results, failed):
    if args.json:
        out.put_json(args.json, {"where": "virtual hosts" if args.between else "this host", "conditions": args.said,
                                 "libfabric": {"version": libfabric_said(results), "file": args.libfabric},
                                 "results": results, "failed": failed})
    if args.json != "-":
        put_table(args, results, failed)
    if args.csv:
        rows = ["%(test)s,%(size)d,%(provider)s,%(value)s,%(unit)s,%(turns)d,%(libfabric)s\n" % r for r in results]
        write(args.csv, "test,bytes,provider,value,unit,turns,libfabric\n" + "".join(rows))
    if args.svg:
        where = "%s, %d cores of %s, all on libfabric %s%s" % (
            "two virtual hosts" if args.between else "two processes of one host", os.cpu_count() or 1,
            platform.machine(), libfabric_said(results) or "(nothing was measured)",
            ", " + args.said if args.said else "")
        charts = [("latency", "us, one way", series(args, results, "lat")),
                  ("bandwidth", "MB/s", series(args, results, "bw"))]
        write(args.svg, picture.svg(charts, "softfabric bench: " + where))


# --- the command line ---

def sizes_of(text):
    found = []
    for word in text.split(","):
        m = word.strip().lower().rstrip("b").rstrip("i")
        unit = {"k": 1 << 10, "m": 1 << 20}.get(m[-1:], 1)
        digits = m.rstrip("km")
        if not digits.isdigit() or not 1 <= int(digits) * unit <= LARGEST:
            raise out.Refused("--sizes takes bytes from 1 to 64M, such as 8,4k,1M, not %s" % word)
        found.append(int(digits) * unit)
    return sorted(set(found))


def list_of(text, known, option):
    words = [w.strip() for w in text.split(",") if w.strip()]
    for w in words:
        if known and w not in known:
            raise out.Refused("%s takes %s, not %s%s" % (option, ", ".join(known), w, out.nearest(w, known)))
    if not words:
        raise out.Refused("%s takes names with commas between them" % option)
    return list(dict.fromkeys(words))


def parser():
    ap = out.Parser(prog="softfabric bench", description=__doc__, epilog=EPILOG)
    ap.add_argument("-p", "--providers", metavar="NAMES",
                    help="with commas (ours and stock shm, tcp; between hosts ours and tcp)")
    ap.add_argument("-t", "--tests", metavar="NAMES", default="lat,bw,rate", help="of lat, bw, rate (all)")
    ap.add_argument("-s", "--sizes", metavar="BYTES", help="of messages, with commas, such as 8,4k,1M; rate has 8")
    ap.add_argument("-n", "--turns", type=int, default=7, metavar="N", help="of each provider at each point (7)")
    ap.add_argument("--turn", type=float, default=10, metavar="MS", help="length of a turn (10)")
    ap.add_argument("--hosts", action="store_true", help="between two virtual hosts")
    for kind in ("net", "efa", "cxi", "opx"):
        ap.add_argument("--" + kind, metavar="KEYS", help="keys of SOFTFABRIC_%s" % kind.upper())
    ap.add_argument("--csv", metavar="FILE", help="the table as CSV")
    ap.add_argument("--svg", metavar="FILE", help="a picture")
    ap.add_json("the table")
    ap.add_argument("--between", action="store_true", help=argparse.SUPPRESS)
    return ap


def settle(args):
    """What follows from the options."""
    args.tests = list_of(args.tests, list(TESTS), "--tests")
    stock = ("tcp",) if args.hosts or args.between else STOCK
    args.providers = list_of(args.providers, (), "--providers") if args.providers else places.built() + list(stock)
    for p in args.providers:
        if p in places.PROVIDERS and p not in places.built():
            raise out.Refused("%s is not built: there is no %s" % (p, places.module_file(p)))
        if p == "shm" and (args.hosts or args.between):
            raise out.Refused("shm does not reach another host: leave it out of --providers, or leave out --hosts")
        if not p.replace(";", "").replace("_", "").isalnum():
            raise out.Refused("--providers: %s is no name of a provider" % p)
    args.sizes = {t: sizes_of(args.sizes) for t in ("lat", "bw")} if args.sizes else {}
    args.largest = max(s for t in args.tests for s in args.sizes.get(t, SIZES[t]))
    if not 1 <= args.turns <= 1000 or not 0.1 <= args.turn <= 10000:
        raise out.Refused("--turns takes 1 to 1000, --turn 0.1 to 10000 ms")
    args.turn_s = args.turn / 1e3
    args.said = "; ".join("%s: %s" % (k, getattr(args, k)) for k in ("net", "efa", "cxi", "opx") if getattr(args, k))


def rooms_of(args, env):
    """SOFTFABRIC_* of our providers."""
    args.provider = args.capture = None
    full = run.env_for(args)
    if args.between:
        full["SOFTFABRIC_NET"] = ";".join(k for k in ("if=eth0", full.get("SOFTFABRIC_NET")) if k)
    run.room_check(full, args.hosts or args.between)
    args.rooms = {k: v for k, v in full.items() if k.startswith("SOFTFABRIC_")}
    env.update({k: v for k, v in full.items() if not k.startswith("SOFTFABRIC_")})


def main(argv):
    args = parser().parse_args(argv)
    settle(args)
    places.need_modules()
    for file in (args.csv, args.svg):
        if file:
            write(file, "")  # what cannot be written is said before anything runs
    env = {k: v for k, v in os.environ.items() if k not in ("FI_PROVIDER", "SOFTFABRIC_STATS")}
    rooms_of(args, env)
    if not args.hosts and not args.between:
        run.shm_note(args.rooms)
    if args.hosts:
        run.hosts_check(2)
        again = [places.own, "bench", "--between"] + [a for a in argv if a != "--hosts"]
        return run.among_hosts(2, again, env)
    args.libfabric = ask.newest_libfabric(os.environ)[0]
    env = places.env_with_libfabric(env, args.libfabric)
    results, failed, status = [], {}, 0
    began = time.monotonic()
    try:
        measure(args, env, results, failed)
    except KeyboardInterrupt as e:
        status = getattr(e, "status", 130)
    put_all(args, results, failed)
    if args.json != "-":
        print("%d points in %.1f s%s" % (len(results), time.monotonic() - began, ", interrupted" if status else ""))
    return status or int(not results)
