"""A program that runs kranzq and kills itself, with SIGKILL, exactly where it is told to.

    python -m tests.crash.killed POINT VERB...

POINT is `after:MODULE:NAME:N` or `before:MODULE:NAME:N` (the N-th call of a function or method), or `change:N`: just
before the N-th system call that changes a name or a content on disk. `LAB_SIGNAL` is another signal than SIGKILL.
"""

from __future__ import annotations

import importlib
import itertools
import os
import signal
import sys
from collections.abc import Callable
from typing import Any

CHANGES = ("mkdir", "rename", "link", "unlink", "rmdir", "utime", "write", "ftruncate")


def die() -> None:
    """End at once, as a power cut or an out-of-memory kill would."""
    os.kill(os.getpid(), int(os.environ.get("LAB_SIGNAL", signal.SIGKILL)))


def wrap(owner: Any, name: str, *, after: bool, at: int) -> None:
    """Let the `at`-th call of a function end the process."""
    call: Callable[..., Any] = getattr(owner, name)
    counter = itertools.count(1)

    def wrapped(*args: Any, **kwargs: Any) -> Any:
        number = next(counter)
        if number == at and not after:
            die()
        result = call(*args, **kwargs)
        if number == at and after:
            die()
        return result

    setattr(owner, name, wrapped)


def wrap_changes(at: int) -> None:
    """Let the `at`-th change of the disk, of whatever kind, not happen."""
    from kranzq.disk import renameat2

    counter = itertools.count(1)

    def wrapped(call: Callable[..., Any]) -> Callable[..., Any]:
        def counted(*args: Any, **kwargs: Any) -> Any:
            if call is write and args[0] in {1, 2}:
                return call(*args, **kwargs)
            if next(counter) == at:
                die()
            return call(*args, **kwargs)

        return counted

    write = os.write
    for name in CHANGES:
        setattr(os, name, wrapped(getattr(os, name)))
    renameat2.rename2 = wrapped(renameat2.rename2)
    opened = os.open

    def counted_open(path: Any, flags: int, *args: Any, **kwargs: Any) -> int:
        if flags & os.O_CREAT and next(counter) == at:
            die()
        return opened(path, flags, *args, **kwargs)

    os.open = counted_open


def main() -> None:
    """Arrange the end and run the verb."""
    kind, *rest = sys.argv[1].split(":")
    if kind == "change":
        wrap_changes(int(rest[0]))
    elif kind != "never":
        module, path, at = rest
        owner: Any = importlib.import_module(module)
        *outer, name = path.split(".")
        for part in outer:
            owner = getattr(owner, part)
        wrap(owner, name, after=kind == "after", at=int(at))
    if keeper := os.environ.get("LAB_KEEPER"):
        vars(importlib.import_module("kranzq.runs.keepers"))["KEEPER_PROGRAM"] = keeper
    from kranzq.cli.main import run

    sys.exit(run(sys.argv[2:]))


if __name__ == "__main__":
    main()
