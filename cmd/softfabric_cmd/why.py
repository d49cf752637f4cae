# SPDX-License-Identifier: BSD-2-Clause
"""softfabric why: which attribute made each provider refuse the hints of fi_getinfo, and what would be accepted."""
import glob
import os
import re
import sys
import threading

from . import ask, folders, out, places, run

USAGE = ("softfabric why [-p PROVIDER] [--net KEYS] [--efa KEYS] [--cxi KEYS] [--opx KEYS] [--json[=FILE]] "
         "HINT=VALUE... | -- COMMAND [ARG...]")
EPILOG = """\
A hint is a field of struct fi_info, its value a number or libfabric's words without their FI_, joined by +:
  softfabric why -p efa caps=msg+tagged ep_attr.type=rdm tx_attr.inject_size=4096 api=1.17
Behind -- is a program, or an mpirun of one: it is run with what softfabric run would set, and each question that it put
to fi_getinfo() is explained. KEYS are those of SOFTFABRIC_NET and so on, softfabric(1).
exit status: 0 somebody accepts all that was asked; 1 not; 2 a hint that there is not. With a COMMAND that cannot be
started 126 or 127."""


def refusal(lib, provider, hints):
    """Why @provider refuses @hints, and the changes after which it does not: [(field, what to write)]. None: it accepts
    them."""
    first = lib.ask_of(provider, hints)
    if not first["ret"]:
        return None
    api = hints.get("api", "0.0")
    if provider not in first["loaded"] and ask.version_of(api) > ask.version_of(lib.version):
        return {"reason": "this libfabric is %s, and asks nobody for a later version, %s" % (lib.version, api),
                "change": [("api", "api=%s at most" % lib.version)]}
    if provider not in first["loaded"]:
        return {"reason": "libfabric did not ask it: the module was not loaded (softfabric doctor), or FI_PROVIDER "
                          "leaves it out", "change": []}
    reason = first["reasons"].get(provider) or first["text"]
    left, change, answer, told = dict(hints), {}, first, dict(first["reasons"])
    while answer["ret"] and len(change) < 8:
        field, infos = one_step(lib, provider, left, change, answer["reasons"].get(provider, ""))
        if not field:
            return {"reason": reason, "change": []}
        if not change:  # of all that is offered the reason that is about what stands in the way
            about = [text for p, text in first["told"] if p == provider and named(text, [field])]
            reason = (about or [reason])[0]
        told[field] = answer["reasons"].get(provider, "") if change else reason
        infos = infos or offer(lib, provider, hints)
        left, change[field] = narrowed(lib, left, field, infos), infos
        answer = lib.ask_of(provider, left)
    for f in change:
        if f in ask.OFFERED_BY_PROGRAM:
            left = least(lib, provider, left, f, hints.get(f, 0))
    return {"reason": reason, "change": [(f, advice(lib, f, hints.get(f), left.get(f, 0), infos, told[f]))
                                         for f, infos in change.items()]}


def least(lib, provider, hints, field, asked):
    """@hints, of which all is accepted, with no more in @field beyond @asked than that takes."""
    for bit in lib.words(field)["words"].values():
        fewer = {**hints, field: hints[field] & ~bit}
        if hints[field] & bit and not asked & bit and not lib.ask_of(provider, fewer)["ret"]:
            hints = fewer
    return hints


def one_step(lib, provider, hints, done, reason):
    """The field that stands in the way: (it, what is offered without it). Without it all is accepted, or at least the
    refusal is about it."""
    left = [f for f in candidates(hints) if f not in done]
    for f in left:
        a = lib.ask_of(provider, widened(lib, hints, f))
        if not a["ret"]:
            return f, a["infos"]
    return named(reason, left), []


def offer(lib, provider, hints):
    """What it offers to who asks for nothing and is ready for everything."""
    most = {k: v for k, v in hints.items() if k == "api"}
    for f in ask.OFFERED_BY_PROGRAM[:2]:
        most = widened(lib, most, f)
    return lib.ask_of(provider, most)["infos"]


def candidates(hints):
    """The hints that can be widened; first what a program is ready for, last what it wants to do."""
    asked = [f for f in hints if f not in ("api", "fabric_attr.prov_name") and f not in ask.OFFERED_BY_PROGRAM]
    ready = [f for f in ask.OFFERED_BY_PROGRAM if f in hints or f in ask.OFFERED_BY_PROGRAM[:2]]
    return ready + [f for f in asked if not f.endswith("caps")] + [f for f in asked if f.endswith("caps")]


def widened(lib, hints, field):
    """@hints, as undemanding in @field as they can be."""
    hints = dict(hints)
    if field in ask.OFFERED_BY_PROGRAM:
        words = lib.words(field)["words"]
        hints[field] = sum(v for w, v in words.items() if w not in ("FI_MR_BASIC", "FI_MR_SCALABLE"))
    else:
        hints.pop(field)
    return hints


def narrowed(lib, hints, field, infos):
    """The same, but of bits that are asked for those stay that are offered."""
    wide = widened(lib, hints, field)
    words = lib.words(field)
    if field in wide or not words["bits"] or not infos:
        return wide
    offered = {w for i in infos for w in i.get(field, [])}
    keep = hints[field] & sum(v for w, v in words["words"].items() if w in offered)
    return {**wide, field: keep} if keep else wide


def named(reason, fields):
    """The one of @fields that the sentence of a refusal is about."""
    reason = reason.replace("->", ".")
    fields = sorted(fields, key=len, reverse=True)
    return next((f for f in fields if " %s " % f in reason or "%s of the hints" % f in reason), None)


def advice(lib, field, asked, accepted, infos, reason):
    """What to write in place of @asked, from what was accepted, is offered without it, or was said."""
    values = [i.get(field) for i in infos if i.get(field) is not None]
    if field in ask.OFFERED_BY_PROGRAM:
        return "%s=%s" % (field, lib.show(field, accepted))
    if values and isinstance(values[0], list):
        extra = [w for w in lib.show(field, asked).split("+") if not any(w in v for v in values)]
        return "%s without %s" % (field, "+".join(extra) or lib.show(field, asked))
    if lib.known["fields"][field] == "number":
        limit = re.search(r"%s is \d+ in the hints, at most (\d+) here" % re.escape(field.replace(".", "->", 1)),
                          reason)
        most = max([int(v, 0) for v in values] + [int(limit.group(1)) if limit else 0])
        return "%s=%s at most" % (field, lib.show(field, most)) if most else "no %s" % field
    return "%s=%s" % (field, " or ".join(dict.fromkeys(values))) if values else "no %s" % field


def question(lib, hints, providers, progress):
    """One question put to all @providers."""
    said = {}
    for p in providers:
        progress.say("asking %s what it would accept" % p)
        r = refusal(lib, p, hints)
        said[p] = {"accepted": r is None, **(r or {})}
    return said


def said_print(said):
    for p, s in said.items():
        if s["accepted"]:
            print("  %s accepts." % p)
            continue
        print("  %s refuses: %s" % (p, s["reason"]))
        if s["change"]:
            print("      accepted with " + " and ".join(text for _, text in s["change"]))


def hints_text(lib, hints):
    return " ".join("%s=%s" % (f, v if f == "api" else lib.show(f, v)) for f, v in hints.items()) or "nothing"


def providers_of(args, hints):
    """Who is meant: the option, else the hints' own name, else all."""
    name = str(hints.pop("fabric_attr.prov_name", ""))
    if args.provider:
        return [args.provider]
    named_ = [p for p in places.PROVIDERS if p in name.lower().split(";")]
    if name and not named_:
        raise out.Refused("%s is no provider of ours%s: they are %s"
                          % (name, out.nearest(name, places.PROVIDERS), ", ".join(places.PROVIDERS)))
    return named_ or places.built()


def why_hints(args, pairs, room):
    with ask.Libfabric(env=room) as lib:
        hints = dict(lib.hint(p) for p in pairs)
        progress = out.Progress()
        said = question(lib, hints, providers_of(args, hints), progress)
        progress.end()
        if args.json:
            out.put_json(args.json, {"libfabric": lib.version, "hints": {f: lib.show(f, v) for f, v in hints.items()},
                                     "providers": said})
        else:
            print("asked for: %s" % hints_text(lib, hints))
            said_print(said)
    return 0 if any(s["accepted"] for s in said.values()) else 1


# --- what a program asked ---

def command_run(command, prefix, env):
    env = {**env, "SOFTFABRIC_WHY": prefix}
    run.command_check(command, env)
    soon = threading.Timer(out.PATIENCE_S, still_running, command)
    soon.daemon = True
    soon.start()
    try:
        return run.supervise(command, env)
    finally:
        soon.cancel()


def still_running(name, *_):
    """One line of its own, once: the terminal is the command's."""
    if os.isatty(2):
        sys.stderr.write("softfabric: %s is running; what it asked is explained when it has ended\n" % name)
        sys.stderr.flush()


def asked_by(prefix):
    """What the processes asked: {(hints' text, api): {provider: its answer}} in their order."""
    questions = {}
    for path in sorted(glob.glob(prefix + ".*")):
        for q in ask.questions_of(ask.read_told(path)):
            questions.setdefault((q["hints"], q["api"]), {})[q["provider"]] = q
    return questions


def explained(args, questions, progress, room):
    """[{hints, providers}]: each question, and why who refused it."""
    result = []
    with ask.Libfabric(env=room) as lib:
        for n, ((text, api), answers) in enumerate(questions.items(), 1):
            hints = lib.hints_of(text)
            hints.pop("fabric_attr.prov_name", None)
            hints.update({} if api == "0.0" else {"api": api})
            said = {}
            for p, a in answers.items():
                if args.provider not in (None, p):
                    continue
                progress.say("explaining question %d of %d, %s" % (n, len(questions), p))
                if not a["ret"]:
                    said[p] = {"accepted": True}
                    continue
                why = refusal(lib, p, hints) or {"change": []}
                said[p] = {"accepted": False, **why}
                if not why["change"]:
                    said[p]["reason"] = a["why"] or "error %d" % a["ret"]
            result.append({"hints": hints_text(lib, hints), "providers": said})
    progress.end()
    return [r for r in result if r["providers"]]


def why_command(args, command, room):
    progress = out.Progress()
    with folders.Folder("softfabric-") as tmp:
        status = command_run(command, os.path.join(tmp, "why"), run.env_for(args))
        progress.say("reading what its processes asked")
        questions = asked_by(os.path.join(tmp, "why"))
    progress.end()
    if not questions:
        raise out.Refused("%s ended with status %d, and none of its processes asked our providers: it does not use "
                          "libfabric, named another provider (FI_PROVIDER, hints), or has libfabric linked in"
                          % (command[0], status), 1)
    result = explained(args, questions, progress, room)
    if args.json:
        out.put_json(args.json, {"command": command, "status": status, "questions": result})
    else:
        print("%s ended with status %d; its processes put %d different questions to our providers:"
              % (command[0], status, len(result)))
        for n, r in enumerate(result, 1):
            print("%d. asked for: %s" % (n, r["hints"]))
            said_print(r["providers"])
    return 0 if any(s["accepted"] for r in result for s in r["providers"].values()) else 1


def main(argv):
    ap = out.Parser(prog="softfabric why", usage=USAGE, description=__doc__, epilog=EPILOG)
    ap.add_argument("-p", "--provider", choices=places.PROVIDERS, help="ask this one only")
    for kind in ("net", "efa", "cxi", "opx"):
        ap.add_argument("--" + kind, metavar="KEYS", help="keys of SOFTFABRIC_%s" % kind.upper())
    ap.add_json("answers")
    ap.set_defaults(capture=None)
    ap.add_argument("hints", nargs="*", metavar="HINT=VALUE", help=out.argparse.SUPPRESS)
    before, command = out.split_command(argv)
    args = ap.parse_args(before)
    if bool(args.hints) == bool(command):
        raise out.Refused("hints or a command, please: softfabric why caps=tagged, softfabric why -- fi_info -p efa")
    places.need_modules()
    room = {**os.environ, **run.room_env(args, os.environ)}
    run.room_check(room, False)
    return why_command(args, command, room) if command else why_hints(args, args.hints, room)
