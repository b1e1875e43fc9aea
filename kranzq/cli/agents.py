"""The verbs of agents: who may call a server, with which token; and the operator's own key.

A token is printed once, by the verb that makes it, or put into a file and not printed at all. No verb takes one as a
word of the command line, where every user of the machine would see it.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

import click

from kranzq.cli.agent import url_option
from kranzq.cli.say import local_time, say, say_json
from kranzq.cli.tables import fitted
from kranzq.model.agents import MOST_LIFE_MS, NEVER, Agent, Issued, Scope, agent_json
from kranzq.wiring import callers, tokens, trusting

if TYPE_CHECKING:
    from kranzq.backend.agents import Agents

F = TypeVar("F", bound=Callable[..., object])
_NAME_AT, _GROUPS_AT = 0, 3


def _shared(verb: F) -> F:
    json_ = click.option("--json", "as_json", is_flag=True, help="For programs; keys are stable.")
    return url_option(json_(verb))


def _issuing(verb: F) -> F:
    expires = click.option("--expires", metavar="DUR", help="How long the token opens, for example 30d; or never.")
    file = click.option("--token-file", metavar="FILE", help="Put the token there, mode 600, instead of printing it.")
    quiet = click.option("-q", "--quiet", is_flag=True, help="Print the token and nothing else.")
    return expires(file(quiet(_shared(verb))))


@click.group()
def agent() -> None:
    """Who may call a server, and with which token. The command line itself needs none: it opens the database."""


@agent.command()
@click.argument("name")
@click.option("--group", "groups", metavar="GROUP", multiple=True, help="A group it belongs to; may be repeated.")
@click.option(
    "--scope",
    "scopes",
    type=click.Choice([scope.value for scope in Scope]),
    multiple=True,
    help="What it may do: read, work (the default; includes read), operate (includes both).",
)
@click.option("--uid", default="", metavar="UID", help="A uid of your own, instead of one that is made.")
@click.option("--another", is_flag=True, help="Also when an agent has that name already.")
@_issuing
@click.pass_obj
def add(directory: str, /, *, name: str, url: str | None, scopes: Sequence[str], **said: Any) -> None:
    """Add an agent. Its token is printed now and never again; only a hash of it is kept."""
    life = _life(said["expires"])

    def act(agents: Agents, token: str) -> Issued:
        return agents.add(
            name,
            groups=callers.split_groups(said["groups"]),
            scopes=[Scope(one) for one in scopes or ("work",)],
            expires_ms=life,
            uid=said["uid"],
            another=said["another"],
            token=token,
        )

    _issue(act, url, directory, "added", **said)


@agent.command("list")
@_shared
@click.pass_obj
def list_(directory: str, *, url: str | None, as_json: bool) -> None:
    """Show every agent that has a token. Tokens are not shown: nobody has them but the agents."""
    store = tokens.open_to_look(url, os.environ, directory)
    found: list[Agent] = []
    if store is not None:
        with store:
            found = store.agents.all()
    if as_json:
        say_json({"agents": [agent_json(one) for one in found]})
    elif found:
        head = ("name", "uid", "scopes", "groups", "expires", "token since")
        fitted(head, [_row(one) for one in found], cut=(_NAME_AT, _GROUPS_AT))
    else:
        say("No agent has a token. Give one to an agent: kranzq agent add NAME")


@agent.command()
@click.argument("agent_", metavar="AGENT")
@_issuing
@click.pass_obj
def rotate(directory: str, /, *, agent_: str, url: str | None, **said: Any) -> None:
    """Give an agent, named by name or uid, a new token. Its old one opens nothing from now on."""
    life = _life(said["expires"])

    def act(agents: Agents, token: str) -> Issued:
        return agents.rotate(agent_, expires_ms=life, token=token)

    _issue(act, url, directory, "has a new token", **said)


@agent.command()
@click.argument("agent_", metavar="AGENT")
@_shared
@click.pass_obj
def revoke(directory: str, /, *, agent_: str, url: str | None, as_json: bool) -> None:
    """Remove an agent, named by name or uid. Its token opens nothing from now on."""
    with tokens.open_agents(url, os.environ, directory) as store:
        gone = store.agents.revoke(agent_)
    if as_json:
        say_json({"revoked": agent_json(gone)})
    else:
        say(f"Agent {gone.name} is revoked (uid {gone.uid}). Items that it holds stay its own until their leases end.")


@agent.command()
@click.option("--rotate", "rotate_", is_flag=True, help="Make a new key; the old one opens nothing from now on.")
@click.option("--path", "as_path", is_flag=True, help="Print where the key lies, and not the key.")
def key(*, rotate_: bool, as_path: bool) -> None:
    """Print the operator's key, with which everything on a server is open. It is made on first use."""
    held = trusting.operator_key(os.environ)
    text = held.rotate() if rotate_ else held.make()
    say(held.path if as_path else text)


def _issue(act: Callable[[Agents, str], Issued], url: str | None, directory: str, done: str, **said: Any) -> None:
    """Change the store, and say the token once: to whoever reads the output, or to the file alone."""
    file = said["token_file"] and os.path.join(directory, said["token_file"])
    with tokens.open_agents(url, os.environ, directory) as store:
        made, token = tokens.issue(lambda token: act(store.agents, token), file)
    if said["as_json"]:
        say_json({"agent": agent_json(made)} | ({"token": token} if file is None else {"token_file": file}))
    elif said["quiet"]:
        if file is None:
            say(token)
    else:
        say(f"Agent {made.name} {done} (uid {made.uid}).", *_facts(made))
        if file is None:
            say("  token    " + token, "Keep it now: it is not shown again.")
        else:
            say(f"  token    in {file}")


def _facts(one: Agent) -> list[str]:
    groups = [f"  groups   {', '.join(sorted(one.groups))}"] if one.groups else []
    return [f"  scopes   {_scopes(one)}", *groups, f"  expires  {_end(one)}"]


def _row(one: Agent) -> list[str]:
    since = local_time((one.rotated_at or one.created_at) / 1000)
    return [one.name, one.uid, _scopes(one), ", ".join(sorted(one.groups)) or "-", _end(one), since]


def _scopes(one: Agent) -> str:
    return ", ".join(scope.value for scope in Scope if scope in one.scopes) or "-"


def _end(one: Agent) -> str:
    if one.expires_at is None:
        return "never"
    return local_time(one.expires_at / 1000) + (" (over)" if one.expired else "")


def _life(text: str | None) -> int | None:
    from kranzq.config import parse_duration

    if text is None or text == "never":
        return None if text is None else NEVER
    try:
        life = round(parse_duration(text) * 1000)
    except ValueError as fault:
        raise click.BadParameter(f"{fault}, or never", param_hint="--expires") from fault
    if not 0 < life <= MOST_LIFE_MS:
        raise click.BadParameter("it must be more than 0 and at most ten years.", param_hint="--expires")
    return life
