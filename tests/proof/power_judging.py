"""What must hold when the power is back: what holds after a kill, but for what no disk keeps that was not synced.

What is forgiven is counted, by kind: a run without a readable record, which was never promised; a reason that is not
there; a hint that was damaged and is set aside with one message; a mission whose end no disk had, which runs again.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

from tests.proof.invariants import Learned, Pictures, Stuck, always, at_rest, judge, settle
from tests.proof.pictures import NAMELESS, Picture
from tests.proof.power_disk import State, Told
from tests.proof.power_recording import ENDED, Recording
from tests.proof.power_states import Left
from tests.proof.power_world import PowerWorld
from tests.proof.scenario import Scenario
from tests.proof.scenarios_files import running

_NO_RECORD = re.compile(r"(missions/[^/]+/dispatch/[^/]+), a run (that is nothing|whose record cannot be read)")
_END_TOLD = re.compile(r"^[0-9:]* ?(\S+) (?:succeeded|failed|timed out|cancelled|deferred|not started)", re.MULTILINE)
_TEMPORARY = re.compile(r"state/(.*/)?\..*\.tmp")
"""Swept with the next look after an hour; a verb of the work queue does not look there."""
_OF_DAEMON = frozenset({"queue/.daemon.json", "queue/.stop"})
_OF_TURN = frozenset({"queue/.busy.json", "queue/.repo.busy.lock", "queue/.repo.busy.mission"})
"""What counts for nothing until it is replaced; while a checkout is paused there is no turn that does it."""
_END = re.compile(r"checkout/\.kranz/missions/([^/]+)/dispatch/[0-9]+/(run|exit)\.json")


@dataclass
class Promised:
    """What had been said and done when the power went, and what the disk has kept of it."""

    reported: bool
    """Whether the verb had said all that it has to say."""
    ended: frozenset[str]
    """Missions whose end was told, or recorded by a keeper that has left, or is on the disk: none runs again."""
    damaged_hint: bool
    open_runs: Counter[str]
    """How many runs of each mission had begun whose end neither a disk has nor a keeper that has left."""
    forgiven: Counter[str] = field(default_factory=Counter)


def learn(scenario: Scenario, world: PowerWorld) -> Learned:
    """Run the verb whole and not at all, start the machine again, and look at what each leaves after recovery."""
    said = ""
    found: list[Pictures] = []
    for done in (False, True):
        scenario.put_back(world)
        if done:
            said = world.run(*scenario.argv, code=scenario.code).stdout
        scenario.end(world)
        world.await_quiet()
        with world.started_again():
            found.append(settle(scenario, world, again=False))
        if faults := [*always(found[-1].recovered), *at_rest(found[-1].drained)]:
            raise Stuck(f"{scenario.name}, without a power cut: {faults}")
    before, after = found
    return Learned(said, before, after, None, None)


def promised(recording: Recording, left: Left, learned: Learned) -> Promised:
    """What counts for a state."""
    told = "".join(_told(recording, left.instant))
    recorded = {one.text for one in recording.events[: left.instant] if isinstance(one, Told) and one.path == ENDED}
    ended = {*_END_TOLD.findall(told), *recorded, *(mission for mission, _ in _ends_on_disk(left.state))}
    hint = left.state.tree().get("checkout/.kranz/queue/.seq")
    damaged = hint is not None and not hint.strip().isdigit()
    return Promised(learned.has_reported(told), frozenset(ended), damaged, _open_runs(recording, left))


def _open_runs(recording: Recording, left: Left) -> Counter[str]:
    events = [one for one in recording.events[: left.instant] if isinstance(one, Told)]
    begun = Counter(word for one in events if one.path == "notes/ran" for word in one.text.split())
    by_keepers = Counter(one.text for one in events if one.path == ENDED)
    on_disk = Counter(mission for mission, _ in set(_ends_on_disk(left.state)))
    return begun - (by_keepers | on_disk)


def _told(recording: Recording, instant: int) -> Iterator[str]:
    for event in recording.events[:instant]:
        if isinstance(event, Told) and not event.path and not event.text.startswith("exit "):
            yield event.text


def _ends_on_disk(state: State) -> Iterator[tuple[str, str]]:
    """The missions of which a whole record says that they have ended, each with the folder of the run."""
    for path, data in state.tree().items():
        if data is not None and (found := _END.fullmatch(path)):
            try:
                value = json.loads(data)
            except ValueError:
                continue
            if found[2] == "exit" or (value["state"] == "ended" and value["outcome"] != "interrupted"):
                yield found[1], path.rpartition("/")[0]


def faults_of(
    scenario: Scenario, learned: Learned, found: Pictures, world: PowerWorld, facts: Promised
) -> Sequence[str]:
    """Everything that is wrong, a sentence each.

    A turn has many steps, each of which may have been the last one that the disk has: what it comes to is compared
    when everything has come to rest. At no time may an entry be lost, doubled or torn.
    """
    if scenario.turn:
        early = always(found.recovered)
        learned = replace(learned, before=_at_rest(learned.before), done=_at_rest(learned.done))
        return [*early, *_compared(scenario, learned, _at_rest(found), world, facts)]
    return _compared(scenario, learned, found, world, facts)


def _at_rest(pictures: Pictures) -> Pictures:
    return Pictures(pictures.drained, pictures.drained)


def _compared(
    scenario: Scenario, learned: Learned, found: Pictures, world: PowerWorld, facts: Promised
) -> Sequence[str]:
    was, would = (_forgiving(one, facts) for one in (learned.before, learned.done))
    seen = _forgiving(found, facts)
    beside = scenario.begin is running
    if scenario.turn or beside:  # of a mission that is approved twice one end tells nothing of the other run
        seen = Pictures(
            *(_spared(one, old, facts, beside=beside) for one, old in zip(_both(seen), _both(was), strict=True))
        )
    if scenario.argv[0] == "edit" and not facts.reported:
        seen = Pictures(
            *(_half_edited(*three, facts) for three in zip(_both(seen), _both(was), _both(would), strict=True))
        )
    known = replace(learned, before=was, done=would)
    faults = judge(
        replace(scenario, turn=scenario.turn or beside), known, seen, reported=facts.reported, again=False, keeper=True
    )
    return [*faults, *_promised_reasons(scenario, world, facts)]


def _both(pictures: Pictures) -> tuple[Picture, Picture]:
    return pictures.recovered, pictures.drained


def _half_edited(picture: Picture, was: Picture, would: Picture, facts: Promised) -> Picture:
    """The page of states: a new limit of time may count already while the entry has its old name."""
    kept = dict(picture.facts)
    for key, now in picture.facts.items():
        old, new = was.facts.get(key), would.facts.get(key)
        if key.startswith("entries of") and now not in (old, new) and _mixed(old, new) == now:
            facts.forgiven["edited, but for the name"] += 1
            kept[key] = old
    return replace(picture, facts=kept)


def _mixed(old: object, new: object) -> object:
    """The names of the one with the content of the other."""
    if not (isinstance(old, list) and isinstance(new, list) and len(old) == len(new)):
        return None
    return [(*name[:-1], content[-1]) for name, content in zip(old, new, strict=True)]


def _forgiving(pictures: Pictures, facts: Promised) -> Pictures:
    return Pictures(_forgiven(pictures.recovered, facts), _forgiven(pictures.drained, facts))


def _forgiven(picture: Picture, facts: Promised) -> Picture:
    """The same without what no disk has to keep."""
    without = {found[1] for one in picture.stray if (found := _NO_RECORD.fullmatch(one))}
    kept = []
    for one in picture.stray:
        if any(one.startswith(folder) for folder in without):
            facts.forgiven["runs without a record"] += bool(_NO_RECORD.fullmatch(one))
        elif one.endswith("without its reason") and ("quarantine/" in one or not facts.reported):
            facts.forgiven["set aside, and the reason lost"] += 1
        elif _TEMPORARY.fullmatch(one):
            facts.forgiven["temporary files outside the checkout"] += 1
        elif one in _OF_DAEMON or (one in _OF_TURN and picture.facts.get("the pause")):
            facts.forgiven["records that the next daemon or turn replaces"] += 1
        else:
            kept.append(one)
    aside: Counter[str] = Counter()
    for name, count in dict(picture.facts.get("what is quarantined") or {}).items():  # type: ignore[call-overload]
        if name == "seq" and facts.damaged_hint:
            facts.forgiven["hints set aside"] += count
        else:
            aside["inbox" if name.startswith("inbox") else name] += count
    entries = dict(picture.facts)
    bad = entries.pop(f"entries of {NAMELESS}", None)
    return replace(picture, stray=kept, facts=entries | {"what is quarantined": aside, "bad files": bad and len(bad)})  # type: ignore[arg-type]


def _spared(picture: Picture, was: Picture, facts: Promised, *, beside: bool) -> Picture:
    """A mission whose end is nowhere may have run once more; one that is approved twice, for each such run."""
    once = Counter({mission: 1 for mission in picture.ran if mission not in facts.ended})
    again = facts.open_runs if beside else once
    facts.forgiven["run again, for no disk had the end"] += sum(
        picture.ran[mission] > was.ran[mission] and mission not in facts.ended for mission in picture.ran
    )
    return replace(picture, interrupted=was.interrupted + again)


def _promised_reasons(scenario: Scenario, world: PowerWorld, facts: Promised) -> Iterator[str]:
    """A person who parked a mission and was told so finds the reason."""
    if scenario.argv[0] == "park" and facts.reported and len(scenario.argv) > 2:
        for path in (world.queue / "parked").glob("*.why.json"):
            if scenario.argv[2] not in path.read_text(errors="replace"):
                yield f"{path.name}: the reason of a parked mission is lost, though it was reported"
