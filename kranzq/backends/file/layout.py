"""The names in the queue: pure building and parsing. Order, priority, number and mission come from the name.

Formats are kranz's: an entry is `PPP-NNNNNNNNNNNNNNNNNNNN-<mission>.json`, a claim is the entry's name with
`.claimed.<pid>` or `.claimed.<pid>.<16 hex>` behind it. Names of another width keep their numeric place.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from kranzq.errors import BadMissionId
from kranzq.model.claim import ITEM_MARK, ITEM_PREFIX
from kranzq.model.entry import MAX_NUMBER, MAX_PRIORITY
from kranzq.model.frozen import frozen
from kranzq.model.ids import MissionId

_REGULAR = (
    r"(?ai)(?<![^/])(?:[01][0-9]{2}|2[0-4][0-9]|25[0-5])-(?:00000[0-9]{15}|000010{15})-"
    r"(?![^/]*(?:\.\.|\.claimed\.))[a-z0-9][a-z0-9._-]{0,127}"
    r"(?<!\.json)(?<!\.json\.why)(?<!\.lock)(?<!\.tmp)\.json(?![^/])"
)
"""Entries' names as we write them, in a text of many names with a slash between each two."""
_ALL_REGULAR = (
    r"(?ai)(?:(?:[01][0-9]{2}|2[0-4][0-9]|25[0-5])-(?:00000[0-9]{15}|000010{15})-[a-z0-9][a-z0-9._-]{5,132}/)*+"
)
"""A text of nothing but names that end as entries' do, a slash behind each; what no id contains is looked for apart."""
_IN_NO_ID = ("..", ".claimed.", ".json.", ".lock.json", ".tmp.json")
FEW = 16
CLAIM_MARK = ".claimed."
WHY = ".why.json"
SEQUENCE = ".seq"
MUTATE_FLOCK = ".mutate.flock"
MUTATE_LOCK = ".mutate.lock"
PAUSED = ".paused"
ADMITTING = ".admitting."
_ENTRY = re.compile(r"([0-9]{1,20})-([0-9]{1,20})-(.+)\.json", re.ASCII)
_CLAIM = r"(.+\.json)\.claimed\.([0-9]{1,10})(?:\.([0-9a-f]{16}))?"
_ITEM = r"\.item\.(.+)\.([0-9]{1,10})\.([0-9a-f]{16})"
_WAITING = r"([0-9]{1,15}|after)\.(.+\.json)"
"""Compiled when the first such name is met, since compiling costs every start of the command line."""


@dataclass(frozen=True, slots=True, order=True)
class EntryName:
    """An entry's name, parsed; sorts by priority, then number. `text` is the name as it stands on disk."""

    priority: int
    number: int
    mission: MissionId
    text: str


@frozen
class ClaimName:
    """A claim's name, parsed. `suffix` is the 16 hex digits of kranz's token hash, None in its oldest form."""

    entry: EntryName
    pid: int
    suffix: str | None
    text: str


@frozen
class WaitingName:
    """A name below `waiting/`: `due_ms` is wall milliseconds, None for one that waits after another mission."""

    entry: EntryName
    due_ms: int | None
    text: str


def entry_name(priority: int, number: int, mission: MissionId) -> EntryName:
    """The name of a new entry."""
    return EntryName(priority, number, mission, f"{priority:03d}-{number:020d}-{mission}.json")


def claim_name(entry: EntryName, pid: int, suffix: str) -> ClaimName:
    """The name of an entry while the keeper `pid`, whose token has the hash `suffix`, has it."""
    return ClaimName(entry, pid, suffix, f"{entry.text}{CLAIM_MARK}{pid}.{suffix}")


def waiting_name(entry: EntryName, due_ms: int | None) -> WaitingName:
    """The name of an entry while it waits."""
    return WaitingName(entry, due_ms, f"{'after' if due_ms is None else due_ms}.{entry.text}")


def parse_entry_name(text: str) -> EntryName | None:
    """The parts of an entry's name, or None when it is none."""
    found = _ENTRY.fullmatch(text)
    if found is None:
        return None
    priority, number = int(found[1]), int(found[2])
    if priority > MAX_PRIORITY or number > MAX_NUMBER:
        return None
    try:
        return EntryName(priority, number, MissionId(found[3]), text)
    except BadMissionId:
        return None


def parse_claim_name(text: str) -> ClaimName | None:
    """The parts of a claim's name. Any other text after the mark makes it no claim: it is never probed."""
    found = re.fullmatch(_CLAIM, text) if CLAIM_MARK in text else None  # every name of a queue is asked
    if found is None or (entry := parse_entry_name(found[1])) is None or int(found[2]) < 1:
        return None
    return ClaimName(entry, int(found[2]), found[3], text)


def parse_admitting(text: str) -> int | None:
    """The number of a file on its way from the inbox, by its name; None for any other name."""
    rest = text.removeprefix(ADMITTING)
    if rest == text or not (rest.isascii() and rest.isdigit()):
        return None
    number = int(rest)
    return number if number <= MAX_NUMBER and rest == str(number) else None


@frozen
class ItemName:
    """The name of a claim on an item, parsed; `mission` is the id under which the item runs."""

    mission: MissionId
    pid: int
    suffix: str
    text: str


def item_name(mission: MissionId, pid: int, suffix: str) -> ItemName:
    """The name of the claim while the keeper `pid` has the item that runs as `mission`."""
    return ItemName(mission, pid, suffix, f"{ITEM_MARK}{mission.removeprefix(ITEM_PREFIX)}.{pid}.{suffix}")


def parse_item_name(text: str) -> ItemName | None:
    """The parts of the name of a claim on an item, or None when it is none."""
    found = re.fullmatch(_ITEM, text) if text.startswith(ITEM_MARK) else None
    if found is None or int(found[2]) < 1:
        return None
    try:
        return ItemName(MissionId(f"{ITEM_PREFIX}{found[1]}"), int(found[2]), found[3], text)
    except BadMissionId:
        return None


def parse_waiting_name(text: str) -> WaitingName | None:
    """The parts of a name below `waiting/`, or None when it is none."""
    found = re.fullmatch(_WAITING, text)
    if found is None or (entry := parse_entry_name(found[2])) is None:
        return None
    return WaitingName(entry, None if found[1] == "after" else int(found[1]), text)


def all_regular(names: Sequence[str]) -> list[str] | None:
    """The candidates among the names, as they come, if each is an entry's name as we write them; else None.

    Then they sort as they are. Ten thousand are looked through at once and none is parsed; None may also mean that
    there are too few of them to be worth it, or that an id looks odd.
    """
    candidates = [name for name in names if name[-5:] == ".json" and name[0] != "."]
    if len(candidates) <= FEW:
        return None
    text = "/".join(candidates) + "/"
    if text.count(".") != len(candidates):  # an id may have one, but not any
        folded = text.lower()
        if any(mark in folded for mark in _IN_NO_ID):
            return None
    return candidates if re.fullmatch(_ALL_REGULAR, text) else None


def order_keys(names: Iterable[str]) -> dict[str, str | None]:
    """What each candidate among the names sorts by, as text; None for one that is no entry's name.

    A regular name is its own key: one search finds them all. Few are parsed one by one, for to compile the search costs
    more.
    """
    candidates = [name for name in names if is_candidate(name)]
    if len(candidates) <= FEW:
        return {name: _order_key(name) for name in candidates}
    regular = set(re.findall(_REGULAR, "/".join(candidates)))
    return {name: name if name in regular else _order_key(name) for name in candidates}


def _order_key(text: str) -> str | None:
    parsed = parse_entry_name(text)
    return None if parsed is None else entry_name(parsed.priority, parsed.number, parsed.mission).text


def is_candidate(text: str) -> bool:
    """Whether a name asks to be an entry: everything else in the directory is ignored."""
    return text.endswith(".json") and not text.startswith(".")
