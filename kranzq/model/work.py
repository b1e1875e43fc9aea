"""Items of the work queue: what agents pull by lease, with the checks that each one passes at the door.

Times are wall milliseconds since 1970, as the seed's tables have them. `priority`: higher first, the opposite of a
mission's. `attempts` only ever grows and is the fence: a claim is named by item and attempt.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass, field

from kranzq.errors import UsageFault
from kranzq.model.claim import Holder
from kranzq.model.clock import LATEST_S
from kranzq.model.frozen import frozen
from kranzq.model.outcome import Outcome

DEFAULT_LEASE_MS, MOST_LEASE_MS = 120_000, 86_400_000
"""A lease that is not said, or not above zero, is two minutes; none is longer than a day."""
MOST_DELAY_MS = 30 * 86_400_000
"""So long an item that is given back may be kept back."""
DEFAULT_ATTEMPTS, MOST_ATTEMPTS = 3, 1_000_000
MOST_TITLE, MOST_TEXT, MOST_NAME = 1024, 1024 * 1024, 200
"""Sizes in bytes of UTF-8: title; payload, result and reason; every name, kind, group and key."""
MOST_GROUPS, MOST_BATCH, MOST_PAGE = 64, 1000, 500
_MOST_PRIORITY = 2**31 - 1
_SECONDS_NOT_MS = 100_000_000_000
"""Milliseconds below this lie before 1973: they are seconds, or a slip."""


class ItemState(enum.Enum):
    """Where an item is. On the original paths `delayed` and `lapsed` are shown, and found, as `open`."""

    OPEN = "open"
    DELAYED = "delayed"
    """Its time has not come."""
    CLAIMED = "claimed"
    LAPSED = "lapsed"
    """The lease is over and nobody has claimed it since: holder and fence stay, and still count."""
    DONE = "done"
    FAILED = "failed"
    CANCELLED = "cancelled"

    @property
    def is_terminal(self) -> bool:
        """Whether it is final: nothing leaves it but pruning."""
        return self in {ItemState.DONE, ItemState.FAILED, ItemState.CANCELLED}

    @property
    def may_be_claimed(self) -> bool:
        """Whether the next claimer may get it."""
        return self in {ItemState.OPEN, ItemState.LAPSED}


@frozen
class Target:
    """Whom an item is for: one agent (by uid, else by name), one group, or anybody. Names ignore ASCII case."""

    agent: str = ""
    uid: str = ""
    group: str = ""

    @property
    def key(self) -> str:
        """The one text by which it is indexed and found; a uid goes before a name."""
        if self.uid:
            return f"u:{self.uid}"
        if self.agent:
            return f"n:{folded(self.agent)}"
        return f"g:{folded(self.group)}" if self.group else "*"


@frozen
class NewItem:
    """An item that is to be enqueued. Making one checks it: UsageFault names the field. `key`: same key, same item."""

    title: str
    payload: str
    kind: str = ""
    target: Target = field(default_factory=Target)
    priority: int = 0
    max_attempts: int = DEFAULT_ATTEMPTS
    not_before: int | None = None
    created_by: str = ""
    created_by_uid: str = ""
    id: str = ""
    """One's own id, or empty for one that is made."""
    key: str = ""
    """An idempotency key: of the same creator with the same content it gives the same item."""

    def __post_init__(self) -> None:
        """Check every field. Raises UsageFault."""
        for name, text in (("title", self.title), ("payload", self.payload)):
            if type(text) is str and not text.strip():
                raise UsageFault(f"{name} is blank.", "An item needs a title and a payload.")
        if (self.target.agent or self.target.uid) and self.target.group:
            raise UsageFault("An item is for one agent or for one group, not for both.", "Leave one of them out.")
        check_text("title", self.title, MOST_TITLE)
        check_text("payload", self.payload, MOST_TEXT)
        for name, text in (
            ("kind", self.kind),
            ("target_agent", self.target.agent),
            ("target_agent_uid", self.target.uid),
            ("target_group", self.target.group),
            ("created_by", self.created_by),
            ("created_by_uid", self.created_by_uid),
            ("id", self.id),
            ("key", self.key),
        ):
            check_text(name, text, MOST_NAME)
        check_number("priority", self.priority, -_MOST_PRIORITY, _MOST_PRIORITY)
        check_number("max_attempts", self.max_attempts, 1, MOST_ATTEMPTS)
        if self.not_before is not None:
            check_moment("not_before", self.not_before)


@frozen
class WorkItem:
    """One item as it is kept."""

    id: str
    seq: int
    title: str
    payload: str
    kind: str
    target: Target
    priority: int
    state: ItemState
    claimed_by: str
    claimed_by_uid: str
    claim_expires: int | None
    attempts: int
    declined: int
    max_attempts: int
    created_by: str
    created_by_uid: str
    created_at: int
    updated_at: int
    not_before: int | None
    result: str


@frozen
class Held:
    """What a holder shows with every call: the item, the attempt that it was given, and who it is."""

    id: str
    attempt: int
    holder: Holder


@dataclass(frozen=True, slots=True)
class ItemClaim(Held):
    """What a claimer got: the item as it is now, whose `attempts` is the fence and `claim_expires` the lease's end."""

    item: WorkItem


@frozen
class Finish:
    """One claim's end, of many that are recorded together."""

    held: Held
    outcome: Outcome = Outcome.SUCCEEDED
    result: str = ""


@frozen
class Attempt:
    """One claim of an item, as the history keeps it: who, when, how it ended, why. `ended` is None while it counts."""

    attempt: int
    holder: str
    holder_uid: str
    claimed_at: int
    ended_at: int | None
    ended: str | None
    """`done`, `failed`, `released`, `declined`, `lapsed` or `cancelled`."""
    why: str


@frozen
class Page:
    """Some items, newest change first, and where the next page begins (None: this was the last)."""

    items: tuple[WorkItem, ...]
    cursor: str | None


@frozen
class Recovered:
    """What one sweep did: leases that lapsed, items that thereby failed, delayed ones that came due."""

    lapsed: tuple[str, ...] = ()
    failed: tuple[str, ...] = ()
    opened: int = 0

    def __add__(self, other: Recovered) -> Recovered:
        return Recovered(self.lapsed + other.lapsed, self.failed + other.failed, self.opened + other.opened)

    def __bool__(self) -> bool:
        return bool(self.lapsed or self.failed or self.opened)


@frozen
class Stats:
    """What there is: items by state, those that nobody may ever claim, leases that are over, bytes on disk."""

    by_state: Mapping[str, int]
    unseen: int
    """Open items whose agent has never been seen."""
    overdue: int
    oldest_open_ms: int | None
    size: int
    log_size: int
    """Of SQLite's side file, which a forgotten reader lets grow; 0 for PostgreSQL."""


def lease_ms(wanted: int | None) -> int:
    """The lease that is given: what is missing or not above zero is the default, and none is longer than a day.

    Raises UsageFault for what is no whole number.
    """
    if wanted is not None and type(wanted) is not int:
        raise UsageFault(f"lease_ms must be a whole number of milliseconds, not {str(wanted)[:40]!r}.")
    return DEFAULT_LEASE_MS if wanted is None or wanted <= 0 else min(wanted, MOST_LEASE_MS)


def folded(name: str) -> str:
    """A name as it is compared: ASCII letters without case, all else as it is."""
    return "".join(chr(ord(letter) + 32) if "A" <= letter <= "Z" else letter for letter in name)


def same_holder(name: str, uid: str, other_name: str, other_uid: str) -> bool:
    """Whether both are one holder: by uid when both have one, else by name (seed g.2)."""
    if uid and other_uid:
        return uid == other_uid
    return folded(name) == folded(other_name)


def check_text(name: str, text: str, most: int) -> None:
    """Refuse a text that is too long or that a database does not keep. Raises UsageFault."""
    if not issubclass(type(text), str):  # from JSON it may be anything
        raise UsageFault(f"{name} must be a text, not {str(text)[:40]!r}.")
    if "\0" in text:
        raise UsageFault(f"{name} holds a NUL character, which no database keeps.", "Take it out.")
    try:
        size = len(text.encode())
    except UnicodeEncodeError:
        raise UsageFault(f"{name} is no text: it holds half of a character.", "Send it as UTF-8.") from None
    if size > most:
        raise UsageFault(
            f"{name} has {size} bytes; at most {most} are taken.", "Put long texts into a file and name it."
        )


def check_moment(name: str, ms: int) -> None:
    """Refuse wall milliseconds that cannot be meant. Raises UsageFault."""
    check_number(name, ms, 0, int(LATEST_S * 1000))
    if 0 < ms < _SECONDS_NOT_MS:
        raise UsageFault(f"{name} {ms} lies before 1974: that looks like seconds.", "Give milliseconds since 1970.")


def check_number(name: str, value: int, least: int, most: int) -> None:
    """Refuse what is no whole number of that range. Raises UsageFault."""
    if type(value) is not int or not least <= value <= most:
        raise UsageFault(f"{name} must be a whole number from {least} to {most}, not {str(value)[:40]!r}.")


def span_ms(name: str, seconds: float, least: float, most: float) -> int:
    """A length of time in milliseconds. Raises UsageFault for what is no number of seconds of that range."""
    if type(seconds) not in {int, float} or not least <= seconds <= most:
        raise UsageFault(f"{name} must be from {least:g} to {most:g} seconds, not {str(seconds)[:40]!r}.")
    return round(seconds * 1000)
