# SPDX-License-Identifier: BSD-2-Clause
"""The lines that SOFTFABRIC_STATS asked for, summed by host and adapter, and what they say to a reader."""
import glob
import re

from . import out

# What the adapters call these: efa's names, cassini's, hfi1's.
OPS = ("send_wrs", "rdma_read_wrs", "rdma_write_wrs", "cq_success_tx_cntr", "pio_pkts", "sdma_reqs")
SENT = ("tx_bytes", "soft_tx_bytes", "port_xmit_data", "copy_put_bytes")
RECEIVED = ("rx_bytes", "rdma_write_recv_bytes", "soft_rx_bytes", "port_rcv_data", "copy_get_bytes")
REPEATED = ("retrans_pkts", "soft_net_retrans", "rel_replays")
LOCAL = ("shm_tx_pkts", "soft_shm_tx_pkts")
NET = ("net_tx_pkts", "soft_net_tx_pkts")
# Classes of what a reader wants to know if it is not 0; the first that matches.
CLASSES = (
    ("faults injected", r"(soft_)?fault_"),
    ("receiver not ready, flow control", r"rnr_naks_|soft_pte_disabled|soft_pt_disabled_naks|lpe_err_pt_disabled_|soft_le_exhausted|"
                                         r"soft_lossless_pauses|credit_waits|rel_throttled|rel_nacks_"),
    ("dropped or refused", r".*(drop|malformed|violation|err_|_err|no_ptlte|invld_vni|bad_|unreachable|stale|refused)"),
    ("peers lost", r"unresponsive_remote_events|impaired_remote_conn_events|soft_peers_dead|rel_peers_dead"),
    ("repeats", r"retrans_|soft_net_retrans|rel_replays|.*_dups$|rel_pings_"),
    ("protocols", r"tx_(inject|eager|mp|rzv|rzv_local|bounce|expected)$|soft_(put|get|rendezvous_put|atomic|fetching_atomic|triggered)_cmds|"
                  r"send_wrs|rdma_(read|write)_wrs|sdma_reqs|pio_pkts"),
)


def read(prefix):
    """[{host, adapter, processes, counters}], by host and adapter. What opx counts of its protocols is with its adapter."""
    got, pids = {}, {}
    for path in sorted(glob.glob(prefix + ".*")):
        with open(path, encoding="utf-8", errors="replace") as f:
            for line in f:
                head = re.match(r"softfabric-stats: adapter=(\S+) pid=(\d+) host=(\S*)", line)
                if not head:
                    continue
                name, pid, host = head.groups()
                name = "hfi1_0" if name == "opx" else name
                have = got.setdefault((host, name), {})
                pids.setdefault((host, name), set()).add(pid)
                for k, v in re.findall(r" (\w+)=(\d+)(?=\s|$)", line[head.end():]):
                    have[k] = have.get(k, 0) + int(v)
    return [{"host": h, "adapter": a, "processes": len(pids[h, a]), "counters": c} for (h, a), c in sorted(got.items())]


def total(counters, names):
    return sum(counters.get(n, 0) for n in names)


def classes(counters):
    """{class: {counter: value}} of those that are not 0."""
    said = {}
    for name, value in counters.items():
        for title, pattern in CLASSES:
            if value and re.match(pattern, name):
                said.setdefault(title, {})[name] = value
                break
    return {t: said[t] for t, _ in CLASSES if t in said}


def summary(adapters):
    """For --json: the adapters with what the table says of them."""
    return [{**a, "operations": total(a["counters"], OPS), "sent_bytes": total(a["counters"], SENT),
             "received_bytes": total(a["counters"], RECEIVED), "repeated": total(a["counters"], REPEATED),
             "by_class": classes(a["counters"])} for a in adapters]


def put(adapters, file):
    rows = [("host", "adapter", "processes", "operations", "sent", "received", "local pkts", "net pkts", "repeated")]
    rows += [(a["host"], a["adapter"], a["processes"], a["operations"], out.amount(a["sent_bytes"]), out.amount(a["received_bytes"]),
              total(a["counters"], LOCAL), total(a["counters"], NET), a["repeated"]) for a in adapters]
    out.table(rows, file)
    sums = {}
    for a in adapters:
        for title, cs in a["by_class"].items():
            for name, value in cs.items():
                sums.setdefault(title, {})[name] = sums.get(title, {}).get(name, 0) + value
    for title, _ in CLASSES:
        if title in sums:
            print("  %s: %s" % (title, ", ".join("%s %d" % c for c in sums[title].items())), file=file)
