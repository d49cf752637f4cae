#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""Man pages and completions of the softfabric command: test_text.py COMMAND OLD_LIBFABRIC GROUP."""
import fcntl
import os
import pty
import select
import shutil
import signal
import struct
import subprocess
import sys
import termios
import time
import unittest

sys.dont_write_bytecode = True
from test_cmd import COMMAND, LIMIT_S, TMP, Case, environment, run


class Text(Case):
    """Man pages and completions: what the tables say, and what the adapters themselves say."""
    build = os.path.dirname(os.path.dirname(COMMAND))

    def known(self, kind):
        """The keys that the adapters name when they refuse one."""
        p = run("run", "--" + kind, "zzzz=1", "--", "true")
        return p.stderr.strip().split("known keys: ")[1].split(", ")

    def test_man(self):
        page = os.path.join(self.build, "doc/man/softfabric.1")
        if not os.path.exists(page):
            self.skipTest("scdoc is not installed")
        text = ""
        for page in (page, os.path.join(self.build, "doc/man/softfabric_net.5")):
            with open(page, encoding="utf-8") as f:
                text += f.read().replace("\\", "")
        for kind in ("net", "efa", "cxi", "opx"):
            for key in self.known(kind):
                self.assertRegex(text, r"fB%sfR=" % key)
        text = text.replace("\n", " ")
        self.assertRegex(text, r"fBmtufR=fInumberfR, 512 to 61440")
        self.assertRegex(text, r"fBdead_afterfR=fItimefR [^=]*\(Default: 30s\)")
        self.assertRegex(text, r"fBlesfR=fInumberfR, 0 to 1Mi [^=]*\(Default: 16384\)")
        with open(os.path.join(self.build, "doc/man/fi_softfabric_opx.7"), encoding="utf-8") as f:
            self.assertIn("fBFI_OPX_PKEYfR", f.read().replace("\\", ""))

    def complete(self, *words):
        """What bash offers for the last word."""
        file = os.path.join(self.build, "cmd/completion/softfabric")
        script = 'compopt() { :; }; . %s; COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _softfabric; ' \
            'printf "%%s\\n" "${COMPREPLY[@]}"' % file
        p = subprocess.run(["bash", "-c", script, "bash", "softfabric", *words], capture_output=True, text=True,
                           check=True)
        self.assertEqual(p.stderr, "")
        return p.stdout.split()

    @unittest.skipUnless(shutil.which("bash"), "no bash")
    def test_bash(self):
        self.assertEqual(self.complete("do"), ["doctor"])
        self.assertEqual(self.complete("run", "--ho"), ["--hosts"])
        self.assertEqual(self.complete("capture", "--out"), ["--output"])
        self.assertEqual(self.complete("decode", "--j"), ["--json"])
        self.assertEqual(self.complete("run", "-p", ""), ["efa", "cxi", "opx"])
        self.assertEqual(self.complete("bench", "-p", "")[3:], ["shm", "tcp"])
        self.assertNotIn("ports", self.complete("decode", "-v", "p"))
        self.assertEqual(self.complete("run", "--net", "loss=1%;dead"), ["loss=1%;dead_after="])
        self.assertEqual(self.complete("why", "tx_attr.inj"), ["tx_attr.inject_size="])
        self.assertIn("true", self.complete("run", "--", "tru"))
        for kind in ("net", "efa", "cxi", "opx"):
            self.assertEqual(self.complete("run", "--" + kind, ""), [k + "=" for k in self.known(kind)])

    @unittest.skipUnless(shutil.which("zsh"), "no zsh")
    def test_zsh(self):
        """In a terminal, since zsh completes nowhere else: what stands on the line after the Tab."""
        pid, fd = pty.fork()
        if not pid:
            os.execvpe("zsh", ["zsh", "-f", "-i"], environment(TERM="dumb", ZDOTDIR=TMP.name, COLUMNS="400"))
        try:
            fcntl.ioctl(fd, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 400, 0, 0))
            os.write(fd, b"PS1=; fpath=(%s/cmd/completion $fpath); autoload -U compinit; compinit -u -D; echo rea''dy\n"
                     % self.build.encode())
            self.until(fd, "ready")
            for line, more in (("softfabric doc", "tor"), ('softfabric run --net "loss=1%;dead', "_after="),
                               ("softfabric capture --efa ge", "n="), ("softfabric why tx_attr.inj", "ect_size="),
                               ("softfabric run -p efa -- ech", "o"), ("softfabric why -- ech", "o")):
                os.write(fd, line.encode() + b"\t")
                self.until(fd, line + more)
                os.write(fd, b"\x15")  # the line goes
        finally:
            os.close(fd)
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)

    def until(self, fd, wanted):
        """Reads the terminal until @wanted stands there."""
        seen, deadline = "", time.monotonic() + LIMIT_S
        while wanted not in seen:
            left = deadline - time.monotonic()
            if left <= 0 or not select.select([fd], [], [], left)[0]:
                self.fail("no %r in %r" % (wanted, seen))
            seen += os.read(fd, 4096).decode(errors="replace")


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], sys.argv[3]], verbosity=2)
