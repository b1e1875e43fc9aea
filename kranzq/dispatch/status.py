"""The state of one checkout at one moment: what runs, what waits, who dispatches, and what a person should look at.

Everything is looked at once and nothing is changed. `status` shows it, `why` takes its reasons from it.
"""

from __future__ import annotations

import itertools
import time
from collections import Counter
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from kranzq import __version__
from kranzq.dispatch.aside_seen import inbox_names
from kranzq.dispatch.busy_seen import BusySeen, ClaimSeen, is_here, is_unattended, occupancy
from kranzq.dispatch.daemon_seen import DaemonSeen, HiddenDaemon, look_for_daemon
from kranzq.dispatch.item_seen import CLEAR, awaits_hand_in
from kranzq.dispatch.item_seen import sentence as item_sentence
from kranzq.dispatch.kranz_seen import kranz_says
from kranzq.dispatch.sight import Sight, distinct, fate_of_bad
from kranzq.liveness import start_ticks
from kranzq.model.claim import Place
from kranzq.model.clock import rfc3339
from kranzq.model.frozen import frozen
from kranzq.model.process import Liveness
from kranzq.model.state import State
from kranzq.runs.folders import Runs
from kranzq.trust.mac import is_unsigned
from kranzq.trust.may_run import PermitKind

if TYPE_CHECKING:
    from kranzq.runs.record import RunRecord

_END_PATIENCE_S = 1.5  # a keeper records an end at once, or after the second in which it waits for a TERM of its own
_LOOK_AGAIN_S = 0.05
_SHOWN = 3
_UNITS = ((3600, "hours"), (60, "min"))


@frozen
class Thresholds:
    """From when on a running mission is named, in seconds."""

    long_run_s: float = 2 * 3600.0
    long_silence_s: float = 30 * 60.0


@frozen
class Notice:
    """Something a person should look at, and what to do about it."""

    text: str
    advice: str = ""
    listed: bool = False
    """Whether `list --all` names the files that it is about, one by one."""
    claim: str | None = None
    """The name of the claim that it is about, which `claims` has, too."""

    def to_json(self) -> dict[str, object]:
        """The notice with the documented keys: whoever shows the same one by one leaves it out, or puts it there."""
        return {"text": self.text, "advice": self.advice, "listed": self.listed, "claim": self.claim}


@frozen
class Status:
    """All that `status` says."""

    repo: str
    daemon: DaemonSeen | HiddenDaemon | None
    busy: BusySeen | None
    counts: dict[str, int]
    paused: str | None
    claims: tuple[ClaimSeen, ...]
    first: tuple[str, ...] = ()
    next_due: float | None = None
    waits: tuple[str, ...] = ()
    warnings: tuple[Notice, ...] = ()
    kranz: str | None = None
    """What kranz says of the mission that runs."""

    def to_json(self) -> dict[str, object]:
        """The state with the documented keys."""
        return {
            "repo": self.repo,
            "version": __version__,
            "daemon": self.daemon.to_json() if isinstance(self.daemon, DaemonSeen) else None,
            "busy": self.busy.to_json() | {"kranzStatus": self.kranz} if self.busy is not None else None,
            **self.counts,
            "paused": self.paused,
            "claims": [claim.to_json() for claim in self.claims],
            "next": list(self.first),
            "due": rfc3339(self.next_due) if self.next_due is not None else None,
            "waits": list(self.waits),
            "warnings": [one.to_json() for one in self.warnings],
            "daemonHidden": self.daemon.why if isinstance(self.daemon, HiddenDaemon) else None,
        }


COUNTED = ("queued", "waiting", "parked", "quarantined", "inbox", "unsigned")


def nothing_there(repo: str) -> Status:
    """The state of a checkout without a queue."""
    return Status(repo, None, None, dict.fromkeys(COUNTED, 0), None, ())


def status(sight: Sight, thresholds: Callable[[], Thresholds] = Thresholds) -> Status:
    """Look at everything once. `thresholds` are asked for only when a mission runs."""
    queue = sight.queue
    places = sorted(distinct(queue.places()), key=lambda place: (place.priority, place.number))
    seen = occupancy(sight)
    trust = _Trust(sight, places)
    states = Counter(place.state for place in places)
    daemon = look_for_daemon(queue.fd)
    paused = queue.paused()
    counts = {
        "queued": states[State.QUEUED] - trust.bad[State.QUEUED],
        "waiting": states[State.WAITING] - trust.bad[State.WAITING],
        "parked": states[State.PARKED] - trust.bad[State.PARKED],
        "quarantined": len(queue.quarantined()),
        "inbox": len(inbox_names(queue.fd)),
        "unsigned": trust.unsigned,
    }
    due = [place.due_ms for place in places if place.state is State.WAITING and place.due_ms is not None]
    warnings = [
        *_about_busy(sight, seen.busy, seen.claims, thresholds),
        *_about_claims(seen.claims),
        *trust.warnings,
        *(Notice(*notice) for notice in sight.notices),
    ]
    warnings += _about_files(sight, counts, bad=bool(trust.bad) or queue.has_bad_names())
    if states[State.QUEUED] + states[State.WAITING] + counts["inbox"] and paused is None:
        warnings += _about_daemon(daemon)
    elif daemon is None and seen.busy is not None and seen.busy.by == "keeper" and is_unattended(sight.checkout, queue):
        text = f"mission {seen.busy.mission} goes on without a dispatcher; its end is settled when one comes"
        warnings.append(Notice(text, "Type: kranzq daemon (or once: kranzq drain)"))
    return Status(
        sight.checkout.root,
        daemon,
        seen.busy,
        counts,
        paused,
        seen.claims,
        tuple(place.mission for place in places if place.state is State.QUEUED and place.name not in trust.held_up)[:3],
        min(due) / 1000 if due else None,
        tuple(_waits(sight, places)),
        tuple(warnings),
        kranz_says(queue.kranz_fd, seen.busy.mission if seen.busy is not None else None),
    )


def _waits(sight: Sight, places: Iterable[Place]) -> Iterable[str]:
    """The first of those that wait for more than a time that was asked for, each with the reason."""
    waiting = sorted((one for one in places if one.state is State.WAITING), key=lambda one: one.due_ms or 0)
    if not waiting:
        return ()
    from kranzq.dispatch.wait_seen import Waits  # noqa: PLC0415 - rarely does anything wait

    waits = Waits(Runs(sight.checkout, sight.queue.kranz_fd), lambda: places)
    read = ((one, entry) for one in waiting if (entry := sight.queue.read(one)) is not None)
    texts = (f"{one.mission}: {text}" for one, entry in read if (text := waits.seen(one, entry).text))
    return itertools.islice(texts, _SHOWN)


class _Trust:
    """What signatures say of the entries that could run: how many are unsigned, and which of them wait for a person."""

    def __init__(self, sight: Sight, places: Iterable[Place]) -> None:
        self.unsigned = 0
        self.bad: Counter[State] = Counter()
        self.held_up: set[str] = set()
        reasons: Counter[tuple[str, str]] = Counter()
        for place in places:
            if place.state is State.CLAIMED:
                continue
            entry = sight.queue.read(place)
            if entry is None:
                self.bad[place.state] += 1
                self.held_up.add(place.name)
            if entry is None or place.state is State.PARKED:
                continue
            self.unsigned += is_unsigned(entry)
            permit = sight.permit(entry)
            if permit.kind is not PermitKind.RUN:
                self.held_up.add(place.name)
                reasons[permit.why, permit.advice] += 1
        self.warnings = [
            Notice(f"{_count(number, 'entry', 'entries')} will not run: {why}", advice)
            for (why, advice), number in sorted(reasons.items())
        ]


def _about_busy(
    sight: Sight, busy: BusySeen | None, claims: Iterable[ClaimSeen], thresholds: Callable[[], Thresholds]
) -> Iterable[Notice]:
    if busy is None:
        return
    if busy.by == "leftovers":
        yield Notice(busy.text, "A daemon ends them; without one type: kranzq recover")
    if busy.clear:
        yield Notice("whether a kranz works here cannot be told by its lock", busy.clear)
    if busy.mission is None or busy.run is None or busy.by != "keeper":
        return
    mission, now, most = busy.mission, sight.clock.now(), thresholds()
    if busy.since is not None and now - busy.since > most.long_run_s:
        longer = _length(most.long_run_s)
        yield Notice(f"mission {mission} has run for more than {longer}", f"See what it says: kranzq logs -f {mission}")
    spoke = busy.last_output or busy.since
    if spoke is not None and now - spoke > most.long_silence_s:
        yield Notice(
            f"mission {mission} has said nothing for {_length(now - spoke)}", f"To end it: kranzq cancel {mission}"
        )
    record = next((claim.record for claim in claims if claim.claimed.place.mission == mission), None)
    if record is not None:
        yield from about_keeper(Runs(sight.checkout, sight.queue.kranz_fd), record)


def about_keeper(runs: Runs, record: RunRecord) -> Iterable[Notice]:
    """What keeps a living keeper from leaving: processes that do not end, or an end that it cannot write."""
    folder = runs.open(record.mission, record.run)
    if folder is None:
        yield Notice(f"the folder of run {record.run} of mission {record.mission} is gone")
        return
    with folder:
        pids = [one.get("pid") for one in folder.stuck() if isinstance(one, dict)]
        if pids:
            shown = ", ".join(map(str, pids))
            yield Notice(
                f"processes of mission {record.mission} do not end: pid {shown}",
                "The checkout is free when they are gone",
            )
        until = time.monotonic() + _END_PATIENCE_S
        while is_here(record) and record.process is not None and start_ticks(record.process[0]) != record.process[1]:
            if folder.read_exit(record.nonce) is not None or start_ticks(record.keeper.pid) is None:
                return
            if time.monotonic() > until:
                text = f"mission {record.mission} has ended, but its keeper {record.keeper.pid} cannot record the end"
                yield Notice(text, f"Free space on the disk; the reason stands in {folder.path}/keeper.log")
                return
            time.sleep(_LOOK_AGAIN_S)


def _about_claims(claims: Iterable[ClaimSeen]) -> Iterable[Notice]:
    for claim in claims:
        mission, name = claim.claimed.place.mission, claim.claimed.place.name
        if claim.record is not None and awaits_hand_in(claim.claimed.place, claim.record):
            yield Notice(item_sentence(claim.record), CLEAR, claim=name)
        elif claim.judged.verdict is Liveness.GONE:
            text = f"mission {mission} is claimed, but its holder is gone: {claim.judged.evidence}"
            yield Notice(text, "A daemon puts it right; without one type: kranzq recover", claim=name)
        elif claim.judged.verdict is Liveness.UNKNOWN:
            text = f"mission {mission} is claimed, and nothing is known of its holder: {claim.judged.evidence}"
            yield Notice(text, "See: kranzq recover", claim=name)


def _about_files(sight: Sight, counts: dict[str, int], *, bad: bool) -> Iterable[Notice]:
    found = sight.queue.bad() if bad else []
    for one in found[:_SHOWN]:
        yield Notice(f"{one.name} is no entry: {one.why}", f"{fate_of_bad(one).capitalize()}", listed=True)
    if len(found) > _SHOWN:
        yield Notice(f"{len(found) - _SHOWN} more files are no entries", "See which and why: kranzq list", listed=True)
    if counts["quarantined"]:
        number = _count(counts["quarantined"], "file lies", "files lie")
        yield Notice(f"{number} in the quarantine", "See which and why: kranzq list --all", listed=True)
    if counts["parked"]:
        number = _count(counts["parked"], "mission is", "missions are")
        yield Notice(f"{number} parked and will not run", "See why: kranzq list --parked", listed=True)
    for name in sight.queue.strange_claims():
        yield Notice(f"{name} bears the mark of a claim and is none", "Look at it, and remove it by hand")


def _about_daemon(daemon: DaemonSeen | HiddenDaemon | None) -> Iterable[Notice]:
    match daemon:
        case None:
            yield Notice("no daemon runs, so nothing will start", "Type: kranzq daemon (or once: kranzq drain)")
        case DaemonSeen(pid=pid, elsewhere=path) if path:
            text = f"the daemon looks for its queue at {path}, where this one is no more, and starts nothing here"
            yield Notice(text, f"Type: kill {pid}, then: kranzq daemon")
        case DaemonSeen(stopping=True):
            yield Notice("the daemon is stopping and starts nothing more", "When it has left, type: kranzq daemon")
        case DaemonSeen(version=version) if version not in {"", __version__}:
            yield Notice(f"the daemon is of version {version}, this is {__version__}", "Restart it when you like")
        case _:
            pass


def _length(seconds: float) -> str:
    """A length of time in its largest unit that leaves a small number."""
    unit, name = next((pair for pair in _UNITS if seconds >= pair[0] * 2), (1, "s"))
    return f"{seconds / unit:.0f} {name}"


def _count(number: int, one: str, many: str) -> str:
    return f"{number} {one if number == 1 else many}"
