"""Who may: which hosts and origins are ours, which credential opens what, and who is known by a token.

A web page may send requests to a port of this machine, but it cannot lie about the `Host` or `Origin` of its own site,
and it has no token. So on TCP both are looked at before anything else, and then everything but health needs a
credential. The Unix socket lies in a directory of the user's alone: there the operator needs none, and a wrong one is
still refused.
"""

from __future__ import annotations

import hmac
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from kranzq.backend.agents import Agents
from kranzq.errors import UsageFault
from kranzq.model.agents import Agent, Scope
from kranzq.model.claim import Holder
from kranzq.model.frozen import frozen
from kranzq.model.tokens import has_token
from kranzq.server.errors import HttpFault
from kranzq.server.routing import Sent

TOKEN_UNKNOWN = "m4.token_unknown"  # noqa: S105 - the name of a counter
"""Counted when an `X-Agent-Token` is nobody's (seed g.4)."""
TOKEN_INDEX_AWAY = "m4.token_index_unavailable"  # noqa: S105 - the same
"""Counted when the store could not be asked whose it is."""
IN_QUERY = frozenset({"authkey", "token", "access_token", "key", "api_key"})
"""Where a token is never taken from: queries end up in logs, histories and bug reports."""
_BEARER = "Bearer "
FRESH_S = 0.25
"""A credential that was looked at longer ago is looked at once more, in the thread for which the request waited."""


@frozen
class Caller:
    """Who calls. `is_operator`: the key or the socket opened the door, and `agent` is only whom the call is for."""

    is_operator: bool
    agent: Agent | None = None
    prove: Callable[[], None] | None = field(default=None, repr=False, compare=False)
    """Ask, in a thread, whether the credential still opens. Raises HttpFault (401). None: the socket is enough."""
    proven_at: float = field(default_factory=time.monotonic, repr=False, compare=False)
    """When that was asked for this request."""

    def check(self) -> None:
        """To be called in a thread before anything is done for the request. Raises HttpFault (401)."""
        if time.monotonic() - self.proven_at > FRESH_S:
            self.check_again()

    def check_again(self) -> None:
        """As `check`, before anything is done later: who waits or listens may have lost the credential meanwhile."""
        if self.prove is not None:
            self.prove()

    def may(self, scope: Scope) -> bool:
        """Whether the credential opens what needs that scope."""
        return self.is_operator or (self.agent is not None and self.agent.may(scope))

    @property
    def uid(self) -> str:
        """The uid by token; blank when no token told who calls."""
        return self.agent.uid if self.agent is not None else ""

    @property
    def name(self) -> str:
        """The name that goes with it."""
        return self.agent.name if self.agent is not None else ""

    @property
    def holder(self) -> Holder:
        """Who holds what this caller claims. Raises HttpFault when no token told who it is."""
        if self.agent is None:
            raise HttpFault(
                401,
                "agent",
                "Only an agent may do this, and no token told which one calls.",
                "Send the agent's token as Authorization: Bearer TOKEN, or beside the key as X-Agent-Token. "
                "Make one with: kranzq agent add NAME",
                {"www-authenticate": "Bearer"},
            )
        return self.agent.holder


@dataclass(slots=True)
class Door:
    """The rules of one server. `operator_key` gives the key as it is now; None: none is taken."""

    agents: Agents
    operator_key: Callable[[], str | None] = field(repr=False)
    hosts: frozenset[str] = frozenset()
    """What `Host` may say, with the port where there is one, in small letters."""
    origins: frozenset[str] = frozenset()
    """Origins of web pages that may call, beside the server's own."""

    def check_host(self, sent: Sent, local: tuple[str, int | None] | None = None) -> None:
        """Refuse what was sent to another name, or by another site's page. Raises HttpFault.

        `local` is the address at which the connection arrived: as a number it is ours, for no name leads astray to it.
        """
        said = sent.get("host", ())
        if len(said) != 1 or (said[0].lower() not in self.hosts and said[0] != _text(local)):
            raise HttpFault(
                403,
                "host",
                "This server does not go by that name.",
                "Use its address as it is printed at its start, or start it with --host-name NAME.",
            )
        origins = sent.get("origin", ())
        if origins and not self.is_allowed(origins) and list(origins) != [f"http://{_text(local)}"]:
            raise HttpFault(
                403, "origin", "Pages of that origin may not call this server.", "Allow it with: --allow-origin ORIGIN"
            )

    def is_allowed(self, origins: Sequence[str]) -> bool:
        """Whether a page of that origin may call."""
        return len(origins) == 1 and (
            origins[0] in self.origins
            or (origins[0].startswith("http://") and origins[0].removeprefix("http://") in self.hosts)
        )

    def credential(self, sent: Sent) -> str | None:
        """The one credential of a request; None when there is none. Raises HttpFault (401) for anything odd."""
        bearers, keys = sent.get("authorization", ()), sent.get("x-authkey", ())
        if not bearers and not keys:
            return None
        if len(bearers) > 1 or len(keys) > 1:
            raise unauthorized()
        if bearers and not bearers[0].startswith(_BEARER):
            raise unauthorized()
        tokens = {*(one.removeprefix(_BEARER) for one in bearers), *keys}
        token = tokens.pop()
        if tokens or not token or not token.isascii() or not token.isprintable() or " " in token:
            raise unauthorized()
        return token

    def is_operator(self, token: str) -> bool:
        """Whether it is the operator's key, found out in a time that tells nothing of it."""
        key = self.operator_key()
        return key is not None and hmac.compare_digest(key.encode(), token.encode())

    def whose(self, tokens: Sequence[str]) -> list[Agent | None]:
        """The agents of these tokens, asked of the store: for a thread. None for one that is unknown or has expired."""
        return self.agents.by_tokens(tokens)

    def prove_key(self, token: str) -> None:
        """Look once more whether it is the operator's key. Raises HttpFault (401) when there is another one by now."""
        if not self.is_operator(token):
            raise unauthorized()

    def prove(self, token: str) -> None:
        """Ask the store once more about an agent's token. Raises HttpFault (401) when it opens no more."""
        if self.agents.by_token(token) is None:
            raise unauthorized()


def _text(local: tuple[str, int | None] | None) -> str | None:
    if local is None:
        return None
    return f"[{local[0]}]:{local[1]}" if ":" in local[0] else f"{local[0]}:{local[1]}"


def unauthorized() -> HttpFault:
    """No credential that opens anything. Says nothing of what was wrong with it."""
    return HttpFault(
        401,
        "unauthorized",
        "unauthorized",
        "Send a token as Authorization: Bearer TOKEN or X-AuthKey: TOKEN.",
        {"www-authenticate": "Bearer"},
    )


def check_query(parts: list[tuple[str, str]]) -> None:
    """Refuse a request whose query holds a token. Raises HttpFault."""
    if any(name.lower() in IN_QUERY or has_token(text) for name, text in parts):
        raise HttpFault(
            400,
            "token_in_query",
            "A token never goes into an address: it would end up in logs and histories.",
            "Send it as a header, and get another one if this one was real: kranzq agent rotate NAME",
        )


def host_names(address: str, port: int, named: list[str]) -> frozenset[str]:
    """What `Host` may say to a server on that address and port; `named` are further names, with a port or for any."""
    names = {"127.0.0.1", "[::1]", "localhost"}
    if address not in {"", "0.0.0.0", "::"}:  # noqa: S104 - named to be left out
        names.add(f"[{address}]" if ":" in address else address)
    hosts = {f"{name}:{port}" for name in names} | ({*names} if port == 80 else set())  # noqa: PLR2004 - http's own
    for name in named:
        if not name or not name.isascii() or not name.isprintable() or any(sign in name for sign in "/@ ,"):
            raise UsageFault(f"{name[:80]!r} is no name of a host.", "Say NAME or NAME:PORT.")
        hosts |= {name} if ":" in name.rpartition("]")[2] else {name, f"{name}:{port}"}
    return frozenset(one.lower() for one in hosts)
