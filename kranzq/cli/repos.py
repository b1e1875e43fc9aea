"""The verb `repos`: the checkouts that this user works in, for `status --all`."""

from __future__ import annotations

import os

import click

from kranzq.cli.say import complain, say, say_json
from kranzq.errors import EXIT_NOT_FOUND
from kranzq.wiring import checkouts
from kranzq.wiring import repos as wired

_JSON = click.option("--json", "as_json", is_flag=True, help="For programs; keys are stable.")
_DIR = click.argument("directory", required=False, metavar="[DIR]")


@click.group(invoke_without_command=True)
@click.pass_context
def repos(ctx: click.Context) -> None:
    """The checkouts that you work in. `init` and a daemon's start make one known; look at all: kranzq status --all."""
    if ctx.invoked_subcommand is None:
        _list(as_json=False)


@repos.command("list")
@_JSON
def list_(*, as_json: bool) -> None:
    """The known checkouts, and which of them are gone."""
    _list(as_json=as_json)


@repos.command()
@_DIR
@click.pass_obj
def add(here: str, directory: str | None) -> None:
    """Make a checkout known: that at or above DIR, or the current directory."""
    root = checkouts.find_checkout(_path(here, directory), os.environ).root
    say(f"{root} is known{'.' if wired.known(os.environ).add(root) else ' already.'}")


@repos.command()
@_DIR
@click.pass_context
def remove(ctx: click.Context, directory: str | None) -> None:
    """Take a checkout out of the list, be it there or not.

    Nothing in it is changed; the next start of its daemon makes it known again.
    """
    path = _path(ctx.obj, directory)
    known = wired.known(os.environ)
    for root in dict.fromkeys((os.path.abspath(path), os.path.realpath(path), *_above(path))):
        if known.remove(root):
            say(f"{root} is in the list no more.")
            return
    complain(f"{path} is not in the list.", "  See: kranzq repos")
    ctx.exit(EXIT_NOT_FOUND)


@repos.command()
def forget() -> None:
    """Take all that are gone out of the list. One that only cannot be read now stays."""
    known = wired.known(os.environ)
    gone = [root for root in wired.gone(known.roots()) if known.remove(root)]
    for root in gone:
        say(f"{root} is in the list no more.")
    if not gone:
        say("None is gone.")


def _list(*, as_json: bool) -> None:
    roots = wired.known(os.environ).roots()
    gone = set(wired.gone(roots))
    if as_json:
        say_json({"repos": [{"repo": root, "gone": root in gone} for root in roots]})
        return
    for root in roots:
        say(f"{root}{'  (gone)' if root in gone else ''}")
    if not roots:
        say("No checkout is known yet. One becomes known by: kranzq init, kranzq daemon, kranzq repos add")
    if gone:
        say("  To take out what is gone: kranzq repos forget")


def _path(here: str, directory: str | None) -> str:
    return os.path.join(here, directory) if directory is not None else here


def _above(path: str) -> list[str]:
    from kranzq.errors import KranzqError

    try:
        return [checkouts.find_checkout(path, os.environ).root]
    except (KranzqError, OSError):
        return []
