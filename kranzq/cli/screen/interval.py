"""How often `--watch` looks, and where it may."""

from __future__ import annotations

import click

from kranzq.cli.say import is_screen
from kranzq.config import parse_duration
from kranzq.errors import UsageFault

_LEAST_S = 0.2


def check_watch(text: str, *, as_json: bool = False) -> float:
    """The seconds from one look to the next. Raises UsageFault where nothing can be redrawn."""
    if as_json:
        raise click.UsageError("--watch and --json exclude each other; a program asks again, or reads live events.")
    try:
        every_s = parse_duration(text)
    except ValueError as fault:
        raise click.BadParameter(str(fault), param_hint="--watch") from fault
    if every_s < _LEAST_S:
        raise click.BadParameter(f"must be {_LEAST_S:g} s at least", param_hint="--watch")
    if not is_screen():
        raise UsageFault(
            "--watch needs a terminal.", "In a pipe leave it out; a program reads live events of a server."
        )
    return every_s
