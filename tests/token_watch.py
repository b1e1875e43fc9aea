"""Whether a token turns up where it must not be, over all that a run of the tests leaves behind and starts.

A token may lie in a file that holds nothing else, and in `KRANZQ_TOKEN` of a program that somebody gave it to. Whether
others may read such a file is asked by the tests that make them. Not in an argument, any other variable, a mission's
environment, a log, a record or a database.
"""

from __future__ import annotations

import os
import re
import stat
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path

TOKEN = re.compile(rb"kq[ao]_[A-Za-z0-9_-]{43}")
MADE_UP = 12
"""One with fewer different characters was made up by a test, to see that it is hidden or refused."""
KEPT_IN = "schemathesis.toml"
"""The settings of a tool of a test, with the headers that it is to send; for the user's eyes only."""
OFTEN_S = 1.0
MOST_BYTES = 50_000_000


def tokens(text: bytes) -> set[bytes]:
    """The tokens in some bytes that a program made, not a test."""
    return {one for one in TOKEN.findall(text) if len(set(one[4:])) >= MADE_UP}


def in_files(folders: Sequence[Path]) -> Iterator[str]:
    """A line for each file below some folders in which a token lies beside something else."""
    for folder in folders:
        for top, _, names in os.walk(folder):
            for name in names:
                path = Path(top, name)
                try:
                    facts = path.lstat()
                    if not stat.S_ISREG(facts.st_mode) or facts.st_size > MOST_BYTES:
                        continue
                    text = path.read_bytes()
                except OSError:
                    continue
                if not tokens(text) or TOKEN.fullmatch(text.strip()):
                    continue
                if facts.st_mode & 0o077 or name != KEPT_IN:
                    yield f"a token lies in {path}, mode {stat.filemode(facts.st_mode)}"


def in_processes(mark: bytes) -> Iterator[str]:
    """A line for each process with that mark in its environment that shows a token in `/proc`."""
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            environ = Path("/proc", pid, "environ").read_bytes()
            if mark not in environ:
                continue
            argv = Path("/proc", pid, "cmdline").read_bytes()
        except OSError:
            continue
        said = argv.replace(b"\0", b" ").decode(errors="replace")
        if tokens(argv):
            yield f"a token stands in the arguments of: {said}"
        a_mission = b"\0KRANZ_RUN_DIR=" in b"\0" + environ
        for variable in environ.split(b"\0"):
            name, _, value = variable.partition(b"=")
            if tokens(value) and (a_mission or name != b"KRANZQ_TOKEN"):
                yield f"a token stands in ${name.decode(errors='replace')} of: {said}"


class Watch:
    """Looks at the processes of this run once a second, until it is asked what it saw."""

    def __init__(self, mark: Path) -> None:
        self._mark = os.fsencode(mark)
        self._seen: set[str] = set()
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._look, name="token watch", daemon=True)
        self._thread.start()

    def _look(self) -> None:
        while not self._over.wait(OFTEN_S):
            self._seen.update(in_processes(self._mark))

    def end(self) -> set[str]:
        """What was seen."""
        self._over.set()
        self._thread.join()
        return self._seen
