"""Is this checkout, and this machine, fit for missions? One small look a question, nothing is started or changed.

Below `check`. Each answer is *ok*, *warning* (it works, but less well or not yet) or *fault* (it cannot work so), with
what to do. What only a try on the disk would show is asked of the kernel instead.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Literal

from kranzq.dispatch.busy_seen import occupancy
from kranzq.dispatch.daemon_seen import DaemonSeen, HiddenDaemon, look_for_daemon
from kranzq.dispatch.look import Sight
from kranzq.errors import Refused
from kranzq.liveness import judge_claim
from kranzq.model.checkout import Checkout
from kranzq.model.process import Liveness
from kranzq.model.state import State

Grade = Literal["ok", "warning", "fault"]
_SHOWN = 3


@dataclass(frozen=True, slots=True)
class Check:
    """One answer. `advice` is empty when all is well."""

    name: str
    state: Grade
    text: str
    advice: str = ""

    def to_json(self) -> dict[str, object]:
        """The answer with the documented keys."""
        return {"name": self.name, "state": self.state, "text": self.text, "advice": self.advice}


def of_checkout(checkout: Checkout) -> Iterator[Check]:
    """The working tree and who may write below it."""
    kind = "no git here"
    if checkout.has_git:
        linked = not os.path.isdir(checkout.git)
        kind = "a linked worktree or submodule (.git is a file)" if linked else "a git checkout (.git is a directory)"
    yield Check("checkout", "ok", f"{checkout.root}: {kind}")
    for path in (checkout.kranz, checkout.queue, checkout.missions):
        if (found := _of_folder(path)) is not None:
            yield found
    if os.geteuid() == 0 and (owner := os.stat(checkout.root).st_uid) != 0:
        text = f"this is root, the checkout belongs to user {owner}"
        yield Check("owner", "warning", text, "Run kranzq as that user")


def of_queue(sight: Sight) -> Iterator[Check]:
    """What lies in the queue and needs a person."""
    queue = sight.queue
    bad = [f"{one.name} ({one.why})" for one in queue.bad()]
    yield _named("entries", bad, "bad file", "They will be quarantined at the next turn", good="every file can be read")
    aside = [f"{name} ({why})" for name, why in queue.quarantined()]
    yield _named("quarantine", aside, "quarantined file", "Mend and enqueue it anew, or remove it", good="empty")
    parked = [f"{one.mission} ({queue.why_parked(one)})" for one in queue.places() if one.state is State.PARKED]
    yield _named("parked", parked, "parked mission", "See: kranzq list --parked", good="none")
    strange = list(queue.strange_claims())
    yield _named("claim names", strange, "strange name", "Look at it, and remove it by hand", good="all are claims")
    left = dead_temporaries(queue.fd)
    yield _named(
        "temporary files", left, "file of a writer that is gone", "It may be removed", good="none is left over"
    )


def of_claims(sight: Sight) -> Iterator[Check]:
    """Claims whose holder is gone or unknown, and what a killed keeper left."""
    seen = occupancy(sight)
    gone = [one.claimed.place.name for one in seen.claims if one.judged.verdict is Liveness.GONE]
    unknown = [
        f"{one.claimed.place.name} ({one.judged.evidence})"
        for one in seen.claims
        if one.judged.verdict is Liveness.UNKNOWN
    ]
    yield _named("claims", gone + unknown, "claim without a known holder", "Type: kranzq recover", good="all explained")
    if seen.busy is not None and seen.busy.by == "leftovers":
        yield Check("leftovers", "warning", seen.busy.text, "A daemon ends them; without one type: kranzq recover")


def of_daemon(sight: Sight) -> Iterator[Check]:
    """Whether somebody dispatches."""
    match look_for_daemon(sight.queue.fd):
        case DaemonSeen(watching="polling", pid=pid):
            text = f"pid {pid} polls, for it cannot watch the queue"
            yield Check("daemon", "warning", text, "See 'inotify' above; missions start up to a second later")
        case DaemonSeen(pid=pid, version=version):
            yield Check("daemon", "ok", f"pid {pid}, version {version}")
        case HiddenDaemon(why):
            yield Check("daemon", "warning", f"cannot be seen from here: {why}", "Look where it was started")
        case None:
            yield Check("daemon", "warning", "none runs", "Type: kranzq daemon")


def of_trust(sight: Sight) -> Iterator[Check]:
    """Entries that wait for a person's word."""
    waiting: dict[tuple[str, str], int] = {}
    for place in sight.queue.places():
        if place.state not in {State.QUEUED, State.WAITING} or (entry := sight.queue.read(place)) is None:
            continue
        permit = sight.permit(entry)
        if permit.advice:
            waiting[permit.why, permit.advice] = waiting.get((permit.why, permit.advice), 0) + 1
    for (why, advice), number in waiting.items():
        yield Check("trust", "warning", f"{number} will not run: {why}", advice)
    if not waiting:
        yield Check("trust", "ok", "every entry may run here")


def of_key(find_current: Callable[[], str | None]) -> Check:
    """The user's signing key."""
    try:
        key_id = find_current()
    except Refused as fault:
        return Check("key", "fault", fault.sentence.rstrip("."), fault.advice)
    return Check("key", "ok", f"{key_id} signs" if key_id is not None else "none yet; the first enqueue makes one")


def dead_temporaries(queue: int) -> list[str]:
    """Hidden temporary files whose writer is gone: `.NAME.PID.DIGITS.tmp`."""
    found = []
    for name in sorted(os.listdir(queue)):
        parts = name.split(".")
        if not name.startswith(".") or not name.endswith(".tmp") or len(parts) < len(("", "name", "pid", "n", "tmp")):
            continue
        pid = parts[-3]
        try:
            modified = os.stat(name, dir_fd=queue, follow_symlinks=False).st_mtime
        except OSError:
            continue
        if pid.isascii() and pid.isdigit() and judge_claim(int(pid), None, modified).verdict is Liveness.GONE:
            found.append(name)
    return found


def _of_folder(path: str) -> Check | None:
    try:
        seen = os.stat(path, follow_symlinks=False)
    except FileNotFoundError:
        return None
    except OSError as fault:
        return Check("folder", "fault", f"{path} cannot be looked at: {fault.strerror}", "Look at its owner and mode")
    if not stat.S_ISDIR(seen.st_mode):
        return Check("folder", "fault", f"{path} is a link or no directory", "Remove it, then type: kranzq init")
    if seen.st_mode & stat.S_IWOTH:
        return Check("folder", "fault", f"everybody may write to {path}", f"Type: chmod o-w {path}")
    if seen.st_mode & stat.S_IWGRP and seen.st_gid not in {os.getegid(), *os.getgroups()}:
        return Check("folder", "warning", f"a group that is not yours may write to {path}", f"Type: chmod g-w {path}")
    return None


def _named(name: str, found: list[str], what: str, advice: str, *, good: str) -> Check:
    if not found:
        return Check(name, "ok", good)
    shown = "; ".join(found[:_SHOWN]) + (f"; and {len(found) - _SHOWN} more" if len(found) > _SHOWN else "")
    return Check(name, "warning", f"{len(found)} {what}{'s' if len(found) > 1 else ''}: {shown}", advice)
