"""The verbs of producers: which missions are bound to whose items, what came of them, and that it was acted on."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from kranzq.cli.say import complain, local_time, say, say_json
from kranzq.errors import EXIT_FAILED, NotFound, UsageFault
from kranzq.model.ids import MissionId
from kranzq.wiring import approving, checkouts, queues

if TYPE_CHECKING:
    from kranzq.dispatch.producers import Binding

_JSON = click.option("--json", "as_json", is_flag=True, help="For programs; keys are stable.")
_MISSION = click.argument("mission")


@click.group()
def source() -> None:
    """Show whose item a mission is, and tell that its producer has acted on the end.

    A producer binds a mission with `enqueue --source`, acts on its end when `source list --ended` shows it, and then
    says `source returned`. What was not yet acted on is shown again, whoever crashed.
    """


@source.command("list")
@click.option("--ended", is_flag=True, help="Only bound missions that are over: their producer has something to do.")
@_JSON
@click.pass_obj
def list_(directory: str, *, ended: bool, as_json: bool) -> None:
    """Show all bindings with the state and the last outcome of each mission."""
    from kranzq.cli.tables import fitted

    checkout = checkouts.find_checkout(directory, os.environ)
    with queues.open_look(checkout) as queue:
        found = approving.producers(checkout, queue, os.environ).all() if queue is not None else []
    found = [one for one in found if one.has_ended or not ended]
    if as_json:
        say_json({"sources": [one.to_json() for one in found]})
    elif found:
        fitted(("MISSION", "ITEM", "BINDING", "MISSION IS", "LAST RUN"), [_row(one) for one in found])
    else:
        say("No binding waits for its producer." if ended else "No mission is bound to a producer's item.")


@source.command()
@_MISSION
@_JSON
@click.pass_obj
def show(directory: str, mission: str, *, as_json: bool) -> None:
    """Show whose item one mission is."""
    known = MissionId(mission)
    checkout = checkouts.find_checkout(directory, os.environ)
    with queues.open_queue(checkout) as queue:
        _say(approving.producers(checkout, queue, os.environ).one(known), as_json=as_json)


@source.command()
@_MISSION
@_JSON
@click.pass_obj
def returned(directory: str, mission: str, *, as_json: bool) -> None:
    """Tell that the producer has acted on the end, and seen that it took effect."""
    _end(directory, mission, "returned", as_json=as_json)


@source.command()
@_MISSION
@_JSON
@click.pass_obj
def cancelled(directory: str, mission: str, *, as_json: bool) -> None:
    """Tell that the producer wants no answer any more. The mission itself goes on; see `kranzq cancel`."""
    _end(directory, mission, "cancelled", as_json=as_json)


@source.command()
@click.option("--yes", is_flag=True, help="Mark them without asking.")
@_JSON
@click.pass_obj
def reclaim(directory: str, *, yes: bool, as_json: bool) -> None:
    """Mark bindings as cancelled whose producer was killed before it enqueued: nothing names their mission."""
    checkout = checkouts.find_checkout(directory, os.environ)
    with queues.open_to_change(checkout) as queue:
        producers = approving.producers(checkout, queue, os.environ)
        found = producers.orphans()
        if found and not yes and not _agreed(found, as_json=as_json):
            complain("Nothing was changed.")
            sys.exit(EXIT_FAILED)
        done = [one for one in found if producers.reclaim(one.source.mission)]
    if as_json:
        say_json({"reclaimed": [one.source.mission for one in done]})
    else:
        say(
            *(f"{one.source.mission} is cancelled: {_item(one)} may be taken anew." for one in done)
            if done
            else ["None."]
        )


def _agreed(found: Sequence[Binding], *, as_json: bool) -> bool:
    lines = [f"  {one.source.mission}: {_item(one)}, bound {local_time(one.source.created_at)}" for one in found]
    if as_json or not sys.stdin.isatty():
        complain(f"Orphaned are {len(found)}:", *lines)
        raise UsageFault("Nothing was changed.", "To mark them as cancelled, say so with: --yes")
    say(*lines)
    return click.confirm("Mark as cancelled?", err=True)


def _end(directory: str, mission: str, state: str, *, as_json: bool) -> None:
    """A repeat changes nothing and is no fault; the other end is one."""
    known = MissionId(mission)
    checkout = checkouts.find_checkout(directory, os.environ)
    with queues.open_to_change(checkout) as queue:
        if state == "returned":
            queue.return_source(known)
        else:
            queue.cancel_source(known)
        binding = approving.producers(checkout, queue, os.environ).one(known)
        if state not in queue.bindings(known):
            raise NotFound(f"The binding of mission {known} is {binding.state} already.", "Nothing was changed.")
    _say(binding, as_json=as_json)


def _say(one: Binding, *, as_json: bool) -> None:
    if as_json:
        say_json(one.to_json())
        return
    made = local_time(one.source.created_at or None)
    say(f"{one.source.mission} is {_item(one)}: {one.state} (made {made}); the mission is {one.where.value}.")


def _item(one: Binding) -> str:
    return f"{one.source.producer}'s {one.source.reference}"


def _row(one: Binding) -> tuple[str, ...]:
    item = f"{one.source.producer}:{one.source.reference}"
    return one.source.mission, item, one.state, one.where.value, _last(one)


def _last(one: Binding) -> str:
    if one.last is None:
        return f"kranz: {one.kranz}" if one.kranz else "-"
    return f"run {one.last.run} {one.last.outcome.value if one.last.outcome is not None else one.last.state}"
