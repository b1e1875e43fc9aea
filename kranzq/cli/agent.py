"""Who is asking, and which store: the options that all verbs of the work queue and of presence share.

A name is what `--agent` says, else `KRANZQ_AGENT`, else user@host; the uid is `KRANZQ_AGENT_UID`. In a database nobody
proves who he is: whoever may write it may act under any name. A server (`--server`, `KRANZQ_SERVER`) knows the token.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, TypeVar

import click

from kranzq.cli import which_server
from kranzq.cli.say import complain
from kranzq.cli.which_server import server_option
from kranzq.errors import UsageFault
from kranzq.model.claim import Holder
from kranzq.model.database_url import has_password, shown
from kranzq.wiring import callers, remote, working

if TYPE_CHECKING:
    from kranzq.backend.presence import Presence, SharedStore
    from kranzq.client.remote import RemoteStore

F = TypeVar("F", bound=Callable[..., object])
_URL, _STORE = "kranzq.url", "kranzq.store"


def agent_option(verb: F) -> F:
    """Let a verb be told who is asking: `agent`."""
    text = f"Who you are; else ${callers.AGENT}, else user@host. A server knows it by your token."
    return click.option("--agent", metavar="NAME", help=text)(verb)


def url_option(verb: F) -> F:
    """Let a verb be told which database: `url`, which bears no password."""
    text = "The database: sqlite:///path or postgresql://…; else the setting work.url."
    return click.option("--url", metavar="URL", callback=_checked, help=text)(verb)


def store_option(verb: F) -> F:
    """Let a verb be told which database (`url`), or which server in its place."""
    return url_option(server_option(verb))


def named_server() -> str | None:
    """The server that this call is for; None: a database of this machine. Raises UsageFault."""
    said = click.get_current_context().meta
    return remote.server_of(os.environ, which_server.named_server(), said.get(_URL))


def holder(agent: str | None) -> Holder:
    """Who holds what is claimed, and who enqueues; blank where a server knows no agent by the token."""
    if (far := _remote()) is None:
        return callers.caller(os.environ, agent)
    return Holder(agent) if agent else far.me().holder


def groups(given: Sequence[str]) -> frozenset[str]:
    """The groups that one belongs to: those on the command line, else those of the environment, or of the token."""
    return callers.groups_of(os.environ if _remote() is None else {}, given)


def open_store(directory: str, url: str | None) -> SharedStore:
    """The work queue and presence for a change; a new database is made. To be closed by the caller."""
    return _remote() or working.open_work(url, os.environ, directory)


def open_to_look(directory: str, url: str | None) -> SharedStore | None:
    """The same for a look; None when nothing was ever put there."""
    return _remote() or working.open_work_to_look(url, os.environ, directory)


@contextlib.contextmanager
def open_presence(directory: str, url: str | None) -> Iterator[Presence]:
    """Presence for a change."""
    with open_store(directory, url) as store:
        yield store.presence


@contextlib.contextmanager
def presence_to_look(directory: str, url: str | None) -> Iterator[Presence | None]:
    """Presence for a look; None when nothing was ever put there."""
    store = open_to_look(directory, url)
    if store is None:
        yield None
        return
    with store:
        yield store.presence


def _remote() -> RemoteStore | None:
    """The server's store, one for the whole call; None where none is meant."""
    server = named_server()
    if server is None:
        return None
    kept = click.get_current_context().meta
    if _STORE not in kept:
        kept[_STORE] = remote.open_remote(server, os.environ, complain)
    store: RemoteStore = kept[_STORE]
    return store


def check_url(url: str | None) -> None:
    """Whether a database may be named so on a command line. Raises UsageFault."""
    if url is not None and has_password(url):
        raise UsageFault(
            f"--url {shown(url)!r} has a password in it, which every user of this machine sees in the list of "
            "processes.",
            "Put the URL into work.url of your config.toml or $KRANZQ_WORK_URL, or the password into PGPASSFILE.",
        )


def _checked(ctx: click.Context, param: click.Parameter, url: str | None) -> str | None:
    del param
    check_url(url)
    ctx.meta[_URL] = url
    return url
