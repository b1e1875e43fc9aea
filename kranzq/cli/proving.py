"""`check --prove`: the trials as they end, then a verdict on each promise."""

from __future__ import annotations

import contextlib
import signal
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from kranzq.cli.say import clean, say, say_styled, shade
from kranzq.wiring import proving

if TYPE_CHECKING:
    from kranzq.model.checkout import Checkout
    from kranzq.model.trial import Kept, Trial

_COLOURS = {"holds": "green", "not tried": "yellow", "weaker": "yellow", "broken": "red"}
_WIDTH = 9
_ENDING = (signal.SIGTERM, signal.SIGHUP)


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
    with _clearing_up(), contextlib.closing(proving.trials(checkout, seconds)) as trials:
        for trial in trials:
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


@contextlib.contextmanager
def _clearing_up() -> Iterator[None]:
    """TERM and HUP end the trials as Ctrl-C does, so that their folder and processes do not stay behind."""

    def leave(number: int, _frame: object) -> None:
        raise SystemExit(128 + number)

    before = {one: signal.getsignal(one) for one in _ENDING}
    ours = [one for one, handler in before.items() if handler is signal.SIG_DFL]  # what is ignored stays so: nohup
    for one in ours:
        signal.signal(one, leave)
    try:
        yield
    finally:
        for one in ours:
            signal.signal(one, signal.SIG_DFL)


def _tell(verdict: str, text: str, advice: str) -> None:
    say_styled(f"{shade(verdict.ljust(_WIDTH), fg=_COLOURS[verdict])} {clean(text)}")
    if advice:
        say(f"{' ' * (_WIDTH + 3)}{advice}")
