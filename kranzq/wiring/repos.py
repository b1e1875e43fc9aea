"""The checkouts that this user knows, and a look at all of them: one that is gone or unreadable stops no other."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from kranzq.errors import KranzqError
from kranzq.model.frozen import frozen
from kranzq.wiring.checkouts import find_checkout
from kranzq.wiring.missions import Missions

if TYPE_CHECKING:
    from kranzq.dispatch.status import Status
    from kranzq.known import KnownCheckouts


@frozen
class RepoSeen:
    """One known checkout: its state, or half a sentence that says why there is none to be seen."""

    root: str
    status: Status | None
    fault: str = ""
    is_gone: bool = False
    """Whether there is no checkout at this path any more."""

    def to_json(self) -> dict[str, object]:
        """The checkout with the documented keys."""
        status = self.status.to_json() if self.status is not None else None
        return {"repo": self.root, "fault": self.fault or None, "gone": self.is_gone, "status": status}


def known(environ: Mapping[str, str]) -> KnownCheckouts:
    """The checkouts that the user knows."""
    from kranzq.known import KnownCheckouts
    from kranzq.trust.key import state_dir

    return KnownCheckouts(state_dir(environ))


def remember(root: str, environ: Mapping[str, str]) -> str | None:
    """Make a checkout known that is worked in; half a sentence if that failed, which keeps nobody from working."""
    try:
        known(environ).add(root)
    except (KranzqError, OSError) as fault:
        return str(fault)
    return None


def look_at_all(environ: Mapping[str, str]) -> list[RepoSeen]:
    """The state of each known checkout: first those that need a person, then those where something runs or waits."""
    return sorted(map(_look_at, known(environ).roots()), key=_order)


def gone(roots: Iterable[str]) -> list[str]:
    """Those at whose path there is no checkout any more. One that only cannot be read is not among them."""
    found = []
    for root in roots:
        with contextlib.suppress(OSError):  # it cannot be told: a link loop, a disk that fails, a folder of others
            found += [root] if _is_gone(root) else []
    return found


def _look_at(root: str) -> RepoSeen:
    try:
        if _is_gone(root):
            return RepoSeen(root, None, "there is no checkout here any more", is_gone=True)
        os.listdir(root)  # where that is refused the rest would look like nothing
        return RepoSeen(root, Missions.at(root).status())
    except KranzqError as fault:
        return RepoSeen(root, None, fault.sentence.rstrip("."))
    except OSError as fault:
        return RepoSeen(root, None, f"it cannot be read: {fault.strerror or fault}")


def _is_gone(root: str) -> bool:
    """Whether there is surely no checkout at this path. Raises OSError when that cannot be told."""
    if not _is_there(root):
        return True
    with contextlib.suppress(KranzqError):
        if find_checkout(root, os.environ).root == root:
            return False
    _is_there(f"{root}/.git")  # what could not be looked at is not seen by a search either
    _is_there(f"{root}/.kranz/queue")
    return True


def _is_there(path: str) -> bool:
    try:
        os.stat(path)
    except (FileNotFoundError, NotADirectoryError):
        return False
    return True


def _order(one: RepoSeen) -> tuple[int, str]:
    if one.status is None:
        return (4 if one.is_gone else 0), one.root
    if one.status.warnings or one.status.paused is not None:
        return 0, one.root
    waits = sum(one.status.counts[word] for word in ("queued", "waiting", "inbox"))
    return (1 if one.status.busy is not None else 2 if waits else 3), one.root
