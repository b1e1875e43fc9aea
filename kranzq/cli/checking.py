"""The verb `check`: settings, key, machine, queue. One line each; nothing is started and nothing is changed.

With `--prove` everything that the promises rest on is tried as well, in a scratch folder that is removed afterwards.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

import click

from kranzq.cli.numbers import Whole
from kranzq.cli.say import clean, say, say_json, say_styled, shade
from kranzq.errors import EXIT_FAILED, KranzqError, UsageFault
from kranzq.wiring import checkouts, configuring, hooks, looking, trusting, working

if TYPE_CHECKING:
    from kranzq.dispatch.checkup import Check
    from kranzq.model.checkout import Checkout

_COLOURS = {"ok": "green", "warning": "yellow", "fault": "red"}
_MARKS = {"ok": "\N{CHECK MARK}", "warning": "!", "fault": "\N{BALLOT X}"}


@click.command()
@click.option("--prove", is_flag=True, help="Try locks, renames, syncs, kills and recovery on this disk and kernel.")
@click.option("--seconds", type=Whole(1, 3600), default=120, show_default=True, help="How long --prove tries.")
@click.option("--json", "as_json", is_flag=True, help="For programs; keys are stable.")
@click.pass_context
def check(ctx: click.Context, prove: bool, seconds: int, as_json: bool) -> None:
    """Look for trouble without starting anything: 0 when there is no fault, 1 otherwise."""
    checkout = checkouts.find_checkout(ctx.obj, os.environ)
    found = list(_checks(checkout, os.environ))
    told: dict[str, object] = {"checks": [one.to_json() for one in found]}
    if not as_json:
        for one in found:
            mark = _mark(one.state)
            say_styled(f"{shade(mark, fg=_COLOURS[one.state])} {clean(f'{one.name}: {one.text}')}")
            if one.advice:
                say(f"{' ' * len(mark)}   {one.advice}")
    sound = all(one.state != "fault" for one in found)
    if prove:
        from kranzq.cli import proving

        proved = proving.prove(checkout, seconds, quiet=as_json)
        told |= proved.to_json()
        sound = sound and proved.sound
    if as_json:
        say_json(told)
    ctx.exit(0 if sound else EXIT_FAILED)


def _mark(state: str) -> str:
    """A tick, `!` or a cross on a terminal that can show them; else the word, which programs and logs look for."""
    can_show = sys.stdout.isatty() and (sys.stdout.encoding or "").lower().replace("-", "") == "utf8"
    return _MARKS[state] if can_show else state.ljust(8)


def _checks(checkout: Checkout, environ: Mapping[str, str]) -> Iterator[Check]:
    from kranzq.dispatch import checkup, machine_check

    settings, min_free = _settings(checkout, environ)
    yield from settings
    yield from checkup.of_keys(trusting.keyring(environ).seen)
    yield from machine_check.of_machine(checkout, environ.get("PATH"), min_free=min_free)
    yield from _work_queue(checkout, environ)
    yield from _hooks(checkout, environ)
    yield from checkup.of_checkout(checkout, as_root=checkouts.is_meant_as_root(environ))
    try:
        with looking.open_sight(checkout, environ) as sight:
            if sight is None:
                yield checkup.Check("queue", "warning", "there is none yet", "Make it with: kranzq init")
                return
            for part in (checkup.of_queue, checkup.of_claims, checkup.of_trust, checkup.of_planted, checkup.of_daemon):
                yield from part(sight)
    except KranzqError as fault:
        yield checkup.Check("queue", "fault", fault.sentence.rstrip("."), fault.advice)


def _work_queue(checkout: Checkout, environ: Mapping[str, str]) -> Iterator[Check]:
    """Whether the database of the work queue can be used; what is wrong with its setting was said before."""
    from kranzq.dispatch.checkup import Check

    try:
        seen = working.schema_of(None, environ, checkout.root)
    except UsageFault:
        return
    except KranzqError as fault:
        yield Check("work queue", "fault", fault.sentence.rstrip("."), fault.advice)
    else:
        advice = "" if seen.usable else "Upgrade kranzq on this machine"
        yield Check("work queue", "ok" if seen.usable else "fault", f"{seen.where}: {seen.text}", advice)


def _hooks(checkout: Checkout, environ: Mapping[str, str]) -> Iterator[Check]:
    """Who is told of events, and whether somebody takes nothing; a wrong setting was said before."""
    import shutil

    from kranzq.dispatch.checkup import Check

    try:
        configured = hooks.configured_hooks(checkout, environ)
    except KranzqError:
        return
    for name, command in configured.items():
        if not hooks.is_url(command) and shutil.which(command[0], path=environ.get("PATH")) is None:
            advice = f"Install it, or mend [hooks] {name}"
            yield Check("hooks", "warning", f"{name}: {command[0]} is not there or not executable", advice)
    trouble = hooks.hook_notices(checkout, environ)
    yield from (Check("hooks", "warning", *one) for one in trouble)
    if configured and not trouble:
        yield Check("hooks", "ok", f"told of events: {', '.join(configured)}")


def _settings(checkout: Checkout, environ: Mapping[str, str]) -> tuple[list[Check], int]:
    """What is wrong with the settings, and the space that a mission needs by them."""
    from kranzq.config import config_path, unknown_variables
    from kranzq.dispatch.checkup import Check

    found = []
    min_free = 0
    try:
        config = configuring.load_config(environ, checkout=checkout)
        min_free = config.mission.min_free_disk
        path = config_path(environ)
        found.append(Check("settings", "ok", path if os.path.exists(path) else f"the defaults; {path} is not there"))
        if not config.mission.command:
            text = "none is configured, so only missions with a command of their own can run"
            found.append(Check("command", "ok", text))
    except KranzqError as fault:
        found.append(Check("settings", "fault", fault.sentence.rstrip("."), fault.advice))
    of_checkout = configuring.checkout_settings(checkout, environ)
    if of_checkout.notice is not None:
        found.append(Check("checkout settings", "warning", *of_checkout.notice))
    elif of_checkout.state == "trusted":
        found.append(Check("checkout settings", "ok", f"{of_checkout.path} counts since {of_checkout.since}"))
    found += [
        Check("variables", "warning", f"{name} means nothing", "Look for a typing mistake, or unset it")
        for name in unknown_variables(environ)
    ]
    return found, min_free
