# SPDX-License-Identifier: BSD-2-Clause
"""softfabric verbs: runs a program that is written for verbs on the soft EFA adapter."""
import os

from . import out, places, run

USAGE = "softfabric verbs [--net KEYS] [--efa KEYS] -- COMMAND [ARG...]"
EPILOG = """\
  softfabric verbs -- ibv_devinfo -v
  softfabric verbs --efa gen=efa1-rw -- ib_send_bw -c SRD -x 0
The command sees adapters of the soft room in place of the machine's own, by LD_PRELOAD; nothing else of its environment
changes, so a libfabric has the efa provider that it was built with. SOFTFABRIC_VERBS_LOG: none, warn, info or debug.
KEYS are those of SOFTFABRIC_NET and SOFTFABRIC_EFA, softfabric(1).
exit status: the command's own; 2 a mistake in the options; 125 nothing was run for another reason; 126, 127 the command
cannot be started."""


def env_for(args):
    """The command's environment."""
    env = dict(os.environ)
    env.update(run.room_env(args, env, ("net", "efa")))
    others = [f for f in env.get("LD_PRELOAD", "").replace(":", " ").split() if f != places.verbs_file()]
    env["LD_PRELOAD"] = ":".join([places.verbs_file()] + others)
    return env


def main(argv):
    ap = out.Parser(prog="softfabric verbs", usage=USAGE, description=__doc__, epilog=EPILOG)
    for kind in ("net", "efa"):
        ap.add_argument("--" + kind, metavar="KEYS", help="keys of SOFTFABRIC_%s" % kind.upper())
    before, command = out.split_command(argv)
    args = ap.parse_args(before)
    if not command:
        raise out.Refused("the command comes behind --, as in softfabric verbs -- ibv_devinfo", 125)
    if not os.path.exists(places.verbs_file()):
        raise out.Refused("there is no %s: libibverbs-dev was missing when this was built" % places.verbs_file(), 125)
    env = env_for(args)
    run.command_check(command, env)
    run.room_check(env, False)
    try:
        os.execvpe(command[0], command, env)
    except OSError as e:
        raise out.Refused("%s cannot be started: %s" % (command[0], e.strerror), 126) from None
