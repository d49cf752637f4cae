#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""A job of two ranks for the tests of what an end leaves: sides.py PROVIDER HOW UP, run by softfabric run.

The ranks, on the first and the last of the virtual hosts if there are some, stream to each other until their live files
tell of it; then UP is made, and they end, HOW: `wait` for a signal, which is passed on as an mpirun does; `kill` or
`abort` of one of them by a signal of this name; `exit` without closing anything; `close` as they should.
"""
import glob
import os
import re
import signal
import subprocess
import sys
import time

OPS, BYTES, LIMIT_S = 1024, 4096, 60


def told(pid):
    """Frames that the live file of a rank tells of, in or out."""
    # a reader that meets a file before its owner has locked it takes it for one of the dead: then the next number is it
    most = 0
    for name in glob.glob(os.path.join(os.environ["SOFTFABRIC_LIVE"], "softfabric-live.%d.*" % pid)):
        try:
            with open(name, encoding="ascii") as f:
                most = max([most] + [int(n) for n in re.findall(r" [rt]x_frames=(\d+)", f.read())])
        except OSError:
            pass
    return most


def main():
    provider, how, up = sys.argv[1:]
    side = os.environ["SIDE"]
    hosts = os.environ.get("SOFTFABRIC_HOSTS", "").split(",")
    on = [["softfabric-on", h, "exec"] if h else [] for h in (hosts[0], hosts[-1])]
    ranks = [subprocess.Popen([*words, side, provider, "-", str(BYTES)], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                              text=True, bufsize=1) for words in on]

    def pass_on(sig, _frame):
        for r in ranks:
            r.send_signal(sig)
        for r in ranks:
            r.wait()
        os._exit(1)

    for s in (signal.SIGINT, signal.SIGTERM):
        signal.signal(s, pass_on)
    names = [r.stdout.readline().split()[1] for r in ranks]
    for r, name in zip(ranks, reversed(names)):
        r.stdin.write("peer %s\n" % name)
    for r in ranks:
        r.stdout.readline()
    for me, r in enumerate(ranks):
        r.stdin.write("stream %d %d %d\n" % (BYTES, OPS, me))
    for r in ranks:
        r.stdout.readline()
    until = time.monotonic() + LIMIT_S
    while how != "close" and min(told(r.pid) for r in ranks) < OPS and time.monotonic() < until:
        time.sleep(0.02)
    with open(up, "w", encoding="ascii"):
        pass
    if how == "wait":
        while True:
            signal.pause()
    for r in ranks:
        if how in ("kill", "abort"):
            r.send_signal({"kill": signal.SIGKILL, "abort": signal.SIGABRT}[how])
        elif how == "exit":
            r.stdin.write("nonsense 1 1 1\n")
    for r in ranks:
        r.stdin.close()
        r.wait()


main()
