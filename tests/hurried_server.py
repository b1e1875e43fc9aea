"""A server with limits for which no test needs to wait: `python -m tests.hurried_server serve --url U`."""

from __future__ import annotations

import os
import sys

from kranzq.cli.say import say
from kranzq.server.service import Limits
from kranzq.server.serving import Options, serve

CONNECTIONS = 12
LIMITS = Limits(
    header_s=0.4, body_s=0.4, body_rate=1024 * 1024, idle_s=0.6, stalled_s=0.6, connections=CONNECTIONS, threads=8
)


def main(url: str) -> None:
    """Serve as `kranzq serve` does."""
    words = f"as process {os.getpid()}; in a hurry"
    serve(Options(os.getcwd(), url, limits=LIMITS), os.environ, lambda urls: say(f"kranzq serves {urls[0]} {words}"))


if __name__ == "__main__":
    main(sys.argv[-1])
