"""Why does a mission not run, and what would clear it? Every reason, in the order in which they bite.

The reasons are those by which a turn decides; nothing is decided here and nothing is changed.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from kranzq.dispatch.aside_seen import inbox, means, quarantined_as
from kranzq.dispatch.busy_seen import BusySeen, ClaimSeen, Occupancy, is_here, local, occupancy
from kranzq.dispatch.daemon_seen import DaemonSeen, HiddenDaemon, look_for_daemon
from kranzq.dispatch.item_seen import CLEAR, awaits_hand_in
from kranzq.dispatch.item_seen import sentence as item_sentence
from kranzq.dispatch.kranz_seen import kranz_says
from kranzq.dispatch.sight import BadFile, Sight, distinct, fate_of_bad, name_of_bad, state_of_bad
from kranzq.dispatch.status import about_keeper
from kranzq.dispatch.wait_seen import Waits
from kranzq.errors import NoSuchMission
from kranzq.model.claim import Place
from kranzq.model.clock import seconds_of
from kranzq.model.entry import Entry
from kranzq.model.frozen import frozen
from kranzq.model.ids import MissionId
from kranzq.model.outcome import Outcome, fate_name
from kranzq.model.process import Liveness
from kranzq.model.state import State
from kranzq.model.tree import Tree
from kranzq.runs.folder import CANCEL, RETURN
from kranzq.runs.folders import Runs
from kranzq.runs.record import RunRecord
from kranzq.trust.may_run import PermitKind, usable

_RANK = {State.CLAIMED: 0, State.QUEUED: 1, State.WAITING: 2, State.INBOX: 3, State.PARKED: 4}


@frozen
class Reason:
    """One reason: a code for programs, half a sentence, and what would clear it (empty: time alone)."""

    code: str
    text: str
    clear: str = ""

    def to_json(self) -> dict[str, object]:
        """The reason with the documented keys."""
        return {"reason": self.code, "text": self.text, "clear": self.clear}


@frozen
class Why:
    """A mission's state and the reasons for it."""

    mission: str
    state: State
    reasons: tuple[Reason, ...]

    def to_json(self) -> dict[str, object]:
        """The answer with the documented keys."""
        reasons = [reason.to_json() for reason in self.reasons]
        return {"mission": self.mission, "state": self.state.value, "reasons": reasons}


def why(sight: Sight, mission: MissionId, *, no_command: Reason | None) -> Why:
    """The reasons of one mission. `no_command` is why there is no command for missions without one, None if there is.

    Raises NoSuchMission when it was never seen.
    """
    return _Asker(sight, mission, no_command).answer()


class _Asker:
    def __init__(self, sight: Sight, mission: MissionId, no_command: Reason | None) -> None:
        self._sight = sight
        self._mission = mission
        self._no_command = no_command
        self._runs = Runs(sight.checkout, sight.queue.kranz_fd)
        self._places = distinct(sight.queue.places())

    def answer(self) -> Why:
        mine = self._mine()
        if not mine:  # an entry that moves while two folders are listed is seen in neither
            self._places = distinct(self._sight.queue.places())
            mine = self._mine()
        if not mine:
            return self._not_in_queue()
        state = mine[0].state
        reasons = [reason for place in mine for reason in self._of_place(place, mine)]
        last = self._runs.last(self._mission) if state is not State.CLAIMED else None
        if last is not None and last.tree is not None:
            reasons.append(_tree_of(last, last.tree))
        reasons += self._of_kranz()
        return Why(self._mission, state, tuple(dict.fromkeys(reasons)))

    def _mine(self) -> list[Place]:
        """The places of the mission, the one that matters most first."""
        return sorted(
            (place for place in self._places if place.mission == self._mission),
            key=lambda place: (_RANK.get(place.state, 9), place.priority, place.number),
        )

    def _of_place(self, place: Place, mine: Sequence[Place]) -> Iterator[Reason]:
        match place.state:
            case State.CLAIMED:
                yield from self._claimed(place)
            case State.PARKED:
                clear = f"When it may run again: kranzq unpark {self._mission}"
                yield Reason("parked", f"parked: {self._sight.queue.why_parked(place)}", clear)
                if self._sight.queue.read(place) is None:
                    yield from self._bad(place)
            case State.WAITING:
                yield from self._waiting(place)
            case _:
                yield from self._queued(place, mine)

    def _claimed(self, place: Place) -> Iterator[Reason]:
        seen = occupancy(self._sight)
        claim = next((one for one in seen.claims if one.claimed.place.name == place.name), None)
        if claim is None:
            yield Reason("settling", "its run has just ended", "Ask again")
            return
        if claim.record is not None and awaits_hand_in(place, claim.record):
            yield Reason("work queue", item_sentence(claim.record), CLEAR)
        elif claim.judged.verdict is Liveness.GONE:
            text = f"claimed, but its holder is gone: {claim.judged.evidence}"
            yield Reason("holder gone", text, "A daemon puts it right; without one type: kranzq recover")
        elif claim.judged.verdict is Liveness.UNKNOWN:
            text = f"claimed, and whether its holder lives is unknown: {claim.judged.evidence}"
            yield Reason("holder unknown", text, "See what can be done: kranzq recover --dry-run")
        elif claim.record is None:
            yield Reason("running", f"claimed by process {claim.claimed.pid} (kranz's or another program's claim)")
        else:
            yield from self._running(claim, claim.record)

    def _running(self, claim: ClaimSeen, record: RunRecord) -> Iterator[Reason]:
        since = local(seconds_of(record.started_at) or seconds_of(record.created_at))
        pid = f"pid {record.process[0]}, " if record.process is not None else ""
        where = "" if is_here(record) else ", by the numbers of another pid namespace"
        text = f"running as run {record.run} since {since} ({pid}keeper {claim.claimed.pid}{where})"
        folder = self._runs.open(record.mission, record.run)
        if folder is not None:
            with folder:
                if folder.read_exit(record.nonce) is not None:
                    text = f"run {record.run} has ended; its keeper {claim.claimed.pid} ends what is left of it"
                elif (wish := folder.wished(CANCEL)) is not None:
                    text += f"; a wish to cancel it lies there ({wish.get('why') or 'no reason given'})"
                elif folder.wished(RETURN) is not None:
                    text += "; it was asked to end and to come back"
        yield Reason("running", text, f"It ends by itself; to end it: kranzq cancel {self._mission}")
        yield from (Reason("keeper", notice.text, notice.advice) for notice in about_keeper(self._runs, record))

    def _waiting(self, place: Place) -> Iterator[Reason]:
        entry = self._sight.queue.read(place)
        if entry is None:
            yield from self._bad(place)
            return
        seen = Waits(self._runs, self._sight.queue.places).seen(place, entry)
        if place.due_ms is not None:
            because = f" ({seen.text})" if seen.text else ""
            yield Reason(seen.code, f"not due until {local(place.due_ms / 1000)}{because}", seen.clear)
        else:
            yield Reason(seen.code, f"waits for others: {seen.text}", seen.clear)
        yield from self._of_checkout()
        yield from self._of_entry(place)

    def _queued(self, place: Place, mine: Sequence[Place]) -> Iterator[Reason]:
        last = self._runs.last(self._mission)
        if last is not None and last.outcome is Outcome.NOT_STARTED:
            yield Reason("not started", f"its last try could not be started: {last.reason.rstrip('.')}")
        yield from self._of_checkout()
        yield from self._behind(place)
        yield from self._of_entry(place)
        for other in mine:
            if other.name != place.name and other.state in {State.CLAIMED, State.WAITING}:
                entry = self._sight.queue.read(place)
                if entry is not None and entry.own is not None and entry.own.again:
                    yield Reason("again", f"one more run, behind the one that is {other.state.value}")
                else:
                    yield Reason("duplicate", f"a duplicate: {other.name} is the same mission; this one will be parked")

    def _of_checkout(self) -> Iterator[Reason]:
        """What holds up every mission: no daemon, a pause, a busy checkout."""
        match look_for_daemon(self._sight.queue.fd):
            case None:
                yield Reason("no daemon", "no daemon runs here", "Type: kranzq daemon (or once: kranzq drain)")
            case HiddenDaemon(hidden):
                yield Reason("daemon hidden", f"whether a daemon runs cannot be seen from here: {hidden}")
            case DaemonSeen(pid=pid, elsewhere=path) if path:
                clear = f"Type: kill {pid}, then: kranzq daemon"
                text = f"the daemon (pid {pid}) looks for its queue at {path}, where this one is no more"
                yield Reason("daemon elsewhere", text, clear)
            case DaemonSeen(pid=pid, stopping=True):
                clear = "When it has left, type: kranzq daemon"
                yield Reason("daemon stopping", f"the daemon (pid {pid}) is stopping and starts nothing more", clear)
            case _:
                pass
        if (paused := self._sight.queue.paused()) is not None:
            yield Reason("paused", f"paused: {paused}", "Type: kranzq resume")
        if (busy := self._occupancy().busy) is not None and (busy.mission != self._mission or busy.by == "kranz"):
            yield Reason("busy", busy_with(busy), _clear_busy(busy))

    def _occupancy(self) -> Occupancy:
        return occupancy(self._sight)

    def _behind(self, place: Place) -> Iterator[Reason]:
        """Those in front that may run; whatever holds itself up is in nobody's way."""
        key = (place.priority, place.number)
        front = [
            one
            for one in sorted(self._places, key=lambda one: (one.priority, one.number))
            if one.state is State.QUEUED and (one.priority, one.number) < key and self._may_run(one)
        ]
        if front:
            others = "1 other" if len(front) == 1 else f"{len(front)} others"
            yield Reason("behind", f"behind {others}; the first is {front[0].mission}", "They run first, in order")

    def _may_run(self, place: Place) -> bool:
        entry = self._sight.queue.read(place)
        return entry is not None and not any(self._of_content(entry))

    def _of_entry(self, place: Place) -> Iterator[Reason]:
        entry = self._sight.queue.read(place)
        yield from self._bad(place) if entry is None else self._of_content(entry)

    def _bad(self, place: Place) -> Iterator[Reason]:
        name = name_of_bad(place)
        return (_reason_of_bad(one) for one in self._sight.queue.bad() if one.name == name)

    def _of_content(self, entry: Entry) -> Iterator[Reason]:
        permit = self._sight.permit(entry)
        if permit.kind is not PermitKind.RUN:
            code = "signature" if permit.kind is PermitKind.QUARANTINE else "trust"
            yield Reason(code, permit.why, permit.advice)
        own = usable(entry, permit).own
        if not (own is not None and own.command) and self._no_command is not None:
            yield self._no_command

    def _not_in_queue(self) -> Why:
        for bad in self._sight.queue.bad() if self._sight.queue.has_bad_names() else ():
            if means(bad.name, self._mission):
                return Why(self._mission, state_of_bad(bad), (_reason_of_bad(bad), *self._of_checkout()))
        last = next((one for one in self._runs.records(self._mission) if one.state == "ended"), None)
        aside = quarantined_as(self._sight.queue, self._mission, last.number if last is not None else None)
        if aside is not None:
            clear = "Look at it in .kranz/queue/quarantine; mend and enqueue it anew, or remove it"
            text = f"quarantined as {aside[0]}: {aside[1]}"
            return Why(self._mission, State.QUARANTINED, (Reason("quarantined", text, clear),))
        if any(one.mission == self._mission for one in inbox(self._sight.queue.fd)[0]):
            clear = "Whoever looks next admits it: a daemon, kranzq drain, or any kranzq enqueue"
            inside = Reason("inbox", "it lies in the inbox and was not admitted yet", clear)
            return Why(self._mission, State.INBOX, (inside, *self._of_checkout()))
        if last is None:
            raise NoSuchMission(self._mission)
        text = f"run {last.run} ended at {local(seconds_of(last.ended_at))}: {_ended(last)}"
        clear = f"To run it once more: kranzq retry {self._mission}"
        tree = (_tree_of(last, last.tree),) if last.tree is not None else ()
        return Why(self._mission, State.GONE, (Reason("ended", text, clear), *tree, *self._of_kranz()))

    def _of_kranz(self) -> Iterator[Reason]:
        """What kranz's own records say; it holds nothing up."""
        if (status := kranz_says(self._sight.queue.kranz_fd, self._mission)) is not None:
            yield Reason("kranz", f"kranz says that the mission is {status}")


def _reason_of_bad(bad: BadFile) -> Reason:
    return Reason("bad", f"its file {bad.name} is no entry: {bad.why}", f"{fate_of_bad(bad).capitalize()}")


def busy_with(busy: BusySeen) -> str:
    """Half a sentence: who has the checkout."""
    since = f" since {local(busy.since)}" if busy.since is not None else ""
    if busy.by in {"keeper", "claim"} and busy.mission is not None:
        pid = f", pid {busy.process or busy.pid}" if busy.process or busy.pid else ""
        return f"busy with {busy.mission}{since}{pid}"
    return f"busy: {busy.text}{since}"


def _tree_of(record: RunRecord, tree: Tree) -> Reason:
    outcome = record.outcome.value if record.outcome is not None else "ended"
    return Reason("tree", f"run {record.run} ({outcome}) left the checkout {tree.sentence}")


def _clear_busy(busy: BusySeen) -> str:
    if busy.by == "leftovers":
        return "A daemon ends them; without one type: kranzq recover"
    if busy.by == "keeper" and busy.mission is not None:
        return f"It runs when that has ended; to end it: kranzq cancel {busy.mission}"
    return busy.clear or "It runs when that has ended"


def _ended(record: RunRecord) -> str:
    outcome = record.outcome.value if record.outcome is not None else "unknown"
    reason = f", {record.reason.rstrip('.')}" if record.reason else ""
    fate = f" ({fate_name(record.fate)})" if record.fate is not None else ""
    return f"{outcome}{reason}{fate}"
