"""The steps of a machine: verbs alone, killed or two at once, a daemon, and what does not end by itself.

What a step may have come to is followed in the model by `explore`; the worlds that fit the files are held.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace

from tests.machines import turns, watching, withdrawing
from tests.machines.asks import Ask
from tests.machines.bench import WORDS, Answer, now_ms, until
from tests.machines.comparison import Known
from tests.machines.ends import word_of
from tests.machines.explore import ends
from tests.machines.hands import Handled
from tests.machines.seen import look, matched
from tests.machines.turns import RUNNING
from tests.machines.world import QUICK_BACKOFF_MS, Now, Program, Run, World

ANY = 1000
"""Stands for an exit code that does not tell how the turns ended."""
_LATER_MS = 1200
_BACKOFF_MS = 5000
"""The real program's; the workers have a far shorter one."""


class Stepped(Handled):
    """The steps; after each all files are compared."""

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
        self._came_to(begun, [model], [answer], released=released, backoff=_BACKOFF_MS if program else QUICK_BACKOFF_MS)

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
        backoff: int = QUICK_BACKOFF_MS,
    ) -> None:
        now = Now(begun, now_ms(), released=released, backoff=backoff)
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
        assert stopped.code == 0, stopped.err
        answer = daemon.answer()
        assert answer.code == 0, answer.err
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

    # --------------------------------------------------- what does not end by itself

    def _let_end(self, how: str) -> None:
        assert self.live is not None
        self._note(f"running, {how}", *self.live)
        begun, live = now_ms(), self.live
        match how:
            case "released":
                self.bench.release()
                self._over(begun, watching.ended_live, [self._join()])
            case "cancelled":
                answer = self.bench.run(("cancel", live[0], "--wait"))
                self._over(begun, lambda run: (*withdrawing.wish(live[0]), *watching.ended_live(run)), [self._join()])
                assert answer.code == 0, answer.err
            case "keeper killed":
                os.kill(self._keeper(), signal.SIGKILL)
                self._over(begun, lambda run: watching.ended_live(run, end=False), [self._join()])
            case _:
                os.kill(self.bench.workers[2].child(), signal.SIGKILL)
                assert self._join().code < 0
                self.bench.release()
                until(lambda: not self.bench.keepers(), "the keeper leaves when all is recorded")
                self._over(begun, watching.left_live, [Answer(-signal.SIGKILL)])
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


def _left_by_dead(world: World, alive: frozenset[tuple[str, int]]) -> Iterable[World]:
    """What a killed dispatcher's keeper may have come to by itself: it had its order, or it had not."""
    left = world._replace(alive=alive)
    yield left
    for mission, number in world.alive - alive:
        run = next(one for one in world.runs if one[:2] == (mission, number))
        if run.state == "begun" and not run.end and word_of(run.job) != "killer":
            yield left.put_run(run._replace(end=True))


def _after_wish(run: Run) -> Program:
    return watching.ended_live(run)
