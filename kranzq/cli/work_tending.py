"""The verbs of whoever looks after the queue: cancel, recover, prune."""

from __future__ import annotations

import os

import click

from kranzq.cli.agent import open_store, store_option
from kranzq.cli.say import say, say_json
from kranzq.cli.watched import long_work
from kranzq.cli.work_holding import seconds_of
from kranzq.wiring import working

_JSON = click.option("--json", "as_json", is_flag=True, help="For programs; keys are stable.")
_NAMED = 20


@click.command()
@click.argument("item", metavar="ID")
@click.option("--reason", metavar="TEXT", default="", help="Why; its holder is told.")
@store_option
@_JSON
@click.pass_obj
def cancel(directory: str, item: str, *, reason: str, url: str | None, as_json: bool) -> None:
    """End an item that has not ended, claimed or not. Its holder learns of it at its next call."""
    with open_store(directory, url) as store:
        done = store.cancel(item, reason)
        state = store.show(item).state.value
    if as_json:
        say_json({"id": item, "cancelled": done, "state": state})
    else:
        say(f"{item} is cancelled." if done else f"{item} had ended already: it is {state}. Nothing was changed.")


@click.command()
@store_option
@_JSON
@click.pass_obj
def recover(directory: str, *, url: str | None, as_json: bool) -> None:
    """Let overdue leases lapse and open what is due. Safe at any time, for any number at once.

    A daemon or server does it by itself, and so does each claim.
    """
    from kranzq.model.work_json import recovered_json

    with open_store(directory, url) as store:
        done = store.sweep()
    if as_json:
        say_json(recovered_json(done))
        return
    for word, names in (("lapsed, may be claimed again", done.lapsed), ("failed, no attempt is left", done.failed)):
        for name in names[:_NAMED]:
            say(f"{name}: {word}")
        if len(names) > _NAMED:
            say(f"and {len(names) - _NAMED} more: {word}")
    if done.opened:
        say(f"{done.opened} came due")
    if not done:
        say("Nothing was overdue.")


@click.command()
@click.option("--older-than", metavar="DUR", help="Ended longer ago than this; else the setting work.retention.")
@store_option
@_JSON
@click.pass_obj
def prune(directory: str, *, older_than: str | None, url: str | None, as_json: bool) -> None:
    """Remove items that ended long ago, with their history and keys."""
    from kranzq.cli.say import duration

    if older_than is None:
        seconds = working.work_config(os.environ, directory).work.retention
    else:
        seconds = seconds_of("--older-than", older_than)
    with open_store(directory, url) as store, long_work():
        pruned = store.prune(seconds)
    if as_json:
        say_json({"pruned": pruned})
    else:
        say(f"Removed {pruned} items that ended more than {duration(seconds)} ago.")
