# SPDX-License-Identifier: BSD-2-Clause
"""softfabric run: runs a program over the soft adapters, and says what happened on the fabric."""
import argparse
import ctypes
import os
import select
import shlex
import shutil
import signal
import subprocess
import sys
import time

from . import ask, counters, doctor, folders, hosts, live, out, places

USAGE = ("softfabric run [-p PROVIDER] [--hosts N] [--net KEYS] [--efa KEYS] [--cxi KEYS] [--opx KEYS] "
         "[--json[=FILE]] [-q] -- COMMAND [ARG...]")
EPILOG = """\
  softfabric run -p efa -- mpirun -np 2 ./a.out
  softfabric run -p cxi --hosts 3 --net "loss=1%;seed=7" -- mpirun -np 6 ./a.out
KEYS are those of SOFTFABRIC_NET and so on, softfabric(1); what is in the environment already stays, a key given here
wins. -p sets FI_PROVIDER, and has Open MPI take mtl/ofi with that provider. With --hosts the command is told the hosts
(h1, h2, ...) in the words of Open MPI 4 and 5 and hydra, ranks go round them, and any command starts on one with:
softfabric-on h1 COMMAND.
exit status: the command's own (128 + signal if one ended it); 125 nothing was run; 126, 127 the command cannot be
started."""
GRACE_S = 10
PR_SET_CHILD_SUBREAPER = 36


def room_env(args, env, kinds=("net", "efa", "cxi", "opx")):
    """The rooms of the options behind those of @env."""
    names = {"SOFTFABRIC_" + kind.upper(): getattr(args, kind) for kind in kinds}
    return {n: ";".join(k for k in (env.get(n), keys) if k) for n, keys in names.items() if keys}


def env_for(args):
    """The command's environment."""
    env = places.env_with_modules(os.environ)
    capture = "pcap=%s/%%p.pcapng" % args.capture if args.capture else None
    env.update(room_env(args, env))
    if capture:
        env["SOFTFABRIC_NET"] = ";".join(k for k in (env.get("SOFTFABRIC_NET"), capture) if k)
    if args.provider:
        mpi = {"FI_PROVIDER": args.provider, "OMPI_MCA_opal_common_ofi_provider_include": args.provider,
               "OMPI_MCA_pml": "cm", "OMPI_MCA_mtl": "ofi"}
        for k, v in mpi.items():
            env.setdefault(k, v)
    return env


def room_check(env, with_hosts):
    """A room that is refused ends here, before anything has started, in the adapters' own words."""
    env = dict(env)
    if with_hosts:  # there is no such interface yet
        env["SOFTFABRIC_NET"] = env.get("SOFTFABRIC_NET", "") + ";if=lo"
    errors = ask.unheard(env) + ask.room_errors(ask.room(env))
    if errors:
        raise out.Refused(errors[0], 125)


def command_check(command, env, with_hosts=False):
    if with_hosts and command[0] == "softfabric-on":  # is made with the hosts
        return
    if not command[0]:
        raise out.Refused("the command has no name", 127)
    if not shutil.which(command[0], path=env.get("PATH")):
        found = os.path.exists(command[0])
        raise out.Refused("%s %s" % (command[0], "cannot be executed" if found else "is not there, and not in PATH"),
                          126 if found else 127)


def hosts_check(cnt):
    if not 1 <= cnt <= hosts.HOSTS_MAX:
        raise out.Refused("--hosts takes 1 to %d, not %d" % (hosts.HOSTS_MAX, cnt), 125)
    for tool, package in (("ip", "iproute2"), ("nsenter", "util-linux")):
        if not shutil.which(tool):
            raise out.Refused("--hosts needs %s: apt install %s" % (tool, package), 125)
    why = hosts.possible()
    if why:
        raise out.Refused("this system does not permit virtual hosts (%s): run it %s" % (why, hosts.MEND), 125)


# --- running it ---

def descendants():
    """Processes below this one."""
    parent = {}
    for d in os.listdir("/proc"):
        if d.isdigit():
            try:
                with open("/proc/%s/stat" % d, encoding="utf-8", errors="replace") as f:
                    parent[int(d)] = int(f.read().rpartition(")")[2].split()[1])
            except (OSError, ValueError):
                pass
    found, more = set(), {os.getpid()}
    while more:
        more = {p for p, up in parent.items() if up in more} - found
        found |= more
    return found


def end_all():
    """Ends what the command has left running: only processes below this one."""
    for sig, limit in ((signal.SIGTERM, 2), (signal.SIGKILL, 5)):
        until = time.monotonic() + limit
        for pid in descendants():
            try:
                os.kill(pid, sig)
            except OSError:
                pass
        while descendants() and time.monotonic() < until:
            reap()
            time.sleep(0.02)


def reap():
    try:
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass
    except ChildProcessError:
        pass


def signals_to(handler):
    """The signals that end something go to @handler. Returns what signals_back() takes."""
    return {s: signal.signal(s, handler) for s in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)}


def signals_back(before):
    for s, handler in before.items():
        signal.signal(s, handler)


def next_ended(fd):
    """The next child that has ended, as os.wait(); @fd is readable when the command has, or None. A signal that comes
    just before a system call is heard only behind it: so none waits for long."""
    while True:
        got = os.waitpid(-1, 0 if fd is None else os.WNOHANG)
        if got[0]:
            return got
        select.select([fd], [], [], live.Watch.EVERY_S)


def hand_on(sig, pid):
    """The signal that we got is one to @pid, which may have ended."""
    if sig != signal.SIGINT or not os.isatty(0):  # of a terminal's the whole group has heard already
        try:
            os.kill(pid, sig)
        except OSError:
            pass


def pidfd(pid):
    try:
        return os.pidfd_open(pid)
    except (AttributeError, OSError):
        return None


def supervise(command, env):
    """Starts the command and waits for it. A signal to us is one to it; what it leaves then is ended. Returns its exit
    status."""
    hosts.libc.prctl(PR_SET_CHILD_SUBREAPER, ctypes.c_ulong(1))
    caught, p = [], None

    def pass_on(sig):
        hand_on(sig, p.pid)
        signal.alarm(GRACE_S)

    def on_signal(sig, _frame):
        caught.append(sig)
        if p:
            pass_on(sig)

    def on_alarm(_sig, _frame):
        end_all()

    before = signals_to(on_signal)
    signal.signal(signal.SIGALRM, on_alarm)
    try:
        p = subprocess.Popen(command, env=env)
    except OSError as e:
        signals_back(before)
        raise out.Refused("%s cannot be started: %s" % (command[0], e.strerror), 126) from None
    for sig in list(caught):  # those that came before there was anybody to hear them
        pass_on(sig)
    status, fd = 0, pidfd(p.pid)
    while True:
        try:
            pid, status = next_ended(fd)
        except ChildProcessError:  # on_alarm() has reaped it
            status = signal.SIGKILL
            break
        if pid == p.pid:
            break
    signal.alarm(0)
    if fd is not None:
        os.close(fd)
    p.returncode = os.waitstatus_to_exitcode(status)
    if caught:
        end_all()
    signals_back(before)
    return p.returncode if p.returncode >= 0 else 128 - p.returncode


def ended(child, watch):
    """Waits for @child. This process looks itself: none can have threads whose children are in another namespace."""
    fd = pidfd(child)
    while fd is not None and not select.select([fd], [], [], live.Watch.EVERY_S)[0]:
        if watch:
            watch.look()
    if fd is not None:
        os.close(fd)
    return os.waitpid(child, 0)[1]


def with_hosts(args, command, env, tmp, watch=None):
    """The same among virtual hosts, in a process that is the first of its own process namespace."""
    try:
        hosts.enter()
    except OSError as e:
        raise out.Refused("this system does not permit virtual hosts (%s): run it %s"
                          % (e.strerror, hosts.MEND), 125) from None
    sys.stdout.flush()
    caught, child = [], None

    def on_signal(sig, _frame):
        if child:
            hand_on(sig, child)
        else:
            caught.append(sig)

    with folders.signals_held():  # Python forgets what a child hears before fork() has returned in it
        before = signals_to(on_signal)
        child = os.fork()
    if not child:
        os._exit(first_process(args, command, env, tmp, caught))
    status = os.waitstatus_to_exitcode(ended(child, watch))
    signals_back(before)
    return status if status >= 0 else 128 - status


def among_hosts(cnt, command, env):
    """Runs another verb's command among @cnt virtual hosts, without counters. Returns its exit status."""
    with folders.Folder("softfabric-run.") as tmp:
        return with_hosts(argparse.Namespace(hosts=cnt), command, env, tmp)


def first_process(args, command, env, tmp, caught):
    """@caught: signals so far. The first one interrupts what is done here, but in a __del__()."""
    progress = out.Progress()

    def on_signal(sig, _frame):
        caught.append(sig)
        if len(caught) == 1:
            raise KeyboardInterrupt

    try:
        signals_to(on_signal)
        if caught:
            raise KeyboardInterrupt
        hosts.call("prctl", hosts.PR_SET_PDEATHSIG, signal.SIGKILL)
        names = hosts.setup(tmp, args.hosts, progress)
        progress.end()
        hosts.launch_env(env, tmp, names)
        if caught:
            raise KeyboardInterrupt
        return supervise(command, env)
    except out.Refused as e:
        progress.end()
        out.refuse(e)
        return e.status
    except KeyboardInterrupt:
        progress.end()
        return 128 + caught[0]
    except OSError as e:
        progress.end()
        out.refuse(out.sentence_of(e))
        return 125
    finally:
        sys.stdout.flush()
        sys.stderr.flush()


def pointer(args, command, status):
    """Why no adapter was used, or what says it."""
    try:
        if args.hosts is not None:  # their namespaces are gone: nothing can be started any more
            raise LookupError
        with ask.Libfabric():
            pass
    except out.Refused as e:
        return str(e)
    except LookupError:
        pass
    words = ["softfabric", "why"] + (["-p", args.provider] if args.provider else [])
    for kind in ("net", "efa", "cxi", "opx"):
        words += ["--" + kind, getattr(args, kind)] if getattr(args, kind) else []
    said = "who refused what is said by: %s" % " ".join(shlex.quote(w) for w in words + ["--"] + command)
    return said + ("; what was refused after fi_getinfo by: FI_LOG_LEVEL=warn" if status else "")


def shm_note(env):
    """Without room in /dev/shm peers of a host meet by UDP: right, but slower than somebody may expect."""
    if "shm" not in str(ask.room({**os.environ, **env})["net"].get("paths")):
        return
    bad = [f for f in doctor.shm() if f["level"] == doctor.BAD]
    if bad:
        said = "softfabric: processes of one host may meet by UDP, which is slower: %s: %s"
        print(said % (bad[0]["text"], bad[0]["mend"]), file=sys.stderr)


def no_adapters(env, provider):
    """A room without adapters is for programs that have to do without; who names the provider wants one."""
    if provider and not ask.room(env)[provider]["adapters"]:
        key = "units" if provider == "opx" else "nics"
        raise out.Refused("-p %s: the room has no adapter of it: leave %s=0 out of --%s or SOFTFABRIC_%s"
                          % (provider, key, provider, provider.upper()), 125)


def report(args, command, status, seconds, stats, watch):
    adapters = counters.summary(counters.read(stats, watch))
    if args.json:
        out.put_json(args.json, {"command": command, "status": status, "seconds": round(seconds, 3),
                                 "hosts": args.hosts or 0, "adapters": adapters})
    if args.quiet or args.json == "-":
        return
    sys.stdout.flush()
    said = "softfabric: %s ended with status %d after %.1f s" % (command[0], status, seconds)
    if not adapters:
        said += "; no adapter was used: " + pointer(args, command, status)
    try:
        print(said, file=sys.stderr)
        if adapters:
            counters.put(adapters, sys.stderr)
    except OSError:  # nobody can be told, and the command's status is what counts
        pass


def add_room(ap):
    """What `run` and `capture` let one choose."""
    ap.add_argument("-p", "--provider", choices=places.PROVIDERS,
                    help="libfabric and Open MPI are told to use this one")
    ap.add_argument("--hosts", type=int, metavar="N", help="make N virtual hosts for the time of the run")
    for kind in ("net", "efa", "cxi", "opx"):
        ap.add_argument("--" + kind, metavar="KEYS", help="keys of SOFTFABRIC_%s" % kind.upper())
    ap.add_argument("-q", "--quiet", action="store_true", help="no summary")
    ap.add_json("what happened, per host and adapter,")
    ap.set_defaults(capture=None)  # folder of the captures


def parse(ap, argv, example):
    """Options and the command behind them; a mistake has the exit status of a command that was not run."""
    try:
        before, command = out.split_command(argv)
        if not command and "-h" not in argv and "--help" not in argv:
            raise out.Refused("the command comes behind --, as in " + example, 125)
        return ap.parse_args(before), command
    except out.Refused as e:
        e.status = e.status if e.status >= 125 else 125
        raise


def main(argv):
    ap = out.Parser(prog="softfabric run", usage=USAGE, description=__doc__, epilog=EPILOG)
    add_room(ap)
    args, command = parse(ap, argv, "softfabric run -p efa -- mpirun -np 2 ./a.out")
    return run(args, command)


def run(args, command):
    try:
        return run_checked(args, command)
    except out.Refused as e:
        e.status = e.status if e.status >= 125 else 125
        raise
    except BrokenPipeError:
        raise
    except OSError as e:
        raise out.Refused(out.sentence_of(e), 125) from None


def run_checked(args, command):
    places.need_modules()
    if args.json:  # what cannot be written is said before anything runs
        out.put_json(args.json if args.json != "-" else os.devnull, {})
    if args.provider and args.provider not in places.built():
        raise out.Refused("%s is not built: there is no %s" % (args.provider, places.module_file(args.provider)))
    env = env_for(args)
    if args.hosts is not None:
        env["SOFTFABRIC_NET"] = ";".join(k for k in ("if=eth0", env.get("SOFTFABRIC_NET")) if k)
        hosts_check(args.hosts)
        pairs = [k.partition("=") for k in env["SOFTFABRIC_NET"].split(";")]
        last = [v.strip() for k, _, v in pairs if k.strip() == "if"][-1]
        if last not in ("eth0", "lo"):
            raise out.Refused("the virtual hosts have the interface eth0 (and lo), not %s: leave if out of --net"
                              % last, 125)
    command_check(command, env, args.hosts is not None)
    room_check(env, args.hosts is not None)
    no_adapters({**env, "SOFTFABRIC_NET": env["SOFTFABRIC_NET"] + ";if=lo"} if args.hosts else env, args.provider)
    if args.hosts is None and not args.quiet and not args.capture:
        shm_note(env)
    with folders.Folder("softfabric-run.") as tmp:
        stats = env["SOFTFABRIC_STATS"] = os.path.join(tmp, "stats")
        # For softfabric top, and for what is counted of processes that are killed: a folder of this run alone.
        env["SOFTFABRIC_LIVE"] = os.path.join(tmp, "live")
        os.mkdir(env["SOFTFABRIC_LIVE"], 0o700)
        watch = live.Watch(env["SOFTFABRIC_LIVE"])
        began = time.monotonic()
        if args.hosts is not None:
            status = with_hosts(args, command, env, tmp, watch)
        else:
            watch.start()
            status = supervise(command, env)
        seconds = time.monotonic() - began
        before = signals_to(signal.SIG_IGN)  # a second Ctrl-C must not end what tells what was measured
        try:
            report(args, command, status, seconds, stats, watch)
        finally:
            signals_back(before)
    return status
