"""What a turn is made of, handed in by the wiring, and what a turn can come to."""

from __future__ import annotations

import random
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal, Protocol

from kranzq.backend import Examined, MissionQueue, Past, Unclaimed
from kranzq.model.checkout import Checkout
from kranzq.model.claim import Place
from kranzq.model.clock import Clock, SystemClock
from kranzq.model.entry import Entry
from kranzq.model.frozen import frozen
from kranzq.model.ids import MissionId
from kranzq.model.policy import DEFERRAL_LIMIT_S, INTERRUPTION_LIMIT, Limits
from kranzq.model.state import State
from kranzq.runs.retention import Keep

if TYPE_CHECKING:
    from kranzq.busy.foreign import Engines
    from kranzq.busy.lock import BusyLock
    from kranzq.disk.leavings import IsGone
    from kranzq.dispatch.items import Items
    from kranzq.model.outcome import Ending, Fate
    from kranzq.runner import Runner
    from kranzq.runs.keepers import WarmKeepers
    from kranzq.trust.may_run import Gate


class OpenQueue(MissionQueue, Protocol):
    """A queue whose directories are open for the length of one turn."""

    @property
    def fd(self) -> int:
        """The descriptor of `.kranz/queue`."""
        ...

    @property
    def kranz_fd(self) -> int:
        """The descriptor of `.kranz`."""
        ...

    def names(self) -> tuple[Sequence[str], ...]:
        """The names of all entries and claims, unread."""
        ...

    def finish_moves(self) -> None:
        """End what was killed between a change of content and that of the name; takes `change` itself."""
        ...

    def admit_due(self) -> None:
        """Move what is due from `waiting/` to its place."""
        ...

    def next_due(self) -> float | None:
        """When the next waiting entry is due, in wall seconds."""
        ...

    def is_tidy(self) -> bool:
        """Whether every name that asks to be an entry's is one."""
        ...

    def tidy_up(self, examined: Examined) -> None:
        """Set aside what is no entry among what waits or is parked; what was examined is not read again."""
        ...

    def queued(self) -> Iterator[Place]:
        """What lies in `queue/` by its name, in order."""
        ...

    def read(self, place: Place) -> Entry | None:
        """The entry at a place, or None when it is gone or bad."""
        ...

    def places(self, mission: MissionId | None = None) -> Sequence[Place]:
        """Where entries are, all or one mission's, whatever their state."""
        ...

    def unclaimed(self, missions: Container[str]) -> list[Unclaimed]:
        """What lies in the queue and the inbox for these missions and is no claim."""
        ...

    def take_out(self, files: Iterable[Unclaimed]) -> list[Unclaimed]:
        """Remove files, durably; those that were still there."""
        ...

    def waiting_for_others(self) -> Sequence[Place]:
        """What waits until other missions have ended."""
        ...

    def admit(self, place: Place, due_ms: int | None) -> State:
        """Let what waited run, or wait until `due_ms`; where it is now. `change` must be held."""
        ...

    def hold_back(self, place: Place, due_ms: int | None) -> None:
        """Let a queued entry wait: until `due_ms`, or for other missions. `change` must be held."""
        ...

    def set_aside(self, place: Place, why: str) -> None:
        """Park what is queued or waits; `change` must be held."""
        ...

    def paused(self) -> str | None:
        """Why no new turns may be done, or None."""
        ...

    def has_dropped(self) -> bool:
        """Whether anything in the inbox asks to be admitted."""
        ...

    def dropped_missions(self) -> set[MissionId]:
        """The missions that lie in the inbox."""
        ...

    def admit_dropped(self, recall: Callable[[MissionId], Past]) -> list[tuple[str, str]]:
        """Make entries of what was dropped; what could not be moved, each with the reason."""
        ...

    def prune_quarantine(self, count: int, age_s: float) -> int:
        """Remove old quarantined files; how many."""
        ...

    def sweep_leavings(self, is_gone: IsGone) -> int:
        """Remove temporary files of writers that are gone; how many."""
        ...


@frozen
class Settings:
    """What a turn needs of the configuration."""

    grace_s: float = 10.0
    on_survivors: Literal["end", "report"] = "end"
    park_interrupted: bool = False
    timeout_s: float | None = None
    output_cap: int | None = None
    keep: Keep = field(default_factory=Keep)
    interruptions: int = INTERRUPTION_LIMIT
    deferral_s: float | None = DEFERRAL_LIMIT_S

    def limits(self, retries: int) -> Limits:
        """What the policy may spend on an entry that allows so many retries."""
        return Limits(retries, self.park_interrupted, self.interruptions, self.deferral_s)


@frozen
class Parts:
    """The ready parts of one checkout."""

    checkout: Checkout
    open_queue: Callable[[], AbstractContextManager[OpenQueue]]
    busy: BusyLock
    engines: Engines
    keepers: WarmKeepers
    runner: Runner
    gate: Gate
    settings: Settings = field(default_factory=Settings)
    clock: Clock = field(default_factory=SystemClock)
    jitter: Callable[[], float] = random.random
    after_start: Callable[[], None] = lambda: None
    """Called once a mission runs: the daemon warms the next keeper then."""
    obstacle: Callable[[], str | None] = lambda: None
    """What in the checkout itself keeps missions from starting just now: asked while a daemon waits for that to go."""
    couriers: Callable[[], Mapping[int, int | None]] = dict
    """Pid and start ticks of processes of ours that tell hooks."""
    private_folders: Sequence[str] = ()
    """The user's own folders outside the checkout, in which writers may be killed too."""
    is_subreaper: bool = False
    """Whether orphans of a killed keeper come to this process."""
    items: Callable[[], Items] | None = None
    """The items of this checkout, made at the first call: when one is asked for, or when a claim on one was found."""
    serves_items: bool = False
    """Whether items are asked for."""


@dataclass(slots=True)
class Memory:
    """What a dispatcher remembers from turn to turn; nothing in it is needed for correctness."""

    first_turn: bool = True
    queue_key: tuple[int, int] | None = None
    said: set[tuple[str, str]] = field(default_factory=set)
    names: tuple[Sequence[str], ...] = ()
    """What lay in the queue when the last turn began: should the queue be removed, they tell what was in it."""
    passed: set[str] = field(default_factory=set)
    """Names of entries that were passed over last; only these are judged before the lock is taken."""
    examined: Examined = field(default_factory=Examined)
    item_is_next: bool = False
    """Whether the work queue is asked first: after a mission of the file queue, for both get their turn."""

    def is_new(self, subject: str, text: str) -> bool:
        """Whether this was not said before; each reason is said once."""
        if (subject, text) in self.said:
            return False
        self.said = {pair for pair in self.said if pair[0] != subject} | {(subject, text)}
        return True


@frozen
class Ran:
    """A mission was tried."""

    mission: MissionId
    run: int
    ending: Ending
    fate: Fate
    is_item: bool = False


@frozen
class Left:
    """The mission was left running; the next dispatcher adopts it."""

    mission: MissionId
    run: int


@frozen
class Empty:
    """Nothing may run now. `passed_over` maps missions to why they wait; `due` is wall seconds."""

    passed_over: dict[str, str]
    due: float | None = None
    claims: int = 0


@frozen
class IsBusy:
    """Somebody has the checkout. `keeper` is the pid of a visible keeper; `recovered` that recovery moved something.

    `by_lock`: the kernel's lock is held, so whoever waits can block on it. Else only another look tells.
    """

    holder: str
    keeper: int | None = None
    recovered: bool = False
    by_lock: bool = False


@frozen
class Paused:
    """No new turns may be done."""

    reason: str


Result = Ran | Left | Empty | IsBusy | Paused
