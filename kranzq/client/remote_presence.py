"""Presence of a server, as its contract. Who works on what is found out here, from the live claims: a pure function."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from kranzq.backend.presence import Put
from kranzq.client import presence_asks
from kranzq.client.sending import Client
from kranzq.model.claim import Holder
from kranzq.model.presence import NewPresence, PresenceClaim
from kranzq.model.who import Facts, Question, Working, meets
from kranzq.model.who import who as who_of


class RemotePresence:
    """A server's `Presence`. `known` refuses a holder whom the token does not speak for."""

    def __init__(self, client: Client, known: Callable[[Holder], None]) -> None:
        self._client, self._known = client, known

    def put(self, new: NewPresence, /) -> Put:
        """As of the contract; the holder is the token's."""
        self._known(new.holder)
        return self._client.send(presence_asks.put(new))

    def live(self) -> list[PresenceClaim]:
        """As of the contract."""
        return self._client.send(presence_asks.live())

    def release(self, holder: Holder, claim: str | None = None) -> list[PresenceClaim]:
        """As of the contract."""
        self._known(holder)
        return self._client.send(presence_asks.release(claim))

    def about(self, question: Question) -> list[PresenceClaim]:
        """As of the contract."""
        return [one for one in self.live() if meets(question, one)]

    def who(
        self, question: Question, *, caller: Holder | None = None, facts: Sequence[Facts] = ()
    ) -> tuple[Working, ...]:
        """As of the contract."""
        return who_of(question, self.live(), caller=caller, facts=facts)
