#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""Fills man pages and shell completions from the tables in the sources, so that they cannot drift from them.

tables.py [--root DIR] FILE     FILE with each line or word @KEYS net@, @PARAMS efa@ (manual pages, scdoc), @WORDS net@,
                                @WORDS hints@ and @VALUES net@ (completions) replaced, on standard output
A row that this does not understand is an error: the number of rows must be that of the table's.
"""
import argparse
import glob
import os
import re
import sys

# The tables of what SOFTFABRIC_NET and so on may hold, and of FI_EFA_* and so on.
KEYS = {"net": ("src/link/core/room.c", "room_keys"), "efa": ("src/nic/efanic/efanic_dev.c", "room_key"),
        "cxi": ("src/nic/cassini/cassini_dev.c", "room_key"), "opx": ("src/nic/hfi/hfi_unit.c", "room_key")}
SERVICE = ("src/nic/cassini/cassini_dev.c", "svc_key")
PARAMS = "src/prov/%s/%s_param.c"
HINTS = ("cmd/probe_offer.c", "field_tab")
FORM = {"U64": "number", "NS": "time", "PPM": "share", "STR": "text", "BOOL": "yes|no", "WORDS": "words",
        "WORD": "word"}
STRING = r'((?:(?:"(?:[^"\\]|\\.)*"|[A-Z_]+)\s*)+)'


def table(root, path, name):
    """The text of @path, and of the rows of the array @name in it."""
    with open(os.path.join(root, path), encoding="utf-8") as f:
        text = f.read()
    m = re.search(r"\b%s\[\w*\] = \{\n(.*?)\n\};" % name, text, re.S)
    if not m:
        sys.exit("%s: no table %s" % (path, name))
    return text, m.group(1)


def joined(text, literals):
    """C's string literals, macros among them, as one text."""
    out = ""
    for quoted, macro in re.findall(r'"((?:[^"\\]|\\.)*)"|([A-Z_]+)', literals):
        if macro:
            m = re.search(r'#define %s\s+"(.*)"' % macro, text)
            quoted = m.group(1) if m else ""
        out += quoted.replace('\\"', '"')
    return out


def words_of(text, value):
    """The legal words that a row names: a literal, a macro, or a constant array."""
    if value == "NULL":
        return ""
    constant = re.search(r'\bchar %s\[\] = "(.*)";' % re.escape(value), text)
    return constant.group(1) if constant else joined(text, value)


def number(root, path, expr):
    """What the constant expression @expr of the file @path is, with the macros of that file and of all headers."""
    def macro(m):
        name = m.group(0)
        if name == "INT32_MAX":
            return str(2**31 - 1)
        for f in [path, *sorted(glob.glob("src/**/*.h", root_dir=root, recursive=True))]:
            with open(os.path.join(root, f), encoding="utf-8") as header:
                found = re.search(r"#define %s\s+(.*?)\s*(?:/\*.*)?$" % name, header.read(), re.M)
            if found:
                return str(number(root, f, found.group(1)))
        sys.exit("%s: no value for %s" % (path, name))
    expr = expr.strip()
    if re.fullmatch(r"0x1p\d+", expr):
        return int(float.fromhex(expr))
    if re.fullmatch(r"[\d.]+e\d+", expr):
        return int(float(expr))
    expr = re.sub(r"\b[A-Za-z_]\w*", macro, re.sub(r"\b(0x[0-9a-f]+|\d+)u\b", r"\1", expr))
    if not re.fullmatch(r"[0-9a-fx ()<+*-]+", expr):
        sys.exit("%s: %s is not understood" % (path, expr))
    return eval(expr)  # digits and operators only


def limit(form, v):
    """The number @v of a range as the user would write it."""
    if form == FORM["NS"]:
        return "%gs" % (v / 1e9)
    for mult, suffix in ((2**30, "Gi"), (2**20, "Mi")):
        if v and v % mult == 0:
            return "%d%s" % (v // mult, suffix)
    return str(v)


def keys(root, path, name):
    """[(key, form, help, words, range, unset)]; the key without a name is "" and left out."""
    text, rows = table(root, path, name)
    macro = re.search(r"#define (?:MAX|SVC)_KEY\([^\n]*(?:\\\n[^\n]*)?help_, ([^,]+), ([^,]+), NULL", text)
    found = []
    word = r'"[^"]*"|\w+'
    rest = r",\s*([^,{}]+),\s*([^,{}]+),\s*(%s)(?:,\s*\"([^\"]*)\")?\}" % word
    pattern = r'\{"(\w*)", CONF_(\w+),[^"{}]*?' + STRING + rest + \
        r'|(?:MAX|SVC)_KEY\("(\w+)", \w+, "([^"]*)"(?:, "([^"]*)")?\)'
    for m in re.finditer(pattern, rows):
        if m.group(8):
            key, kind, low, high, unset = m.group(8), "U64", *macro.groups(), m.group(10)
            found.append((key, FORM[kind], m.group(9), "", span(root, path, kind, low, high), unset))
            continue
        key, kind, help_, low, high, words, unset = m.groups()[:7]
        legal = span(root, path, kind, low, high)
        found.append((key, FORM[kind], joined(text, help_), words_of(text, words), legal, unset))
    if len(found) != len(re.findall(r"CONF_\w+,|(?:MAX|SVC)_KEY\(", rows)):
        sys.exit("%s: a row of %s is not understood" % (path, name))
    return [k for k in found if k[0]]


def span(root, path, kind, low, high):
    """The legal range that a row states, in words; "" if it is the type's own."""
    low, high = number(root, path, low), number(root, path, high)
    if not high:
        return ""
    return "%s to %s" % (limit(FORM[kind], low), limit(FORM[kind], high))


def params(root, provider):
    """[(name, type, help)] of FI_<PROVIDER>_*."""
    path = PARAMS % (provider, provider)
    text, rows = table(root, path, provider + "_param_tab")
    found = re.findall(r"\bROW\((\w+), KIT_(\w+),\s*[^\"]*?,\s*" + STRING + r"\)", rows)
    if len(found) != len(re.findall(r"\bROW\(", rows)):
        sys.exit("%s: a row is not understood" % path)
    return [(n, t, joined(text, h)) for n, t, h in found]


def hints(root):
    _, rows = table(root, *HINTS)
    rows = rows.split("\n", 2)[2]
    found = re.findall(r'\bF\(\w+, \w+, "([\w.]*)", (\w+), \w+\)', rows)
    if len(found) != len(re.findall(r"\bF\(", rows)):
        sys.exit("%s: a row is not understood" % HINTS[0])
    return [prefix + member for prefix, member in found]


def plain(text):
    """@text with what scdoc would take for its own escaped."""
    text = re.sub(r"([\\*_#`~<>\[\]])", r"\\\1", text.strip())
    return text[0].upper() + text[1:] + ("" if text.endswith((".", ")")) else ".")


def keys_page(rows):
    out = []
    for name, form, text, words, legal, unset in rows:
        values = words.replace(",", "|") if words else form
        legal = legal and ", " + legal
        unset = " (Default: %s)" % plain_name(unset) if unset else ""
        out.append("*%s*=_%s_%s\n\t%s%s\n" % (plain_name(name), plain_name(values), legal, plain(text), unset))
    return "\n".join(out)


def plain_name(text):
    return text.replace("_", "\\_")


def params_page(provider, rows):
    out = []
    for name, kind, text in rows:
        out.append("*FI\\_%s\\_%s* (%s)\n\t%s\n" % (provider.upper(), plain_name(name.upper()), kind.lower(),
                                                    plain(text)))
    return "\n".join(out)


def replacement(root, what, name):
    if what == "PARAMS":
        return params_page(name, params(root, name))
    if what == "KEYS":
        return keys_page(keys(root, *(SERVICE if name == "svc" else KEYS[name])))
    if what == "VALUES":  # as zsh's _values wants keys that take one
        return " ".join(k[0] + ":value:" for k in keys(root, *KEYS[name]))
    return " ".join(hints(root) if name == "hints" else [k[0] for k in keys(root, *KEYS[name])])


def main():
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument("--root", default=os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    ap.add_argument("file")
    args = ap.parse_args()
    with open(args.file, encoding="utf-8") as f:
        text = f.read()
    sys.stdout.write(re.sub(r"@(KEYS|PARAMS|WORDS|VALUES) (\w+)@", lambda m: replacement(args.root, *m.groups()), text))


if __name__ == "__main__":
    main()
