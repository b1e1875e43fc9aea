"""Both engines and a model of a hundred lines do the same, whatever is called in whatever order.

The model keeps items in a dictionary and knows the rules in the plainest words that Python has. The engines and it are
told the same, chosen by chance from a seed, and have to answer the same after each step, and hold the same in the end.
"""

from __future__ import annotations

import functools
import os
import random
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import pytest

from kranzq.backend import Wanted
from kranzq.backend.items import WorkStore
from kranzq.errors import ItemLost, KranzqError, NoSuchItem
from kranzq.model.claim import Holder
from kranzq.model.outcome import Outcome
from kranzq.model.work import Finish, Held, WorkItem
from kranzq.testing.items import ItemStore, item

STEPS = 250
GAMES = int(os.environ.get("KRANZQ_GAMES", "3"))
HOLDERS = [Holder("ann"), Holder("ANN", uid="u-1"), Holder("bob", uid="u-2"), Holder("ann", uid="u-3")]
TARGETS: list[dict[str, str]] = [{}, {"agent": "Ann"}, {"uid": "u-1"}, {"group": "G"}, {"agent": "bob", "uid": "u-9"}]


@dataclass
class Kept:
    """One item of the model."""

    name: str
    number: int
    target: dict[str, str]
    kind: str
    priority: int
    most: int
    due: float
    state: str
    holder: Holder | None = None
    ends: float = 0.0
    attempts: int = 0
    declined: int = 0
    result: str = ""
    tries: list[list[Any]] = field(default_factory=list)

    @property
    def used_up(self) -> bool:
        """Whether no attempt is left."""
        return self.attempts - self.declined >= self.most


class Model:
    """The rules."""

    def __init__(self) -> None:
        self.now = 0.0
        self.items: dict[str, Kept] = {}

    def enqueue(self, name: str, target: dict[str, str], kind: str, priority: int, most: int, due: float) -> None:
        """A new item."""
        state = "delayed" if due > self.now else "open"
        self.items[name] = Kept(name, len(self.items), target, kind, priority, most, due, state)

    def sweep(self) -> None:
        """What is over lapses or fails, what is due opens."""
        for one in self.items.values():
            if one.state == "claimed" and one.ends <= self.now:
                one.tries[-1][2:] = ["lapsed", "its lease ran out"]
                one.state = "failed" if one.used_up else "lapsed"
                if one.used_up:
                    one.result = one.result or "the last lease ran out"
            elif one.state == "delayed" and one.due <= self.now:
                one.state = "open"

    def claim(self, holder: Holder, wanted: Wanted, lease: float) -> tuple[str, int] | None:
        """The first that is the holder's to take."""
        self.sweep()
        mine = [one for one in self.items.values() if one.state in {"open", "lapsed"} and may(holder, wanted, one)]
        if not mine:
            return None
        one = min(mine, key=lambda each: (-each.priority, each.number))
        one.state, one.holder, one.ends, one.attempts = "claimed", holder, self.now + lease, one.attempts + 1
        one.tries.append([one.attempts, holder, None, ""])
        return one.name, one.attempts

    def held(self, held: Held) -> Kept | None:
        """The item, when those are its holder and its attempt and it counts."""
        one = self.items.get(held.id)
        if one is None:
            raise NoSuchItem(held.id)
        counts = one.state in {"claimed", "lapsed"} and one.attempts == held.attempt and one.holder is not None
        return one if counts and one.holder is not None and same(one.holder, held.holder) else None

    def heartbeat(self, held: Held, lease: float) -> str:
        """A whole lease from now."""
        one = self.held(held)
        if one is None:
            raise ItemLost(held.id, held.attempt, self.items[held.id].state)
        one.state, one.ends = "claimed", self.now + lease
        one.tries[-1][2:] = [None, ""]
        return one.state

    def finish(self, held: Held, state: str, result: str) -> str:
        """The end, once; the same one again is none."""
        one = self.held(held)
        if one is None:
            now, again = self.items[held.id], self.tried(held)
            if again is not None and again[2] == now.state == state and now.result == result:
                return state
            raise ItemLost(held.id, held.attempt, self.items[held.id].state)
        one.state, one.result = state, result
        one.tries[-1][2:] = [state, ""]
        return state

    def release(self, held: Held, why: str, *, declined: bool) -> str:
        """Back, or failed when the attempts are used up."""
        word = "declined" if declined else "released"
        one = self.held(held)
        if one is None:
            again = self.tried(held)
            if again is not None and again[2:] == [word, why]:
                return self.items[held.id].state
            raise ItemLost(held.id, held.attempt, self.items[held.id].state)
        one.declined += declined
        one.tries[-1][2:] = [word, why]
        one.state, one.holder, one.result = ("failed" if one.used_up else "open"), None, why
        return one.state

    def cancel(self, name: str, why: str) -> bool:
        """The end, whoever has it."""
        one = self.items.get(name)
        if one is None:
            raise NoSuchItem(name)
        if one.state in {"done", "failed", "cancelled"}:
            return False
        if one.tries and one.tries[-1][2] in {None, "lapsed"}:
            one.tries[-1][2:] = ["cancelled", why]
        one.state, one.holder, one.result = "cancelled", None, why
        return True

    def tried(self, held: Held) -> list[Any] | None:
        """The attempt that is shown, when it was this holder's."""
        for number, holder, *end in self.items[held.id].tries:
            if number == held.attempt and same(holder, held.holder):
                return [number, holder, *end]
        return None

    def seen(self) -> dict[str, tuple[Any, ...]]:
        """Everything, to be compared."""
        return {
            one.name: (one.state, one.attempts, one.declined, one.result, told(one.tries))
            for one in self.items.values()
        }


def told(tries: list[list[Any]]) -> list[tuple[Any, ...]]:
    """The history of an item as it is shown."""
    return [(number, holder.name, *end) for number, holder, *end in tries]


def same(one: Holder, other: Holder) -> bool:
    """By uid when both have one, else by name."""
    return one.uid == other.uid if one.uid and other.uid else one.name.lower() == other.name.lower()


def may(holder: Holder, wanted: Wanted, one: Kept) -> bool:
    """Whether the claimer is whom it is for, and it is what the claimer wants."""
    if (wanted.kind and wanted.kind != one.kind) or (wanted.missions and one.name not in wanted.missions):
        return False
    if "uid" in one.target:
        return one.target["uid"] == holder.uid
    if "agent" in one.target:
        return one.target["agent"].lower() == holder.name.lower()
    return "group" not in one.target or one.target["group"].lower() in {group.lower() for group in wanted.groups}


class Play:
    """One game: every step is told to the model and to the engine."""

    def __init__(self, engine: ItemStore, seed: int) -> None:
        self.engine, self.store, self.model = engine, engine.open(), Model()
        self.chance = random.Random(seed)
        self.claims: list[Held] = []
        self.began = self.store.enqueue(item("anchor", agent="nobody")).entry.created_at
        self.store.cancel("anchor")

    def step(self) -> None:
        """One call, or some time that passes."""
        steps = [
            self.enqueue,
            self.claim,
            self.claim,
            self.tell,
            self.tell,
            self.tell,
            self.cancel,
            self.sweep,
            self.wait,
        ]
        self.chance.choice(steps)()

    def enqueue(self) -> None:
        """One more item."""
        name, pick = f"w-{len(self.model.items)}", self.chance.choice
        target, kind, priority, most = pick(TARGETS), pick(["", "k"]), pick([0, 0, 5]), pick([1, 2, 9])
        wait = pick([0.0, 0.0, 1000.0])
        due = {"not_before": self.store_ms(wait)} if wait else {}
        self.store.enqueue(item(name, kind=kind, priority=priority, max_attempts=most, **target, **due))
        self.model.enqueue(name, target, kind, priority, most, self.model.now + wait)

    def claim(self) -> None:
        """Somebody wants something."""
        holder, lease = self.chance.choice(HOLDERS), self.chance.choice([100.0, 5000.0])
        wanted = self.chance.choice(
            [Wanted(), Wanted(groups=frozenset("g")), Wanted(kind="k"), Wanted(frozenset({"w-3"}))]
        )
        if self.moves_the_past:  # a server's claimers sweep now and then only
            self.store.sweep()
        got = self.store.claim(holder, wanted, lease_ms=round(lease * 1000))
        expected = self.model.claim(holder, wanted, lease)
        assert (None if got is None else (got.id, got.attempt)) == expected
        if got is not None:
            self.claims.append(Held(got.id, got.attempt, holder))

    def tell(self) -> None:
        """A holder of now or of long ago says something, sometimes with another attempt, or as somebody else."""
        if not self.claims:
            return
        held = self.chance.choice(self.claims[-6:] + self.claims[:2])
        if self.chance.random() < 0.2:
            held = Held(held.id, held.attempt + self.chance.choice([-1, 0, 1]), self.chance.choice(HOLDERS[1:3]))
        held = Held(held.id, max(held.attempt, 0), held.holder)
        text, declined = self.chance.choice(["one", "two"]), self.chance.random() < 0.3
        state = self.chance.choice(["done", "failed"])
        real, ours = self.chance.choice(
            [
                (lambda: self.store.heartbeat(held, 300_000).item.state.value, lambda: self.model.heartbeat(held, 300)),
                (lambda: self.finish(held, state, text), lambda: self.model.finish(held, state, text)),
                (
                    lambda: self.store.release(held, text, declined=declined).value,
                    lambda: self.model.release(held, text, declined=declined),
                ),
            ]
        )
        assert answer(real) == answer(ours), held

    def finish(self, held: Held, state: str, result: str) -> str:
        """An end; the state that it gives."""
        self.store.finish(held, Outcome.SUCCEEDED if state == "done" else Outcome.FAILED, result)
        return state

    def end_many(self) -> None:
        """Several ends in one call, of old and new claims, some of one item, some of somebody else."""
        ends = []
        for held in self.chance.choices(self.claims[-8:], k=self.chance.randrange(1, 6)) if self.claims else []:
            holder = self.chance.choice([held.holder, held.holder, held.holder, HOLDERS[2]])
            state, result = self.chance.choice(["done", "failed"]), self.chance.choice(["one", "two"])
            ends.append((Held(held.id, held.attempt, holder), state, result))
        outcomes = {"done": Outcome.SUCCEEDED, "failed": Outcome.FAILED}
        faults = self.store.finish_many([Finish(held, outcomes[state], result) for held, state, result in ends])
        told = [
            type(fault).__name__ if fault is not None else state
            for fault, (_, state, _) in zip(faults, ends, strict=True)
        ]
        assert told == [answer(functools.partial(self.model.finish, *end)) for end in ends], ends

    def claim_many(self) -> None:
        """Somebody wants several."""
        holder, limit = self.chance.choice(HOLDERS), self.chance.randrange(1, 5)
        wanted = Wanted(groups=frozenset("G"))
        if self.moves_the_past:
            self.store.sweep()
        got = self.store.claim_many(holder, wanted, limit=limit, lease_ms=5_000_000)
        ours = [claim for _ in range(limit) if (claim := self.model.claim(holder, wanted, 5000.0)) is not None]
        assert [(one.id, one.attempt) for one in got] == ours
        self.claims += [Held(one.id, one.attempt, holder) for one in got]

    def cancel(self) -> None:
        """An operator ends something, now and then."""
        if self.chance.random() < 0.3:
            name = f"w-{self.chance.randrange(len(self.model.items) + 1)}"
            assert answer(lambda: self.store.cancel(name, "why")) == answer(lambda: self.model.cancel(name, "why"))

    def sweep(self) -> None:
        """Somebody looks for what is over."""
        self.store.sweep()
        self.model.sweep()

    def wait(self) -> None:
        """Time passes."""
        seconds = self.chance.choice([1.0, 150.0, 2000.0])
        self.engine.pass_time(seconds)
        self.model.now += seconds
        self.began -= round(seconds * 1000) if self.moves_the_past else 0

    @property
    def moves_the_past(self) -> bool:
        """Whether time passes by moving what has happened, and not the clock."""
        return not hasattr(self.engine, "clock")

    def store_ms(self, wait: float) -> int:
        """The engine's wall clock so many seconds from now."""
        passed = 0.0 if self.moves_the_past else self.model.now
        real = self.store.database.wall_ms() if self.moves_the_past else self.began  # type: ignore[attr-defined]
        return int(real + (passed + wait) * 1000)

    def compare(self) -> None:
        """Everything that is kept."""
        seen = {one.id: self.told(one) for one in everything(self.store) if one.id != "anchor"}
        assert seen == self.model.seen()

    def told(self, one: WorkItem) -> tuple[Any, ...]:
        """An item as the model has it."""
        tries = [(each.attempt, each.holder, each.ended, each.why) for each in self.store.attempts(one.id)]
        return one.state.value, one.attempts, one.declined, one.result, tries


def everything(store: WorkStore) -> list[WorkItem]:
    """All items, page by page."""
    page = store.page(limit=500)
    assert page.cursor is None
    return list(page.items)


def answer(call: Callable[[], object]) -> object:
    """What a call gives, or the name of its fault."""
    try:
        return call()
    except KranzqError as fault:
        return type(fault).__name__


@pytest.mark.parametrize("seed", range(GAMES))
def test_engine_and_model_do_the_same(engine: ItemStore, seed: int) -> None:
    """Step by step, by chance from a seed."""
    play = Play(engine, seed)
    for number in range(STEPS):
        play.step()
        if number % 25 == 24:
            play.compare()
