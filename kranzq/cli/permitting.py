"""The verbs that permit: trust for what may run here, pause and resume for whether anything begins at all."""

from __future__ import annotations

import os
import shlex
from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from kranzq import wiring
from kranzq.cli.say import say, say_json

if TYPE_CHECKING:
    from kranzq.dispatch.allow import Waiting

_JSON = click.option("--json", "as_json", is_flag=True, help="For programs; keys are stable.")


@click.command()
@click.option("--unsigned", is_flag=True, help="Let unsigned entries here name missions for the configured command.")
@click.option("--here", is_flag=True, help="This checkout was moved or copied: sign its entries for this place.")
@click.option("--withdraw", is_flag=True, help="Let unsigned entries wait again.")
@_JSON
@click.pass_obj
def trust(directory: str, *, unsigned: bool, here: bool, withdraw: bool, as_json: bool) -> None:
    """Allow what the queue alone may not: it lies in the checkout, where anything that writes could plant work.

    Without a flag it shows what is allowed here and which entries wait for what.
    """
    if unsigned + here + withdraw > 1:
        raise click.UsageError("Give one of --unsigned, --here and --withdraw.")
    checkout = wiring.find_checkout(directory, os.environ)
    with wiring.open_queue(checkout) as queue:
        one = wiring.trust(checkout, queue, os.environ)
        if unsigned:
            one.approvals.allow_unsigned(checkout.root)
        withdrawn = withdraw and one.approvals.withdraw_unsigned(checkout.root)
        signed = one.sign_moved() if here else []
        waiting, allowed = one.waiting(), one.approvals.unsigned(checkout.root)
    if as_json:
        shown = {"repo": checkout.root, "unsigned": allowed, "signed": [each.to_json() for each in signed]}
        say_json(shown | {"waiting": [each.to_json() for each in waiting]})
        return
    if here:
        say(_signed(signed, checkout.root))
    if withdraw and not withdrawn:
        say("Nothing was allowed, so nothing was withdrawn.")
    say(f"Unsigned entries of {checkout.root} {'may run' if allowed else 'wait: they are not allowed to run'}.")
    for each in waiting:
        say(f"{each.mission} ({each.state.value}): {each.why}.\n  {each.advice}")


@click.command()
@click.argument("reason", nargs=-1)
@click.pass_obj
def pause(directory: str, reason: Sequence[str]) -> None:
    """Let no new mission begin; a running one goes on."""
    checkout = wiring.find_checkout(directory, os.environ)
    with wiring.make_queue(checkout) as queue:
        queue.pause(" ".join(reason) or f"by {wiring.user_name()}")
    say("Paused: no new mission begins here, a running one goes on.\n  Go on with: kranzq resume")


@click.command()
@click.pass_obj
def resume(directory: str) -> None:
    """Let missions begin again."""
    checkout = wiring.find_checkout(directory, os.environ)
    with wiring.open_queue(checkout) as queue:
        resumed = queue.resume()
    say("Missions begin again." if resumed else "Nothing was paused here.")


def _signed(signed: Sequence[Waiting], root: str) -> str:
    if not signed:
        return "No entry was signed for another place by you; nothing was changed."
    lines = [
        f"  {each.mission}: {shlex.join(each.command) or 'the configured command'} ({each.why})" for each in signed
    ]
    return "\n".join([f"Signed for {root}:", *lines])
