"""One daemon a checkout: a kernel lock on `.daemon.flock`, and `.daemon.json` saying who has it.

The lock is the truth. The record is for people, and counts only while the lock is held.
"""

from __future__ import annotations

import contextlib
import json
import os
import time
from dataclasses import dataclass, field

import filelock

from kranzq import __version__
from kranzq.disk import atomic
from kranzq.disk.modes import open_lock_file
from kranzq.disk.read import Unreadable, open_folder, read_regular
from kranzq.dispatch.busy_seen import local
from kranzq.errors import DaemonRuns, LocksUnsupported
from kranzq.liveness import judge, me
from kranzq.model.checkout import Checkout
from kranzq.model.clock import seconds_of
from kranzq.model.process import Liveness, ProcessIdentity

FLOCK, RECORD = ".daemon.flock", ".daemon.json"
_LOOKS, _LOOK_S = 50, 0.02


@dataclass(slots=True)
class Single:
    """The single-instance lock of one queue directory, held as long as this process lives."""

    checkout: Checkout
    fd: int = -1
    key: tuple[int, int] | None = None
    _shown: dict[str, object] = field(default_factory=dict)

    def take(self) -> None:
        """Take the lock in the directory that has the path now. Raises DaemonRuns naming the other."""
        self.let_go()
        queue = open_folder(self.checkout.queue)
        try:
            seen = os.fstat(queue)
            # not inherited by the keeper: it would keep a later daemon out
            fd = open_lock_file(FLOCK, queue)
            try:
                taken = filelock.lock_descriptor(fd, blocking=False)
            except OSError as fault:
                os.close(fd)
                raise LocksUnsupported(f"{self.checkout.queue}/{FLOCK}", fault.strerror or str(fault)) from fault
            if not taken:
                os.close(fd)
                raise DaemonRuns(self.checkout.root, _who(queue))
            self.fd, self.key = fd, (seen.st_dev, seen.st_ino)
        finally:
            os.close(queue)

    def is_current(self) -> bool:
        """Whether the locked file is still the one under its path: who lost it must not go on as the only one."""
        with contextlib.suppress(OSError):
            named, held = os.stat(f"{self.checkout.queue}/{FLOCK}", follow_symlinks=False), os.fstat(self.fd)
            return (named.st_dev, named.st_ino) == (held.st_dev, held.st_ino)
        return False

    def write(self, **shown: object) -> None:
        """Say who we are, and by the record's mtime when we last looked. A failure is no reason to stop.

        The content is written only when it changes, or somebody has damaged it: a new file would wake our own watch, a
        touch does not.
        """
        value = {"process": me().to_json(), "version": __version__, "queue": self.checkout.queue, **shown}
        with contextlib.suppress(OSError):
            queue = open_folder(self.checkout.queue)
            try:
                content = json.dumps(value).encode()
                if value != self._shown or not _holds(queue, content):
                    atomic.replace(queue, RECORD, content, mode=0o644, sync=False)
                    self._shown = value
                os.utime(RECORD, dir_fd=queue, follow_symlinks=False)
            except FileNotFoundError:
                self._shown = {}
            finally:
                os.close(queue)

    def let_go(self) -> None:
        """Remove the record and free the lock."""
        if self.fd < 0:
            return
        if self.is_current():
            with contextlib.suppress(OSError):
                os.unlink(f"{self.checkout.queue}/{RECORD}")
        os.close(self.fd)
        self.fd, self._shown = -1, {}


def _holds(queue: int, content: bytes) -> bool:
    try:
        found = read_regular(RECORD, dir_fd=queue)
    except Unreadable:
        return False
    return found is not None and found.data == content


def _who(queue: int) -> str:
    """Who has the lock, by a record that is not the one of a daemon before it."""
    for _ in range(_LOOKS):
        with contextlib.suppress(Unreadable, ValueError, KeyError, TypeError, RecursionError):
            found = read_regular(RECORD, dir_fd=queue)
            value = json.loads(found.data) if found is not None else {}
            process = ProcessIdentity.from_json(value["process"])
            if process is not None and judge(process).verdict is not Liveness.GONE:
                return f"pid {process.pid}, since {local(seconds_of(value['since']))}"
        time.sleep(_LOOK_S)
    return "it has not said who it is yet"
