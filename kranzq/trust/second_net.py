"""The second net below signatures: what git tracks was brought along by a clone, and never runs.

Asked by the gate about each entry, before its signature. An entry is recognised by priority, number and mission,
wherever in the queue git knows it: a rename from `waiting/` must not make it another one.
"""

from __future__ import annotations

import functools
import re

from kranzq.disk.tracked import Tracked, tracked
from kranzq.model.entry import Entry

TRACKED = "tracked by git: a clone would bring it along"
CANNOT_TELL = "git's index cannot be read, so nobody knows whether a clone brought it along"
_QUEUE, _MISSIONS = ".kranz/queue", ".kranz/missions"
_ENTRY = re.compile(r"(?:.*[./])?([0-9]{1,20})-([0-9]{1,20})-(.+)\.json(?:\.claimed\..*)?")


def why_tracked(entry: Entry, root: str) -> tuple[str, str] | None:
    """Why an entry must not run though it is signed, and what to type; None when git knows nothing of it."""
    mission = f"{_MISSIONS}/{entry.mission}"
    found = tracked(root, mission, f"{mission}/dispatch")
    whole = next((path for path in (_QUEUE, mission) if _is_whole(found, path)), None)
    if whole is None and found.has(mission):
        whole = mission
    if whole is None and (entry.priority, entry.number, entry.mission.lower()) in _entries(found):
        whole = f"{_QUEUE} (its entry)"
    if whole is not None:
        return TRACKED, f"Take it out of git with: git rm -r --cached {whole.partition(' ')[0]}"
    return None if found.told else (CANNOT_TELL, "Mend the index (git status tells what is wrong with it)")


def _is_whole(found: Tracked, path: str) -> bool:
    """Whether a folder or one around it is tracked as one thing: a submodule or a link."""
    parts = path.lower().split("/")
    return any("/".join(parts[:count]) in found.names for count in range(1, len(parts) + 1))


@functools.lru_cache(maxsize=8)
def _entries(found: Tracked) -> frozenset[tuple[int, int, str]]:
    """The entries among the tracked names, by priority, number and mission in small letters."""
    matches = (_ENTRY.fullmatch(name) for name in found.names if name.startswith(f"{_QUEUE}/"))
    return frozenset((int(one[1]), int(one[2]), one[3]) for one in matches if one is not None)
