# SPDX-License-Identifier: BSD-2-Clause
"""Reads packets by the description that the packet tables give (cmd/wire), as cmd/wire/softfabric.lua.in does."""
import json

from .out import Refused


class Malformed(Exception):
    """Bytes that are no such packet: why not."""


class Layouts:
    def __init__(self, path):
        try:
            with open(path, encoding="utf-8") as f:
                self.wire = json.load(f)
        except (OSError, ValueError) as e:
            why = "%s cannot be read (%s): build it (ninja), or install the package again" % (path, e)
            raise Refused(why, 1) from None
        self.shown = {}  # field: its description
        for proto in self.protos():
            lists = [proto["head"]]
            for p in proto["packets"].values():
                lists += [p["fields"]] + [part["fields"] for part in p["parts"]]
            self.show(lists)
        self.show([self.wire[k]["fields"] for k in ("rec", "seg", "seal")])

    def protos(self):
        return [v for v in self.wire.values() if isinstance(v, dict) and "packets" in v]

    def show(self, lists):
        for fields in lists:
            for f in fields:
                if f["show"] != "-" and f["name"] != "rsvd":
                    self.shown.setdefault(f["name"], f)

    def text(self, name, value):
        """@value as a reader wants it."""
        f = self.shown.get(name)
        if isinstance(value, bytes):
            return value.hex()
        if f and "names" in f:
            return "%s (%d)" % (self.wire["names"][f["names"]].get(str(value), "?"), value)
        return "%#x" % value if f and f["show"] == "x" else str(value)


class Found:
    """What a walk has found: (name, value) in order, and the last value of each name, hidden ones included."""

    def __init__(self):
        self.fields, self.vals = [], {}

    def add(self, name, value):
        self.fields.append((name, value))

    def all(self, name):
        return [v for n, v in self.fields if n == name]

    def holds(self, when):
        for w in when or ():
            v = self.vals.get(w["field"])
            if v is None or (v != self.vals.get(w["same"]) if "same" in w else not w["lo"] <= v <= w["hi"]):
                return False
        return True


def take(found, fields, buf, at):
    """The @fields of the bytes that begin at @at, which are there."""
    for f in fields:
        raw = buf[at + f["off"]:at + f["off"] + f["size"]]
        value = raw
        if f["form"] != "y":
            value = int.from_bytes(raw, "big" if f["form"] == "b" else "little")
            if "bits" in f:
                value = value >> f["shift"] & (1 << f["bits"]) - 1
        found.vals[f["name"]] = value
        if f["show"] != "-" and f["name"] != "rsvd":
            found.add(f["name"], value)


def packet_of(proto, found):
    key = str(found.vals[proto["select"]])
    if "select2" in proto and key + "." + str(found.vals[proto["select2"]]) in proto["packets"]:
        key += "." + str(found.vals[proto["select2"]])
    return proto["packets"].get(key)


def part_take(found, part, buf, at, end):
    """A part at @at. Returns where it ends."""
    size = part["size"]
    if part["to_end"]:
        times = (end - at) // size
    else:
        times = max(0, found.vals[part["times"]] - part["less"]) if "times" in part else 1
    if times * size > end - at:
        raise Malformed("ends inside its header")
    for _ in range(times):
        take(found, part["fields"], buf, at)
        step = found.vals[part["len_field"]] + part["len_plus"] if "len_field" in part else size
        if step < size or step > end - at:
            raise Malformed("a length out of range")
        at += step
    return at


def walk(proto, found, buf, at, end):
    """One packet of @proto in the bytes @at to @end. Returns (its description, where its payload begins)."""
    if end - at < proto["head_len"]:
        raise Malformed("shorter than its header")
    take(found, proto["head"], buf, at)
    p = packet_of(proto, found)
    if not p:
        raise Malformed("no such packet")
    if end - at < p["len"]:
        raise Malformed("ends inside its header")
    take(found, p["fields"], buf, at)
    begin = at
    at += p["len"]
    for part in p["parts"]:
        if not found.holds(part.get("when")):
            continue
        if part["over"]:
            take(found, part["fields"], buf, begin)
        else:
            at = part_take(found, part, buf, at, end)
    payload = end - at
    if not p["payload_min"] <= payload <= p["payload_max"] or payload != found.vals.get(p.get("payload_len"), payload):
        raise Malformed("a payload of %d bytes" % payload)
    return p, at
