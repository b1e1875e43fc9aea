"""Who approves missions, changes them, takes them back and answers for their producers: this user, in this checkout."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from kranzq.model.checkout import Checkout
from kranzq.wiring.hooks import tell_hooks
from kranzq.wiring.trusting import keyring, user_name

if TYPE_CHECKING:
    from kranzq.backends.file.backend import FileQueue
    from kranzq.dispatch.amend import Amender
    from kranzq.dispatch.approve import Approved, Approver
    from kranzq.dispatch.cancel import Canceller
    from kranzq.dispatch.parts import Parts
    from kranzq.dispatch.producers import Producers


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
