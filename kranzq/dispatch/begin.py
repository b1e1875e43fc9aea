"""The beginning of a checkout's queue: what `init` makes, what it mends, what it refuses, and what it warns of."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Protocol

from kranzq.disk.modes import is_shared
from kranzq.disk.owners import declared_group, folders_of, group_name, share, why_unsafe
from kranzq.disk.tracked import tracked_below
from kranzq.model.checkout import Checkout
from kranzq.model.frozen import frozen

_RUNTIME_FOLDERS = (".kranz/queue/",)
_RUNTIME_PARTS = ("/dispatch/", "/events.jsonl.lock", "/enqueue-source", "/input/")

Confirm = Callable[[str], bool]
"""Asked before a directory's mode is changed; says yes or no."""


class NewQueue(Protocol):
    """What beginning asks of an open queue."""

    def ignore_runtime_state(self) -> list[str]:
        """Complete `.kranz/.gitignore`; the lines that were added."""
        ...


@frozen
class Begun:
    """What was made, which lines `.gitignore` got, and what git tracks that it must not (None: cannot be told)."""

    made: tuple[str, ...]
    ignored: tuple[str, ...]
    tracked: tuple[str, ...] | None


def begin(
    checkout: Checkout, make_queue: Callable[[Checkout], AbstractContextManager[NewQueue]], confirm: Confirm
) -> Begun:
    """Make the queue, or complete what is there; directories of ours that are open to others are mended if wished.

    Raises Refused and UnsafePath for what stays unsafe.
    """
    _mend(checkout, confirm)
    paths = (checkout.kranz, f"{checkout.kranz}/.gitignore", checkout.queue)
    missing = [path for path in paths if not os.path.lexists(path)]
    with make_queue(checkout) as queue:
        ignored = queue.ignore_runtime_state()
    made = tuple(path for path in missing if os.path.lexists(path))
    return Begun(made, () if paths[1] in made else tuple(ignored), tracked_state(checkout))


def tracked_state(checkout: Checkout) -> tuple[str, ...] | None:
    """Runtime state that git tracks: a clone would bring it along. None where it cannot be told."""
    if not checkout.has_git:
        return ()
    names = tracked_below(checkout.root, ".kranz")
    return None if names is None else tuple(name for name in names if _is_runtime_state(name.lower()))


def _mend(checkout: Checkout, confirm: Confirm) -> None:
    group = declared_group(checkout)
    for path, fd in folders_of(checkout):
        seen = os.fstat(fd)
        if seen.st_uid != os.geteuid():
            continue
        if group is not None and not is_shared(fd) and not seen.st_mode & stat.S_IWOTH:
            if confirm(f"Let group {group_name(group)}, which shares this checkout, write to {path}?"):
                share(fd, path, group)
        elif (unsafe := why_unsafe(fd, path)) is not None and confirm(f"{path}: {unsafe.why}. Take that right away?"):
            others = stat.S_IWOTH if is_shared(fd) else stat.S_IWOTH | stat.S_IWGRP
            os.fchmod(fd, stat.S_IMODE(seen.st_mode) & ~others)


def _is_runtime_state(name: str) -> bool:
    return (
        name == ".kranz"
        or name.startswith(_RUNTIME_FOLDERS)
        or name == ".kranz/queue"
        or (name.startswith(".kranz/missions/") and any(part in name for part in _RUNTIME_PARTS))
    )
