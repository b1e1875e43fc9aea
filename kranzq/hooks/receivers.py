"""Whom a hook tells: a program, or a webhook. The courier, which can import nothing of ours, has the same rules."""

from __future__ import annotations

import json
import zlib
from collections.abc import Sequence


def is_url(command: Sequence[str]) -> bool:
    """Whether a hook is a webhook."""
    return command[0].startswith(("http://", "https://"))


def shown(command: Sequence[str]) -> str:
    """A hook for people: of a URL only its host, for the rest of it is often a secret."""
    import shlex  # noqa: PLC0415 - an enqueue shows nobody

    return "/".join(command[0].split("/", 3)[:3]) + "/…" if is_url(command) else shlex.join(command)


def short(command: Sequence[str]) -> str:
    """As `shown`, of a program without its arguments: for a log, and for whoever asks a server."""
    return shown(command) if is_url(command) else command[0]


def mark(command: Sequence[str]) -> str:
    """One word for a receiver, which several hooks may share; files of the outbox bear it."""
    return f"{zlib.crc32(json.dumps(list(command)).encode()):08x}"
