"""`python -m kranzq` and the `kranzq` command: start the command line, turn every fault into an exit code."""

from __future__ import annotations

import contextlib
import gc
import os
import sys

COLLECT_AFTER = 25_000
"""Objects that a verb may make before Python looks for cycles among them: more than the imports of most verbs make, and
less than a megabyte or two. With Python's own 700 a tenth of an enqueue is spent on looking."""


def main() -> None:
    """Run the command line on this process's arguments and exit with a documented code."""
    gc.set_threshold(COLLECT_AFTER)
    _open_standard_streams()
    from kranzq.cli.main import run  # noqa: PLC0415 - keeps `import kranzq.__main__` free of click

    leave(run(sys.argv[1:]))


def leave(code: int) -> None:
    """End this process; at once if nothing waits for its end.

    Python takes apart what it has imported before it ends: a seventh of an enqueue. That is left out where nobody can
    tell: everything was written, no other thread runs, and nothing asked to be called at the end (or it would have
    imported `atexit`).
    """
    threading = sys.modules.get("threading")
    if "atexit" not in sys.modules and (threading is None or threading.active_count() == 1):
        try:
            sys.stdout.flush()
            sys.stderr.flush()
        except (OSError, ValueError):
            sys.exit(code)  # Python says what could not be written
        os._exit(code)
    sys.exit(code)


def _open_standard_streams() -> None:
    """Put /dev/null where a standard stream is closed, or the next file that is opened would become it.

    What a charset has not is shown escaped on stdout, as Python does it on stderr: a name, a title or a sign of ours
    ends nothing.
    """
    for fd, name in enumerate(("stdin", "stdout", "stderr")):
        try:
            os.fstat(fd)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # the lowest free number is this one
        if getattr(sys, name) is None:
            setattr(sys, name, os.fdopen(fd, "w" if fd else "r", encoding="utf-8", closefd=False))
    with contextlib.suppress(AttributeError, OSError):  # a stream of another make, or one that was exchanged below it
        sys.stdout.reconfigure(errors="backslashreplace")  # type: ignore[union-attr]


if __name__ == "__main__":
    main()
