"""The verb `guard`: refuse what a mission is about to do when its claim is no longer its own."""

from __future__ import annotations

import os

import click

from kranzq.cli.say import say, say_json
from kranzq.errors import NotFound, UsageFault
from kranzq.wiring import guarding


@click.command()
@click.option("--mission-only", is_flag=True, help="Refuse (3) outside of any mission, too.")
@click.option("--item", metavar="ID", help="Look at this item instead: for a job that merges what came of it.")
@click.option("--attempt", type=int, metavar="N", help="With --item: the attempt that did the work.")
@click.option("--server", metavar="URL", help="With --item: a kranzq server; else $KRANZQ_SERVER.")
@click.option("--url", metavar="URL", help="With --item: the database; else the setting work.url.")
@click.option("--json", "as_json", is_flag=True, help="For programs; keys are stable.")
def guard(
    *,
    mission_only: bool,
    item: str | None,
    attempt: int | None,
    server: str | None,
    url: str | None,
    as_json: bool,
) -> None:
    """Refuse a commit, push or merge of a mission whose claim is no longer its own.

    Inside a mission it leaves with 0 while the claim is its own, with 4 when it was cancelled, taken back or has
    ended, and with another code when nobody can tell. Outside of any mission it says nothing and leaves with 0.
    """
    if (item is None) != (attempt is None):
        raise UsageFault("--item and --attempt belong together.", "Type: kranzq guard --item ID --attempt N")
    if item is None and (server or url):
        raise UsageFault("--server and --url say where --item is.", "Type: kranzq guard --item ID --attempt N …")
    if item is not None and attempt is not None:
        from kranzq.cli.agent import check_url
        from kranzq.dispatch.own_item import ItemMarks

        check_url(url)
        found = guarding.guard_item(ItemMarks(item, attempt), os.environ, server, url)
    elif guarding.is_inside(os.environ):
        found = guarding.guard(os.environ)
    elif mission_only:
        raise NotFound("This is no mission: its environment has none of the marks of one.", "Leave --mission-only out.")
    else:
        found = guarding.Guarded()
    if as_json:
        say_json(found.to_json())
    elif found.item is not None or found.mission is not None:
        what = f"mission {found.mission}" if found.mission is not None else f"item {found.item}"
        say(f"The claim of {what} is its own.")
