# SPDX-License-Identifier: BSD-2-Clause
"""Virtual hosts: network namespaces joined by a bridge, on which an mpirun starts its ranks without ssh.

    +--- h1 ---------+    +--- h2 ---------+         each host: own network, host name and /dev/shm
    | eth0 10.77.0.1 |    | eth0 10.77.0.2 |  ...
    +-------+--------+    +-------+--------+
            | veth                | veth
    +-------+---------------------+--------+         the command runs here: mpirun starts the ranks
    | eth0 (a bridge) 10.77.0.254          |         through softfabric-on, in the place of ssh
    +--------------------------------------+

All of it lies in one process namespace of its own, whose first process is ours: when it ends, the kernel ends all
others, and namespaces, interfaces and files in /dev/shm go with them, whatever happens. Without root everything is in a
user namespace as well.
"""
import ctypes
import os
import shlex
import signal
import socket
import subprocess

from . import out

CLONE_NEWNS, CLONE_NEWUTS, CLONE_NEWIPC = 0x20000, 0x4000000, 0x8000000
CLONE_NEWUSER, CLONE_NEWPID, CLONE_NEWNET = 0x10000000, 0x20000000, 0x40000000
MS_REC, MS_PRIVATE, MS_BIND, MS_NOSUID, MS_NODEV = 0x4000, 0x40000, 0x1000, 2, 4
PR_SET_PDEATHSIG = 1
NET, LAUNCHER = "10.77.0", "10.77.0.254"
HOSTS_MAX = 200
MEND = ("as root, or allow it: sysctl -w kernel.unprivileged_userns_clone=1 user.max_user_namespaces=10000 "
        "kernel.apparmor_restrict_unprivileged_userns=0 (those that this kernel has); "
        "in a container: docker run --privileged")

libc = ctypes.CDLL(None, use_errno=True)

AGENT = """#!/bin/sh
# softfabric-on HOST COMMAND...: runs a command on a virtual host, as ssh would; options before the name are ssh's and
# mean nothing here.
while [ "${1#-}" != "$1" ]; do shift; done
host=$1
shift
if ! { read -r pid <%(tmp)s/host."$host"; } 2>/dev/null; then
    echo "softfabric: there is no host $host; hosts: %(names)s" >&2
    exit 255
fi
exec nsenter --target "$pid" --mount --root --net --uts --wdns=/ sh -c "cd '$PWD' 2>/dev/null; $*"
"""


def call(name, *args):
    if getattr(libc, name)(*args):
        e = ctypes.get_errno()
        raise OSError(e, os.strerror(e), name)


def mount(source, target, kind, flags, data=None):
    enc = [x.encode() if x else None for x in (source, target, kind)]
    call("mount", enc[0], enc[1], enc[2], ctypes.c_ulong(flags), data)


def possible():
    """None, or why this process cannot make namespaces. Nothing changes: a child tries."""
    pid = os.fork()
    if not pid:
        try:
            enter()
            os._exit(0)
        except OSError as e:
            os._exit(e.errno or 1)
    status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    return os.strerror(status) if status else None


def enter():
    """This process, and with CLONE_NEWPID its children, leave the host's namespaces."""
    flags = CLONE_NEWNET | CLONE_NEWNS | CLONE_NEWUTS | CLONE_NEWIPC | CLONE_NEWPID
    uid, gid = os.getuid(), os.getgid()
    if uid == 0:
        try:
            call("unshare", flags)
            return
        except PermissionError:  # root of a container: as anybody
            pass
    call("unshare", flags | CLONE_NEWUSER)
    for name, text in (("setgroups", "deny"), ("uid_map", "0 %d 1" % uid), ("gid_map", "0 %d 1" % gid)):
        with open("/proc/self/" + name, "w", encoding="ascii") as f:
            f.write(text)


def ip(commands, pid=None):
    where = ["nsenter", "--target", str(pid), "--net"] if pid else []
    p = subprocess.run(where + ["ip", "-batch", "-"], input="\n".join(commands) + "\n",
                       capture_output=True, text=True, check=False)
    if p.returncode:
        raise out.Refused("a virtual network cannot be made: ip: %s" % (p.stderr.strip().splitlines() or ["?"])[0], 125)


def shm_private():
    if os.path.isdir("/dev/shm"):
        mount("tmpfs", "/dev/shm", "tmpfs", MS_NOSUID | MS_NODEV, b"mode=1777")


def host_start(tmp, name, n):
    """A process that keeps the namespaces of host @name; its interface is configured when this returns."""
    ready, say = os.pipe()
    pid = os.fork()
    if not pid:
        try:
            call("prctl", PR_SET_PDEATHSIG, signal.SIGKILL)
            for s in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
                signal.signal(s, signal.SIG_IGN)
            call("unshare", CLONE_NEWNET | CLONE_NEWUTS | CLONE_NEWNS)
            socket.sethostname(name)
            shm_private()
            os.write(say, b"y")
            os.close(say)
            os.close(ready)
            while True:
                signal.pause()
        finally:
            os._exit(1)
    os.close(say)
    ok = os.read(ready, 1)
    os.close(ready)
    if not ok:
        raise out.Refused("virtual host %s cannot be made: %s" % (name, MEND), 125)
    ip(["link add p%d type veth peer name eth0 netns %d" % (n, pid),
        "link set p%d master eth0" % n, "link set p%d up" % n])
    ip(["link set lo up", "link set eth0 up", "addr add %s.%d/24 dev eth0" % (NET, n)], pid)
    with open(os.path.join(tmp, "host." + name), "w", encoding="ascii") as f:
        f.write("%d\n" % pid)


def setup(tmp, cnt, progress):
    """In the first process of the new namespaces: network, names, hosts. Returns their names."""
    names = ["h%d" % n for n in range(1, cnt + 1)]
    try:
        mount("none", "/", None, MS_REC | MS_PRIVATE)
        mount("proc", "/proc", "proc", MS_NOSUID | MS_NODEV)
        shm_private()
        socket.sethostname("softfabric")
        table = (["127.0.0.1 localhost", LAUNCHER + " softfabric"]
                 + ["%s.%d %s" % (NET, n, h) for n, h in enumerate(names, 1)])
        with open(os.path.join(tmp, "hosts"), "w", encoding="ascii") as f:
            f.write("\n".join(table) + "\n")
        if os.path.exists("/etc/hosts"):
            mount(os.path.join(tmp, "hosts"), "/etc/hosts", None, MS_BIND)
    except OSError as e:
        raise out.Refused("this system permits namespaces, but not %s in them (%s); run it %s"
                          % (e.filename, e.strerror, MEND), 125) from None
    ip(["link set lo up", "link add eth0 type bridge", "link set eth0 up", "addr add %s/24 dev eth0" % LAUNCHER])
    for n, name in enumerate(names, 1):
        progress.say("making virtual host %s" % name)
        host_start(tmp, name, n)
    agent = os.path.join(tmp, "softfabric-on")
    with open(agent, "w", encoding="ascii") as f:
        f.write(AGENT % {"tmp": shlex.quote(tmp), "names": " ".join(names)})
    os.chmod(agent, 0o755)
    return names


def launch_env(env, tmp, names):
    """What tells an mpirun which hosts there are and how to reach them: Open MPI 4 (OMPI_MCA_), 5 (PRTE_MCA_), hydra.
    Ranks go round the hosts."""
    agent, slots = os.path.join(tmp, "softfabric-on"), max(1, os.cpu_count() or 1)
    for file, line in (("ompi.hosts", "%s slots=%d" % ("%s", slots)), ("hydra.hosts", "%s")):
        with open(os.path.join(tmp, file), "w", encoding="ascii") as f:
            f.write("".join(line % n + "\n" for n in names))
    ours = {
        "PATH": tmp + ":" + env.get("PATH", "/usr/bin:/bin"), "SOFTFABRIC_HOSTS": ",".join(names),
        "OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",  # root of these namespaces only
        "PRTE_ALLOW_RUN_AS_ROOT": "1", "PRTE_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
        "OMPI_MCA_plm": "rsh", "OMPI_MCA_plm_rsh_agent": agent,
        "OMPI_MCA_orte_default_hostfile": os.path.join(tmp, "ompi.hosts"),
        "OMPI_MCA_orte_keep_fqdn_hostnames": "1",
        "OMPI_MCA_oob_tcp_if_include": NET + ".0/24", "OMPI_MCA_btl_tcp_if_include": NET + ".0/24",
        "OMPI_MCA_orte_tmpdir_base": tmp,
        "OMPI_MCA_rmaps_base_mapping_policy": "node", "OMPI_MCA_rmaps_base_oversubscribe": "1",
        "OMPI_MCA_hwloc_base_binding_policy": "none",
        "PRTE_MCA_plm": "ssh", "PRTE_MCA_plm_ssh_agent": agent,
        "PRTE_MCA_prte_default_hostfile": os.path.join(tmp, "ompi.hosts"),
        "PRTE_MCA_prte_keep_fqdn_hostnames": "1",
        "PRTE_MCA_prte_if_include": NET + ".0/24", "PRTE_MCA_prte_tmpdir_base": tmp,
        "PRTE_MCA_rmaps_default_mapping_policy": "node:oversubscribe", "PRTE_MCA_hwloc_default_binding_policy": "none",
        "HYDRA_LAUNCHER": "ssh", "HYDRA_LAUNCHER_EXEC": agent,
        "HYDRA_HOST_FILE": os.path.join(tmp, "hydra.hosts"), "HYDRA_IFACE": "eth0",
    }
    fixed = ("PATH", "SOFTFABRIC_HOSTS")
    env.update({k: v for k, v in ours.items() if k in fixed or k not in env})
