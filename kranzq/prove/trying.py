"""One trial after the other: one that cannot be made says why, and the others are made all the same."""

from __future__ import annotations

import errno
import os
import subprocess
from collections.abc import Callable, Iterable, Iterator

from kranzq.errors import KranzqError
from kranzq.model.trial import Trial, Verdict

Planned = tuple[str, tuple[int, ...], Callable[[], Trial]]
"""A trial before it is made: its name, the promises that it bears on, and what makes it."""
_LACKED = tuple(
    os.strerror(code) for code in (errno.ENOSPC, errno.EDQUOT, errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.EAGAIN)
)
"""What the system says when there is too little of something. Looked for in texts: most faults come from processes."""
_MORE = "Nothing was found out by it. Make room (disk, open files, processes), then type: kranzq check --prove"


def each(planned: Iterable[Planned], said: str, advice: str) -> Iterator[Trial]:
    """Make them all. `said` begins the text of one that failed, and `advice` goes with it.

    A machine that had too little of something for the trial has broken nothing: then it was not tried.
    """
    for name, promises, trial in planned:
        try:
            done = trial()
        except (OSError, KranzqError, subprocess.SubprocessError) as fault:
            text = fault.sentence if isinstance(fault, KranzqError) else str(fault)
            lacks = any(one in text for one in _LACKED)
            verdict, what = (Verdict.UNTRIED, _MORE) if lacks else (Verdict.BROKEN, advice)
            done = Trial(name, promises, verdict, 0, f"{said}{text}", what)
        yield done
