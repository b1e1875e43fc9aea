"""Who is asking, and which database: the options that all verbs of the work queue and of presence share.

A name is what `--agent` says, else `KRANZQ_AGENT`, else user@host; the uid is `KRANZQ_AGENT_UID`. Here nobody proves
who he is: whoever may write the database may act under any name.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, TypeVar

import click

from kranzq.errors import UsageFault
from kranzq.model.claim import Holder
from kranzq.model.database_url import has_password, shown
from kranzq.wiring import working

if TYPE_CHECKING:
    from kranzq.backend.items import WorkStore

F = TypeVar("F", bound=Callable[..., object])
AGENT, UID, GROUPS = "KRANZQ_AGENT", "KRANZQ_AGENT_UID", "KRANZQ_AGENT_GROUPS"


def agent_option(verb: F) -> F:
    """Let a verb be told who is asking: `agent`."""
    text = f"Who you are; else ${AGENT}, else user@host."
    return click.option("--agent", metavar="NAME", help=text)(verb)


def url_option(verb: F) -> F:
    """Let a verb be told which database: `url`, which bears no password."""
    text = "The database: sqlite:///path or postgresql://…; else the setting work.url."
    return click.option("--url", metavar="URL", callback=_checked, help=text)(verb)


def holder(agent: str | None) -> Holder:
    """Who holds what is claimed, and who enqueues."""
    from kranzq.wiring.trusting import user_name

    name = agent or os.environ.get(AGENT, "").strip() or f"{user_name()}@{os.uname().nodename}"
    return Holder(name, uid=os.environ.get(UID, "").strip())


def groups(given: Sequence[str]) -> frozenset[str]:
    """The groups that one belongs to: those on the command line, else those of the environment."""
    return frozenset(given or os.environ.get(GROUPS, "").replace(",", " ").split())


def open_store(directory: str, url: str | None) -> WorkStore:
    """The work queue for a change; a new one is made. To be closed by the caller."""
    return working.open_work(url, os.environ, directory)


def open_to_look(directory: str, url: str | None) -> WorkStore | None:
    """The work queue for a look; None when nothing was ever put there."""
    return working.open_work_to_look(url, os.environ, directory)


def _checked(ctx: click.Context, param: click.Parameter, url: str | None) -> str | None:
    del ctx, param
    if url is not None and has_password(url):
        raise UsageFault(
            f"--url {shown(url)!r} has a password in it, which every user of this machine sees in the list of "
            "processes.",
            "Put the URL into work.url of your config.toml or $KRANZQ_WORK_URL, or the password into PGPASSFILE.",
        )
    return url
