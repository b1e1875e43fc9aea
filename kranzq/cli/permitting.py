"""The verbs pause and resume: whether anything begins at all."""

from __future__ import annotations

import os
from collections.abc import Sequence

import click

from kranzq.cli.say import say
from kranzq.wiring import checkouts, queues, trusting


@click.command()
@click.argument("reason", nargs=-1)
@click.pass_obj
def pause(directory: str, reason: Sequence[str]) -> None:
    """Let no new mission begin; a running one goes on."""
    checkout = checkouts.find_checkout(directory, os.environ)
    with queues.make_queue(checkout) as queue:
        queue.pause(" ".join(reason) or f"by {trusting.user_name()}")
    say("Paused: no new mission begins here, a running one goes on.", "  Go on with: kranzq resume")


@click.command()
@click.pass_obj
def resume(directory: str) -> None:
    """Let missions begin again."""
    checkout = checkouts.find_checkout(directory, os.environ)
    with queues.open_to_change(checkout) as queue:
        resumed = queue.resume()
    say("Missions begin again." if resumed else "Nothing was paused here.")
