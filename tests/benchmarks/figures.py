"""The arithmetic of the benchmarks: medians, spreads, ratios round by round, verdicts."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence

from tests.benchmarks.asked import Kind, Row, Target, Verdict

Rounds = Sequence[Sequence[float]]
"""The samples of a subject, round by round."""
DISTURBED = 1.5
"""So much longer than in the best round takes the canary where something else was at work."""


def quantile(values: Sequence[float], part: float) -> float:
    """The value that this part of the values does not exceed; of few values the largest."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(len(ordered) * part))]


def spread(values: Sequence[float]) -> float:
    """Half of the values lie within so much, as a part of their median; 0 for fewer than two."""
    middle = statistics.median(values)
    if len(values) < 2 or middle == 0:
        return 0.0
    low, _, high = statistics.quantiles(values, n=4, method="inclusive")
    return abs((high - low) / middle)


def ratios(rounds: Rounds, base: Rounds) -> list[float]:
    """Each round's median as a multiple of the base's in the same round; what disturbed both cancels out."""
    pairs = [(statistics.median(own), statistics.median(its)) for own, its in zip(rounds, base, strict=False)]
    return [own / its for own, its in pairs if its > 0]


def row_of(
    subject: str,
    kind: Kind,
    rounds: Rounds,
    base: Rounds | None = None,
    *,
    note: str = "",
    more: Mapping[str, float | str] | None = None,
) -> Row:
    """A row of a table from the samples; rounds without one are left out of the medians."""
    every = [value for one in rounds for value in one]
    medians = [statistics.median(one) for one in rounds if one]
    if not every:
        return Row(subject, "absent", note=note or "gave no figure")
    to_base = ratios([one for one in rounds if one], [one for one in base if one]) if base else []
    return Row(
        subject,
        kind,
        statistics.median(every),
        quantile(every, 0.99),
        spread(medians),
        statistics.median(to_base) if to_base else None,
        min(to_base) if to_base else None,
        max(to_base) if to_base else None,
        len(every),
        note,
        dict(more or {}),
    )


def judged(measured: float | None, target: float, acceptable: float, *, at_most: bool = True) -> Verdict:
    """Whether a figure is within its target, within what is acceptable, or neither."""
    if measured is None:
        return "not measured"
    for limit, verdict in ((target, "met"), (acceptable, "acceptable")):
        if measured <= limit if at_most else measured >= limit:
            return "met" if verdict == "met" else "acceptable"
    return "missed"


def rounds_target(
    what: str, found: Sequence[float], target: float, acceptable: float, against: str, *, at_most: bool = True
) -> Target:
    """A target for the ratios of all rounds: their median counts, the lowest and the highest are told."""
    measured = statistics.median(found) if found else None
    verdict = judged(measured, target, acceptable, at_most=at_most)
    low, high = (min(found), max(found)) if found else (None, None)
    return Target(what, measured, target, acceptable, verdict, at_most=at_most, against=against, low=low, high=high)


def target(
    what: str,
    measured: float | None,
    wanted: float,
    acceptable: float,
    *,
    unit: str = "x",
    at_most: bool = True,
    against: str = "",
) -> Target:
    """A target for any other figure."""
    verdict = judged(measured, wanted, acceptable, at_most=at_most)
    return Target(what, measured, wanted, acceptable, verdict, unit, at_most, against)


def disturbed(canary: Sequence[tuple[float, float]]) -> int:
    """In how many rounds the machine had something else to do."""
    if not canary:
        return 0
    best = tuple(min(one[place] for one in canary) for place in (0, 1))
    return sum(any(one[place] > DISTURBED * best[place] for place in (0, 1)) for one in canary)
