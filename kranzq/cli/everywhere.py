"""`kranzq status --all`: all known checkouts, in words, as JSON or on a screen."""

from __future__ import annotations

import os
import time

from kranzq.cli.say import is_screen, say_json
from kranzq.wiring import repos


def status_of_all(every_s: float | None, *, as_json: bool) -> None:
    """Look at each; on a terminal every so many seconds, if that was asked for."""
    if is_screen() and not as_json:
        from kranzq.cli.screen.repos import repos_lines
        from kranzq.cli.screen.showing import show

        show(lambda size: repos_lines(repos.look_at_all(os.environ), size, time.time()), every_s)
        return
    found = repos.look_at_all(os.environ)
    if as_json:
        say_json({"repos": [one.to_json() for one in found]})
        return
    from kranzq.cli.showing_repos import repos_text

    repos_text(found)
