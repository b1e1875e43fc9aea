"""Long work, with a bar where somebody looks at it. Nothing of the bar is imported elsewhere."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Iterator

from kranzq.cli.say import is_screen


@contextlib.contextmanager
def long_work(*, prints: bool = False) -> Iterator[Callable[[], None]]:
    """Work that may take long; gives what takes the bar away, to be called before anything is printed or asked.

    Where the work `prints` lines itself, they go above the bar.
    """
    if not is_screen(sys.stderr):
        yield lambda: None
        return
    from kranzq.cli.screen.progress import shown

    with shown(prints=prints) as bar:
        yield bar.clear
