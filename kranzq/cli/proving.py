"""`check --prove`: the trials as they end, then a verdict on each promise."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from kranzq.cli.say import clean, say, say_styled, shade
from kranzq.wiring import proving

if TYPE_CHECKING:
    from kranzq.model.checkout import Checkout
    from kranzq.model.trial import Kept, Trial

_COLOURS = {"holds": "green", "not tried": "yellow", "weaker": "yellow", "broken": "red"}
_WIDTH = 9


@dataclass(frozen=True)
class Proved:
    """What was tried, and what it says of the promises."""

    trials: list[Trial]
    promises: list[Kept]

    @property
    def sound(self) -> bool:
        """Whether no promise is broken here; one that is weaker is told and no fault."""
        return all(one.verdict.value != "broken" for one in self.promises)

    def to_json(self) -> dict[str, object]:
        """The two lists with the documented keys."""
        return {
            "trials": [one.to_json() for one in self.trials],
            "promises": [one.to_json() for one in self.promises],
        }


def prove(checkout: Checkout, seconds: int, *, quiet: bool) -> Proved:
    """Try everything for about so long, and tell of each trial as it ends. Raises StoreUnavailable."""
    done = []
    if not quiet:
        say("", f"Trials on the disk of {checkout.root}, for about {seconds} s; nothing of yours is touched:")
    for trial in proving.trials(checkout, seconds):
        done.append(trial)
        if not quiet:
            _tell(trial.verdict.value, f"{trial.name}: {trial.text}", trial.advice)
    found = Proved(done, proving.kept(done))
    if not quiet:
        say("", "So, of what is promised, here:")
        for one in found.promises:
            why = "" if one.verdict.value == "holds" else f" (see: {', '.join(one.trials)})"
            _tell(one.verdict.value, f"{one.number}. {one.promise}{why}", "")
    return found


def _tell(verdict: str, text: str, advice: str) -> None:
    say_styled(f"{shade(verdict.ljust(_WIDTH), fg=_COLOURS[verdict])} {clean(text)}")
    if advice:
        say(f"{' ' * (_WIDTH + 3)}{advice}")
