# SPDX-License-Identifier: BSD-2-Clause
"""softfabric info: the room, and what each provider offers."""
from . import ask, out, places

EPILOG = """\
The room is what SOFTFABRIC_NET, SOFTFABRIC_EFA, SOFTFABRIC_CXI, SOFTFABRIC_OPX and the file SOFTFABRIC_CONF describe,
softfabric(1).
exit status: 0; 1 the room is refused, or a provider that was asked for offers nothing."""
FAULTS = (("loss_ppm", "loss"), ("dup_ppm", "dup"), ("reorder_ppm", "reorder"), ("corrupt_ppm", "corrupt"),
          ("truncate_ppm", "truncate"))
NO_LIMIT = (1 << 64) - 1


def seconds(ns):
    if ns == NO_LIMIT:
        return "never"
    for unit, size in (("s", 10**9), ("ms", 10**6), ("us", 10**3)):
        if ns >= size:
            return "%g %s" % (ns / size, unit)
    return "%d ns" % ns


def conditions(net):
    """What is not as on a quiet network, in the words of SOFTFABRIC_NET."""
    said = ["%s=%g%%" % (name, net[key] / 1e4) for key, name in FAULTS if net[key]]
    said += ["%s=%d" % (k, net[k]) for k in ("drop_nth", "dup_nth", "delay_nth", "mtu") if net[k]]
    if net["delay_ns"]:
        said.append("delay=" + seconds(net["delay_ns"]).replace(" ", ""))
    if net["partition_to_ns"]:
        said.append("partition=%s-%s" % tuple(seconds(net["partition_%s_ns" % k]).replace(" ", "")
                                              for k in ("from", "to")))
    if net["seed"]:
        said.append("seed=%d" % net["seed"])
    return ", ".join(said) or "none"


def room_print(room):
    net = room["net"]
    if "error" in net:
        print("network: refused: %s" % net["error"])
    else:
        sealed = ", encrypted" if net["secrecy"] else ", sealed" if net["sealed"] else ""
        print("network: interface %s, paths %s%s; a silent peer is dead after %s"
              % (net["if"], net["paths"], sealed, seconds(net["dead_after_ns"])))
        print("faults:  %s" % conditions(net))
        if net["pcap"]:
            print("capture: %s" % net["pcap"])
    rows = [("adapter", "provider", "generation", "Gbit/s", "MTU", "address", "limits")]
    for p in places.PROVIDERS:
        for a in room[p]["adapters"]:
            rows.append((a["name"], p, a["generation"], a["gbit_per_s"], a["mtu"], a["address"], limits(p, a)))
    if len(rows) > 1:
        print("adapters:")
        out.table(rows)
    for p in places.PROVIDERS:
        if room[p]["error"] and room[p]["error"] != net.get("error"):
            print("%s: refused: %s" % (p, room[p]["error"]))


def limits(provider, a):
    if provider == "efa":
        return "qp %d, mr %d, sq %d, rq %d" % (a["max_qp"], a["max_mr"], a["sq"], a["rq"])
    if provider == "cxi":
        return "le %d, pte %d, eq %d, services %s" % (a["les"], a["ptes"], a["eqs"],
                                                      ",".join(str(s["id"]) for s in a["services"]))
    return "contexts %d, credits %d, %s" % (a["contexts"], a["credits"], a["state"])


def offers_get(lib, providers):
    got = {}
    for p in providers:
        a = lib.ask_of(p, {"domain_attr.mr_mode": sum(lib.words("domain_attr.mr_mode")["words"].values()) & ~3,
                           "mode": sum(lib.words("mode")["words"].values())})
        got[p] = {"infos": a["infos"], "refused": a["reasons"].get(p) or (None if a["infos"] else a["text"]),
                  "asked": p in a["loaded"]}
    return got


def offers_print(lib, got):
    print("providers, asked through libfabric %s:" % lib.version)
    rows = [("provider", "domain", "endpoint", "fabric", "max message", "inject", "tag bits", "MR modes that it needs")]
    for p, g in got.items():
        for i in g["infos"]:
            tag = int(i["ep_attr.mem_tag_format"], 0).bit_length()
            rows.append((p, i["domain_attr.name"], i["ep_attr.type"][6:].lower(), i["fabric_attr.name"],
                         out.amount(int(i["ep_attr.max_msg_size"])), i["tx_attr.inject_size"], tag,
                         "+".join(w[6:] for w in i["domain_attr.mr_mode"]) or "none"))
    if len(rows) > 1:
        out.table(list(dict.fromkeys(rows)))
    for p, g in got.items():
        if g["infos"]:
            continue
        if g["asked"]:
            print("  %s offers nothing: %s" % (p, g["refused"]))
        else:
            print("  %s: libfabric did not load %s; softfabric doctor says more" % (p, places.module_file(p)))


def main(argv):
    ap = out.Parser(prog="softfabric info", description=__doc__, epilog=EPILOG)
    ap.add_argument("-p", "--provider", choices=places.PROVIDERS, help="of this one only")
    ap.add_json("all fields")
    args = ap.parse_args(argv)
    places.need_modules()
    room = ask.room()
    with ask.Libfabric() as lib:
        got = offers_get(lib, [args.provider] if args.provider else places.built())
        if args.json:
            out.put_json(args.json, {"libfabric": lib.version, "room": room, "providers": got})
        else:
            room_print(room)
            offers_print(lib, got)
    errors = ask.room_errors(room)
    return 1 if errors or (args.provider and not got[args.provider]["infos"]) else 0
