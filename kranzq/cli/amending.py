"""The verbs by which one changes one's mind: park, unpark, edit, retry. What they decide is decided in dispatch."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import click

from kranzq.cli.completing import complete_mission
from kranzq.cli.numbers import Whole
from kranzq.cli.say import local_time, say, say_json
from kranzq.model.claim import Place
from kranzq.model.ids import MissionId
from kranzq.model.state import State
from kranzq.wiring import approving, checkouts, queues, trusting

if TYPE_CHECKING:
    from kranzq.dispatch.amend import Amended, Amender
    from kranzq.dispatch.retry import RetryQueue

_JSON = click.option("--json", "as_json", is_flag=True, help="For programs; keys are stable.")
_MISSION = click.argument("mission", shell_complete=complete_mission)


@click.command()
@_MISSION
@click.argument("reason", nargs=-1)
@_JSON
@click.pass_obj
def park(directory: str, mission: str, reason: Sequence[str], *, as_json: bool) -> None:
    """Set a mission aside that has not begun: it does not run until `kranzq unpark`."""
    from kranzq.dispatch.amend import park as set_aside

    why = " ".join(reason).strip() or f"by {trusting.user_name()}"
    _answer(_with(directory, lambda one, _: set_aside(one, MissionId(mission), why)), as_json=as_json)


@click.command()
@_MISSION
@_JSON
@click.pass_obj
def unpark(directory: str, mission: str, *, as_json: bool) -> None:
    """Let a parked mission run again, in its old place and with new counters."""
    from kranzq.dispatch.amend import unpark as let_back

    _answer(_with(directory, lambda one, _: let_back(one, MissionId(mission))), as_json=as_json)


@click.command()
@_MISSION
@click.option("--priority", type=Whole(0, 255), help="0 to 255, lower is earlier; it goes behind those that have it.")
@click.option("--not-before", metavar="WHEN", help="As for enqueue, or: now.")
@click.option("--timeout", metavar="DUR", help="End the mission after this time: 90s, 5m, 2h; or: none.")
@_JSON
@click.pass_obj
def edit(
    directory: str, mission: str, *, priority: int | None, not_before: str | None, timeout: str | None, as_json: bool
) -> None:
    """Change a mission that has not begun: when it runs, and how long it may take."""
    from kranzq.dispatch.edit import edit as change

    edits = approving.edits_of(priority, not_before, timeout, name_of="--{}".format)
    _answer(_with(directory, lambda one, _: change(one, MissionId(mission), edits)), as_json=as_json)


@click.command()
@_MISSION
@_JSON
@click.pass_obj
def retry(directory: str, mission: str, *, as_json: bool) -> None:
    """Run a mission once more: one that has ended, is parked, or waits after a run that failed."""
    from kranzq.dispatch.retry import retry as once_more

    _answer(_with(directory, lambda one, queue: once_more(one, queue, MissionId(mission))), as_json=as_json)


def _with(directory: str, act: Callable[[Amender, RetryQueue], Amended]) -> Amended:
    checkout = checkouts.find_checkout(directory, os.environ)
    with queues.open_to_change(checkout) as queue:
        return act(approving.amender(checkout, queue, os.environ), queue)


def _answer(done: Amended, *, as_json: bool) -> None:
    if as_json:
        say_json(done.to_json())
        return
    place = done.place
    note = [f"  {done.note[0].upper()}{done.note[1:]}."] if done.note else []
    same = "" if done.changed else " already; nothing was changed"
    say(f"{done.mission} is {where(place.state, place.due_ms)}{same} ({_numbers(place)}).", *note)


def where(state: State, due_ms: int | None) -> str:
    """Where an entry is, for people."""
    if state is State.WAITING:
        return f"waiting until {local_time(due_ms / 1000)}" if due_ms is not None else "waiting for other missions"
    return str(state.value)


def _numbers(place: Place) -> str:
    return f"priority {place.priority}, number {place.number}"
