# SPDX-License-Identifier: BSD-2-Clause
"""Questions to the room and to libfabric through softfabric-probe, and what libfabric's prose about an fi_info says."""
import json
import os
import re
import subprocess

from . import folders, out, places

UNSAID = ("", "(null)", "0", "FI_FORMAT_UNSPEC", "Unknown")
SECTIONS = ("net", "efa", "cxi", "opx")
KNOWN = ("NET", "EFA", "CXI", "OPX", "CONF", "STATS", "LIVE", "PEERS", "WHY", "HOSTS", "VERBS_LOG", "STATS_OPS",
         "MODULE", "NAME", "PROV", "PROVIDERS", "NETNS", "NO_INSTALL", "MODULES")
# What these hints have is what the program is ready for; they are widened by adding, all others by leaving them out.
OFFERED_BY_PROGRAM = ("mode", "domain_attr.mr_mode", "domain_attr.mode", "tx_attr.mode", "rx_attr.mode")
SHORT = {"provider": "fabric_attr.prov_name", "prov": "fabric_attr.prov_name", "domain": "domain_attr.name",
         "fabric": "fabric_attr.name", "ep": "ep_attr.type", "ep_type": "ep_attr.type",
         "progress": "domain_attr.data_progress"}


def room(env=None):
    """What SOFTFABRIC_* of @env describe, as the adapters read it."""
    return json.loads(places.ask_probe(["room"], env))


def room_errors(r):
    """The sentences of what is refused, each once."""
    said = [r["net"].get("error")] + [r[p]["error"] for p in places.PROVIDERS]
    return list(dict.fromkeys(s for s in said if s))


def unheard(env):
    """Sentences of what nobody would read: variables whose names are nearly ours, and lines of SOFTFABRIC_CONF."""
    said = []
    for name in env:
        short = name[len("SOFTFABRIC_"):]
        # One letter or two: names of others may begin like ours.
        near = out.nearest(short, KNOWN, 0.8) if name.startswith("SOFTFABRIC_") and short not in KNOWN else ""
        if near:
            said.append("%s is read by nobody%s" % (name, near.replace("'", "'SOFTFABRIC_", 1)))
    try:
        with open(env.get("SOFTFABRIC_CONF") or os.devnull, encoding="utf-8", errors="replace") as f:
            lines = [re.sub(r"(^|\s)[#;].*", "", line).strip() for line in f]  # as conf_file_parse() does
    except OSError:  # the adapters say it
        return said
    section = None
    for line in lines:
        head = re.fullmatch(r"\[\s*(.*?)\s*\]", line)
        if head and head.group(1) not in SECTIONS:
            said.append("SOFTFABRIC_CONF: there is no section [%s]%s; sections: %s"
                        % (head.group(1), out.nearest(head.group(1), SECTIONS), ", ".join(SECTIONS)))
        elif not head and section is None and line:
            said.append("SOFTFABRIC_CONF: %s stands before any section: begin with one of [%s]"
                        % (line[:64], "], [".join(SECTIONS)))
        section = head.group(1) if head else section
    return said


def info_parse(text):
    """fi_tostr() of an fi_info as {field: word, number as text, or list of words}."""
    fields, part = {}, ""
    for line in text.splitlines():
        depth = len(line) - len(line.lstrip())
        m = re.match(r"\s*(\w+):\s*(.*)", line)
        if not m or depth < 4:
            continue
        name, value = m.groups()
        if depth == 4 and name.startswith("fi_") and not value:
            part = name[3:] + "."
            continue
        if depth == 4:
            part = ""
        if depth > 8 or (depth == 8 and not part):
            continue
        words = re.fullmatch(r"\[\s*(.*?)\s*\]", value)
        fields[part + name] = [w for w in words.group(1).split(", ") if w] if words else value.strip()
    return fields


def version_of(text):
    return [int(n) for n in text.split(".")]


def is_old(version):
    return version_of(version) < version_of(places.OLDEST)


class Libfabric:
    """One libfabric, kept open for questions."""

    def __init__(self, lib="-", env=None, any_version=False):
        env = places.env_with_modules(env if env is not None else os.environ)
        env.setdefault("FI_LOG_LEVEL", "none")
        self.tmp = folders.Folder("softfabric-")
        self.asked = 0
        try:
            self.p = subprocess.Popen([places.probe, "offer", lib], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                      stderr=subprocess.DEVNULL, text=True, env=env)
        except OSError as e:
            raise out.Refused("%s cannot be run (%s): build it (ninja), or install the package again"
                              % (places.probe, e.strerror), 1) from None
        self.known = self.line()
        if "error" in self.known:
            self.close()
            raise out.Refused("libfabric cannot be loaded (%s): install it (Debian: apt install libfabric1)"
                              % self.known["error"], 1)
        self.version = self.known["version"]
        if is_old(self.version) and not any_version:
            self.close()
            raise out.Refused("libfabric is %s: %s or later is needed (Debian 12 has it)"
                              % (self.version, places.OLDEST), 1)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def close(self):
        if self.p:
            self.p.stdin.close()
            self.p.stdout.close()
            self.p.wait()
            self.p = None
        self.tmp.cleanup()

    def line(self):
        text = self.p.stdout.readline()
        if not text:
            raise out.Refused("softfabric-probe ended (status %s) while libfabric was asked" % self.p.wait(), 1)
        return json.loads(text)

    # --- hints ---

    def field(self, name):
        """The full name of a field of fi_info: 'mr_mode' is domain_attr.mr_mode."""
        fields = self.known["fields"]
        name = SHORT.get(name, name.replace("->", "."))
        if name in fields or name == "api":
            return name
        same = [f for f in fields if f.endswith("." + name)]
        if len(same) == 1:
            return same[0]
        if same:
            raise out.Refused("%s is a field of several structures: %s" % (name, ", ".join(same)))
        known = list(fields) + [f.split(".")[-1] for f in fields] + list(SHORT) + ["api"]
        raise out.Refused("there is no hint %s%s; the hints are the fields of struct fi_info, such as caps, mode, "
                          "ep_attr.type, domain_attr.mr_mode, tx_attr.inject_size, and api"
                          % (name, out.nearest(name, known)))

    def words(self, field):
        return self.known["kinds"].get(self.known["fields"].get(field), {"words": {}, "bits": False})

    def word(self, field, text):
        kind = self.words(field)
        plain = {}
        for w in kind["words"]:
            for short in (w, w[3:], re.sub(r"^(EP|MR|THREAD|PROGRESS|ORDER|AV|PROTO|ADDR|RM)_", "", w[3:])):
                plain.setdefault(short.lower(), w)
        if text.lower() in plain:
            return kind["words"][plain[text.lower()]]
        try:
            return int(text, 0)
        except ValueError:
            pass
        if not kind["words"]:
            raise out.Refused("%s takes a number, not %s" % (field, text))
        raise out.Refused("%s has no value %s%s; it takes: %s"
                          % (field, text, out.nearest(text.lower(), plain), ", ".join(kind["words"])))

    def hint(self, pair):
        """"caps=msg+tagged" -> ("caps", number); names stay text."""
        name, eq, value = pair.partition("=")
        field = self.field(name.strip())
        if not eq or not value.strip():
            raise out.Refused("%s has no value: write %s=VALUE, such as caps=msg+tagged, ep_attr.type=rdm, "
                              "tx_attr.inject_size=64" % (pair, name))
        if field == "api":
            if not re.fullmatch(r"\d+\.\d+", value):
                raise out.Refused("api takes a version such as 1.17, not %s" % value)
            return field, value
        if self.known["fields"][field] == "text":
            return field, value
        number = 0
        for part in re.split(r"[+,|]", value):
            number |= self.word(field, part.strip())
        return field, number

    def hints_of(self, text):
        """The hints of fi_tostr()'s @text as numbers; what says nothing is left out."""
        hints = {}
        for field, value in info_parse(text).items():
            if field not in self.known["fields"] or value in UNSAID or not value:
                continue
            if self.known["fields"][field] == "text":
                hints[field] = value
                continue
            number = 0
            for w in value if isinstance(value, list) else [value]:
                try:
                    number |= self.word(field, w)
                except out.Refused:  # a word of a newer libfabric
                    pass
            if number:
                hints[field] = number
        return hints

    def show(self, field, value):
        """A hint as people write it."""
        kind = self.words(field)
        if isinstance(value, str) or not kind["words"]:
            return hex(value) if field.endswith(("tag_format", "tclass")) else str(value)
        if kind["bits"]:
            names = [w for w, n in kind["words"].items() if n & value == n and n]
            return "+".join(names) or "0"
        return next((w for w, n in kind["words"].items() if n == value), str(value))

    # --- questions ---

    def ask(self, hints):
        """(ret, text of the error, infos as info_parse() has them, the reason that counts by provider, who was
        asked)."""
        self.asked += 1
        why = os.path.join(self.tmp.name, "why%d" % self.asked)
        fields = ["why=" + why] + ["%s=%s" % h for h in hints.items()]
        try:
            self.p.stdin.write("\t".join(fields) + "\n")
            self.p.stdin.flush()
        except BrokenPipeError:
            pass
        a = self.line()
        told = read_told("%s.%d" % (why, self.p.pid))
        reasons = {q["provider"]: q["why"] for q in reversed(questions_of(told)) if q["why"]}
        return {"ret": a["ret"], "text": a["text"], "infos": [info_parse(i) for i in a["infos"]], "reasons": reasons,
                "loaded": sorted({t["provider"] for t in told}),
                "told": [(t["provider"], t["reason"]) for t in told if "reason" in t]}

    def ask_of(self, provider, hints):
        """The same of one provider; infos of layered ones left out."""
        a = self.ask({**hints, "fabric_attr.prov_name": provider})
        a["infos"] = [i for i in a["infos"] if i.get("fabric_attr.prov_name") == provider]
        if not a["ret"] and not a["infos"]:
            a["ret"], a["text"] = -61, "No data available"
        return a


def questions_of(told):
    """The calls of fi_getinfo in the lines of one process, each with the reason that counts. Those of layered
    providers, which libfabric puts itself (prov_name: efa;^ofi_rxm), are left out. A reason that was a warning stands
    before the end of its call only."""
    out_, last = [], {}
    for t in told:
        if "reason" in t:
            last.setdefault(t["thread"], t["reason"])
        if "ret" in t:
            warned = last.pop(t["thread"], "")
            if ";^" not in info_parse(t["hints"]).get("fabric_attr.prov_name", ""):
                out_.append({**t, "why": t["why"] or warned})
    return out_


def read_told(path):
    """The lines that SOFTFABRIC_WHY asked for; a line that a killed process left unfinished is none."""
    told = []
    try:
        with open(path, encoding="utf-8", errors="replace") as f:
            for line in f:
                try:
                    told.append(json.loads(line, strict=False))
                except ValueError:
                    pass
        os.unlink(path)
    except OSError:
        pass
    return told


def newest_libfabric(env):
    """(file, version) of what SOFTFABRIC_PEERS names, else of the newest libfabric here that is not too old."""
    peers = places.libfabric_peers(env)
    found, why = [], "there is none"
    for file in [peers] if peers else places.libfabrics():
        try:
            with Libfabric(file) as lib:
                found.append((version_of(lib.version), file))
        except out.Refused as e:
            why = "%s: %s" % (file, e)
    if not found:
        raise out.Refused(why if peers or ":" in why else "libfabric: %s: apt install libfabric1" % why, 1)
    newest = max(v for v, _ in found)
    file = next(f for v, f in found if v == newest)  # of equals the one that the loader takes
    return file, ".".join(str(n) for n in newest)
