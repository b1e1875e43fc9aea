"""Who calls the tools, and what the tools work on.

It is opened when a tool needs it, so that a store that is away breaks one call and not the server.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any, Protocol

from kranzq.backend import Wanted
from kranzq.backend.presence import SharedStore
from kranzq.model.claim import Holder
from kranzq.model.frozen import frozen
from kranzq.model.presence import Whereabouts
from kranzq.model.work import ItemClaim
from kranzq.wiring import presence

Json = dict[str, object]


class Missions(Protocol):
    """The missions of one checkout, as JSON with the keys of the command line."""

    def listing(self) -> Json:
        """As `kranzq list`."""
        ...

    def status(self) -> Json:
        """As `kranzq status`."""
        ...

    def one(self, mission: str) -> Json:
        """Where one mission is, and its runs. Raises NoSuchMission."""
        ...

    def why(self, mission: str) -> Json:
        """As `kranzq why`. Raises NoSuchMission."""
        ...

    def enqueue(self, asked: Mapping[str, Any]) -> Json:
        """As `kranzq enqueue`; `asked` has the words of `approving.request_of`.

        Raises Conflict, UsageFault, Refused.
        """
        ...


class Caller(Protocol):
    """Who calls, and where. May be shared by threads."""

    @property
    def here(self) -> Here:
        """Where the agent works."""
        ...

    @property
    def missions(self) -> Missions:
        """The missions that it may see."""
        ...

    def store(self) -> SharedStore:
        """The work queue and presence. Raises StoreUnavailable."""
        ...

    def holder(self) -> Holder:
        """Who holds what is claimed, and who enqueues."""
        ...

    def groups(self, asked: Collection[str]) -> frozenset[str]:
        """The groups to claim for: those that are asked for, else all of the agent's. Raises Refused."""
        ...

    def claim(self, wanted: Wanted, lease_ms: int | None, request_id: str, wait_s: float) -> ItemClaim | None:
        """Claim, and where there is nothing wait so long for something, which may then be there to be claimed."""
        ...

    def uid_of(self, agent: str) -> str:
        """The uid to address an item with, where only a name was said; blank: the name alone. Raises Conflict."""
        ...

    def close(self) -> None:
        """Let go of connections."""
        ...


@frozen
class Here:
    """The directory in which the server was started: paths are relative to it, whichever store is asked."""

    directory: str
    environ: Mapping[str, str]

    def whereabouts(self) -> Whereabouts | None:
        """The checkout around it; None outside of any. Looked at each time: a branch may be another one by now."""
        return presence.whereabouts(self.directory, self.environ)

    def place(self, path: str, around: Whereabouts | None, repo: str | None) -> dict[str, Any]:
        """A path on this disk, without links, as words of `subject_of`. Raises UsageFault."""
        return presence.named_place(path, self.directory, around, repo, self.environ)
