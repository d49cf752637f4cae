# SPDX-License-Identifier: BSD-2-Clause
"""Finds the verb, and turns what it cannot do into one sentence and an exit status."""
import importlib
import os
import signal
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
    lines += ["", "softfabric VERB --help says more about each; softfabric --version; softfabric(1).", ""]
    return "\n".join(lines)


def verb_check(word):
    if word not in VERBS:
        raise out.Refused("there is no verb %s%s; verbs: %s" % (word, out.nearest(word, VERBS), ", ".join(VERBS)))


def verb_of(argv):
    if not argv:
        sys.stderr.write(usage())
        return None, 2
    if argv[0] in ("-h", "--help", "help"):
        if argv[1:2]:
            verb_check(argv[1])
            return importlib.import_module("softfabric_cmd." + argv[1]), ["--help"]
        sys.stdout.write(usage())
        return None, 0
    if argv[0] in ("-V", "--version"):
        print("softfabric %s, modules in %s" % (places.version, places.modules))
        return None, 0
    verb_check(argv[0])
    return importlib.import_module("softfabric_cmd." + argv[0]), argv[1:]


class Ended(KeyboardInterrupt):
    """A signal that ends us as an interrupt does: what was started is ended, and files are removed."""

    def __init__(self, sig):
        super().__init__()
        self.status = 128 + sig


def on_end(sig, _frame):
    raise Ended(sig)


def begin():
    """Streams that were closed are nobody's; from here on signals are heard."""
    fd = os.open(os.devnull, os.O_RDWR)
    while fd < 3:
        os.set_inheritable(fd, True)
        fd = os.open(os.devnull, os.O_RDWR)
    os.close(fd)
    sys.stdout = sys.stdout or open(1, "w", encoding="utf-8", closefd=False)
    sys.stderr = sys.stderr or open(2, "w", encoding="utf-8", closefd=False)
    for stream in (sys.stdout, sys.stderr):
        stream.reconfigure(errors="backslashreplace")  # what the locale cannot show
    for s, handler in ((signal.SIGINT, signal.default_int_handler), (signal.SIGTERM, on_end), (signal.SIGHUP, on_end)):
        if signal.getsignal(s) is not signal.SIG_IGN:  # nohup
            signal.signal(s, handler)


def main(argv):
    try:
        begin()
        verb, rest = verb_of(argv)
        status = verb.main(rest) if verb else rest
        sys.stdout.flush()
        return status
    except out.Refused as e:
        out.refuse(e)
        return e.status
    except KeyboardInterrupt as e:
        return getattr(e, "status", 130)
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # who read us has seen enough
        return 141
    except OSError as e:
        out.refuse(out.sentence_of(e))
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        return 1
    finally:
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # there is nothing left to be ended
