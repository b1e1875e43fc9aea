"""Who approves missions, changes them, takes them back and answers for their producers: this user, in this checkout."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING

from kranzq.errors import UsageFault
from kranzq.model.checkout import Checkout
from kranzq.model.entry import DEFAULT_PRIORITY
from kranzq.model.ids import MissionId
from kranzq.wiring.hooks import tell_hooks
from kranzq.wiring.trusting import keyring, user_name

if TYPE_CHECKING:
    from kranzq.backends.file.backend import FileQueue
    from kranzq.dispatch.amend import Amender
    from kranzq.dispatch.approve import Approved, Approver
    from kranzq.dispatch.cancel import Canceller
    from kranzq.dispatch.edit import Edits
    from kranzq.dispatch.parts import Parts
    from kranzq.dispatch.producers import Producers
    from kranzq.dispatch.request import Request


def request_of(  # noqa: PLR0913 - all that an approver may ask for, each of it once
    mission: str | None = None,
    *,
    priority: int = DEFAULT_PRIORITY,
    command: Iterable[str] = (),
    ticket: str | None = None,
    timeout: str | float | None = None,
    retries: int = 0,
    env: Mapping[str, str] | None = None,
    cwd: str = "",
    again: bool = False,
    once: bool = False,
    source: str | None = None,
    files: Mapping[str, bytes] | None = None,
    not_before: str | None = None,
    after: Iterable[str] = (),
    future: bool = False,
    name_of: Callable[[str], str] = str,
) -> Request:
    """A request from texts as people and programs write them: `90s`, `+2h30m`, `PRODUCER:REFERENCE`.

    `files` maps names to contents. Raises UsageFault, BadMissionId; `name_of` makes of a parameter's name the one by
    which a caller knows it.
    """
    from kranzq.dispatch.request import Request

    return Request(
        mission=MissionId(mission) if mission is not None else None,
        priority=priority,
        command=tuple(command),
        ticket=ticket,
        timeout_s=timeout_of(timeout, name_of("timeout")) if timeout is not None else None,
        retries=retries,
        env=dict(env or {}),
        cwd=cwd,
        again=again,
        once=once,
        source=pair(source, ":", name_of("source"), "PRODUCER:REFERENCE") if source is not None else None,
        files=dict(files or {}),
        not_before=_due(not_before, name_of("not-before")) if not_before is not None else None,
        after=tuple(map(MissionId, after)),
        future=future,
    )


def edits_of(
    priority: int | None = None,
    not_before: str | None = None,
    timeout: str | None = None,
    *,
    name_of: Callable[[str], str] = str,
) -> Edits:
    """What is to change, from texts as people write them; `not_before` may be *now*, `timeout` *none*.

    Raises UsageFault; `name_of` is as in `request_of`.
    """
    from kranzq.dispatch.edit import Edits, Now

    due: float | Now | None = None
    if not_before is not None:
        is_now = not_before.lower() == Now.NOW.value
        due = Now.NOW if is_now else _due(not_before, name_of("not-before"))
    return Edits(priority, due, _limit(timeout, name_of("timeout")) if timeout is not None else None)


def pair(text: str, mark: str, name: str, form: str) -> tuple[str, str]:
    """The two texts around a mark. Raises UsageFault."""
    first, found, second = text.partition(mark)
    if not found or not first.strip():
        raise UsageFault(f"{name} {text[:140]!r} is not of the form {form}.")
    return first, second


def _due(text: str, name: str) -> float:
    from kranzq.model.when import due

    return due(name, text, time.time())


def timeout_of(value: str | float, name: str) -> float:
    """A limit of time in seconds, as it was typed. Raises UsageFault, which names the option."""
    from kranzq.config.values import parse_positive

    try:
        return parse_positive(value)
    except ValueError as fault:
        raise UsageFault(f"{name} {fault}.") from fault


def _limit(text: str, name: str) -> float:
    """Seconds; 0 for none."""
    from kranzq.config.values import parse_timeout

    try:
        return parse_timeout(text) or 0.0
    except ValueError as fault:
        raise UsageFault(f"{name} {fault}.") from fault


def approver(checkout: Checkout, queue: FileQueue, environ: Mapping[str, str]) -> Approver:
    """Who approves missions of this checkout: this user, with the user's key."""
    from kranzq.dispatch.approve import Approver

    return Approver(checkout, queue, keyring(environ), user_name(), _parts_when_needed(checkout, environ))


def ignored_by_kranz(queue: FileQueue, approved: Approved) -> str | None:
    """What a kranz dispatcher would not see in an entry that was just made; None where there is no kranz."""
    from kranzq.dispatch.kranz_seen import ignored_by_kranz as ignored
    from kranzq.dispatch.kranz_seen import kranz_works_here

    return ignored(approved.entry, approved.state) if approved.created and kranz_works_here(queue.kranz_fd) else None


def canceller(checkout: Checkout, queue: FileQueue, environ: Mapping[str, str]) -> Canceller:
    """Who cancels missions of this checkout."""
    from kranzq.dispatch.cancel import Canceller

    tell_hooks(checkout, environ)
    return Canceller(checkout, queue, user_name(), _parts_when_needed(checkout, environ))


def amender(checkout: Checkout, queue: FileQueue, environ: Mapping[str, str]) -> Amender:
    """Who changes missions of this checkout that have not begun: this user, with the user's key."""
    from kranzq.dispatch.amend import Amender

    tell_hooks(checkout, environ)
    return Amender(checkout, queue, keyring(environ), user_name(), _parts_when_needed(checkout, environ))


def producers(checkout: Checkout, queue: FileQueue, environ: Mapping[str, str]) -> Producers:
    """The bindings of this checkout's producers."""
    from kranzq.dispatch.producers import Producers, time_to_live

    return Producers(checkout, queue, time_to_live(environ))


def _parts_when_needed(checkout: Checkout, environ: Mapping[str, str]) -> Callable[[], Parts]:
    """What settling needs is rarely needed by a verb, and costs it a third of its time."""

    def parts() -> Parts:
        from kranzq.wiring.dispatchers import parts_of_a_verb

        return parts_of_a_verb(checkout, environ)

    return parts
