"""Whether anybody holds a kernel lock, asked without the product's own code."""

from __future__ import annotations

import fcntl
import os
from pathlib import Path


def is_free(path: Path) -> bool:
    """Whether nobody holds the lock of a file or folder that is there; it is not kept."""
    fd = os.open(path, os.O_RDONLY)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    finally:
        os.close(fd)
    return True
