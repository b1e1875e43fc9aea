"""What killed writers leave: hidden temporary files and empty folders, and folders whose removal was begun.

A temporary name bears its writer's pid, `.NAME.PID.N….tmp` (kranz's form and ours; its oldest has no N). Whether that
process is gone is for the caller to say.
"""

from __future__ import annotations

import contextlib
import os
import re
import stat
from collections.abc import Callable, Iterator

_TEMPORARY = re.compile(r"\..+?\.([0-9]{1,10})(?:\.[0-9a-f]+)?\.tmp", re.ASCII | re.DOTALL)
_BEGUN = ".gone."

IsGone = Callable[[int, float], bool]
"""Whether the writer with a pid, who wrote at a wall time, is proven gone."""


def dead_temporaries(folder: int, is_gone: IsGone) -> Iterator[str]:
    """The temporary files in an open folder whose writers are gone, and folders that were on their way to a name."""
    for name in sorted(_names(folder)):
        found = _TEMPORARY.fullmatch(name)
        if found is None:
            continue
        with contextlib.suppress(OSError):
            seen = os.stat(name, dir_fd=folder, follow_symlinks=False)
            is_one = stat.S_ISREG(seen.st_mode) or stat.S_ISDIR(seen.st_mode)
            if is_one and is_gone(int(found[1]), max(seen.st_mtime, seen.st_ctime)):
                yield name


def sweep_temporaries(folder: int, is_gone: IsGone) -> int:
    """Remove them, of folders those that are empty; how many were removed."""
    removed = 0
    for name in dead_temporaries(folder, is_gone):
        with contextlib.suppress(OSError):
            try:
                os.unlink(name, dir_fd=folder)
            except IsADirectoryError:
                os.rmdir(name, dir_fd=folder)
            removed += 1
    return removed


def remove_whole(folder: int, name: str) -> bool:
    """Remove what lies under a name, a folder with all that is in it; no link is followed. False when it is gone.

    It is hidden by one rename first: a kill leaves it whole, or hidden for `finish_removals`.
    """
    hidden = f"{_BEGUN}{os.urandom(8).hex()}"
    try:
        os.rename(name, hidden, src_dir_fd=folder, dst_dir_fd=folder)
    except OSError:
        return False
    _remove(folder, hidden)
    return True


def finish_removals(folder: int) -> None:
    """Remove what is left of removals that were begun."""
    for name in _names(folder):
        if name.startswith(_BEGUN):
            _remove(folder, name)


def _remove(folder: int, name: str) -> None:
    try:
        os.unlink(name, dir_fd=folder)
    except IsADirectoryError:
        import shutil  # noqa: PLC0415 - it brings all its archive formats, and most sweeps meet no folder

        shutil.rmtree(name, ignore_errors=True, dir_fd=folder)
    except OSError:
        pass  # the next sweep tries again


def _names(folder: int) -> list[str]:
    try:
        return os.listdir(folder)
    except OSError:
        return []
