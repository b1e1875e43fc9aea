"""Who has the checkout, and which run is it? Asked of the kernel, the claims and kranz's records; nothing is taken.

The kernel's lock decides whether the checkout is busy, claims and records say with what. Below `status` and `why`.
"""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal

from kranzq.busy import foreign
from kranzq.busy import record as busy_record
from kranzq.busy.foreign import Engines, LockSeen
from kranzq.busy.lock import BusyLock
from kranzq.disk.owners import user_name
from kranzq.dispatch.evidence import Backstop, judge_holder
from kranzq.dispatch.lock_table import is_flocked
from kranzq.dispatch.sight import LookQueue, Sight
from kranzq.liveness import HolderRecord, Place, judge, place_of
from kranzq.model.checkout import Checkout
from kranzq.model.claim import Claimed
from kranzq.model.clock import rfc3339, seconds_of
from kranzq.model.frozen import frozen
from kranzq.model.ids import MissionId
from kranzq.model.process import Judgement, Liveness
from kranzq.runs.folder import OUTPUT
from kranzq.runs.folders import Runs
from kranzq.runs.holders import LockJudgement, Situation, flock_holders, judge_lock, key_of

if TYPE_CHECKING:
    from kranzq.runs.record import RunRecord

By = Literal["keeper", "dispatcher", "leftovers", "hidden", "kranz", "claim"]


@frozen
class ClaimSeen:
    """One claim with its record and the verdict on its holder."""

    claimed: Claimed
    record: RunRecord | None
    judged: Judgement

    def to_json(self) -> dict[str, object]:
        """The claim with the documented keys."""
        return {
            "name": self.claimed.place.name,
            "mission": self.claimed.place.mission,
            "verdict": self.judged.verdict.value,
            "evidence": self.judged.evidence,
        }


@frozen
class BusySeen:
    """Who has the checkout. `text` is half a sentence for people; `since` and `last_output` are wall seconds."""

    by: By
    text: str
    mission: str | None = None
    pid: int | None = None
    since: float | None = None
    run: int | None = None
    process: int | None = None
    last_output: float | None = None
    leftovers: tuple[int, ...] = ()
    clear: str = ""
    """What a person can type, where only a person can tell that nobody is there."""

    @property
    def user(self) -> str | None:
        """Whose process it is, where it is another user's; None for one of ours or of another pid namespace."""
        with contextlib.suppress(OSError):
            if self.pid and (owner := os.stat(f"/proc/{self.pid}").st_uid) != os.geteuid():
                return user_name(owner)
        return None

    def to_json(self) -> dict[str, object]:
        """Who has it, with the documented keys."""
        return {
            "mission": self.mission,
            "pid": self.pid,
            "since": rfc3339(self.since) if self.since is not None else None,
            "run": self.run,
            "user": self.user,
            "lastOutput": rfc3339(self.last_output) if self.last_output is not None else None,
            "leftovers": list(self.leftovers),
            "text": self.text,
        }


@frozen
class Occupancy:
    """The claims, and who has the checkout: None when nobody."""

    claims: tuple[ClaimSeen, ...]
    busy: BusySeen | None


def occupancy(sight: Sight) -> Occupancy:
    """Look at lock and claims once."""
    lock = lock_situation(sight.checkout, sight.queue)
    claims = _claims(sight, lock_is_free=lock is None)
    busy = _of_lock(sight, lock, claims) if lock is not None else _without_lock(sight, claims)
    return Occupancy(claims, busy)


def lock_situation(checkout: Checkout, queue: LookQueue) -> LockJudgement | None:
    """Who holds the busy lock, None when nobody does."""
    locks = BusyLock(checkout).open_unlocked(queue.fd)
    try:
        judged = judge_lock(locks)
        if judged.situation is not Situation.CANNOT_SEE or judged.holders:
            return judged
        held = {is_flocked(lock) for lock in locks}
    finally:
        for lock in locks:
            os.close(lock)
    if True in held:
        return judged
    # who cannot see into other namespaces has only the record to go by
    record = busy_record.read(queue.fd) if None in held else None
    return judged if record is not None and judge(record.process).verdict is Liveness.UNKNOWN else None


def is_unattended(checkout: Checkout, queue: LookQueue) -> bool:
    """Whether a keeper has the checkout and no dispatcher waits for it, as far as its holders can be seen."""
    locks = BusyLock(checkout).open_unlocked(queue.fd)
    try:
        seen = flock_holders([key for key in map(key_of, locks) if key is not None])
    finally:
        for lock in locks:
            os.close(lock)
    there = {holder.pid for holder in seen.holders} | set(seen.cannot_look)
    return bool(seen.holders) and not any(holder.taker in there for holder in seen.holders)


def local(seconds: float | None) -> str:
    """A wall time for people."""
    if seconds is None:
        return "an unknown time"
    return time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(seconds))


def last_output(runs: Runs, mission: MissionId, run: int) -> float | None:
    """When a run last said something, in wall seconds; None when it said nothing."""
    folder = runs.open(mission, run)
    if folder is None:
        return None
    with folder, contextlib.suppress(OSError):
        seen = os.stat(OUTPUT, dir_fd=folder.fd, follow_symlinks=False)
        return seen.st_mtime if seen.st_size else None
    return None


def _claims(sight: Sight, *, lock_is_free: bool) -> tuple[ClaimSeen, ...]:
    runs = Runs(sight.checkout, sight.queue.kranz_fd)
    backstop = Backstop(sight.clock, remembers=False)
    found = []
    for claimed in sight.queue.claims():
        record = runs.of_claim(claimed.place.mission, claimed.place.name)
        found.append(ClaimSeen(claimed, record, judge_holder(claimed, record, backstop, in_hand=lock_is_free)))
    return tuple(found)


def _of_lock(sight: Sight, lock: LockJudgement, claims: Sequence[ClaimSeen]) -> BusySeen:
    named = busy_record.read(sight.queue.fd)
    since = seconds_of(named.since) if named is not None else None
    mission, run = (named.mission, named.run) if named is not None else (None, None)
    match lock.situation:
        case Situation.KEEPER:
            pid = lock.pid or None
            claim = _claim_of(claims, pid, mission)
            if claim is not None:
                return _running(sight, claim, pid, "keeper")
            who = f"keeper {pid}" if pid else "a keeper of another namespace"
            return BusySeen("keeper", f"{who}, whose claim is gone", mission, pid, since, run)
        case Situation.DISPATCHER:
            return BusySeen("dispatcher", f"dispatcher {lock.pid} is at work", None, lock.pid, since)
        case Situation.LEFTOVERS:
            pids = tuple(sorted({holder.pid for holder in lock.holders}))
            shown = ", ".join(map(str, pids))
            text = f"leftovers of a killed keeper hold the checkout: pid {shown}"
            return BusySeen("leftovers", text, mission, None, since, run, leftovers=pids)
        case Situation.CANNOT_SEE:
            text = "its holder cannot be seen from here (another namespace, user or machine)"
            return BusySeen("hidden", text, mission, None, since, run)


def _claim_of(claims: Sequence[ClaimSeen], pid: int | None, mission: str | None) -> ClaimSeen | None:
    """The claim of the keeper that lives: by its pid, or where that is of another namespace by what its record says."""
    for claim in claims:
        if claim.claimed.pid == pid and is_here(claim.record):
            return claim
    others = [one for one in claims if not is_here(one.record) and one.judged.verdict is not Liveness.GONE]
    return next((one for one in others if one.claimed.place.mission == mission), others[0] if others else None)


def is_here(record: RunRecord | None) -> bool:
    """Whether the numbers of processes in a record mean what they mean here."""
    return record is None or place_of(record.keeper) is Place.HERE


def _running(sight: Sight, claim: ClaimSeen, pid: int | None, by: By) -> BusySeen:
    mission, record = claim.claimed.place.mission, claim.record
    if record is None:
        return BusySeen(by, claim.judged.evidence, mission, pid, claim.claimed.modified_at)
    runs = Runs(sight.checkout, sight.queue.kranz_fd)
    return BusySeen(
        by,
        f"run {record.run} of mission {mission}",
        mission,
        pid,
        seconds_of(record.started_at) or seconds_of(record.created_at),
        record.run,
        record.process[0] if record.process is not None and is_here(record) else None,
        last_output(runs, mission, record.run),
    )


def _without_lock(sight: Sight, claims: Sequence[ClaimSeen]) -> BusySeen | None:
    """Who keeps turns away though the kernel's lock is free: kranz, or a claim that may be alive."""
    if (seen := of_kranz(sight.checkout, sight.queue.fd, sight.queue.kranz_fd)) is not None:
        return seen
    for claim in claims:
        alive = claim.judged.verdict is Liveness.ALIVE and (
            claim.record is not None or claim.claimed.suffix is not None
        )
        if alive or (claim.judged.verdict is Liveness.UNKNOWN and claim.record is not None):
            return _running(sight, claim, claim.claimed.pid, "claim")
    return None


def of_kranz(checkout: Checkout, queue: int, kranz: int) -> BusySeen | None:
    """What keeps turns away of kranz's own locks: its busy lock, or the lock of an engine at work."""
    if (lock := foreign.look(queue)) is not None:
        record = HolderRecord.parse(lock.content or b"")
        pid, mission = record.pid if record is not None else None, foreign.read_mission(queue)
        return _foreign(f"kranz's busy lock: {lock.evidence}", mission, pid, lock, f"{checkout.queue}/{foreign.LOCK}")
    if (engine := Engines().find(kranz)) is not None:
        path = f"{checkout.missions}/{engine.mission}/{foreign.EVENTS_LOCK}"
        return _foreign(engine.sentence, None, engine.pid or None, engine.lock, path)
    return None


def _foreign(text: str, mission: str | None, pid: int | None, lock: LockSeen, path: str) -> BusySeen:
    """One of kranz's locks. Where its holder cannot be judged: which file, since when, until when, and what to type."""
    if lock.verdict is not Liveness.UNKNOWN:
        return BusySeen("kranz", text, mission, pid)
    import shlex  # noqa: PLC0415 - rarely is there a kranz

    until = local(lock.changed_at + foreign.BACKSTOP_S)
    text = f"{text} ({path}); if it stays as it is, it is taken for gone at {until}"
    remove = f"rm {'-r ' if lock.is_folder else ''}{shlex.quote(path)}"
    clear = f"Whoever knows that no kranz works here may remove it at once: {remove}"
    return BusySeen("kranz", text, mission, pid, lock.changed_at, clear=clear)
