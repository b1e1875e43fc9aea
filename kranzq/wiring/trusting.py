"""The user of this process: name, keys, and what that user allows in a checkout."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from kranzq.model.checkout import Checkout
from kranzq.wiring.queues import open_queue, open_to_change

if TYPE_CHECKING:
    from kranzq.dispatch.allow import Trust
    from kranzq.trust.approval import Approvals
    from kranzq.trust.key import Keyring
    from kranzq.trust.may_run import Gate
    from kranzq.trust.operator_key import OperatorKey


def user_name() -> str:
    """This process's user as records name it."""
    import pwd

    try:
        return pwd.getpwuid(os.geteuid()).pw_name
    except KeyError:
        return f"user {os.geteuid()}"


def keyring(environ: Mapping[str, str]) -> Keyring:
    """The user's keys."""
    from kranzq.trust.key import Keyring, state_dir

    return Keyring(state_dir(environ))


def operator_key(environ: Mapping[str, str], path: str | None = None) -> OperatorKey:
    """With what everything on a server of this user is open: the key in the state directory, or in the file at `path`.

    Only the former is ever made.
    """
    from kranzq.trust.key import state_dir
    from kranzq.trust.operator_key import OperatorKey

    return OperatorKey(state_dir(environ), None if path is None else os.path.abspath(path))


def approvals(environ: Mapping[str, str]) -> Approvals:
    """What the user has allowed, checkout by checkout."""
    from kranzq.trust.approval import Approvals
    from kranzq.trust.key import state_dir

    return Approvals(state_dir(environ))


def gate(environ: Mapping[str, str]) -> Gate:
    """What decides whether an entry may run."""
    from kranzq.trust.may_run import Gate

    return Gate(keyring(environ), approvals(environ))


def private_folders(environ: Mapping[str, str]) -> tuple[str, ...]:
    """The user's folders outside any checkout in which keys, approvals, the operator's key and paths are written."""
    from kranzq.trust.key import state_dir

    state = state_dir(environ)
    return state, f"{state}/keys", f"{state}/trust", f"{state}/checkouts"


@contextlib.contextmanager
def open_trust(checkout: Checkout, environ: Mapping[str, str], *, to_change: bool) -> Iterator[Trust]:
    """What this user allows for a checkout. To look, an unsafe queue will do, or none."""
    from kranzq.backends.file.folders import NoQueue
    from kranzq.dispatch.allow import Trust

    try:
        queue = open_to_change(checkout, environ) if to_change else open_queue(checkout)
    except NoQueue:
        yield Trust(checkout.root, None, keyring(environ), approvals(environ))
        return
    with queue:
        yield Trust(checkout.root, queue, keyring(environ), approvals(environ))
