"""What goes from the queue with time: quarantined files by age and count, and what killed writers left anywhere in it.

Entries never go by themselves, wherever they lie.
"""

from __future__ import annotations

import contextlib
import os
import time

from kranzq.backends.file.folders import Aside, Folders, names_in
from kranzq.backends.file.layout import WHY
from kranzq.disk.leavings import IsGone, finish_removals, remove_whole, sweep_temporaries

_ASIDE: tuple[Aside, ...] = ("waiting", "parked", "quarantine", "inbox")
_YOUNG_S = 3600.0


def prune_quarantine(folders: Folders, count: int, age_s: float) -> int:
    """Remove what was set aside longer ago, and the oldest of what is more than `count`; how many files."""
    fd = folders.aside("quarantine")
    if fd is None:
        return 0
    finish_removals(fd)
    names = [name for name in names_in(fd) if not name.startswith(".")]
    files = sorted((_set_aside_at(fd, name), name) for name in names if not name.endswith(WHY))
    before, removed = time.time() - age_s, 0
    for at, (since, name) in enumerate(files):
        if (since < before or at < len(files) - count) and remove_whole(fd, name):
            removed += 1
            with contextlib.suppress(OSError):
                os.unlink(name + WHY, dir_fd=fd)
    there = {name for _, name in files}
    for name in names:  # the reason is written before the file is moved, so a young one alone is somebody's work
        alone = name.endswith(WHY) and name.removesuffix(WHY) not in there
        if alone and _set_aside_at(fd, name) < time.time() - _YOUNG_S:
            remove_whole(fd, name)
    return removed


def sweep_leavings(folders: Folders, is_gone: IsGone) -> int:
    """Remove the temporary files of writers that are gone, in every folder of the queue and beside it."""
    places = [folders.kranz, folders.queue, *(folders.aside(which) for which in _ASIDE)]
    return sum(sweep_temporaries(fd, is_gone) for fd in places if fd is not None)


def _set_aside_at(fd: int, name: str) -> float:
    """When a file came here: a rename leaves its mtime as it was and moves its ctime."""
    try:
        return os.stat(name, dir_fd=fd, follow_symlinks=False).st_ctime
    except OSError:
        return time.time()
