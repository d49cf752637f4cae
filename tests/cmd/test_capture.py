#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""Captures: test_capture.py COMMAND CONFORM PROVIDER... or Bad. What conformance tests sent is read by
`softfabric decode` and by tshark with the dissector: nothing is malformed or unknown to either, and both say the same
of every datagram, also of broken ones."""
import argparse
import contextlib
import fcntl
import io
import json
import os
import random
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import time
import unittest

COMMAND, CONFORM, GROUP = os.path.abspath(sys.argv[1]), os.path.abspath(sys.argv[2]), sys.argv[3]
BUILD = os.path.dirname(COMMAND)
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../cmd"))
sys.dont_write_bytecode = True
from softfabric_cmd import capture, decode, fabric, layouts, out, pcapng, places  # noqa: E402

TMP = tempfile.TemporaryDirectory(prefix="softfabric-test.")
OPEN = tempfile.TemporaryDirectory(prefix="softfabric-test.")
os.chmod(OPEN.name, 0o755)  # for another user
NOBODY = 65534
LIMIT_S = 100
SEED = int(os.environ.get("SEED") or random.SystemRandom().getrandbits(32))
KNOWN = layouts.Layouts(os.path.join(BUILD, "wire.json"))
places.wire = os.path.join(BUILD, "wire.json")
# Short messages of all kinds, in datagrams so short that some of them are cut into segments, some of which get lost.
TESTS, ROOM = "*_[bi][in][jt]*", "loss=2%;reorder=5%;mtu=1500;seed=3"


def run(*args):
    env = {k: v for k, v in os.environ.items() if not k.startswith(("SOFTFABRIC_", "FI_"))}
    p = subprocess.run([COMMAND, *args], stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=LIMIT_S,
                       env={**env, "TMPDIR": TMP.name}, check=False)
    if "Traceback" in p.stdout + p.stderr:
        raise AssertionError("a trace:\n" + p.stderr)
    return p


def number(text):
    try:
        return int(text, 0)
    except ValueError:
        return text


def decoded(file):
    """{number: {field: values}} as `softfabric decode` says."""
    got = {}
    for line in run("decode", "--json", file).stdout.splitlines():
        d = json.loads(line)
        got[d["number"]] = {}
        for k, v in d["fields"]:
            got[d["number"]].setdefault(k, []).append(number(v) if isinstance(v, str) else v)
    return got


def tshark(file, *options):
    """What tshark says of @file with the dissector."""
    script = "lua_script:" + shutil.copy(os.path.join(BUILD, "softfabric.lua"), OPEN.name)
    # From 4.4 on Wireshark takes no script from root's command line.
    user = {"user": NOBODY, "group": NOBODY, "extra_groups": []} if os.getuid() == 0 else {}
    file = shutil.copy(file, OPEN.name)
    os.chmod(file, 0o644)
    p = subprocess.run(["tshark", "-X", script, "-o", "udp.try_heuristic_first:TRUE", "-r", file, *options],
                       stdin=subprocess.DEVNULL, env={**os.environ, "HOME": OPEN.name}, capture_output=True, text=True,
                       timeout=LIMIT_S, check=False, **user)
    if p.returncode:
        raise AssertionError(p.stderr)
    return p.stdout


def dissected(file, names, *options):
    """The same as `softfabric decode` says, and what tshark calls malformed or has no name for."""
    asked = ["frame.number", "frame.protocols", "_ws.malformed", "_ws.lua.error"] + names
    form = ["-T", "fields", "-E", "separator=/t", "-E", "occurrence=a", "-E", "aggregator=|"]
    text = tshark(file, *options, *form, *(x for n in asked for x in ("-e", n)))
    got, bad = {}, []
    for row in (line.split("\t") for line in text.split("\n") if line):
        got[int(row[0])] = {n: [number(x) for x in v.split("|")] for n, v in zip(names, row[4:]) if v}
        if row[2] or row[3] or "data" in row[1].split(":") or "softfabric" not in row[1].split(":"):
            bad.append(row[:4])
    return got, bad


def write(file, packets):
    iface = pcapng.Interface("test.1@here")
    with open(file, "wb") as f:
        f.write(pcapng.section() + pcapng.interface_block(iface) + b"".join(pcapng.packet_block(0, p) for p in packets))


def broken(packets, rng):
    """Datagrams with bytes changed, cut, or lengthened behind their UDP header, whose length stays right."""
    for p in packets:
        head, data = bytearray(p.data[:28]), bytearray(p.data[28:])
        for _ in range(rng.randrange(1, 4)):
            data[rng.randrange(4, min(len(data), 160))] = rng.choice((0, 1, 255, rng.randrange(256)))
        if rng.randrange(4) == 0:
            del data[rng.randrange(len(data)):]
        struct.pack_into(">H", head, 2, 28 + len(data))
        struct.pack_into(">H", head, 24, 8 + len(data))
        yield pcapng.Packet(p.iface, p.at_ns, bytes(head + data), p.way)


class Case(unittest.TestCase):
    maxDiff = None
    file = os.path.join(TMP.name, "x.pcapng")

    def capture(self, provider):
        p = run("capture", "-q", "-o", self.file, "--net", ROOM, "--", CONFORM, "-p", provider, "-m", "two", "-k",
                TESTS)
        self.assertEqual(p.returncode, 0, p.stdout + p.stderr)

    def refused(self, p, status, *words):
        self.assertEqual((p.returncode, len(p.stderr.splitlines())), (status, 1), p.stderr)
        for w in ("softfabric: ",) + words:
            self.assertIn(w, p.stderr)

    def same(self, file, may_be_bad):
        ours = decoded(file)
        names = sorted({n for d in ours.values() for n in d})
        theirs, bad = dissected(file, names)
        for n, d in ours.items():
            self.assertEqual(d, theirs[n], "SEED=%d, datagram %d of %s" % (SEED, n, file))
        if not may_be_bad:
            self.assertEqual(bad, [])
            self.assertNotIn("softfabric.malformed", names)
            self.assertEqual(len(ours), len(theirs))
        else:
            self.assertFalse([b for b in bad if b[3]])
        return names


class Provider(Case):
    def test_both_say_the_same(self):
        self.capture(GROUP)
        p = run("decode", self.file)
        self.assertEqual((p.returncode, p.stderr), (0, ""))
        self.assertIn("all has arrived", p.stdout)
        self.assertIn("did not arrive", p.stdout)
        self.assertIn("[fi_tsend", p.stdout)
        if not shutil.which("tshark"):
            self.skipTest("tshark is not installed")
        lost = p.stdout.count("** did not arrive")
        self.assertEqual(tshark(self.file).count(" [did not arrive] "), lost)
        names = self.same(self.file, False)
        own = {"efa": "efa.msg_id", "cxi": "cxi.match_bits", "opx": "opx.psn"}[GROUP]
        for n in ("softfabric.op", "softfabric.retransmission", own):
            self.assertIn(n, names)
        with pcapng.File(self.file) as f:
            some = [p for p in f if len(p.data) > 80][:150]
        rng = random.Random(SEED)
        write(self.file + ".bad", list(broken(some, rng)))
        self.same(self.file + ".bad", True)


class Bad(Case):
    """One capture, cut and broken in all ways: sentences, never a trace."""

    def setUp(self):
        if not os.path.exists(self.file):
            self.capture("efa")
        with open(self.file, "rb") as f:
            self.whole = f.read()

    def put(self, data):
        name = os.path.join(TMP.name, "bad.pcapng")
        with open(name, "wb") as f:
            f.write(data)
        return name

    def test_no_capture(self):
        self.refused(run("decode", self.put(b"")), 1, "is not a capture")
        self.refused(run("decode", self.put(b"Hello, world\n")), 1, "is not a capture")
        self.refused(run("decode", "/nowhere/x"), 1, "/nowhere/x cannot be read")
        self.refused(run("decode", self.put(self.whole[:20])), 1, "is cut inside its first block")
        self.refused(run("decode", self.put(self.whole[:12] + b"\x02" + self.whole[13:])), 1, "pcapng of version 2")
        p = run("decode", self.put(self.whole[:-5]))
        self.refused(p, 1, "ends inside a block")
        self.assertIn("hello", p.stdout)

    def test_capture_refused(self):
        self.refused(run("capture", "--", "true"), 125, "-o")
        self.refused(run("capture", "-o", self.file + ".none"), 125, "behind --")
        self.refused(run("capture", "-o", "/nowhere/x", "--", "true"), 125, "/nowhere/x cannot be written")
        self.assertEqual(run("capture", "-q", "-o", self.file + ".3", "--", "sh", "-c", "exit 3").returncode, 3)
        self.assertEqual(run("decode", self.file + ".3").returncode, 0)

    def test_sealed_and_other_versions(self):
        with pcapng.File(self.file) as f:
            one = next(iter(f))
        seal = bytes([KNOWN.wire["seal_magic"], 0x12]) + bytes(range(70))
        other = bytes([KNOWN.wire["magic"], 9]) + one.data[30:]
        packets = []
        for data in (seal, other):
            head = bytearray(one.data[:28])
            struct.pack_into(">H", head, 2, 28 + len(data))
            struct.pack_into(">H", head, 24, 8 + len(data))
            packets.append(pcapng.Packet(one.iface, one.at_ns, bytes(head) + data, pcapng.OUT))
        write(self.file + ".sealed", packets)
        p = run("decode", self.file + ".sealed")
        self.refused(p, 1, "1 datagrams", "another version")
        self.assertIn("sealed, secret", p.stdout)
        self.assertIn("wire version 9, only", p.stdout)
        if shutil.which("tshark"):
            self.assertIn("softfabric.seal.id", self.same(self.file + ".sealed", True))

    def test_part_of_a_killed_process(self):
        folder, whole = os.path.join(TMP.name, "parts"), self.file + ".merged"
        os.mkdir(folder)
        for name, data in (("a", self.whole), ("b", b""), ("c", self.whole[:20])):
            with open(os.path.join(folder, name + ".pcapng"), "wb") as f:
                f.write(data)
        with open(whole, "wb") as to, contextlib.redirect_stderr(io.StringIO()) as said:
            capture.finish(folder, to, argparse.Namespace(output=whole, quiet=False, json=None))
        self.assertEqual(said.getvalue().count("part is not whole"), 2)
        with pcapng.File(whole) as merged, pcapng.File(self.file) as one:
            self.assertEqual([p.data for p in merged], [p.data for p in one])

    def test_terminal(self):
        with pcapng.File(self.file) as f:
            one = next(iter(f))
        one.comments.append("\x1b[2J\nforged")
        write(self.file + ".esc", [one])
        p = run("decode", self.file + ".esc")
        self.assertIn("** \\x1b[2J\\x0aforged", p.stdout)

    def test_interrupt(self):
        mark, file = os.path.join(TMP.name, "mark"), self.file + ".int"
        script = "%s -p efa -m two -k tagged_bits; touch %s; exec sleep 60" % (CONFORM, mark)
        with subprocess.Popen([COMMAND, "capture", "-q", "-o", file, "--", "sh", "-c", script],
                              stdout=subprocess.DEVNULL) as p:
            until = time.monotonic() + LIMIT_S
            while not os.path.exists(mark) and time.monotonic() < until:
                time.sleep(0.02)
            p.send_signal(signal.SIGINT)
            self.assertEqual(p.wait(LIMIT_S), 130)
        self.assertIn("[fi_tsend", run("decode", file).stdout)

    def test_second_interrupt(self):
        """Nobody reads the file that is merged, so the merge lasts as long as the test wants it to."""
        fifo = os.path.join(TMP.name, "fifo")
        os.mkfifo(fifo)
        script = "d=${SOFTFABRIC_NET#*pcap=}; cp %s ${d%%/*}/1.pcapng" % self.file
        for sig in (signal.SIGINT, signal.SIGTERM):
            with subprocess.Popen([COMMAND, "capture", "-q", "-o", fifo, "--", "sh", "-c", script],
                                  stderr=subprocess.PIPE, text=True, env={**os.environ, "TMPDIR": TMP.name}) as p:
                with open(fifo, "rb", buffering=0) as f:
                    fcntl.fcntl(f, fcntl.F_SETPIPE_SZ, 4096)
                    self.assertEqual(len(f.read(4)), 4)
                    p.send_signal(sig)
                    while f.read(65536):
                        pass
                said = p.stderr.read()
                self.assertEqual(p.wait(LIMIT_S), 130)
            self.assertEqual(len(said.splitlines()), 1, said)
            folder = said.strip().rpartition(" in ")[2]
            with open(os.path.join(folder, "1.pcapng"), "rb") as f:
                self.assertEqual(f.read(), self.whole)
            self.assertEqual(os.listdir(folder), ["1.pcapng"])

    def test_bounded(self):
        """A long capture of many endpoints: tables stay short, and the latest entries are in them."""
        kept = 50
        fab = fabric.Fabric(KNOWN, kept, 100000)
        with pcapng.File(self.file) as f:
            some = [p for p in f if p.way == pcapng.OUT][:400]
        n = 0
        for turn in range(12):
            for p in some:
                n += 1
                src, dst, data = pcapng.udp(p)
                fab.dissect(n, p.way, src + str(turn), dst + str(turn), data)
        for table in (fab.first, fab.frames, fab.messages, fab.names, fab.memory, fab.user_ports):
            self.assertLessEqual(len(table), kept)
        self.assertEqual([len(t) for t in (fab.first, fab.frames, fab.messages)], [kept] * 3)
        self.assertLessEqual(fab.held, 100000)
        names = []
        for p in some[-20:]:
            src, dst, data = pcapng.udp(p)
            names += [k for k, _ in fab.dissect(n + 1, p.way, src + str(turn), dst + str(turn), data)]
        self.assertIn("softfabric.duplicate", names)

    @unittest.skipUnless(shutil.which("tshark"), "tshark is not installed")
    def test_dissector_bounded(self):
        """With short tables it forgets what decode forgets; a second pass shows what it still has, and is no first."""
        kept, held = 50, 20000
        with pcapng.File(self.file) as f:
            some = [p for p in f if p.way == pcapng.OUT][:250]  # two thirds of them say something
        packets, file = [], self.file + ".long"
        for turn in (1, 2, 1):
            for p in some:
                data = bytearray(p.data)
                data[20] ^= turn
                data[22] ^= turn
                packets.append(pcapng.Packet(p.iface, p.at_ns, bytes(data), p.way))
        write(file, packets)
        short, long = ([self.fields(fab, n, p) for n, p in enumerate(packets, 1)]
                       for fab in (fabric.Fabric(KNOWN, kept, held), fabric.Fabric(KNOWN)))
        names = sorted({k for d in long for k in d})
        self.assertGreater(sum("softfabric.duplicate" in d for d in long),
                           100 + sum("softfabric.duplicate" in d for d in short))
        sooner = [x for v in (kept, held) for x in ("-X", "lua_script1:%d" % v)]
        for wanted, options in ((short, sooner), (long, ("-2",))):
            theirs, bad = dissected(file, names, *options)
            self.assertEqual([b for b in bad if b[3]], [])
            for n, d in enumerate(wanted, 1):
                self.assertEqual(d, theirs[n], "SEED=%d, datagram %d, %s" % (SEED, n, options))
        # what was found of 80 datagrams
        theirs, bad = dissected(file, names, "-2", "-X", "lua_script1:20", "-X", "lua_script1:2000")
        self.assertEqual([b for b in bad if b[3]], [])
        self.assertNotIn("softfabric.op", {k for n in range(1, len(packets) - 90) for k in theirs[n]})

    def fields(self, fab, n, p):
        got = {}
        for k, v in fab.dissect(n, p.way, *pcapng.udp(p)):
            got.setdefault(k, []).append(number(v.hex()) if isinstance(v, bytes) else v)
        return got

    def test_held_segments(self):
        fab = fabric.Fabric(KNOWN, held_bytes=20000)
        fab.way = pcapng.OUT
        for frame in range(100):
            for seg in (0, 1, 1):
                found = layouts.Found()
                found.vals = {"softfabric.seg": seg, "softfabric.seg_cnt": 3, "softfabric.seg_total": 3000}
                self.assertIsNone(fab.segment(found, frame, b"x" * 1000))
                self.assertLessEqual(fab.held, 20000)
        found.vals["softfabric.seg"] = 2
        self.assertEqual(fab.segment(found, 99, b"x" * 1000), b"x" * 3000)
        self.assertEqual(fab.held, 3024 * (len(fab.segments)))

    def test_arrivals(self):
        """What did not arrive, by shares in files and by counting."""
        rng, left, lost = random.Random(SEED), {}, set()
        sent = [pcapng.Packet(None, 0, bytes([rng.randrange(256), rng.randrange(20)]), way=pcapng.OUT)
                for _ in range(3000)]
        came = [pcapng.Packet(None, 0, p.data, way=pcapng.IN) for p in sent if rng.randrange(3)]
        arrivals = capture.Arrivals(tempfile.mkdtemp(dir=TMP.name), 40 << 26)
        self.assertEqual(len(arrivals.shares), 41)
        for n, p in enumerate(came + sent):
            arrivals.note(n, p)
            left[p.data] = left.get(p.data, 0) + (p.way == pcapng.IN)
        for n, p in enumerate(sent, len(came)):
            if not left[p.data]:
                lost.add(n)
            left[p.data] -= left[p.data] > 0
        arrivals.settle(len(came + sent), out.Progress())
        self.assertEqual({n for n in range(len(came + sent)) if arrivals.is_lost(n)}, lost)
        self.assertFalse(os.path.exists(arrivals.folder))

    def test_random(self):
        rng = random.Random(SEED)
        for _ in range(40):  # files
            data = bytearray(self.whole[:rng.randrange(1, 6000)])
            for _ in range(rng.randrange(6)):
                data[rng.randrange(len(data))] = rng.randrange(256)
            with contextlib.redirect_stdout(io.StringIO()), contextlib.suppress(out.Refused):
                decode.main([self.put(bytes(data))])
        with pcapng.File(self.file) as f:
            some = [p for p in f if len(p.data) > 80]
        fab = fabric.Fabric(KNOWN)
        for n, p in enumerate(broken(some + some, rng)):  # datagrams
            fab.dissect(n, p.way, *pcapng.udp(p))


if __name__ == "__main__":
    print("SEED=%d" % SEED)
    suite = unittest.defaultTestLoader.loadTestsFromTestCase(Bad if GROUP == "Bad" else Provider)
    sys.exit(not unittest.TextTestRunner(verbosity=2).run(suite).wasSuccessful())
