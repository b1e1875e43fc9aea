"""What `list`, `status` and `why` look with; nothing is made or changed."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from kranzq.errors import KranzqError
from kranzq.model.checkout import Checkout
from kranzq.wiring.configuring import load_config, notices
from kranzq.wiring.queues import open_look
from kranzq.wiring.trusting import approvals, keyring

if TYPE_CHECKING:
    from kranzq.dispatch.sight import Sight
    from kranzq.dispatch.status import Thresholds
    from kranzq.dispatch.why import Reason


@contextlib.contextmanager
def open_sight(checkout: Checkout, environ: Mapping[str, str]) -> Iterator[Sight | None]:
    """All that `list`, `status` and `why` look with, None where the checkout has no queue."""
    from kranzq.dispatch.sight import RememberedKeys, Sight
    from kranzq.trust.may_run import Gate

    with open_look(checkout) as queue:
        if queue is None:
            yield None
            return
        keys = RememberedKeys(keyring(environ))
        yield Sight(checkout, queue, Gate(keys, approvals(environ)), keys, notices=notices(checkout, environ))


def status_thresholds(checkout: Checkout, environ: Mapping[str, str]) -> Thresholds:
    """From when on `status` names a running mission; a broken configuration is not said here."""
    from kranzq.dispatch.status import Thresholds

    try:
        found = load_config(environ, checkout=checkout).status
    except KranzqError:
        return Thresholds()
    return Thresholds(found.long_run, found.long_silence)


def no_command(environ: Mapping[str, str], checkout: Checkout | None = None) -> Reason | None:
    """Why a mission without a command of its own has none, None when one is configured."""
    from kranzq.dispatch.choose import NO_COMMAND, NO_COMMAND_ADVICE
    from kranzq.dispatch.why import Reason

    try:
        configured = load_config(environ, checkout=checkout).mission.command
    except KranzqError as fault:
        return Reason("configuration", fault.sentence.rstrip("."), fault.advice or "See: kranzq check")
    return None if configured else Reason("no command", NO_COMMAND, NO_COMMAND_ADVICE)
