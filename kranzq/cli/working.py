"""The work queue's verbs: items that agents share, beside the missions of a checkout. Enqueueing stands here.

A number of priority means the opposite of a mission's: higher first. Each verb opens the database that `--url` or the
settings name; nothing of that is imported before.
"""

from __future__ import annotations

import os
import re
import sys
import time
from typing import TYPE_CHECKING, Any

import click

from kranzq.cli.agent import holder, open_store, store_option
from kranzq.cli.numbers import Whole
from kranzq.cli.say import local_time, say, say_json
from kranzq.cli.work_holding import claim, complete, heartbeat, release
from kranzq.cli.work_looking import list_, show, stats
from kranzq.cli.work_tending import cancel, prune, recover
from kranzq.errors import UsageFault
from kranzq.model.whole import parse_whole

if TYPE_CHECKING:
    from kranzq.backend.items import AcceptedItem
    from kranzq.model.work import NewItem

_JSON = click.option("--json", "as_json", is_flag=True, help="For programs; keys are stable.")
_MOST_PRIORITY = 2**31 - 1


class Priority(click.ParamType[int]):
    """A whole number that may be below zero."""

    name = "number"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """The number; click says which option is wrong."""
        if isinstance(value, int):
            return value
        minus, digits = re.fullmatch(r"(-?)(.*)", str(value), re.DOTALL).groups()  # type: ignore[union-attr]
        try:
            return parse_whole(digits, 0, _MOST_PRIORITY) * (-1 if minus else 1)
        except ValueError as fault:
            self.fail(f"it {fault}.", param, ctx)


@click.group()
def work() -> None:
    """Items that agents share: enqueue them, claim them for a while, hand in what came of them.

    Unlike a mission's, a higher priority comes first. Everything is kept in one database, the user's own or the one
    that work.url names.
    """


@work.command()
@click.argument("source", metavar="[-]", required=False)
@click.option("--title", metavar="TEXT", help="What it is about, in a line.")
@click.option("--payload", metavar="TEXT", help="What its taker gets to work with; `-` behind it all: from the input.")
@click.option("--file", "path", metavar="F", help="The payload, from a file (- for the input).")
@click.option("--kind", metavar="WORD", default="", help="A tag by which claimers choose.")
@click.option("--agent", metavar="NAME", default="", help="Only for this agent.")
@click.option("--agent-uid", metavar="UID", default="", help="Only for the agent with this uid.")
@click.option("--group", metavar="NAME", default="", help="Only for members of this group.")
@click.option("--priority", type=Priority(), default=0, show_default=True, help="Higher first (a mission's: lower).")
@click.option(
    "--max-attempts", type=Whole(1, 1_000_000), default=3, show_default=True, help="So often it may be tried."
)
@click.option("--not-before", metavar="WHEN", help="Not before +90m, +2h30m, or a time with its zone (RFC 3339).")
@click.option("--key", metavar="TEXT", default="", help="The same key again gives the item that is there.")
@click.option("--id", "name", metavar="ID", default="", help="An id of your own; else one is made.")
@click.option("--batch", metavar="FILE", help="Many items, one JSON object a line (- for the input).")
@store_option
@_JSON
@click.pass_context
def enqueue(ctx: click.Context, /, *, batch: str | None, url: str | None, as_json: bool, **given: Any) -> None:
    """Put an item into the queue. When this returns 0 it is there, durably; --key or --id make a repeat harmless.

    The payload is --payload TEXT, --file F, or `-` for the standard input.
    """
    if batch is not None:
        _enqueue_batch(ctx, batch, url, given, as_json=as_json)
        return
    new = _new(ctx.obj, given)
    with open_store(ctx.obj, url) as store:
        accepted = store.enqueue(new)
    if as_json:
        say_json(_answer(accepted))
    else:
        say(_sentence(accepted))


def _enqueue_batch(ctx: click.Context, batch: str, url: str | None, given: dict[str, Any], *, as_json: bool) -> None:
    from kranzq.model.work import MOST_BATCH
    from kranzq.model.work_lines import parse_lines

    default = ctx.get_parameter_source
    named = [one for one in given if default(one) not in {None, click.core.ParameterSource.DEFAULT}]
    if named:
        raise UsageFault("--batch stands alone: each line of the file says all of its item.")
    who = holder(None)
    new = parse_lines(_bytes_of(ctx.obj, batch, "--batch", limit=None), time.time(), who.name, who.uid)
    answers: list[AcceptedItem] = []
    with open_store(ctx.obj, url) as store:
        for begin in range(0, len(new), MOST_BATCH):
            answers += store.enqueue_many(new[begin : begin + MOST_BATCH])
    if as_json:
        say_json({"items": [_answer(one) for one in answers]})
    else:
        made = sum(one.created for one in answers)
        say(
            f"{made} items are in the queue"
            + (f"; {len(answers) - made} were there already." if made < len(answers) else ".")
        )


def _new(directory: str, given: dict[str, Any]) -> NewItem:
    from kranzq.model.work import NewItem, Target

    due = None
    if given["not_before"] is not None:
        from kranzq.model.when import due as due_at

        due = round(due_at("--not-before", given["not_before"], time.time()) * 1000)
    if not (given["title"] or "").strip():
        raise UsageFault("An item needs a title.", "Say what it is about with --title TEXT.")
    if "," in given["group"]:
        raise UsageFault(
            f"--group {given['group'][:200]!r} names more than one group, and an item is for one.",
            "Enqueue one for each, or one for all without --group.",
        )
    who = holder(None)
    return NewItem(
        title=given["title"],
        payload=_payload(directory, given),
        kind=given["kind"],
        target=Target(given["agent"], given["agent_uid"], given["group"]),
        priority=given["priority"],
        max_attempts=given["max_attempts"],
        not_before=due,
        created_by=who.name,
        created_by_uid=who.uid,
        id=given["name"],
        key=given["key"],
    )


def _payload(directory: str, given: dict[str, Any]) -> str:
    from kranzq.model.work import MOST_TEXT

    if given["source"] not in {None, "-"}:
        raise UsageFault(f"What is {given['source'][:100]!r} for?", "The payload is --payload TEXT, --file F, or - .")
    ways = [way for way in ("payload", "path", "source") if given[way] is not None]
    if len(ways) != 1:
        what = "none was given" if not ways else "more than one was given"
        raise UsageFault(
            f"An item needs one payload, and {what}.", "Give --payload TEXT, --file F, or - for the input."
        )
    if ways == ["payload"]:
        return str(given["payload"])
    path = given["path"] if ways == ["path"] else "-"
    data = _bytes_of(directory, path, "--file", limit=MOST_TEXT)
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as fault:
        raise UsageFault(
            f"The payload is no UTF-8 text (at byte {fault.start}).",
            "Put such data into a file that the payload names.",
        ) from fault


def _bytes_of(directory: str, path: str, flag: str, *, limit: int | None) -> bytes:
    """What a file or the standard input holds. Raises UsageFault, also where it is more than `limit`."""
    try:
        if path == "-":
            data = sys.stdin.buffer.read() if limit is None else sys.stdin.buffer.read(limit + 1)
        else:
            with open(os.path.join(directory, path), "rb") as file:
                data = file.read() if limit is None else file.read(limit + 1)
    except OSError as fault:
        raise UsageFault(f"{flag} {path} cannot be read: {fault.strerror}.") from fault
    if limit is not None and len(data) > limit:
        raise UsageFault(f"The payload has more than {limit} bytes.", "Put long texts into a file and name it.")
    return data


def _answer(accepted: AcceptedItem) -> dict[str, object]:
    from kranzq.model.work_json import item_json

    return {"id": accepted.entry.id, "created": accepted.created, "item": item_json(accepted.entry)}


def _sentence(accepted: AcceptedItem) -> str:
    item = accepted.entry
    where = f"priority {item.priority}, higher first"
    if not accepted.created:
        return f"{item.id} is {item.state.value} already; nothing was changed."
    if item.state.value == "delayed":
        assert item.not_before is not None
        return f"{item.id} is in the queue and waits until {local_time(item.not_before / 1000)} ({where})."
    return f"{item.id} is in the queue ({where})."


for _verb in (claim, heartbeat, complete, release, list_, show, stats, cancel, recover, prune):
    work.add_command(_verb)
