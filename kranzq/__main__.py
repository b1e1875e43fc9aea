"""`python -m kranzq` and the `kranzq` command: start the command line, turn every fault into an exit code."""

from __future__ import annotations

import sys


def main() -> None:
    """Run the command line on this process's arguments and exit with a documented code."""
    from kranzq.cli.main import run  # noqa: PLC0415 - keeps `import kranzq.__main__` free of click

    sys.exit(run(sys.argv[1:]))


if __name__ == "__main__":
    main()
