"""The verb `notify`: who is told of events, a test by hand, and the key that signs what webhooks get."""

from __future__ import annotations

import os

import click

from kranzq.cli.say import local_time, say, say_json
from kranzq.errors import EXIT_FAILED, UsageFault
from kranzq.wiring import checkouts, hooks

_JSON = click.option("--json", "as_json", is_flag=True, help="For programs; keys are stable.")


@click.group()
def notify() -> None:
    """Be told what happens: by a program or a webhook for each event, named in [hooks] of the settings."""


@notify.command()
@click.argument("hook", required=False)
@_JSON
@click.pass_context
def test(ctx: click.Context, hook: str | None, as_json: bool) -> None:
    """Tell each configured hook, or the one named HOOK, a test event, now and once; 1 when one does not take it."""
    checkout = checkouts.find_checkout(ctx.obj, os.environ)
    configured = hooks.configured_hooks(checkout, os.environ)
    if hook is not None and hook not in configured:
        known = f"Configured are: {', '.join(configured)}" if configured else _advice()
        raise UsageFault(f"No hook {hook!r} is configured.", known)
    if not configured:
        raise UsageFault("No hook is configured, so nobody can be told.", _advice())
    results = []
    for name, command in configured.items():
        if hook in {None, name}:
            why = hooks.try_hook(checkout, os.environ, name, command)
            results.append({"hook": name, "receiver": hooks.shown(command), "taken": why is None, "why": why or ""})
            if not as_json:
                say(f"{name}: {hooks.shown(command)} {'took it' if why is None else f'did not take it: {why}'}")
    if as_json:
        say_json({"tried": results})
    failed = [one for one in results if not one["taken"]]
    if failed and not as_json:
        found = hooks.seen_hooks(checkout, os.environ)
        say(f"  What it printed: {found.folder if found is not None else ''}/log")
    ctx.exit(EXIT_FAILED if failed else 0)


@notify.command("list")
@_JSON
@click.pass_context
def list_(ctx: click.Context, as_json: bool) -> None:
    """Show whom each hook tells, and what waits to be told."""
    checkout = checkouts.find_checkout(ctx.obj, os.environ)
    configured = hooks.configured_hooks(checkout, os.environ)
    found = hooks.seen_hooks(checkout, os.environ)
    if as_json:
        receivers = {name: hooks.shown(command) for name, command in configured.items()}
        say_json({"hooks": receivers, "backlog": found.to_json() if found is not None else None})
        return
    for name, command in configured.items():
        say(f"{name}: {hooks.shown(command)}")
    if not configured:
        say("No hook is configured.", f"  {_advice()}")
    if found is not None and found.waiting:
        from kranzq.hooks.backlog import events_wait

        say(f"{events_wait(found.waiting)}, the oldest since {local_time(found.since)}.")
    for text, advice in found.notices() if found is not None else ():
        say(f"{text[:1].upper()}{text[1:]}.", f"  {advice}")


@notify.command()
@_JSON
@click.pass_context
def drop(ctx: click.Context, as_json: bool) -> None:
    """Give up what waits for receivers that no hook names any more, as after a wrong URL was mended."""
    checkout = checkouts.find_checkout(ctx.obj, os.environ)
    dropped = hooks.drop_unwanted(checkout, os.environ)
    if as_json:
        say_json({"dropped": [{"receiver": one.receiver, "events": one.events} for one in dropped]})
        return
    for one in dropped:
        say(f"{one.receiver}: {'1 event is' if one.events == 1 else f'{one.events} events are'} given up.")
    if not dropped:
        say("Nothing waits for a receiver that no hook names any more.")


@notify.command()
@click.option("--new", is_flag=True, help="Make another one; receivers must be given it.")
@_JSON
def secret(new: bool, as_json: bool) -> None:
    """Print the key that signs what webhooks get; it is made on first use."""
    key, path = hooks.signing_key(os.environ, renew=new)
    if as_json:
        say_json({"key": key, "file": path})
        return
    say(key)


def _advice() -> str:
    from kranzq.config import config_path

    return f'Write into {config_path(os.environ)}: [hooks] failed = ["PROGRAM"], or a URL in its place'
