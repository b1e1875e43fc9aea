"""The verbs of whoever holds items: claim, heartbeat, complete, release. The number of the attempt is the fence."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, Any

import click

from kranzq.cli.agent import agent_option, groups, holder, open_store, store_option
from kranzq.cli.numbers import Whole
from kranzq.cli.say import complain, local_time, say, say_json
from kranzq.errors import EXIT_LATER, UsageFault

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kranzq.backend import Wanted
    from kranzq.backend.items import WorkStore
    from kranzq.model.work import Held, ItemClaim

_JSON = click.option("--json", "as_json", is_flag=True, help="For programs; keys are stable.")
_ITEM = click.argument("item", metavar="ID")
_ATTEMPT = click.option(
    "--attempt", type=Whole(1, 2**31 - 1), required=True, help="The attempt that the claim gave: your fence."
)
_LEASE = click.option("--lease", metavar="DUR", help="How long it counts without a heartbeat; else work.lease.")
_ONLY_WITH_EXEC = ("forever", "fail_on_error", "timeout")


class WithExec(click.Command):
    """A verb whose arguments behind `--exec` are a command, whatever they look like."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Set the command aside before click sees it."""
        if "--exec" in args:
            at = args.index("--exec")
            args, command = args[: at + 1], args[at + 1 :]
            command = command[1:] if command[:1] == ["--"] else command
            if not command:
                raise click.UsageError("There is no command behind --exec.", ctx)
            ctx.meta["kranzq.command"] = tuple(command)
        return super().parse_args(ctx, args)

    def collect_usage_pieces(self, ctx: click.Context) -> list[str]:
        """The usage line names the command, too."""
        return [*super().collect_usage_pieces(ctx), "[--exec COMMAND...]"]


@click.command(cls=WithExec)
@click.option("--kind", metavar="WORD", default="", help="Only items of this kind.")
@click.option("--group", "group", metavar="NAME", multiple=True, help="A group of yours; else $KRANZQ_AGENT_GROUPS.")
@click.option("--id", "item", metavar="ID", multiple=True, help="Only this item; may be repeated.")
@_LEASE
@click.option("--count", type=Whole(1, 1000), default=1, show_default=True, help="So many items at most.")
@click.option("--request-id", metavar="TEXT", default="", help="The same id again gives the same item and attempt.")
@click.option("--wait", "wait_for", metavar="DUR", help="Wait so long for something to claim.")
@click.option(
    "--exec", "execute", is_flag=True, help="Run what stands behind it with each item, and settle by its exit."
)
@click.option("--forever", is_flag=True, help="With --exec: item after item, waiting between; TERM or INT ends it.")
@click.option("--fail-on-error", is_flag=True, help="With --exec: a command that fails ends its item as failed.")
@click.option("--timeout", metavar="DUR", help="With --exec: end a command that runs longer.")
@agent_option
@store_option
@_JSON
@click.pass_context
def claim(ctx: click.Context, /, *, execute: bool, as_json: bool, **given: Any) -> None:
    """Claim the first item that you may have: highest priority, then the oldest. 75: there is nothing.

    It is yours while its lease lasts; renew that with `kranzq work heartbeat`. With --exec CMD all of this is done for
    you: CMD gets the payload on its input, the lease is kept, and its exit code settles the item.
    """
    if given["request_id"] and given["count"] > 1:
        raise UsageFault("--request-id is for one item.", "Leave --count out.")
    if execute:
        from kranzq.cli.work_running import run_items

        if as_json:
            raise UsageFault("--exec and --json exclude each other: the standard output is the command's.")
        ctx.exit(run_items(ctx.obj, ctx.meta["kranzq.command"], given))
    if alone := [name for name in _ONLY_WITH_EXEC if given[name]]:
        raise UsageFault(f"--{alone[0].replace('_', '-')} is for --exec.", "Put --exec COMMAND at the end.")
    with open_store(ctx.obj, given["url"]) as store:
        found = _claim(store, ctx.obj, given)
        nothing = None if found else _why_nothing(store, given["item"])
    if nothing is not None:
        if as_json:
            say_json({"claimed": []})
        complain(nothing)
        ctx.exit(EXIT_LATER)
    if as_json:
        from kranzq.model.work_json import claim_json

        say_json({"claimed": [claim_json(one) for one in found]})
        return
    from kranzq.cli.work_showing import claim_text

    for number, one in enumerate(found):
        if number:
            say()
        claim_text(one)


@click.command()
@_ITEM
@_ATTEMPT
@_LEASE
@agent_option
@store_option
@_JSON
@click.pass_obj
def heartbeat(
    directory: str, item: str, *, attempt: int, lease: str | None, agent: str | None, url: str | None, as_json: bool
) -> None:
    """Say that you work on it: its lease counts anew from now on. 4: it is not yours any more, stop working on it."""
    from kranzq.model.work_json import claim_json

    with open_store(directory, url) as store:
        kept = store.heartbeat(_held(item, attempt, agent), lease_ms(directory, lease))
    if as_json:
        say_json({"ok": True, **claim_json(kept)})
    else:
        assert kept.item.claim_expires is not None
        say(f"{item} is yours until {local_time(kept.item.claim_expires / 1000)}.")


@click.command()
@_ITEM
@_ATTEMPT
@click.option("--result", metavar="TEXT", help="What came of it.")
@click.option("--result-file", metavar="F", help="That, from a file (- for the input).")
@click.option("--failed", is_flag=True, help="It did not work out, and nobody shall try again.")
@agent_option
@store_option
@_JSON
@click.pass_obj
def complete(directory: str, /, item: str, *, attempt: int, url: str | None, as_json: bool, **given: Any) -> None:
    """Hand in an item for good: done, or with --failed failed. The same again is a success. 4: it is not yours."""
    from kranzq.model.outcome import Outcome

    text, path = given["result"] or "", given["result_file"]
    if path is not None:
        if given["result"] is not None:
            raise UsageFault("--result and --result-file exclude each other.")
        text = _text_of(directory, path)
    with open_store(directory, url) as store:
        store.finish(
            _held(item, attempt, given["agent"]), Outcome.FAILED if given["failed"] else Outcome.SUCCEEDED, text
        )
    state = "failed" if given["failed"] else "done"
    if as_json:
        say_json({"ok": True, "id": item, "state": state})
    else:
        say(f"{item} is {state}.")


@click.command()
@_ITEM
@_ATTEMPT
@click.option("--reason", metavar="TEXT", default="", help="Why; whoever claims it next is told.")
@click.option("--declined", is_flag=True, help="You did not try: this uses up no attempt.")
@click.option("--delay", metavar="DUR", help="Nobody gets it before that has passed; at most 30d.")
@agent_option
@store_option
@_JSON
@click.pass_obj
def release(directory: str, /, item: str, *, attempt: int, url: str | None, as_json: bool, **given: Any) -> None:
    """Give an item back, to be claimed again; says where it is now. Without an attempt left it is failed."""
    from kranzq.model.work import MOST_DELAY_MS

    delay_ms = round(seconds_of("--delay", given["delay"] or "0") * 1000)
    if delay_ms > MOST_DELAY_MS:
        raise UsageFault("--delay must be at most 30d.")
    held = _held(item, attempt, given["agent"])
    with open_store(directory, url) as store:
        state = store.release(held, given["reason"], declined=given["declined"], delay_ms=delay_ms)
    if as_json:
        say_json({"ok": True, "id": item, "state": state.value})
    elif state.is_terminal:
        say(f"{item} is {state.value}: it has no attempt left.")
    else:
        say(f"{item} is {state.value} again.")


def lease_ms(directory: str, text: str | None) -> int:
    """The lease that is asked for, else that of the settings. Raises UsageFault."""
    from kranzq.config.values import parse_lease
    from kranzq.wiring import working

    if text is None:
        return round(working.work_config(os.environ, directory).work.lease * 1000)
    try:
        return max(1, round(parse_lease(text) * 1000))  # 0 would be: none was said
    except ValueError as fault:
        raise UsageFault(f"--lease {fault}.") from fault


def wanted(given: dict[str, Any]) -> Wanted:
    """What a claimer takes."""
    from kranzq.backend import Wanted

    return Wanted(frozenset(given["item"]), given["kind"], groups(given["group"]))


def _claim(store: WorkStore, directory: str, given: dict[str, Any]) -> Sequence[ItemClaim]:
    from kranzq.agents.waiting import until_there_is_one

    who, what, lease = holder(given["agent"]), wanted(given), lease_ms(directory, given["lease"])

    def take() -> list[ItemClaim] | None:
        if given["count"] > 1:
            return store.claim_many(who, what, limit=given["count"], lease_ms=lease) or None
        one = store.claim(who, what, lease_ms=lease, request_id=given["request_id"])
        return [one] if one is not None else None

    def wait(seconds: float) -> bool:
        store.wait_for_work(seconds)
        return True

    return until_there_is_one(take, seconds_of("--wait", given["wait_for"] or "0"), wait) or []


def _why_nothing(store: WorkStore, items: Sequence[str]) -> str:
    """Why nothing was claimed. Raises NoSuchItem for an id that is none."""
    from kranzq.cli.work_showing import whom

    found = [f"{one.id} is {one.state.value}, for {whom(one)}" for one in map(store.show, items)]
    return f"There is nothing to claim{': ' if found else ''}{'; '.join(found)}."


def _held(item: str, attempt: int, agent: str | None) -> Held:
    from kranzq.model.work import Held

    return Held(item, attempt, holder(agent))


def _text_of(directory: str, path: str) -> str:
    try:
        if path == "-":
            data = sys.stdin.buffer.read()
        else:
            with open(os.path.join(directory, path), "rb") as file:
                data = file.read()
        return data.decode()
    except OSError as fault:
        raise UsageFault(f"--result-file {path} cannot be read: {fault.strerror}.") from fault
    except UnicodeDecodeError as fault:
        raise UsageFault(f"--result-file {path} is no UTF-8 text (at byte {fault.start}).") from fault


def seconds_of(flag: str, text: str, *, positive: bool = False) -> float:
    """The length of time behind a flag. Raises UsageFault."""
    from kranzq.config.values import parse_duration, parse_positive

    try:
        return parse_positive(text) if positive else parse_duration(text)
    except ValueError as fault:
        raise UsageFault(f"{flag} {fault}.") from fault
