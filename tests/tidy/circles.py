#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""No circle of files that call one another: circles.py LIBRARY [MOST]. By the symbols of the library's members; a
circle is a group of more than MOST files (1) of which each reaches each. Of a larger one no part can be tested without
stand-ins for all others.

circles.py --test: a library of three files in a circle, and one beside them, is found out.
"""
import os
import subprocess
import sys
import tempfile


def members(library):
    """{member: (symbols that it has, symbols that it wants)}"""
    out = subprocess.run(["nm", "-A", "-g", library], capture_output=True, text=True, check=True).stdout
    found = {}
    for line in out.splitlines():
        name, _, rest = line.rpartition(":")
        has, wants = found.setdefault(os.path.basename(name.split(":")[-1]), (set(), set()))
        kind, symbol = rest.split()[-2:]
        (wants if kind in "Uvw" else has).add(symbol)
    return found


def calls(found):
    """{member: {other member: symbols of that one}}"""
    of = {symbol: name for name, (has, _) in found.items() for symbol in has}
    graph = {name: {} for name in found}
    for name, (has, wants) in found.items():
        for symbol in wants - has:
            if symbol in of:
                graph[name].setdefault(of[symbol], set()).add(symbol)
    return graph


def reached(graph, begin):
    seen, todo = set(), [begin]
    while todo:
        for other in graph[todo.pop()]:
            if other not in seen:
                seen.add(other)
                todo.append(other)
    return seen


def circles(graph):
    reach = {name: reached(graph, name) for name in graph}
    groups = {frozenset(o for o in graph if name in reach[o] and o in reach[name]) for name in graph}
    return sorted(sorted(g) for g in groups if len(g) > 1)


def check(library, most):
    graph = calls(members(library))
    if not any(graph.values()):
        print("SKIP: nm sees no symbols in %s" % library)
        return 77
    large = [c for c in circles(graph) if len(c) > most]
    for circle in large:
        print("%d files in a circle: %s" % (len(circle), " ".join(circle)))
        for name in circle:
            for other in sorted(set(graph[name]) & set(circle)):
                print("  %s calls %s in %s" % (name, ", ".join(sorted(graph[name][other])), other))
    return 1 if large else 0


def test():
    files = {"a": "int b(void); int a(void) { return b(); }", "b": "int c(void); int b(void) { return c(); }",
             "c": "int a(void); int c(void) { return a(); }", "d": "int a(void); int d(void) { return a(); }"}
    with tempfile.TemporaryDirectory() as tmp:
        for name, text in files.items():
            with open("%s/%s.c" % (tmp, name), "w", encoding="utf-8") as f:
                f.write(text)
        cc = os.environ.get("CC", "cc").split()
        subprocess.run(cc + ["-c"] + [n + ".c" for n in files], cwd=tmp, check=True)
        subprocess.run(["ar", "rc", "lib.a"] + [n + ".o" for n in files], cwd=tmp, check=True)
        found = circles(calls(members(tmp + "/lib.a")))
        said = check(tmp + "/lib.a", 1), check(tmp + "/lib.a", 3)
    if found != [["a.o", "b.o", "c.o"]] or said != (1, 0):
        print("found %s, said %s" % (found, said))
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(test() if sys.argv[1] == "--test" else check(sys.argv[1], int((sys.argv + ["1"])[2])))
