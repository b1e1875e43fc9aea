"""What there is, counted, with the place in the event log from which one reads on: no change falls between the two."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from kranzq.model.frozen import frozen
from kranzq.model.work_json import stats_json
from kranzq.server.event_log import EventLog, frame

if TYPE_CHECKING:
    from kranzq.server.service import Service
    from kranzq.wiring.missions import Missions

KIND = "snapshot"


@frozen
class Snapshot:
    """One snapshot. What happened behind `place` may be in it already, and is told once more."""

    place: int
    frame: bytes
    taken: float


class Snapshots:
    """Takes one for all who ask at once. For the loop's thread."""

    def __init__(self, service: Service, log: EventLog, missions: Missions | None) -> None:
        self._service, self._log, self._missions = service, log, missions
        self._turn = asyncio.Lock()
        self._last: Snapshot | None = None

    async def take(self, at_least: int = 0) -> Snapshot:
        """What there is now, with a place that is not before `at_least`. Raises as stores do.

        All who ask while one is being taken share the next one.
        """
        clock = asyncio.get_running_loop().time
        asked = clock()
        async with self._turn:
            last = self._last
            if last is None or last.taken < asked or last.place < max(at_least, self._log.tail):
                taken, place = clock(), self._log.head  # read before what is counted
                value = await self._service.pool.run(self._read)
                last = self._last = Snapshot(place, frame(KIND, value, self._log.id(place)), taken)
            return last

    def _read(self) -> dict[str, object]:
        store = self._service.store
        return {
            "boot": self._log.boot,
            "work": stats_json(store.stats()),
            "presence": len(store.presence.live()),
            "missions": self._missions.counts() if self._missions is not None else None,
        }
