"""The verb `trust`: what may run here, what waits for a person, and the word of that person, recorded outside."""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from kranzq.cli.say import complain, complain_of, local_time, say, say_json
from kranzq.errors import Refused
from kranzq.model.database_url import without_passwords
from kranzq.wiring import checkouts, trusting

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kranzq.config.checkout import Change
    from kranzq.dispatch.allow import Trust, Waiting
    from kranzq.model.checkout import Checkout


@click.command()
@click.option("--settings", is_flag=True, help="Show .kranz/kranzq.toml, and let exactly this text count.")
@click.option("--unsigned", is_flag=True, help="Let unsigned entries here name missions for the configured command.")
@click.option("--here", is_flag=True, help="This checkout was moved or copied: sign its entries for this place.")
@click.option("--withdraw", is_flag=True, help="Let unsigned entries wait, and the settings count no more.")
@click.option("--rotate-key", is_flag=True, help="Sign with a new key from now on; what older ones signed stays good.")
@click.option("--yes", is_flag=True, help="Do not ask.")
@click.option("--json", "as_json", is_flag=True, help="For programs; keys are stable.")
@click.pass_obj
def trust(directory: str, /, *, yes: bool, as_json: bool, **wished: bool) -> None:
    """Allow what the checkout alone may not: anything that writes in it, or is cloned, could plant work.

    Without a flag it shows what is allowed here and what waits for what; on a terminal it asks about new settings.
    """
    if sum(wished.values()) > 1:
        raise click.UsageError("Give one of --settings, --unsigned, --here, --withdraw and --rotate-key.")
    checkout = checkouts.find_checkout(directory, os.environ)
    changing = any(wished.values())
    if not changing and (unsafe := checkouts.unsafe_here(checkout)) is not None:
        complain(f"Only looking works here: {unsafe[0]}", f"  {unsafe[1]}")
    with trusting.open_trust(checkout, os.environ, to_change=changing) as one:
        if as_json and wished["settings"] and not yes:
            raise click.UsageError("With --json nobody can be asked; give --yes as well.")
        said = _carry_out(one, checkout, wished, yes=yes, as_json=as_json)
        if as_json:
            say_json(one.to_json() | {"signed": [each.to_json() for each in said]})
            return
        _show(one)
        if not changing and one.settings().state in {"not trusted", "changed"} and sys.stdin.isatty():
            _allow_settings(one, checkout, yes=yes)


def _carry_out(
    one: Trust, checkout: Checkout, wished: Mapping[str, bool], *, yes: bool, as_json: bool
) -> Sequence[Waiting]:
    """Do what was wished; the entries that were signed."""
    if wished["settings"]:
        _allow_settings(one, checkout, yes=yes, quiet=as_json)
    if wished["unsigned"]:
        one.approvals.allow_unsigned(checkout.root)
    if wished["withdraw"]:
        unsigned, settings = (
            one.approvals.withdraw_unsigned(checkout.root),
            one.approvals.withdraw_settings(checkout.root),
        )
        if not (unsigned or settings or as_json):
            say("Nothing was allowed, so nothing was withdrawn.")
    if wished["rotate_key"]:
        key = one.keys.rotate()
        if not as_json:
            say(f"Key {key.id} signs from now on. What older keys signed stays good as long as their files are there.")
    signed = one.sign_moved() if wished["here"] else []
    if wished["here"] and not as_json:
        say(*_signed(signed, checkout.root))
    return signed


def _allow_settings(one: Trust, checkout: Checkout, *, yes: bool, quiet: bool = False) -> None:
    """Show the settings and what they change, ask, and record the digest of exactly what was shown."""
    from kranzq.config.checkout import changes

    seen = one.settings()
    if seen.state == "none":
        raise Refused(f"{seen.path} is not there, so there is nothing to allow.", "")
    if seen.state == "refused":
        raise Refused(f"{seen.path} is refused: {seen.why}.", "Look at it, and mend or remove it.")
    changed = changes(os.environ, seen)
    if not quiet:
        say(f"{seen.path}:")
        for line in seen.data.decode("utf-8", "backslashreplace").splitlines():
            say(f"  | {without_passwords(line)}")
        say("What it sets here:" if changed else "It sets nothing.")
        for change in changed:
            say(f"  {_change_text(change)}")
    if not yes and not _is_granted():
        say("Nothing was allowed.")
        return
    one.approvals.allow_settings(checkout.root, seen.digest)
    if not quiet:
        say("These settings count from now on, until the file is changed.")


def _is_granted() -> bool:
    if not sys.stdin.isatty():
        raise Refused("Nobody is here to be asked.", "When you have read it, type: kranzq trust --settings --yes")
    return click.confirm("Let exactly these settings count?", default=False)


def _change_text(change: Change) -> str:
    if change.now == change.then:
        return f"{change.name} = {_value(change.then)}  (as it is now)"
    return f"{change.name} = {_value(change.then)}  (now: {_value(change.now)})"


def _value(value: object) -> str:
    return shlex.join(value) if isinstance(value, tuple) and value else repr(value) if value != () else "nothing"


def _show(one: Trust) -> None:
    from kranzq.dispatch.planted import tracked_notice

    allowed = one.approvals.unsigned(one.root)
    say(f"Unsigned entries of {one.root} {'may run' if allowed else 'wait: they are not allowed to run'}.")
    seen = one.settings()
    if seen.notice is not None:
        say(f"{seen.notice[0]}.", f"  {seen.notice[1]}")
    else:
        say(f"{seen.path} " + (f"counts since {seen.since}." if seen.state == "trusted" else "is not there."))
    try:
        keys = one.keys.seen()
    except Refused as fault:
        complain_of(fault)
        keys = []
    for key in keys:
        word = "signs" if key.current else "verifies what it signed"
        say(f"Key {key.id} {word}{', unless: ' + key.fault if key.fault else ''}; made {local_time(key.since)}.")
    if (tracked := tracked_notice(one.root)) is not None:
        say(f"{tracked[0]}.", f"  {tracked[1]}")
    for each in one.waiting():
        say(f"{each.mission} ({each.state.value}): {each.why}.", f"  {each.advice}")


def _signed(signed: Sequence[Waiting], root: str) -> list[str]:
    if not signed:
        return ["No entry was signed for another place by you; nothing was changed."]
    lines = [
        f"  {each.mission}: {shlex.join(each.command) or 'the configured command'} ({each.why})" for each in signed
    ]
    return [f"Signed for {root}:", *lines]
