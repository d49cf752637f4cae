# SPDX-License-Identifier: BSD-2-Clause
"""What all verbs share of input and output: refusals in one sentence, options, tables, JSON, progress.

Exit status: 0 done; 1 a finding, a refusal of fi_getinfo, something missing; 2 the command line; `run` has its
command's own, 125 where the command was not started, 126 and 127 where it cannot be, as env(1).
"""
import argparse
import difflib
import errno
import json
import os
import re
import sys
import time


PATIENCE_S = 2  # what takes longer says what it does


class Refused(Exception):
    """One sentence that says what is wrong and how to mend it, and the exit status."""

    def __init__(self, sentence, status=2):
        super().__init__(sentence)
        self.status = status


def sentence_of(e):
    """What no verb has expected of the system."""
    if not e.filename and e.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO, errno.EBADF):
        return "standard output cannot be written: %s" % e.strerror
    if str(e.strerror).startswith("No usable temporary directory"):
        return "no folder for temporary files can be written: have TMPDIR name one"
    return "%s%s" % (e.strerror or e, ": %s" % e.filename if e.filename else "")


def refuse(sentence):
    try:
        sys.stderr.write("softfabric: %s\n" % sentence)
        sys.stderr.flush()
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 2)  # nobody will know, but for the exit status


def nearest(word, known, least=0.6):
    """"; did you mean 'x'?", or nothing."""
    near = difflib.get_close_matches(word, list(known), 1, least)
    return " (did you mean '%s'?)" % near[0] if near else ""


class Parser(argparse.ArgumentParser):
    """Options of a verb; mistakes are one sentence, with the nearest option that there is."""

    def __init__(self, **kw):
        super().__init__(formatter_class=argparse.RawDescriptionHelpFormatter, allow_abbrev=False, **kw)
        self.last_json = []  # the word behind --json, if any

    def error(self, message):
        choice = re.match(r"argument (\S+): invalid choice: '(.*?)' \(choose from (.*)\)", message)
        if choice:
            message = "%s takes %s, not %s" % (choice.group(1).split("/")[-1],
                                               choice.group(3).replace("'", ""), choice.group(2))
        no_number = re.match(r"argument (\S+): invalid (?:int|float) value: '(.*)'", message)
        if no_number:
            message = "%s takes a number, not %s" % (no_number.group(1).split("/")[-1], no_number.group(2))
        m = re.match(r"unrecognized arguments: (\S+)", message)
        if m:
            options = [o for a in self._actions for o in a.option_strings]
            message = "unknown option or argument %s%s" % (m.group(1), nearest(m.group(1).split("=")[0], options))
            if self.last_json == [m.group(1)]:
                message += "; a file for --json is given as --json=%s" % m.group(1)
        raise Refused("%s; see %s --help" % (message, self.prog))

    def format_help(self):
        return super().format_help().replace("--json FILE", "--json[=FILE]")

    def add_json(self, what):
        self.add_argument("--json", metavar="FILE",
                          help="%s as JSON, to FILE, or --json alone to standard output" % what)

    def parse_args(self, args=None, namespace=None):
        # The word behind --json is another argument, never its value.
        args = list(args)
        self.last_json = args[args.index("--json") + 1:][:1] if "--json" in args else []
        got = super().parse_args(["--json=-" if a == "--json" else a for a in args], namespace)
        for a in self._actions:
            if a.option_strings and getattr(got, a.dest, None) == "":
                self.error("%s has no value" % a.option_strings[-1])
        return got


def split_command(argv):
    """Arguments before and after the first "--"; None if there is no "--"."""
    if "--" not in argv:
        return argv, None
    at = argv.index("--")
    return argv[:at], argv[at + 1:]


def put_json(where, value):
    text = json.dumps(value, indent=2) + "\n"
    if where == "-":
        sys.stdout.write(text)
        return
    try:
        with open(where, "w", encoding="utf-8") as f:
            f.write(text)
    except OSError as e:
        raise Refused("%s cannot be written: %s" % (where, e.strerror), 1) from None


def table(rows, out=None, indent="  "):
    """Rows of equal length, the first one the heads; numbers to the right."""
    rows = [[str(c) for c in r] for r in rows]
    width = [max(len(r[i]) for r in rows) for i in range(len(rows[0]))]
    right = [all(re.fullmatch(r"[\d.,]*( ?[kMGTi%B]+)?", r[i]) for r in rows[1:]) for i in range(len(rows[0]))]
    for r in rows:
        line = "  ".join(c.rjust(w) if rgt else c.ljust(w) for c, w, rgt in zip(r, width, right))
        print((indent + line).rstrip(), file=out or sys.stdout)


def amount(n):
    """1234567 -> 1.2 MB"""
    if n >= 1 << 63:
        return "unlimited"
    for unit in ("B", "kB", "MB", "GB"):
        if n < 1000:
            return "%d B" % n if unit == "B" else "%.1f %s" % (n, unit)
        n /= 1000
    return "%.1f TB" % n


class Progress:
    """Says on a terminal what is going on, once it has taken two seconds."""

    def __init__(self):
        self.began = time.monotonic()
        self.shown = False

    def say(self, text):
        if time.monotonic() - self.began > PATIENCE_S and os.isatty(2):
            self.shown = True
            sys.stderr.write("\r\033[Ksoftfabric: %s ..." % text)
            sys.stderr.flush()

    def end(self):
        if self.shown:
            sys.stderr.write("\r\033[K")
            self.shown = False
