"""Presence as surfaces see it, whichever store keeps it: who says that they work on what. It blocks nobody.

One rule of expiry for every verb: a claim is there while its `expires_at` is greater than the store's clock. Errors:
UsageFault for what is wrong with the call, PresenceFull for a holder that has too many claims, TryLater and
StoreUnavailable as of the store.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from kranzq.backend.agents import Agents
from kranzq.backend.items import WorkStore
from kranzq.model.claim import Holder
from kranzq.model.frozen import frozen
from kranzq.model.presence import NewPresence, PresenceClaim
from kranzq.model.who import Facts, Question, Working


@frozen
class Put:
    """The answer to a put: the claim as it is now, and whether it was there before."""

    claim: PresenceClaim
    renewed: bool


class Presence(Protocol):
    """Advisory claims. May be shared by threads."""

    def put(self, new: NewPresence, /) -> Put:
        """Claim, or renew: the holder's live claim on the same subject keeps its id and `created_at`.

        Two that renew at once make one claim. Expired claims of anybody are removed on the way, a hundred at a time.
        Raises PresenceFull.
        """
        ...

    def live(self) -> list[PresenceClaim]:
        """Every claim that has not expired, by `created_at`, then id."""
        ...

    def release(self, holder: Holder, claim: str | None = None) -> list[PresenceClaim]:
        """End the holder's claim of that id, or all that it has; those that had not expired. Another's stays."""
        ...

    def about(self, question: Question) -> list[PresenceClaim]:
        """Live claims that may answer a question: every one that does, and perhaps some that do not."""
        ...

    def who(
        self, question: Question, *, caller: Holder | None = None, facts: Sequence[Facts] = ()
    ) -> tuple[Working, ...]:
        """Everybody but the caller who works on it."""
        ...


class SharedStore(WorkStore, Protocol):
    """What a database keeps: the work queue, and beside it presence and the agents that have tokens."""

    @property
    def presence(self) -> Presence:
        """Who says that they work on what; closed with the store."""
        ...

    @property
    def agents(self) -> Agents:
        """Who may call a server, and with which token; closed with the store."""
        ...
