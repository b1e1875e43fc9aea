"""The one place that names implementations: checkout and configuration in, ready parts out.

Surfaces come through here; each function imports only what it needs, so that a verb starts fast.
"""
# Longer than 300 lines: one list of what is made of what; two places that name implementations would be one too many.

from __future__ import annotations

import contextlib
import dataclasses
import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING

from kranzq.disk.gitdir import is_bare
from kranzq.errors import BareRepository, InsideMission, KranzqError, NoCheckout, NotFound, Refused
from kranzq.model.checkout import Checkout

if TYPE_CHECKING:
    from kranzq.backend import WorkStore
    from kranzq.backends.file.backend import FileQueue
    from kranzq.config import Config
    from kranzq.daemon.drain import Drained
    from kranzq.daemon.loop import Daemon
    from kranzq.dispatch.allow import Trust
    from kranzq.dispatch.amend import Amender
    from kranzq.dispatch.approve import Approved, Approver
    from kranzq.dispatch.cancel import Canceller
    from kranzq.dispatch.library import MissionBackend
    from kranzq.dispatch.look import Sight
    from kranzq.dispatch.parts import Parts, Settings
    from kranzq.dispatch.producers import Producers
    from kranzq.dispatch.recover import Confirm, Report
    from kranzq.dispatch.status import Thresholds
    from kranzq.dispatch.why import Reason
    from kranzq.hooks.outbox import Outbox
    from kranzq.model.ids import MissionId
    from kranzq.runner import Runner
    from kranzq.runs.folders import Runs
    from kranzq.trust.approval import Approvals
    from kranzq.trust.key import Keyring
    from kranzq.trust.may_run import Gate
    from kranzq.trust.settings import SettingsSeen


def find_checkout(start: str, environ: Mapping[str, str]) -> Checkout:
    """The checkout at or above `start`: the nearest `.git`; without git a `.kranz` that holds a queue.

    kranz's own home is none, nor is the user's. Raises NoCheckout, BareRepository.
    """
    here = os.path.realpath(start)
    above = list(_upwards(here))
    for root in above:
        if os.path.lexists(f"{root}/.git"):
            if is_bare(root):
                raise BareRepository(root)
            return Checkout(root, has_git=True)
        if is_bare(root):
            raise BareRepository(root)
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


def make_queue(checkout: Checkout, environ: Mapping[str, str] = os.environ) -> FileQueue:
    """The queue for work: what is missing is made. Raises Refused and UnsafePath where nothing should be begun."""
    from kranzq.backends.file.backend import FileQueue  # noqa: PLC0415

    return FileQueue.make(checkout, as_root=is_meant_as_root(environ))


def open_to_change(checkout: Checkout, environ: Mapping[str, str] = os.environ) -> FileQueue:
    """The queue for work on what is there: nothing is made. Raises NoQueue, and what `make_queue` raises."""
    from kranzq.backends.file.backend import FileQueue  # noqa: PLC0415

    return FileQueue.open_to_change(checkout, as_root=is_meant_as_root(environ))


def is_meant_as_root(environ: Mapping[str, str]) -> bool:
    """Whether whoever started us means to work as root in another user's checkout."""
    from kranzq.disk.owners import AS_ROOT  # noqa: PLC0415

    return environ.get(AS_ROOT, "") not in {"", "0"}


def environ_of(environ: Mapping[str, str], *, as_root: bool) -> Mapping[str, str]:
    """The environment as a flag of the command line changes it."""
    from kranzq.disk.owners import AS_ROOT  # noqa: PLC0415

    return {**environ, AS_ROOT: "1"} if as_root else environ


def unsafe_here(checkout: Checkout) -> tuple[str, str] | None:
    """Why every verb that works would refuse this checkout, and what to do; None when it would not."""
    from kranzq.disk.owners import refuse_foreign_checkout, unsafe_folder  # noqa: PLC0415

    as_root = is_meant_as_root(os.environ)
    try:
        if (unsafe := unsafe_folder(checkout, as_root=as_root)) is not None:
            raise unsafe.error()
        refuse_foreign_checkout(checkout, as_root=as_root)
    except Refused as fault:
        return fault.sentence, fault.advice
    return None


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
        yield Sight(checkout, queue, Gate(keys, approvals(environ)), keys, notices=notices(checkout, environ))


@contextlib.contextmanager
def open_runs(checkout: Checkout) -> Iterator[Runs | None]:
    """The records of runs, None where the checkout has no queue."""
    from kranzq.runs.folders import Runs  # noqa: PLC0415

    with open_look(checkout) as queue:
        yield Runs(checkout, queue.kranz_fd) if queue is not None else None


def no_command(environ: Mapping[str, str], checkout: Checkout | None = None) -> Reason | None:
    """Why a mission without a command of its own has none, None when one is configured."""
    from kranzq.dispatch.choose import NO_COMMAND, NO_COMMAND_ADVICE  # noqa: PLC0415
    from kranzq.dispatch.why import Reason  # noqa: PLC0415

    try:
        configured = load_config(environ, checkout=checkout).mission.command
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


def tell_hooks(checkout: Checkout, environ: Mapping[str, str], trouble: Callable[[str], None] | None = None) -> None:
    """Let the user's hooks be told of what happens from now on in this process, if there can be any.

    Events do not say in which checkout they happened, so a process has one outbox: the last one that was asked for.
    """
    from kranzq.trust.key import base_dir  # noqa: PLC0415 - not `config_path`: its package is a third of an enqueue

    config = f"{base_dir(environ, 'XDG_CONFIG_HOME', '.config')}/kranzq/config.toml"
    places = (config, f"{checkout.kranz}/kranzq.toml")
    if any(map(os.path.lexists, places)) or any(name.startswith("KRANZQ_HOOKS_") for name in environ):
        _outbox(checkout, environ, trouble)  # most have no hooks, and their verbs need not pay for a look


def _outbox(checkout: Checkout, environ: Mapping[str, str], trouble: Callable[[str], None] | None = None) -> Outbox:
    from kranzq.events import Warned, emit, subscribe  # noqa: PLC0415
    from kranzq.hooks.outbox import Outbox  # noqa: PLC0415
    from kranzq.runs.command import mission_environment  # noqa: PLC0415
    from kranzq.trust.key import state_dir  # noqa: PLC0415

    outbox = Outbox(
        checkout.root,
        state_dir(environ),
        lambda: dataclasses.asdict(load_config(environ, checkout=checkout).hooks),
        mission_environment(environ),
        trouble or (lambda text: emit(Warned(text))),
        starts="KRANZ_CLAIM" not in environ,
    )
    while _heard:
        _heard.pop()()
    _heard.append(subscribe(outbox.hear))
    return outbox


_heard: list[Callable[[], None]] = []
"""What ends the telling of hooks in this process."""


def gate(environ: Mapping[str, str]) -> Gate:
    """What decides whether an entry may run."""
    from kranzq.trust.may_run import Gate  # noqa: PLC0415

    return Gate(keyring(environ), approvals(environ))


def load_config(
    environ: Mapping[str, str], flags: Mapping[str, object] | None = None, checkout: Checkout | None = None
) -> Config:
    """The settings in force, for a checkout with those that a person has allowed there."""
    from kranzq.config import Config  # noqa: PLC0415

    if checkout is None or not os.path.lexists(f"{checkout.kranz}/kranzq.toml"):
        return Config.load(environ, flags=flags)
    from kranzq.config.checkout import load  # noqa: PLC0415

    return load(environ, checkout_settings(checkout, environ), flags)


def checkout_settings(checkout: Checkout, environ: Mapping[str, str]) -> SettingsSeen:
    """The settings file of a checkout, and whether it counts."""
    from kranzq.trust.settings import look_at_settings  # noqa: PLC0415

    return look_at_settings(checkout.root, approvals(environ))


def status_thresholds(checkout: Checkout, environ: Mapping[str, str]) -> Thresholds:
    """From when on `status` names a running mission; a broken configuration is not said here."""
    from kranzq.dispatch.status import Thresholds  # noqa: PLC0415

    try:
        found = load_config(environ, checkout=checkout).status
    except KranzqError:
        return Thresholds()
    return Thresholds(found.long_run, found.long_silence)


def notices(checkout: Checkout, environ: Mapping[str, str]) -> tuple[tuple[str, str], ...]:
    """What a person should know of the checkout: settings that do not count, runtime state that git tracks."""
    from kranzq.dispatch.planted import tracked_notice  # noqa: PLC0415

    found = (checkout_settings(checkout, environ).notice, tracked_notice(checkout.root))
    return tuple(one for one in found if one is not None)


def _say(found: Iterable[tuple[str, str]]) -> None:
    from kranzq.events import Warned, emit  # noqa: PLC0415

    for notice in found:
        emit(Warned(". ".join(notice)))


def dispatcher_parts(
    checkout: Checkout, config: Config, environ: Mapping[str, str], *, warm: bool = False, reaps: bool = True
) -> Parts:
    """Everything a dispatcher of this checkout needs. `warm`: keep a keeper ready; `reaps`: become a subreaper."""
    from kranzq.backends.file.backend import FileQueue  # noqa: PLC0415
    from kranzq.busy.foreign import Engines  # noqa: PLC0415
    from kranzq.busy.lock import BusyLock  # noqa: PLC0415
    from kranzq.dispatch.parts import Parts  # noqa: PLC0415
    from kranzq.runs.keepers import WarmKeepers  # noqa: PLC0415
    from kranzq.runs.leftovers import become_subreaper  # noqa: PLC0415
    from kranzq.runs.preflight import why_not_here  # noqa: PLC0415

    keepers, as_root = WarmKeepers(), is_meant_as_root(environ)
    return Parts(
        checkout=checkout,
        open_queue=lambda: FileQueue.make(checkout, as_root=as_root),
        busy=BusyLock(checkout),
        engines=Engines(),
        keepers=keepers,
        after_start=keepers.warm if warm else lambda: None,
        runner=_runner_of(config, environ),
        gate=gate(environ),
        settings=_turn_settings(config),
        obstacle=lambda: why_not_here(checkout, config.mission.min_free_disk, patience_s=0),
        is_subreaper=reaps and become_subreaper(),
    )


def _with_hooks(parts: Parts, environ: Mapping[str, str]) -> Parts:
    """The parts of a dispatcher that tells hooks, first of all what others have left to be told."""
    outbox = _outbox(parts.checkout, environ)
    outbox.resume()
    return dataclasses.replace(parts, couriers=outbox.couriers)


def _runner_of(config: Config, environ: Mapping[str, str]) -> Runner:
    from kranzq.config import expand  # noqa: PLC0415
    from kranzq.runs.command import MissionRunner  # noqa: PLC0415

    mission = config.mission
    return MissionRunner(mission.command, expand, environ, mission.environment, mission.min_free_disk)


def _turn_settings(config: Config) -> Settings:
    from kranzq.dispatch.parts import Settings  # noqa: PLC0415
    from kranzq.runs.retention import Keep  # noqa: PLC0415

    mission = config.mission
    return Settings(
        grace_s=mission.grace_seconds,
        on_survivors=mission.on_survivors,
        park_interrupted=mission.on_interrupted == "park",
        timeout_s=mission.timeout,
        interruptions=mission.interruption_limit,
        deferral_s=mission.deferral_limit,
        output_cap=mission.output_cap,
        keep=Keep(*dataclasses.astuple(config.retention)),
    )


def daemon(checkout: Checkout, environ: Mapping[str, str], flags: Mapping[str, object]) -> Daemon:
    """A daemon for this checkout, ready to run."""
    from kranzq.config.checkout import Renewal  # noqa: PLC0415
    from kranzq.daemon.loop import Daemon, Timing  # noqa: PLC0415
    from kranzq.daemon.notify import ServiceManager  # noqa: PLC0415
    from kranzq.daemon.stopping import Stopping, on_stop_here  # noqa: PLC0415
    from kranzq.daemon.wake import Wake  # noqa: PLC0415
    from kranzq.dispatch.planted import tracked_notice  # noqa: PLC0415
    from kranzq.events import Warned, emit  # noqa: PLC0415

    renewal = Renewal(checkout.root, approvals(environ), environ, flags)
    config = renewal.begin()
    _say(one for one in [tracked_notice(checkout.root)] if one is not None)
    parts = _with_hooks(dispatcher_parts(checkout, config, environ, warm=True), environ)
    wake = Wake()
    stopping = Stopping(wake, on_stop_here(config.daemon.on_stop, environ), lambda text: emit(Warned(text)))
    timing = Timing(config.daemon.scan_seconds, config.daemon.poll_seconds)

    def renew(parts: Parts) -> Parts:
        if (config := renewal.changed()) is None:
            return parts
        timing.scan_s, timing.poll_s = config.daemon.scan_seconds, config.daemon.poll_seconds
        stopping.settle_on(on_stop_here(config.daemon.on_stop, environ))
        return dataclasses.replace(parts, runner=_runner_of(config, environ), settings=_turn_settings(config))

    return Daemon(parts, wake, stopping, ServiceManager(environ), timing, lambda: _known(checkout), renew)


def drain(checkout: Checkout, environ: Mapping[str, str], *, once: bool) -> Drained:
    """Do turns until nothing due is left."""
    from kranzq.daemon.drain import drain as drain_parts  # noqa: PLC0415
    from kranzq.daemon.stopping import Stopping, on_stop_here  # noqa: PLC0415
    from kranzq.daemon.wake import Wake  # noqa: PLC0415
    from kranzq.events import Warned, emit  # noqa: PLC0415

    _say(notices(checkout, environ))
    config = load_config(environ, checkout=checkout)
    wake = Wake()
    stopping = Stopping(wake, on_stop_here(config.daemon.on_stop, environ), lambda text: emit(Warned(text)))
    parts = _with_hooks(dispatcher_parts(checkout, config, environ), environ)
    done = drain_parts(parts, wake, stopping, once=once)
    return dataclasses.replace(done, stopped=stopping.signal)


def stop_daemon(checkout: Checkout, *, now: bool, wait: bool) -> str | None:
    """Leave the wish to stop; a sentence for people, None when no daemon is there."""
    from kranzq.daemon.request import request_stop  # noqa: PLC0415

    with contextlib.suppress(NotFound):
        open_to_change(checkout).close()  # refuses where nothing should be written
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

    parts = _with_hooks(dispatcher_parts(checkout, load_config(environ, checkout=checkout), environ), environ)
    return recover_now(parts, dry_run=dry_run, kill=kill, confirm=confirm)


def _known(checkout: Checkout) -> set[str]:
    from kranzq.backends.file.folders import NoQueue  # noqa: PLC0415

    try:
        with open_queue(checkout) as queue:
            return {str(place.mission) for place in queue.places()}
    except NoQueue:
        return set()


def has_command(environ: Mapping[str, str], checkout: Checkout | None = None) -> bool:
    """Whether a command is configured for missions that have none; a broken configuration is not said here."""
    try:
        return bool(load_config(environ, checkout=checkout).mission.command)
    except KranzqError:
        return True


def mission_backend(checkout: Checkout, environ: Mapping[str, str], *, end_leftovers: bool = True) -> MissionBackend:
    """The mission queue for a program that runs missions itself. It stays what it is: no subreaper, no dispatcher."""
    from kranzq.backends.file.backend import FileQueue  # noqa: PLC0415
    from kranzq.dispatch.approve import Approver  # noqa: PLC0415
    from kranzq.dispatch.library import MissionBackend, TheirOwn  # noqa: PLC0415
    from kranzq.dispatch.library_claim import LibraryQueue  # noqa: PLC0415

    def opener(make: bool) -> AbstractContextManager[LibraryQueue]:  # noqa: FBT001
        return FileQueue.make(checkout, as_root=is_meant_as_root(environ)) if make else FileQueue.open(checkout)

    parts = dispatcher_parts(checkout, load_config(environ, checkout=checkout), environ, reaps=False)
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


def ignored_by_kranz(queue: FileQueue, approved: Approved) -> str | None:
    """What a kranz dispatcher would not see in an entry that was just made; None where there is no kranz."""
    from kranzq.dispatch.kranz_seen import ignored_by_kranz as ignored  # noqa: PLC0415
    from kranzq.dispatch.kranz_seen import kranz_works_here  # noqa: PLC0415

    return ignored(approved.entry, approved.state) if approved.created and kranz_works_here(queue.kranz_fd) else None


def canceller(checkout: Checkout, queue: FileQueue, environ: Mapping[str, str]) -> Canceller:
    """Who cancels missions of this checkout."""
    from kranzq.dispatch.cancel import Canceller  # noqa: PLC0415

    tell_hooks(checkout, environ)
    return Canceller(checkout, queue, user_name(), _parts_when_needed(checkout, environ))


def producers(checkout: Checkout, queue: FileQueue, environ: Mapping[str, str]) -> Producers:
    """The bindings of this checkout's producers."""
    from kranzq.dispatch.producers import Producers, time_to_live  # noqa: PLC0415

    return Producers(checkout, queue, time_to_live(environ))


def amender(checkout: Checkout, queue: FileQueue, environ: Mapping[str, str]) -> Amender:
    """Who changes missions of this checkout that have not begun: this user, with the user's key."""
    from kranzq.dispatch.amend import Amender  # noqa: PLC0415

    tell_hooks(checkout, environ)
    return Amender(checkout, queue, keyring(environ), user_name(), _parts_when_needed(checkout, environ))


@contextlib.contextmanager
def open_trust(checkout: Checkout, environ: Mapping[str, str], *, to_change: bool) -> Iterator[Trust]:
    """What this user allows for a checkout. To look, an unsafe queue will do, or none."""
    from kranzq.backends.file.folders import NoQueue  # noqa: PLC0415
    from kranzq.dispatch.allow import Trust  # noqa: PLC0415

    try:
        queue = open_to_change(checkout, environ) if to_change else open_queue(checkout)
    except NoQueue:
        yield Trust(checkout.root, None, keyring(environ), approvals(environ))
        return
    with queue:
        yield Trust(checkout.root, queue, keyring(environ), approvals(environ))


@contextlib.contextmanager
def open_look_settled(checkout: Checkout, environ: Mapping[str, str], mission: MissionId) -> Iterator[FileQueue | None]:
    """As `open_look`, for whoever waits for a mission: an end that no dispatcher has settled is settled."""
    from kranzq.dispatch.unattended import settle_unattended  # noqa: PLC0415

    with open_look(checkout) as queue:
        if queue is not None:
            with contextlib.suppress(KranzqError, OSError):  # it is a service; who waits goes on waiting
                tell_hooks(checkout, environ)
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
    return lambda: dispatcher_parts(checkout, load_config(environ, checkout=checkout), environ, reaps=False)


def _homes(environ: Mapping[str, str]) -> tuple[str, str]:
    home = os.path.realpath(environ.get("HOME") or "/nonexistent")
    return home, os.path.realpath(environ.get("KRANZ_HOME") or f"{home}/.kranz")


def _upwards(path: str) -> list[str]:
    found = [path]
    while (parent := os.path.dirname(found[-1])) != found[-1]:
        found.append(parent)
    return found


def open_work(url: str | None, environ: Mapping[str, str]) -> WorkStore:
    """The work queue at a URL; without one, the user's own file below the state directory."""
    from kranzq.backends.sql.opening import open_store  # noqa: PLC0415 - only the work queue needs a database
    from kranzq.trust.key import state_dir  # noqa: PLC0415

    return open_store(url or f"sqlite://{state_dir(environ)}/work.db")
