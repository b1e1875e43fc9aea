"""What presence claims have become since the last look. They are few, so a look reads all that live."""

from __future__ import annotations

import time
from collections.abc import Mapping

from kranzq.backend.presence import Presence
from kranzq.backend.watching import Seen

_PAUSE_S, _LONGEST_PAUSE_S, _SHARE = 0.1, 2.0, 20
CLAIMED, GONE = "claimed", "gone"


class PresenceWatch:
    """Satisfies `Watch`. A claim that was renewed is told with its new end; a released or expired one is `gone`."""

    def __init__(self, presence: Presence) -> None:
        self._presence = presence
        self._known: dict[str, Mapping[str, object]] | None = None
        self.pause_s = _PAUSE_S

    def look(self) -> Seen:
        """What claims have become."""
        begun = time.monotonic()
        now: dict[str, Mapping[str, object]] = {one.id: one.to_json() for one in self._presence.live()}
        known, self._known = self._known, now
        self.pause_s = min(max(_PAUSE_S, _SHARE * (time.monotonic() - begun)), _LONGEST_PAUSE_S)
        if known is None:
            return Seen()
        gone = [{**one, "state": GONE} for name, one in known.items() if name not in now]
        return Seen((*gone, *({**one, "state": CLAIMED} for name, one in now.items() if known.get(name) != one)))
