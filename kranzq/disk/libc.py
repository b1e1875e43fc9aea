"""The C library of this process, for the few system calls that Python does not offer."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import ctypes

_loaded: ctypes.CDLL | None = None


def libc() -> ctypes.CDLL:
    """The library; its calls keep their error in `ctypes.get_errno`."""
    global _loaded  # noqa: PLW0603 - with ctypes it costs 3 ms, which a verb that only looks need not pay
    if _loaded is None:
        import ctypes  # noqa: PLC0415 - as above

        _loaded = ctypes.CDLL(None, use_errno=True)
    return _loaded


def last_error() -> int:
    """The error number of the last call that failed in this thread."""
    import ctypes  # noqa: PLC0415 - as above

    return ctypes.get_errno()
