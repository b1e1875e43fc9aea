"""What a trial of disk and kernel found, and which promise it bears on.

Source of the promises: docs/explanation/guarantees-and-assumptions.md.
"""

from __future__ import annotations

import enum
from collections.abc import Iterable, Sequence

from kranzq.model.frozen import frozen


class Verdict(enum.Enum):
    """From best to worst, as far as a person must act."""

    HOLDS = "holds"
    UNTRIED = "not tried"
    WEAKER = "weaker"
    BROKEN = "broken"


PROMISES = {
    1: "what was reported as enqueued is not lost",
    2: "never two missions at a time in one checkout",
    3: "a mission whose end was recorded is not run again",
    4: "an interrupted mission is run again, or parked",
    5: "a stale holder changes nothing",
    6: "nothing planted in the checkout is executed",
}
_ORDER = list(Verdict)


@frozen
class Trial:
    """One trial. `promises` may be empty: then it bears on comfort alone, such as how soon a change is seen."""

    name: str
    promises: tuple[int, ...]
    verdict: Verdict
    tried: int
    text: str
    advice: str = ""

    def to_json(self) -> dict[str, object]:
        """The trial with the documented keys."""
        return {
            "name": self.name,
            "promises": list(self.promises),
            "verdict": self.verdict.value,
            "tried": self.tried,
            "text": self.text,
            "advice": self.advice,
        }


@frozen
class Kept:
    """How far one promise holds here: the worst of the trials that bear on it."""

    number: int
    promise: str
    verdict: Verdict
    trials: tuple[str, ...]
    """The names of those that made it so; of all of them when it holds."""

    def to_json(self) -> dict[str, object]:
        """The verdict with the documented keys."""
        return {
            "promise": self.number,
            "text": self.promise,
            "verdict": self.verdict.value,
            "trials": list(self.trials),
        }


def kept(trials: Iterable[Trial]) -> Sequence[Kept]:
    """The verdict on each promise."""
    done = list(trials)
    found = []
    for number, promise in PROMISES.items():
        of_it = [one for one in done if number in one.promises]
        worst = max((one.verdict for one in of_it), key=_ORDER.index, default=Verdict.UNTRIED)
        names = tuple(one.name for one in of_it if one.verdict is worst)
        found.append(Kept(number, promise, worst, names))
    return found
