"""The verbs of the approver: init and enqueue. What they decide is decided in `kranzq.dispatch`.

`enqueue` is called by hooks, so it imports nothing that it does not need, and its exit code says all a hook must know.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import click

from kranzq.cli.numbers import Whole
from kranzq.cli.say import clean, complain, local_time, say, say_json
from kranzq.cli.which_server import server_of_missions, server_option
from kranzq.errors import EXIT_BUSY, EXIT_FAILED, UsageFault
from kranzq.model.checkout import Checkout
from kranzq.model.clock import seconds_of
from kranzq.model.state import State
from kranzq.wiring import approving, checkouts, hooks, queues

if TYPE_CHECKING:
    from kranzq.dispatch.approve import Approved
    from kranzq.dispatch.request import Request
    from kranzq.model.entry import Entry


class WithCommand(click.Command):
    """A verb whose arguments behind `--` are a mission's command, whatever they look like."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Set the command aside before click sees it."""
        if "--" in args:
            at = args.index("--")
            args, command = args[:at], args[at + 1 :]
            if not command:
                raise click.UsageError("There is no command behind the '--'.", ctx)
            ctx.meta["kranzq.command"] = tuple(command)
        try:
            return super().parse_args(ctx, args)
        except click.UsageError as fault:
            if type(fault) is not click.UsageError or "kranzq.command" in ctx.meta:  # a subclass: an option is wrong
                raise
            advice = "Put -- before the command: MISSION -- COMMAND"
            raise click.UsageError(f"{fault.message.rstrip('.')}. {advice}", ctx) from fault

    def collect_usage_pieces(self, ctx: click.Context) -> list[str]:
        """The usage line names the command, too."""
        return [*super().collect_usage_pieces(ctx), "[-- COMMAND...]"]


@click.command()
@click.option("--as-root", is_flag=True, help="Root means it, in another user's checkout (in a container).")
@click.option("--yes", is_flag=True, help="Ask nothing: mend modes of directories, and take what is proposed.")
@click.pass_obj
def init(directory: str, *, as_root: bool, yes: bool) -> None:
    """Make the queue of this checkout, or of this directory where there is no git. Safe to repeat.

    On a terminal it asks what runs missions, how long they may take and who is told, unless that is settled.
    """
    from kranzq.dispatch.begin import begin

    checkout = checkouts.checkout_to_make(directory, os.environ)
    environ = checkouts.environ_of(os.environ, as_root=as_root)
    begun = begin(checkout, lambda one: queues.make_queue(one, environ), lambda text: yes or _is_granted(text))
    for path in begun.made:
        say(f"Made {path}")
    if begun.ignored:
        say(f"Added to {checkout.kranz}/.gitignore: {' '.join(begun.ignored)}")
    _remember(checkout, environ)
    say(f"The queue of {checkout.root} is {'ready' if begun.made else 'there already'}.")
    from kranzq.cli.first_hour import settle

    settle(checkout, environ, yes=yes)
    say("Next, type:", "  kranzq enqueue first -- echo hello", "  kranzq drain")
    if begun.tracked is None:
        complain(
            f"Whether git tracks runtime state below {checkout.kranz} could not be read from its index.",
            "  Look at it with: git status",
        )
    elif begun.tracked:
        complain(
            f"git tracks runtime state: {', '.join(begun.tracked[:3])}{' and more' if begun.tracked[3:] else ''}.",
            "  A clone would bring it along. Take it out of git with: git rm -r --cached FILE",
        )


def _remember(checkout: Checkout, environ: Mapping[str, str]) -> None:
    from kranzq.wiring import repos

    if (why := repos.remember(checkout.root, environ)) is not None:
        complain(f"kranzq repos will not show this checkout: {why}")


def _is_granted(question: str) -> bool:
    """Ask where somebody is there; else say what would be asked."""
    if sys.stdin.isatty():
        return click.confirm(clean(question), default=True)
    complain(question, "  If so, type: kranzq init --yes")
    return False


@click.command(cls=WithCommand)
@click.argument("mission", required=False)
@click.option("--priority", type=Whole(0, 255), default=2, show_default=True, help="0 to 255, lower is earlier.")
@click.option("--not-before", metavar="WHEN", help="Not before +90m, +2h30m, or a time with its zone (RFC 3339).")
@click.option("--after", metavar="M", multiple=True, help="Only when this mission has succeeded; may be repeated.")
@click.option("--future", is_flag=True, help="A mission named with --after may be one that comes later.")
@click.option("--timeout", metavar="DUR", help="End the mission after this time: 90s, 5m, 2h.")
@click.option("--retries", type=Whole(0, 1000), default=0, help="How often a failed run is tried again.")
@click.option("--env", metavar="K=V", multiple=True, help="A variable for the mission; may be repeated.")
@click.option("--cwd", metavar="SUB", default="", help="The directory to run in, inside the checkout.")
@click.option("--file", "files", metavar="F", multiple=True, help="Put a prompt or payload into the mission's input/.")
@click.option("--ticket", metavar="SLUG", help="The ticket that this mission is for.")
@click.option("--source", metavar="P:REF", help="Bind the mission to a producer's item.")
@click.option("--once", is_flag=True, help="Change nothing if the mission has ended before.")
@click.option("--again", is_flag=True, help="Queue one more run behind the running one.")
@click.option("--wait", is_flag=True, help="Return when it has ended, with the exit code of `wait`.")
@click.option("--follow", is_flag=True, help="As --wait, and show its output meanwhile.")
@server_option
@click.option("--json", "as_json", is_flag=True, help="For programs; keys are stable.")
@click.pass_context
def enqueue(
    ctx: click.Context, /, mission: str | None, *, wait: bool, follow: bool, as_json: bool, **given: Any
) -> None:
    """Approve a mission: when this returns 0 it is queued, durably, by this call or one before it.

    Without MISSION an id is made and printed. Without a COMMAND the configured one runs the mission.
    """
    from kranzq.dispatch.approve import approve

    if follow and as_json:
        raise click.UsageError("--follow and --json exclude each other: both write to the standard output.")
    request = _request(ctx, mission, given)
    if (server := server_of_missions()) is not None:
        from kranzq.cli import elsewhere_changing

        ctx.exit(elsewhere_changing.enqueue(server, request, given, wait=wait, follow=follow, as_json=as_json))
    checkout = checkouts.find_checkout(ctx.obj, os.environ)
    if wait or follow:
        checkouts.refuse_inside_mission(checkout, "enqueue --wait", os.environ)
    hooks.tell_hooks(checkout, os.environ, complain)
    with queues.make_queue(checkout) as queue:
        approved = approve(approving.approver(checkout, queue, os.environ), request)
        paused = queue.paused()
        ignored = approving.ignored_by_kranz(queue, approved)
    if ignored is not None:
        complain(f"kranz works in this checkout, too; as a dispatcher it {ignored} ({approved.entry.mission}).")
    _warn(checkout, approved, paused)
    if wait or follow:
        ctx.exit(_wait(checkout, approved, approved_text(approved, request), follow=follow, as_json=as_json))
    if as_json:
        say_json(approved.to_json())
    else:
        say(approved_text(approved, request))


def _wait(checkout: Checkout, approved: Approved, sentence: str, *, follow: bool, as_json: bool) -> int:
    """Wait for the end; the standard output belongs to the mission's output or to one JSON value."""
    from kranzq.cli.showing import end_json, end_text, sink
    from kranzq.dispatch.follow import wait_for_end
    from kranzq.wiring.waiting import open_look_settled

    if not as_json:
        complain(sentence)
    mission = approved.entry.mission
    end = wait_for_end(
        lambda: open_look_settled(checkout, os.environ, mission),
        checkout,
        mission,
        sink=sink() if follow else None,
        after_run=approved.after_run,
    )
    if as_json:
        say_json(approved.to_json() | {"end": end_json(mission, end)})
    else:
        complain(end_text(mission, end))
    return 0 if end.succeeded else EXIT_BUSY if end.state in {"parked", "quarantined"} else EXIT_FAILED


def _request(ctx: click.Context, mission: str | None, given: dict[str, Any]) -> Request:
    env = dict(approving.pair(text, "=", "--env", "NAME=VALUE") for text in given.pop("env"))
    files = _files(ctx.obj, given.pop("files"))
    command = ctx.meta.get("kranzq.command", ())
    return approving.request_of(mission, command=command, env=env, files=files, name_of="--{}".format, **given)


def _files(directory: str, paths: Sequence[str]) -> dict[str, bytes]:
    files: dict[str, bytes] = {}
    for path in paths:
        name = os.path.basename(path)
        if name in files:
            raise UsageFault(f"Two input files are called {name}.", "Each lies in input/ under its own name.")
        try:
            with open(os.path.join(directory, path), "rb") as file:
                files[name] = file.read()
        except OSError as fault:
            raise UsageFault(f"--file {path} cannot be read: {fault.strerror}.") from fault
    return files


def approved_text(approved: Approved, request: Request) -> str:
    """What is queued now, in a sentence for people."""
    entry = approved.entry
    if approved.last is not None and approved.last.outcome is not None:
        return f"{entry.mission} has ended already ({approved.last.outcome.value}); nothing was changed."
    where = f"priority {entry.priority}, number {entry.number}"
    if approved.created and approved.state is State.WAITING:
        return f"{entry.mission} waits {_until(entry)} ({where})."
    if approved.created:
        return f"{entry.mission} is queued ({where})."
    kept = "" if entry.priority == request.priority else f" Its priority stays {entry.priority}."
    own, asked = entry.own, (request.not_before, request.after)
    if any(asked) and (own is None or asked != (seconds_of(own.not_before), own.after)):
        kept += f" What it waits for stays as well; change it with: kranzq edit {entry.mission}"
    return f"{entry.mission} is {approved.state.value} already ({where}); nothing was changed.{kept}"


def _until(entry: Entry) -> str:
    own, parts = entry.own, []
    if own is not None and own.after:
        parts.append(f"until {', '.join(own.after)} has succeeded")
    if own is not None and own.not_before is not None:
        parts.append(f"until {local_time(seconds_of(own.not_before))}")
    return ", then ".join(parts)


def _warn(checkout: Checkout, approved: Approved, paused: str | None) -> None:
    """What keeps the mission from running, as far as it can be seen at once."""
    own = approved.entry.own
    if paused is not None and approved.state is not State.GONE:
        complain(f"No mission begins here now: paused ({paused}).", "  Go on with: kranzq resume")
    if not approved.created or (own is not None and own.command):
        return
    from kranzq.wiring.configuring import has_command

    if not has_command(os.environ, checkout):
        complain(
            f"{approved.entry.mission} has no command, and none is configured: it waits until there is one.",
            "  Set [mission] command in the user's config.toml, or cancel it and give one behind --.",
        )
