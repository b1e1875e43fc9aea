"""Who somebody says to be, beside who is known by token: counted, and never a reason to refuse (seed g.4).

Counters begin at zero with each start of the server. The store counts what it sees itself: addressees, claimers and
holders that were given by their names only.
"""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from kranzq.model.work import MOST_NAME, check_text, folded
from kranzq.server.access import TOKEN_INDEX_AWAY, TOKEN_UNKNOWN

if TYPE_CHECKING:
    from kranzq.server.routing import Call

SITES = ("work_enqueue", "work_claim", "work_heartbeat", "work_complete", "work_release")
UID_MISMATCH = "m4.actor_uid_mismatch.work_claim"
RESOLVE_UNIDENTIFIED, RESOLVE_STORE_ERROR = "resolve.unidentified", "resolve.store_error"
LIVE_S = 120.0
"""An agent is live that has called within so long: the lease of whoever names none."""
_MOST_SEEN = 1000


@dataclass(slots=True)
class Callers:
    """Who has called lately, by uid where a token told it, else by name. May be shared by threads."""

    _uids: OrderedDict[str, float] = field(default_factory=OrderedDict)
    _names: OrderedDict[str, float] = field(default_factory=OrderedDict)
    _mutex: threading.Lock = field(default_factory=threading.Lock)

    def note_uid(self, uid: str) -> None:
        """Somebody who is known by token."""
        self._note(self._uids, uid)

    def note_name(self, name: str) -> None:
        """Somebody who only says so."""
        self._note(self._names, folded(name))

    def is_live(self, *, uid: str = "", name: str = "") -> bool:
        """Whether that one has called lately."""
        seen = self._uids.get(uid) if uid else self._names.get(folded(name))
        return seen is not None and time.monotonic() - seen < LIVE_S

    def live_names(self) -> list[str]:
        """Those that are known by name only."""
        with self._mutex:
            return [name for name, at in self._names.items() if time.monotonic() - at < LIVE_S]

    def _note(self, seen: OrderedDict[str, float], who: str) -> None:
        with self._mutex:
            seen[who] = time.monotonic()
            seen.move_to_end(who)
            while len(seen) > _MOST_SEEN:
                seen.popitem(last=False)


def note_actor(call: Call, site: str, named: str) -> None:
    """Compare the name in a body with that of the token, and count what came of it. Raises UsageFault for no name."""
    check_text("the name of who calls", named, MOST_NAME)  # before it is kept: what is kept is looked up by others
    agent = call.caller.agent
    if not named.strip():
        call.service.count(f"m4.actor_absent.{site}")
    elif agent is None:
        call.service.count(f"m4.actor_unchecked.{site}")
        call.service.callers.note_name(named)
    elif folded(named) != folded(agent.name):
        call.service.count(f"m4.actor_mismatch.{site}")


def counters_of(call: Call) -> dict[str, int]:
    """Every counter by its name, also those that stand at zero."""
    counted = dict.fromkeys(_names(), 0)
    for name, number in (*call.service.store.counters().items(), *call.service.counted().items()):
        counted[name] = counted.get(name, 0) + number
    return counted


def _names() -> Iterator[str]:
    yield from ("work_enqueue.uid_not_carried", "work_claim.uid_not_carried", "m4c.holder_by_name", UID_MISMATCH)
    for kind in ("mismatch", "ambiguous", "absent", "unchecked"):
        yield from (f"m4.actor_{kind}.{site}" for site in SITES)
    yield from (TOKEN_UNKNOWN, TOKEN_INDEX_AWAY, "m4.token_on_lan_key")
    yield from (RESOLVE_UNIDENTIFIED, RESOLVE_STORE_ERROR, "cron.fire_by_name")
