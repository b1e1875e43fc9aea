"""The steps of a machine: verbs alone, killed or two at once, a daemon, and what does not end by itself.

What a step may have come to is followed in the model by `explore`; the worlds that fit the files are held.
"""

from __future__ import annotations

import functools
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
from tests.machines.seen import look, matched, narrowing
from tests.machines.turns import RUNNING
from tests.machines.watching import TOLD
from tests.machines.world import QUICK_BACKOFF_MS, Now, Program, Run, World

Narrow = Callable[[World], World | None]
_REFUSED = (6, 1)
"""The exit codes of a verb that finds the disk full; the second where it names one mission after the other."""
ANY = 1000
"""Stands for an exit code that does not tell how the turns ended."""
_LATER_MS = 1200
_SIGNALLED = {signal.SIGKILL: "killed", signal.SIGTERM: "told", signal.SIGINT: "interrupted"}
_BACKOFF_MS = 5000
"""The real program's; the workers have a far shorter one."""


class Stepped(Handled):
    """The steps; after each all files are compared."""

    def _one(self, ask: Ask, *, program: bool = False) -> None:
        self._note(f"{'program ' if program else ''}{ask.verb}", ask)
        begun, self.died = now_ms(), ask.dies
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
        self.by = "drain"
        answer = self.bench.dispatch(("drain", "--once"))
        if answer is not None:
            self._came_to(begun, [model], [answer], released=False)
        else:
            self._goes_on(begun, model)

    def _goes_on(self, begun: int, model: Program, *, told: bool = False) -> None:
        """A dispatcher watches over a mission that does not end by itself."""
        record = self.bench.hangs()
        assert record is not None
        self.live = record["mission"], record["run"]
        self._came_to(begun, [model], [Answer(RUNNING)], released=False, told=told)
        self.worlds = [(world._replace(hold=9), known) for world, known in self.worlds]

    def _killed(self, ask: Ask, at: int, number: signal.Signals = signal.SIGKILL) -> None:
        """A signal ends a verb half-way; told by one that lets it say so, a dispatcher settles what it began."""
        self._note(f"{_SIGNALLED[number]} {ask.verb}", ask, at)
        begun, self.died = now_ms(), ask.dies
        words, model = ask.said(begun)
        released = self._released_for(ask)
        answer = self.bench.killed(words, at, number)
        if ask.verb == "drain" and self.live is None:
            until(lambda: not self.bench.keepers(), "the keeper leaves when all is recorded")
        told = ask.verb == "drain" and answer.code in TOLD
        killed = answer.code < 0 or (answer.code in TOLD and not told)
        self._came_to(begun, [model], [answer], released=released, killed=killed, told=told)

    def _full(self, ask: Ask, at: int) -> None:
        """A verb finds the disk full: it changes nothing, or does without what is not needed."""
        self._note(f"full disk {ask.verb}", ask, at)
        begun, self.died = now_ms(), False
        words, model = ask.said(begun)
        answer = self.bench.refused(words, at)
        self._came_to(begun, [model], [answer], released=True, refused=answer.code in _REFUSED)

    def _two(self, one: Ask, other: Ask, at: int) -> None:
        self._note(f"{'held' if at else 'both'} {one.verb} + {other.verb}", one, other, at)
        begun, self.died = now_ms(), one.dies or other.dies
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
        told: bool = False,
        refused: bool = False,
        backoff: int = QUICK_BACKOFF_MS,
    ) -> None:
        now = Now(begun, now_ms(), released=released, backoff=backoff, told=told)
        if self.live is not None and self._is_wished():
            answers = [*answers, self._join()]
            programs = [*programs, ()]
        said = [self._said(answer) for answer in answers]

        def followed(narrow: Narrow) -> list[tuple[World, Known]]:
            return [
                (end, known)
                for world, known in self.worlds
                for end, codes in self._ends(world, programs, now, narrow, killed=killed, refused=refused)
                if all(code is None or one.code in {*code, ANY} for code, one in zip(codes, answers, strict=False))
            ]

        self._compared(followed, " | ".join(said), killed=killed)

    def _compared(self, followed: Callable[[Narrow], list[tuple[World, Known]]], said: str, *, killed: bool) -> None:
        """Ways are cut short by what was seen; where none fits, all are told."""
        found = followed(narrowing(look(self.bench.kranz, WORDS, self.strangers)))
        tried = [world for world, _ in found or followed(lambda world: world)]
        self._check_worlds(found, tried, said, killed=killed)

    def _ends(
        self, world: World, programs: Sequence[Program], now: Now, narrow: Narrow, *, killed: bool, refused: bool
    ) -> Iterable[tuple[World, tuple[frozenset[int] | None, ...]]]:
        if programs[-1] == ():
            programs = [*programs[:-1], watching.ended_live(_run_of(world, self.over), by=self.by)]
        for end, codes in ends(world, programs, now, narrow=narrow, killed=killed, refused=refused):
            if killed and codes[0] is None:
                yield from ((left, codes) for left in _left_by_dead(end, world.alive))
            else:
                yield end, codes

    def _serve(self, *, hold: bool = False, at: int = 0) -> None:
        """A daemon serves until nothing is left to do, or (with `hold`) until a mission does not end by itself.

        Then it is stopped, or (with `at`) was told so at one of its changes: a mission that runs it lets end first.
        """
        self._note("daemon", f"hold {hold}", f"told at {at}")
        (self.bench.hold if hold else self.bench.release)()
        self.died, begun, told, model = False, now_ms(), at > 0, turns.drain(once=False)

        def over() -> bool:
            return self._has_come_to(Now(begun, now_ms(), released=not hold, told=told))

        answer = self.bench.dispatch(("daemon",), over, at)
        if answer is None and self.bench.hangs():
            self.by = "daemon"
            stopped = self.bench.run(("stop", "--no-wait"))
            self._goes_on(begun, model, told=told)
        else:
            stopped = self.bench.run(("stop",)) if answer is None else Answer(0)
            assert stopped.code == 0, stopped.err
            answer = answer or self.bench.workers[2].answer()
            assert answer.code in {0, -signal.SIGTERM}, answer.err
            killed = answer.code < 0
            shown = answer if killed else replace(answer, code=ANY)
            self._came_to(begun, [model], [shown], released=not hold, killed=killed, told=True)
            self.bench.hold()
        assert stopped.code == 0, stopped.err

    def _has_come_to(self, now: Now) -> bool:
        """Whether a daemon that waits for something to do leaves what lies there as it is."""
        busy, paused = (self.bench.queue / name for name in (".busy.json", ".paused"))
        if not self.bench.serves() or (busy.exists() and not paused.exists()):  # paused it leaves what a kill left
            return False
        try:
            seen = look(self.bench.kranz, WORDS, self.strangers)
        except FileNotFoundError:  # it is at work
            return False
        programs, narrow = [turns.drain(once=False)], narrowing(seen)
        return any(
            matched(end, seen, known)
            for world, known in self.worlds
            for end, _ in ends(world, programs, now, narrow=narrow)
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
        self._note(f"running, {how}", *self.live, self.by)
        self.died, begun, (mission, _), by = False, now_ms(), self.live, self.by
        over = functools.partial(watching.ended_live, by=by)
        match how:
            case "released":
                self.bench.release()
                self._over(begun, over, [self._join()])
            case "cancelled":
                answer = self.bench.run(("cancel", mission, "--wait"))
                self._over(begun, lambda run: (*withdrawing.wish(mission), *over(run)), [self._join()])
                assert answer.code == 0, answer.err
            case "keeper killed":
                os.kill(self._keeper(), signal.SIGKILL)
                self._over(begun, functools.partial(over, end=False), [self._join()])
            case "keeper told":
                os.kill(self._keeper(), signal.SIGTERM)
                self._over(begun, functools.partial(over, asked=True), [self._join()])
            case "dispatcher told twice":
                self._tell_twice()
                self._over(
                    begun,
                    functools.partial(over, asked=True, by="told" if by == "drain" else by),
                    [self._join()],
                )
            case _:
                os.kill(self.bench.workers[2].child(), signal.SIGKILL)
                assert self._join().code < 0
                self.bench.release()
                until(lambda: not self.bench.keepers(), "the keeper leaves when all is recorded")
                self._over(begun, watching.left_live, [Answer(-signal.SIGKILL)])
        self.bench.hold()

    def _tell_twice(self) -> None:
        """Stop it now: a daemon by the verb for it, what is none by two signals."""
        if self.by == "daemon":
            stopped = self.bench.run(("stop", "--now"))
            assert stopped.code == 0, stopped.err
            return
        for number in (signal.SIGTERM, signal.SIGINT):  # two of one kind may come together, and count as one
            os.kill(self.bench.workers[2].child(), number)

    def _over(self, begun: int, model: Callable[[Run], Program], answers: Sequence[Answer]) -> None:
        now, (live, self.live) = Now(begun, now_ms()), (self.live or self.over, None)

        def followed(narrow: Narrow) -> list[tuple[World, Known]]:
            return [
                (end, known)
                for world, known in self.worlds
                for end, codes in ends(world, [model(_run_of(world, live))], now, narrow=narrow)
                if codes[0] is None or answers[0].code in codes[0]
            ]

        self._compared(followed, self._said(answers[0]), killed=answers[0].code < 0)

    def _keeper(self) -> int:
        record = self.bench.hangs()
        assert record is not None
        pid: int = record["keeper"]["pid"]
        return pid


def _run_of(world: World, live: tuple[str, int]) -> Run:
    return next(run for run in world.runs if run[:2] == live)


def _left_by_dead(world: World, alive: frozenset[tuple[str, int]]) -> Iterable[World]:
    """What a killed dispatcher's keeper may have come to by itself: it had its order, or it had not."""
    left = world._replace(alive=alive)
    yield left
    for mission, number in world.alive - alive:
        run = next(one for one in world.runs if one[:2] == (mission, number))
        if run.state == "begun" and not run.end and word_of(run.job) != "killer":
            yield left.put_run(run._replace(end=True))
