"""The verbs of the service: the daemon of this checkout, kept by systemd or launchd.

Everything is shown before it is written, and nothing is started or stopped that nobody asked for.
"""

from __future__ import annotations

import os
import shlex
import sys
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from kranzq.cli.say import complain, local_time, say, say_json, say_styled
from kranzq.errors import Conflict, DaemonRuns, KranzqError, Refused
from kranzq.model.clock import seconds_of
from kranzq.wiring import checkouts

if TYPE_CHECKING:
    from kranzq.dispatch.daemon_seen import DaemonSeen, HiddenDaemon
    from kranzq.model.checkout import Checkout
    from kranzq.wiring.service import Installed, Service, State

_JSON = click.option("--json", "as_json", is_flag=True, help="For programs; keys are stable.")
_YES = click.option("--yes", is_flag=True, help="Do not ask.")
_FORCE = click.option("--force", is_flag=True, help="Also when somebody has edited the file; the edits are lost.")
_DRIFT = {
    "not installed": ("not installed", "Install it with: kranzq service install"),
    "current": ("installed, and as it would be installed now", ""),
    "differs": ("installed, but another than would be installed now", "Renew it with: kranzq service install"),
    "edited": (
        "edited since it was installed",
        "Move the changes into a drop-in, or lose them: kranzq service install --force",
    ),
    "foreign": ("not kranzq's", "Look at it; replace it with: kranzq service install --force"),
}
_WITHOUT = "Without it: kranzq daemon in a terminal; to outlive that: nohup kranzq daemon &"


@click.group()
def service() -> None:
    """The daemon of this checkout as a service of yours, kept by systemd (on a Mac: launchd).

    One unit a checkout. A mission outlives each restart of it.
    """


@service.command()
@click.option("--print", "only_print", is_flag=True, help="Print the unit and do nothing else.")
@click.option("--now", is_flag=True, help="Also let the manager start it, now and from now on.")
@_YES
@_FORCE
@_JSON
@click.pass_obj
def install(directory: str, *, only_print: bool, now: bool, yes: bool, force: bool, as_json: bool) -> None:
    """Write the unit of this checkout, or renew it. Without --now nothing is started."""
    checkout = checkouts.find_checkout(directory, os.environ)
    one = _service(checkout)
    found = one.look()
    if only_print:
        say_styled(found.wanted.rstrip("\n"))
        return
    _check_asking(yes=yes, as_json=as_json)
    if (unsafe := checkouts.unsafe_here(checkout)) is not None:
        raise Refused(*unsafe)
    state, other = one.state(), _other_daemon(checkout)
    if now and state is None:
        raise KranzqError(f"{_no_manager(one)}. Nothing was written.", _WITHOUT)
    if now and other is not None:
        raise DaemonRuns(checkout.root, other)
    if not as_json and not found.is_exact:
        _show_change(one, found)
    _refuse_theirs(one, found, force=force)
    if not found.is_exact:
        if not _is_granted("Write it?", "kranzq service install --yes", yes=yes):
            say("Nothing was written.")
            return
        one.write(found.wanted)
    if now:
        one.start(active=state is not None and state.active and (state.stale or not found.is_exact))
    commands = [] if now else [*(["kranzq", "stop"] for _ in range(other is not None)), *_to_type(one, found, state)]
    if as_json:
        told = {"text": found.wanted, "changed": not found.is_exact, "started": now, "leftOut": [*one.left_out]}
        say_json(_json(one, checkout) | told | {"next": [shlex.join(words) for words in commands]})
        return
    _tell_installed(one, found, state, commands, now=now, other=other)


@service.command()
@_JSON
@click.pass_obj
def status(directory: str, *, as_json: bool) -> None:
    """Show whether it is installed and runs, and how it differs from what would be installed now."""
    from kranzq.dispatch.daemon_seen import DaemonSeen, daemon_of

    checkout = checkouts.find_checkout(directory, os.environ)
    one = _service(checkout)
    found, state, daemon = one.look(), one.state(), daemon_of(checkout)
    if as_json:
        diff = [] if found.is_exact or found.condition == "not installed" else found.diff(one.manager.path)
        told: dict[str, object] = {"condition": found.condition, "diff": diff, "why": found.why or None}
        told["state"] = None if state is None else {"active": state.active, "text": state.text}
        told["daemon"] = daemon.to_json() if isinstance(daemon, DaemonSeen) else None
        say_json(_json(one, checkout) | told)
        return
    _show_status(one, found, state, daemon)


@service.command()
@_YES
@_FORCE
@_JSON
@click.pass_obj
def remove(directory: str, *, yes: bool, force: bool, as_json: bool) -> None:
    """Let the daemon leave, and take away what install wrote. A running mission goes on."""
    checkout = checkouts.find_checkout(directory, os.environ)
    one = _service(checkout)
    found = one.look()
    _check_asking(yes=yes, as_json=as_json)
    gone: Sequence[str] = []
    if found.condition != "not installed":
        _refuse_theirs(one, found, force=force)
        state = one.state()
        leaves = "Its daemon leaves; a running mission goes on, and nothing new begins. " if state else ""
        question = f"{leaves}Remove {one.manager.path}?"
        if not _is_granted(question, "kranzq service remove --yes", yes=yes):
            say("Nothing was removed.")
            return
        gone = one.remove(state)
    kept = one.manager.kept()
    if as_json:
        say_json(_json(one, checkout) | {"removed": [*gone], "kept": kept})
        return
    said = [f"Removed: {path}" for path in gone] or [f"{one.manager.unit} is not installed."]
    say(*said)
    if kept is not None:
        say(f"Your own changes in {kept} are still there.")


def _service(checkout: Checkout) -> Service:
    from kranzq.wiring.service import Service

    return Service(checkout, os.environ)


def _json(one: Service, checkout: Checkout) -> dict[str, object]:
    return {
        "repo": checkout.root,
        "manager": one.manager.kind,
        "service": one.manager.unit,
        "file": one.manager.path,
    }


def _other_daemon(checkout: Checkout) -> str | None:
    """Who serves the checkout and is not this service; None where nobody does."""
    from kranzq.dispatch.daemon_seen import DaemonSeen, daemon_of
    from kranzq.wiring.service import unit_that_keeps

    daemon = daemon_of(checkout)
    if not isinstance(daemon, DaemonSeen) or unit_that_keeps(checkout, daemon.pid) is not None:
        return None
    return f"pid {daemon.pid}, since {local_time(seconds_of(daemon.since))}"


def _no_manager(one: Service) -> str:
    return f"{one.manager.kind} does not run here for you, so nothing starts the daemon"


def _check_asking(*, yes: bool, as_json: bool) -> None:
    if as_json and not yes:
        raise click.UsageError("With --json nobody can be asked; give --yes as well.")


def _refuse_theirs(one: Service, found: Installed, *, force: bool) -> None:
    if not found.is_theirs or force:
        return
    path = one.manager.path
    if found.condition == "edited":
        where = "into a drop-in" if one.manager.kind == "systemd" else "elsewhere"
        advice = f"Move the changes {where}, or lose them with --force."
        raise Conflict(f"{path} was edited since it was installed.", advice)
    why = f": {found.why}" if found.why else ""
    raise Conflict(f"{path} is not kranzq's{why}.", "Look at it; replace or remove it with --force.")


def _is_granted(question: str, command: str, *, yes: bool) -> bool:
    if yes:
        return True
    if not sys.stdin.isatty():
        raise Refused("Nobody is here to be asked.", f"When you have read it, type: {command}")
    return click.confirm(question, default=False)


def _show_change(one: Service, found: Installed) -> None:
    if found.condition == "not installed":
        say(f"{one.manager.path} is not there yet. It would be:")
    else:
        say(f"{one.manager.path}: {_DRIFT[found.condition][0]}. What would change:")
    say(*(f"  | {line}" for line in found.diff(one.manager.path)))


def _to_type(one: Service, found: Installed, state: State | None) -> Sequence[Sequence[str]]:
    is_active = state is not None and state.active
    if found.is_exact and state is not None and is_active and not state.stale:
        return []
    return one.manager.to_start(active=is_active)


def _tell_installed(
    one: Service,
    found: Installed,
    state: State | None,
    commands: Sequence[Sequence[str]],
    *,
    now: bool,
    other: str | None,
) -> None:
    say(
        f"{one.manager.unit} is installed already; nothing was written."
        if found.is_exact
        else f"Written: {one.manager.path}"
    )
    if one.left_out:
        complain(
            f"Not told to the service, since every program of yours may read it: {', '.join(one.left_out)}.",
            "  Put secrets into config.toml, or the file that it names.",
        )
    if state is None:
        complain(f"{_no_manager(one)}.", f"  {_WITHOUT}")
    if other is not None:
        say(f"Another daemon serves the checkout ({other}); it has to leave first.")
    if now:
        say("It runs, and is started again whenever it ends.")
    elif commands:
        say(
            "Now type:" if state is not None else "Where it runs, type:",
            *(f"  {shlex.join(words)}" for words in commands),
        )
    say("Later:", *(f"  {shlex.join(words):<60}  {what}" for what, words in one.manager.to_know()))


def _show_status(one: Service, found: Installed, state: State | None, daemon: DaemonSeen | HiddenDaemon | None) -> None:
    from kranzq.cli.showing import daemon_text

    text, advice = _DRIFT[found.condition]
    if state is None and found.condition == "not installed":
        advice = ""  # nobody would start it
    if found.of_another_shell:
        advice = (
            "Its search path or umask is another than in this shell. To take over this shell's: kranzq service install"
        )
    say(f"{one.manager.unit} ({one.manager.kind})", f"  file     {one.manager.path}", f"           {text}")
    if found.why:
        say(f"           {found.why}")
    if found.condition in {"differs", "edited"}:
        say(*(f"           | {line}" for line in found.diff(one.manager.path)))
    if advice:
        say(f"           {advice}")
    if (kept := one.manager.kept()) is not None:
        say(f"  drop-in  {kept}")
    if found.condition != "not installed" or state is None or state.active:
        say(f"  {one.manager.kind:<8} {state.text if state is not None else 'does not run here for you'}")
        if state is None or state.advice:
            say(f"           {state.advice if state is not None else _WITHOUT}")
    say(f"  daemon   {daemon_text(daemon, time.time())}")
