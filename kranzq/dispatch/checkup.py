"""Is this checkout, and this machine, fit for missions? One small look a question, nothing is started or changed.

Below `check`. Each answer is *ok*, *warning* (it works, but less well or not yet) or *fault* (it cannot work so), with
what to do. What only a try on the disk would show is asked of the kernel instead.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from typing import Literal

from kranzq.disk.leavings import dead_temporaries
from kranzq.disk.owners import declared_group, group_name, refuse_foreign_checkout, unsafe_folder
from kranzq.dispatch.busy_seen import occupancy
from kranzq.dispatch.daemon_seen import DaemonSeen, HiddenDaemon, look_for_daemon
from kranzq.dispatch.planted import tracked_notice, unbelieved
from kranzq.dispatch.sight import Sight
from kranzq.errors import Refused
from kranzq.liveness import judge_claim
from kranzq.model.checkout import Checkout
from kranzq.model.clock import rfc3339
from kranzq.model.frozen import frozen
from kranzq.model.process import Liveness
from kranzq.model.state import State
from kranzq.runs.preflight import why_not_here
from kranzq.trust.key import KeySeen

Grade = Literal["ok", "warning", "fault"]
_SHOWN = 3


@frozen
class Check:
    """One answer. `advice` is empty when all is well."""

    name: str
    state: Grade
    text: str
    advice: str = ""

    def to_json(self) -> dict[str, object]:
        """The answer with the documented keys."""
        return {"name": self.name, "state": self.state, "text": self.text, "advice": self.advice}


def of_checkout(checkout: Checkout, *, as_root: bool = False) -> Iterator[Check]:
    """The working tree and who may write below it. `as_root`: root means it in another user's checkout."""
    kind = "no git here"
    if checkout.has_git:
        linked = not os.path.isdir(checkout.git)
        kind = "a linked worktree or submodule (.git is a file)" if linked else "a git checkout (.git is a directory)"
    yield Check("checkout", "ok", f"{checkout.root}: {kind}")
    if (unsafe := unsafe_folder(checkout, as_root=as_root)) is not None:
        yield Check("folder", "fault", f"{unsafe.path}: {unsafe.why}", unsafe.advice)
    try:
        refuse_foreign_checkout(checkout, as_root=as_root)
    except Refused as fault:
        yield Check("owner", "fault", fault.sentence.rstrip("."), fault.advice)
    if (why := why_not_here(checkout, 0, patience_s=0)) is not None:
        yield Check("start", "warning", f"no mission can start now: {why}", "They start when that is gone")
    if (group := declared_group(checkout)) is not None:
        yield Check("group", "ok", f"shared by group {group_name(group)}: what is made here, its members can write")


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
    left = list(dead_temporaries(queue.fd, _is_gone))
    advice = "A daemon removes it within two hours; at once: rm"
    yield _named("temporary files", left, "file of a writer that is gone", advice, good="none is left over")


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
    if seen.busy is not None and seen.busy.clear:
        yield Check("kranz's lock", "warning", seen.busy.text, seen.busy.clear)


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


def of_planted(sight: Sight) -> Iterator[Check]:
    """What a clone, a link or another user brought along: it is not believed."""
    if (notice := tracked_notice(sight.checkout.root)) is not None:
        yield Check("tracked", "warning", *notice)
    found = [f"{path} ({why})" for path, why in unbelieved(sight.checkout, sight.queue.kranz_fd)]
    yield _named("records", found, "unbelieved record", "Remove it if it is not yours", good="all are ours")


def of_keys(seen: Callable[[], Sequence[KeySeen]]) -> Iterator[Check]:
    """The user's signing keys: which one signs, and which older ones still verify."""
    try:
        keys = seen()
    except Refused as fault:
        yield Check("key", "fault", fault.sentence.rstrip("."), fault.advice)
        return
    current = next((key for key in keys if key.current), None)
    if current is None:
        yield Check("key", "ok", "none yet; the first enqueue makes one")
    elif not current.fault:
        yield Check("key", "ok", f"{current.id} signs, since {rfc3339(current.since)}")
    for key in keys:
        if key.fault:
            yield Check("key", "fault", key.fault, "Mend it, or make a new one with: kranzq trust --rotate-key")
    older = [f"{key.id} (made {rfc3339(key.since)})" for key in keys if not key.current and not key.fault]
    if older:
        yield Check("older keys", "ok", f"{', '.join(older)}: what they signed stays good; remove a file to end that")


def _is_gone(pid: int, wrote_at: float) -> bool:
    return judge_claim(pid, None, wrote_at).verdict is Liveness.GONE


def _named(name: str, found: list[str], what: str, advice: str, *, good: str) -> Check:
    if not found:
        return Check(name, "ok", good)
    shown = "; ".join(found[:_SHOWN]) + (f"; and {len(found) - _SHOWN} more" if len(found) > _SHOWN else "")
    return Check(name, "warning", f"{len(found)} {what}{'s' if len(found) > 1 else ''}: {shown}", advice)
