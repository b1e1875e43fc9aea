"""The verbs that look: list, status, why, history, logs, wait. None of them changes anything on disk."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import click

from kranzq.cli.completing import complete_mission
from kranzq.cli.numbers import Whole
from kranzq.cli.say import complain, is_screen, say, say_json
from kranzq.cli.which_server import named_server, server_of_missions, server_option
from kranzq.errors import EXIT_BUSY, EXIT_FAILED, EXIT_LATER, EXIT_NOT_FOUND, NoSuchMission
from kranzq.model.checkout import Checkout
from kranzq.model.ids import MissionId
from kranzq.wiring import checkouts, queues
from kranzq.wiring.missions import Missions, no_output, run_to_show

if TYPE_CHECKING:
    from kranzq.dispatch.follow import MissionEnd

_JSON = click.option("--json", "as_json", is_flag=True, help="For programs; keys are stable.")
_WATCH = click.option(
    "--watch",
    is_flag=False,
    flag_value="2s",
    metavar="[EVERY]",
    help="On a terminal: again and again, every 2 s or as said; leave with Ctrl-C.",
)
_MISSION = click.argument("mission", shell_complete=complete_mission)

_AFTER_IT = "  Put it in order with: kranzq recover"


def _checkout(ctx: click.Context) -> Checkout:
    """The checkout to look at; where every other verb would refuse it, that is said in one line."""
    checkout = checkouts.find_checkout(ctx.obj, os.environ)
    if (unsafe := checkouts.unsafe_here(checkout)) is not None:
        complain(f"Only looking works here: {unsafe[0]}", f"  {unsafe[1]}")
    return checkout


@click.command("list")
@_JSON
@server_option
@click.option("--parked", is_flag=True, help="Only what is parked, with the reasons.")
@click.option("--all", "everything", is_flag=True, help="Also what is parked or quarantined.")
@_WATCH
@click.pass_context
def list_(ctx: click.Context, as_json: bool, parked: bool, everything: bool, watch: str | None) -> None:
    """Show what waits, in order: running, then what may run now, what is not due, and the inbox."""
    every_s = _every(watch, as_json=as_json)
    if (server := server_of_missions()) is not None:
        from kranzq.cli import elsewhere

        elsewhere.list_(server, parked=parked, everything=everything, as_json=as_json, every_s=every_s)
        return
    missions = Missions(_checkout(ctx))
    if is_screen() and not as_json:
        from kranzq.cli.screen.showing import show_listing

        show_listing(lambda: missions.listing(parked=parked, everything=everything), every_s, parked=parked)
        return
    from kranzq.cli.showing import listing_text

    found = missions.listing(parked=parked, everything=everything)
    if as_json:
        say_json(found.to_json())
    else:
        listing_text(found, parked=parked)


@click.command()
@_JSON
@server_option
@_WATCH
@click.option("--all", "everywhere", is_flag=True, help="Of all checkouts that you know, one line each.")
@click.pass_context
def status(ctx: click.Context, as_json: bool, watch: str | None, everywhere: bool) -> None:
    """Show what runs, since when, what waits, whether a daemon is there, and what needs a person."""
    every_s = _every(watch, as_json=as_json)
    if everywhere:
        if named_server() is not None:
            raise click.UsageError(
                "--all and --server exclude each other: the checkouts that you know are of this machine."
            )
        from kranzq.cli.everywhere import status_of_all

        status_of_all(every_s, as_json=as_json)
        return
    if (server := server_of_missions()) is not None:
        from kranzq.cli import elsewhere

        elsewhere.status(server, as_json=as_json, every_s=every_s)
        return
    missions = Missions(_checkout(ctx))
    if is_screen() and not as_json:
        from kranzq.cli.screen.showing import show_status

        show_status(missions.overview, every_s)
        return
    from kranzq.cli.showing import status_text

    found = missions.status()
    if as_json:
        say_json(found.to_json())
    else:
        status_text(found)


@click.command()
@_MISSION
@_JSON
@server_option
@click.pass_context
def why(ctx: click.Context, mission: str, as_json: bool) -> None:
    """Say why a mission does not run (or how it ended), and what would clear it."""
    MissionId(mission)  # a wrong name is said before a wrong place
    if (server := server_of_missions()) is not None:
        from kranzq.cli import elsewhere

        elsewhere.why(server, mission, as_json=as_json)
        return
    from kranzq.cli.showing import why_text

    answer = Missions(_checkout(ctx)).why(mission)
    if as_json:
        say_json(answer.to_json())
    else:
        why_text(answer)


@click.command()
@click.argument("mission", required=False, shell_complete=complete_mission)
@_JSON
@click.option("--last", type=Whole(1), help="Only the newest N.")
@click.option("--all", "everything", is_flag=True, help="Also runs that have not ended.")
@server_option
@click.pass_context
def history(ctx: click.Context, mission: str | None, as_json: bool, last: int | None, everything: bool) -> None:
    """Show how runs ended, newest last."""
    if mission is not None:
        MissionId(mission)
    if (server := server_of_missions()) is not None:
        from kranzq.cli import elsewhere

        elsewhere.history(server, mission, last=last, everything=everything, as_json=as_json)
        return
    from kranzq.cli.showing import history_text

    found = Missions(_checkout(ctx)).history(mission, last=last, unended=everything)
    if as_json:
        say_json({"runs": [run.to_json() for run in found]})
    else:
        history_text(found)


@click.command()
@_MISSION
@click.option("--run", type=Whole(1), help="Another run than the last one.")
@click.option("-f", "--follow", is_flag=True, help="Go on until the run has ended.")
@click.option("--tail", type=Whole(0), help="Only the last N lines.")
@server_option
@click.pass_context
def logs(ctx: click.Context, mission: str, run: int | None, follow: bool, tail: int | None) -> None:
    """Show a run's output: on a terminal with control characters escaped, elsewhere byte by byte."""
    known = MissionId(mission)
    if (server := server_of_missions()) is not None:
        from kranzq.cli import elsewhere

        elsewhere.logs(server, known, run=run, follow=follow, tail=tail)
        return
    from kranzq.cli.showing import sink
    from kranzq.dispatch.follow import follow_run, show_run

    with queues.open_runs(_checkout(ctx)) as opened:
        runs, number = run_to_show(opened, known, run)
        show = follow_run if follow else show_run
        came_to = show(runs, known, number, sink(), tail=tail)
        if came_to == "lost":
            complain(f"Run {number} of mission {known} has no recorded end: its keeper is gone.", _AFTER_IT)
        if came_to == "no output":
            raise no_output(known, number)


@click.command()
@_MISSION
@click.option("--timeout", metavar="DUR", help="Leave with 75 after this time: 90s, 5m, 2h.")
@server_option
@_JSON
@click.pass_context
def wait(ctx: click.Context, mission: str, timeout: str | None, as_json: bool) -> None:
    """Wait until a mission has ended: 0 succeeded, 1 otherwise, 3 unknown, 4 parked or quarantined, 75 timeout."""
    from kranzq.cli.showing import end_json, end_text

    known, seconds = MissionId(mission), _seconds(timeout)
    end = _end(ctx, known, seconds)
    if end.state == "unknown":
        raise NoSuchMission(known)
    if as_json:
        say_json(end_json(known, end))
    elif end.succeeded:
        say(end_text(known, end))
    else:
        complain(end_text(known, end))
    codes = {"parked": EXIT_BUSY, "quarantined": EXIT_BUSY, "timeout": EXIT_LATER, "unknown": EXIT_NOT_FOUND}
    ctx.exit(0 if end.succeeded else codes.get(end.state, EXIT_FAILED))


def _end(ctx: click.Context, known: MissionId, seconds: float | None) -> MissionEnd:
    if (server := server_of_missions()) is not None:
        from kranzq.cli import elsewhere

        return elsewhere.wait(server, known, timeout_s=seconds)
    from kranzq.dispatch.follow import nobody_dispatches, wait_for_end
    from kranzq.wiring.waiting import open_look_settled

    checkout = _checkout(ctx)
    checkouts.refuse_inside_mission(checkout, "wait", os.environ)
    with queues.open_look(checkout) as queue:
        if queue is not None and nobody_dispatches(queue, known):
            complain("No daemon runs here, so it may wait for long.", "  Type: kranzq daemon (or once: kranzq drain)")
    return wait_for_end(lambda: open_look_settled(checkout, os.environ, known), checkout, known, timeout_s=seconds)


def _every(text: str | None, *, as_json: bool) -> float | None:
    """The seconds from one look to the next, None where one look was asked for."""
    if text is None:
        return None
    from kranzq.cli.screen.interval import check_watch

    return check_watch(text, as_json=as_json)


def _seconds(text: str | None) -> float | None:
    from kranzq.config import parse_duration

    try:
        return parse_duration(text) if text is not None else None
    except ValueError as fault:
        raise click.BadParameter(str(fault), param_hint="--timeout") from fault
