"""The verb that takes an approval back, for one mission or for all that match."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping

import click

from kranzq.cli.say import complain, say, say_json
from kranzq.cli.which_server import server_of_missions, server_option
from kranzq.dispatch.cancel import Answer, Canceller, NotCancelled, is_pattern
from kranzq.errors import EXIT_FAILED, NotFound, UsageFault
from kranzq.model.ids import MissionId
from kranzq.model.state import State
from kranzq.wiring import approving, checkouts, queues

_JSON = click.option("--json", "as_json", is_flag=True, help="For programs; keys are stable.")


@click.command()
@click.argument("mission")
@click.option("--why", metavar="TEXT", default="", help="The reason, kept with the end.")
@click.option("--wait", is_flag=True, help="Return only when nothing of the mission runs any more.")
@click.option("--yes", is_flag=True, help="Cancel all that match a pattern without asking.")
@server_option
@_JSON
@click.pass_context
def cancel(ctx: click.Context, mission: str, *, why: str, wait: bool, yes: bool, as_json: bool) -> None:
    """Take an approval back: remove what waits, end what runs. Works with no daemon alive.

    A MISSION with * ? or [ is a pattern, as in a shell; quote it. Then what matches is shown and asked for first.
    """
    from kranzq.dispatch.cancel import cancel as take_back

    if (server := server_of_missions()) is not None:
        from kranzq.cli import elsewhere_changing

        ctx.exit(elsewhere_changing.cancel(server, mission, why, wait=wait, yes=yes, as_json=as_json))
    checkout = checkouts.find_checkout(ctx.obj, os.environ)
    if wait:
        checkouts.refuse_inside_mission(checkout, "cancel --wait", os.environ)
    with queues.open_to_change(checkout) as queue:
        one = approving.canceller(checkout, queue, os.environ)
        if is_pattern(mission):
            ctx.exit(_many(one, mission, why, wait=wait, yes=yes, as_json=as_json))
        answer = take_back(one, MissionId(mission), why, wait=wait)
    if as_json:
        say_json(answer.to_json())
    else:
        say(*cancelled_text(answer))


def _many(one: Canceller, pattern: str, why: str, *, wait: bool, yes: bool, as_json: bool) -> int:
    """Cancel all that match; the exit code. One that cannot be cancelled does not stop the others."""
    from kranzq.dispatch.cancel import cancel_each, matching

    found = matching(one, pattern)
    if not found:
        raise NotFound(f"Nothing in the queue matches {pattern!r}.", "See what there is: kranzq list --all")
    if not yes and not agreed(pattern, found, as_json=as_json):
        complain("Nothing was changed.")
        return EXIT_FAILED
    done = list(cancel_each(one, list(found), why, wait=wait))
    failed = [each for each in done if isinstance(each, NotCancelled)]
    if as_json:
        answers = [each.to_json() for each in done if isinstance(each, Answer)]
        say_json({"cancelled": answers, "failed": [each.to_json() for each in failed]})
    for each in () if as_json else done:
        if isinstance(each, Answer):
            say(*cancelled_text(each))
        else:
            complain(f"{each.mission}: {each.why}")
    return EXIT_FAILED if failed else 0


def agreed(pattern: str, found: Mapping[MissionId, State], *, as_json: bool) -> bool:
    """Show what matches, and ask. Raises UsageFault where nobody can be asked."""
    lines = [f"  {mission} ({state.value})" for mission, state in found.items()]
    if as_json or not sys.stdin.isatty():
        complain(f"{pattern!r} matches {len(found)}:", *lines)
        raise UsageFault("Nothing was changed.", "To cancel all of them, say so with: --yes")
    say(*lines)
    return click.confirm(f"Cancel {'it' if len(found) == 1 else f'all {len(found)}'}?", err=True)


def cancelled_text(answer: Answer) -> list[str]:
    """What came of it, in lines for people."""
    mission, outcome = answer.mission, answer.outcome.value if answer.outcome is not None else "no end recorded"
    also = " An entry that waited behind it is removed." if answer.removed and answer.result != "removed" else ""
    match answer.result:
        case "removed":
            return [f"{mission} is cancelled: its entry is removed."]
        case "wished":
            return [
                f"{mission} is asked to end (run {answer.run}); its keeper sees to it.{also}",
                f"  Wait for it with: kranzq cancel {mission} --wait",
            ]
        case "cancelled":
            return [f"{mission} is cancelled: run {answer.run} has ended.{also}"]
        case _:
            return [f"{mission} had ended already (run {answer.run}: {outcome}); nothing was changed.{also}"]
