#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""Table of bench.sh: report.py CSV FOLDER. A row for each of our providers, and for others: its value, that of the best
of those that it is measured by, their ratio, the goal, and what the machine permits without any protocol.

Writes latency.dat, bandwidth.dat and three of scale for plot.gp into FOLDER. Lower is better for lat, put and counts,
higher for bw and rate.
"""
import statistics
import sys

OURS = ("efa", "cxi", "opx")
# What ours are measured by: the best of these. Others are rows of their own.
MEASURES = {"local": ("shm", "ucx"), "net": ("tcp",), "wake": ("tcp",)}

# (suite, test, size): bound of the ratio, near and far
GOALS = {
    ("local", "lat", 8): 0.6, ("local", "lat", 64): 0.55, ("local", "lat", 1024): 0.7, ("local", "lat", 4096): 0.7,
    ("local", "lat", 16384): 0.65, ("local", "lat", 65536): 0.8, ("local", "lat", 1048576): 0.55,
    ("local", "lat", 4194304): 0.55, ("local", "rate", 8): 2.5, ("local", "bw", 1024): 1.5,
    ("local", "bw", 16384): 1.5, ("local", "bw", 65536): 1.5, ("local", "bw", 1048576): 2,
    ("net", "lat", 8): 0.75, ("net", "lat", 16384): 0.8, ("net", "lat", 65536): 0.75, ("net", "lat", 1048576): 0.9,
    ("net", "bw", 65536): 1.3, ("net", "bw", 1048576): 1.1, ("net", "rate", 8): 15,
    ("wake", "wake_cntr", 8): 1.5, ("wake", "wake_cq", 8): 1.5, ("wake", "wake_fd", 8): 1.5,
}
GOAL_SAME = 0.001
GOAL_LOSS = 0.7
# Of its own bandwidth, what a program keeps that computes for 100 us behind each poll.
GOAL_BUSY = 0.8
IDLE_PUT_NS = 5000
DEPTH_NS = {1000: 40, 10000: 100}
# (what, mode): at most so many per message; of one poll for "idle"
COUNTS = {("instructions", "idle"): 40, ("syscalls", "inject"): 0, ("allocations", "inject"): 0,
          ("allocations", "send"): 0}
COUNTS_OF = {("instructions", "inject"): {"efa": 700, "cxi": 900, "opx": 700},
             ("instructions", "send"): {"efa": 850, "cxi": 1050, "opx": 850}}
# Nothing grows faster than its work. A message costs the same, however many peers are known: counts of idle polls,
# which look at the clock, repeat to some hundredths. So does it, and a peer, however many processes the job has, and
# start-up grows with their number: within a factor, for many processes on few processors are all in each other's way.
KNOWN_MORE, JOB_MORE = 1.1, 2
EVENT_NS = 1000000
MEMORY = {"known_peer": 100}


def human(test, value):
    if test.startswith("bw"):
        return "%.2f GB/s" % (value / 1e9)
    if test == "rate":
        return "%.2f M/s" % (value / 1e6)
    return "%.1f us" % (value / 1e3) if value >= 10000 else "%.0f ns" % value


def size_name(n):
    return "%d MiB" % (n >> 20) if n >= 1 << 20 else "%d KiB" % (n >> 10) if n >= 1024 else "%d B" % n


def verdict(ok):
    return "reached" if ok else "MISSED"


def line(what, place, prov, ours, stock, ratio, goal, ok, raw=""):
    said = "" if ok is None else verdict(ok)
    text = "%-38s %-5s %-11s %12s %24s %9s %10s  %-7s  %12s" % (what, place, prov, ours, stock, ratio, goal, said, raw)
    print(text.rstrip())


def grouped(rows, *keys):
    groups = {}
    for r in rows:
        groups.setdefault(tuple(r[k] for k in keys), []).append(r)
    return groups.items()


def measure_of(suite, g, is_high):
    """The best of those that ours are measured by. Who took turns of its own (UCX) gets a ratio to who took ours'."""
    base = next((r for r in reversed(g) if r["prov"] in ("shm", "tcp")), None)
    for r in g:
        if not r["ratio"] and base:
            r["ratio"] = base["ratio"] * r["value"] / base["value"]
    known = [r for r in g if r["prov"] in MEASURES[suite] and r["ratio"]]
    return (max if is_high else min)(known, key=lambda r: r["ratio"], default=None)


def once(rows):
    """A row that was measured for near and for far processors may have met the other kind as well: that run counts
    which stayed there for most rounds."""
    best = {}
    for r in rows:
        key = tuple(r[k] for k in ("suite", "test", "size", "depth", "place", "prov"))
        if key not in best or r["rounds"] > best[key]["rounds"]:
            best[key] = r
    return list(best.values())


def compare_rows(rows):
    """Rows of bench_ofi and of UCX, and what the machine permits."""
    for (suite, test, size, place), g in grouped(rows, "suite", "test", "size", "place"):
        is_high = test in ("bw", "bw_busy", "rate")
        raw = next((human(test, r["value"]) for r in g if r["prov"] == "raw"), "")
        g = [r for r in g if r["prov"] != "raw"]
        best = measure_of(suite, g, is_high)
        for r in g:
            ratio = r["ratio"] / best["ratio"] if best and r["ratio"] else None
            goal = GOAL_SAME if place == "same" else GOALS.get((suite, test, size))
            if r is best or r["prov"] not in OURS or ratio is None:
                goal = None
            line("%s %s %s" % (suite, test, size_name(size)), place, r["prov"], human(test, r["value"]),
                 "%s %s" % (best["prov"], human(test, best["value"])) if best else "",
                 "" if ratio is None else "%.3f" % ratio,
                 "-" if goal is None else "%s %g" % (">=" if is_high else "<=", goal),
                 None if goal is None else ratio >= goal if is_high else ratio <= goal, raw)


def busy_rows(rows):
    """bw_busy of ours beside bw of the same provider, size and place: what is left when the program computes."""
    keys = ("suite", "size", "place", "prov")
    idle = {tuple(r[k] for k in keys): r["value"] for r in rows if r["test"] == "bw" and r["prov"] in OURS}
    for r in rows:
        bw = idle.get(tuple(r[k] for k in keys))
        if r["test"] == "bw_busy" and bw:
            title = "%s bw_busy %s, of its bw" % (r["suite"], size_name(r["size"]))
            line(title, r["place"], r["prov"], human("bw", r["value"]), "bw " + human("bw", bw),
                 "%.3f" % (r["value"] / bw), ">= %g" % GOAL_BUSY, r["value"] / bw >= GOAL_BUSY)


def special_rows(rows):
    for r in rows:
        if r["suite"] == "idle":
            line("put %s, target idle" % size_name(r["size"]), r["place"], r["prov"], human("put", r["value"]), "", "",
                 "<= %g us" % (IDLE_PUT_NS / 1e3), r["value"] <= IDLE_PUT_NS)
    lossy = [r for r in rows if r["suite"].startswith("loss")]
    for (suite, prov, place), g in grouped(lossy, "suite", "prov", "place"):
        if len(g) != 2:
            continue  # one of the two did not work, and is named among what was not measured
        (bad, good), percent = g, int(suite[4:])
        ok = bad["ratio"] >= GOAL_LOSS if percent == 1 else None
        line("net bw 1 MiB, %d %% loss" % percent, place, prov, human("bw", bad["value"]),
             "lossless " + human("bw", good["value"]), "%.3f" % bad["ratio"],
             "-" if ok is None else ">= %g" % GOAL_LOSS, ok)


def seal_rows(rows):
    """Datagrams sealed, or encrypted as well, beside those in clear."""
    for (suite, test, size, prov, place), g in grouped((r for r in rows if r["suite"] in ("seal", "secret")),
                                                       "suite", "test", "size", "prov", "place"):
        if len(g) != 2:
            continue
        sealed, clear = g
        line("net %s %s, %s" % (test, size_name(size), "sealed" if suite == "seal" else "secret"), place, prov,
             human(test, sealed["value"]), "in clear " + human(test, clear["value"]), "%.3f" % sealed["ratio"], "-",
             None)


def depth_rows(rows):
    """Suites KIND/VARIANT: posted receives or unexpected messages in front of the ones that count; the last row has
    none."""
    rows = (r for r in rows if "/" in r["suite"])
    for (suite, test, prov, place), g in grouped(rows, "suite", "test", "prov", "place"):
        kind, variant = suite.split("/")
        for r in g[:-1]:
            more = r["value"] - g[-1]["value"]
            goal = DEPTH_NS.get(r["depth"]) if kind == "posted" and test == "lat" and prov in OURS else None
            line("%s, %d %s%s" % (test, r["depth"], kind, variant and ", " + variant), place, prov,
                 human(test, r["value"]),
                 "none %s" % human(test, g[-1]["value"]), "%+.0f ns" % more if test == "lat" else "%.3f" % r["ratio"],
                 "-" if goal is None else "<= +%d ns" % goal, None if goal is None else more <= goal)


def known_rows(what, mode, few, many):
    """Counts with many known peers beside those with one."""
    for prov in (p for p in OURS if p in many and few.get(p)):
        ratio = many[prov] / few[prov]
        line("%s per %s, %s peers known" % (what, mode[0], mode[1]), "", prov, "%.1f" % many[prov],
             "one known %.1f" % few[prov], "%.3f" % ratio, "<= %g" % KNOWN_MORE, ratio <= KNOWN_MORE)


def count_rows(lines):
    counts = {}
    for what, mode, size, prov, value in (l[1:] for l in lines if l[0] == "count"):
        counts.setdefault((what, mode, size), {})[prov] = float(value)
    for (what, mode, size), by in counts.items():
        if "/" in mode:
            known_rows(what, mode.split("/"), counts.get((what, mode.split("/")[0], size), {}), by)
            continue
        others = " ".join("%s %.0f" % (p.split(";")[-1], abs(v)) for p, v in by.items() if p not in OURS)
        title = "%s per idle poll" % what if mode == "idle" else "%s per %s %s" % (what, mode, size_name(int(size)))
        for prov in (p for p in OURS if p in by):
            goal = COUNTS_OF.get((what, mode), {}).get(prov, COUNTS.get((what, mode)))
            line(title, "", prov, "%.1f" % abs(by[prov]), others, "",
                 "-" if goal is None else "<= %d" % goal, None if goal is None else by[prov] <= goal + 0.05)
    for prov, what, count, value in (l[1:] for l in lines if l[0] == "memory"):
        goal = MEMORY.get(what)
        line("memory per %s (%s)" % (what.replace("_", " "), count), "", prov, "%.0f B" % float(value), "", "",
             "-" if goal is None else "<= %d B" % goal, None if goal is None else float(value) <= goal)
    barrier = {}
    for _, ranks, prov, us in (l[1:] for l in lines if l[0] == "mpi" and l[-1]):
        barrier.setdefault(prov, []).append(float(us))
    stock = statistics.median(barrier.get("ompi-vader", [0]))
    for prov in (p for p in OURS if p in barrier and stock):
        ours = statistics.median(barrier[prov])
        line("MPI barrier, 16 ranks on 2 cores", "", prov, "%.0f us" % ours, "Open MPI's vader %.0f us" % stock,
             "%.3f" % (ours / stock), "-", None)


def flood_rows(lines):
    """hello_flood: one line per rate, names and values in turn."""
    for l in (l for l in lines if l[0] == "flood"):
        v = dict(zip(l[2::2], map(int, l[3::2])))
        line("HELLO flood, %s/s" % l[1], "", "link", "connect %d us (max %d)" % (v["connect_us"], v["connect_max_us"]),
             "poll gap %d us, close %d ms" % (v["gap_us"], v["close_ms"]), "", "all connect",
             v["connects"] > 0 and not v["failed"])


def beset_rows(lines):
    """beset: what ten attackers leave of an honest pair's rate, and what of that if they send to a closed port."""
    for l in (l for l in lines if l[:2] == ["beset", "left"]):
        rate = "full speed" if l[2] == "0" else "%s/s each" % l[2]
        left, closed = "%s of frames, %s of reads" % (l[4], l[5]), "beside a closed port: " + l[7]
        line("ten attackers, " + rate, "", "link", left, closed, l[7], ">= 0.5", float(l[7]) >= 0.5)


def verbs_rows(lines):
    """verbs_wake: ibv_get_cq_event() has returned so long after the completion; all but one of a hundred count."""
    for what, room, median, most, longest in (l[1:] for l in lines if l[0] == "verbs"):
        most = float(most)
        line("ibv_get_cq_event, %s, by %s" % (what, room), "", "efa", human("wake", float(median)),
             "99 %% in %s" % human("wake", most), "max " + human("wake", float(longest)), "<= 1 ms", most <= EVENT_NS)


def scale_by(lines):
    """{what: {provider: {processes: value}}} of the program scale."""
    by = {}
    for prov, procs, what, value in (l[1:] for l in lines if l[0] == "scale"):
        by.setdefault(what, {}).setdefault(prov, {})[int(procs)] = float(value)
    return by


def job_verdict(what, values):
    """Has the largest job at most JOB_MORE times what one of eight has? Start-up is work for each peer."""
    counts = sorted(n for n in values if n >= 8 and values[n] > 0)
    if len(counts) < 2 or what == "idle_poll_ns":
        return "-"
    work = counts[-1] / counts[0] if what.startswith("start") else 1
    return verdict(values[counts[-1]] / values[counts[0]] <= JOB_MORE * work)


def scale_rows(lines, folder):
    """One table per figure, a row per number of processes, and last how much the largest number has of the smallest."""
    by = scale_by(lines)
    for what, title in (("message_cpu_ns", "processor time per message, ns"),
                        ("idle_poll_ns", "processor time per idle poll, ns"),
                        ("peer_bytes", "memory per peer, bytes"), ("start_ms", "start-up, ms"),
                        ("start_cpu_ms", "processor time of start-up per process, ms")):
        provs = by.get(what, {})
        if not provs:
            continue
        print("\njob of 2 and more processes: " + title)
        print("%9s" % "processes" + "".join("%12s" % p for p in provs))
        for n in sorted({n for values in provs.values() for n in values}):
            print("%9d" % n
                  + "".join("%12s" % ("%.4g" % values[n] if n in values else "") for values in provs.values()))
        print("%9s" % "growth"
              + "".join("%12s" % ("%.2f" % (v[max(v)] / v[min(v)]) if v[min(v)] else "") for v in provs.values()))
        print("%9s" % "<= %gx" % JOB_MORE + "".join("%12s" % job_verdict(what, v) for v in provs.values()))
    for name, what, unit in (("scale", "message_cpu_ns", 1e3), ("scale_memory", "peer_bytes", 1024),
                             ("scale_start", "start_ms", 1e3)):
        with open("%s/%s.dat" % (folder, name), "w") as f:
            for prov, values in by.get(what, {}).items():
                points = "".join("%d %g\n" % (n, values[n] / unit) for n in sorted(values) if values[n] > 0)
                f.write('"%s"\n%s\n\n' % (prov, points) if points else "")


def plots_write(rows, folder):
    """One line is one kind of place: of near and far the one that has more sizes. The scales are logarithmic."""
    for test, name, scale in (("lat", "latency", 1e-3), ("bw", "bandwidth", 1e-9)):
        with open("%s/%s.dat" % (folder, name), "w") as f:
            for suite, stock in (("local", "shm"), ("net", "tcp")):
                here = [r for r in rows if (r["suite"], r["test"]) == (suite, test) and r["value"] > 0]
                place = max(("near", "far", "smt"), key=lambda at: len({r["size"] for r in here if r["place"] == at}))
                for prov in OURS + (stock, "ucx", "raw"):
                    mine = [r for r in here if (r["prov"], r["place"]) == (prov, place)]
                    points = sorted((r["size"], r["value"] * scale) for r in mine)
                    if points:
                        f.write('"%s, %s%s"\n' % (prov, "" if suite == "local" else "net, ", place))
                        f.write("".join("%d %g\n" % p for p in points) + "\n\n")


def main():
    lines = [l.strip().split(",") for l in open(sys.argv[1]) if l.strip()]
    keys = ("suite", "test", "size", "depth", "place", "prov", "rounds", "value", "ratio")
    kinds = (str, str, int, int, str, str, int, float, float)
    other = ("count", "memory", "mpi", "flood", "beset", "verbs", "version", "scale")
    rows = [dict(zip(keys, (k(v) for k, v in zip(kinds, l)))) for l in lines if l[0] not in other]
    twice = [r for r in rows if r["suite"] in ("local", "net")]
    rows = once(twice) + [r for r in rows if r not in twice]
    said = {l[1]: l for l in lines if l[0] == "version"}
    if "libfabric" in said:
        print("ours and stock providers on libfabric %s (%s)%s"
              % (said["libfabric"][2], said["libfabric"][3], "; UCX %s" % said["ucx"][2] if "ucx" in said else ""))
    print("local rows are measured by the better of shm and UCX, net and wake by tcp")
    line("what", "cores", "", "value", "measured by", "ratio", "goal", None, "raw limit")
    compare_rows([r for r in rows if r["suite"] in ("local", "net", "wake")])
    busy_rows([r for r in rows if r["suite"] in ("local", "net")])
    verbs_rows(lines)
    special_rows(rows)
    seal_rows(rows)
    depth_rows(rows)
    count_rows(lines)
    flood_rows(lines)
    beset_rows(lines)
    scale_rows(lines, sys.argv[2])
    plots_write(rows, sys.argv[2])


main()
