# SPDX-License-Identifier: BSD-2-Clause
"""Where things are: the modules and the helper program of this build or installation, and the libfabrics and MPIs of
the machine."""
import glob
import os
import re
import shutil
import subprocess

from .out import Refused

OLDEST, NEWEST = "1.17", "2.6"  # libfabric
PROVIDERS = ("efa", "cxi", "opx")
LIBFABRIC_DIRS = ("/usr/local/lib", "/usr/lib", "/usr/lib64",
                  "/opt/*/lib", "/opt/*/lib64", "/opt/*/*/lib", "/opt/*/*/lib64")

own = modules = probe = version = wire = None


def setup(own_, modules_, probe_, version_, wire_):
    global own, modules, probe, version, wire
    own, modules, probe, version, wire = own_, modules_, probe_, version_, wire_


def module_file(provider):
    return os.path.join(modules, "lib%s-fi.so" % provider)


def verbs_file():
    """The library that stands before libibverbs."""
    return os.path.join(modules, "libsoftfabric-verbs.so")


def built():
    """The providers that there are."""
    return [p for p in PROVIDERS if os.path.exists(module_file(p))]


def need_modules():
    if not built():
        raise Refused("no provider module in %s: build it (ninja), or install the package again" % modules, 1)


def ask_probe(args, env=None):
    """Runs the helper to its end. Returns its output."""
    try:
        p = subprocess.run([probe] + args, stdin=subprocess.DEVNULL, capture_output=True, text=True, env=env,
                           check=False)
    except OSError as e:
        raise Refused("%s cannot be run (%s): build it (ninja), or install the package again"
                      % (probe, e.strerror), 1) from None
    if p.returncode < 0:
        raise Refused("%s %s ended by signal %d" % (probe, " ".join(args), -p.returncode), 1)
    return p.stdout


def env_with_modules(env):
    """A copy of @env in which libfabric finds our modules first, and others where it did."""
    env = dict(env)
    rest = [d for d in env.get("FI_PROVIDER_PATH", "").split(":") if d and d != modules]
    env["FI_PROVIDER_PATH"] = ":".join([modules] + rest)
    # Debian 12's libfabric brings a library that turns crashes into exit statuses.
    env.setdefault("IPATH_NO_BACKTRACE", "1")
    return env


def libfabrics():
    """Files of libfabric on this machine, the loader's first."""
    found = []
    try:
        cache = subprocess.run(["/sbin/ldconfig", "-p"], capture_output=True, text=True, check=False).stdout
    except OSError:
        cache = ""
    dirs = [d for d in os.environ.get("LD_LIBRARY_PATH", "").split(":") if d]
    candidates = [os.path.join(d, "libfabric.so.1") for d in dirs]
    candidates += re.findall(r"libfabric\.so\.1 .*=> (\S+)", cache)
    for d in LIBFABRIC_DIRS:
        candidates += sorted(glob.glob(os.path.join(d, "libfabric.so.1")))
    for c in candidates:
        if os.path.exists(c) and os.path.realpath(c) not in found:
            found.append(os.path.realpath(c))
    return found


def libfabric_peers(env):
    """The file that SOFTFABRIC_PEERS names, a prefix with lib/libfabric.so.1; None: it is not set."""
    prefix = env.get("SOFTFABRIC_PEERS")
    if not prefix:
        return None
    file = os.path.abspath(os.path.join(prefix, "lib/libfabric.so.1"))
    if not os.path.exists(file):
        raise Refused("SOFTFABRIC_PEERS takes a prefix with lib/libfabric.so.1, and there is no %s" % file, 1)
    return file


def env_with_libfabric(env, file):
    """A copy of @env in which programs load the libfabric @file."""
    rest = [d for d in env.get("LD_LIBRARY_PATH", "").split(":") if d]
    return {**env, "LD_LIBRARY_PATH": ":".join([os.path.dirname(file)] + rest)}


def mpis():
    """(name, file, version line) of each MPI launcher in PATH."""
    out, seen = [], set()
    names = ("mpirun", "mpirun.openmpi", "mpirun.mpich", "mpiexec.hydra", "prterun")
    for d in os.environ.get("PATH", "").split(":"):
        for n in names:
            f = shutil.which(n, path=d) if d else None
            if not f or os.path.realpath(f) in seen:
                continue
            seen.add(os.path.realpath(f))
            said = mpi_version(f)
            out.append((said[0], f, said[1]))
    return out


def mpi_version(file):
    try:
        p = subprocess.run([file, "--version"], stdin=subprocess.DEVNULL, capture_output=True, text=True,
                           timeout=20, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return "unknown MPI", "does not tell its version"
    text = p.stdout + p.stderr
    for pattern, name in ((r"\(Open MPI\) (\S+)", "Open MPI"), (r"HYDRA[\s\S]*?Version:\s+(\S+)", "MPICH (hydra)"),
                          (r"PRRTE\)? (\S+)", "PRRTE"), (r"Intel\(R\) MPI.*Version (\S+)", "Intel MPI")):
        m = re.search(pattern, text)
        if m:
            return name, m.group(1)
    return "unknown MPI", (text.strip().splitlines() or ["says nothing"])[0][:60]
