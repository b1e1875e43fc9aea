"""The verbs that dispatch: daemon, drain, stop, recover."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, TextIO

import click

from kranzq.cli.say import complain, is_screen, mention, say, say_json
from kranzq.cli.watched import long_work
from kranzq.errors import EXIT_BUSY, EXIT_FAILED, EXIT_LATER, EXIT_NOT_FOUND
from kranzq.wiring import checkouts, dispatching, queues, repos

if TYPE_CHECKING:
    from kranzq.cli.screen.status_line import StatusLine
    from kranzq.dispatch.recover import Confirm, Report
    from kranzq.model.checkout import Checkout

_JSON = click.option("--json", "as_json", is_flag=True, help="For programs; keys are stable.")


@click.command()
@click.option("--on-stop", type=click.Choice(["wait", "leave", "end"]), help="What stopping does to a running mission.")
@click.option("--as-root", is_flag=True, help="Root means it, in another user's checkout (in a container).")
@click.pass_obj
def daemon(directory: str, on_stop: str | None, *, as_root: bool) -> None:
    """Dispatch missions of this checkout, in the foreground, until stopped.

    The first TERM, INT or HUP lets no new mission begin; the second ends the running one and puts it back.
    """
    checkout = checkouts.find_checkout(directory, os.environ)
    checkouts.refuse_inside_mission(checkout, "daemon", os.environ)
    os.chdir("/")
    from kranzq.cli.log import log_to

    line = _line_below(sys.stdout, checkout)
    log_to(line or sys.stdout)
    environ = checkouts.environ_of(os.environ, as_root=as_root)
    queues.make_queue(checkout, environ).close()  # what is refused is refused before anything is promised
    if (why := repos.remember(checkout.root, environ)) is not None:
        complain(f"kranzq repos will not show this checkout: {why}")
    one = dispatching.daemon(checkout, environ, {"daemon.on_stop": on_stop})
    serves = f"kranzq serves {checkout.root} as process {os.getpid()}; stop it with Ctrl-C or: kranzq stop"
    if line is None:
        one.run(lambda: mention(serves))
        return

    def serving() -> None:
        mention(serves)
        line.begin()

    one.told = line.turned
    try:
        one.run(serving)
    finally:
        line.close()


def _line_below(stream: TextIO, checkout: Checkout) -> StatusLine | None:
    """The live line below a log that somebody looks at."""
    if not is_screen(stream):
        return None
    from kranzq.cli.screen.status_line import StatusLine
    from kranzq.wiring.missions import Missions

    missions = Missions(checkout)
    seen: list[tuple[int, str | None]] = []

    def upcoming() -> str | None:
        changed = os.stat(checkout.queue).st_mtime_ns  # as long as it stays, the names do
        if not seen or seen[0][0] != changed:
            seen[:] = [(changed, missions.upcoming())]
        return seen[0][1]

    def since() -> float | None:
        busy = missions.status().busy
        return busy.since if busy is not None else None

    return StatusLine(stream, upcoming, since)


@click.command()
@click.option("--once", is_flag=True, help="One mission at most; exit 4 when the checkout is busy.")
@click.option("--as-root", is_flag=True, help="Root means it, in another user's checkout (in a container).")
@click.pass_obj
def drain(directory: str, *, once: bool, as_root: bool) -> None:
    """Run what is due, one mission after the other, then leave. Needs no daemon."""
    checkout = checkouts.find_checkout(directory, os.environ)
    checkouts.refuse_inside_mission(checkout, "drain", os.environ)
    os.chdir("/")
    from kranzq.cli.log import log_to

    line = _line_below(sys.stderr, checkout)
    log_to(line or sys.stderr)
    if line is not None:
        line.begin()
    try:
        done = dispatching.drain(checkout, checkouts.environ_of(os.environ, as_root=as_root), once=once)
    finally:
        if line is not None:
            line.close()
    if done.busy is not None:
        complain(f"The checkout is busy: {done.busy}.", "  See: kranzq status")
        sys.exit(EXIT_BUSY)
    if done.paused is not None:
        complain(f"Paused: {done.paused}.", "  Go on with: kranzq resume")
        sys.exit(EXIT_LATER)
    if done.stopped is not None:
        sys.exit(128 + done.stopped)
    if not done.all_succeeded:
        sys.exit(EXIT_FAILED)
    if done.later:
        complain("Something is to be tried again later; see: kranzq list")
        sys.exit(EXIT_LATER)


@click.command()
@click.option("--now", is_flag=True, help="End the running mission; its entry goes back to its place.")
@click.option("--wait/--no-wait", default=True, show_default=True, help="Wait until the daemon has gone.")
@click.pass_obj
def stop(directory: str, *, now: bool, wait: bool) -> None:
    """Stop the daemon of this checkout, from anywhere in it."""
    checkout = checkouts.find_checkout(directory, os.environ)
    unit = _unit_that_keeps(checkout)
    stopped = dispatching.stop_daemon(checkout, now=now, wait=wait)
    if stopped is None:
        complain("No daemon serves this checkout.", *_other_things())
        sys.exit(EXIT_NOT_FOUND)
    say(stopped)
    if unit is not None:
        say(f"  systemd starts another one in a moment; to prevent that, type: systemctl --user stop {unit}")


def _unit_that_keeps(checkout: Checkout) -> str | None:
    """The unit of the daemon that runs, if it is one that starts the next daemon."""
    from kranzq.dispatch.daemon_seen import DaemonSeen, daemon_of
    from kranzq.wiring.service import unit_that_keeps

    daemon = daemon_of(checkout)
    return unit_that_keeps(checkout, daemon.pid) if isinstance(daemon, DaemonSeen) else None


def _other_things() -> list[str]:
    """What else may have been meant: a server of this user, which is no daemon."""
    from kranzq.wiring.serving import listening_server

    if (found := listening_server(os.environ)) is None:
        return []
    path, pid = found
    end = f"kill {pid}" if pid else "TERM, where it runs"
    return [f"  A server answers at unix:{path}; it dispatches nothing. If that was meant, end it with: {end}"]


@click.command()
@click.option("--dry-run", is_flag=True, help="Only say what would be done.")
@click.option("--no-kill", is_flag=True, help="Name leftovers, end none.")
@click.option("--yes", is_flag=True, help="End leftovers without asking.")
@click.option("--as-root", is_flag=True, help="Root means it, in another user's checkout (in a container).")
@_JSON
@click.pass_obj
def recover(directory: str, *, dry_run: bool, no_kill: bool, yes: bool, as_root: bool, as_json: bool) -> None:
    """After a crash: put every claim where it belongs, with the proof beside it."""
    checkout = checkouts.find_checkout(directory, os.environ)
    checkouts.refuse_inside_mission(checkout, "recover", os.environ)
    asks = not (yes or as_json or dry_run or no_kill) and sys.stdin.isatty()
    environ = checkouts.environ_of(os.environ, as_root=as_root)
    with long_work() as clear:

        def ask(subject: str, leftovers: tuple[object, ...]) -> bool:
            clear()
            return _ask(subject, leftovers)

        confirm: Confirm | None = ask if asks else None
        report = dispatching.recover(checkout, environ, dry_run=dry_run, kill=not no_kill, confirm=confirm)
    if as_json:
        say_json(report_json(report))
    else:
        _show(report, dry_run=dry_run)
    if not report.explained:
        sys.exit(EXIT_BUSY)


def report_json(report: Report) -> dict[str, object]:
    """A report with the keys that the reference page lists."""
    return {
        "claims": [
            {
                "claim": one.claim,
                "mission": one.mission,
                "run": one.run,
                "verdict": one.verdict.value,
                "evidence": one.evidence,
                "action": one.action,
                "leftovers": [left.pid for left in one.leftovers],
            }
            for one in report.findings
        ],
        "busy": report.lock,
        "leftovers": [{"pid": one.pid, "command": one.command, "net": one.net} for one in report.leftovers],
        "ended": [{"pid": one.pid, "command": one.command, "net": one.net} for one in report.ended],
        "cannotLook": list(report.cannot_look),
        "explained": report.explained,
    }


def _ask(subject: str, leftovers: tuple[object, ...]) -> bool:
    say(f"Left running by {subject}:")
    for one in leftovers:
        say(f"  pid {getattr(one, 'pid', '?')}  {getattr(one, 'command', '')}")
    return click.confirm("End them?", default=False)


def _show(report: Report, *, dry_run: bool) -> None:
    if not report.findings:
        say("No claims.")
    for one in report.findings:
        run = f", run {one.run}" if one.run is not None else ""
        say(f"{one.mission}{run}: {one.verdict.value} ({one.evidence})")
        say(f"  claim   {one.claim}", f"  action  {one.action}")
        for left in one.leftovers:
            say(f"  left    pid {left.pid}  {left.command}")
        if one.by_bare_pid:
            say("  note    alive only by its number; if that process is no dispatcher, end it and recover again")
    for ended in report.ended:
        say(f"ended     pid {ended.pid}  {ended.command}  (proven gone)")
    named = {left.pid for one in report.findings for left in one.leftovers}
    for left in (one for one in report.leftovers if one.pid not in named):
        say(f"leftover  pid {left.pid}  {left.command}  ({'would be ended' if dry_run else 'still there'})")
    say(f"busy lock {report.lock or 'free'}")
    if report.clear:
        say(f"          {report.clear}")
    if not report.explained:
        say("Something is left; see the lines above.")
