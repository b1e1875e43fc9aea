"""A disk that is full from a certain change on: nothing is made or written any more; renames and unlinks go on."""

from __future__ import annotations

import errno
import itertools
import os
from collections.abc import Callable
from typing import Any

from kranzq.disk import renameat2

_MAKING = ("mkdir", "link", "symlink", "write", "ftruncate")
_OTHERS = ("rename", "unlink", "rmdir", "utime")


def fill(at: int) -> None:
    """From the `at`-th change of the disk on, of whatever kind, there is no space left."""
    counter = itertools.count(1)

    def refuse(name: object) -> None:
        if next(counter) >= at:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), name)

    def counted(call: Callable[..., Any], *, makes: bool) -> Callable[..., Any]:
        def changed(*args: Any, **kwargs: Any) -> Any:
            if makes and not (call is write and args[0] in {1, 2}):
                refuse(args[0])
            elif not makes:
                next(counter)
            return call(*args, **kwargs)

        return changed

    opened, write = os.open, os.write
    for name in (*_MAKING, *_OTHERS):
        setattr(os, name, counted(getattr(os, name), makes=name in _MAKING))
    vars(renameat2)["rename2"] = counted(renameat2.rename2, makes=False)

    def open_(path: Any, flags: int, *args: Any, **kwargs: Any) -> int:
        if flags & os.O_CREAT and not _is_there(path, kwargs.get("dir_fd")):
            refuse(path)
        return opened(path, flags, *args, **kwargs)

    os.open = open_


def _is_there(path: Any, dir_fd: int | None) -> bool:
    try:
        os.stat(path, dir_fd=dir_fd, follow_symlinks=False)
    except OSError:
        return False
    return True
