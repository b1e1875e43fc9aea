"""What must hold after a verb was killed, broken or cut off, and another process has recovered.

A verb is learned first: the world as it is without it (*before*) and after all of it (*done*), each taken through the
same recovery. Whatever becomes of a verb, every fact must then be one of the two, and once it has reported success,
that of *done*. So nothing is lost, doubled, in two states or half done, without a list of what each verb should do.
"""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

from tests.proof.pictures import PROBE, Picture, look
from tests.proof.scenario import Scenario, World

LATER_S = "7200"
"""Recovery is run by a clock that is two hours ahead, so that what killed writers left is swept."""
SETTLED_S = "10"
"""The last drain's is some seconds ahead: what is younger than two seconds is left for the next look."""
RECOVERED = frozenset({0})
DRAINED = frozenset({0, 1, 75})
_OF_MISSION = ("input of ", "bindings of ")


@dataclass(frozen=True)
class Pictures:
    """A world at rest: right after recovery, and after a further enqueue and a drain of everything."""

    recovered: Picture
    drained: Picture


@dataclass(frozen=True)
class Learned:
    """What a verb does, from whole runs."""

    said: str
    before: Pictures
    done: Pictures
    before_again: Pictures | None
    done_again: Pictures | None
    half: Pictures | None = None

    def has_reported(self, out: str) -> bool:
        """Whether a verb had said all that it has to say."""
        return bool(self.said) and out.count("\n") >= self.said.count("\n") > 0


class Stuck(Exception):
    """A verb after recovery did not do what it must: what it said."""


def learn(scenario: Scenario, world: World) -> Learned:
    """Run the verb whole and not at all, once more and not, and look at what each leaves after recovery."""
    said = ""
    found: dict[tuple[bool, bool], Pictures] = {}
    for again in (False, True) if scenario.again is not None else (False,):
        for done in (False, True):
            scenario.put_back(world)
            if done:
                ended = world.run(*scenario.argv, code=scenario.code)
                said = ended.stdout
            scenario.end(world)
            found[again, done] = settle(scenario, world, again=again)
            if faults := [*always(found[again, done].recovered), *at_rest(found[again, done].drained)]:
                raise Stuck(f"{scenario.name}, without a kill: {faults}")
    before, done_ = found[False, False], found[False, True]
    half = None
    if scenario.half:
        scenario.put_back(world)
        world.run(*scenario.half)
        half = settle(scenario, world, again=False)
    return Learned(said, before, done_, found.get((True, False)), found.get((True, True)), half)


def settle(scenario: Scenario, world: World, *, again: bool) -> Pictures:
    """Recover with another process, perhaps ask for the same once more, and then do more; the pictures of both.

    Raises Stuck when one of these does not work at once.
    """
    world.await_quiet()
    if scenario.kind == "sql":
        _must(world, ("work", "recover"), RECOVERED)
        if again:
            _again(scenario, world)
        recovered = look(world, scenario.kind)
        if recovered.stray:  # what lies beside the work queue is swept with any checkout of the user
            _must(world, ("init",), RECOVERED)
            _must(world, ("recover", "--yes"), RECOVERED, LAB_LATER=LATER_S)
        _must(world, ("work", "enqueue", "--title", "z", "--payload", "z", "--id", PROBE), RECOVERED)
        drained = look(world, scenario.kind)
        if recovered.stray:
            drained.facts.pop("known checkouts")  # `init` has made one known
        return Pictures(recovered, drained)
    if scenario.turn:
        _must(world, ("drain",), DRAINED)
    if (world.queue).exists():
        _must(world, ("recover", "--yes"), RECOVERED, LAB_LATER=LATER_S)
    if again:
        _again(scenario, world)
    recovered = look(world, scenario.kind)
    _must(world, ("enqueue", PROBE, *world.mission(PROBE)), RECOVERED)
    _must(world, ("drain",), DRAINED, LAB_LATER=SETTLED_S)
    world.await_quiet()
    return Pictures(recovered, look(world, scenario.kind))


def _again(scenario: Scenario, world: World) -> None:
    _must(world, scenario.argv, frozenset({0, scenario.code, scenario.again or 0}))
    world.await_quiet()


def _must(world: World, argv: Sequence[str], codes: frozenset[int], **env: str) -> None:
    shown = " ".join(argv[:3])
    try:
        done = world.run(*argv, code=None, env=env)
    except subprocess.TimeoutExpired as late:
        raise Stuck(f"`{shown}` did not end in {late.timeout:g} s") from late
    if done.returncode not in codes:
        raise Stuck(f"`{shown}` after it: exit {done.returncode}: {done.stdout[-300:]}{done.stderr[-600:]}")


def judge(
    scenario: Scenario, learned: Learned, found: Pictures, *, reported: bool, again: bool, keeper: bool
) -> list[str]:
    """Everything that is wrong with what was found, a sentence each.

    `keeper`: a keeper or a mission was hit, so that a mission may have been interrupted.
    """
    before = learned.before_again if again else learned.before
    done = learned.done_again if again else learned.done
    assert before is not None
    assert done is not None
    faults = [*always(found.recovered), *always(found.drained), *at_rest(found.drained)]
    half = learned.half
    for seen, was, would, between in (
        (found.recovered, before.recovered, done.recovered, half.recovered if half else None),
        (found.drained, before.drained, done.drained, half.drained if half else None),
    ):
        faults += _facts(seen, was, would, between, reported=reported or again)
        faults += _belongings(seen, was, would)
        faults += _order(seen, was, would)
        faults += _runs(seen, was, would, keeper=keeper and scenario.turn)
    return list(dict.fromkeys(faults))


def always(picture: Picture) -> list[str]:
    """What may be at no instant."""
    return [*picture.twice, *(["two missions met in one tree"] if picture.ran["overlap"] else [])]


def at_rest(picture: Picture) -> list[str]:
    """What may not be once recovery, an enqueue and a drain are over."""
    return [f"left behind: {path}" for path in picture.stray]


def _facts(seen: Picture, was: Picture, would: Picture, half: Picture | None, *, reported: bool) -> Iterator[str]:
    for key in sorted({*seen.facts, *was.facts, *would.facts}):
        now, old, new = (one.facts.get(key) or None for one in (seen, was, would))
        if now == new or (now == old and not reported):
            continue
        if half is not None and not reported and now == half.facts.get(key):
            continue
        if key == "what is quarantined" and _only_reasons(now, (old, new)):
            continue
        what = "though it was reported as done" if now == old else f"neither as before ({_short(old)}) nor done"
        yield f"{key}: {_short(now)}, {what} ({_short(new)})"


def _only_reasons(now: object, known: Sequence[object]) -> bool:
    """Whether nothing more is quarantined than reasons whose entries are not there, as the page of states has it."""
    names = {name for name in (now if isinstance(now, dict) else {}) if not name.endswith(".why")}
    return any(names == {n for n in (one if isinstance(one, dict) else {}) if not n.endswith(".why")} for one in known)


def _belongings(seen: Picture, was: Picture, would: Picture) -> Iterator[str]:
    """An entry that is there has its files and its binding."""
    for key, new in would.facts.items():
        mission = key.removeprefix("entries of ")
        if mission == key or seen.facts.get(key) != new or was.facts.get(key) == new:
            continue
        for part in _OF_MISSION:
            if seen.facts.get(part + mission) != would.facts.get(part + mission):
                yield f"the {part}{mission} is {_short(seen.facts.get(part + mission))}, though its entry is there"


def _order(seen: Picture, was: Picture, would: Picture) -> Iterator[str]:
    known = {*_pairs(was.order), *_pairs(would.order)}
    both = set(was.order) | set(would.order)
    for first, second in pairwise([mission for mission in seen.order if mission in both]):
        if (second, first) in known and (first, second) not in known:
            yield f"{second} was before {first} in the queue, and now it is behind it"


def _pairs(order: Sequence[str]) -> Iterator[tuple[str, str]]:
    for at, first in enumerate(order):
        yield from ((first, second) for second in order[at + 1 :])


def _runs(seen: Picture, was: Picture, would: Picture, *, keeper: bool) -> Iterator[str]:
    for mission in sorted({*seen.ran, *was.ran, *would.ran} - {"overlap"}):
        least, most = sorted((was.ran[mission], would.ran[mission]))
        spare = seen.interrupted[mission] - was.interrupted[mission] if keeper else 0
        if not least <= seen.ran[mission] <= most + spare:
            yield f"{mission} ran {seen.ran[mission]} times, not {least} to {most + spare}"


def _short(value: object) -> str:
    text = repr(value)
    return text if len(text) < 300 else f"{text[:300]}…"


def end_all(world: World) -> None:
    """Kill whatever still lives in a world."""
    for pid in world.processes():
        os.kill(pid, signal.SIGKILL)
