"""The verbs that take back: cancel for a mission, source for the binding of a producer."""

from __future__ import annotations

import os

import click

from kranzq import wiring
from kranzq.cli.say import local_time, say, say_json
from kranzq.dispatch.cancel import Answer
from kranzq.errors import NotFound
from kranzq.model.clock import rfc3339
from kranzq.model.ids import MissionId

_JSON = click.option("--json", "as_json", is_flag=True, help="For programs; keys are stable.")


@click.command()
@click.argument("mission")
@click.option("--why", metavar="TEXT", default="", help="The reason, kept with the run.")
@click.option("--wait", is_flag=True, help="Return only when nothing of the mission runs any more.")
@_JSON
@click.pass_obj
def cancel(directory: str, mission: str, *, why: str, wait: bool, as_json: bool) -> None:
    """Take an approval back: remove what waits, end what runs. Works with no daemon alive."""
    from kranzq.dispatch.cancel import cancel as take_back

    checkout = wiring.find_checkout(directory, os.environ)
    if wait:
        wiring.refuse_inside_mission(checkout, "cancel --wait", os.environ)
    with wiring.open_queue(checkout) as queue:
        one = wiring.canceller(checkout, queue, os.environ)
        answer = take_back(one, MissionId(mission), why, wait=wait)
    if as_json:
        say_json(answer.to_json())
    else:
        say(_sentence(answer))


@click.command()
@click.argument("mission")
@click.option("--return", "give_back", is_flag=True, help="Mark it as returned: the producer has seen the end.")
@click.option("--cancel", "cancelled", is_flag=True, help="Mark it as cancelled.")
@_JSON
@click.pass_obj
def source(directory: str, mission: str, *, give_back: bool, cancelled: bool, as_json: bool) -> None:
    """Show whose item a mission is; its producer returns or cancels the binding when it has acted on the end."""
    if give_back and cancelled:
        raise click.UsageError("--return and --cancel exclude each other.")
    checkout = wiring.find_checkout(directory, os.environ)
    known = MissionId(mission)
    with wiring.open_queue(checkout) as queue:
        if give_back:
            queue.return_source(known)
        if cancelled:
            queue.cancel_source(known)
        found = queue.bindings(known)
    wanted = "returned" if give_back else "cancelled" if cancelled else next(iter(found), "bound")
    if wanted not in found:
        instead = f" It is {next(iter(found))} already." if found else ""
        raise NotFound(f"Mission {known} has no producer's binding.{instead}", "Make one with: kranzq enqueue --source")
    one = found[wanted]
    if as_json:
        created = rfc3339(one.created_at) if one.created_at else None
        shown = {"mission": known, "producer": one.producer, "reference": one.reference}
        say_json(shown | {"state": wanted, "createdAt": created})
    else:
        say(f"{known} is {one.producer}'s {one.reference}: {wanted} (made {local_time(one.created_at or None)}).")


def _sentence(answer: Answer) -> str:
    mission, outcome = answer.mission, answer.outcome.value if answer.outcome is not None else "no end recorded"
    also = " An entry that waited behind it is removed." if answer.removed and answer.result != "removed" else ""
    match answer.result:
        case "removed":
            return f"{mission} is cancelled: its entry is removed."
        case "wished":
            return (
                f"{mission} is asked to end (run {answer.run}); its keeper sees to it.{also}\n"
                f"  Wait for it with: kranzq cancel {mission} --wait"
            )
        case "cancelled":
            return f"{mission} is cancelled: run {answer.run} has ended.{also}"
        case _:
            return f"{mission} had ended already (run {answer.run}: {outcome}); nothing was changed.{also}"
