#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""Where the time of a row of the bench goes: flame.py BUILD PROVIDER local|net TEST SIZE [OUT.svg]
The same of the rounds of a job: flame.py BUILD PROVIDER job ROUNDS PROCESSES [OUT.svg]

Runs one row of bench_ofi, or a job of scale with the adapters' threads, under `perf record` (the clock of the
processor, both ends), keeps what lies below the benchmark's own function, prints the functions that had the most
samples, and draws a flame graph: a box for each function, as wide as its share of the samples, on top of who called it.
Needs perf; the library of a newer libfabric by LD_LIBRARY_PATH. Waiting is polling here, so in rows of one way most of
it is polls that find nothing.
"""
import html
import os
import re
import subprocess
import sys
import tempfile

ROUNDS = 100
HZ = 2999
DEPTH = 16
WIDTH, ROW = 1000, 17  # pixels
LEAST = 0.004  # of all samples; narrower boxes are not drawn
JOB_HZ = 499
BEGIN = ("pair_start",)  # of bench_ofi: what is below it is the row, but for what its two ends open and close
JOB_BEGIN = ("round_run", "part_run", "agent_main")  # of scale, and of an adapter's thread
SETUP = re.compile(r"open|close|getinfo|info_get|probe|exit|fork|fi_fabric|fi_domain|_init|insert|enable")
COLOURS = {"ours": "#e8a33d", "kernel": "#c0583a", "libc": "#8aa8c8", "bench": "#b8b8b8"}


def command(build, prov, suite, test, size):
    build = os.path.abspath(build)
    ofi = os.path.join(build, "tests/perf/bench_ofi")
    places = subprocess.run([ofi, "-t", "place"], capture_output=True, text=True, check=True).stdout.split("\n")
    cpus = next((p.split()[0] for kind in ("near", "far", "smt") for p in places if p.endswith(kind)), "0,1")
    env = ["FI_PROVIDER_PATH=" + os.path.join(build, "src/prov", prov)]
    if suite == "job":
        return ["env"] + env + [os.path.join(build, "tests/perf/scale"), prov, size, test]
    if suite == "net":
        env.append("FI_EFA_ENABLE_SHM_TRANSFER=0" if prov == "efa" else "SOFTFABRIC_NET=udp")
    if prov == "efa" and test.startswith(("put", "get")):
        env.append("FI_EFA_USE_DEVICE_RDMA=1")
    out = [ofi, "-t", test, "-s", size, "-n", str(ROUNDS), "-c", cpus, "-p", prov]
    for e in env:
        out += ["-e", e]
    return out


def kind_of(lib):
    if "kernel" in lib or lib.startswith("[") and "vdso" not in lib:
        return "kernel"
    if "-fi.so" in lib:
        return "ours"
    return "bench" if "bench_ofi" in lib else "libc"


def stacks(text, begin):
    """Lists of (function, kind), the outermost first, of the samples that belong to the row."""
    for block in text.split("\n\n"):
        stack = []
        for line in block.strip().split("\n")[1:]:
            m = re.match(r"\s*[0-9a-f]+ (.*?)(?:\+0x[0-9a-f]+)? \((.*)\)$", line)
            if m:
                name = re.sub(r"\.(lto_priv|constprop|isra|part)\.\d+", "", m.group(1))
                stack.append((name.split("@")[0] if name != "[unknown]" else os.path.basename(m.group(2)),
                              kind_of(m.group(2))))
        stack.reverse()
        at = next((i for i, (name, _) in enumerate(stack) if name.startswith(begin)), None)
        if at is None:
            continue
        stack = [f for f in stack[at + 1:] if not f[0].endswith("_after_hwframe")][:DEPTH]
        if stack and not any(SETUP.search(name) for name, _ in stack[:3]):
            yield stack


def tree_of(samples):
    root = {"n": 0, "own": 0, "kind": "bench", "below": {}}
    for stack in samples:
        node = root
        node["n"] += 1
        for name, kind in stack:
            node = node["below"].setdefault(name, {"n": 0, "own": 0, "kind": kind, "below": {}})
            node["n"] += 1
        node["own"] += 1
    return root


def owns(node, name, into):
    into[name] = into.get(name, 0) + node["own"]
    for below, child in node["below"].items():
        owns(child, below, into)
    return into


def boxes(node, name, left, depth, all_n, out):
    width = node["n"] / all_n
    if width < LEAST:
        return
    out.append((name, node["kind"], left, width, depth))
    for below, child in sorted(node["below"].items()):
        boxes(child, below, left, depth + 1, all_n, out)
        left += child["n"] / all_n


def draw(root, title):
    out = []
    boxes(root, title, 0, 0, root["n"], out)
    high = (1 + max(b[4] for b in out)) * ROW
    lines = ['<svg xmlns="http://www.w3.org/2000/svg" width="%d" height="%d" font-family="sans-serif" font-size="11">'
             % (WIDTH, high)]
    for name, kind, left, width, depth in out:
        x, y, w = left * WIDTH, high - (depth + 1) * ROW, width * WIDTH
        text = name[:max(0, int(w / 6.2))] if w > 24 else ""
        lines.append('<g><title>%s %.1f %%</title><rect x="%.1f" y="%d" width="%.1f" height="%d" fill="%s"/>'
                     '<text x="%.1f" y="%d">%s</text></g>'
                     % (html.escape(name), 100 * width, x, y, max(w - 0.5, 0.5), ROW - 1, COLOURS[kind], x + 2, y + 12,
                        html.escape(text)))
    return "\n".join(lines + ["</svg>"]) + "\n"


def main():
    if len(sys.argv) not in (6, 7):
        sys.exit(__doc__)
    build, prov, suite, test, size = sys.argv[1:6]
    is_job = suite == "job"
    with tempfile.TemporaryDirectory() as tmp:
        data = os.path.join(tmp, "perf.data")
        run = command(build, prov, suite, test, size)
        record = ["perf", "record", "-q", "-o", data, "--call-graph", "dwarf,4096", "-e", "cpu-clock",
                  "-F", str(JOB_HZ if is_job else HZ)] + ["-a"] * is_job
        subprocess.run(record + run, check=True, timeout=200, stdout=subprocess.DEVNULL)
        text = subprocess.run(["perf", "script", "-i", data, "--no-inline"], capture_output=True, text=True, check=True,
                              timeout=300).stdout
    root = tree_of(stacks(text, JOB_BEGIN if is_job else BEGIN))
    if not root["n"]:
        sys.exit("flame: no sample of the row")
    top = sorted(owns(root, "bench", {}).items(), key=lambda kv: -kv[1])[:8]
    said = ", ".join("%s %.0f" % (name, 100 * n / root["n"]) for name, n in top)
    print("%s %s %s %s, %d samples, %%: %s" % (prov, suite, test, size, root["n"], said))
    if len(sys.argv) == 7:
        with open(sys.argv[6], "w", encoding="utf-8") as fh:
            fh.write(draw(root, "%s %s %s %s" % (prov, suite, test, size)))


if __name__ == "__main__":
    main()
