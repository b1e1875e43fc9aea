"""What a question is asked, and what it answers: tables of subjects beside their floor, and targets."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

Kind = Literal["ours", "floor", "peer", "absent"]
Verdict = Literal["met", "acceptable", "missed", "not measured"]


@dataclass(frozen=True)
class Asked:
    """How much is to be measured."""

    folder: Path
    """Where a question may leave files: checkouts, databases. It is there, and the question's own."""
    quick: bool = False
    """A look in a minute for all questions: it shows that everything works, its figures are worth little."""
    rounds: int | None = None
    """How often every subject has its turn; None: as many as the question needs."""

    def so_many(self, quick: int, whole: int) -> int:
        """A number of samples or seconds, by whether it is a quick look."""
        return quick if self.quick else whole

    def so_many_rounds(self, whole: int) -> int:
        """How many rounds: as asked for, else one for a quick look, else what the question needs."""
        return self.rounds or (1 if self.quick else whole)


@dataclass(frozen=True)
class Row:
    """One subject of a table. Without a median it was not measured, and `note` says why."""

    subject: str
    kind: Kind
    median: float | None = None
    p99: float | None = None
    spread: float | None = None
    """Half of the rounds' medians lie so far apart, as a part of their median."""
    ratio: float | None = None
    """The median of each round's ratio to the base of the table in that round."""
    ratio_low: float | None = None
    ratio_high: float | None = None
    samples: int = 0
    note: str = ""
    more: Mapping[str, float | str] = field(default_factory=dict)
    """Further columns: longest wait, share of the processor, and what else the question looks at."""


@dataclass(frozen=True)
class Table:
    """Subjects that were measured in turn, in the same rounds."""

    title: str
    unit: str
    how: str
    """What was measured from where to where, in a sentence."""
    rows: Sequence[Row]
    base: str = ""
    """The subject that the ratios are to; empty: no ratios."""
    better: Literal["lower", "higher"] = "lower"

    def row(self, subject: str) -> Row:
        """The row of a subject; raises KeyError."""
        for one in self.rows:
            if one.subject == subject:
                return one
        raise KeyError(subject)


@dataclass(frozen=True)
class Target:
    """A figure that was promised, what came of it, and the verdict."""

    what: str
    measured: float | None
    target: float
    acceptable: float
    verdict: Verdict
    unit: str = "x"
    at_most: bool = True
    against: str = ""
    low: float | None = None
    high: float | None = None


@dataclass(frozen=True)
class Result:
    """What a question found."""

    tables: Sequence[Table]
    targets: Sequence[Target] = ()
    remarks: Sequence[str] = ()
    """A sentence each: what could not be measured here, and why."""
    canary: Sequence[tuple[float, float]] = ()
    """Of each round: milliseconds of the fixed piece of work, and of one synced write."""
