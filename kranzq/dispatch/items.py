"""The work queue as the dispatchers of one checkout see it: who holds its items, how it is asked, and when it is away.

A work queue that does not answer keeps nobody waiting: it is left alone for a while, and what is to be handed in lies
in the checkout until it is there again. Made only where items are served, or where a claim on one was found.
"""

from __future__ import annotations

import collections
import contextlib
import secrets
import threading
import time
from collections.abc import Callable
from typing import TypeVar

from kranzq.backend import Wanted
from kranzq.backend.items import WorkStore
from kranzq.dispatch.item_leases import Leases
from kranzq.errors import ClaimLost, KranzqError, NotFound, StoreUnavailable, TryLater
from kranzq.events import Warned, emit
from kranzq.leases.sweeper import Sweeper
from kranzq.model.claim import Holder
from kranzq.model.entry import Entry
from kranzq.model.frozen import frozen
from kranzq.model.ids import MissionId
from kranzq.model.item_run import ItemOfRun
from kranzq.model.policy import backoff_s
from kranzq.model.work import Held, ItemClaim
from kranzq.runner import Runner

R = TypeVar("R")
KIND = "mission"
ASK_EVERY_S = 120.0
"""Without a hint the work queue is asked so often: a hint may be lost, and asking takes the busy lock."""
COMPARE_AFTER_S = (60.0, 600.0)
"""After the first look for items that nobody here began: what a killed dispatcher had asked for may come late."""
_AWAY_S = (5.0, 15.0, 60.0)
_ANY = Entry(MissionId("item"))
NO_COMMAND = (
    "items are not asked for: no command is configured that could run them. Set [work] command, or [mission] command, "
    "in the user's config.toml"
)


@frozen
class ItemSettings:
    """What is fixed for one checkout. `url` is the database's, without a password; `path` its file, if it is one."""

    holder: Holder
    groups: frozenset[str]
    url: str
    lease_s: float
    sweep_s: float
    path: str | None = None


class ItemsAway(TryLater):
    """The work queue did not answer a moment ago and is left alone for a while."""

    def __init__(self, why: str) -> None:
        super().__init__(why, "It is tried again by itself.")


class Items:
    """The items of one checkout in one process. `ask` and `came_back` may be called from any thread."""

    def __init__(
        self,
        settings: ItemSettings,
        runner: Runner,
        open_store: Callable[[], WorkStore],
        sweeper_of: Callable[[WorkStore], Sweeper],
    ) -> None:
        self.settings, self.runner = settings, runner
        self.sweeper_of = sweeper_of
        self.leases = Leases(self)
        self._open_store = open_store
        self._store: WorkStore | None = None
        self._mutex = threading.Lock()
        self._why_away, self._away_until, self._failures, self._is_watched = "", 0.0, 0, False
        self._paused_until, self._pauses = 0.0, 0
        self._ask_at = self._compare_at = 0.0
        self._compared = 0
        self._request = ""
        self._said: set[str] = set()
        self._untold: collections.deque[str] = collections.deque()

    @property
    def is_away(self) -> bool:
        """Whether it did not answer the last time. Where another thread finds out when it does, only that one asks."""
        return self._failures > 0 and (self._is_watched or time.monotonic() < self._away_until)

    def leave_to_watch(self) -> None:
        """A thread of its own calls it from now on until it answers: the dispatching one never waits for that."""
        self._is_watched = True
        self._failures = self._failures or 1
        self._why_away = self._why_away or f"the work queue {self.settings.url} was not reached yet"

    def leave_to_us(self) -> None:
        """That thread is no more."""
        self._is_watched = False

    def store(self) -> WorkStore:
        """The work queue, opened at the first call that succeeds. Raises StoreUnavailable and whatever opening does."""
        with self._mutex:
            if self._store is None:
                self._store = self._open_store()
            return self._store

    def ask(self, act: Callable[[WorkStore], R], *, at_once: bool = False) -> R:
        """Call it. Raises ItemsAway while it is left alone, unless `at_once`; and whatever the call raises."""
        if self.is_away and not at_once:
            raise ItemsAway(self._why_away)
        try:
            answer = act(self.store())
        except (ClaimLost, NotFound):
            self.came_back()
            raise
        except KranzqError as fault:
            self.went_away(fault)
            raise
        self.came_back()
        return answer

    def heartbeat(self, held: Held, lease_ms: int | None = None) -> ItemClaim:
        """Renew a lease: tried whether it is away or not, for time runs out."""
        return self.ask(lambda store: store.heartbeat(held, lease_ms), at_once=True)

    def came_back(self) -> None:
        """It answers."""
        self._why_away, self._away_until, self._failures = "", 0.0, 0
        if "away" in self._said:
            self._said.discard("away")
            self.tell(f"the work queue {self.settings.url} answers again")

    def hint(self) -> None:
        """There may be something to claim: ask at the next turn."""
        self._ask_at = 0.0

    def is_worth_asking(self) -> bool:
        """Whether a turn should ask for an item, as far as can be told without asking. Says once what is missing."""
        self.tell_what_waits()
        if not self.runner.can_run(_ANY):
            self.say("command", NO_COMMAND)
            return False
        now = time.monotonic()
        return not self.is_away and now >= self._paused_until and now >= self._ask_at

    def claim(self) -> ItemClaim | None:
        """The item to run now, None when there is none or the work queue is away. The busy lock must be held."""
        self._request = self._request or secrets.token_hex(16)
        wanted = Wanted(kind=KIND, groups=self.settings.groups)
        lease_ms = round(self.settings.lease_s * 1000)
        self._ask_at = time.monotonic() + ASK_EVERY_S
        try:
            given = self.ask(
                lambda store: store.claim(self.settings.holder, wanted, lease_ms=lease_ms, request_id=self._request)
            )
        except KranzqError as fault:
            if not isinstance(fault, StoreUnavailable | TryLater):
                self.say("claim", f"items are not asked for: {fault.sentence}")
            return None  # the same request again gives what this one may have been given
        self._request = ""
        if given is not None:
            self._ask_at = 0.0
        return given

    def is_ours(self, item: ItemOfRun) -> bool:
        """Whether the item was claimed by this checkout from this database: others' are never spoken for."""
        return item.holder_uid == self.settings.holder.uid and item.url == self.settings.url

    def of_claim(self, claim: ItemClaim) -> ItemOfRun:
        """What the record of a run says of the item."""
        holder = self.settings.holder
        return ItemOfRun(claim.id, claim.attempt, holder.name, holder.uid, self.settings.url)

    def compare_due(self) -> bool:
        """Whether it is time to look for items that are ours by the work queue alone; then it is not for a while."""
        if self.is_away or time.monotonic() < self._compare_at:
            return False
        self._compare_at = time.monotonic() + COMPARE_AFTER_S[min(self._compared, 1)]
        self._compared += 1
        return True

    def compare_again(self) -> None:
        """That look came to nothing; the next turn looks again."""
        self._compare_at, self._compared = 0.0, 0

    def pause(self, reason: str, jitter: float) -> None:
        """An item could not be started for everybody's reasons: none is asked for after it for a while."""
        seconds = backoff_s(self._pauses, jitter)
        self._pauses += 1
        self._paused_until = time.monotonic() + seconds
        emit(Warned(f"no item is asked for in the next {seconds:.0f} s: {reason}"))

    def resume(self) -> None:
        """An item was started."""
        self._paused_until, self._pauses = 0.0, 0

    def went_away(self, fault: KranzqError) -> None:
        """It does not answer: it is left alone for a while, longer each time."""
        self._why_away = fault.sentence
        self._away_until = time.monotonic() + _AWAY_S[min(self._failures, len(_AWAY_S) - 1)]
        self._failures += 1
        self.say("away", f"the work queue is away: {fault.sentence.rstrip('.')}; missions run on without it")

    def say(self, subject: str, text: str) -> None:
        """Warn once. From the dispatching thread alone: others leave it to that one, since a listener may block."""
        if subject not in self._said:
            self._said.add(subject)
            self.tell(text)

    def tell_what_waits(self) -> None:
        """Say what other threads have left to be said."""
        with contextlib.suppress(IndexError):
            while True:
                emit(Warned(self._untold.popleft()))

    def tell(self, text: str) -> None:
        """Warn, from whichever thread."""
        self._untold.append(text)
        if threading.current_thread() is threading.main_thread():
            self.tell_what_waits()
