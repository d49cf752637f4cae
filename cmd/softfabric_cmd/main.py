# SPDX-License-Identifier: BSD-2-Clause
"""Finds the verb, and turns what it cannot do into one sentence and an exit status."""
import importlib
import os
import sys

from . import out, places

VERBS = {
    "info": "the room (adapters, generations, limits, conditions) and what each provider offers",
    "why": "which attribute made each provider refuse the hints of fi_getinfo, and what would be accepted",
    "doctor": "what this machine permits, each finding with its mend",
    "run": "run a program or an MPI job over the soft adapters, on as many virtual hosts as wanted",
    "capture": "run a program as run does, and keep all its datagrams in one file, by time",
    "decode": "print a capture as text: packets, repetitions, and the fi_ operations that they belong to",
    "verbs": "run a program that is written for verbs on the soft EFA adapter",
    "bench": "latency, rate and bandwidth of providers here, ours beside libfabric's own",
    "top": "live counters of the adapters at work, per adapter, port and peer",
}


def usage():
    lines = ["usage: softfabric VERB [OPTIONS] ...", ""]
    lines += ["  %-8s %s" % v for v in VERBS.items()]
    return "\n".join(lines + ["", "softfabric VERB --help says more about each; softfabric --version; softfabric(1).", ""])


def verb_of(argv):
    if not argv:
        sys.stderr.write(usage())
        return None, 2
    if argv[0] in ("-h", "--help", "help"):
        if argv[1:2] and argv[1] in VERBS:
            return importlib.import_module("softfabric_cmd." + argv[1]), ["--help"]
        sys.stdout.write(usage())
        return None, 0
    if argv[0] in ("-V", "--version"):
        print("softfabric %s, modules in %s" % (places.version, places.modules))
        return None, 0
    if argv[0] not in VERBS:
        raise out.Refused("there is no verb %s%s; verbs: %s" % (argv[0], out.nearest(argv[0], VERBS), ", ".join(VERBS)))
    return importlib.import_module("softfabric_cmd." + argv[0]), argv[1:]


def main(argv):
    for stream in (sys.stdout, sys.stderr):
        stream.reconfigure(errors="backslashreplace")  # what the locale cannot show
    try:
        verb, rest = verb_of(argv)
        status = verb.main(rest) if verb else rest
        sys.stdout.flush()
        return status
    except out.Refused as e:
        sys.stderr.write("softfabric: %s\n" % e)
        return e.status
    except KeyboardInterrupt:
        return 130
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # who read us has seen enough
        return 141
