"""Which server a call is for: `--server`, else `KRANZQ_SERVER`; and what becomes of verbs that ask none.

A verb of missions asks the server that the variable names, unless `-C` names a checkout of this machine. One that can
do its work only in a checkout must not do it silently in another one than `list` and `status` show.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, TypeVar

import click

from kranzq.cli.say import complain
from kranzq.errors import UsageFault
from kranzq.wiring import remote

if TYPE_CHECKING:
    from kranzq.client.remote_missions import RemoteMissions

F = TypeVar("F", bound=Callable[..., object])
SERVER, HERE = "kranzq.server", "kranzq.here"
_ONLY_HERE = frozenset(["edit", "park", "pause", "recover", "resume", "retry", "source", "stop", "trust", "unpark"])
"""Verbs that change the missions or the dispatcher of a checkout."""
_DISPATCH = frozenset({"daemon", "drain"})
_HELP = frozenset({"-h", "--help"})


def server_option(verb: F) -> F:
    """Let a verb be told of a server, which `named_server` and `server_of_missions` give."""
    text = f"A kranzq server: http://localhost:8787 or unix:/path; else ${remote.SERVER}."
    return click.option("--server", metavar="URL", callback=_kept, expose_value=False, help=text)(verb)


def named_server() -> str | None:
    """What `--server` says in this call."""
    said: str | None = click.get_current_context().meta.get(SERVER)
    return said


def server_of_missions() -> str | None:
    """The server whose missions this call is about; None: those of a checkout of this machine."""
    is_here = click.get_current_context().meta.get(HERE, False)
    return remote.server_of({} if is_here else os.environ, named_server(), None)


def missions_at(server: str, *, waits: bool = True) -> RemoteMissions:
    """The missions of a server, to be closed; whoever waits for it is told. Not `waits`: for who asks again anyway."""
    return remote.open_missions(server, os.environ, complain if waits else None, waits=waits)


def check_here(verb: str, words: Sequence[str]) -> None:
    """Of a verb that asks no server, where the variable names one and no checkout is named. Raises UsageFault."""
    if _HELP & set(words):
        return
    if verb in _DISPATCH:
        complain(f"${remote.SERVER} is set, but no server dispatches for others: {verb} works in the checkout here.")
    if verb in _ONLY_HERE:
        raise UsageFault(
            f"{verb} works in a checkout of this machine only, and ${remote.SERVER} names a server.",
            f"Type it where that server runs; or, for the checkout that is here: kranzq -C . {verb} …",
        )


def no_server_option(verb: str | None) -> UsageFault:
    """What is wrong where a verb is told of a server that cannot ask one."""
    if verb in {None, "kranzq"}:
        return UsageFault("--server goes behind the verb.", "Type: kranzq VERB --server URL …")
    return UsageFault(
        f"{verb} works on this machine only, and asks no server.",
        "Type it where the server runs. These ask one: cancel, enqueue, history, list, logs, mcp, status, wait, why, "
        "and all of work and presence.",
    )


def _kept(ctx: click.Context, param: click.Parameter, server: str | None) -> str | None:
    del param
    ctx.meta[SERVER] = server
    return server
