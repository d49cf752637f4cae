#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""Every conformance test that meson knows, those of the soak too, has something to run: a row without any would be SKIP
for ever."""
import fnmatch
import json
import os
import subprocess
import sys


def rows(build):
    for kind in ("tests", "benchmarks"):
        with open(os.path.join(build, "meson-info", "intro-%s.json" % kind), encoding="utf-8") as fh:
            for t in json.load(fh):
                if os.path.basename(t["cmd"][0]) == "conform":
                    yield t["name"], t["cmd"][0], options(t["cmd"][1:])


def options(args):
    """The options of a row by letter; -o has no value and stands last."""
    return dict(zip(args[::2], args[1::2])), "-o" in args


def what_runs(conform, prov, once):
    """(mode, name, variant) of all that a run of all variants has: to ask for each row alone takes a minute."""
    cmd = [conform, "-p", prov, "-v", "all", "-l"] + ["-o"] * once
    for line in subprocess.run(cmd, capture_output=True, text=True, check=True).stdout.splitlines():
        _, mode, name = line.split()
        name, _, variant = name.partition("@")
        yield mode, name, variant


def main():
    seen, empty, lists = 0, [], {}
    for name, conform, (opts, once) in rows(sys.argv[1]):
        key = (conform, opts["-p"], once)
        if key not in lists:
            lists[key] = list(what_runs(*key))
        seen += 1
        if not any(fnmatch.fnmatchcase(test, opts["-k"]) and variant == opts.get("-v", "") and
                   mode == opts.get("-m", mode) for mode, test, variant in lists[key]):
            empty.append(name)
    for name in empty:
        print("nothing to run: " + name)
    print("%d rows" % seen)
    return 1 if empty or not seen else 0


if __name__ == "__main__":
    sys.exit(main())
