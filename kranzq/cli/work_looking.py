"""The verbs that look at items: list, show, stats. Where nothing was ever put, they make no database."""

from __future__ import annotations

import click

from kranzq.cli.agent import open_to_look, store_option
from kranzq.cli.numbers import Whole
from kranzq.cli.say import say, say_json
from kranzq.errors import NoSuchItem, UsageFault

_JSON = click.option("--json", "as_json", is_flag=True, help="For programs; keys are stable.")
_STATES = ("open", "delayed", "claimed", "lapsed", "done", "failed", "cancelled")
_MOST_PAGE = 500


@click.command("list")
@click.option("--state", type=click.Choice(_STATES), help="Only these; open finds delayed and lapsed ones, too.")
@click.option("--limit", type=Whole(1, _MOST_PAGE), default=50, show_default=True, help="So many at most.")
@click.option("--cursor", metavar="C", help="Where the last page ended.")
@click.option(
    "--unseen", is_flag=True, help="Only open ones whose agent or group never asked for work: perhaps a mistyped name."
)
@store_option
@_JSON
@click.pass_obj
def list_(
    directory: str,
    *,
    state: str | None,
    limit: int,
    cursor: str | None,
    unseen: bool,
    url: str | None,
    as_json: bool,
) -> None:
    """Show items, newest change first; the next page begins with --cursor."""
    from kranzq.cli.work_showing import items_text
    from kranzq.model.work import Page
    from kranzq.model.work_json import page_json

    if unseen and (state is not None or cursor is not None):
        raise UsageFault("--unseen stands alone: it shows open items only, on one page.")
    page = Page((), None)
    store = open_to_look(directory, url)
    if store is not None:
        with store:
            page = (
                Page(tuple(store.unseen(limit)), None)
                if unseen
                else store.page(state or "", limit=limit, cursor=cursor)
            )
    if as_json:
        say_json(page_json(page))
        return
    items_text(page.items, "No such item." if state or unseen or cursor else "The queue is empty.")
    if page.cursor is not None:
        say(f"More: the same again, with --cursor {page.cursor}")


@click.command()
@click.argument("item", metavar="ID")
@store_option
@_JSON
@click.pass_obj
def show(directory: str, item: str, *, url: str | None, as_json: bool) -> None:
    """Show one item: where it is, its payload, and every attempt with its end."""
    from kranzq.cli.work_showing import item_text
    from kranzq.model.work_json import attempt_json, item_json

    store = open_to_look(directory, url)
    if store is None:
        raise NoSuchItem(item)
    with store:
        found, attempts = store.show(item), store.attempts(item)
    if as_json:
        say_json({"item": item_json(found), "attempts": [attempt_json(one) for one in attempts]})
    else:
        item_text(found, attempts)


@click.command()
@store_option
@_JSON
@click.pass_obj
def stats(directory: str, *, url: str | None, as_json: bool) -> None:
    """Count items by state; name leases that are over, mistyped agents, a log that grows, and the oldest open item."""
    from kranzq.cli.work_showing import stats_text, warnings
    from kranzq.model.work import ItemState, Stats
    from kranzq.model.work_json import stats_json

    store = open_to_look(directory, url)
    found = Stats({state.value: 0 for state in ItemState}, 0, 0, None, 0, 0)
    if store is not None:
        with store:
            found = store.stats()
    if as_json:
        say_json(stats_json(found) | {"warnings": [text for text, _ in warnings(found)]})
    else:
        stats_text(found)
