"""kranz's own busy lock: taken beside ours so that a kranz engine waits, honoured when a kranz engine has it.

`.repo.busy.lock` is taken by a link from a complete file and removed only while it is the file that we put there;
one that is not proven dead is never touched. `events.jsonl.lock` is only read.
"""

from __future__ import annotations

import contextlib
import math
import os
import stat
import time
from collections.abc import Iterable

from kranzq.disk import atomic
from kranzq.disk.read import LACKING, Unreadable, open_folder, read_regular
from kranzq.liveness import HolderRecord, judge_holder_record, me, token_of
from kranzq.model.checkout import EVENTS
from kranzq.model.frozen import frozen
from kranzq.model.process import Liveness, ProcessIdentity

LOCK = ".repo.busy.lock"
MISSION = ".repo.busy.mission"
EVENTS_LOCK = "events.jsonl.lock"
BACKSTOP_S = 3600.0
ALL_S = 10.0
"""So often all folders are asked whether they have events by now; tens of thousands cost a tenth of a second."""
_TRIES = 8


class KranzLock:
    """kranz's busy lock of one queue, held by us from `take` to `let_go`."""

    def __init__(self, queue: int) -> None:
        self._queue = queue
        self._holder = me()
        self._ours: bytes | None = None
        """What we wrote. An inode number alone proves nothing: it is given out again as soon as a file is gone."""

    def take(self, holder: ProcessIdentity | None = None) -> str | None:
        """Take it; None when taken, else half a sentence saying who has it.

        It names us, or the keeper of ours that is to go on: one that ends with us holds it as long as we do.
        """
        self._holder = holder or me()
        temporary, ours = atomic.temporary_name(LOCK), _record_of(self._holder)
        inode = atomic.write_new(self._queue, temporary, ours, mode=0o644, sync=False).st_ino
        try:
            for _ in range(_TRIES):
                try:
                    atomic.appear(self._queue, temporary, LOCK, inode)
                except FileExistsError:
                    if (other := self._in_the_way()) is not None:
                        return other
                    continue
                self._ours = ours
                return None
        finally:
            with contextlib.suppress(OSError):
                os.unlink(temporary, dir_fd=self._queue)
        return "kranz's busy lock changes hands faster than it can be read"

    def name(self, keeper: ProcessIdentity, mission: str) -> None:
        """Let the lock name the keeper and its mission, so that it outlives this dispatcher."""
        if self._names(keeper):
            atomic.replace(self._queue, MISSION, mission.encode(), mode=0o644, sync=False)

    def name_us(self) -> None:
        """Let the lock name this dispatcher again: a keeper that was sent away would look like a dead holder."""
        if self._names(me()):
            atomic.remove(self._queue, MISSION)

    def let_go(self) -> None:
        """Remove it if it is still ours."""
        is_ours, self._ours = self._is_ours(), None
        if is_ours:
            try:
                atomic.remove(self._queue, MISSION)
            finally:  # without its lock the mission's name means nothing
                atomic.remove(self._queue, LOCK)

    def leave(self) -> None:
        """Keep the files where they are: the keeper that they name goes on."""
        self._ours = None

    def _names(self, holder: ProcessIdentity) -> bool:
        if not self._is_ours():
            return False
        if holder == self._holder:
            return True
        self._holder, self._ours = holder, _record_of(holder)
        atomic.replace(self._queue, LOCK, self._ours, mode=0o644, sync=False)
        return True

    def _is_ours(self) -> bool:
        return self._ours is not None and _content(self._queue, LOCK) == self._ours

    def _in_the_way(self) -> str | None:
        """Who holds it, or None after a dead one was moved aside."""
        lock = _judged(self._queue, LOCK)
        if lock is None:
            return None
        if lock.verdict is Liveness.ALIVE and not _names_one(lock.content or b"", (me(), self._holder)):
            return f"kranz's busy lock: {lock.evidence}"
        if lock.verdict is Liveness.UNKNOWN and not lock.is_old:
            return f"kranz's busy lock {LOCK}: {lock.evidence}; it is younger than an hour"
        self._move_aside(lock.inode, lock.content)
        return None

    def _move_aside(self, inode: int, content: bytes | None) -> None:
        """Remove the lock if it is the file that was judged: same inode, same content."""
        aside = atomic.temporary_name(f"stale{LOCK}")
        with contextlib.suppress(FileNotFoundError, FileExistsError):
            atomic.move(self._queue, LOCK, self._queue, aside)
            seen = os.stat(aside, dir_fd=self._queue, follow_symlinks=False)
            if seen.st_ino != inode or _content(self._queue, aside) != content:
                atomic.move(self._queue, aside, self._queue, LOCK)  # a live one came in between
            else:
                _remove_any(self._queue, aside)


@frozen
class LockSeen:
    """A lock file of kranz's: the verdict on its holder, and when the file was last changed, in wall seconds."""

    verdict: Liveness
    evidence: str
    changed_at: float
    inode: int
    content: bytes | None
    """None where it cannot be read."""
    is_folder: bool = False

    @property
    def is_old(self) -> bool:
        """Whether it has been the same for so long that a holder who cannot be judged is taken for gone."""
        return time.time() - self.changed_at > BACKSTOP_S

    @property
    def counts(self) -> bool:
        """Whether it makes busy."""
        return self.verdict is Liveness.ALIVE or (self.verdict is Liveness.UNKNOWN and not self.is_old)


@frozen
class Engine:
    """A kranz engine at work: on which mission, the evidence, and its process (0 when its record has none)."""

    mission: str
    sentence: str
    pid: int
    lock: LockSeen


class Engines:
    """Whether a kranz engine works in the checkout. New folders are asked for its events, and at times all of them."""

    def __init__(self) -> None:
        self._folders: list[str] = []
        self._seen: set[str] = set()
        self._changed_at: int | None = None
        self._looked_at = -math.inf

    def forget(self, mission: str) -> None:
        """Ask its folder again at the next look: something has run there."""
        self._seen.discard(mission)
        self._changed_at = None

    def alive(self, kranz: int) -> tuple[str, int] | None:
        """(sentence, pid) of a live engine, or None. `kranz` is a descriptor of `.kranz`."""
        found = self.find(kranz)
        return None if found is None else (found.sentence, found.pid)

    def find(self, kranz: int) -> Engine | None:
        """A live engine, or None."""
        try:
            missions = open_folder("missions", dir_fd=kranz)
        except OSError as fault:
            if fault.errno in LACKING:
                raise
            return None
        try:
            changed = os.fstat(missions).st_mtime_ns
            if time.monotonic() - self._looked_at > ALL_S:
                self._folders, self._seen, self._changed_at, self._looked_at = [], set(), None, time.monotonic()
            if changed != self._changed_at:
                there = set(os.listdir(missions))
                came = [name for name in there - self._seen if _has_events(missions, name)]
                self._folders = [*(name for name in self._folders if name in there and name not in came), *came]
                self._seen, self._changed_at = there, changed
            for name in self._folders:
                if (found := _engine(missions, name)) is not None:
                    return found
        finally:
            os.close(missions)
        return None


def read_mission(queue: int) -> str | None:
    """The mission that kranz's lock names."""
    try:
        found = read_regular(MISSION, dir_fd=queue)
    except Unreadable:
        return None
    return (found.data.decode("utf-8", "replace").strip() or None) if found is not None else None


def look(queue: int) -> LockSeen | None:
    """The busy lock of kranz, if it makes busy by its record; a look, nothing is removed."""
    lock = _judged(queue, LOCK)
    return lock if lock is not None and lock.counts else None


def _judged(dir_fd: int, name: str) -> LockSeen | None:
    """A lock file with the verdict on its holder; None when it is not there.

    Where descriptors are lacking an OSError says so: beside a holder that is not seen a second mission would run.
    """
    try:
        found = read_regular(name, dir_fd=dir_fd)
    except Unreadable as fault:
        if fault.lacking is not None:
            raise fault.lacking from None
        try:
            seen = os.stat(name, dir_fd=dir_fd, follow_symlinks=False)
        except OSError:
            return None  # it was let go in this moment
        changed = max(seen.st_mtime, seen.st_ctime)
        return LockSeen(Liveness.UNKNOWN, fault.why, changed, seen.st_ino, None, stat.S_ISDIR(seen.st_mode))
    if found is None:
        return None
    changed = max(found.stat.st_mtime, found.stat.st_ctime)
    judged = judge_holder_record(found.data, changed)
    return LockSeen(judged.verdict, judged.evidence, changed, found.stat.st_ino, found.data)


def _engine(missions: int, name: str) -> Engine | None:
    try:
        folder = open_folder(name, dir_fd=missions)
    except OSError as fault:
        if fault.errno in LACKING:
            raise
        return None
    try:
        lock = _judged(folder, EVENTS_LOCK)
    finally:
        os.close(folder)
    if lock is None or lock.content is None or not lock.counts:
        return None
    record = HolderRecord.parse(lock.content)
    sentence = f"a kranz engine works on mission {name}: {lock.evidence}"
    return Engine(name, sentence, record.pid if record is not None else 0, lock)


def _has_events(missions: int, name: str) -> bool:
    try:
        os.stat(f"{name}/{EVENTS}", dir_fd=missions, follow_symlinks=False)
    except OSError as fault:
        if fault.errno in LACKING:
            raise
        return False
    return True


def _record_of(process: ProcessIdentity) -> bytes:
    return HolderRecord(process.pid, int(time.time()), token_of(process), 0).render()


def _names_one(data: bytes, processes: Iterable[ProcessIdentity]) -> bool:
    record = HolderRecord.parse(data)
    return record is not None and any(
        record.pid == one.pid and record.token in {"", token_of(one)} for one in processes
    )


def _content(dir_fd: int, name: str) -> bytes | None:
    try:
        found = read_regular(name, dir_fd=dir_fd)
    except Unreadable:
        return None
    return found.data if found is not None else None


def _remove_any(dir_fd: int, name: str) -> None:
    try:
        os.unlink(name, dir_fd=dir_fd)
    except IsADirectoryError:
        with contextlib.suppress(OSError):
            os.rmdir(name, dir_fd=dir_fd)
