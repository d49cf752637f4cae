#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""What softfabric run tells of a job, however that ended: test_ended.py COMMAND OLD_LIBFABRIC GROUP."""
import fcntl
import json
import os
import pty
import select
import signal
import subprocess
import sys
import tempfile
import time
import unittest

sys.dont_write_bytecode = True
from test_cmd import COMMAND, LIMIT_S, TMP, Case, can_namespaces, environment, run

SIDE = os.path.join(os.path.dirname(COMMAND), "softfabric-bench")
JOB = os.path.join(os.path.dirname(os.path.abspath(__file__)), "sides.py")
sys.path.insert(0, os.path.join(os.path.dirname(JOB), "../../cmd"))
from softfabric_cmd import live  # noqa: E402 pylint: disable=wrong-import-position
SENT = 1024 * 4096


class Ended(Case):
    def setUp(self):
        self.dir = tempfile.mkdtemp(dir=TMP.name)
        self.up, self.file = os.path.join(self.dir, "up"), os.path.join(self.dir, "run.json")

    def words(self, provider, how, *before):
        return [*before, COMMAND, "run", "-p", provider, "--json=" + self.file, "--", sys.executable, JOB, provider,
                how, self.up]

    def start(self, provider, how, **kw):
        return subprocess.Popen(self.words(provider, how), stdin=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
                                env=environment(SIDE=SIDE), **kw)

    def await_up(self):
        until = time.monotonic() + LIMIT_S
        while not os.path.exists(self.up):
            self.assertLess(time.monotonic(), until)
            time.sleep(0.02)

    def check(self, said, killed):
        """The summary has what was sent, by adapter and by port."""
        self.assertNotIn("no adapter was used", said)
        with open(self.file, encoding="utf-8") as f:
            adapters = json.load(f)["adapters"]
        self.assertEqual(len(adapters), 1, said)
        a = adapters[0]
        self.assertGreaterEqual(a["sent_bytes"], SENT)
        self.assertEqual((a["processes"], a["killed"]), (2, killed), said)
        self.assertEqual(len(a["ports"]), 2)
        self.assertGreaterEqual(sum(p["counters"]["tx_frames"] for p in a["ports"]), 1024)
        for word in (a["adapter"], a["ports"][0]["addr"], "protocols: "):
            self.assertIn(word, said)
        self.assertEqual("were left open" in said, killed > 0)

    def test_closed(self):
        for provider in ("efa", "cxi", "opx"):
            with self.subTest(provider):
                self.check(self.start(provider, "close").communicate(timeout=LIMIT_S)[1], 0)

    def test_signals(self):
        for sig, is_group in ((signal.SIGINT, True), (signal.SIGINT, False), (signal.SIGTERM, False)):
            with self.subTest((sig, is_group)):
                self.setUp()
                p = self.start("efa", "wait", start_new_session=True)
                self.await_up()
                (os.killpg if is_group else os.kill)(p.pid, sig)
                self.check(p.communicate(timeout=LIMIT_S)[1], 2)

    def test_terminal(self):
        pid, fd = pty.fork()
        if not pid:
            try:
                os.execve(COMMAND, self.words("cxi", "wait"), environment(SIDE=SIDE))
            finally:
                os._exit(127)
        self.await_up()
        os.write(fd, b"\x03")
        said, until = b"", time.monotonic() + LIMIT_S
        try:
            while select.select([fd], [], [], max(0, until - time.monotonic()))[0]:
                said += os.read(fd, 65536)
        except OSError:  # the other end has closed
            pass
        os.waitpid(pid, 0)
        os.close(fd)
        self.check(said.decode(), 2)

    def test_killed_ranks(self):
        for provider, how in (("cxi", "kill"), ("efa", "abort")):
            with self.subTest(how):
                self.setUp()
                self.check(self.start(provider, how).communicate(timeout=LIMIT_S)[1], 2)

    def test_killed_ranks_of_virtual_hosts(self):
        if not can_namespaces():
            self.skipTest("no namespaces")
        p = run("run", "-p", "efa", "--hosts", "2", "--json=" + self.file, "--", sys.executable, JOB, "efa", "kill",
                self.up, SIDE=SIDE)
        with open(self.file, encoding="utf-8") as f:
            got = json.load(f)["adapters"]
        self.assertEqual([(a["host"], a["processes"], a["killed"]) for a in got], [("h1", 1, 1), ("h2", 1, 1)],
                         p.stderr)
        for a in got:
            c = a["ports"][0]["counters"]
            self.assertGreaterEqual(c["tx_frames"] + c["rx_frames"], 1024, p.stderr)
        self.assertIn("were left open", p.stderr)

    def test_exit(self):
        """exit() without closing anything: the process itself tells what it told last. It has no line of its port."""
        said = self.start("cxi", "exit").communicate(timeout=LIMIT_S)[1]
        with open(self.file, encoding="utf-8") as f:
            adapter = json.load(f)["adapters"][0]
        self.assertGreaterEqual(adapter["sent_bytes"], SENT, said)
        self.assertEqual(adapter["killed"], 0, said)  # not from what was looked at meanwhile

    def test_timeout(self):
        """A command that ends its job itself, and whose ranks nobody asks."""
        p = subprocess.Popen([COMMAND, "run", "--json=" + self.file, "--", "sh", "-c",
                              '"$@" & while [ ! -e %s ]; do sleep 0.05; done; kill $!; wait' % self.up, "sh",
                              sys.executable, JOB, "cxi", "wait", self.up], stdin=subprocess.DEVNULL,
                             stderr=subprocess.PIPE, text=True, env=environment(SIDE=SIDE, FI_PROVIDER="cxi"))
        self.check(p.communicate(timeout=LIMIT_S)[1], 2)

    def test_hosts_without_adapters(self):
        """After the virtual hosts nothing can be started any more: what explains it is named all the same."""
        if not can_namespaces():
            self.skipTest("no namespaces")
        p = run("run", "--hosts", "2", "--", "true")
        self.assertEqual(p.returncode, 0, p.stderr)
        self.assertIn("no adapter was used: who refused what is said by: softfabric why -- true", p.stderr)

    def test_room_with_comments(self):
        """What the adapters skip in SOFTFABRIC_CONF is not refused before, and what they ignore is."""
        room = os.path.join(self.dir, "room.ini")
        for text, status in (("# lab\n[net] # ours\nloss=1%  ; some\n", 0), ("[nett] # x\nloss=1%\n", 125),
                             ("loss=1%\n", 125)):
            with open(room, "w", encoding="ascii") as f:
                f.write(text)
            p = run("run", "-q", "--", "true", SOFTFABRIC_CONF=room)
            self.assertEqual(p.returncode, status, p.stderr)
        self.assertEqual(run("run", "-q", "--", "true", SOFTFABRIC_NODES="3").returncode, 0)

    def test_capture_to_full_disk(self):
        """The file is named, the mend, and where the parts stay."""
        p = subprocess.run([COMMAND, "capture", "-q", "-o", "/dev/full", "-p", "cxi", "--", sys.executable, JOB, "cxi",
                            "close", self.up], stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False,
                           timeout=LIMIT_S, env=environment(SIDE=SIDE))
        self.refused(p, 1, "/dev/full cannot be written: No space", "make room",
                     os.path.join(TMP.name, "softfabric-cap"))

    def test_removed_by_others(self):
        """The file of a killed process that somebody else removes was read before."""
        path = os.path.join(self.dir, "softfabric-live.7.0")
        text = ("softfabric-live 1 %d\nprocess pid=7 host=h program=p\nsoftfabric-stats: adapter=cxi0 pid=7 host=h "
                "soft_tx_bytes=%d\nmore ports=0 peers=0\nend %d\n")
        watch = live.Watch(self.dir)
        with open(path, "w", encoding="ascii") as f:
            fcntl.lockf(f, fcntl.LOCK_EX)
            for n in (1, 2):
                f.seek(0)
                f.write(text % (n, n, n))
                f.flush()
                watch.look()
            f.seek(0)
            f.write("softfabric-live 1 3\n")  # killed while it wrote
        watch.look()
        os.unlink(path)
        self.assertEqual([a["counters"] for a in watch.end(set())], [{"soft_tx_bytes": 2}])
        self.assertEqual(watch.end({("h", 7, "cxi0")}), [])


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], sys.argv[3]], verbosity=2)
