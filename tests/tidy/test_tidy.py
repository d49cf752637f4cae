#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""tools/tidy.py finds what it is there to find: a small tree with one breach of each kind."""
import os
import subprocess
import sys
import tempfile

TOOL = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../tools/tidy.py")
HEAD = "// SPDX-License-Identifier: BSD-2-Clause\n// Owns nothing.\n"


def hops(*rows):
    return "".join("| %s | `src/link/hops.c` | `%s()` | x |\n" % row for row in rows)


FILES = {
    "src/base/good.h": HEAD + "#include <stddef.h>\nsize_t good(void);\n",
    "src/base/upward.c": HEAD + '#include "link/link.h"\n',
    "src/link/link.h": HEAD + "#include <rdma/fabric.h>\n",
    "src/nic/efanic/efanic.c": HEAD + '#include "link/link_int.h"\n#include "nic/hfi/hfi.h"\n',
    "src/nic/common/nic_x.c": HEAD + '#include "link/link.h"\n#include "nic/common/nic_x.h"\n'
    '#include "nic/hfi/hfi.h"\n',
    "src/kit/kit.c": HEAD + '#include "link/link.h"\n',
    "src/prov/efa/efa.c": HEAD + '#include "nic/efanic/efanic_wire.h"\n#include "kit/kit_int.h"\n'
    'void f(void)\n{\n\tabort();\n\tgetenv("A");\n\tsecure_getenv("A");\n}\n',
    "src/base/lacks.h": HEAD + "size_t lacks(void);\n",
    "src/base/long.c": HEAD + "void tall(void)\n{\n" + "\t;\n" * 70 + "}\n" + "\n" * 800,
    "src/base/wide.c": HEAD + "void wide(int a, int b, int c, int d, int (*e)(int, int), int f, int g, int h)\n{\n}\n",
    "src/base/headless.c": "int x;\n",
    "src/base/allowed.c": HEAD + "void grown(int a, int b, int c, int d, int e, int f, int g, int h)\n{\n}\n",
    "tests/conform/old.c": HEAD + "// FI_MR_BASIC\nint x = FI_MR_BASIC;\n#define KIT_MR_BASIC 1 /* FI_MR_BASIC */\n",
    "tests/unit/later.c": HEAD + "/* TO" + "DO */\n",
    "cmd/tall.py": "def tall():\n" + "    pass\n" * 70,
    "src/link/rel_x.c": HEAD + "/* rel_gone() in rel_y.c, rel_here() in link/rel_x.c, memcpy_s() by x.c */\n"
    "int rel_here(void)\n{\n\treturn 0;\n}\n"
    "// doc/facts/a.md#some-words, #nothing; doc/facts/b.md\n"
    "// enum rel_none, struct rel_none; LINK_NONE; rel_*.h, rel_*.c; rel_XYZ.c\n"
    "const char *s = \"/* rel_string() */\";\n" + "int w;" + " " * 113 + ";;\n",
    "src/link/rel_call.inc": HEAD + "/* rel_gone_too() */\nvoid tall_call(void)\n{\n" + "\t;\n" * 70 + "}\n",
    "cmd/rel.lua.in": "-- rel_gone_there()\n" + "\n" * 800 + "w" * 121 + "\n",
    "doc/a.7.scd.in": "rel_gone_page() of src/link/rel_call.inc and src/link/rel_none.inc\n",
    "doc/facts/a.md": "# A\n\n## Some words\n\n"
    "See `rel_here()` of `src/link/rel_x.c` and `rel_past()` of `base/none.h`.\n"
    + "w" * 121 + "\n| " + "w" * 121 + "\n* https://" + "w" * 121 + "\nSee also https://" + "w" * 121 + "\n",
    "tests/conform.4711.btr": "frame 0\n",
    "doc/b.md": "`rel_past()`, `softly_gone()`, [a](facts/a.md#some-words), [b](facts/a.md#no-words)\n",
    "doc/life-of-a-test.md": "| 1 | `src/base/wide.c` | `gone()` | x |\n"
    "| 2 | `src/base/none.c` | `wide()` | `good()` |\n",
    "src/link/hops.c": HEAD + "void hop_a(void)\n{\n}\nvoid hop_b(void)\n{\n\thop_a();\n}\n"
    "void hop_c(void)\n{\n\thop_b();\n}\n",
    "doc/life-of-a-send.md": "# Of efa\n\n## Out\n\n" + hops(
        ("1", "hop_c"), ("2a", "hop_a"), ("2b", "hop_b"),
        *(("3b", "hop_a"),) * 5, ("4c", "hop_none"), ("5d", "hop_none")) +
    "# The same over cxi\n\n## Out\n\n" + hops(("1a", "hop_c"), ("2a", "hop_b")) * 7,
    "tools/tidy_allow.txt": "params src/base/allowed.c grown 8\nlines src/base/good.h 900\n",
}

WANT = [
    'src/base/upward.c:3: may not include "link/link.h"',
    "src/link/link.h:3: may not include <rdma/fabric.h>",
    'src/nic/efanic/efanic.c:3: may not include "link/link_int.h"',
    'src/nic/efanic/efanic.c:4: may not include "nic/hfi/hfi.h"',
    'src/nic/common/nic_x.c:5: may not include "nic/hfi/hfi.h"',
    'src/kit/kit.c:3: may not include "link/link.h"',
    'src/prov/efa/efa.c:3: may not include "nic/efanic/efanic_wire.h"',
    'src/prov/efa/efa.c:4: may not include "kit/kit_int.h"',
    "src/prov/efa/efa.c:7: abort(",
    "src/prov/efa/efa.c:8: getenv(",
    "src/base/lacks.h:1: does not compile alone",
    "src/base/long.c:1: lines in a file: 875",
    "src/base/long.c:3: lines in tall(): 73",
    "src/base/wide.c:3: parameters of wide(): 8",
    "src/base/headless.c:1: no SPDX line",
    "tests/conform/old.c:4: int x = FI_MR_BASIC: libfabric 2's headers warn",
    "tests/unit/later.c:3: TO" + "DO",
    "cmd/tall.py:1: no SPDX line",
    "cmd/tall.py:1: lines in tall(): 71",
    "doc/life-of-a-send.md:1: hop_a() is called by none of those in front of it: one is missing",
    "doc/life-of-a-send.md:1: cxi: functions of a small send, rows a: 14, at most 12",
    "doc/life-of-a-send.md:1: functions of a small send, rows a: [2, 14], more than 2 apart",
    "doc/life-of-a-send.md:1: functions of a small send, rows b: [0, 7], more than 3 apart",
    "doc/life-of-a-send.md:13: no function hop_none() in src/link/hops.c",
    "doc/life-of-a-send.md:14: no function hop_none() anywhere",
    "doc/life-of-a-test.md:1: no function gone() in src/base/wide.c",
    "doc/life-of-a-test.md:2: no function wide() in src/base/none.c",
    "doc/life-of-a-test.md:2: no file src/base/none.c",
    "src/link/rel_x.c:3: no function rel_gone() anywhere",
    "src/link/rel_x.c:3: no file rel_y.c",
    "src/link/rel_x.c:8: no section nothing in doc/facts/a.md",
    "src/link/rel_x.c:8: no file doc/facts/b.md",
    "src/link/rel_x.c:9: no enum rel_none anywhere",
    "src/link/rel_x.c:9: no struct rel_none anywhere",
    "src/link/rel_x.c:9: no LINK_NONE anywhere",
    "src/link/rel_x.c:9: no file rel_*.h",
    "src/link/rel_x.c:11: 121 columns, at most 120",
    "src/link/rel_call.inc:3: no function rel_gone_too() anywhere",
    "src/link/rel_call.inc:4: lines in tall_call(): 73",
    "cmd/rel.lua.in:1: no SPDX line",
    "cmd/rel.lua.in:1: lines in a file: 802",
    "cmd/rel.lua.in:1: no function rel_gone_there() anywhere",
    "cmd/rel.lua.in:802: 121 columns, at most 120",
    "doc/a.7.scd.in:1: no function rel_gone_page() anywhere",
    "doc/a.7.scd.in:1: no file src/link/rel_none.inc",
    "doc/facts/a.md:5: no file base/none.h",
    "doc/facts/a.md:6: 121 columns, at most 120",
    "doc/facts/a.md:9: 138 columns, at most 120",
    "tests/conform.4711.btr:1: left behind",
    "doc/b.md:1: no function rel_past() anywhere",
    "doc/b.md:1: no section no-words in doc/facts/a.md",
    "tools/tidy_allow.txt:1: 'lines src/base/good.h 900' is larger than needed",
]
NOT = ["no file src/link/rel_call.inc", "src/nic/common/nic_x.c:3:", "src/nic/common/nic_x.c:4:",
       "src/prov/efa/efa.c:9:", "tests/conform/old.c:3:", "tests/conform/old.c:5:", "src/base/good.h:",
       "src/base/allowed.c:", "rel_here", "memcpy_s", "no file x.c", "some-words", "no file rel_*.c", "rel_XYZ",
       "rel_string", "softly_gone", "doc/facts/a.md:5: no function", "doc/facts/a.md:7:", "doc/facts/a.md:8:"]


def run(root, *args):
    return subprocess.run([sys.executable, TOOL, "--root", root, *args], capture_output=True, text=True, check=False)


def main():
    failed = 0
    with tempfile.TemporaryDirectory() as root:
        for name, text in FILES.items():
            path = os.path.join(root, name)
            os.makedirs(os.path.dirname(path), exist_ok=True)
            with open(path, "w", encoding="utf-8") as fh:
                fh.write(text)
        p = run(root)
        if p.returncode != 1 or p.stderr:
            print("exit %d, %s" % (p.returncode, p.stderr))
            failed = 1
        for w in WANT:
            if w not in p.stdout:
                print("not found: " + w)
                failed = 1
        for w in NOT:
            if w in p.stdout:
                print("found without reason: " + w)
                failed = 1
        run(root, "--shrink")
        with open(os.path.join(root, "tools/tidy_allow.txt"), encoding="utf-8") as fh:
            if fh.read() != "params src/base/allowed.c grown 8\n":
                print("--shrink did not drop just the stale entry")
                failed = 1
    if failed:
        print(p.stdout)
    return failed


if __name__ == "__main__":
    sys.exit(main())
