"""`python -m kranzq` and the `kranzq` command: start the command line, turn every fault into an exit code."""

from __future__ import annotations

import os
import sys


def main() -> None:
    """Run the command line on this process's arguments and exit with a documented code."""
    _open_standard_streams()
    from kranzq.cli.main import run  # noqa: PLC0415 - keeps `import kranzq.__main__` free of click

    sys.exit(run(sys.argv[1:]))


def _open_standard_streams() -> None:
    """Put /dev/null where a standard stream is closed, or the next file that is opened would become it."""
    for fd, name in enumerate(("stdin", "stdout", "stderr")):
        try:
            os.fstat(fd)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # the lowest free number is this one
        if getattr(sys, name) is None:
            setattr(sys, name, os.fdopen(fd, "w" if fd else "r", encoding="utf-8", closefd=False))


if __name__ == "__main__":
    main()
