#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""Rules of the house that a compiler does not check: layers, sizes, self-contained headers, words, width of lines, and
that comments and documents name only what there is.

tidy.py [--root DIR]            check; exit 1 with one line per breach
tidy.py [--root DIR] --shrink   lower or drop entries of tools/tidy_allow.txt that are larger than they need to be;
                                never adds any
"""
import argparse
import ast
import fnmatch
import json
import os
import re
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor

FILE_LINES, FUNC_LINES, FUNC_PARAMS, COLUMNS = 800, 70, 7, 120
# Functions that a tagged send of 8 bytes walks through, to a peer on this host (a) and on another one (b); how far the
# providers are apart. The goal for b is 20.
HOPS_MOST, HOPS_APART = {"a": 12, "b": 18}, {"a": 2, "b": 3}
ALLOW = "tools/tidy_allow.txt"
CODE = ("src", "include", "tests", "cmd")
C_FILE = (".c", ".h", ".inc")
# What a configured file is made of: a script, a dissector in Lua, a manual page.
MADE_FROM = (".in",)

# Who may include whom: for a folder under src/, patterns of quoted includes and whether <rdma/...> is allowed. First
# match wins.
LAYERS = [
    (r"src/base/", [r"base/.*"], False),
    (r"src/link/", [r"base/.*", r"link/.*"], False),
    (r"src/nic/common/", [r"base/.*", r"link/link\.h", r"nic/common/.*"], False),
    (r"src/nic/(\w+)/", [r"base/.*", r"link/(link|hostpart)\.h", r"nic/(common|\1)/.*"], False),
    (r"src/verbs/", [r"base/.*", r"nic/efanic/efanic\.h", r"verbs/.*"], False),
    (r"src/kit/", [r"base/.*", r"kit/.*", r"fi_ext_softfabric\.h"], True),
    (r"src/prov/(\w+)/", [r"base/.*", r"kit/(?!\w*_int\.h).*", r"nic/{NIC}/{NIC}\.h", r"prov/\1/.*", r"fi_ext_\w+\.h",
                          r"fi_\w+_ext\.h", r"softfabric-direct/rdma/fi_direct_\1\.h"], True),
]
NIC_OF = {"efa": "efanic", "cxi": "cassini", "opx": "hfi"}

WORDS = [
    (re.compile(r"\babort\s*\("), "abort(): errors are return codes or completions", ("src",)),
    (re.compile(r"\bgetenv\s*\("),
     "secure_getenv(): who starts a program with other rights than his own chooses nothing", ("src",)),
    (re.compile(r"\b(TODO|FIXME|XXX)\b"), "unfinished business belongs in an issue", CODE),
    # outside comments; a machine with an older libfabric shows no warning
    (re.compile(r"^(?!\s*(//|/?\*)).*\bFI_(MR_(UNSPEC|BASIC|SCALABLE)|LOCAL_MR|ORDER_(NONE|STRICT|DATA)|REG_MR|"
                r"VARIABLE_MSG|RESTRICTED_COMP|EP_SOCK_STREAM)\b(?!.*\*/)"),
     "libfabric 2's headers warn of it or have it as 0, kit/deprecated.h has the name to use", CODE),
]

# In C: comments, and strings, in which comments do not begin.
TOKEN = re.compile(r'//[^\n]*|/\*.*?\*/|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\'', re.S)
# What comments and documents name, as far as it can be told from other words: files, sections of documents, functions,
# symbols.
FILE_NAME = re.compile(r"(?<![\w./*<-])((?:[\w*-]+/)*[\w*-]+\.(?:c|h|inc|py|sh|md|(?:\w+\.)?in))(?![\w.]*/)\b"
                       r"(#[\w-]+(?:, #[\w-]+)*)?")
CALL = re.compile(r"(?<![\w.>])([a-z]\w*_\w+)\(\)")
LAYER_NAMES = ("LINK", "EFANIC", "CASSINI", "HFI", "KIT", "EFA", "CXI", "OPX")
SYMBOL = re.compile(r"\b(struct|enum|union) ([a-z]\w*_\w+)\b|\b([A-Z][A-Z0-9]*_[A-Z0-9_]*[A-Z0-9])\b")


class Tidy:
    def __init__(self, root):
        self.root = root
        self.breaches = []
        self.seen = {}  # allow key -> actual value
        self.allow = {}
        self.files = sorted(
            os.path.relpath(os.path.join(d, f), root)
            for top in CODE
            for d, _, names in os.walk(os.path.join(root, top))
            for f in names
            if f.endswith(C_FILE)
        )
        self.text = {}
        for f in self.files:
            with open(os.path.join(root, f), encoding="utf-8") as fh:
                self.text[f] = fh.read()
        self.funcs = self.read_functions()

    def breach(self, path, line, text):
        self.breaches.append("%s:%d: %s" % (path, line, text))

    # --- functions, by ctags ---

    def read_functions(self):
        if not self.files:
            return []
        out = subprocess.run(
            ["ctags", "--output-format=json", "--fields=+neS", "--kinds-C=f", "--languages=C", "--langmap=C:.c.h.inc",
             "-L", "-", "-f", "-"],
            input="\n".join(self.files), cwd=self.root, capture_output=True, text=True, check=True).stdout
        return [json.loads(l) for l in out.splitlines() if l.startswith("{")]

    @staticmethod
    def params(signature):
        depth, n, body = 0, 1, signature.strip()[1:-1].strip()
        if body in ("", "void"):
            return 0
        for c in body:
            depth += c in "([{"
            depth -= c in ")]}"
            n += c == "," and depth == 0
        return n

    # --- the ratchet ---

    def read_allow(self):
        path = os.path.join(self.root, ALLOW)
        if not os.path.exists(path):
            return
        with open(path, encoding="utf-8") as fh:
            for line in fh:
                line = line.split("#")[0].split()
                if line:
                    self.allow[" ".join(line[:-1])] = int(line[-1])

    def limit(self, key, actual, normal, path, line, what):
        if actual <= normal:
            return
        self.seen[key] = actual
        if actual > max(self.allow.get(key, 0), normal):
            self.breach(path, line, "%s: %d, at most %d" % (what, actual, self.allow.get(key, normal)))

    def check_stale(self):
        for key, n in self.allow.items():
            if self.seen.get(key, 0) < n:
                self.breach(ALLOW, 1, "'%s %d' is larger than needed: run tools/tidy.py --shrink" % (key, n))

    def shrink(self):
        path = os.path.join(self.root, ALLOW)
        if not os.path.exists(path):
            return
        with open(path, encoding="utf-8") as fh:
            lines = fh.readlines()
        with open(path, "w", encoding="utf-8") as fh:
            for line in lines:
                part = line.split("#")[0].split()
                key = " ".join(part[:-1]) if part else None
                if key is None:
                    fh.write(line)
                elif key in self.seen:
                    fh.write("%s %d\n" % (key, min(self.allow[key], self.seen[key])))

    # --- checks ---

    def check_sizes(self):
        for f in self.files:
            self.limit("lines " + f, self.text[f].count("\n"), FILE_LINES, f, 1, "lines in a file")
        for f in sorted(p for p in self.all_files() if p.endswith(MADE_FROM)):
            self.limit("lines " + f, self.read(f).count("\n"), FILE_LINES, f, 1, "lines in a file")
            head = "".join(self.read(f).split("\n")[:2])
            if not f.endswith(".scd.in") and "SPDX-License-Identifier: BSD-2-Clause" not in head:
                self.breach(f, 1, "no SPDX line")
        for t in self.funcs:
            path, name, line = t["path"], t["name"], t["line"]
            sig = t.get("signature", "()")
            if "end" in t:
                self.limit("func %s %s" % (path, name), t["end"] - line + 1, FUNC_LINES, path, line,
                           "lines in %s()" % name)
            # signatures that libfabric imposes start with its objects
            if not re.match(r"\(\s*(const\s+)?(struct\s+fid\w*\s*\*|fid_t)", sig):
                self.limit("params %s %s" % (path, name), self.params(sig), FUNC_PARAMS, path, line,
                           "parameters of %s()" % name)

    def check_words(self):
        for f in self.files:
            for n, line in enumerate(self.text[f].split("\n"), 1):
                for pattern, why, where in WORDS:
                    if f.split("/")[0] in where and pattern.search(line):
                        self.breach(f, n, "%s: %s" % (pattern.search(line).group(0), why))

    def check_heads(self):
        for f in self.files:
            head = self.text[f].split("\n")[:2]
            if "SPDX-License-Identifier: BSD-2-Clause" not in head[0]:
                self.breach(f, 1, "no SPDX line")
            if len(head) < 2 or not head[1].startswith(("//", "/*")):
                self.breach(f, 2, "no sentence that says what the file owns")

    def check_python(self):
        """The same sizes for Python."""
        for top in ("cmd", "tests", "tools"):
            for d, _, names in os.walk(os.path.join(self.root, top)):
                for f in sorted(os.path.relpath(os.path.join(d, n), self.root) for n in names if n.endswith(".py")):
                    self.check_python_file(f)

    def check_python_file(self, f):
        with open(os.path.join(self.root, f), encoding="utf-8") as fh:
            text = fh.read()
        if "SPDX-License-Identifier: BSD-2-Clause" not in "".join(text.split("\n")[:2]):
            self.breach(f, 1, "no SPDX line")
        self.limit("lines " + f, text.count("\n"), FILE_LINES, f, 1, "lines in a file")
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.FunctionDef):
                self.limit("func %s %s" % (f, node.name), node.end_lineno - node.lineno + 1, FUNC_LINES, f, node.lineno,
                           "lines in %s()" % node.name)

    def check_layers(self):
        for f in self.files:
            for where, allowed, rdma in LAYERS:
                m = re.match(where, f)
                if m:
                    self.check_includes(f, m, allowed, rdma)
                    break

    def check_includes(self, f, m, allowed, rdma):
        group = m.group(1) if m.groups() else ""
        rules = [a.replace(r"\1", group).replace("{NIC}", NIC_OF.get(group, group)) for a in allowed]
        for n, line in enumerate(self.text[f].split("\n"), 1):
            quoted = re.match(r'\s*#\s*include\s+"([^"]+)"', line)
            angled = re.match(r"\s*#\s*include\s+<([^>]+)>", line)
            if quoted and not any(re.fullmatch(r, quoted.group(1)) for r in rules):
                self.breach(f, n, 'may not include "%s"' % quoted.group(1))
            if angled and angled.group(1).startswith("rdma/") and not rdma:
                self.breach(f, n, "may not include <%s>" % angled.group(1))
            if angled and os.path.exists(os.path.join(self.root, "src", angled.group(1))):
                self.breach(f, n, "our own header in angle brackets")

    def check_headers_alone(self):
        """Each header of src/ and include/ compiles alone, with its own includes only."""
        cc = os.environ.get("CC", "cc").split()
        if any("clang" in c for c in cc):
            quiet = ["-Wno-pragma-once-outside-header"]
        else:
            quiet = []
        heads = [f for f in self.files if f.endswith(".h") and not f.startswith("tests/")]

        def one(f):
            with tempfile.TemporaryDirectory() as tmp:
                src = os.path.join(tmp, "alone.c")
                with open(src, "w", encoding="utf-8") as fh:
                    fh.write('#include "%s"\n' % os.path.join(self.root, f))
                return f, subprocess.run(
                    cc + ["-std=gnu17", "-D_GNU_SOURCE", "-Isrc", "-Iinclude", "-fsyntax-only", "-Wall", "-Werror"]
                    + quiet + [src],
                    cwd=self.root, capture_output=True, text=True, check=False)

        with ThreadPoolExecutor(2) as pool:
            for f, p in pool.map(one, heads):
                if p.returncode:
                    self.breach(f, 1, "does not compile alone: %s" % p.stderr.strip().split("\n")[0])

    def check_doc_links(self):
        """A table row `src/file` | `function()`: it is there. Any other `function()`: it is somewhere."""
        doc = os.path.join(self.root, "doc")
        if not os.path.isdir(doc):
            return
        at = {(t["path"], t["name"]) for t in self.funcs}
        names = {t["name"] for t in self.funcs}
        for d in sorted(os.listdir(doc)):
            if not re.fullmatch(r"life-of-.*\.md", d):
                continue
            with open(os.path.join(doc, d), encoding="utf-8") as fh:
                for n, line in enumerate(fh, 1):
                    self.check_doc_line("doc/" + d, n, line, at, names)

    def check_doc_line(self, path, n, line, at, names):
        row = re.match(r"\|[^|]*\|\s*`([^`]+)`\s*\|\s*`(\w+)\(\)`\s*\|", line)
        if row and (row.group(1), row.group(2)) not in at:
            self.breach(path, n, "no function %s() in %s" % (row.group(2), row.group(1)))
        for name in re.findall(r"`(\w+)\(\)`", line):
            if name not in names and not name.startswith("fi_"):
                self.breach(path, n, "no function %s() anywhere" % name)

    # --- hops: how many functions a small send walks through, by doc/life-of-a-send.md ---

    def check_hops(self):
        """Each provider's table "Out", read for a tagged send of 8 bytes: rows with an a are for a peer on this host,
        with a b for one on another host, with a c for others than small ones, with a d for calls that say
        more. Each function but the first is called by one that stands before it, so that none in between is left out;
        and there are not too many of them."""
        path = "doc/life-of-a-send.md"
        full = os.path.join(self.root, path)
        if not os.path.exists(full):
            return
        with open(full, encoding="utf-8") as fh:
            text = fh.read()
        tables = re.findall(r"^# ([^\n]*)\n(?:(?!^# ).*\n)*?## Out\n((?:(?!^#).*\n)*)", text, re.M)
        counts = {"a": {}, "b": {}}
        for title, body in tables:
            prov = re.search(r"over (\w+)", title)
            for where in counts:
                rows = [r for r in self.hop_rows(body) if r[0] in ("", where)]
                counts[where][prov.group(1) if prov else "efa"] = len(rows)
                self.check_chain(path, rows)
        for where, most in HOPS_MOST.items():
            for prov, n in counts[where].items():
                what = "%s: functions of a small send, rows %s" % (prov, where)
                self.limit("hops %s %s" % (prov, where), n, most, path, 1, what)
            apart = counts[where].values()
            if apart and max(apart) - min(apart) > HOPS_APART[where]:
                what = (where, sorted(apart), HOPS_APART[where])
                self.breach(path, 1, "functions of a small send, rows %s: %s, more than %d apart" % what)

    @staticmethod
    def hop_rows(body):
        """Letter, function and file of each function that a table names in its third column."""
        out = []
        for line in body.split("\n"):
            row = re.match(r"\|\s*\d*([abcd]?)\s*\|\s*`([^`]+)`\s*\|([^|]*)\|", line)
            if row:
                out += [(row.group(1), f, row.group(2)) for f in re.findall(r"`(\w+)\(\)`", row.group(3))]
        return out

    def check_chain(self, path, rows):
        called = ""
        for letter, name, f in rows:
            by_pointer = "->%s(" % name.split("_", 1)[-1]
            if called and not re.search(r"\b%s\(" % name, called) and by_pointer not in called:
                self.breach(path, 1, "%s() is called by none of those in front of it: one is missing" % name)
            called += self.body(name, f)

    def body(self, name, path):
        for t in self.funcs:
            if t["name"] == name and t["path"] == path:
                lines = self.text[path].split("\n")[t["line"]:t.get("end", t["line"])]
                return "\n".join(lines) + "\n"
        return ""

    # --- names ---

    def check_names(self):
        """A file, section, function or symbol that a comment or a document names is there. What may be somebody else's
        is left alone: only names that begin as one of our source files does (rel_, shm_, cxi_) are ours for certain."""
        paths = self.all_files()
        names = {os.path.basename(p) for p in paths}
        ours = ({re.split(r"[_.]", os.path.basename(f))[0] for f in self.files if f.startswith("src/")}
                - {"log", "poll", "wait", "copy", "cap"})
        words = set()
        for f in paths:
            if not f.endswith((".md", ".scd.in")) and f != ALLOW:
                words.update(re.findall(r"\w+", self.without_comments(f)))
        for f, line, text in self.prose(paths):
            self.check_prose(f, line, text, (paths, names, ours, words))

    def all_files(self):
        """Paths of the tree, but for what was built."""
        out = []
        for d, dirs, names in os.walk(self.root):
            dirs[:] = [x for x in dirs
                       if not x.startswith(("build", ".git", ".cache", "__pycache__")) and x != "shared"]
            out += [os.path.relpath(os.path.join(d, n), self.root) for n in names]
        return set(out)

    def read(self, f):
        if f not in self.text:
            with open(os.path.join(self.root, f), encoding="utf-8", errors="replace") as fh:
                self.text[f] = fh.read()
        return self.text[f]

    def without_comments(self, f):
        text = self.read(f)
        if f.endswith(MADE_FROM):
            return "\n".join(l for l in text.split("\n") if not l.lstrip().startswith(self.comment_sign(f)))
        if not f.endswith(C_FILE):
            return text
        return TOKEN.sub(lambda m: " " if m.group(0)[0] == "/" else m.group(0), text)

    @staticmethod
    def comment_sign(f):
        return "--" if f.endswith(".lua.in") else "#"

    def prose(self, paths):
        """Comments, as (file, line, text), and documents, line by line."""
        for f in self.files:
            for m in TOKEN.finditer(self.text[f]):
                if m.group(0)[0] == "/":
                    for i, text in enumerate(m.group(0).split("\n")):
                        yield f, self.text[f].count("\n", 0, m.start()) + 1 + i, text
        for f in sorted(p for p in paths if re.search(r"\.(md|py|sh|in)$|meson", p)):
            is_document = f.endswith((".md", ".scd.in"))
            for n, text in enumerate(self.read(f).split("\n"), 1):
                if is_document or text.lstrip().startswith(self.comment_sign(f)):
                    yield f, n, text

    def check_prose(self, f, line, text, there):
        paths, names, ours, words = there
        for name, sections in FILE_NAME.findall(text):
            if re.search("[A-Z]{3}", name.replace("README", "").replace("CONTRIBUTING", "")):
                continue  # stands for another name
            self.check_named_file(f, line, name, (paths, names, ours))
            if name not in paths:  # a link in a document
                name = os.path.normpath(os.path.join(os.path.dirname(f), name))
            if sections and name in paths:
                for s in re.findall(r"#([\w-]+)", sections):
                    if s not in self.sections(name):
                        self.breach(f, line, "no section %s in %s" % (s, name))
        if f.startswith("doc/facts/"):
            return  # names of others
        for name in CALL.findall(text):
            if name.split("_")[0] in ours and name not in words:
                self.breach(f, line, "no function %s() anywhere" % name)
        for kind, name, constant in SYMBOL.findall(text):
            if kind and name.split("_")[0] in ours and name not in words:
                self.breach(f, line, "no %s %s anywhere" % (kind, name))
            if constant.split("_")[0] in LAYER_NAMES and constant not in words:
                self.breach(f, line, "no %s anywhere" % constant)

    def check_named_file(self, f, line, name, there):
        paths, names, ours = there
        if "*" in name:
            if not any(fnmatch.fnmatch(p, "*" + name) for p in paths):
                self.breach(f, line, "no file %s" % name)
        elif "/" not in name:
            if name not in names and re.split(r"[_.]", name)[0] in ours:
                self.breach(f, line, "no file %s" % name)
        elif re.match(r"(src|include|tests|tools|doc|cmd|base|link|kit|nic|prov)/", name):
            if not {name, "src/" + name, "doc/" + name, "tests/" + name} & paths:
                self.breach(f, line, "no file %s" % name)

    def sections(self, name):
        """Of a document: the names that its headings have as targets of links."""
        heads = re.findall(r"^#+ (.*)$", self.read(name), re.M)
        return {re.sub(r"[^\w -]", "", h.lower()).replace(" ", "-") for h in heads}

    def check_leftovers(self):
        """What crashes, merges and editors leave behind."""
        for f in sorted(self.all_files()):
            if re.fullmatch(r"(core|core\.\d+|vgcore\.\d+|.*\.(btr|orig|rej|swp)|.*~)", os.path.basename(f)):
                self.breach(f, 1, "left behind, no part of the project")

    def check_width(self):
        """Columns of code and documents. What cannot be broken may be wider: a row of a document's table, and a line
        that is one address, with at most one more word, such as the sign of a comment."""
        for f in sorted(self.all_files()):
            if not f.endswith(C_FILE + MADE_FROM + (".py", ".sh", ".md")) and "meson" not in f:
                continue
            for n, line in enumerate(self.read(f).split("\n"), 1):
                columns = len(line.expandtabs(8))
                is_row = f.endswith(".md") and line.lstrip().startswith("|")
                is_address = "://" in line and len(line.split()) <= 2
                if columns > COLUMNS and not is_row and not is_address:
                    self.breach(f, n, "%d columns, at most %d" % (columns, COLUMNS))

    def run(self):
        self.read_allow()
        self.check_sizes()
        self.check_words()
        self.check_heads()
        self.check_python()
        self.check_layers()
        self.check_headers_alone()
        self.check_doc_links()
        self.check_hops()
        self.check_names()
        self.check_leftovers()
        self.check_width()


def main():
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument("--root", default=os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    ap.add_argument("--shrink", action="store_true")
    args = ap.parse_args()
    tidy = Tidy(os.path.abspath(args.root))
    tidy.run()
    if args.shrink:
        tidy.shrink()
    else:
        tidy.check_stale()
    for b in tidy.breaches:
        print(b)
    if tidy.breaches:
        print("%d breaches" % len(tidy.breaches))
    return 1 if tidy.breaches else 0


if __name__ == "__main__":
    sys.exit(main())
