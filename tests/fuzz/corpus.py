#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""Inputs of a fuzz target as text, corpus/TARGET.hex: one in each line, in hex, the short ones first.

corpus.py expand HEX DIR     write each input into a file of its own in DIR; without HEX there is none
corpus.py keep CONTROL HEX LINES
                             write HEX from what libFuzzer's -set_cover_merge=1 noted in -merge_control_file=CONTROL
"""
import os
import sys

TEXT, LONGEST = 60000, 2048  # bytes of a file, bytes of an input


def expand(hex_file, folder):
    if not os.path.exists(hex_file):
        return
    with open(hex_file, encoding="ascii") as f:
        for i, line in enumerate(f):
            with open(os.path.join(folder, "kept-%02d" % (i + 1)), "wb") as out:
                out.write(bytes.fromhex(line))


def read_control(path):
    """The control file: number of inputs, a number that we do not need, their paths; then per input
    "FT index feature..."."""
    with open(path, encoding="utf-8") as f:
        lines = f.read().splitlines()
    paths, found = lines[2:2 + int(lines[0])], {}
    for line in lines[2 + len(paths):]:
        word = line.split()
        if word and word[0] == "FT":
            with open(paths[int(word[1])], "rb") as f:
                found.setdefault(f.read(LONGEST + 1), set()).update(word[2:])
    return {data: features for data, features in found.items() if 0 < len(data) <= LONGEST}


def choose(found, lines):
    """Greedily, what shows most that is new for its length. A line costs as much as 256 bytes: there are few of
    them."""
    chosen, seen, text = [], set(), 0
    while len(chosen) < lines:
        fits = [d for d in found if text + 2 * len(d) + 1 <= TEXT and found[d] - seen]
        if not fits:
            break
        best = max(fits, key=lambda d: (len(found[d] - seen) / (len(d) + 256), d))
        chosen.append(best)
        seen |= found[best]
        text += 2 * len(best) + 1
    return sorted(chosen, key=lambda d: (len(d), d))


def keep(control, hex_file, lines=60):
    found = read_control(control)
    chosen = choose(found, int(lines))
    with open(hex_file, "w", encoding="ascii") as f:
        f.writelines(d.hex() + "\n" for d in chosen)
    every, kept = (len(set().union(*(found[d] for d in some))) for some in (found, chosen))
    print("%s: %d of %d inputs, which show %d of %d features" % (hex_file, len(chosen), len(found), kept, every))


if len(sys.argv) < 4 or sys.argv[1] not in ("expand", "keep"):
    sys.exit(__doc__)
(expand if sys.argv[1] == "expand" else keep)(*sys.argv[2:])
