"""The outbox of a checkout: each event that a hook wants becomes a synced file, and a courier is started if none works.

It listens to events like any other. Writing one takes a few milliseconds, and no trouble with it reaches whoever made
the event happen: it is said, and the work goes on.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import json
import os
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from kranzq.disk import atomic
from kranzq.errors import KranzqError
from kranzq.events import Adopted, Drained, Ended, Enqueued, Event, Parked, Started
from kranzq.liveness import read_stat, start_ticks
from kranzq.model.clock import rfc3339
from kranzq.trust.key import open_private

HOOKS: Mapping[type[Event], str] = {
    Enqueued: "enqueued",
    Started: "started",
    Adopted: "started",
    Ended: "ended",
    Parked: "parked",
    Drained: "drained",
}
"""Which hook is told of which event. A dispatcher that finds a mission running tells `started`, perhaps once more."""
COURIER = os.path.join(os.path.dirname(__file__), "courier.py")
FOLDER = "hooks"
_DIGITS = 20

Commands = Callable[[], Mapping[str, tuple[str, ...]]]
"""The command of each hook, as configured now; without one, or empty: nobody wants to know."""


def folder_name(root: str) -> str:
    """Where a checkout's outbox lies below the state directory."""
    return f"{FOLDER}/{hashlib.sha256(os.fsencode(root)).hexdigest()[:32]}"


@dataclass(slots=True)
class Outbox:
    """The outbox of one checkout. `environ` is what hooks get; `trouble` is told what could not be done."""

    root: str
    state: str
    commands: Commands
    environ: Mapping[str, str]
    trouble: Callable[[str], None]
    starts: bool = True
    """Whether couriers may be started; inside a mission they would end with it."""

    def hear(self, event: Event) -> None:
        """Keep an event for its hook. Never raises what disks and configurations do."""
        hook = HOOKS.get(type(event))
        if hook is None:
            return
        try:
            command = self.commands().get(hook, ())
            if command:
                self._keep(hook, command, event)
                self._start_courier()
        except KranzqError as fault:
            self.trouble(f"hook {hook} is not told: {fault.sentence}")
        except OSError as fault:
            self.trouble(f"hook {hook} is not told: {fault.filename or FOLDER}: {fault.strerror or fault}")

    def resume(self) -> None:
        """Start a courier for what others have left."""
        try:
            if self._waiting():
                self._start_courier()
        except (KranzqError, OSError) as fault:
            self.trouble(f"hooks are not told: {fault}")

    def couriers(self) -> dict[int, int | None]:
        """Pid and start ticks of the couriers that this process has started: nobody's leftovers."""
        return {pid: ticks for pid, ticks in tuple(_started.items()) if start_ticks(pid) == ticks}

    @property
    def path(self) -> str:
        """The folder."""
        return f"{self.state}/{folder_name(self.root)}"

    def _keep(self, hook: str, command: tuple[str, ...], event: Event) -> None:
        now, fields = time.time(), vars(event)
        mission = str(fields.get("mission", ""))
        number = fields.get("run", fields.get("seq"))
        name = f"{self._next():0{_DIGITS}d}.{os.getpid()}.json"
        mark = f"{mission}/{number}/{hook}" if number is not None else name.removesuffix(".json")
        told = {"event": hook, "id": mark, "at": rfc3339(now), "repo": self.root} | fields
        record = {"mission": mission, "command": command, "event": told, "since": now, "due": 0.0, "tries": 0}
        fd = self._open(make=True)
        assert fd is not None
        try:
            atomic.publish(fd, name, json.dumps(record).encode())
        finally:
            os.close(fd)

    def _next(self) -> int:
        """A number behind all that wait, whatever the clock says: files of a mission are handed over in order."""
        heads = (name.partition(".")[0] for name in self._waiting())
        last = max(
            (int(head) for head in heads if head.isascii() and head.isdigit() and len(head) <= _DIGITS), default=0
        )
        return max(time.time_ns(), last + 1)

    def _waiting(self) -> list[str]:
        try:
            return [name for name in os.listdir(self.path) if name.endswith(".json") and name[0] != "."]
        except FileNotFoundError:
            return []

    def _open(self, *, make: bool) -> int | None:
        parent = open_private(self.state, FOLDER, make=make)
        if parent is not None:
            os.close(parent)
        return open_private(self.state, folder_name(self.root), make=make)

    def _start_courier(self) -> None:
        if not self.starts or not sys.executable or not self._is_free():
            return
        _bury()
        nothing = os.open(os.devnull, os.O_RDWR | os.O_CLOEXEC)
        try:
            pid = os.posix_spawn(
                sys.executable,
                [sys.executable, "-I", "-S", "-E", COURIER, self.path, self.root],
                dict(self.environ),
                file_actions=[(os.POSIX_SPAWN_DUP2, nothing, fd) for fd in (0, 1, 2)],
                setsigmask=[],
            )
        finally:
            os.close(nothing)
        _started[pid] = _ticks(pid)

    def _is_free(self) -> bool:
        """Whether no courier is at work."""
        fd = os.open(f"{self.path}/.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        try:
            with contextlib.suppress(BlockingIOError):
                fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
                return True
            return False
        finally:
            os.close(fd)


_started: dict[int, int | None] = {}
"""The couriers of this process, whichever outbox started them, with their start ticks."""


def _bury() -> None:
    """Let go of those that have ended: a program that lives long would gather dead ones. Never another child."""
    for pid, ticks in tuple(_started.items()):
        with contextlib.suppress(ChildProcessError):
            if _ticks(pid) == ticks and os.waitpid(pid, os.WNOHANG)[0] == 0:
                continue
        _started.pop(pid, None)


def _ticks(pid: int) -> int | None:
    """When it started, also of one that is dead and not buried."""
    stat = read_stat(pid)
    return stat.start_ticks if stat is not None else None
