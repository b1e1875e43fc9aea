"""The contract of what makes a mission's command: a turn asks it, a keeper starts the answer."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from kranzq.model.checkout import Checkout
from kranzq.model.entry import Entry
from kranzq.model.frozen import frozen
from kranzq.model.outcome import Ending


@frozen
class Prepared:
    """Everything a keeper needs to start a mission: an absolute executable, its arguments, environment, directory."""

    executable: str
    argv: tuple[str, ...]
    env: Mapping[str, str]
    cwd: str


class Runner(Protocol):
    """Says whether an entry has something to run, and prepares it."""

    def can_run(self, entry: Entry) -> bool:
        """Whether there is a command at all: the entry's own or a configured one."""
        ...

    def prepare(self, checkout: Checkout, entry: Entry, marks: Mapping[str, str]) -> Prepared | Ending:
        """What to start, or why it cannot be started."""
        ...
