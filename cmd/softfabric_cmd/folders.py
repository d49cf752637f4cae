# SPDX-License-Identifier: BSD-2-Clause
"""Folders that are ours alone, and go when we go."""
import contextlib
import signal
import tempfile


@contextlib.contextmanager
def signals_held():
    """What would end this process waits until this is left: what is done in it is done whole."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, (signal.SIGINT, signal.SIGTERM, signal.SIGHUP))
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


class Folder(tempfile.TemporaryDirectory):
    """A folder that is removed when this object, or this process, ends. A signal between mkdir() and the note that it
    has to be removed, or in the middle of removing it, would leave it for ever: it waits."""

    def __init__(self, prefix):
        with signals_held():
            super().__init__(prefix=prefix)

    def cleanup(self):
        with signals_held():
            super().cleanup()
