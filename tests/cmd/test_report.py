#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""The table of the bench (tests/perf/report.py) of figures that never change: which goals it says are reached."""
import os
import subprocess
import sys
import tempfile

REPORT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../perf/report.py")

# suite,test,size,depth,place,provider,rounds,value,ratio to the last
CSV = """\
version,libfabric,2.6.0,/lib
local,lat,8,0,near,efa,20,100,0.5
local,lat,8,0,near,cxi,20,140,0.7
local,lat,8,0,near,shm,20,200,1
local,lat,8,0,near,ucx,5,180,0
local,lat,8,0,near,raw,20,70,0
local,lat,8,0,near,efa,3,190,0.95
local,lat,8,0,near,shm,3,200,1
local,lat,8,0,far,efa,3,190,0.5
local,bw,1048576,0,near,efa,20,20e9,2.5
local,bw,1048576,0,near,cxi,20,20e9,2.5
local,bw,1048576,0,near,shm,20,8e9,1
local,bw_busy,1048576,0,near,efa,20,16e9,2.5
local,bw_busy,1048576,0,near,cxi,20,15e9,2.4
local,bw_busy,1048576,0,near,shm,20,6e9,1
local,bw_busy,1048576,0,far,efa,20,1e9,1
net,bw_busy,1048576,0,near,efa,20,1e9,1
idle,put_idle,8,0,near,cxi,20,5000,1
idle,put_idle,8,0,near,efa,20,5001,1
loss1,bw,1048576,0,near,efa,20,7e8,0.7
loss1,bw,1048576,0,near,efa,20,1e9,1
loss1,bw,1048576,0,near,cxi,20,1e9,1
count,instructions,inject,8,efa,700.0
count,instructions,inject,8,cxi,901.0
count,instructions,inject,8,opx,701.0
count,instructions,inject,8,shm,1400
count,instructions,send,8,efa,851
count,instructions,send,8,cxi,1050
count,instructions,send,8,opx,850
count,instructions,idle,8,efa,40
count,instructions,idle,8,cxi,41
count,instructions,inject/100000,8,efa,770
count,instructions,inject/100000,8,cxi,992
count,syscalls,inject,8,efa,0.000
count,allocations,inject,8,efa,0.2
scale,efa,2,message_cpu_ns,100
scale,efa,8,message_cpu_ns,700
scale,efa,64,message_cpu_ns,770
scale,cxi,8,message_cpu_ns,700
scale,cxi,64,message_cpu_ns,1401
scale,efa,8,peer_bytes,35840
scale,efa,64,peer_bytes,0
scale,efa,8,start_ms,200
scale,efa,64,start_ms,3200
scale,cxi,8,start_ms,200
scale,cxi,64,start_ms,3201
memory,efa,known_peer,100000,100
memory,cxi,known_peer,100000,101
"""

# Beginning of a row, and what must stand in it. Words are compared, so that widths of columns are nobody's business.
WANT = [
    ("local lat 8 B near efa", "ucx 180 ns 0.556 <= 0.6 reached 70 ns"),
    ("local lat 8 B near cxi", "0.778 <= 0.6 MISSED"),
    ("local bw 1 MiB near efa", "2.500 >= 2 reached"),
    ("local bw_busy 1 MiB, of its bw near efa", "16.00 GB/s bw 20.00 GB/s 0.800 >= 0.8 reached"),
    ("local bw_busy 1 MiB, of its bw near cxi", "0.750 >= 0.8 MISSED"),
    ("put 8 B, target idle near cxi", "<= 5 us reached"),
    ("put 8 B, target idle near efa", "<= 5 us MISSED"),
    ("net bw 1 MiB, 1 % loss near efa", ">= 0.7 reached"),
    ("instructions per inject 8 B efa", "<= 700 reached"),
    ("instructions per inject 8 B cxi", "<= 900 MISSED"),
    ("instructions per inject 8 B opx", "<= 700 MISSED"),
    ("instructions per send 8 B efa", "<= 850 MISSED"),
    ("instructions per send 8 B cxi", "<= 1050 reached"),
    ("instructions per send 8 B opx", "<= 850 reached"),
    ("instructions per idle poll efa", "<= 40 reached"),
    ("instructions per idle poll cxi", "<= 40 MISSED"),
    ("instructions per inject, 100000 peers known efa", "770.0 one known 700.0 1.100 <= 1.1 reached"),
    ("instructions per inject, 100000 peers known cxi", "1.101 <= 1.1 MISSED"),
    ("syscalls per inject 8 B efa", "<= 0 reached"),
    ("allocations per inject 8 B efa", "<= 0 MISSED"),
    ("memory per known peer (100000) efa", "<= 100 B reached"),
    ("memory per known peer (100000) cxi", "<= 100 B MISSED"),
]
# Nothing to compare with, or half of a comparison.
NOT = ["local bw_busy 1 MiB, of its bw near shm", "local bw_busy 1 MiB, of its bw far", "net bw_busy 1 MiB, of its bw",
       "net bw 1 MiB, 1 % loss near cxi"]
# What is plotted: blocks of a name and its points.
PLOTS = {
    "latency": "".join('"%s, near"\n8 %g\n\n\n' % at for at in (
        ("efa", 0.1), ("cxi", 0.14), ("shm", 0.2), ("ucx", 0.18), ("raw", 0.07))),
    "scale": '"efa"\n2 0.1\n8 0.7\n64 0.77\n\n\n"cxi"\n8 0.7\n64 1.401\n\n\n',
    "scale_memory": '"efa"\n8 35\n\n\n',
    "scale_start": '"efa"\n8 0.2\n64 3.2\n\n\n"cxi"\n8 0.2\n64 3.201\n\n\n',
}


def plots_check(folder):
    failed = 0
    for name, want in PLOTS.items():
        with open("%s/%s.dat" % (folder, name), encoding="utf-8") as f:
            got = f.read()
        if got != want:
            print("%s.dat: %r" % (name, got))
            failed = 1
    return failed


def main():
    with tempfile.TemporaryDirectory() as folder:
        with open(folder + "/bench.csv", "w", encoding="utf-8") as f:
            f.write(CSV)
        command = [sys.executable, REPORT, folder + "/bench.csv", folder]
        p = subprocess.run(command, capture_output=True, text=True, check=False)
        failed = plots_check(folder)
    if p.returncode or p.stderr:
        print("exit %d: %s" % (p.returncode, p.stderr))
        failed = 1
    rows = [" ".join(l.split()) for l in p.stdout.split("\n")]
    for head, tail in WANT:
        found = [r for r in rows if r.startswith(head + " ")]
        if len(found) != 1 or tail not in found[0]:
            print("want: %s ... %s\ngot: %s" % (head, tail, found))
            failed = 1
    if [r for r in rows if r.startswith("<= 2x")] != ["<= 2x reached MISSED", "<= 2x -", "<= 2x reached MISSED"]:
        print("verdicts of growing jobs: %s" % [r for r in rows if r.startswith("<= 2x")])
        failed = 1
    for head in NOT:
        if any(r.startswith(head) for r in rows):
            print("without reason: " + head)
            failed = 1
    if failed:
        print(p.stdout)
    return failed


if __name__ == "__main__":
    sys.exit(main())
