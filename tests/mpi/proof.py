#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""Proof that the soft adapters carried an MPI program: its payload, rank by rank, against their byte counters.

proof.py OUTPUT STATS_PREFIX [shm|net|any] [retrans]
OUTPUT: what the program printed ("payload: rank= pid= tx= rx=" lines); STATS_PREFIX: the SOFTFABRIC_STATS of the run.
shm, net: the path that must have carried all packets. retrans: packets must have been repeated, so that loss was real.
"""
import glob
import re
import sys


# What the adapters call these counters: efa's names, cassini's, hfi1's. Payload that left, that arrived, packets
# repeated, packets by path. Headers of hfi1 count, since they carry the shortest messages; its reliability is the
# provider's, which reports the repeated packets.
NAMES = {
    "tx_bytes": ["tx_bytes", "rdma_read_bytes", "soft_tx_bytes", "port_xmit_data", "copy_get_bytes", "copy_put_bytes"],
    "rx_bytes": ["rx_bytes", "rdma_write_recv_bytes", "soft_rx_bytes", "port_rcv_data", "copy_get_bytes"],
    "repeated": ["retrans_pkts", "soft_net_retrans", "rel_replays"],
    "shm": ["shm_tx_pkts", "soft_shm_tx_pkts"],
    "net": ["net_tx_pkts", "soft_net_tx_pkts"],
}


def counter(adapter, what):
    return sum(adapter.get(name, 0) for name in NAMES[what])


def fields(line):
    return {k: int(v) for k, v in re.findall(r"(\w+)=(\d+)(?:\s|$)", line)}


def adapters(prefix):
    """Counters by process id, summed over the adapters of the process."""
    out = {}
    for path in glob.glob(prefix + ".*"):
        for line in open(path):
            f = fields(line)
            have = out.setdefault(f.pop("pid"), {})
            for k, v in f.items():
                have[k] = have.get(k, 0) + v
    return out


def main():
    path = sys.argv[3] if len(sys.argv) > 3 else "any"
    must_retrans = "retrans" in sys.argv[4:]
    ranks = [fields(l) for l in open(sys.argv[1], errors="replace") if l.startswith("payload: ")]
    nics = adapters(sys.argv[2])
    wrong = [] if ranks else ["no rank reported its payload"]
    print("  rank  payload received   adapter received     sent  repeated   shm pkts   net pkts   MB")
    sent = carried = retrans = 0
    for r in sorted(ranks, key=lambda r: r["rank"]):
        n = nics.get(r["pid"])
        if n is None:
            wrong.append("rank %d: no adapter was used" % r["rank"])
            continue
        # Data that this rank's adapter sent, and data that it fetched from others: together every byte once.
        sent += r["tx"]
        carried += counter(n, "tx_bytes")
        retrans += counter(n, "repeated")
        rx, tx, shm, net = (counter(n, what) for what in ("rx_bytes", "tx_bytes", "shm", "net"))
        print("  %4d %17.1f %18.1f %8.1f %9d %10d %10d"
              % (r["rank"], r["rx"] / 1e6, rx / 1e6, tx / 1e6, counter(n, "repeated"), shm, net))
        if rx < r["rx"]:
            wrong.append("rank %d received %d bytes, its adapter only %d" % (r["rank"], r["rx"], rx))
        if path == "shm" and net or path == "net" and shm:
            wrong.append("rank %d used another path than %s" % (r["rank"], path))
        if path == "shm" and not shm or path == "net" and not net:
            wrong.append("rank %d never used path %s" % (r["rank"], path))
    if carried < sent:
        wrong.append("the ranks sent %d bytes, their adapters only %d" % (sent, carried))
    if must_retrans and not retrans:
        wrong.append("no packet was repeated: the network lost nothing")
    for w in wrong:
        print("  wrong: " + w)
    return 1 if wrong else 0


sys.exit(main())
