"""The outbox of a checkout: each event that a hook wants becomes a synced file, and a courier is started if none works.

It listens to events like any other. Writing one takes a few milliseconds, and no trouble with it reaches whoever made
the event happen: it is said, and the work goes on.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from kranzq.disk import atomic
from kranzq.errors import KranzqError
from kranzq.events import (
    Adopted,
    Drained,
    Ended,
    Enqueued,
    Event,
    Parked,
    PassedOver,
    Quarantined,
    Started,
    StartsPaused,
    afterwards,
)
from kranzq.hooks import receivers, said, words
from kranzq.hooks.backlog import FOLDER, folder_name
from kranzq.hooks.signing import SigningKey
from kranzq.liveness import read_stat, start_ticks
from kranzq.trust.key import open_private

HOOKS: Mapping[type[Event], tuple[str, ...]] = {
    Enqueued: ("enqueued",),
    Started: ("started",),
    Adopted: ("started",),
    Ended: ("ended", "failed"),
    Parked: ("parked", "needs_person"),
    Quarantined: ("needs_person",),
    PassedOver: ("needs_person",),
    StartsPaused: ("needs_person",),
    Drained: ("drained",),
}
"""Which hooks are told of which event. A dispatcher that finds a mission running tells `started`, perhaps once more."""
COURIER = os.path.join(os.path.dirname(__file__), "courier.py")
MOST_WAITING = 5000
"""Files that may wait for one receiver, some 5 MB: while it is away for a day it must not fill a disk."""
_EACH = frozenset({"enqueued", "started"})
"""Hooks that are told of each event by itself: programs follow missions with them, nobody reads them as messages."""
_FAILED = frozenset({"failed", "timed out"})
_FOR_GOOD = frozenset({"retire", "park"})
_DIGITS = 20

Configured = Callable[[], tuple[Mapping[str, tuple[str, ...]], float]]
"""The command of each hook as configured now (without one, or empty: nobody wants to know), and within how many seconds
events of a hook become one (0: never)."""


@dataclass(slots=True)
class Outbox:
    """The outbox of one checkout. `environ` is what hooks get; `trouble` is told what could not be done."""

    root: str
    state: str
    configured: Configured
    environ: Mapping[str, str]
    trouble: Callable[[str], None]
    starts: bool = True
    """Whether couriers may be started; inside a mission they would end with it."""

    def hear(self, event: Event) -> None:
        """Keep an event for its hook. Never raises what disks and configurations do.

        The file is there at once; a courier is started when no lock is held any more. A run that has ended may have
        left something itself: what is enqueued in a mission starts none.
        """
        if isinstance(event, Ended):
            afterwards(self.resume)
        hooks = [hook for hook in HOOKS.get(type(event), ()) if _wants(hook, event)]
        if not hooks:
            return
        try:
            commands, window = self.configured()
            for hook in hooks:
                command = commands.get(hook, ())
                if not command or said.is_known(self.path, hook, event):
                    continue
                if self._keep(hook, command, event, window):
                    said.remember(self.path, hook, event)
                afterwards(self.resume)
        except KranzqError as fault:
            self.trouble(f"hook {hooks[0]} is not told: {fault.sentence}")
        except OSError as fault:
            self.trouble(f"hook {hooks[0]} is not told: {fault.filename or FOLDER}: {fault.strerror or fault}")

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

    def try_once(self, hook: str, command: tuple[str, ...]) -> str | None:
        """Tell one hook a test event, now and once; None when it has taken it, else why not.

        What waits for one that has taken it is handed over at once, whatever its pause.
        """
        import subprocess  # noqa: PLC0415 - an enqueue never tries a hook

        os.close(self._made(command))
        now = time.time()
        event = words.told("test", Event(), self.root, now, f"test/{time.time_ns()}") | {"hook": hook}
        done = subprocess.run(
            [sys.executable, "-I", "-S", "-E", COURIER, "--once", self.path, self.root],
            input=json.dumps({"command": command, "event": event}),
            env=dict(self.environ),
            stdout=subprocess.PIPE,
            text=True,
            check=False,
        )
        if done.returncode != 0 or not done.stdout:  # with SIGCHLD ignored each child seems to end with 0
            return f"the courier ended with {done.returncode}"
        why = json.loads(done.stdout)
        if why is None:
            self.resume()
        return why if why is None or isinstance(why, str) else str(why)

    def drop(self, marks: list[str]) -> None:
        """Let the courier give up what waits for these receivers by now. Raises OSError."""
        now = time.time()
        for mark in marks:
            path = f"{self.path}/.drop.{mark}"
            fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
            os.utime(fd, (now, now))
            os.close(fd)
        self.resume()

    def _made(self, command: tuple[str, ...]) -> int:
        """A descriptor of the folder, with what a command of that kind needs."""
        if receivers.is_url(command):
            SigningKey(self.state).make()
        fd = self._open(make=True)
        assert fd is not None
        return fd

    def _keep(self, hook: str, command: tuple[str, ...], event: Event, window: float) -> bool:
        """Write its file; False when there was no room for one."""
        now = time.time()
        mission = str(vars(event).get("mission", ""))
        fd = self._made(command)
        try:
            waiting, tail = self._waiting(), f".{receivers.mark(command)}.json"
            if sum(name.endswith(tail) for name in waiting) >= MOST_WAITING:
                self._miss(fd, command, counts=not said.comes_again(hook, event))
                return False
            name = f"{_next(waiting):0{_DIGITS}d}.{os.getpid()}{tail}"
            record = {
                "mission": mission,
                "command": command,
                "event": words.told(hook, event, self.root, now, name.removesuffix(".json")),
                "since": now,
                "due": 0.0,
                "tries": 0,
                "window": 0.0 if hook in _EACH else window,
            }
            atomic.publish(fd, name, json.dumps(record).encode())
        finally:
            os.close(fd)
        return True

    def _miss(self, outbox: int, command: tuple[str, ...], *, counts: bool) -> None:
        """Count an event for which there is no room; the courier says with the next one how many were missed.

        Unless it comes again for as long as it is true: then it is told when there is room.
        """
        if not counts:
            return
        fd = os.open("missed", os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600, dir_fd=outbox)
        try:
            is_first = not os.fstat(fd).st_size
            os.write(fd, b".")
        finally:
            os.close(fd)
        if is_first:
            whom = receivers.shown(command)
            self.trouble(f"hooks are not told of some events: {MOST_WAITING} wait for {whom} in {self.path}")

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


def _wants(hook: str, event: Event) -> bool:
    """Whether a hook is told of this very event: the last failure, not each try; what only a person can mend."""
    fields = vars(event)
    if hook == "failed":
        return fields["outcome"] in _FAILED and fields["fate"] in _FOR_GOOD
    return not isinstance(event, PassedOver) or bool(fields["person"])


def _next(waiting: list[str]) -> int:
    """A number behind all that wait, whatever the clock says: files of a mission are handed over in order."""
    heads = (name.partition(".")[0] for name in waiting)
    last = max((int(head) for head in heads if head.isascii() and head.isdigit() and len(head) <= _DIGITS), default=0)
    return max(time.time_ns(), last + 1)


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
