"""What an approver asks for, checked at the border: what could not be kept, or not be read back, is refused."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import field

from kranzq.dispatch.inputs import check_name
from kranzq.errors import UsageFault
from kranzq.model.entry import DEFAULT_PRIORITY, MAX_PRIORITY
from kranzq.model.frozen import frozen
from kranzq.model.ids import MissionId
from kranzq.model.tokens import has_token

MAX_RETRIES = 1000
MAX_AFTER = 100
_TICKET = r"(?!\.)(?!.*\.\.)[A-Za-z0-9._-]{1,128}"


@frozen
class Request:
    """What is approved. Without `mission` an id is made; `source`: producer and reference; `files`: name to bytes.

    `not_before` is wall seconds; `future`: a mission in `after` need not have been seen yet.
    """

    mission: MissionId | None = None
    priority: int = DEFAULT_PRIORITY
    command: tuple[str, ...] = ()
    ticket: str | None = None
    timeout_s: float | None = None
    retries: int = 0
    env: Mapping[str, str] = field(default_factory=dict)
    cwd: str = ""
    again: bool = False
    once: bool = False
    source: tuple[str, str] | None = None
    not_before: float | None = None
    after: tuple[MissionId, ...] = ()
    future: bool = False
    files: Mapping[str, bytes] = field(default_factory=dict)


def check(request: Request) -> None:
    """Refuse what could not be kept, or not be read back as it was given."""
    if not 0 <= request.priority <= MAX_PRIORITY:
        raise UsageFault(f"Priority {request.priority} is not in the range 0 to {MAX_PRIORITY} (0 is the most urgent).")
    if not 0 <= request.retries <= MAX_RETRIES:
        raise UsageFault(f"{request.retries} retries are not in the range 0 to {MAX_RETRIES}.")
    if len(request.after) > MAX_AFTER:
        raise UsageFault(f"{len(request.after)} missions to wait for are more than {MAX_AFTER}.")
    if request.command and not request.command[0]:
        raise UsageFault("The command begins with an empty text.", "Put a program behind the --.")
    _check_names(request)
    texts = {"command": request.command, "environment": [*request.env, *request.env.values()]}
    texts |= {"directory": (request.cwd,), "source": request.source or (), "file name": tuple(request.files)}
    for what, parts in texts.items():
        for text in parts:
            _check_text(what, text)


def _check_names(request: Request) -> None:
    if request.ticket is not None and not re.fullmatch(_TICKET, request.ticket):
        raise UsageFault(
            f"{request.ticket[:140]!r} is no ticket slug.",
            "Use 1 to 128 of A-Z a-z 0-9 . _ - without '..', and do not begin with a dot.",
        )
    for name in request.env:
        if not name or "=" in name:
            raise UsageFault(f"{name!r} is no name of a variable.", "Write --env NAME=VALUE.")
        if name == "KRANZQ_TOKEN":
            raise _no_tokens("environment")
    for name in request.files:
        check_name(name)
    if os.path.isabs(request.cwd) or ".." in request.cwd.split("/"):
        raise UsageFault(
            f"--cwd {request.cwd} is not inside the checkout.", "Name a directory relative to the checkout's root."
        )


def _check_text(what: str, text: str) -> None:
    if has_token(text):
        raise _no_tokens(what)
    try:
        text.encode()
    except UnicodeEncodeError as fault:
        raise UsageFault(
            f"The {what} has bytes that are not UTF-8: {text[:140]!r}.",
            "Entries are JSON and can hold text only; hand other bytes over in a file (--file).",
        ) from fault
    if "\0" in text:
        raise UsageFault(f"The {what} has a NUL in it: {text[:140]!r}.")


def _no_tokens(what: str) -> UsageFault:
    return UsageFault(
        f"The {what} has a token of kranzq in it, which would lie in the checkout's queue for others to read.",
        "Put the token into a file of your own (mode 600), and name that file instead.",
    )
