"""Orphans that came to a dispatcher dead, as a subreaper's or as process 1's: they are buried, never a keeper."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Container


def bury_strays(keepers: Container[int]) -> None:
    """Bury the dead children that are no keepers: a keeper's end is taken elsewhere, by whoever watches over it."""
    with contextlib.suppress(ChildProcessError):
        while (found := os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)) is not None:
            if found.si_pid in keepers:
                return
            os.waitid(os.P_PID, found.si_pid, os.WEXITED)
