"""A server for programs that run on a loop: the verbs of the work queue and of presence, each a coroutine.

The holder is the token's agent, so nobody is named. What a call promises, and raises, stands in `kranzq.backend.items`.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence

from kranzq.backend import Wanted
from kranzq.backend.items import AcceptedItem
from kranzq.backend.presence import Put
from kranzq.client import mission_asks, presence_asks, work_asks
from kranzq.client.logs import MOST_PIECE, LogPlace, follow_log_on_loop
from kranzq.client.sending import AsyncSender
from kranzq.client.values import LogPiece, Me
from kranzq.errors import KranzqError
from kranzq.model.claim import Holder
from kranzq.model.outcome import Outcome
from kranzq.model.presence import NewPresence, PresenceClaim
from kranzq.model.who import Question, Working
from kranzq.model.who import who as who_of
from kranzq.model.work import Attempt, Finish, Held, ItemClaim, ItemState, NewItem, Page, Recovered, Stats, WorkItem


class AsyncClient(AsyncSender):
    """A server, for one loop. Raises UsageFault for an address or token that is none."""

    async def me(self) -> Me:
        """Whom the server takes this caller for."""
        return await self.send(presence_asks.me())

    async def enqueue(self, new: NewItem) -> AcceptedItem:
        """Keep an item."""
        return await self.send(work_asks.enqueue(new))

    async def enqueue_many(self, new: Sequence[NewItem]) -> list[AcceptedItem]:
        """Keep all of them, or none; at most 1000."""
        return await self.send(work_asks.enqueue_many(new))

    async def claim(
        self,
        wanted: Wanted | None = None,
        *,
        lease_ms: int | None = None,
        request_id: str = "",
        wait_s: float = 0.0,
    ) -> ItemClaim | None:
        """Take the first item that the caller may have; the server waits `wait_s` (at most 60) seconds for one."""
        return await self.send(work_asks.claim(wanted, lease_ms, request_id, wait_s))

    async def claim_many(
        self, wanted: Wanted | None = None, *, limit: int, lease_ms: int | None = None
    ) -> list[ItemClaim]:
        """Take up to `limit` items."""
        return await self.send(work_asks.claim_many(wanted, limit, lease_ms))

    async def heartbeat(self, held: Held, lease_ms: int | None = None) -> int | None:
        """Count the lease anew; the wall milliseconds at which it will be over. Raises ClaimLost, NoSuchItem."""
        return await self.send(work_asks.heartbeat(held, lease_ms))

    async def finish(self, held: Held, outcome: Outcome = Outcome.SUCCEEDED, result: str = "") -> None:
        """End a claim for good; the same again is a success. Raises ClaimLost, NoSuchItem."""
        await self.send(work_asks.finish(held, outcome, result))

    async def finish_many(self, ends: Sequence[Finish]) -> list[KranzqError | None]:
        """End many claims; for each None, or why it was refused."""
        return await self.send(work_asks.finish_many(ends, str(self.address)))

    async def release(self, held: Held, why: str = "", *, declined: bool = False, delay_ms: int = 0) -> ItemState:
        """Give an item back; says where it is now. Raises ClaimLost, NoSuchItem."""
        return await self.send(work_asks.release(held, why, declined=declined, delay_ms=delay_ms))

    async def cancel(self, item: str, why: str = "") -> bool:
        """End what is not terminal. False when it had ended. Raises NoSuchItem."""
        return await self.send(work_asks.cancel(item, why))

    async def page(self, state: str = "", *, limit: int = 50, cursor: str | None = None) -> Page:
        """Items, newest change first."""
        return await self.send(work_asks.page(state, limit, cursor))

    async def show(self, item: str) -> WorkItem:
        """One item. Raises NoSuchItem."""
        return await self.send(work_asks.show(item))

    async def attempts(self, item: str) -> list[Attempt]:
        """Every claim of an item, oldest first. Raises NoSuchItem."""
        return await self.send(work_asks.attempts(item))

    async def unseen(self, limit: int = 100) -> list[WorkItem]:
        """Open items whose agent was never seen."""
        return await self.send(work_asks.unseen(limit))

    async def stats(self) -> Stats:
        """What there is, counted."""
        return await self.send(work_asks.stats())

    async def sweep(self) -> Recovered:
        """Lapse every overdue lease and open what is due. Needs the scope `operate`."""
        return await self.send(work_asks.sweep())

    async def prune(self, older_than_s: float) -> int:
        """Remove what ended longer ago; how many. Needs the scope `operate`."""
        return await self.send(work_asks.prune(older_than_s))

    async def put_presence(self, new: NewPresence) -> Put:
        """Say what one works on, or renew it; the holder is the token's. Raises PresenceFull."""
        return await self.send(presence_asks.put(new))

    async def live_presence(self) -> list[PresenceClaim]:
        """Every presence claim that has not expired."""
        return await self.send(presence_asks.live())

    async def release_presence(self, claim: str | None = None) -> list[PresenceClaim]:
        """End one presence claim of the caller, or all."""
        return await self.send(presence_asks.release(claim))

    async def who(self, question: Question, *, caller: Holder | None = None) -> tuple[Working, ...]:
        """Everybody but the caller who works on it."""
        return who_of(question, await self.live_presence(), caller=caller)

    async def log(self, mission: str, *, run: int | None = None, offset: int = 0, most: int = MOST_PIECE) -> LogPiece:
        """Bytes of a run's output from `offset` on, or from so many before its end. Raises NoSuchMission, NotFound."""
        return await self.send(mission_asks.log(mission, run, offset, most))

    def follow(self, mission: str, *, run: int | None = None, offset: int = 0) -> AsyncGenerator[LogPiece]:
        """The same, piece by piece, until the run has ended; one without data says that nothing is there yet."""
        return follow_log_on_loop(self, LogPlace(mission, run, offset))
