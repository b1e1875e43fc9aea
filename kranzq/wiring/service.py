"""The daemon of a checkout as a service: which manager there is, and what it is asked."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Mapping, Sequence

from kranzq.errors import KranzqError
from kranzq.model.checkout import Checkout
from kranzq.service import installed
from kranzq.service.facts import name_of
from kranzq.service.installed import Installed
from kranzq.service.manager import Manager, State, ask
from kranzq.service.systemd import unit_of

__all__ = ["Installed", "Service", "State", "carry_out", "unit_that_keeps"]


class Service:
    """The service of one checkout, with the manager of this machine. Nothing is written before it is asked for."""

    def __init__(self, checkout: Checkout, environ: Mapping[str, str]) -> None:
        from kranzq.service import shell

        self.manager = _manager(checkout, environ)
        self.left_out: Sequence[str] = shell.left_out(environ)

    def look(self) -> Installed:
        """What lies where its file belongs."""
        return installed.look(self.manager)

    def state(self) -> State | None:
        """What the manager says of it; None where it does not run."""
        return self.manager.state()

    def write(self, text: str) -> None:
        """Write its file."""
        installed.write(self.manager, text)

    def start(self, *, active: bool) -> None:
        """Let its manager start it now and from now on."""
        carry_out(self.manager.to_start(active=active))

    def remove(self, state: State | None) -> Sequence[str]:
        """Let its daemon leave, and take away what was written; the paths that are gone."""
        if state is not None:
            carry_out(self.manager.to_stop())
        gone = installed.take_away(self.manager)
        if state is not None:
            carry_out(self.manager.to_forget())
        return gone


def carry_out(commands: Sequence[Sequence[str]]) -> None:
    """Run commands of the manager's, one after the other. Raises KranzqError for the first that fails."""
    for words in commands:
        answer = ask(words)
        if not answer.ended_well:
            raise KranzqError(f"'{shlex.join(words)}' failed: {answer.told.rstrip('.')}.", "See: kranzq service status")


def unit_that_keeps(checkout: Checkout, pid: int) -> str | None:
    """The unit that starts this daemon again when it leaves; None when it is not one of ours."""
    unit = unit_of(pid)
    return unit if unit == f"{name_of(checkout.root)}.service" else None


def _manager(checkout: Checkout, environ: Mapping[str, str]) -> Manager:
    from kranzq.service.shell import facts_here

    facts = facts_here(checkout.root, environ)
    if sys.platform == "darwin":
        from kranzq.service.launchd import Launchd

        return Launchd(facts, environ)
    from kranzq.service.systemd import Systemd

    return Systemd(facts, environ)
