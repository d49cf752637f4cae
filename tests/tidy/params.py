#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""Every parameter of cxi changes something, or stands in the list of those of which the log says that they do not."""
import glob
import os
import re
import sys

ROOT = sys.argv[1] if len(sys.argv) > 1 else os.path.join(os.path.dirname(os.path.abspath(__file__)), "../..")
TABLE = os.path.join(ROOT, "src/prov/cxi/cxi_param.c")

text = open(TABLE).read()
names = re.findall(r"^\tROW\((\w+),", text, re.M)
inert = re.findall(r'"(\w+)"', re.search(r"\binert\[\] = \{(.*?)\n\};", text, re.S).group(1))
rules = text[text.index("int cxi_params_get("):]
sources = glob.glob(os.path.join(ROOT, "src/prov/cxi/**/*.c"), recursive=True)
code = rules + "".join(open(f).read() for f in sources if f != TABLE)
wrong = [f"inert, but no parameter: {n}" for n in inert if n not in names]
for n in names:
    used = bool(re.search(rf"(->|\.){n}\b", code))
    if used == (n in inert):
        wrong.append(f"{n}: " + ("used, and said to be inert" if used else "neither used nor said to be inert"))
print("\n".join(wrong) or f"{len(names)} parameters, {len(inert)} of them inert")
sys.exit(bool(wrong) or not names)
