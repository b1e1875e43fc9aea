"""Who may call a server: the agents of a database, and the files that hold their tokens."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from kranzq.errors import UsageFault
from kranzq.wiring import working

if TYPE_CHECKING:
    from kranzq.backend.presence import SharedStore
    from kranzq.model.agents import Issued

SERVER = "KRANZQ_SERVER"


def open_agents(url: str | None, environ: Mapping[str, str], start: str | None = None) -> SharedStore:
    """The store for a change; a new one is made. To be closed by the caller. Raises UsageFault."""
    _check_meant(url, environ)
    return working.open_work(url, environ, start)


def open_to_look(url: str | None, environ: Mapping[str, str], start: str | None = None) -> SharedStore | None:
    """The store for a look; None where nothing was ever put there. Raises UsageFault."""
    _check_meant(url, environ)
    return working.open_work_to_look(url, environ, start)


def _check_meant(url: str | None, environ: Mapping[str, str]) -> None:
    """Refuse to take this user's own database for that of a server: its agents would have tokens that open nothing."""
    if url is None and environ.get(SERVER, "").strip():
        raise UsageFault(
            f"{SERVER} names a server, and agents are kept in its database, which is not reached through it.",
            f"Type this where the database is, name it with --url, or unset {SERVER}.",
        )


def issue(act: Callable[[str], Issued], path: str | None = None) -> Issued:
    """Make a token and let `act` give it to an agent. With a path it lies in that file when `act` is done, mode 600."""
    from kranzq.model.tokens import new_token
    from kranzq.trust.token_file import kept_in

    token = new_token()
    with kept_in(path, token) if path is not None else contextlib.nullcontext():
        return act(token)
