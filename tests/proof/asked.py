"""What a part of the laboratory is asked, and what it answers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path


@dataclass(frozen=True)
class Asked:
    """How much is to be tried. The same seed tries the same, as far as the machine's own timing allows."""

    folder: Path
    """Where a part may leave files: checkouts, recordings, databases. It is there, and the part's own."""
    seed: int = 1
    jobs: int = 2
    """How many trials may run at the same time."""
    seconds: float | None = None
    """About so long, with a choice of trials that the seed makes; None: everything."""
    only: tuple[str, ...] = ()
    """Only trials whose names contain one of these; empty: all."""

    def wants(self, name: str) -> bool:
        """Whether a trial of that name is among those that are wanted."""
        return not self.only or any(part in name for part in self.only)


@dataclass(frozen=True)
class Result:
    """What a part found. It is good when there are no faults."""

    counts: Mapping[str, float | str]
    """What was tried and seen, in the words and the order of the page: points, states, kills, lost, doubled."""
    faults: Sequence[str] = ()
    """A sentence each: what was lost, doubled, stuck or said wrongly, and how to see it again."""
    tables: Mapping[str, Sequence[Mapping[str, float | str]]] = field(default_factory=dict)
    """Rows of numbers by title, for the page."""
