"""The verbs about a database's schema: show and migrate."""

from __future__ import annotations

import os

import click

from kranzq.cli.agent import url_option
from kranzq.cli.say import say, say_json
from kranzq.cli.watched import long_work
from kranzq.wiring import working

_JSON = click.option("--json", "as_json", is_flag=True, help="For programs; keys are stable.")


@click.group()
def schema() -> None:
    """The schema of the work queue's database: what it has, and bringing it up to date."""


@schema.command()
@url_option
@_JSON
@click.pass_obj
def show(directory: str, *, url: str | None, as_json: bool) -> None:
    """Show which schema the database has and which one this kranzq makes. Changes nothing."""
    found = working.schema_of(url, os.environ, directory)
    if as_json:
        say_json(found.to_json())
        return
    say(f"{found.where}: {found.text}")


@schema.command()
@url_option
@_JSON
@click.pass_obj
def migrate(directory: str, *, url: str | None, as_json: bool) -> None:
    """Bring the database up to date. Each step is whole or not done; a newer schema is refused untouched."""
    with long_work():
        found = working.migrate(url, os.environ, directory)
    if as_json:
        say_json(found.to_json())
    else:
        say(f"{found.where}: {found.text}")
