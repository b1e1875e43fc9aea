"""An agent that works on this machine's own stores: the user's database, and the missions of a checkout.

A name is what was said or what the environment says; nobody proves it.
"""

from __future__ import annotations

import threading
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from kranzq.backend import Wanted
from kranzq.backend.presence import SharedStore
from kranzq.errors import Refused
from kranzq.mcp.caller import Here, Json, Missions
from kranzq.model.claim import Holder
from kranzq.model.frozen import frozen
from kranzq.model.work import ItemClaim, folded
from kranzq.wiring import working
from kranzq.wiring.approving import request_of
from kranzq.wiring.callers import GROUPS, caller, groups_of
from kranzq.wiring.missions import Missions as AtCheckout


@dataclass
class LocalCaller:
    """An agent on this machine, with its own database and checkout. `may_command`: missions may bring a command."""

    here: Here
    url: str | None = None
    agent: str | None = None
    own_groups: Sequence[str] = ()
    may_command: bool = False
    _opened: SharedStore | None = None
    _opening: threading.Lock = field(default_factory=threading.Lock)

    @property
    def missions(self) -> Missions:
        """Those of the checkout around the directory."""
        return LocalMissions(self.here, may_command=self.may_command)

    def store(self) -> SharedStore:
        """The user's own database, or the one that was named; opened once, tried again while it cannot be."""
        with self._opening:
            if self._opened is None:
                self._opened = working.open_work(self.url, self.here.environ, self.here.directory)
            return self._opened

    def holder(self) -> Holder:
        """As the command line has it."""
        return caller(self.here.environ, self.agent)

    def groups(self, asked: Collection[str]) -> frozenset[str]:
        """Whoever set the server up says the groups; where nobody did, the agent is believed as on the command line."""
        own = groups_of(self.here.environ, self.own_groups)
        known = {folded(name) for name in own}
        if own and (foreign := sorted(name for name in asked if folded(name) not in known)):
            raise Refused(
                f"You are in no group {foreign[0][:100]!r}; yours are: {', '.join(sorted(own))}.",
                f"Leave groups out to claim for all of yours. More are given by ${GROUPS} where this server is set up.",
            )
        return frozenset(asked) or own

    def claim(self, wanted: Wanted, lease_ms: int | None, request_id: str, wait_s: float) -> ItemClaim | None:
        """Claim; else wait for a hint of the store."""
        store = self.store()
        found = store.claim(self.holder(), wanted, lease_ms=lease_ms, request_id=request_id)
        if found is None and wait_s > 0:
            store.wait_for_work(wait_s)
        return found

    def uid_of(self, agent: str) -> str:
        """None: most agents of one's own database have no uid, and an item for a uid would never reach them."""
        del agent
        return ""

    def close(self) -> None:
        """Close the database if it was opened."""
        with self._opening:
            if self._opened is not None:
                self._opened.close()
                self._opened = None


@frozen
class LocalMissions:
    """The missions of the checkout around a directory, through the same calls as the verbs."""

    here: Here
    may_command: bool = False

    def listing(self) -> Json:
        """What waits, in order."""
        return self._there().listing().to_json()

    def status(self) -> Json:
        """What runs, and what needs a person."""
        return self._there().status().to_json()

    def one(self, mission: str) -> Json:
        """One mission."""
        return self._there().one(mission).to_json()

    def why(self, mission: str) -> Json:
        """Why it does not run."""
        return self._there().why(mission).to_json()

    def enqueue(self, asked: Mapping[str, Any]) -> Json:
        """Approve it, in the name of the user who runs this server.

        An agent may be kept in a box that this server stands outside of; so commands are taken only where allowed.
        """
        if asked.get("command") and not self.may_command:
            raise Refused(
                "A mission of an agent runs the configured command; it may not bring one of its own here.",
                "Leave command out, and put what is to be done into prompt. "
                "A person may allow commands by starting the server with: kranzq mcp --allow-commands",
            )
        return self._there().enqueue(request_of(**asked)).to_json()

    def _there(self) -> AtCheckout:
        return AtCheckout.at(self.here.directory, self.here.environ)
