#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""The softfabric command from outside: test_cmd.py COMMAND OLD_LIBFABRIC GROUP. What it cannot do is one sentence,
never a trace."""
import ctypes
import fcntl
import json
import os
import platform
import pty
import select
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import time
import unittest
import xml.etree.ElementTree

COMMAND, OLD = os.path.abspath(sys.argv[1]), os.path.abspath(sys.argv[2])
TMP = tempfile.TemporaryDirectory(prefix="softfabric-test.")
LIMIT_S = 60


def environment(**more):
    env = {k: v for k, v in os.environ.items() if not k.startswith(("SOFTFABRIC_", "FI_", "OMPI_", "PRTE_", "HYDRA_"))}
    return {**env, "IPATH_NO_BACKTRACE": "1", "TMPDIR": TMP.name, **more}


def run(*args, before=(), **env):
    p = subprocess.run([*before, COMMAND, *args], stdin=subprocess.DEVNULL, capture_output=True, text=True,
                       timeout=LIMIT_S, env=environment(**env), check=False)
    if "Traceback" in p.stdout + p.stderr:
        raise AssertionError("a trace:\n" + p.stderr)
    return p


def in_namespace(script):
    """Words that run a command as root of a user and mount namespace after @script."""
    return ("unshare", "-Urm", "sh", "-c", script + '; exec "$@"', "sh")


NO_READV = {"x86_64": 310, "aarch64": 270}  # __NR_process_vm_readv


def forbid_readv():
    """As the filter of a container: process_vm_readv() is EPERM, all else as before."""
    code = b"".join(struct.pack("HBBI", *ins) for ins in (
        (0x20, 0, 0, 0), (0x15, 0, 1, NO_READV[platform.machine()]), (6, 0, 0, 0x50001), (6, 0, 0, 0x7FFF0000)))
    ops = ctypes.create_string_buffer(code)
    prog = ctypes.create_string_buffer(struct.pack("HP", len(code) // 8, ctypes.addressof(ops)))
    libc = ctypes.CDLL(None)
    if libc.prctl(38, 1, 0, 0, 0) or libc.prctl(22, 2, prog, 0, 0):  # PR_SET_NO_NEW_PRIVS, PR_SET_SECCOMP
        raise OSError("no filter")


def can_namespaces():
    return (shutil.which("unshare")
            and not subprocess.run(["unshare", "-Urmn", "true"], stderr=subprocess.DEVNULL, check=False).returncode)


class Case(unittest.TestCase):
    def refused(self, p, status, *words):
        """One sentence on standard error that has @words, nothing on standard output."""
        self.assertEqual(p.returncode, status, p.stderr)
        self.assertEqual(p.stdout, "")
        self.assertEqual(len(p.stderr.splitlines()), 1, p.stderr)
        self.assertTrue(p.stderr.startswith("softfabric: "))
        for w in words:
            self.assertIn(w, p.stderr)

    def done(self, p):
        self.assertEqual(p.returncode, 0, p.stdout + p.stderr)
        return p.stdout


class Basic(Case):
    def test_help_and_version(self):
        self.assertIn("doctor", self.done(run("--help")))
        self.assertIn("modules in", self.done(run("--version")))
        for verb in ("info", "why", "doctor", "run", "capture", "decode", "verbs", "top", "bench"):
            text = self.done(run(verb, "--help"))
            self.assertIn("exit status", text)
            self.assertEqual(text, self.done(run("help", verb)))

    def test_mistakes(self):
        for words, says in (("rum", "did you mean 'run'?"), ("help rnu", "did you mean 'run'?"),
                            ("info --josn", "did you mean '--json'?"), ("info --json=", "--json has no value"),
                            ("info --json x", "a file for --json is given as --json=x")):
            self.refused(run(*words.split()), 2, says)
        self.refused(run("info", "-p", "efs"), 2, "takes efa, cxi, opx, not efs")
        self.assertEqual(run().returncode, 2)

    def test_streams(self):
        """Standard output and error that are full, or closed."""
        def sh(line):
            p = subprocess.run(["sh", "-c", '"$0" ' + line, COMMAND], stdin=subprocess.DEVNULL, capture_output=True,
                               text=True, timeout=LIMIT_S, env=environment(), check=False)
            self.assertNotIn("Traceback", p.stderr)
            return p
        for line, status in (("--version", 1), ("info -p efa", 1), ("run -q --json -- true", 125)):
            self.refused(sh(line + " >/dev/full"), status, "standard output cannot be written: No space")
            self.assertEqual((sh(line + " >&-").returncode, sh(line + " 2>&- >/dev/null").returncode), (0, 0))
        p = sh("run -q -- sh -c 'echo said >&2; ls /nowhere; exit 3' >&-")
        self.assertEqual((p.returncode, p.stderr[:5]), (3, "said\n"))
        for line, status in (("rum", 2), ("run -- sh -c 'exit 7'", 7)):
            self.assertEqual((sh(line + " 2>/dev/full").returncode, sh(line + " 2>&-").returncode), (status, status))

    @unittest.skipUnless(can_namespaces(), "no namespaces here")
    def test_no_folder(self):
        ro = in_namespace("for d in /tmp /var/tmp /usr/tmp; do [ ! -d $d ] || mount -t tmpfs -o ro tmpfs $d; done; "
                          "cd /proc")
        p = run("run", "-q", "--", "true", before=ro, TMPDIR="/proc")
        self.refused(p, 125, "no folder for temporary files", "TMPDIR")

    def test_info(self):
        text = self.done(run("info", SOFTFABRIC_NET="loss=1%;seed=7", SOFTFABRIC_EFA="nics=2;gen=efa0-read"))
        self.assertIn("loss=1%, seed=7", text)
        for word in ("rdmap0s6-rdm", "rdmap16s27", "efa0-read", "cxi0", "hfi1_0", "OPX-100"):
            self.assertIn(word, text)

    def test_info_json(self):
        file = os.path.join(TMP.name, "info.json")
        self.assertEqual(self.done(run("info", "-p", "cxi", "--json=" + file, SOFTFABRIC_CXI="les=64;svc=2:vnis=7")),
                         "")
        with open(file, encoding="utf-8") as f:
            got = json.load(f)
        self.assertEqual(got["room"]["cxi"]["adapters"][0]["les"], 64)
        self.assertEqual([s["vnis"] for s in got["room"]["cxi"]["adapters"][0]["services"]], [[], [7]])
        self.assertEqual([i["domain_attr.name"] for i in got["providers"]["cxi"]["infos"]][:1], ["cxi0"])
        self.refused(run("info", "--json=/nowhere/x"), 1, "/nowhere/x cannot be written")

    def test_info_refused_room(self):
        p = run("info", SOFTFABRIC_OPX="contexts=2;unit=2")
        self.assertEqual(p.returncode, 1)
        self.assertIn("opx: refused: SOFTFABRIC_OPX: unknown key 'unit' (did you mean 'units'?)", p.stdout)
        self.assertIn("cxi0", p.stdout)

    def test_libfabric_broken_or_old(self):
        lib = os.path.join(TMP.name, "broken")
        os.mkdir(lib)
        with open(os.path.join(lib, "libfabric.so.1"), "w", encoding="ascii"):
            pass
        self.refused(run("info", LD_LIBRARY_PATH=lib), 1, "libfabric cannot be loaded", "apt install libfabric1")
        self.assertIn("used: libfabric cannot be loaded", run("run", "--", "true", LD_LIBRARY_PATH=lib).stderr)
        old = os.path.join(TMP.name, "old")
        os.mkdir(old)
        os.symlink(OLD, os.path.join(old, "libfabric.so.1"))
        self.refused(run("why", "caps=msg", LD_LIBRARY_PATH=old), 1, "1.11", "1.17")


class Verbs(Case):
    @unittest.skipUnless(shutil.which("ibv_devices"), "no ibv_devices")
    def test_devices(self):
        text = self.done(run("verbs", "--efa", "nics=2", "--", "ibv_devices"))
        self.assertEqual(text.count("rdmap"), 2)

    def test_mistakes(self):
        self.refused(run("verbs"), 125, "behind --")
        self.refused(run("verbs", "--", "no-such-command"), 127, "no-such-command is not there")
        self.refused(run("verbs", "--", "/etc/passwd"), 126, "cannot be executed")
        self.refused(run("verbs", "--net", "los=1%", "--", "ibv_devices"), 125, "did you mean 'loss'?")


class Why(Case):
    def test_number(self):
        p = run("why", "caps=msg+tagged", "tx_attr.inject_size=5000")
        self.assertEqual(p.returncode, 1)
        for provider, most in (("efa", 4096), ("cxi", 192), ("opx", 16)):
            self.assertIn("%s refuses: " % provider, p.stdout)
            self.assertIn("accepted with tx_attr.inject_size=%d at most" % most, p.stdout)

    def test_two_attributes(self):
        p = run("why", "-p", "cxi", "--json", "caps=rma+multicast", "ep_attr.type=rdm", "api=1.17")
        got = json.loads(p.stdout)["providers"]["cxi"]
        self.assertIn("FI_MULTICAST", got["reason"])
        change = dict(got["change"])
        self.assertEqual(change["caps"], "caps without FI_MULTICAST")
        self.assertEqual(change["domain_attr.mr_mode"], "domain_attr.mr_mode=FI_MR_ALLOCATED+FI_MR_ENDPOINT")

    def test_reasons(self):
        """The reason is about what stands in the way, in names, and the advice is the most that is accepted."""
        for args, words in (
                (("-p", "efa", "api=9.0"), ("this libfabric is ", "accepted with api=")),
                (("-p", "opx", "ep_attr.tx_ctx_cnt=1000"), ("at most 4 here", "tx_ctx_cnt=4 at most")),
                (("-p", "efa", "domain_attr.name=foo"), ('refuses: rdmap0s6-rdm does not match: domain_attr->name',)),
                (("-p", "efa", "fabric_attr.name=efa-direct"), ('fabric_attr->name is "efa-direct"',)),
                (("-p", "opx", "domain_attr.mr_mode=basic"), ("in the hints, no bit of it is required",)),
                (("-p", "cxi", "ep_attr.type=dgram"), ("ep_attr->type is FI_EP_DGRAM in the hints: cxi has",)),
                (("-p", "efa", "addr_format=2"), ("is FI_SOCKADDR_IN in the hints, FI_ADDR_EFA here",)),
                (("-p", "efa", "ep_attr.protocol=24"), ("FI_PROTO_CXI in the hints, FI_PROTO_EFA here",))):
            p = run("why", *args)
            self.assertEqual(p.returncode, 1, p.stderr)
            for w in words:
                self.assertIn(w, p.stdout)

    def test_environment(self):
        """A command is told what softfabric run would tell it, and each is asked in that room."""
        script = 'echo "$FI_PROVIDER $OMPI_MCA_mtl $SOFTFABRIC_EFA" >%s' % os.path.join(TMP.name, "why-env")
        run("why", "-p", "efa", "--efa", "nics=2", "--", "sh", "-c", script)
        with open(os.path.join(TMP.name, "why-env"), encoding="ascii") as f:
            self.assertEqual(f.read(), "efa ofi nics=2\n")
        self.assertIn('"cxi1" in the hints', run("why", "-p", "cxi", "domain_attr.name=cxi1").stdout)
        self.done(run("why", "-p", "cxi", "--cxi", "nics=2", "domain_attr.name=cxi1"))
        self.refused(run("why", "--efa", "nisc=2", "caps=msg"), 125, "did you mean 'nics'?")

    def test_least_modes(self):
        p = run("why", "-p", "opx", "caps=tagged", "mode=context", "api=1.17")
        self.assertIn("without FI_CONTEXT2", p.stdout)
        self.assertTrue(p.stdout.endswith("accepted with mode=FI_CONTEXT2+FI_CONTEXT\n"), p.stdout)

    def test_odd_names(self):
        p = run("why", "-p", "cxi", "--json", 'domain=o"d\\d', "caps=msg")
        self.assertIn('domain_attr->name is "o"d\\d" in the hints', json.loads(p.stdout)["providers"]["cxi"]["reason"])

    def test_advice_is_accepted(self):
        self.done(run("why", "-p", "cxi", "caps=FI_RMA", "ep=rdm", "mr_mode=allocated+endpoint", "api=1.17"))

    def test_mistakes(self):
        self.refused(run("why", "cap=msg"), 2, "did you mean 'caps'?")
        self.refused(run("why", "caps=mgs"), 2, "did you mean 'msg'?")
        self.refused(run("why", "size=5"), 2, "tx_attr.size, rx_attr.size")
        self.refused(run("why", "tx_attr.size=many"), 2, "takes a number")
        self.refused(run("why", "caps"), 2, "caps has no value")
        self.refused(run("why"), 2, "hints or a command")
        self.refused(run("why", "provider=verbs"), 2, "no provider of ours")
        self.refused(run("why", "--", "no-such-program"), 127, "no-such-program is not there")

    def test_command(self):
        self.refused(run("why", "--", "true"), 1, "none of its processes asked")
        if not shutil.which("fi_info"):
            self.skipTest("fi_info is not installed")
        p = run("why", "--json=" + os.path.join(TMP.name, "why"), "--", "fi_info", "-p", "cxi", "-c", "FI_MULTICAST")
        self.assertEqual(p.returncode, 1, p.stderr)
        with open(os.path.join(TMP.name, "why"), encoding="utf-8") as f:
            got = json.load(f)
        said = [q["providers"]["cxi"] for q in got["questions"] if "FI_MULTICAST" in q["hints"]]
        self.assertIn("caps asks for FI_MULTICAST", said[0]["reason"])
        self.assertIn(["caps", "caps without FI_MULTICAST"], said[0]["change"])

    @unittest.skipUnless(shutil.which("fi_info"), "fi_info is not installed")
    def test_progress(self):
        """On a terminal, what takes long says what it does; the command's own words are left alone."""
        pid, fd = pty.fork()
        if not pid:
            script = "sleep 2.5; exec fi_info -p cxi -c FI_MULTICAST"
            os.execve(COMMAND, [COMMAND, "why", "-p", "cxi", "--", "sh", "-c", script], environment())
        said = b""
        try:
            while True:
                said += os.read(fd, 65536)
        except OSError:  # the other end has closed
            pass
        os.waitpid(pid, 0)
        os.close(fd)
        for word in (b"softfabric: sh is running", b"explaining question 1 of", b"caps without FI_MULTICAST"):
            self.assertIn(word, said)

    def test_end(self):
        """A signal ends the command as well."""
        up = os.path.join(TMP.name, "why-up")
        script = "echo $$ >%s.x; mv %s.x %s; exec sleep 300" % (up, up, up)
        p = subprocess.Popen([COMMAND, "why", "--", "sh", "-c", script], stdin=subprocess.DEVNULL,
                             stderr=subprocess.PIPE, text=True, env=environment())
        until = time.monotonic() + LIMIT_S
        while not os.path.exists(up):
            self.assertLess(time.monotonic(), until)
            time.sleep(0.02)
        p.send_signal(signal.SIGTERM)
        self.assertIn("ended with status 143", p.communicate(timeout=LIMIT_S)[1])
        with open(up, encoding="ascii") as f:
            self.assertFalse(os.path.exists("/proc/%d" % int(f.read())))


class Doctor(Case):
    def level(self, p, what):
        return [(f["level"], f["text"], f["mend"]) for f in json.loads(p.stdout)["findings"] if f["what"] == what]

    def test_here(self):
        p = run("doctor", "--json")
        self.assertIn(p.returncode, (0, 1), p.stderr)
        for what in ("modules", "shared memory", "memory of other processes", "UDP offloads", "cores", "locked memory",
                     "virtual hosts", "libfabric"):
            self.assertTrue(self.level(p, what), what)
        self.assertEqual(self.level(p, "modules")[0][0], "ok")
        self.assertEqual([w for w in os.listdir("/dev/shm") if w.startswith("softfabric-doctor")], [])

    def test_refused_room(self):
        p = run("doctor", "--json", SOFTFABRIC_NET="los=1%")
        self.assertEqual(p.returncode, 1)
        self.assertEqual(self.level(p, "room")[0][0], "bad")
        self.assertIn("did you mean 'loss'?", self.level(p, "room")[0][1])

    def test_old_libfabric(self):
        lib = os.path.join(TMP.name, "doctor-old")
        os.mkdir(lib)
        os.symlink(OLD, os.path.join(lib, "libfabric.so.1"))
        found = self.level(run("doctor", "--json", LD_LIBRARY_PATH=lib), "libfabric")
        self.assertIn("1.11: too old", found[0][1])
        self.assertEqual(found[0][0], "bad")

    @unittest.skipUnless(platform.machine() in NO_READV, "another machine")
    def test_no_ptrace(self):
        p = subprocess.run([COMMAND, "doctor", "--json"], capture_output=True, text=True, timeout=LIMIT_S, check=False,
                           env=environment(), preexec_fn=forbid_readv)
        level, text, mend = self.level(p, "memory of other processes")[0]
        self.assertEqual((level, p.stderr), ("note", ""))
        self.assertIn("process_vm_readv is refused (Operation not permitted", text)
        self.assertRegex(mend, "SYS_PTRACE|ptrace_scope=0")

    @unittest.skipUnless(can_namespaces(), "no namespaces here")
    def test_shared_memory(self):
        for script, word, mend in (
                ("mount -t tmpfs -o size=1m tmpfs /dev/shm", "4 MiB of /dev/shm cannot be had", "size=1g"),
                ("mount -t tmpfs -o size=8m tmpfs /dev/shm", "8.4 MB in /dev/shm are free", "size=1g"),
                ("mount -t tmpfs -o ro tmpfs /dev/shm", "Read-only", "remount,rw")):
            p = run("doctor", "--json", before=in_namespace(script))
            level, text, said = self.level(p, "shared memory")[0]
            self.assertEqual((p.returncode, level), (1, "bad"))
            self.assertIn(word, text)
            self.assertIn(mend, said)


class Run(Case):
    def test_status(self):
        p = run("run", "--", "sh", "-c", "echo said; exit 7")
        self.assertEqual((p.returncode, p.stdout), (7, "said\n"))
        self.assertIn("no adapter was used", p.stderr)
        p = run("run", "-p", "opx", "--opx", "contexts=1", "--", "false")
        self.assertIn("softfabric why -p opx --opx contexts=1 -- false;", p.stderr)
        p = run("run", "-q", "--", "sh", "-c", "kill -TERM $$")
        self.assertEqual((p.returncode, p.stderr), (143, ""))

    def test_environment(self):
        script = "echo $FI_PROVIDER $SOFTFABRIC_NET $SOFTFABRIC_EFA ${FI_PROVIDER_PATH##*/build}"
        p = run("run", "-q", "-p", "efa", "--net", "loss=1%", "--efa", "nics=2", "--", "sh", "-c", script,
                SOFTFABRIC_NET="seed=3")
        self.assertEqual(p.stdout.split()[:3], ["efa", "seed=3;loss=1%", "nics=2"])

    def test_mistakes(self):
        self.refused(run("run", "true"), 125, "behind --")
        self.refused(run("run", "--hsots", "2", "--", "true"), 125, "did you mean '--hosts'?")
        self.refused(run("run", "--net", "los=1%", "--", "true"), 125, "did you mean 'loss'?")
        self.refused(run("run", "--efa", "gen=efa9", "--", "true"), 125, "efa2-full")
        self.refused(run("run", "--", "no-such-program"), 127, "not in PATH")
        self.refused(run("run", "--", "/etc/passwd"), 126, "cannot be executed")
        self.refused(run("run", "--json=/nowhere/x", "--", "echo", "ran"), 125, "cannot be written")
        self.refused(run("run", "--hosts", "0", "--", "true"), 125, "1 to 200")
        self.refused(run("run", "--hosts", "two", "--", "true"), 125, "--hosts takes a number, not two")
        self.refused(run("run", "--", ""), 127, "no name")
        self.refused(run("run", "-p", "efa", "--efa", "nics=0", "--", "true"), 125, "has no adapter", "nics=0")
        conf = os.path.join(TMP.name, "conf")
        for text, words in (("[nett]\nloss=1%\n", ("[nett]", "did you mean 'net'?")),
                            ("# a room\nloss=1%\n", ("loss=1% stands before any section",))):
            with open(conf, "w", encoding="ascii") as f:
                f.write(text)
            self.refused(run("run", "--", "true", SOFTFABRIC_CONF=conf), 125, *words)
        self.refused(run("run", "--", "true", SOFTFABRIC_NT="x"), 125, "did you mean 'SOFTFABRIC_NET'?")
        self.refused(run("capture", "-o", conf, "--net", "pcap=x", "--", "true"), 125, "capture sets pcap itself")

    def test_counters(self):
        if not shutil.which("fi_pingpong"):
            self.skipTest("fi_pingpong is not installed")
        file = os.path.join(TMP.name, "run.json")
        # Both ends under one command; the client comes again until the server listens.
        script = ('p=$((20000 + $$ % 20000)); fi_pingpong -p efa -e rdm -B $p -I 10 -S 64 >/dev/null 2>&1 & '
                  'for i in $(seq 100); do '
                  'fi_pingpong -p efa -e rdm -P $p -I 10 -S 64 127.0.0.1 2>/dev/null && exit; sleep 0.1; done; exit 1')
        p = run("run", "-p", "efa", "--json=" + file, "--", "sh", "-c", script)
        self.assertEqual(p.returncode, 0, p.stderr)
        with open(file, encoding="utf-8") as f:
            got = json.load(f)
        adapter = got["adapters"][0]
        self.assertEqual(adapter["adapter"], "rdmap0s6")
        self.assertGreaterEqual(adapter["sent_bytes"], 64 * 10)
        self.assertIn("send_wrs", adapter["by_class"]["protocols"])
        self.assertIn("rdmap0s6", p.stderr)

    def test_signal_ends_all(self):
        pids = os.path.join(TMP.name, "pids")
        p = subprocess.Popen([COMMAND, "run", "-q", "--", "sh", "-c",
                              "(trap '' TERM; echo $$; exec sleep 300) & echo $! >%s.x; mv %s.x %s; sleep 300"
                              % (pids, pids, pids)],
                             stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, env=environment())
        self.await_file(pids)
        p.send_signal(signal.SIGTERM)
        self.assertEqual(p.wait(LIMIT_S), 143)
        with open(pids, encoding="ascii") as f:
            self.assertFalse(os.path.exists("/proc/%d" % int(f.read())))

    def test_interrupt_tells_what_was_counted(self):
        up, file = os.path.join(TMP.name, "int-up"), os.path.join(TMP.name, "int.json")
        p = subprocess.Popen([COMMAND, "run", "--json=" + file, "--", "sh", "-c", "touch %s; exec sleep 300" % up],
                             stdin=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, env=environment())
        self.await_file(up)
        p.send_signal(signal.SIGINT)
        self.assertIn("softfabric: sh ended with status 130", p.communicate(timeout=LIMIT_S)[1])
        with open(file, encoding="utf-8") as f:
            self.assertEqual((p.returncode, json.load(f)["status"]), (130, 130))

    def await_file(self, path):
        until = time.monotonic() + LIMIT_S
        while not os.path.exists(path):
            self.assertLess(time.monotonic(), until)
            time.sleep(0.02)

    def test_end_while_the_folder_is_made(self):
        """The signal comes between mkdir() and all that follows it: in a moment that no outsider meets by will."""
        folder, at_start = tempfile.mkdtemp(dir=TMP.name), tempfile.mkdtemp(dir=TMP.name)
        with open(os.path.join(at_start, "sitecustomize.py"), "w", encoding="utf-8") as f:
            f.write("import os\nmake = os.mkdir\ndef mkdir(path, *a, **kw):\n    make(path, *a, **kw)\n"
                    "    if os.path.basename(path).startswith('softfabric-'):\n        os.kill(os.getpid(), 15)\n"
                    "os.mkdir = mkdir\n")
        file = os.path.join(TMP.name, "none.pcapng")
        for words, status in ((("run", "-q"), 143), (("why",), 143), (("capture", "-o", file), 130)):
            p = run(*words, "--", "sleep", "300", TMPDIR=folder, PYTHONPATH=at_start)
            self.assertEqual((p.stdout, p.returncode, os.listdir(folder)), ("", status, []), words)


class Hosts(Run):
    """Virtual hosts; of the tests above only those named here."""
    test_status = test_environment = test_mistakes = test_counters = test_signal_ends_all = None
    test_interrupt_tells_what_was_counted = test_end_while_the_folder_is_made = None

    def setUp(self):
        if not can_namespaces() or not shutil.which("ip"):
            self.skipTest("no namespaces, or no ip, here")

    def test_names_and_network(self):
        script = ("echo $SOFTFABRIC_HOSTS; uname -n; "
                  "for h in h1 h2; do softfabric-on $h 'uname -n; ip -4 -o addr show eth0'; done; "
                  "softfabric-on h2 bash -c '\"exec 3<>/dev/tcp/h1/9\"' 2>&1")
        p = run("run", "-q", "--hosts", "2", "--", "sh", "-c", script + "; softfabric-on h3 true; exit 5")
        self.assertEqual(p.returncode, 5, p.stderr)
        for word in ("h1,h2\nsoftfabric\nh1\n", "10.77.0.1/24", "\nh2\n", "10.77.0.2/24", "refused"):
            self.assertIn(word, p.stdout)
        self.assertEqual(p.stderr, "softfabric: there is no host h3; hosts: h1 h2\n")
        self.refused(run("run", "--hosts", "2", "--net", "if=eth9", "--", "true"), 125, "not eth9", "leave if out")
        p = run("run", "-q", "--hosts", "1", "--", "softfabric-on", "h1", "uname", "-n")
        self.assertEqual(self.done(p), "h1\n")

    def test_mpirun(self):
        launchers = [m for m in ("mpirun.openmpi", "mpirun.mpich") if shutil.which(m)]
        if not launchers:
            self.skipTest("no mpirun")
        for m in launchers:
            p = run("run", "-q", "--hosts", "2", "--", m, "-np", "4", "sh", "-c", "echo $(uname -n) $SOFTFABRIC_NET")
            self.assertEqual(p.returncode, 0, p.stderr)
            self.assertEqual(sorted(p.stdout.split("\n")), ["", "h1 if=eth0", "h1 if=eth0", "h2 if=eth0", "h2 if=eth0"])

    def test_counters_of_each_host(self):
        if not shutil.which("fi_pingpong"):
            self.skipTest("fi_pingpong is not installed")
        script = ("softfabric-on h1 fi_pingpong -p opx -e rdm -I 10 -S 64 >/dev/null 2>&1 & for i in $(seq 100); do "
                  "softfabric-on h2 fi_pingpong -p opx -e rdm -I 10 -S 64 10.77.0.1 2>/dev/null && exit; "
                  "sleep 0.1; done; exit 1")
        file = os.path.join(TMP.name, "hosts.json")
        p = run("run", "--hosts", "2", "--json=" + file, "--", "sh", "-c", script)
        self.assertEqual(p.returncode, 0, p.stderr)
        with open(file, encoding="utf-8") as f:
            got = json.load(f)["adapters"]
        self.assertIn(("h2", "hfi1_0"), [(a["host"], a["adapter"]) for a in got])
        self.assertGreater(sum(a["counters"]["net_tx_pkts"] for a in got), 0)

    def test_end_leaves_nothing(self):
        for sig, status in ((signal.SIGTERM, 143), (signal.SIGKILL, -9)):
            mark = "30%d.%d" % (sig, os.getpid())
            up = os.path.join(TMP.name, "up%d" % sig)
            p = subprocess.Popen([COMMAND, "run", "-q", "--hosts", "2", "--", "sh", "-c",
                                  "touch %s; softfabric-on h1 sleep %s" % (up, mark)],
                                 stdin=subprocess.DEVNULL, env=environment())
            self.await_file(up)
            p.send_signal(sig)
            self.assertEqual(p.wait(LIMIT_S), status)
            until = time.monotonic() + LIMIT_S
            while self.running(mark):
                self.assertLess(time.monotonic(), until)
                time.sleep(0.02)

    def test_end_while_hosts_are_made(self):
        folder = tempfile.mkdtemp(dir=TMP.name)
        p = subprocess.Popen([COMMAND, "run", "-q", "--hosts", "9", "--", "sleep", "300"], stdin=subprocess.DEVNULL,
                             stderr=subprocess.PIPE, text=True, env=environment(TMPDIR=folder))
        until = time.monotonic() + LIMIT_S
        while not os.listdir(folder):
            self.assertLess(time.monotonic(), until)
            time.sleep(0.001)
        p.send_signal(signal.SIGTERM)
        self.assertEqual((p.communicate(timeout=LIMIT_S)[1], p.returncode, os.listdir(folder)), ("", 143, []))

    def running(self, mark):
        for d in os.listdir("/proc"):
            try:
                with open("/proc/%s/cmdline" % d, encoding="utf-8", errors="replace") as f:
                    if f.read().startswith("sleep\0" + mark):
                        return True
            except OSError:
                pass
        return False

    def test_forbidden(self):
        no_more = in_namespace("echo 0 >/proc/sys/user/max_net_namespaces")
        self.refused(run("run", "--hosts", "2", "--", "echo", "ran", before=no_more), 125,
                     "does not permit virtual hosts", "as root, or allow it")
        found = json.loads(run("doctor", "--json", before=no_more).stdout)["findings"]
        said = [f for f in found if f["what"] == "virtual hosts"][0]
        self.assertEqual(said["level"], "note")
        self.assertIn("as root, or allow it", said["mend"])


class Top(Case):
    """Two processes tell of themselves, after some messages, and while they do nothing."""
    SIDE = os.path.join(os.path.dirname(COMMAND), "softfabric-bench")

    def setUp(self):
        self.dir = tempfile.mkdtemp(dir=TMP.name)
        self.sides = []

    def tearDown(self):
        for p in self.sides:
            p.kill()
            p.wait()
            p.stdin.close()
            p.stdout.close()

    def start(self, provider, **env):
        modules = json.loads('"%s"' % run("--version").stdout.split(" in ")[1].strip())
        env = environment(FI_PROVIDER_PATH=modules, SOFTFABRIC_LIVE=self.dir, **env)
        self.sides = [subprocess.Popen([self.SIDE, provider, "-", "64"], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                       text=True, bufsize=1, env=env) for _ in range(2)]
        names = [p.stdout.readline().split()[1] for p in self.sides]
        for p, name in zip(self.sides, reversed(names)):
            p.stdin.write("peer %s\n" % name)
        self.assertEqual([p.stdout.readline() for p in self.sides], ["ready\n"] * 2)
        self.exchange()

    def exchange(self):
        for me, p in enumerate(self.sides):
            p.stdin.write("lat 8 100 %d\n" % me)
        self.assertEqual([p.stdout.readline().split()[0] for p in self.sides], ["ns"] * 2)

    def look(self, good):
        """The adapters, as soon as @good says so of them."""
        until = time.monotonic() + LIMIT_S
        while True:
            got = json.loads(run("top", "--json", "--dir", self.dir).stdout)["adapters"]
            if good(got):
                return got
            self.assertLess(time.monotonic(), until, got)

    def check(self, provider, name, path, **env):
        self.start(provider, **env)
        pids = sorted(p.pid for p in self.sides)
        got = self.look(lambda g: len(g) == 2 and all(a["peers"] and a["peers"][0]["sent"] > 0 for a in g))
        self.assertEqual(sorted(a["pid"] for a in got), pids)
        for a in got:
            self.assertEqual((a["adapter"], a["program"], len(a["ports"])), (name, "softfabric-bench", 1))
            self.assertEqual(a["peers"][0]["path"], path)
            self.assertEqual(a["peers"][0]["port"], a["ports"][0]["addr"])
        self.assertEqual({a["peers"][0]["addr"] for a in got}, {a["ports"][0]["addr"] for a in got})
        then = {a["pid"]: a["ports"][0]["counters"]["tx_frames"] for a in got}
        self.exchange()
        self.look(lambda g: all(a["ports"][0]["counters"]["tx_frames"] > then[a["pid"]] for a in g)
                  and g[0]["operations"] > 0)
        self.assertEqual({os.stat(os.path.join(self.dir, f)).st_mode & 0o777 for f in os.listdir(self.dir)}, {0o600})

    def test_views_and_kill(self):
        self.check("efa", "rdmap0s6", "shm")
        for view, word in (("adapters", "rdmap0s6"), ("ports", "127.0.0.1:"), ("peers", "shm")):
            self.assertIn(word, self.done(run("top", "--once", "-d", "0.1", "-v", view, "--dir", self.dir)))
        self.screen()
        self.sides[0].kill()
        self.sides[0].wait()
        self.look(lambda g: [a["pid"] for a in g] == [self.sides[1].pid])
        self.assertEqual(len(os.listdir(self.dir)), 1)  # what the killed one left is gone

    def screen(self):
        pid, fd = pty.fork()
        if not pid:
            os.execve(COMMAND, [COMMAND, "top", "-d", "0.2", "-v", "peers", "--dir", self.dir],
                      environment(TERM="xterm", LINES="24", COLUMNS="200"))
        said, until = b"", time.monotonic() + LIMIT_S
        while b"waiting" not in said or b"rdmap0s6" not in said:
            self.assertLess(time.monotonic(), until, said)
            if select.select([fd], [], [], 0.1)[0]:
                said += os.read(fd, 65536)
            os.write(fd, b"p")
        os.write(fd, b"q")
        try:
            while os.read(fd, 65536):
                pass
        except OSError:  # the other end has closed
            pass
        self.assertEqual(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), 0)
        os.close(fd)

    def test_by_network_and_close(self):
        self.check("cxi", "cxi0", "net", SOFTFABRIC_NET="udp")
        self.tearDown()
        self.start_and_end("opx")

    def start_and_end(self, provider):
        """Who closes what it opened, or just exits, leaves no file."""
        self.start(provider)
        self.look(lambda g: len([a for a in g if a["peers"]]) == 2)
        self.sides[0].stdin.close()
        self.sides[1].stdin.write("nonsense 1 1 1\n")
        self.assertEqual([p.wait(LIMIT_S) for p in self.sides], [0, 2])
        self.assertEqual(os.listdir(self.dir), [])

    def counted(self, provider, net, kill):
        """What the second side counts of its peer's end, and of what came with it."""
        self.start(provider, SOFTFABRIC_NET=net)
        if kill:
            self.sides[0].kill()
        else:
            self.sides[0].stdin.close()
        self.sides[0].wait(LIMIT_S)
        self.sides[1].stdin.write("lat 8 1 %d\n" % (not kill))  # waits; or sends, or the dead are not missed
        got = self.look(lambda g: any(a["counters"].get(k) for a in g for k in self.ENDS))
        self.tearDown()
        return {k for k, v in got[0]["counters"].items() if k in self.ENDS and v}

    ENDS = ("impaired_remote_conn_events", "soft_peers_dead", "net_rx_drops", "soft_net_rx_drops", "peers_closed",
            "soft_peers_closed")

    def test_closed_is_not_lost(self):
        """Who says goodbye is no loss, and none of it a drop; who is killed is one."""
        names = {"efa": ("peers_closed", "impaired_remote_conn_events"),
                 "cxi": ("soft_peers_closed", "soft_peers_dead")}
        for provider, net, kill in (("efa", "udp", 0), ("cxi", "udp", 0), ("cxi", "shm", 0), ("efa", "udp", 1)):
            self.assertEqual(self.counted(provider, net, kill), {names[provider][kill]}, (provider, net, kill))

    def test_odd_files(self):
        file = os.path.join(self.dir, "softfabric-live.1.0")
        with open(file, "w", encoding="latin-1") as f:
            fcntl.lockf(f, fcntl.LOCK_EX)
            for text in ("", "softfabric-live 1 7\nend 7\n",
                         "softfabric-live 1 7\nprocess pid=x\npeer port=99 sent=-1\nend 8\n", "\xff" * 5000,
                         "softfabric-live 1 7\nprocess pid=1 host=\x1b[2J program=\x07\npeer port=-1\nport\n"
                         "peer port=0\nsoftfabric-stats: adapter=\x1b x=y\nend 7\n"):
                f.seek(0)
                f.truncate()
                f.write(text)
                f.flush()
                p = subprocess.run([COMMAND, "top", "--once", "-d", "0.1", "-v", "peers", "--dir", self.dir],
                                   capture_output=True, text=True,
                                   timeout=LIMIT_S, env=environment(), check=False)
                self.assertIn(p.returncode, (0, 1))
                self.assertNotIn("Traceback", p.stderr)
                self.assertNotIn("\x1b", p.stdout)
            os.symlink("/etc/passwd", os.path.join(self.dir, "softfabric-live.2.0"))
            os.mkfifo(os.path.join(self.dir, "softfabric-live.3.0"))
            run("top", "--json", "--dir", self.dir)

    def test_mistakes(self):
        self.refused(run("top", "--once", "-d", "0.1", "--dir", self.dir), 1, "no adapter tells anything")
        self.refused(run("top", "--dir", self.dir), 2, "needs a terminal", "--once")
        self.refused(run("top", "--dir", "/nowhere"), 2, "no folder /nowhere")
        self.refused(run("top", "-d", "0"), 2, "0.1 to 3600")
        self.refused(run("top", "-v", "peer"), 2, "adapters, peers, ports")


class Bench(Case):
    def test_small(self):
        files = {k: os.path.join(TMP.name, "bench." + k) for k in ("csv", "svg", "json")}
        text = self.done(run("bench", "-p", "cxi,tcp", "-s", "8", "-n", "2", "--turn", "1", "--csv", files["csv"],
                             "--svg", files["svg"], "--json=" + files["json"]))
        self.assertIn("lat, us", text)
        with open(files["json"], encoding="utf-8") as f:
            got = json.load(f)
        points = {(r["test"], r["size"], r["provider"]) for r in got["results"] if r["value"] > 0}
        self.assertEqual(points, {(t, 8, p) for t in ("lat", "bw", "rate") for p in ("cxi", "tcp")})
        with open(files["csv"], encoding="utf-8") as f:
            rows = f.read().splitlines()
        version = got["libfabric"]["version"]
        self.assertEqual(len(rows), 1 + len(points))
        self.assertRegex(version, r"^\d+\.\d+$")
        self.assertEqual({r.split(",")[-1] for r in rows}, {"libfabric", version})
        self.assertIn("all on libfabric %s (%s)" % (version, got["libfabric"]["file"]), text)
        with open(files["svg"], encoding="utf-8") as f:
            self.assertIn("all on libfabric %s<" % version, f.read())
        self.assertEqual(len(xml.etree.ElementTree.parse(files["svg"]).findall(".//{*}polyline")), 4)

    def test_newest_libfabric(self):
        """One that is too old, or broken, is none; what SOFTFABRIC_PEERS names has to be there, and is taken."""
        for name in ("peers-old", "peers-broken", "peers-own"):
            os.makedirs(os.path.join(TMP.name, name, "lib"))
        link = os.path.join(TMP.name, "%s/lib/libfabric.so.1")
        os.symlink(OLD, link % "peers-old")
        with open(link % "peers-broken", "w", encoding="ascii"):
            pass
        small = ("bench", "-p", "tcp", "-t", "lat", "-s", "8", "-n", "1", "--turn", "1", "--json")
        here = json.loads(self.done(run(*small)))["libfabric"]
        os.symlink(here["file"], link % "peers-own")
        old = os.path.dirname(link % "peers-old")
        self.assertEqual(json.loads(self.done(run(*small, LD_LIBRARY_PATH=old)))["libfabric"], here)
        peers = {n: os.path.join(TMP.name, n) for n in ("peers-old", "peers-broken", "peers-own")}
        got = json.loads(self.done(run(*small, SOFTFABRIC_PEERS=peers["peers-own"])))["libfabric"]
        self.assertEqual(got, {"version": here["version"], "file": link % "peers-own"})
        self.refused(run(*small, SOFTFABRIC_PEERS="/nowhere"), 1, "there is no /nowhere/lib/libfabric.so.1")
        self.refused(run(*small, SOFTFABRIC_PEERS=peers["peers-broken"]), 1, "peers-broken", "cannot be loaded")
        self.refused(run(*small, SOFTFABRIC_PEERS=peers["peers-old"]), 1, "1.11", "1.17 or later")

    def test_conditions_and_missing(self):
        p = run("bench", "-p", "opx,nosuch", "-t", "lat", "-s", "8", "-n", "1", "--turn", "1", "--net",
                "delay=200us;seed=7", "--json")
        got = json.loads(p.stdout)
        self.assertEqual((p.returncode, list(got["failed"]), got["conditions"]), (0, ["nosuch"],
                                                                                  "net: delay=200us;seed=7"))
        self.assertGreater(got["results"][0]["value"], 100)
        p = run("bench", "-p", "efs", "-t", "lat", "-n", "1")
        self.assertIn("did you mean 'efa'?", p.stdout)
        p = run("bench", "-p", "nosuch", "-t", "lat", "-n", "1")
        self.assertEqual(p.returncode, 1)
        self.assertIn("nosuch: not measured: fi_getinfo: No data available", p.stdout)

    def test_mistakes(self):
        self.refused(run("bench", "-t", "lta"), 2, "did you mean 'lat'?")
        self.refused(run("bench", "-s", "8,many"), 2, "8,4k,1M, not many")
        self.refused(run("bench", "-s", "65M"), 2, "64M")
        self.refused(run("bench", "-s", ""), 2, "--sizes has no value")
        self.refused(run("bench", "--net", "los=1%"), 125, "did you mean 'loss'?")
        self.refused(run("bench", "--svg", "/nowhere/x"), 1, "cannot be written")
        self.refused(run("bench", "-n", "0"), 2, "1 to 1000")
        self.refused(run("bench", "--hosts", "-p", "efa,shm"), 2, "shm does not reach another host")

    @unittest.skipUnless(can_namespaces(), "no namespaces here")
    def test_no_shared_memory(self):
        """Read-only, or full: messages go by the network."""
        for options in ("ro", "size=64k"):
            p = run("bench", "-p", "efa,cxi,opx", "-t", "lat", "-s", "8", "-n", "1", "--turn", "1", "--json",
                    before=in_namespace("mount -t tmpfs -o %s tmpfs /dev/shm" % options))
            got = json.loads(self.done(p))
            self.assertEqual(([r["provider"] for r in got["results"]], got["failed"]), (["efa", "cxi", "opx"], {}))
            self.assertEqual(len(p.stderr.splitlines()), 1, p.stderr)
            self.assertIn("meet by UDP, which is slower", p.stderr)

    @unittest.skipUnless(can_namespaces() and shutil.which("ip"), "no namespaces, or no ip, here")
    def test_hosts(self):
        got = json.loads(self.done(run("bench", "-p", "efa,tcp", "-t", "lat", "-s", "8", "-n", "1", "--turn", "1",
                                       "--hosts", "--json")))
        self.assertEqual([r["provider"] for r in got["results"]], ["efa", "tcp"])
        self.assertEqual(got["where"], "virtual hosts")

    def test_interrupt(self):
        p = subprocess.Popen([COMMAND, "bench", "-p", "cxi", "-t", "lat", "-s", "8,16", "--turn", "2000", "-n", "1000"],
                             stdin=subprocess.DEVNULL,
                             stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment(),
                             start_new_session=True)
        until = time.monotonic() + LIMIT_S
        while "softfabric-bench" not in self.below(p.pid):
            self.assertLess(time.monotonic(), until)
            time.sleep(0.02)
        os.killpg(p.pid, signal.SIGINT)
        said, err = p.communicate(timeout=LIMIT_S)
        self.assertEqual((p.returncode, err), (130, ""))
        self.assertIn("interrupted", said)

    def below(self, pid):
        with open("/proc/%d/task/%d/children" % (pid, pid), encoding="ascii") as f:
            children = f.read().split()
        said = ""
        for c in children:
            try:
                with open("/proc/%s/cmdline" % c, encoding="utf-8") as f:
                    said += f.read()
            except OSError:
                pass
        return said


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], sys.argv[3]], verbosity=2)
