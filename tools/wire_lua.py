#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""wire_lua.py FILE.lua.in WIRE.json: the file with @WIRE@ replaced by the description of all packets."""
import json
import sys


def lua(value):
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return json.dumps(value)
    if isinstance(value, (int, float)):
        # numbers that a double does not hold only bound ranges, from above
        return str(value) if value < 1 << 53 else "%.1f" % float(value)
    if isinstance(value, list):
        return "{" + ",".join(lua(v) for v in value) + "}"
    return "{" + ",".join("[%s]=%s" % (json.dumps(k), lua(v)) for k, v in value.items()) + "}"


with open(sys.argv[2], encoding="utf-8") as f:
    wire = json.load(f)
with open(sys.argv[1], encoding="utf-8") as f:
    sys.stdout.write(f.read().replace("@WIRE@", lua(wire)))
