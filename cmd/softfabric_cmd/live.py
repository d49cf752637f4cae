# SPDX-License-Identifier: BSD-2-Clause
"""What running adapters tell of themselves (SOFTFABRIC_LIVE, src/link/core/live.c), found, read, and checked."""
import fcntl
import glob
import os
import re
import stat
import signal
import struct
import tempfile
import threading

PREFIX = "softfabric-live."
LONGEST = 1 << 20
TRIES = 5


def folders():
    """Where adapters may be telling: what the environment names, and each softfabric run of ours."""
    own = os.environ.get("SOFTFABRIC_LIVE")
    runs = glob.glob(os.path.join(glob.escape(tempfile.gettempdir()), "softfabric-run.*", "live"))
    return ([own] if own else []) + ["/dev/shm"] + sorted(runs)


def is_left(fd):
    """Whether nobody locks the file: its process was killed."""
    got = fcntl.fcntl(fd, fcntl.F_GETLK, struct.pack("hhqqi", fcntl.F_WRLCK, os.SEEK_SET, 0, 0, 0))
    return struct.unpack("hhqqi", got)[0] == fcntl.F_UNLCK


def whole_text(fd):
    """The text, without its end; None: its two numbers differ, its process is writing or was killed in the middle."""
    for _ in range(TRIES):
        text = os.pread(fd, LONGEST, 0).decode("ascii", "replace")
        first = re.match(r"softfabric-live 1 (\d+)\n", text)
        end = first and text.find("\nend %s\n" % first.group(1))
        if first and end >= 0:
            return text[:end]
    return None


def text_of(path, remove=True):
    """The text of a file of ours; None: it is none, or with @remove its process is gone, whose file is removed then."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        st = os.fstat(fd)
        if not stat.S_ISREG(st.st_mode) or st.st_uid not in (os.geteuid(), 0) or st.st_size > LONGEST:
            return None
        if is_left(fd):
            if remove:
                os.unlink(path)
                return None
        return whole_text(fd)
    except OSError:
        return None
    finally:
        os.close(fd)


def plain(word):
    return re.sub(r"[^ -~]", "?", word)


def values(line):
    """{name: number or word} of name=value..."""
    return {k: int(v) if re.fullmatch(r"-?\d{1,20}", v) else plain(v) for k, v in re.findall(r"(\w+)=(\S*)", line)}


def parse(text):
    """One adapter of one process; None if that is not what the text says."""
    got = {"ports": [], "peers": []}
    for line in text.split("\n")[1:]:
        what, _, rest = line.partition(" ")
        v = values(rest)
        if what == "process":
            got.update({"pid": v.get("pid", 0), "host": str(v.get("host", "")), "program": str(v.get("program", ""))})
        elif what == "softfabric-stats:":
            got["adapter"] = str(v.get("adapter", "?"))
            got["counters"] = {k: n for k, n in v.items() if k not in ("adapter", "pid", "host") and isinstance(n, int)}
        elif what == "port":
            got["ports"].append({"addr": str(v.pop("addr", "?")), "peers": v.pop("peers", 0),
                                 "counters": {k: n for k, n in v.items() if k != "n" and isinstance(n, int)}})
        elif what == "peer":
            n = v.get("port", 0)
            v["port"] = got["ports"][n]["addr"] if isinstance(n, int) and 0 <= n < len(got["ports"]) else "?"
            got["peers"].append(v)
        elif what == "more":
            got["ports_untold"], got["peers_untold"] = v.get("ports", 0), v.get("peers", 0)
    return got if "pid" in got and "counters" in got else None


def read_all(dirs):
    """All adapters that tell, by host, process and name."""
    found = {}
    for d in dirs:
        for path in glob.glob(os.path.join(glob.escape(d), PREFIX + "*")):
            text = text_of(path)
            got = parse(text) if text else None
            if got:
                found[path] = got
    return sorted(found.values(), key=lambda a: (a["host"], a["pid"], a["adapter"]))


class Watch:
    """What the adapters of one run told last, also of processes that are killed: they report nothing at their end.

    A thread looks now and then, since other processes of the run remove the file of one that was killed.
    """
    EVERY_S = 0.5

    def __init__(self, folder):
        self.folder, self.last, self.stop = folder, {}, threading.Event()
        self.thread = threading.Thread(target=self.work, daemon=True)

    def look(self):
        paths = set(glob.glob(os.path.join(glob.escape(self.folder), PREFIX + "*")))
        for path in paths:
            self.last[path] = text_of(path, remove=False) or self.last.get(path)
        return paths

    def work(self):
        while not self.stop.wait(self.EVERY_S):
            self.look()

    def start(self):
        """Signals stay the main thread's: it waits for the command, and has to hear them."""
        before = signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
        try:
            self.thread.start()
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)

    def end(self, reported):
        """The run is over, @reported are the (host, pid, adapter) that closed. Returns the adapters that did not."""
        self.stop.set()
        if self.thread.ident:
            self.thread.join()
        left = self.look()
        found = [(path, parse(text)) for path, text in sorted(self.last.items()) if text]
        return [a for path, a in found if a and (path in left or (a["host"], a["pid"], a["adapter"]) not in reported)]
