"""The verb `hook`: put hooks into git and agents' settings, show what is there, take it out again."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, TypeVar

import click

from kranzq.cli.numbers import Whole
from kranzq.cli.queueing import WithCommand
from kranzq.cli.say import say, say_json, say_styled, shade
from kranzq.errors import Refused
from kranzq.fitting.kinds import KINDS, Kind, Place, Wish, kind_named
from kranzq.model.tokens import without_tokens
from kranzq.wiring import fitting

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

    from kranzq.fitting.change import Change, Seen

F = TypeVar("F", bound=Callable[..., object])
_NO = 1
_COLOURS = {"+": "green", "-": "red", "@": "cyan"}
_JSON = click.option("--json", "as_json", is_flag=True, help="For programs; keys are stable.")
_FILE = click.option("--file", metavar="PATH", help="Another settings file than the usual one: of claude and mcp.")


@click.group()
def hook() -> None:
    """Put hooks of kranzq into git and into agents' settings, and take them out again without a trace."""


def _complete_kind(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    from click.shell_completion import CompletionItem

    del ctx, param
    return [CompletionItem(kind.name, help=kind.short) for kind in KINDS if kind.name.startswith(incomplete)]


def _kind(verb: F) -> F:
    return click.argument("kind", metavar="KIND", shell_complete=_complete_kind)(verb)


def _ways(verb: F) -> F:
    """How a change is made: asked, printed, or at once."""
    for option in (
        _JSON,
        click.option("--print", "prints", is_flag=True, help="Only show what would change."),
        click.option("--yes", is_flag=True, help="Do not ask."),
        click.option("--shared", is_flag=True, help="Also where core.hooksPath leads out of this repository."),
        _FILE,
    ):
        verb = option(verb)
    return verb


@hook.command(cls=WithCommand)
@_kind
@click.option(
    "--mission", metavar="PREFIX", default="", help="What ids of its missions begin with: commit, merge, plan."
)
@click.option("--priority", type=Whole(0, 255), default=None, help="Of its missions; lower is earlier.")
@click.option("--timeout", metavar="DUR", default="", help="End its missions after this time: 90s, 5m, 2h.")
@click.option("--missions-too", is_flag=True, help="Enqueue for what missions do, too: one may bring on the next.")
@click.option("--agent", metavar="NAME", default="", help="Of mcp: who the agent is.")
@_ways
@click.pass_context
def install(
    ctx: click.Context,
    /,
    *,
    kind: str,
    file: str | None,
    shared: bool,
    yes: bool,
    prints: bool,
    as_json: bool,
    **wished: object,
) -> None:
    """Put a hook in: show what changes, ask, then write. Twice changes nothing.

    \b
    KIND is one of:
      git-pre-commit   guard before each commit of a mission
      git-pre-merge    guard before each commit of a merge
      git-pre-push     guard before each git push
      git-post-commit  enqueue a mission after each commit, once
      git-post-merge   enqueue a mission after each merge or pull, once
      claude           enqueue when a plan was approved; guard when the agent stops
      mcp              let an agent's host start kranzq mcp
      ci               print a job for a CI; nothing is written

    What git or an agent has there already stays, and goes on.
    """  # noqa: D301 - click takes the backspace for "not to be wrapped"
    _refuse_silence(as_json=as_json, yes=yes, prints=prints)
    one = kind_named(kind)
    wish = _wish(wished, ctx.meta.get("kranzq.command", ()))
    if one.place is Place.NOWHERE:
        fitting.check_words(one, wish, file=file, shared=shared)
        _print(one, fitting.printed(one, wish), as_json=as_json)
        return
    change, notes = fitting.to_put(one, ctx.obj, os.environ, wish, file=file, shared=shared)
    ctx.exit(_carry_out(one, change, notes, "is in", yes=yes, prints=prints, as_json=as_json))


@hook.command()
@_kind
@_ways
@click.pass_context
def remove(
    ctx: click.Context, /, *, kind: str, file: str | None, shared: bool, yes: bool, prints: bool, as_json: bool
) -> None:
    """Take a hook out: the file is as it was before, and gone if it was made for the hook."""
    _refuse_silence(as_json=as_json, yes=yes, prints=prints)
    one = kind_named(kind)
    change = fitting.to_take(one, ctx.obj, os.environ, file=file, shared=shared)
    ctx.exit(_carry_out(one, change, (), "is out of", yes=yes, prints=prints, as_json=as_json))


@hook.command("list")
@_FILE
@_JSON
@click.pass_obj
def list_(directory: str, *, file: str | None, as_json: bool) -> None:
    """Show which hooks are in, where, by which version, and whether they are what would be put there now."""
    found = list(fitting.looked(directory, os.environ, file=file))
    if as_json:
        say_json({"hooks": [one.to_json() for one in found]})
        return
    width = max(len(one.kind) for one in found)
    for one in found:
        say_styled(f"{one.kind:<{width}}  {_state(one)}")


def _state(one: Seen) -> str:
    colour = {"installed": "green", "differs": "yellow", "unknown": "red"}.get(one.state)
    word = shade(f"{one.state:<9}", fg=colour) if colour is not None else f"{one.state:<9}"
    version = shade(f"  {one.version}") if one.version is not None else ""
    where = shade(f"  {one.path}") if one.path and one.state != "absent" else ""
    why = shade(f"  ({one.why})") if one.why else ""
    return f"{word}{version}{where}{why}"


def _wish(wished: dict[str, object], command: Sequence[str]) -> Wish:
    from kranzq.wiring.approving import timeout_of

    timeout = str(wished["timeout"])
    if timeout:
        timeout_of(timeout, "--timeout")
    priority = wished["priority"]
    return Wish(
        str(wished["mission"]),
        priority if isinstance(priority, int) else None,
        timeout,
        bool(wished["missions_too"]),
        tuple(command),
        str(wished["agent"]),
    )


def _carry_out(
    kind: Kind, change: Change, notes: Sequence[str], done: str, *, yes: bool, prints: bool, as_json: bool
) -> int:
    """Show, ask, write; the exit code."""
    may = not prints and change.is_one and (yes or _is_granted(kind, change, notes))
    if may:
        change.write()
    elif not (prints or change.is_one):
        change.sweep()
    if as_json:
        shown = {"kind": kind.name, "path": change.path, "changed": may, "notes": list(notes)}
        say_json(shown | {"diff": [without_tokens(line) for line in change.diff()]})
        return 0
    if not change.is_one:
        say(f"{kind.name} {done} {change.path}: nothing to change.")
        return 0
    if prints or yes:
        _show(change, notes)
    if may:
        say(f"{kind.name} {done} {change.path}.")
    return 0 if may or prints else _NO


def _print(kind: Kind, text: str, *, as_json: bool) -> None:
    """Show what is only printed."""
    if as_json:
        say_json({"kind": kind.name, "path": None, "changed": False, "notes": [], "diff": text.splitlines()})
    else:
        for line in text.splitlines():
            say(line)


def _is_granted(kind: Kind, change: Change, notes: Sequence[str]) -> bool:
    if not sys.stdin.isatty():
        raise Refused(
            "Nobody is here to be asked; nothing was changed.",
            f"See what would change with --print ({kind.name}), then give --yes.",
        )
    _show(change, notes)
    if click.confirm(f"Change {change.path} so?", default=False):
        return True
    say("Nothing was changed.")
    return False


def _show(change: Change, notes: Sequence[str]) -> None:
    for line in change.diff():
        colour = _COLOURS.get(line[:1])
        text = without_tokens(line)
        say_styled(shade(text, fg=colour) if colour is not None else shade(text))
    say(*notes) if notes else None


def _refuse_silence(*, as_json: bool, yes: bool, prints: bool) -> None:
    if as_json and not (yes or prints):
        raise click.UsageError("With --json nobody can be asked; give --yes or --print as well.")
