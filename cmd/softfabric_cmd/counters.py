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
PORTS_MOST = 16  # as text
LOCAL = ("shm_tx_pkts", "soft_shm_tx_pkts")
NET = ("net_tx_pkts", "soft_net_tx_pkts")
# Classes of what a reader wants to know if it is not 0; the first that matches.
CLASSES = (
    ("faults injected", r"(soft_)?fault_"),
    ("receiver not ready, flow control",
     r"rnr_naks_|soft_pte_disabled|soft_pt_disabled_naks|lpe_err_pt_disabled_|soft_le_exhausted|"
     r"soft_lossless_pauses|credit_waits|rel_throttled|rel_nacks_"),
    ("dropped or refused", r".*(drop|malformed|violation|err_|_err|no_ptlte|invld_vni|bad_|unreachable|stale|refused)"),
    ("peers lost", r"unresponsive_remote_events|impaired_remote_conn_events|soft_peers_dead|rel_peers_dead"),
    ("repeats", r"retrans_|soft_net_retrans|rel_replays|.*_dups$|rel_pings_"),
    ("protocols",
     r"tx_(inject|eager|mp|rzv|rzv_local|bounce|expected)$|"
     r"soft_(put|get|rendezvous_put|atomic|fetching_atomic|triggered)_cmds|"
     r"send_wrs|rdma_(read|write)_wrs|sdma_reqs|pio_pkts"),
)


LINE = re.compile(r"softfabric-(stats|port): adapter=(\S+) pid=(\d+) host=(\S*)")


def add(have, more):
    for k, v in more.items():
        have[k] = have.get(k, 0) + v


def read(prefix, watch):
    """[{host, adapter, processes, killed, counters, ports}], by host and adapter. What opx counts of its protocols is
    with its adapter. Of processes that did not close theirs there is what @watch, a live.Watch, saw last."""
    got, reported = {}, set()

    def of(host, name, pid):
        new = {"host": host, "adapter": name, "processes": set(), "killed": set(), "counters": {}, "ports": []}
        a = got.setdefault((host, name), new)
        a["processes"].add(pid)
        return a

    for path in sorted(glob.glob(glob.escape(prefix) + ".*")):
        with open(path, encoding="utf-8", errors="replace") as f:
            for line in f:
                head = LINE.match(line)
                if not head:
                    continue
                what, name, pid, host = head.groups()
                a = of(host, "hfi1_0" if name == "opx" else name, int(pid))
                said = {k: int(v) for k, v in re.findall(r" (\w+)=(\d+)(?=\s|$)", line[head.end():])}
                if what == "port":
                    addr = re.match(r" addr=(\S+)", line[head.end():])
                    a["ports"].append({"addr": addr.group(1) if addr else "?", "pid": int(pid), "counters": said})
                else:
                    add(a["counters"], said)
                    reported.add((host, int(pid), name))
    for told in watch.end(reported):
        a = of(told["host"], told["adapter"], told["pid"])
        a["killed"].add(told["pid"])
        add(a["counters"], told["counters"])
        a["ports"] += [{"addr": p["addr"], "pid": told["pid"], "counters": p["counters"]} for p in told["ports"]]
    return [{**a, "processes": len(a["processes"]), "killed": len(a["killed"])} for _, a in sorted(got.items())]


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


def port_rows(adapters):
    """Of each port that moved anything."""
    rows = [("host", "adapter", "port", "pid", "messages out", "in", "sent", "received", "by memory", "repeated",
             "dropped")]
    for a in adapters:
        for p in a["ports"]:
            c = p["counters"]
            if c.get("tx_frames") or c.get("rx_frames"):
                dropped = sum(v for k, v in c.items() if k.startswith(("drop_", "fault_drop")))
                rows.append((a["host"], a["adapter"], p["addr"], p["pid"], c.get("tx_frames", 0), c.get("rx_frames", 0),
                             out.amount(c.get("tx_bytes", 0)), out.amount(c.get("rx_bytes", 0)),
                             c.get("tx_frames", 0) - c.get("net_tx_frames", 0), c.get("retrans", 0), dropped))
    return rows


def put(adapters, file):
    rows = [("host", "adapter", "processes", "operations", "sent", "received", "local pkts", "net pkts", "repeated")]
    rows += [(a["host"], a["adapter"], a["processes"], a["operations"], out.amount(a["sent_bytes"]),
              out.amount(a["received_bytes"]), total(a["counters"], LOCAL), total(a["counters"], NET), a["repeated"])
             for a in adapters]
    out.table(rows, file)
    for a in adapters:
        for title, cs in a["by_class"].items():
            said = ", ".join("%s %d" % c for c in cs.items())
            print("  %s %s, %s: %s" % (a["host"], a["adapter"], title, said), file=file)
    rows = port_rows(adapters)
    if len(rows) > 1:
        out.table(rows[:1 + PORTS_MOST], file)
    if len(rows) > 1 + PORTS_MOST:
        print("  and %d more ports, which --json=FILE has" % (len(rows) - 1 - PORTS_MOST), file=file)
    killed = sum(a["killed"] for a in adapters)
    if killed:
        print("  %d of these adapters were left open, by processes that were killed or still run: of them it is what "
              "was told last, twice a second" % killed, file=file)
