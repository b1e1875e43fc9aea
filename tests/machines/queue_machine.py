"""A Hypothesis state machine that walks commands, pairs of them, kills and full disks against the model and the page.

After every step all files are explained by `docs/reference/states.md` and compared with every world that the model
holds possible; those that fit are held from then on.
"""

from __future__ import annotations

import sys
import traceback
from signal import SIGINT, SIGKILL, SIGTERM, Signals

from hypothesis import assume
from hypothesis import strategies as st
from hypothesis.errors import UnsatisfiedAssumption
from hypothesis.stateful import initialize, rule

from tests.machines.asks import MISSIONS, Ask, changes, dispatching, enqueues, others
from tests.machines.bench import now_ms, until
from tests.machines.steps import Stepped
from tests.machines.world import Job

_DROPS = ("name", "name", "command", "again", "later", "after", "array", "half")
_PUTS = ("kranz", "kranz", "name", "waiting", "parked", "array", "half", "other", "folder", "link")
_STRANGE = ("note.txt", ".note", "waiting/note.txt", "parked/note.txt", "inbox/x.tmp", "inbox/.x")
_acts = st.one_of(
    *(st.sampled_from([(what, kind) for kind in kinds]) for what, kinds in (("drop", _DROPS), ("put", _PUTS))),
    st.sampled_from(
        [("leave", path) for path in _STRANGE]
        + [("hint", how) for how in ("lost", "lost", "text", "folder", "too large")]
    ),
)


_seldom = st.sampled_from((False, False, False, False, False, False, False, True))
_endings = st.sampled_from(
    ("released", "cancelled", "keeper killed", "keeper told", "dispatcher killed", "dispatcher told twice")
)
_at = st.integers(1, 90)


class Walk(Stepped):
    """One checkout's queue, and the steps that all machines walk."""

    def teardown(self) -> None:
        """End what is under way, and clear the checkout away. A fault is kept: walked again, it may hide."""
        fault = sys.exc_info()[1]
        if isinstance(fault, Exception) and not isinstance(fault, UnsatisfiedAssumption):
            type(self).faults.append("".join(traceback.format_exception(fault)) + self._story())
        if self.live is not None:
            self.bench.release()
            self.bench.workers[2].answer()
        self.bench.end()

    @initialize(number=st.integers(0, 2**64), asks=st.lists(enqueues(), min_size=1, max_size=4))
    def approvals(self, number: int, asks: list[Ask]) -> None:
        """What a walk begins with. The first that Hypothesis draws has the simplest of all steps again and again."""
        assume(number)
        for ask in asks:
            self._one(ask)

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
        elif what == "hint":
            self._lose_hint(kind)
        else:
            self._leave(kind)

    @rule(ask=dispatching)
    def a_turn(self, ask: Ask) -> None:
        """A turn, or a recovery."""
        self._one(ask)

    @rule(how=_endings)
    def time_passes(self, how: str) -> None:
        """What does not end by itself is let end, in one way or another; what is due soon is due."""
        if self.live is not None:
            self._let_end(how)
        elif (due := self._next_due()) is not None:
            self._note("time passes", due)
            until(lambda: now_ms() > due, "its time has come")


class Names(Walk):
    """Above all the verbs that change names: alone, killed, two at once."""

    @rule(ask=changes)
    def one_more_verb(self, ask: Ask) -> None:
        """One command."""
        self._one(ask)

    @rule(ask=changes, at=st.integers(1, 30), number=st.sampled_from((SIGKILL, SIGKILL, SIGINT)))
    def a_killed_verb(self, ask: Ask, at: int, number: Signals) -> None:
        """A command that is killed, or interrupted at the keyboard, before one of its changes of the disk."""
        self._killed(ask, at, number)

    @rule(ask=changes, at=st.integers(1, 25))
    def a_full_disk(self, ask: Ask, at: int) -> None:
        """A command for which the disk is full from one of its changes on; what was dropped stays where it is then."""
        if not any(cell.state in {"inbox", "admitting"} for cell, _ in self.seen.cells):
            self._full(ask, at)

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

    @rule(ask=dispatching, at=_at, after=dispatching)
    def a_killed_turn(self, ask: Ask, at: int, after: Ask) -> None:
        """A dispatcher is killed before one of its changes of the disk, and another one comes."""
        self._killed(ask, at)
        self._one(after)

    @rule(mission=st.sampled_from(MISSIONS), asks=st.lists(changes, max_size=2), how=_endings, daemon=st.booleans())
    def a_long_mission(self, mission: str, asks: list[Ask], how: str, *, daemon: bool) -> None:
        """Commands beside a mission that does not end by itself, which then is let end."""
        self._one(Ask("enqueue", (), mission, Job("hang"), 0))
        if self.live is None and daemon:
            self._serve(hold=True)
        elif self.live is None:
            self._one(Ask("drain"))
        for ask in asks:
            self._one(ask)
        if self.live is not None:
            self._let_end(how)

    @rule(ask=dispatching, at=_at, number=st.sampled_from((SIGTERM, SIGINT)))
    def a_turn_that_is_told_to_stop(self, ask: Ask, at: int, number: Signals) -> None:
        """A dispatcher is told to stop, once, before one of its changes of the disk."""
        self._killed(ask, at, number)

    @rule(one=dispatching, other=st.one_of(changes, dispatching), at=st.sampled_from((0, *range(1, 90))))
    def a_turn_and_a_verb(self, one: Ask, other: Ask, at: int) -> None:
        """A dispatcher and somebody else at once; with `at` the dispatcher is held half-way while the other runs."""
        self._two(one, other, at)

    @rule(ask=st.one_of(changes, dispatching), seldom=_seldom)
    def a_program(self, ask: Ask, *, seldom: bool) -> None:
        """The real program; it takes its time."""
        self._one(ask, program=seldom and ask.verb != "library")

    @rule(seldom=_seldom, hold=st.booleans(), at=st.one_of(st.just(0), _at))
    def a_daemon(self, *, seldom: bool, hold: bool, at: int) -> None:
        """A daemon serves until nothing is left to do, and is stopped; or is told to stop half-way."""
        if seldom and self.live is None:
            self._serve(hold=hold, at=at)
