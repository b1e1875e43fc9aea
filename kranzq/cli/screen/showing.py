"""One look or many: what `status` and `list` do on a terminal."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from kranzq.cli.say import say_styled
from kranzq.cli.screen.checkout import status_lines
from kranzq.cli.screen.drawing import Size, size_here
from kranzq.cli.screen.entries import listing_lines

if TYPE_CHECKING:
    from kranzq.dispatch.listed import Listing
    from kranzq.dispatch.overview import Overview


def show_status(look: Callable[[], Overview], every_s: float | None, *, where: str = "") -> None:
    """The screen of a checkout, once or every so many seconds. `where`: the server that was asked, if one was."""
    before: list[Overview] = []

    def lines(size: Size) -> Sequence[str]:
        seen = look()
        earlier = before.pop() if before else None
        before.append(seen)
        return status_lines(seen, size, earlier, where=where)

    show(lines, every_s)


def show_listing(look: Callable[[], Listing], every_s: float | None, *, parked: bool) -> None:
    """The screen of entries, once or every so many seconds."""
    show(lambda size: listing_lines(look(), size, parked=parked), every_s)


def show(frame: Callable[[Size], Sequence[str]], every_s: float | None) -> None:
    """Draw once, below what is there, or again and again."""
    if every_s is not None:
        from kranzq.cli.screen.watching import watch

        watch(frame, every_s)
        return
    for line in frame(size_here()):
        say_styled(line)
