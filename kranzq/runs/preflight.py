"""The checks of the checkout that come before each start: there, the same, with room, and nobody in git's way.

Each answers with half a sentence. What it finds is everybody's: no entry is to blame, and none pays for it with a try.
"""

from __future__ import annotations

import os

from kranzq.model.checkout import Checkout
from kranzq.runs import index_lock

_MIB = 2**20


def why_not_here(checkout: Checkout, min_free_disk: int, *, patience_s: float = index_lock.PATIENCE_S) -> str | None:
    """Why no mission can start in a checkout now, or None; a lock of git's is given a moment to go."""
    if not os.path.isdir(checkout.root):
        return f"the checkout {checkout.root} is gone"
    if checkout.has_git and not os.path.exists(checkout.git):
        return f"{checkout.git} is gone"
    free = os.statvfs(checkout.root)
    if free.f_bavail * free.f_frsize < min_free_disk:
        return f"less than {min_free_disk / _MIB:.0f} MiB are free on the disk of {checkout.root}"
    return index_lock.why_not_now(checkout.root, patience_s=patience_s)


def why_not_the_same(checkout: Checkout, kranz: int, lock: tuple[int, int]) -> str | None:
    """Why the checkout's path leads elsewhere than at the turn's beginning, or None.

    `kranz` is the descriptor of the `.kranz` that was opened then, `lock` the key of the busy lock's first half. A
    checkout that was renamed away meanwhile still has lock and records; a start by its path would be in another one.
    """
    try:
        if not os.path.samestat(os.stat(checkout.root), os.stat("..", dir_fd=kranz)):
            return f"{checkout.root} is another directory than when the turn began"
        if checkout.has_git and _key(os.stat(checkout.git)) != lock:
            return f"{checkout.git} is another one than when the turn began"
    except OSError as fault:
        return f"the checkout {checkout.root} is gone ({fault.strerror})"
    return None


def _key(seen: os.stat_result) -> tuple[int, int]:
    return seen.st_dev, seen.st_ino
