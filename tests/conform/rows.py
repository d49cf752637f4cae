#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""Every conformance test that meson knows, those of the soak too, has something to run: a row without any would be SKIP for ever."""
import json
import os
import subprocess
import sys


def rows(build):
    for kind in ("tests", "benchmarks"):
        with open(os.path.join(build, "meson-info", "intro-%s.json" % kind), encoding="utf-8") as fh:
            for t in json.load(fh):
                if os.path.basename(t["cmd"][0]) == "conform":
                    yield t["name"], t["cmd"]


def main():
    seen, empty = 0, []
    for name, cmd in rows(sys.argv[1]):
        seen += 1
        if not subprocess.run(cmd + ["-l"], capture_output=True, text=True, check=True).stdout:
            empty.append(name)
    for name in empty:
        print("nothing to run: " + name)
    print("%d rows" % seen)
    return 1 if empty or not seen else 0


if __name__ == "__main__":
    sys.exit(main())
