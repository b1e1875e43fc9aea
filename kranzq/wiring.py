"""The one place that names implementations: checkout and configuration in, ready parts out.

Surfaces come through here; each function imports only what it needs, so that a verb starts fast.
"""
# Longer than 300 lines: one list of what is made of what; two places that name implementations would be one too many.

from __future__ import annotations

import contextlib
import dataclasses
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING

from kranzq.errors import InsideMission, KranzqError, NoCheckout, Refused
from kranzq.model.checkout import Checkout

if TYPE_CHECKING:
    from kranzq.backends.file.backend import FileQueue
    from kranzq.config import Config
    from kranzq.daemon.drain import Drained
    from kranzq.daemon.loop import Daemon
    from kranzq.dispatch.allow import Trust
    from kranzq.dispatch.approve import Approver
    from kranzq.dispatch.cancel import Canceller
    from kranzq.dispatch.library import MissionBackend
    from kranzq.dispatch.look import Sight
    from kranzq.dispatch.parts import Parts
    from kranzq.dispatch.recover import Confirm, Report
    from kranzq.dispatch.why import Reason
    from kranzq.model.ids import MissionId
    from kranzq.runs.folders import Runs
    from kranzq.trust.approval import Approvals
    from kranzq.trust.key import Keyring
    from kranzq.trust.may_run import Gate


def find_checkout(start: str, environ: Mapping[str, str]) -> Checkout:
    """The checkout at or above `start`: the nearest `.git`; without git a `.kranz` that holds a queue.

    kranz's own home is none, nor is the user's. Raises NoCheckout.
    """
    here = os.path.realpath(start)
    above = list(_upwards(here))
    for root in above:
        if os.path.lexists(f"{root}/.git"):
            return Checkout(root, has_git=True)
    home, kranz_home = _homes(environ)
    for root in above:
        kranz = f"{root}/.kranz"
        if os.path.isdir(f"{kranz}/queue") and root != home and os.path.realpath(kranz) != kranz_home:
            return Checkout(root, has_git=False)
    raise NoCheckout(start)


def checkout_to_make(start: str, environ: Mapping[str, str]) -> Checkout:
    """The checkout that `init` makes the queue of: the one at or above `start`, else `start` itself.

    Raises Refused for the user's home and kranz's own, which are no checkouts.
    """
    try:
        return find_checkout(start, environ)
    except NoCheckout:
        root = os.path.realpath(start)
    home, kranz_home = _homes(environ)
    if home == root or kranz_home in {root, f"{root}/.kranz"}:
        raise Refused(f"{root} is a home directory, no checkout.", "Go into a repository or project directory.")
    return Checkout(root, has_git=False)


def refuse_inside_mission(checkout: Checkout, verb: str, environ: Mapping[str, str]) -> None:
    """Raise InsideMission when this process belongs to a mission of the same checkout."""
    if environ.get("KRANZ_CLAIM") and os.path.realpath(environ.get("KRANZ_REPO", "")) == checkout.root:
        raise InsideMission(verb, environ.get("KRANZ_MISSION_ID", "?"))


def open_queue(checkout: Checkout) -> FileQueue:
    """The queue for looking: nothing is made or changed. Raises NoQueue."""
    from kranzq.backends.file.backend import FileQueue  # noqa: PLC0415

    return FileQueue.open(checkout)


def make_queue(checkout: Checkout) -> FileQueue:
    """The queue for work: what is missing is made."""
    from kranzq.backends.file.backend import FileQueue  # noqa: PLC0415

    return FileQueue.make(checkout)


@contextlib.contextmanager
def open_look(checkout: Checkout) -> Iterator[FileQueue | None]:
    """The queue for one look, None where the checkout has none; nothing is made or changed. Raises UnsafePath."""
    from kranzq.backends.file.folders import NoQueue  # noqa: PLC0415

    try:
        queue = open_queue(checkout)
    except NoQueue:
        yield None
        return
    with queue:
        yield queue


@contextlib.contextmanager
def open_sight(checkout: Checkout, environ: Mapping[str, str]) -> Iterator[Sight | None]:
    """All that `list`, `status` and `why` look with, None where the checkout has no queue."""
    from kranzq.dispatch.look import RememberedKeys, Sight  # noqa: PLC0415
    from kranzq.trust.may_run import Gate  # noqa: PLC0415

    with open_look(checkout) as queue:
        if queue is None:
            yield None
            return
        keys = RememberedKeys(keyring(environ))
        yield Sight(checkout, queue, Gate(keys, approvals(environ)), keys)


@contextlib.contextmanager
def open_runs(checkout: Checkout) -> Iterator[Runs | None]:
    """The records of runs, None where the checkout has no queue."""
    from kranzq.runs.folders import Runs  # noqa: PLC0415

    with open_look(checkout) as queue:
        yield Runs(checkout, queue.kranz_fd) if queue is not None else None


def no_command(environ: Mapping[str, str]) -> Reason | None:
    """Why a mission without a command of its own has none, None when one is configured."""
    from kranzq.dispatch.choose import NO_COMMAND, NO_COMMAND_ADVICE  # noqa: PLC0415
    from kranzq.dispatch.why import Reason  # noqa: PLC0415

    try:
        configured = load_config(environ).mission.command
    except KranzqError as fault:
        return Reason("configuration", fault.sentence.rstrip("."), fault.advice or "See: kranzq check")
    return None if configured else Reason("no command", NO_COMMAND, NO_COMMAND_ADVICE)


def known_missions(checkout: Checkout) -> set[str]:
    """The missions that names tell of, in the queue and beside it; no content is read."""
    from kranzq.runs.folders import Runs  # noqa: PLC0415

    with open_look(checkout) as queue:
        if queue is None:
            return set()
        waiting = {str(place.mission) for place in queue.places()}
        return waiting | {str(mission) for mission in Runs(checkout, queue.kranz_fd).missions()}


def keyring(environ: Mapping[str, str]) -> Keyring:
    """The user's keys."""
    from kranzq.trust.key import Keyring, state_dir  # noqa: PLC0415

    return Keyring(state_dir(environ))


def approvals(environ: Mapping[str, str]) -> Approvals:
    """What the user has allowed, checkout by checkout."""
    from kranzq.trust.approval import Approvals  # noqa: PLC0415
    from kranzq.trust.key import state_dir  # noqa: PLC0415

    return Approvals(state_dir(environ))


def gate(environ: Mapping[str, str]) -> Gate:
    """What decides whether an entry may run."""
    from kranzq.trust.may_run import Gate  # noqa: PLC0415

    return Gate(keyring(environ), approvals(environ))


def load_config(environ: Mapping[str, str], flags: Mapping[str, object] | None = None) -> Config:
    """The settings in force."""
    from kranzq.config import Config  # noqa: PLC0415

    return Config.load(environ, flags=flags)


def dispatcher_parts(
    checkout: Checkout, config: Config, environ: Mapping[str, str], *, warm: bool = False, reaps: bool = True
) -> Parts:
    """Everything a dispatcher of this checkout needs. `warm`: keep a keeper ready; `reaps`: become a subreaper."""
    from kranzq.backends.file.backend import FileQueue  # noqa: PLC0415
    from kranzq.busy.foreign import Engines  # noqa: PLC0415
    from kranzq.busy.lock import BusyLock  # noqa: PLC0415
    from kranzq.config import expand  # noqa: PLC0415
    from kranzq.dispatch.parts import Parts, Settings  # noqa: PLC0415
    from kranzq.runs.command import MissionRunner  # noqa: PLC0415
    from kranzq.runs.keepers import WarmKeepers  # noqa: PLC0415
    from kranzq.runs.leftovers import become_subreaper  # noqa: PLC0415

    mission, keepers = config.mission, WarmKeepers()
    return Parts(
        checkout=checkout,
        open_queue=lambda: FileQueue.make(checkout),
        busy=BusyLock(checkout),
        engines=Engines(),
        keepers=keepers,
        after_start=keepers.warm if warm else lambda: None,
        runner=MissionRunner(mission.command, expand, environ, mission.environment, mission.min_free_disk),
        gate=gate(environ),
        settings=Settings(
            grace_s=mission.grace_seconds,
            on_survivors=mission.on_survivors,
            park_interrupted=mission.on_interrupted == "park",
            timeout_s=mission.timeout,
        ),
        is_subreaper=reaps and become_subreaper(),
    )


def daemon(checkout: Checkout, environ: Mapping[str, str], flags: Mapping[str, object]) -> Daemon:
    """A daemon for this checkout, ready to run."""
    from kranzq.daemon.loop import Daemon, Timing  # noqa: PLC0415
    from kranzq.daemon.notify import ServiceManager  # noqa: PLC0415
    from kranzq.daemon.stopping import Stopping, on_stop_here  # noqa: PLC0415
    from kranzq.daemon.wake import Wake  # noqa: PLC0415
    from kranzq.events import Warned, emit  # noqa: PLC0415

    config = load_config(environ, flags)
    parts = dispatcher_parts(checkout, config, environ, warm=True)
    wake = Wake()
    stopping = Stopping(wake, on_stop_here(config.daemon.on_stop, environ), lambda text: emit(Warned(text)))
    timing = Timing(config.daemon.scan_seconds, config.daemon.poll_seconds)
    return Daemon(parts, wake, stopping, ServiceManager(environ), timing, lambda: _known(checkout))


def drain(checkout: Checkout, environ: Mapping[str, str], *, once: bool) -> Drained:
    """Do turns until nothing due is left."""
    from kranzq.daemon.drain import drain as drain_parts  # noqa: PLC0415
    from kranzq.daemon.stopping import Stopping, on_stop_here  # noqa: PLC0415
    from kranzq.daemon.wake import Wake  # noqa: PLC0415
    from kranzq.events import Warned, emit  # noqa: PLC0415

    config = load_config(environ)
    wake = Wake()
    stopping = Stopping(wake, on_stop_here(config.daemon.on_stop, environ), lambda text: emit(Warned(text)))
    done = drain_parts(dispatcher_parts(checkout, config, environ), wake, stopping, once=once)
    return dataclasses.replace(done, stopped=stopping.signal)


def stop_daemon(checkout: Checkout, *, now: bool, wait: bool) -> str | None:
    """Leave the wish to stop; a sentence for people, None when no daemon is there."""
    from kranzq.daemon.request import request_stop  # noqa: PLC0415

    return request_stop(checkout, now=now, wait=wait)


def recover(
    checkout: Checkout,
    environ: Mapping[str, str],
    *,
    dry_run: bool = False,
    kill: bool = True,
    confirm: Confirm | None = None,
) -> Report:
    """Put every claim of a gone holder where it belongs."""
    from kranzq.dispatch.after_crash import recover_now  # noqa: PLC0415

    parts = dispatcher_parts(checkout, load_config(environ), environ)
    return recover_now(parts, dry_run=dry_run, kill=kill, confirm=confirm)


def _known(checkout: Checkout) -> set[str]:
    from kranzq.backends.file.folders import NoQueue  # noqa: PLC0415

    try:
        with open_queue(checkout) as queue:
            return {str(place.mission) for place in queue.places()}
    except NoQueue:
        return set()


def has_command(environ: Mapping[str, str]) -> bool:
    """Whether a command is configured for missions that have none; a broken configuration is not said here."""
    try:
        return bool(load_config(environ).mission.command)
    except KranzqError:
        return True


def mission_backend(checkout: Checkout, environ: Mapping[str, str], *, end_leftovers: bool = True) -> MissionBackend:
    """The mission queue for a program that runs missions itself. It stays what it is: no subreaper, no dispatcher."""
    from kranzq.backends.file.backend import FileQueue  # noqa: PLC0415
    from kranzq.dispatch.approve import Approver  # noqa: PLC0415
    from kranzq.dispatch.library import MissionBackend, TheirOwn  # noqa: PLC0415
    from kranzq.dispatch.library_claim import LibraryQueue  # noqa: PLC0415

    def opener(make: bool) -> AbstractContextManager[LibraryQueue]:  # noqa: FBT001
        return FileQueue.make(checkout) if make else FileQueue.open(checkout)

    parts = dispatcher_parts(checkout, load_config(environ), environ, reaps=False)
    return MissionBackend(
        dataclasses.replace(parts, runner=TheirOwn()),
        opener,
        lambda queue: Approver(checkout, queue, keyring(environ), user_name(), lambda: parts),
        end_leftovers=end_leftovers,
    )


def approver(checkout: Checkout, queue: FileQueue, environ: Mapping[str, str]) -> Approver:
    """Who approves missions of this checkout: this user, with the user's key."""
    from kranzq.dispatch.approve import Approver  # noqa: PLC0415

    return Approver(checkout, queue, keyring(environ), user_name(), _parts_when_needed(checkout, environ))


def canceller(checkout: Checkout, queue: FileQueue, environ: Mapping[str, str]) -> Canceller:
    """Who cancels missions of this checkout."""
    from kranzq.dispatch.cancel import Canceller  # noqa: PLC0415

    return Canceller(checkout, queue, user_name(), _parts_when_needed(checkout, environ))


def trust(checkout: Checkout, queue: FileQueue, environ: Mapping[str, str]) -> Trust:
    """What this user allows for a checkout."""
    from kranzq.dispatch.allow import Trust  # noqa: PLC0415

    return Trust(checkout.root, queue, keyring(environ), approvals(environ))


@contextlib.contextmanager
def open_look_settled(checkout: Checkout, environ: Mapping[str, str], mission: MissionId) -> Iterator[FileQueue | None]:
    """As `open_look`, for whoever waits for a mission: an end that no dispatcher has settled is settled."""
    from kranzq.dispatch.unattended import settle_unattended  # noqa: PLC0415

    with open_look(checkout) as queue:
        if queue is not None:
            with contextlib.suppress(KranzqError, OSError):  # it is a service; who waits goes on waiting
                settle_unattended(_parts_when_needed(checkout, environ), queue, mission)
        yield queue


def user_name() -> str:
    """This process's user as records name it."""
    import pwd  # noqa: PLC0415

    try:
        return pwd.getpwuid(os.geteuid()).pw_name
    except KeyError:
        return f"user {os.geteuid()}"


def _parts_when_needed(checkout: Checkout, environ: Mapping[str, str]) -> Callable[[], Parts]:
    """What settling needs is rarely needed by a verb, and costs it a third of its time."""
    return lambda: dispatcher_parts(checkout, load_config(environ), environ, reaps=False)


def _homes(environ: Mapping[str, str]) -> tuple[str, str]:
    home = os.path.realpath(environ.get("HOME") or "/nonexistent")
    return home, os.path.realpath(environ.get("KRANZ_HOME") or f"{home}/.kranz")


def _upwards(path: str) -> list[str]:
    found = [path]
    while (parent := os.path.dirname(found[-1])) != found[-1]:
        found.append(parent)
    return found
