#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""Runs a tutorial from its own text: tutorial.py COMMAND FILE.

Each block ```sh is run by one bash, in a folder of its own, and must end with status 0; the block ```text behind it are
lines that it must print, in that order, others between them: ... stands for anything.
"""
import os
import re
import shutil
import subprocess
import sys
import tempfile

LIMIT_S = 300
SKIP = 77
# Programs of others that a tutorial may run.
PROGRAMS = ("fi_pingpong", "fi_info", "mpirun", "mpicc", "munged", "slurmctld", "slurmd", "srun")


def blocks(text):
    """[(language, lines)]"""
    return [(m.group(1), m.group(2).splitlines()) for m in re.finditer(r"^```(\w*)\n(.*?)^```$", text, re.S | re.M)]


def missing_line(wanted, said):
    """The first line of @wanted that @said lacks behind the one before; None."""
    at = 0
    for want in wanted:
        pattern = re.compile(".*".join(re.escape(p) for p in want.strip().split("...")))
        while at < len(said) and not pattern.fullmatch(said[at].strip()):
            at += 1
        if at == len(said):
            return want
        at += 1
    return None


def run_all(parts, env, folder):
    """All blocks ```sh in one bash, which keeps what they export; a mark in its output ends each."""
    script = "set -e\n"
    for kind, lines in parts:
        script += "\n".join(lines) + "\necho ==end-of-block\n" if kind == "sh" else ""
    p = subprocess.run(["bash", "-c", script], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                       stderr=subprocess.STDOUT, text=True, timeout=LIMIT_S, env=env, cwd=folder, check=False)
    return p.returncode, p.stdout


def check(parts, status, output):
    """What is wrong, or nothing."""
    said = [b.splitlines() for b in output.split("==end-of-block\n")]
    if status:
        return "block %d ended with status %d" % (len(said), status)
    at = -1
    for kind, lines in parts:
        at += kind == "sh"
        lacking = missing_line(lines, said[at]) if kind == "text" else None
        if lacking:
            return "block %d does not print: %s" % (at + 1, lacking)
    return None


def main():
    command, file = os.path.abspath(sys.argv[1]), sys.argv[2]
    with open(file, encoding="utf-8") as f:
        parts = blocks(f.read())
    if not any(kind == "sh" for kind, _ in parts):
        sys.exit("%s has nothing to run" % file)
    text = " ".join(" ".join(lines) for kind, lines in parts if kind == "sh")
    words = set(re.findall(r"\w+", text))
    for program in PROGRAMS:
        if program in words and not shutil.which(program):
            print("SKIP: %s is not installed" % program)
            sys.exit(SKIP)
    if "--hosts" in text and subprocess.run(["unshare", "-Urmn", "true"], check=False).returncode:
        print("SKIP: this system permits no virtual hosts")
        sys.exit(SKIP)
    if "slurmd" in words and subprocess.run(["unshare", "-mn", "true"], check=False).returncode:
        print("SKIP: slurmd starts tasks as root only, and this system permits root no virtual hosts")
        sys.exit(SKIP)
    env = {k: v for k, v in os.environ.items() if not k.startswith(("SOFTFABRIC_", "FI_", "OMPI_", "PRTE_", "HYDRA_"))}
    env.update({"PATH": os.path.dirname(command) + ":" + env["PATH"], "IPATH_NO_BACKTRACE": "1"})
    with tempfile.TemporaryDirectory(prefix="softfabric-tutorial.") as folder:
        status, output = run_all(parts, {**env, "TMPDIR": folder}, folder)
    wrong = check(parts, status, output)
    if wrong:
        print(output)
        sys.exit("%s: %s" % (file, wrong))


if __name__ == "__main__":
    main()
