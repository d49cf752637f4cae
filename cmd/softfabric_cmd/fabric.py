# SPDX-License-Identifier: BSD-2-Clause
"""What a capture says beyond its packets: frames put together, repetitions, and the fi_ operation of a frame.

A merged capture has each datagram twice, as it left and as it came in; what is counted is counted for each way.
What is remembered of earlier datagrams is limited, whatever the length of the capture: KEPT entries of each kind, those
that were of use last, and HELD_BYTES of frames of which segments are missing.
"""
from collections import OrderedDict, deque

from . import layouts
from .layouts import Malformed
from .pcapng import IN

KEPT, HELD_BYTES, SHOWN_PER_KEY = 1 << 16, 64 << 20, 256
SEGMENT_BYTES = 512  # what is beside the bytes of one that is held, or of a frame of which it is the only one
USER_DATA = {"name": "user data", "msg": [{"how": "w", "ops": [{"op": "fi_send"}]}]}


class Message:
    def __init__(self, op, first, total):
        self.op, self.first, self.total, self.bytes, self.done = op, first, total, {}, set()


class Recent(OrderedDict):
    """A table that forgets what was not looked up or set for longest."""

    def __init__(self, most):
        super().__init__()
        self.most = most

    def __setitem__(self, key, value):
        super().__setitem__(key, value)
        self.move_to_end(key)
        if len(self) > self.most:
            self.popitem(last=False)

    def get(self, key, default=None):
        if key not in self:
            return default
        self.move_to_end(key)
        return self[key]


class Fabric:
    """Give it the datagrams of a capture in order: dissect()."""

    def __init__(self, known, kept=KEPT, held_bytes=HELD_BYTES):
        self.wire = known.wire
        self.first = Recent(kept)  # transmissions: number, the count that repeats it, and the ways it was seen
        self.segments, self.held, self.held_most = OrderedDict(), 0, held_bytes
        self.frames, self.messages, self.names, self.memory = (Recent(kept) for _ in range(4))
        self.said = []  # names of the packets in the last datagram
        self.user_ports = Recent(kept)  # where messages have no header (efa's zero-copy receives)

    # --- repetitions ---

    def again(self, found, ident, tx):
        """Marks a repetition. Returns True if the same bytes went the same way before."""
        n, way = self.n, self.way
        first, first_tx, ways = self.first.get(ident, (n, tx, ()))
        was_seen = way in ways
        self.first[ident] = (first, first_tx, ways if was_seen else ways + (way,))
        if first_tx != tx:
            found.add("softfabric.retransmission", first)
        elif was_seen:
            found.add("softfabric.duplicate", first)
        return was_seen

    # --- datagrams ---

    def dissect(self, n, way, src, dst, buf):
        """The fields of datagram number @n, as (name, value); None if it is none of ours."""
        self.n, self.way, self.src, self.dst, self.said = n, way, src, dst, []
        found = layouts.Found()
        if len(buf) >= self.wire["seal"]["size"] and buf[0] == self.wire["seal_magic"] and buf[1] >> 4 == 1:
            layouts.take(found, self.wire["seal"]["fields"], buf, 0)
            return found.fields
        link = self.wire["link"]
        if len(buf) < link["head_len"] or buf[0] != self.wire["magic"] or str(buf[2]) not in link["packets"]:
            return None
        try:
            self.datagram(found, buf)
        except Malformed as e:
            found.add("softfabric.malformed", str(e))
        return found.fields

    def datagram(self, found, buf):
        if buf[1] != self.wire["version"]:
            layouts.take(found, self.wire["link"]["head"][:3], buf, 0)
            raise Malformed("wire version %d, only %d is known here" % (buf[1], self.wire["version"]))
        p, at = layouts.walk(self.wire["link"], found, buf, 0, len(buf))
        self.said.append(p["name"])
        for frame in found.all("softfabric.nak.frame"):
            refused = self.frames.get((self.dst, self.src, found.vals["softfabric.nonce"], frame))
            if refused:
                found.add("softfabric.refuses", refused)
        if p.get("next") != "records":
            return
        self.is_raw = p["name"] == "raw"
        if at == len(buf):
            if self.is_raw:
                raise Malformed("no record")
            self.said.append("(asks for an acknowledgement)")
            return
        nonce, seq = found.vals["softfabric.nonce"], found.vals["softfabric.seq"]
        is_again = not self.is_raw and self.again(found, (self.src, self.dst, nonce, seq), found.vals["softfabric.tx"])
        while at < len(buf):
            at = self.record(found, buf, at, is_again)

    def record(self, found, buf, at, is_again):
        rec, seg = self.wire["rec"], self.wire["seg"]
        if len(buf) - at < rec["size"]:
            raise Malformed("ends inside a record")
        layouts.take(found, rec["fields"], buf, at)
        at += rec["size"]
        is_cut = found.vals["softfabric.segmented"]
        if is_cut:
            if len(buf) - at < seg["size"]:
                raise Malformed("ends inside a record")
            layouts.take(found, seg["fields"], buf, at)
            at += seg["size"]
        end = at + found.vals["softfabric.len"]
        if end > len(buf) or (is_cut and len(buf) - end > self.wire["pad_max"]):
            raise Malformed("a record longer or shorter than its datagram")
        kind = found.vals["softfabric.kind"]
        ident = (self.src, self.dst, found.vals["softfabric.nonce"], found.vals["softfabric.frame"])
        self.frames[ident] = self.frames.get(ident, self.n)
        if is_cut:
            self.said.append("segment %d/%d" % (found.vals["softfabric.seg"], found.vals["softfabric.seg_cnt"]))
        if not is_cut and end == at:
            raise Malformed("a frame of no known adapter")
        if not is_cut:
            self.frame(found, kind, buf[at:end], ident, is_again)
            return end
        whole = None if is_again else self.segment(found, ident, buf[at:end])
        if whole is not None:
            self.frame(found, kind, whole, ident, False)
        return len(buf)

    def segment(self, found, ident, data):
        """The bytes of the frame that this segment completes, or None."""
        idx, cnt, total = (found.vals["softfabric." + k] for k in ("seg", "seg_cnt", "seg_total"))
        if cnt < 2 or idx >= cnt:
            raise Malformed("segment %d of %d" % (idx, cnt))
        have = self.segments.setdefault((ident, self.way), {})
        self.held += SEGMENT_BYTES + len(data) - (SEGMENT_BYTES + len(have[idx]) if idx in have else 0)
        have[idx] = data
        if len(have) < cnt:
            while self.held > self.held_most:
                self.forget(next(iter(self.segments)))
            return None
        self.forget((ident, self.way))
        whole = b"".join(have[i] for i in sorted(have))
        if len(whole) != total or max(have) != cnt - 1:
            raise Malformed("segments that do not make up their frame")
        return whole

    def forget(self, key):
        """The segments of one frame."""
        self.held -= sum(SEGMENT_BYTES + len(d) for d in self.segments.pop(key).values())

    # --- frames ---

    def proto_of(self, kind, data):
        """Whose frame this is: nothing says it but its first bytes."""
        w = self.wire
        if str(kind) not in w["names"]["kind"]:
            raise Malformed("no such kind of record")
        if w["names"]["kind"][str(kind)] == "bulk":
            return "bulk"
        is_efa = len(data) >= 8 and data[0] == w["efa_frame_version"] and data[2:4] == b"\0\0"
        if is_efa and str(data[1]) in w["efa_frame"]["packets"]:
            return "efa_frame"
        if self.is_raw and len(data) >= w["opx"]["head_len"] and data[w["opx_qp_at"]] == w["opx_qp"]:
            return "opx"
        if not self.is_raw and data and data[0] >> 4 == w["cxi_version"] and str(data[0] & 15) in w["cxi"]["packets"]:
            return "cxi"
        raise Malformed("a frame of no known adapter")

    def frame(self, found, kind, data, ident, is_again):
        one = layouts.Found()
        try:
            p, payload, proto = self.layers(one, kind, data)
        finally:
            found.fields += one.fields
        self.said.append(p["name"])
        if is_again:
            return
        if "number" in proto and not p["unnumbered"]:
            ident = (self.src, self.dst) + tuple(one.vals[k] for k in proto["number"].split())
            if self.again(found, ident, found.vals["softfabric.seq"]):
                return
        self.message(found, one, p, payload, ident)

    def layers(self, one, kind, data):
        """Walks through a frame and what it carries. Returns (innermost packet, payload bytes, protocol)."""
        proto = self.wire[self.proto_of(kind, data)]
        p, at = layouts.walk(proto, one, data, 0, len(data))
        if p.get("next") != "efa":
            return p, len(data) - at, proto
        if self.is_raw or self.user_ports.get(self.dst):
            return USER_DATA, len(data) - at, {}
        p, at = layouts.walk(self.wire["efa"], one, data, at, len(data))
        if one.vals["efa.version"] < self.wire["efa_version"]:
            raise Malformed("EFA protocol version %d" % one.vals["efa.version"])
        if one.vals.get("efa.user_recv_qpn"):
            self.user_ports["%s:%d" % (self.src.rpartition(":")[0], one.vals["efa.user_recv_qpn"])] = True
        return p, len(data) - at, {}

    # --- messages ---

    def keys_of(self, one, m):
        """The names of a packet's message."""
        keys = []
        for k in m.get("keys", "").split():
            ends = (self.src, self.dst) if k[0] == "+" else (self.dst, self.src)
            keys.append(ends + (k[1],) + tuple(one.vals[f] for f in k[3:].split(",")))
        return keys

    def by_memory(self, one, m):
        """The message that has shown the memory of a bulk copy, or None: the peer's, or ours that is sent unasked."""
        key, addr = (one.vals[f] for f in m["find"].split())
        shown = self.memory.get((self.dst, key)) or self.memory.get((self.src, key))
        for at, length, msg in reversed(shown or ()):
            if at <= addr < at + length:
                return msg
        return shown[-1][2] if shown else None

    def message_of(self, one, m, keys, payload):
        msg = None
        if m["how"] in "jme":
            for k in keys[:1] if m["how"] == "m" else keys:
                msg = msg or self.names.get(k)
        if not msg and "find" in m:
            msg = self.by_memory(one, m)
        if not msg and m["how"] in "wbm":
            op = next((o["op"] for o in m["ops"] if one.holds(o.get("when"))), None)
            total = payload if "total" not in m else one.vals[m["total"]] if m["total"] else None
            msg = Message(op, self.n, total) if op else None
        if not msg:
            return None
        if m["how"] != "e":
            for k in keys:
                self.names[k] = msg
        if "mem" in m:
            for key, addr, length in zip(*(one.all(f) for f in m["mem"].split())):
                if key:
                    shown = self.memory.get((self.src, key)) or deque(maxlen=SHOWN_PER_KEY)
                    shown.append((addr, length, msg))
                    self.memory[self.src, key] = shown
        return msg

    def message(self, found, one, p, payload, ident):
        m = next((m for m in p["msg"] if one.holds(m.get("when"))), None)
        if not m:
            return
        msg = self.messages.get(ident)
        if not msg:
            msg = self.messages[ident] = self.message_of(one, m, self.keys_of(one, m), payload)
        if not msg:
            return
        way = self.way
        msg.bytes[way] = msg.bytes.get(way, 0) + payload
        found.add("softfabric.op", msg.op)
        found.add("softfabric.msg", msg.first)
        found.add("softfabric.bytes", msg.bytes[way])
        if msg.total is not None:
            found.add("softfabric.total", msg.total)
        is_last = "off" in m and one.vals[m["off"]] + payload == one.vals[m["end"]]
        is_all = msg.total is not None and msg.bytes[way] >= msg.total and (payload or m["how"] != "j")
        if (m["how"] in "we" or is_last or is_all) and way not in msg.done:
            msg.done.add(way)
            found.add("softfabric.complete", 2 if way == IN else 1)
