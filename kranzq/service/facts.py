"""What a unit must tell, whatever the service manager: the checkout, the program, what the shell at hand decides."""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Sequence

from kranzq.model.frozen import frozen

RETRY_S = 10
"""Between the end of a daemon and the next try, in seconds: no storm, and nobody waits for long."""
STOP_S = 90
"""How long a daemon may take to leave: a second to hear of a keeper's TERM, then the mission's grace and its KILL."""
WATCHDOG_S = 120
"""So long a daemon may be silent before it counts as hung; it speaks twice as often, and ends leftovers meanwhile."""
_READABLE = 40
_HASH = 8


@frozen
class Facts:
    """One service. `program` starts kranzq without its words; `environment` and `umask` are those of the shell."""

    root: str
    program: tuple[str, ...]
    environment: tuple[tuple[str, str], ...]
    umask: int

    @property
    def name(self) -> str:
        """The service's name, the same for the same path: readable, and short whatever the path is."""
        return name_of(self.root)

    def words(self, *words: str) -> Sequence[str]:
        """The command line of a verb in this checkout."""
        return [*self.program, "-C", self.root, *words]


def name_of(root: str) -> str:
    """The service of the checkout at `root`: the last part of its path for people, a hash of all of it for the rest.

    An escaped path would be longer than a file name may be, and a template would give all checkouts one program and
    one environment.
    """
    readable = re.sub(r"[^a-z0-9_.]+", "-", os.path.basename(root), flags=re.ASCII | re.IGNORECASE)
    readable = readable[:_READABLE].strip("-.")
    digest = hashlib.sha256(os.fsencode(root)).hexdigest()[:_HASH]
    return f"kranzq-{readable}-{digest}" if readable else f"kranzq-{digest}"
