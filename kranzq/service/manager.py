"""What a service manager can do for a checkout: the contract that `systemd` and `launchd` fulfil."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from typing import Protocol

from kranzq.model.frozen import frozen

_PATIENCE_S = 60.0
_NO_COMPLAINT = ("Created symlink", "Removed ")


@frozen
class State:
    """What the manager says of a service, in its own words.

    `active`: a daemon of it runs, or will be started again; `stale`: with what the file was before.
    """

    active: bool
    text: str
    advice: str = ""
    stale: bool = False


@frozen
class Answer:
    """How a command of the manager's ended. `said` is what it printed; `told` the first thing that it complained of."""

    ended_well: bool
    said: str
    told: str = ""


class Manager(Protocol):
    """One service of one manager."""

    @property
    def kind(self) -> str:
        """The manager's name."""
        ...

    @property
    def unit(self) -> str:
        """The name by which the manager knows the service."""
        ...

    @property
    def path(self) -> str:
        """Where the manager looks for its file."""
        ...

    def text(self) -> str:
        """The file, as it would be installed now. Raises UsageFault for what the manager cannot be told."""
        ...

    def is_same(self, installed: str, wanted: str) -> bool:
        """Whether two files differ in nothing but what the shell at hand decides: search path and umask."""
        ...

    def state(self) -> State | None:
        """What the manager says; None where it does not run."""
        ...

    def to_start(self, *, active: bool) -> Sequence[Sequence[str]]:
        """What is to be typed once the file is written, so that a daemon of this text runs; `active`: one does."""
        ...

    def to_stop(self) -> Sequence[Sequence[str]]:
        """What is to be typed before the file goes, so that the daemon leaves and is not started again."""
        ...

    def to_forget(self) -> Sequence[Sequence[str]]:
        """What is to be typed after the file has gone."""
        ...

    def to_know(self) -> Sequence[tuple[str, Sequence[str]]]:
        """What a person may want next, each with what it is for."""
        ...

    def links(self) -> Sequence[str]:
        """Links to the file that the manager made beside it, and that must not be left without it."""
        ...

    def kept(self) -> str | None:
        """Where changes of the user's lie that are not in the file; None where there are none."""
        ...


def ask(words: Sequence[str]) -> Answer:
    """Run a command of the manager's; one that is not there, or hangs, has ended badly."""
    try:
        done = subprocess.run(
            words,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=_PATIENCE_S,
            check=False,
        )
    except FileNotFoundError:
        return Answer(ended_well=False, said="", told=f"{words[0]} is not there")
    except (OSError, subprocess.TimeoutExpired) as fault:
        return Answer(ended_well=False, said="", told=str(fault))
    told = [line.strip() for line in done.stderr.splitlines() if line.strip() and not line.startswith(_NO_COMPLAINT)]
    return Answer(done.returncode == 0, done.stdout, told[0] if told else f"{words[0]} ended with {done.returncode}")
