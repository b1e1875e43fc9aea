"""Agents with tokens as surfaces see them, whichever store keeps them.

A store keeps hashes only: whoever reads the database finds no token in it. A token that is rotated out or revoked opens
nothing from the moment the call returns, in every process that asks the store.

Errors: UsageFault for what is wrong with the call, NoSuchAgent, Conflict for a name that another agent has, TryLater
and StoreUnavailable as of the store. None of them holds a token.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Protocol

from kranzq.model.agents import Agent, Issued, Scope


class Agents(Protocol):
    """Who may call, and with what. May be shared by threads. Names are compared without ASCII case, uids exactly."""

    def add(
        self,
        name: str,
        *,
        groups: Collection[str] = (),
        scopes: Collection[Scope] = (Scope.WORK,),
        expires_ms: int | None = None,
        uid: str = "",
        another: bool = False,
        token: str = "",
    ) -> Issued:
        """Add an agent; its token is in the answer and nowhere else. Unpacks as `agent, token`.

        `expires_ms` is how long the token opens from now on, in milliseconds; None or 0 for ever. Raises Conflict when
        an agent has that name, expired or not, unless `another` is meant; and for a uid that is there, or that is
        another one's name. `token` is one that the caller made (`new_token`) and has put somewhere already.
        """
        ...

    def all(self) -> list[Agent]:
        """Every agent, also those whose token has expired, by name, then by when they came."""
        ...

    def rotate(self, name_or_uid: str, /, *, expires_ms: int | None = None, token: str = "") -> Issued:
        """Give it a new token in the place of its old one, which opens nothing from now on.

        With `expires_ms` it opens for so long from now on, with 0 for ever; None keeps the old end. `token` is as in
        `add`. Raises NoSuchAgent; Conflict when several agents have the name, or when the old end is over and no new
        one is said.
        """
        ...

    def revoke(self, name_or_uid: str, /) -> Agent:
        """Remove it and its token. What it holds stays its own until the lease is over. Raises as `rotate`."""
        ...

    def by_token(self, token: str, /) -> Agent | None:
        """Whose token that is; None for one that is unknown, odd, or has expired."""
        ...

    def by_tokens(self, tokens: Sequence[str], /) -> list[Agent | None]:
        """As `by_token` for each, in their order, at one moment."""
        ...

    def named(self, name: str, /) -> list[Agent]:
        """Every agent of that name, also those whose token has expired, by when they came."""
        ...

    def is_seen(self, name: str, /) -> bool:
        """Whether somebody of that name has ever asked for an item."""
        ...
