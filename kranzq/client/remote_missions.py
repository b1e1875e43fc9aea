"""The missions of a server's checkout, as JSON with the keys of the command line."""

from __future__ import annotations

from collections.abc import Generator, Mapping
from types import TracebackType
from typing import Any, Self

from kranzq.client import mission_asks
from kranzq.client.logs import MOST_PIECE, LogPlace, follow_log
from kranzq.client.sending import Client
from kranzq.client.values import LogPiece

Json = dict[str, object]


class RemoteMissions:
    """Missions at a server. To enqueue and cancel needs the scope `operate`."""

    def __init__(self, client: Client) -> None:
        self._client = client

    @property
    def where(self) -> str:
        """The server's address."""
        return str(self._client.address)

    def close(self) -> None:
        """Let go of connections."""
        self._client.close()

    def __enter__(self) -> Self:
        """Close when the block ends."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, fault: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close."""
        self.close()

    def listing(self, *, parked: bool = False, everything: bool = False) -> Json:
        """What waits, in order."""
        return self._client.send(mission_asks.listing(parked=parked, everything=everything))

    def status(self) -> Json:
        """What runs, what waits, and what needs a person."""
        return self._client.send(mission_asks.status())

    def one(self, mission: str) -> Json:
        """Where a mission is, and its runs. Raises NoSuchMission."""
        return self._client.send(mission_asks.one(mission))

    def why(self, mission: str) -> Json:
        """Why it does not run, or how it ended. Raises NoSuchMission."""
        return self._client.send(mission_asks.why(mission))

    def history(self, mission: str | None = None, *, last: int = 100, unended: bool = False) -> Json:
        """How runs of one mission or of all ended, newest last; the newest so many, at most 1000."""
        return self._client.send(mission_asks.history(mission, last, unended=unended))

    def enqueue(self, asked: Mapping[str, Any]) -> Json:
        """Approve a mission in the name of the server's user. Raises Conflict, UsageFault, Refused."""
        return self._client.send(mission_asks.enqueue(asked))

    def cancel(self, mission: str, why: str = "") -> Json:
        """Take an approval back: remove what waits, ask what runs to end. Raises NoSuchMission."""
        return self._client.send(mission_asks.cancel(mission, why))

    def log(self, mission: str, *, run: int | None = None, offset: int = 0, most: int = MOST_PIECE) -> LogPiece:
        """Bytes of a run's output from `offset` on, or from so many before its end. Raises NoSuchMission, NotFound."""
        return self._client.send(mission_asks.log(mission, run, offset, most))

    def follow(self, mission: str, *, run: int | None = None, offset: int = 0) -> Generator[LogPiece]:
        """The same, piece by piece, until the run has ended; one without data says that nothing is there yet."""
        return follow_log(self._client, LogPlace(mission, run, offset))
