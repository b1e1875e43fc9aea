"""A bar for long work, on the error stream of a terminal and only there; gone when the work is done.

It comes only after half a second: what is quick shows none. A question in between takes it away first.
"""

from __future__ import annotations

import contextlib
import sys
import time
from collections.abc import Iterator

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn, TimeElapsedColumn

from kranzq.cli.say import clean
from kranzq.progress import listen

_AFTER_S = 0.5
_A_SECOND = 10


class _Bar:
    """One bar at a time; another kind of work begins anew."""

    def __init__(self, *, prints: bool) -> None:
        self._prints = prints
        self._began = time.monotonic()
        self._shown: Progress | None = None
        self._what, self._task = "", TaskID(0)

    def hear(self, what: str, done: int, total: int | None) -> None:
        """Draw how far it is, if it has lasted."""
        if what != self._what:
            self.clear()
            self._what, self._began = what, time.monotonic()
        if self._shown is None:
            if time.monotonic() - self._began < _AFTER_S:
                return
            self._begin(total)
        assert self._shown is not None
        self._shown.update(self._task, completed=done, total=total)

    def clear(self) -> None:
        """Take it away."""
        if self._shown is not None:
            self._shown.stop()
            self._shown = None

    def _begin(self, total: int | None) -> None:
        console = Console(stderr=True, markup=False, emoji=False, highlight=False)
        self._shown = Progress(
            TextColumn("{task.description}", markup=False, highlighter=None),
            BarColumn(),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            console=console,
            transient=True,
            redirect_stdout=self._prints,
            redirect_stderr=self._prints,
            refresh_per_second=_A_SECOND,
        )
        self._task = self._shown.add_task(clean(self._what), total=total)
        self._shown.start()


@contextlib.contextmanager
def shown(*, prints: bool = False) -> Iterator[_Bar]:
    """Show how far the work inside is. Who prints meanwhile must `clear` the bar first.

    Where the work `prints` lines by itself they go above the bar: for a program whose lines are no strangers'.
    """
    bar = _Bar(prints=prints)
    end = listen(bar.hear)
    try:
        yield bar
    finally:
        end()
        bar.clear()
        sys.stderr.flush()
