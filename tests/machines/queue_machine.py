"""A Hypothesis state machine that walks commands, pairs of commands and kills against the model and the page.

After every step all files are explained by `docs/reference/states.md` and compared with every world that the model
holds possible; those that fit are held from then on.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time
import traceback
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import Any

from hypothesis import strategies as st
from hypothesis.stateful import rule

from tests.factories import kranz_entry, kranz_name
from tests.machines import turns, withdrawing
from tests.machines.asks import FAR, MISSIONS, Ask, changes, dispatching, enqueues, others
from tests.machines.bench import JOBS, WORDS, Answer, now_ms, until
from tests.machines.comparison import Compared, Known
from tests.machines.ends import word_of
from tests.machines.explore import ends
from tests.machines.seen import look, matched
from tests.machines.turns import RUNNING
from tests.machines.world import Cell, Job, Now, Program, Run, World

ANY = 1000
"""Stands for an exit code that does not tell how the turns ended."""
_LATER_MS = 1200


_DROPS = ("name", "name", "command", "again", "later", "after", "array", "half")
_PUTS = ("kranz", "kranz", "name", "waiting", "parked", "array", "half", "other")
_ODD = {"name": "queued", "waiting": "waiting", "parked": "parked"}
"""Where a file is put whose name is no entry's."""
_STRANGE = ("note.txt", ".note", "waiting/note.txt", "parked/note.txt", "inbox/x.tmp", "inbox/.x")
_acts = st.one_of(
    *(st.sampled_from([(what, kind) for kind in kinds]) for what, kinds in (("drop", _DROPS), ("put", _PUTS))),
    st.sampled_from([("leave", path) for path in _STRANGE] + [("lose", ".seq")] * 4),
)


_seldom = st.sampled_from((False, False, False, False, False, False, False, True))


class Walk(Compared):
    """One checkout's queue, and the steps that all machines walk."""

    def teardown(self) -> None:
        """End what is under way, and clear the checkout away. A fault is kept: walked again, it may hide."""
        if isinstance(fault := sys.exc_info()[1], Exception):
            type(self).faults.append("".join(traceback.format_exception(fault)))
        if self.live is not None:
            self.bench.release()
            self.bench.workers[2].answer()
        self.bench.end()

    @rule(ask=enqueues())
    def an_approval(self, ask: Ask) -> None:
        """Most of all, missions are approved."""
        self._one(ask)

    @rule(ask=changes)
    def a_verb(self, ask: Ask) -> None:
        """One command."""
        self._one(ask)

    @rule(ask=others)
    def a_rarer_verb(self, ask: Ask) -> None:
        """One command that changes something beside the entries."""
        self._one(ask)

    @rule(act=_acts, mission=st.sampled_from(MISSIONS), priority=st.integers(0, 3))
    def a_hand(self, act: tuple[str, str], mission: str, priority: int) -> None:
        """Another program drops a file, kranz or a hand puts one among the entries, or one that asks for nothing."""
        what, kind = act
        if what == "drop":
            self._drop(kind, mission, priority)
        elif what == "put":
            self._put(kind, mission)
        elif what == "lose":
            self._lose_hint()
        else:
            self._leave(kind)

    @rule(ask=dispatching)
    def a_turn(self, ask: Ask) -> None:
        """A turn, or a recovery."""
        self._one(ask)

    @rule(how=st.sampled_from(("released", "cancelled", "keeper killed", "dispatcher killed")))
    def time_passes(self, how: str) -> None:
        """What does not end by itself is let end, in one way or another; what is due soon is due."""
        if self.live is not None:
            self._let_end(how)
        elif (due := self._next_due()) is not None:
            self._note("time passes", due)
            until(lambda: now_ms() > due, "its time has come")

    # -------------------------------------------------------------- the steps

    def _one(self, ask: Ask, *, program: bool = False) -> None:
        self._note(f"{'program ' if program else ''}{ask.verb}", ask)
        begun = now_ms()
        words, model = ask.said(begun)
        if ask.verb == "drain" and self.live is None and not program:
            self.bench.hold()
            self._turn(begun, model)
            return
        released = self._released_for(ask)
        answer = self.bench.program(words) if program else self.bench.run(words, fork=ask.dispatches)
        self._came_to(begun, [model], [answer], released=released)

    def _released_for(self, ask: Ask) -> bool:
        """Whether missions end by themselves, as they must where nobody is free to end them."""
        if self.live is not None:
            return False
        if ask.verb == "drain":
            self.bench.release()
        return True

    def _turn(self, begun: int, model: Program) -> None:
        answer = self.bench.dispatch()
        if answer is not None:
            self._came_to(begun, [model], [answer], released=False)
            return
        record = self.bench.hangs()
        assert record is not None
        self.live = record["mission"], record["run"]
        self._came_to(begun, [model], [Answer(RUNNING)], released=False)
        self.worlds = [(world._replace(hold=9), known) for world, known in self.worlds]

    def _killed(self, ask: Ask, at: int) -> None:
        self._note(f"killed {ask.verb}", ask, at)
        begun = now_ms()
        words, model = ask.said(begun)
        released = self._released_for(ask)
        answer = self.bench.killed(words, at)
        if ask.verb == "drain" and self.live is None:
            until(lambda: not self.bench.keepers(), "the keeper leaves when all is recorded")
        self._came_to(begun, [model], [answer], released=released, killed=answer.code < 0)

    def _two(self, one: Ask, other: Ask, at: int) -> None:
        self._note(f"{'held' if at else 'both'} {one.verb} + {other.verb}", one, other, at)
        begun = now_ms()
        said = one.said(begun), other.said(begun)
        released = self._released_for(one) and self._released_for(other)
        answers = self.bench.together(said[0][0], said[1][0], at)
        self._came_to(begun, [model for _, model in said], answers, released=released)

    def _came_to(
        self,
        begun: int,
        programs: Sequence[Program],
        answers: Sequence[Answer],
        *,
        released: bool,
        killed: bool = False,
    ) -> None:
        now = Now(begun, now_ms(), released=released)
        if self.live is not None and self._is_wished():
            answers = [*answers, self._join()]
            programs = [*programs, ()]
        found: list[tuple[World, Known]] = []
        said = [self._said(answer) for answer in answers]
        tried: list[World] = []
        for world, known in self.worlds:
            for end, codes in self._ends(world, programs, now, killed=killed):
                if all(
                    code is None or answer.code in {*code, ANY} for code, answer in zip(codes, answers, strict=False)
                ):
                    tried.append(end)
                    found.append((end, known))
        self._check_worlds(found, tried, " | ".join(said), killed=killed)

    def _ends(
        self, world: World, programs: Sequence[Program], now: Now, *, killed: bool
    ) -> Iterable[tuple[World, tuple[frozenset[int] | None, ...]]]:
        if programs[-1] == ():
            run = next(run for run in world.runs if run[:2] == self.over)
            programs = [*programs[:-1], _after_wish(run)]
        for end, codes in ends(world, programs, now, killed=killed):
            if killed and codes[0] is None:
                yield from ((left, codes) for left in _left_by_dead(end, world.alive))
            else:
                yield end, codes

    def _serve(self) -> None:
        self._note("daemon")
        self.bench.release()
        begun = now_ms()
        daemon = self.bench.workers[1]
        daemon.begin(self.bench.argv(("daemon",)), fork=True)
        until(lambda: self._has_come_to(begun), "a daemon comes to what the model holds possible")
        stopped = self.bench.run(("stop",))
        assert stopped.code == 0, self._story(stopped.err)
        answer = daemon.answer()
        assert answer.code == 0, self._story(answer.err)
        self._came_to(begun, [turns.drain(once=False)], [replace(answer, code=ANY)], released=True)
        self.bench.hold()

    def _has_come_to(self, begun: int) -> bool:
        """Whether a daemon that waits for something to do leaves what lies there as it is."""
        if not (self.bench.queue / ".daemon.json").exists() or (self.bench.queue / ".busy.json").exists():
            return False
        now, seen = Now(begun, now_ms()), look(self.bench.kranz, WORDS, self.strangers)
        return any(
            matched(end, seen, known)
            for world, known in self.worlds
            for end, _ in ends(world, [turns.drain(once=False)], now)
        )

    def _next_due(self) -> int | None:
        """What waits for a time that comes soon."""
        dues = [cell.due for cell, _ in self.seen.cells if isinstance(cell.due, int)]
        soon = [due for due in dues if 0 < due - now_ms() < _LATER_MS]
        return min(soon, default=None)

    def _is_wished(self) -> bool:
        assert self.live is not None
        mission, run = self.live
        return (self.bench.kranz / "missions" / mission / "dispatch" / f"{run:03d}" / "cancel.json").exists()

    def _join(self) -> Answer:
        """Wait for the dispatcher whose mission was let end."""
        answer = self.bench.workers[2].answer()
        self.over, self.live = self.live or self.over, None
        return answer

    # ---------------------------------------------------------- what a hand does

    def _drop(self, kind: str, mission: str, priority: int) -> None:
        self._note("drop", kind, mission, priority)
        self.came += 1
        name = f"drop{self.came}.json"
        value: dict[str, Any] = {"missionId": mission, "priority": priority}
        own = {"id": os.urandom(16).hex()}
        job = Job("", own=kind != "name", signed=False)
        match kind:
            case "command":
                value["kranzq"], job = own | {"command": list(JOBS["ok"])}, job._replace(word="ok")
            case "again":
                value["kranzq"], job = own | {"again": True}, job._replace(again=True)
            case "later":
                value["kranzq"] = own | {"notBefore": "2097-01-01T00:00:00Z"}
                job = job._replace(not_before=FAR)
            case "after":
                value["kranzq"], job = own | {"after": ["m1"]}, job._replace(after=("m1",))
            case "array" | "half":
                job = Job("bad" if kind == "array" else "partial", own=False, signed=False)
            case _:
                pass
        text = {"array": "[]", "half": '{"missionId": '}.get(kind, json.dumps(value))
        path = self.bench.folder / name
        path.write_text(text)
        if kind == "half":
            os.utime(path, (time.time() - 60,) * 2)
        path.rename(self.bench.queue / "inbox" / name)
        whose, order = ("", 0) if job.bad else (mission, priority)

        def dropped(world: World) -> World:
            born, life = world.new_life()
            beside = any(run.state in {"claiming", "begun"} for run in world.runs_of(mission))
            return born.put(Cell("inbox", whose, order, -1, job, life, None, 0, name, self.came, beside))

        self._check([dropped(world) for world, _ in self.worlds], kind)

    def _leave(self, path: str) -> None:
        if path not in self.strangers:
            (self.bench.queue / path).write_text("mine")
            self.strangers.add(path)
        self._note("a strange file", path)
        self._check([world for world, _ in self.worlds], "")

    def _lose_hint(self) -> None:
        """The last number is only a hint: names and records tell it as well."""
        self._note("lose the hint")
        (self.bench.queue / ".seq").unlink(missing_ok=True)
        self._check([world._replace(seq=-1) for world, _ in self.worlds], "")

    def _put(self, kind: str, mission: str) -> None:
        self._note("put", kind, mission)
        self.came += 1
        number = 1 + max([-1, self.seen.seq, *(cell.number for cell, _ in self.seen.cells)])
        name = f"odd{self.came}.json" if kind in _ODD else kranz_name(mission, 1, number)
        word = {"kranz": "", "half": "partial"}.get(kind, "bad")
        data = {"kranz": kranz_entry(mission, 1, number), "half": b'{"missionId": ', "array": b"[]"}
        data |= dict.fromkeys(_ODD, b"{}")
        temporary = self.bench.folder / name
        temporary.write_bytes(data.get(kind, kranz_entry("another", 1, number)))
        temporary.rename(self.bench.queue / (kind if kind in {"waiting", "parked"} else "") / name)
        job = Job(word, own=False, signed=False)
        cell = Cell("queued", mission, 1, number, job, 0, came=now_ms() if kind == "half" else 0)
        if kind in _ODD:
            cell = Cell(_ODD[kind], "", 0, -1, job, 0, name=name)

        def put(world: World) -> World:
            born, life = world.new_life()
            return born.put(cell._replace(life=life))

        self._check([put(world) for world, _ in self.worlds], kind)

    # --------------------------------------------------- what does not end by itself

    def _let_end(self, how: str) -> None:
        assert self.live is not None
        self._note(f"running, {how}", *self.live)
        begun, live = now_ms(), self.live
        match how:
            case "released":
                self.bench.release()
                self._over(begun, turns.ended_live, [self._join()])
            case "cancelled":
                answer = self.bench.run(("cancel", live[0], "--wait"))
                self._over(begun, lambda run: (*withdrawing.wish(live[0]), *turns.ended_live(run)), [self._join()])
                assert answer.code == 0, self._story(answer.err)
            case "keeper killed":
                os.kill(self._keeper(), signal.SIGKILL)
                self._over(begun, lambda run: turns.ended_live(run, end=False), [self._join()])
            case _:
                os.kill(self.bench.workers[2].child(), signal.SIGKILL)
                assert self._join().code < 0
                self.bench.release()
                until(lambda: not self.bench.keepers(), "the keeper leaves when all is recorded")
                self._over(begun, turns.left_live, [Answer(-signal.SIGKILL)])
        self.bench.hold()

    def _over(self, begun: int, model: Callable[[Run], Program], answers: Sequence[Answer]) -> None:
        now, (live, self.live) = Now(begun, now_ms()), (self.live or self.over, None)
        found = []
        for world, known in self.worlds:
            run = next(run for run in world.runs if run[:2] == live)
            for end, codes in ends(world, [model(run)], now):
                if codes[0] is None or answers[0].code in codes[0]:
                    found.append((end, known))
        said = self._said(answers[0])
        self._check_worlds(found, [world for world, _ in found], said, killed=answers[0].code < 0)

    def _keeper(self) -> int:
        record = self.bench.hangs()
        assert record is not None
        pid: int = record["keeper"]["pid"]
        return pid


class Names(Walk):
    """Above all the verbs that change names: alone, killed, two at once."""

    @rule(ask=enqueues())
    def one_more_approval(self, ask: Ask) -> None:
        """Most of all, missions are approved."""
        self._one(ask)

    @rule(ask=changes)
    def one_more_verb(self, ask: Ask) -> None:
        """One command."""
        self._one(ask)

    @rule(ask=changes, at=st.integers(1, 30))
    def a_killed_verb(self, ask: Ask, at: int) -> None:
        """A command that is killed before one of its changes of the disk."""
        self._killed(ask, at)

    @rule(one=changes, other=changes, at=st.sampled_from((0, 0, *range(1, 25))))
    def two_verbs(self, one: Ask, other: Ask, at: int) -> None:
        """Two commands at once; with `at` one is held half-way while the other runs."""
        self._two(one, other, at)


class Turns(Walk):
    """Above all dispatchers: killed, two at once, beside verbs, as daemons and as real programs."""

    @rule(ask=dispatching)
    def one_more_turn(self, ask: Ask) -> None:
        """A turn, or a recovery."""
        self._one(ask)

    @rule(ask=dispatching, at=st.integers(1, 90), after=dispatching)
    def a_killed_turn(self, ask: Ask, at: int, after: Ask) -> None:
        """A dispatcher is killed before one of its changes of the disk, and another one comes."""
        self._killed(ask, at)
        self._one(after)

    @rule(one=dispatching, other=st.one_of(changes, dispatching), at=st.sampled_from((0, *range(1, 90))))
    def a_turn_and_a_verb(self, one: Ask, other: Ask, at: int) -> None:
        """A dispatcher and somebody else at once; with `at` the dispatcher is held half-way while the other runs."""
        self._two(one, other, at)

    @rule(ask=st.one_of(changes, dispatching), seldom=_seldom)
    def a_program(self, ask: Ask, *, seldom: bool) -> None:
        """The real program; it takes its time."""
        self._one(ask, program=seldom)

    @rule(seldom=_seldom)
    def a_daemon(self, *, seldom: bool) -> None:
        """A daemon serves until nothing is left to do, and is stopped."""
        if seldom and self.live is None:
            self._serve()


def _left_by_dead(world: World, alive: frozenset[tuple[str, int]]) -> Iterable[World]:
    """What a killed dispatcher's keeper may have come to by itself: it had its order, or it had not."""
    left = world._replace(alive=alive)
    yield left
    for mission, number in world.alive - alive:
        run = next(one for one in world.runs if one[:2] == (mission, number))
        if run.state == "begun" and not run.end and word_of(run.job) != "killer":
            yield left.put_run(run._replace(end=True))


def _after_wish(run: Run) -> Program:
    return turns.ended_live(run)
