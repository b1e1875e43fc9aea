"""Find and end what a killed keeper left: the only place that signals processes which are not our children.

Two nets, since some programs lose their environment and keep descriptors and others the reverse: the mark of a run in
the environment, and a descriptor that holds the busy lock. A dispatcher has a third: what came to it as orphans. Each
process is signalled through its own pidfd after its start was compared, never by number or group.
"""

from __future__ import annotations

import ctypes
import os
import select
import signal
import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Literal

from kranzq.liveness import ProcessStat, proc_is_ours, read_stat
from kranzq.model.frozen import frozen
from kranzq.runs.holders import (
    Holder,
    HoldersSeen,
    Lock,
    Situation,
    held_flocks,
    judge_holders,
    judge_lock,
    keeper_lives,
    key_of,
    place_to_look,
    processes,
)
from kranzq.runs.marks import is_nonce, read_mark

Net = Literal["mark", "lock", "orphan"]
_QUIET_LOOKS = 2  # empty looks in a row that prove the end: between two, a fork can hide from one of them
_LOOK_AGAIN = 0.5  # seconds; what was forked after a look is signalled at the next one
_AT_ONCE = 200  # pidfds held open, far below the usual limit of descriptors
_PR_SET_CHILD_SUBREAPER = 36


@frozen
class Leftover:
    """A living process that a killed keeper left, how it was found, and its command line for people."""

    pid: int
    start_ticks: int
    command: str
    net: Net


@frozen
class Seen:
    """One look. `cannot_look`: processes we may not look into; `blind`: there is no /proc of our own at all."""

    leftovers: tuple[Leftover, ...]
    cannot_look: tuple[int, ...] = ()
    blind: bool = False


@frozen
class Ended:
    """What `end` did: `ended` are proven gone, `remaining` lived at the deadline or may not be signalled by us."""

    ended: tuple[Leftover, ...]
    remaining: tuple[Leftover, ...]
    last: Seen


def become_subreaper() -> bool:
    """Let orphans of our descendants come to us; False where the system cannot. Not inherited by children."""
    try:
        return bool(ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) == 0)
    except (OSError, AttributeError):
        return False


def look(
    root: str,
    *,
    nonces: Collection[str] = (),
    locks: Sequence[Lock] = (),
    in_hand: bool = False,
    spare_nonces: Collection[str] = (),
    spare: Mapping[int, int | None] | None = None,
    orphans_of: int | None = None,
) -> Seen:
    """The leftovers in the checkout `root`, in one pass over /proc.

    `nonces` are those of gone runs, `spare_nonces` those of claims that are not gone. `locks` are the busy lock's
    files, the first one first. `in_hand`: we hold them, so any other nonce of this checkout and any other holder is a
    leftover. `spare` maps pids to start ticks (None: whoever has the number): living keepers, what we started, what was
    left on purpose; what descends from them is spared too. `orphans_of` is the dispatcher whose descendants count as
    well; whoever passes it or `in_hand` starts no process during the look that `spare` does not name.
    """
    if not proc_is_ours():
        return Seen((), (), blind=True)
    keys = [key_of(lock) for lock in locks]
    wanted = {key for key in keys if key is not None}
    first = keys[0] if keys else None
    sought = {nonce for nonce in nonces if is_nonce(nonce)}
    marks_count = bool(sought or spare_nonces or in_hand)
    table = {stat.pid: stat for stat in processes()}
    below = _Descent(table)
    kept = [pid for pid, ticks in (spare or {}).items() if pid in table and ticks in {None, table[pid].start_ticks}]
    never = {os.getpid(), *below.ancestors(os.getpid()), *kept, *below.descendants(kept)}
    nets: dict[int, Net] = dict.fromkeys(below.descendants([] if orphans_of is None else [orphans_of]), "orphan")
    holders: list[Holder] = []
    cannot_look: list[int] = []
    for stat in table.values():
        place = place_to_look(stat)
        try:
            found = None if stat.pid in never or not marks_count else read_mark(place, os.fsencode(root))
            if wanted:
                holders += [Holder(stat.pid, taker, stat.start_ticks, key) for key, taker in held_flocks(place, wanted)]
        except PermissionError:
            cannot_look.append(stat.pid)
            continue
        if found is None:
            continue
        if found.nonce in spare_nonces:
            never.add(stat.pid)
        elif found.nonce in sought or (in_hand and found.key == first):
            nets[stat.pid] = "mark"
    for pid in _by_lock(locks, HoldersSeen(tuple(holders), tuple(cannot_look)), in_hand=in_hand):
        nets.setdefault(pid, "lock")
    leftovers = [_leftover(table[pid], net) for pid, net in nets.items() if pid in table and pid not in never]
    hidden = [pid for pid in cannot_look if pid not in never and pid not in nets]
    return Seen(tuple(leftovers), tuple(hidden))


def end(
    look_again: Callable[[], Seen],
    *,
    grace: float = 10,
    patience: float = 20,
    clock: Callable[[], float] = time.monotonic,
) -> Ended:
    """End all leftovers that `look_again` finds: TERM, after `grace` seconds KILL, until two looks in a row are empty.

    What still lives `patience` seconds after the first KILL is named and left.

    A process counts as ended when its pidfd says so, whatever the looks say: it may have dropped its mark. Returns
    early when none of those that are left may be signalled by us.
    """
    grip, deadline = _Grip(), grace + patience
    began = clock()
    quiet = 0
    try:
        while True:
            seen = look_again()
            grip.take(seen.leftovers)
            quiet = 0 if grip.held or seen.leftovers else quiet + 1
            if quiet == _QUIET_LOOKS:
                return Ended(tuple(grip.gone), (), seen)
            passed = clock() - began
            if passed < deadline:
                grip.send(signal.SIGTERM if passed < grace else signal.SIGKILL)
            if passed >= deadline or (grip.held and grip.refused >= grip.held.keys()):
                left = dict.fromkeys([*grip.held.values(), *seen.leftovers])
                return Ended(tuple(grip.gone), tuple(left), seen)
            grip.wait(min(_LOOK_AGAIN, (grace if passed < grace else deadline) - passed))
    finally:
        grip.close()


def _by_lock(locks: Sequence[Lock], seen: HoldersSeen, *, in_hand: bool) -> set[int]:
    """The pids that hold the lock without a right to. Keepers are asked for after the pass: one may be new by then."""
    if not seen.holders or any(keeper_lives(lock) is not None for lock in locks):
        return set()
    if in_hand:
        return {holder.pid for holder in seen.holders if holder.taker == os.getpid()}
    if judge_holders(seen).situation is not Situation.LEFTOVERS:
        return set()
    # a keeper between *go* and its own lock looks the same for an instant: only what a second look confirms counts
    again = judge_lock(locks)
    if again.situation is not Situation.LEFTOVERS:
        return set()
    return {holder.pid for holder in set(seen.holders) & set(again.holders)}


class _Descent:
    """Who descends from whom, as one pass saw it."""

    def __init__(self, table: Mapping[int, ProcessStat]) -> None:
        self._table = table
        self._children: dict[int, list[int]] = {}
        for stat in table.values():
            self._children.setdefault(stat.parent, []).append(stat.pid)

    def ancestors(self, pid: int) -> set[int]:
        found: set[int] = set()
        while (stat := self._table.get(pid)) is not None and stat.parent not in found:
            pid = stat.parent
            found.add(pid)
        return found

    def descendants(self, roots: Iterable[int]) -> set[int]:
        found: set[int] = set()
        ahead = list(roots)
        while ahead:
            children = [pid for pid in self._children.get(ahead.pop(), ()) if pid not in found]
            found.update(children)
            ahead += children
        return found


def _leftover(stat: ProcessStat, net: Net) -> Leftover:
    try:
        with open(f"/proc/{stat.pid}/cmdline", "rb", buffering=0) as file:
            words = file.read(500)
    except OSError:
        words = b""
    command = words.replace(b"\0", b" ").strip().decode("utf-8", "replace")
    return Leftover(stat.pid, stat.start_ticks, command or "(no command line)", net)


class _Grip:
    """Pidfds of the processes that are being ended: whoever is gripped cannot be confused with a later process."""

    def __init__(self) -> None:
        self.held: dict[int, Leftover] = {}
        self.gone: list[Leftover] = []
        self.refused: set[int] = set()
        self._told: dict[int, signal.Signals] = {}
        self._seen: set[tuple[int, int]] = set()

    def take(self, found: Iterable[Leftover]) -> None:
        """Grip each one that is still the process that was looked at."""
        for leftover in found:
            if len(self.held) >= _AT_ONCE:
                return
            if (leftover.pid, leftover.start_ticks) in self._seen:
                continue
            try:
                fd = os.pidfd_open(leftover.pid)
            except ProcessLookupError:
                continue
            # compared only now: had the number been given out again, it was so before the pidfd was opened
            stat = read_stat(leftover.pid)
            if stat is None or stat.start_ticks != leftover.start_ticks:
                os.close(fd)
                continue
            self._seen.add((leftover.pid, leftover.start_ticks))
            self.held[fd] = leftover

    def send(self, number: signal.Signals) -> None:
        """Signal everyone in the grip once (a second TERM means "at once" to many); notes who may not be signalled."""
        for fd in self.held:
            if self._told.get(fd) == number:
                continue
            self._told[fd] = number
            try:
                signal.pidfd_send_signal(fd, number)
            except ProcessLookupError:
                continue
            except PermissionError:
                self.refused.add(fd)

    def wait(self, seconds: float) -> None:
        """Until all in the grip are gone or the time is over; takes leave of those that are gone."""
        until = time.monotonic() + seconds
        poll = select.poll()
        for fd in self.held:
            poll.register(fd, select.POLLIN)
        while self.held:
            for fd, _ in poll.poll(max(0.0, until - time.monotonic()) * 1000):
                poll.unregister(fd)
                self._bury(fd)
            if time.monotonic() >= until:
                return

    def _bury(self, fd: int) -> None:
        try:
            os.waitid(os.P_PIDFD, fd, os.WEXITED | os.WNOHANG)
        except ChildProcessError:
            pass  # somebody else's child; those that came to us as orphans are reaped here
        self.refused.discard(fd)
        self._told.pop(fd, None)
        self.gone.append(self.held.pop(fd))
        os.close(fd)

    def close(self) -> None:
        while self.held:
            os.close(self.held.popitem()[0])
