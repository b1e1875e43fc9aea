"""The beginning of a checkout's queue: what `init` makes, what it refuses, and what it warns of."""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Protocol

from kranzq.disk.tracked import tracked_below
from kranzq.errors import Refused
from kranzq.model.checkout import Checkout

_RUNTIME_FOLDERS = (".kranz/queue/",)
_RUNTIME_PARTS = ("/dispatch/", "/events.jsonl.lock", "/enqueue-source", "/input/")


class NewQueue(Protocol):
    """What beginning asks of an open queue."""

    def ignore_runtime_state(self) -> list[str]:
        """Complete `.kranz/.gitignore`; the lines that were added."""
        ...


@dataclass(frozen=True, slots=True)
class Begun:
    """What was made, which lines `.gitignore` got, and what git tracks that it must not (None: cannot be told)."""

    made: tuple[str, ...]
    ignored: tuple[str, ...]
    tracked: tuple[str, ...] | None


def begin(
    checkout: Checkout, make_queue: Callable[[Checkout], AbstractContextManager[NewQueue]], *, as_root: bool
) -> Begun:
    """Make the queue, or complete what is there. Raises Refused for root in another user's checkout."""
    _refuse_foreign_root(checkout, as_root=as_root)
    paths = (checkout.kranz, f"{checkout.kranz}/.gitignore", checkout.queue)
    missing = [path for path in paths if not os.path.lexists(path)]
    with make_queue(checkout) as queue:
        ignored = queue.ignore_runtime_state()
    made = tuple(path for path in missing if os.path.lexists(path))
    return Begun(made, () if paths[1] in made else tuple(ignored), _tracked(checkout))


def _refuse_foreign_root(checkout: Checkout, *, as_root: bool) -> None:
    owner = os.stat(checkout.root).st_uid if os.path.isdir(checkout.root) else 0
    if os.geteuid() == 0 and owner != 0 and not as_root:
        raise Refused(
            f"{checkout.root} belongs to user {owner}, and this process runs as root.",
            "Run kranzq as that user; in a container where root is meant: kranzq init --as-root",
        )


def _tracked(checkout: Checkout) -> tuple[str, ...] | None:
    """Runtime state that git tracks: a clone would bring it along."""
    if not checkout.has_git:
        return ()
    names = tracked_below(checkout.root, ".kranz/")
    return None if names is None else tuple(name for name in names if _is_runtime_state(name.lower()))


def _is_runtime_state(name: str) -> bool:
    return name.startswith(_RUNTIME_FOLDERS) or (
        name.startswith(".kranz/missions/") and any(part in name for part in _RUNTIME_PARTS)
    )
