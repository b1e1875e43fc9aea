"""Following a run's output at a server: piece by piece, until the run says nothing more.

Both followers share one `LogPlace`, which knows what to ask for next and how long to wait. A cut costs nothing: the
next piece is asked for by its first byte.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, Generator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from kranzq.client.asking import Ask
from kranzq.client.mission_asks import log
from kranzq.client.values import LogPiece

if TYPE_CHECKING:
    from kranzq.client.sending import AsyncSender, Client

MOST_PIECE = 256 * 1024
"""Bytes that are asked for at a time."""
FIRST_S, MOST_S = 0.1, 2.0
"""Pauses while nothing is said; they grow."""


@dataclass(slots=True)
class LogPlace:
    """Where a follower is. `run`: pinned by the first piece, so that a later run is not taken for more of this one."""

    mission: str
    run: int | None = None
    offset: int = 0
    pause_s: float = FIRST_S

    def ask(self) -> Ask[LogPiece]:
        """The request for the next piece."""
        return log(self.mission, self.run, self.offset, MOST_PIECE)

    def took(self, piece: LogPiece) -> float | None:
        """How long to wait before the next one; None: that was all."""
        self.run, self.offset = piece.run, max(piece.next, self.offset)
        if piece.data:
            self.pause_s = FIRST_S
        if piece.next < piece.size:
            return 0.0 if piece.data else self.pause_s
        if piece.is_over:
            return None
        if not piece.data:
            self.pause_s = min(self.pause_s * 1.3, MOST_S)
        return self.pause_s


def follow_log(client: Client, place: LogPlace) -> Generator[LogPiece]:
    """The pieces from there on, as they come. Raises NoSuchMission, NotFound and what calls raise."""
    while True:
        piece = client.send(place.ask())
        yield piece
        if (pause := place.took(piece)) is None:
            return
        time.sleep(pause)


async def follow_log_on_loop(client: AsyncSender, place: LogPlace) -> AsyncGenerator[LogPiece]:
    """As `follow_log`."""
    while True:
        piece = await client.send(place.ask())
        yield piece
        if (pause := place.took(piece)) is None:
            return
        await asyncio.sleep(pause)
