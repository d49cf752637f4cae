# SPDX-License-Identifier: BSD-2-Clause
"""Capture files: pcapng as the adapters write it, and pcap as tcpdump does. Cut or foreign files are refused.

Source: draft-ietf-opsawg-pcapng; LINKTYPE_* of tcpdump.org.
"""
import socket
import struct

from .out import Refused

SHB, IDB, NRB, EPB = 0x0A0D0D0A, 1, 4, 6
OPT_END, OPT_COMMENT, OPT_FLAGS, OPT_IF_NAME, OPT_IF_TSRESOL, OPT_USERAPPL = 0, 1, 2, 2, 9, 4
BLOCK_MAX = 1 << 24
IN, OUT = 1, 2  # of OPT_FLAGS
RAW, ETHERNET, SLL, SLL2 = 101, 1, 113, 276
PCAP = {0xA1B2C3D4: 1000, 0xA1B23C4D: 1}  # magic: ns of a unit of time


class Packet:
    """One captured packet: where it was, when (ns since 1970), which way, and what somebody wrote beside it."""

    def __init__(self, iface, at_ns, data, way=0, comments=()):
        self.iface, self.at_ns, self.data, self.way, self.comments = iface, at_ns, data, way, list(comments)


class Interface:
    def __init__(self, name="", linktype=RAW, unit_ns=1):
        self.name, self.linktype, self.unit_ns = name, linktype, unit_ns


def options(order, data):
    """(code, value) of a block's options; what does not fit ends them."""
    at = 0
    while at + 4 <= len(data):
        code, size = struct.unpack_from(order + "HH", data, at)
        if code == OPT_END or at + 4 + size > len(data):
            return
        yield code, data[at + 4:at + 4 + size]
        at += 4 + (size + 3) // 4 * 4


def interface(order, body):
    linktype = struct.unpack_from(order + "H", body)[0]
    got = Interface("", linktype, 1000)
    for code, value in options(order, body[8:]):
        if code == OPT_IF_NAME:
            got.name = value.decode("utf-8", "replace")
        elif code == OPT_IF_TSRESOL and value:
            power = value[0] & 0x7F
            decimal = 10 ** (9 - power) if power <= 9 else 1 / 10 ** (power - 9)
            got.unit_ns = 1e9 / 2 ** power if value[0] & 0x80 else decimal
    return got


def enhanced(order, body, ifaces, path):
    if len(body) < 20:
        raise Refused("%s: a packet block is cut short; the file is damaged" % path, 1)
    ifno, high, low, caplen = struct.unpack_from(order + "IIII", body)
    if ifno >= len(ifaces) or 20 + caplen > len(body):
        raise Refused("%s: a packet block names what is not there; the file is damaged" % path, 1)
    way, comments = 0, []
    for code, value in options(order, body[20 + (caplen + 3) // 4 * 4:]):
        if code == OPT_FLAGS and len(value) == 4:
            way = struct.unpack(order + "I", value)[0] & 3
        elif code == OPT_COMMENT:
            comments.append(value.decode("utf-8", "replace"))
    return Packet(ifaces[ifno], int((high << 32 | low) * ifaces[ifno].unit_ns), body[20:20 + caplen], way, comments)


def names(order, body, into):
    """IP addresses with names, of a name resolution block."""
    at = 0
    while at + 4 <= len(body):
        kind, size = struct.unpack_from(order + "HH", body, at)
        value = body[at + 4:at + 4 + size]
        length = {1: 4, 2: 16}.get(kind)
        if not kind:
            return
        if length and len(value) > length:
            into[ip_text(value[:length])] = value[length:].split(b"\0")[0].decode("utf-8", "replace")
        at += 4 + (size + 3) // 4 * 4


class File:
    """Iterates over the packets of a file; @cut says, once it has ended, that its last block was not whole."""

    def __init__(self, path):
        self.path, self.hosts, self.cut = path, {}, False
        try:
            self.f = open(path, "rb")  # pylint: disable=consider-using-with
        except OSError as e:
            raise Refused("%s cannot be read: %s" % (path, e.strerror), 1) from None

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.f.close()

    def take(self, cnt):
        data = self.f.read(cnt)
        self.cut = self.cut or 0 < len(data) < cnt
        return data if len(data) == cnt else None

    def __iter__(self):
        try:
            first = self.f.read(4)
            if first == struct.pack("<I", SHB):
                yield from self.blocks(first)
                return
            for order in "<>":
                if len(first) == 4 and struct.unpack(order + "I", first)[0] in PCAP:
                    yield from self.pcap(order, PCAP[struct.unpack(order + "I", first)[0]])
                    return
        except OSError as e:
            raise Refused("%s cannot be read: %s" % (self.path, e.strerror), 1) from None
        raise Refused("%s is not a capture: it begins neither as pcapng nor as pcap" % self.path, 1)

    def pcap(self, order, unit_ns):
        head = self.take(20)
        if not head:
            raise Refused("%s is cut inside its first block" % self.path, 1)
        iface = Interface("", struct.unpack_from(order + "I", head, 16)[0] & 0xFFFF)
        while True:
            rec = self.take(16)
            if not rec:
                return
            sec, frac, caplen = struct.unpack_from(order + "III", rec)
            if caplen > BLOCK_MAX:
                raise Refused("%s: a packet of %d bytes; the file is damaged" % (self.path, caplen), 1)
            data = self.take(caplen)
            if data is None:
                self.cut = True
                return
            yield Packet(iface, sec * 10 ** 9 + frac * unit_ns, data)

    def blocks(self, first):
        order, ifaces, kind = "<", [], first
        while True:
            size = self.take(4)
            if not size:
                self.cut = self.cut or bool(kind)
                break
            if kind == struct.pack("<I", SHB):
                magic = self.take(4)
                if not magic:
                    break
                order = "<" if magic == struct.pack("<I", 0x1A2B3C4D) else ">"
                if magic != struct.pack(order + "I", 0x1A2B3C4D):
                    raise Refused("%s is not a capture: its first block is no pcapng section" % self.path, 1)
                ifaces = []
            head = 12 if kind == struct.pack("<I", SHB) else 8
            length = struct.unpack(order + "I", size)[0]
            if length < head + 4 or length > BLOCK_MAX or length % 4:
                raise Refused("%s: a block of %d bytes; the file is damaged" % (self.path, length), 1)
            body = self.take(length - head)
            if body is None:
                self.cut = True
                break
            if body[-4:] != size:
                raise Refused("%s: a block whose two lengths differ; the file is damaged" % self.path, 1)
            yield from self.block(order, struct.unpack(order + "I", kind)[0], body[:-4], ifaces)
            kind = self.take(4)
            if not kind:
                return
        if not ifaces and order:
            raise Refused("%s is cut inside its first block" % self.path, 1)

    def block(self, order, kind, body, ifaces):
        if kind == SHB and len(body) >= 4 and struct.unpack_from(order + "H", body)[0] != 1:
            version = struct.unpack_from(order + "H", body)[0]
            raise Refused("%s: pcapng of version %d; version 1 is known" % (self.path, version), 1)
        if kind == IDB and len(body) >= 8:
            ifaces.append(interface(order, body))
        elif kind == NRB:
            names(order, body, self.hosts)
        elif kind == EPB:
            yield enhanced(order, body, ifaces, self.path)


# --- addresses ---

def ip_text(ip):
    return socket.inet_ntop(socket.AF_INET if len(ip) == 4 else socket.AF_INET6, bytes(ip))


def endpoint(ip, port):
    return "%s:%d" % (ip, port) if ":" not in ip else "[%s]:%d" % (ip, port)


def udp(packet):
    """(source, destination, payload) of a UDP datagram that is whole; None for anything else."""
    data, kind = packet.data, packet.iface.linktype
    data = data[{RAW: 0, ETHERNET: 14, SLL: 16, SLL2: 20}.get(kind, len(data)):]
    if len(data) >= 20 and data[0] >> 4 == 4:
        at, whole = (data[0] & 15) * 4, struct.unpack_from(">H", data, 2)[0]
        proto, src, dst = data[9], data[12:16], data[16:20]
        if struct.unpack_from(">H", data, 6)[0] & 0x3FFF:
            return None  # a fragment
    elif len(data) >= 40 and data[0] >> 4 == 6:
        at, whole = 40, 40 + struct.unpack_from(">H", data, 4)[0]
        proto, src, dst = data[6], data[8:24], data[24:40]
    else:
        return None
    if proto != 17 or at < 20 or at + 8 > min(len(data), whole):
        return None
    sport, dport, length = struct.unpack_from(">HHH", data, at)
    if length < 8 or at + length > len(data):
        return None
    return endpoint(ip_text(src), sport), endpoint(ip_text(dst), dport), data[at + 8:at + length]


# --- writing ---

def option(code, value):
    return struct.pack("<HH", code, len(value)) + value + b"\0" * (-len(value) & 3)


def block(kind, body):
    size = struct.pack("<I", len(body) + 12)
    return struct.pack("<I", kind) + size + body + size


def section(comment=""):
    opts = option(OPT_COMMENT, comment.encode()) if comment else b""
    opts += option(OPT_USERAPPL, b"softfabric") + option(OPT_END, b"")
    return block(SHB, struct.pack("<IHHq", 0x1A2B3C4D, 1, 0, -1) + opts)


def interface_block(iface):
    opts = option(OPT_IF_NAME, iface.name.encode()) + option(OPT_IF_TSRESOL, b"\x09") + option(OPT_END, b"")
    return block(IDB, struct.pack("<HHI", iface.linktype, 0, 0) + opts)


def names_block(hosts):
    body = b""
    for ip, name in sorted(hosts.items()):
        raw = socket.inet_pton(socket.AF_INET6 if ":" in ip else socket.AF_INET, ip)
        body += option(1 if len(raw) == 4 else 2, raw + name.encode() + b"\0")
    return block(NRB, body + struct.pack("<HH", 0, 0))


def packet_block(ifno, p):
    opts = b"".join(option(OPT_COMMENT, c.encode()) for c in p.comments)
    opts += option(OPT_FLAGS, struct.pack("<I", p.way)) + option(OPT_END, b"")
    head = struct.pack("<IIIII", ifno, p.at_ns >> 32, p.at_ns & 0xFFFFFFFF, len(p.data), len(p.data))
    return block(EPB, head + p.data + b"\0" * (-len(p.data) & 3) + opts)
