"""One waiting mission and its JSON form, which kranz reads and writes too.

kranz knows `missionId`, `ticketSlug`, `priority` and `seq`; everything of ours lies under the key `kranzq`, which it
ignores. Unknown keys of either are kept whenever a file is rewritten.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import field
from typing import NoReturn

from kranzq.errors import BadEntry, BadMissionId
from kranzq.model.clock import seconds_of
from kranzq.model.frozen import frozen
from kranzq.model.ids import MissionId
from kranzq.model.json_object import lined

MAX_PRIORITY = 255
MAX_NUMBER = 10**15
DEFAULT_PRIORITY = 2
_HEX = frozenset("0123456789abcdef")
_ID_LENGTH = 32
_LONGEST_S = 10**10


@frozen
class Own:
    """The fields that only kranzq knows. `id` is random and stands for this life of the entry."""

    id: str
    repo: str = ""
    command: tuple[str, ...] = ()
    mac: str = ""
    key: str = ""
    not_before: str | None = None
    after: tuple[MissionId, ...] = ()
    again: bool = False
    timeout_seconds: float | None = None
    retries: int = 0
    env: Mapping[str, str] = field(default_factory=dict)
    cwd: str = ""
    enqueued_at: str = ""
    enqueued_by: str = ""
    extra: Mapping[str, object] = field(default_factory=dict)


@frozen
class Entry:
    """One waiting mission. `own` is None for an entry that kranz or a hand wrote."""

    mission: MissionId
    priority: int = DEFAULT_PRIORITY
    number: int = 0
    ticket: str | None = None
    own: Own | None = None
    extra: Mapping[str, object] = field(default_factory=dict)

    @property
    def id(self) -> str | None:
        """The random id of this life of the entry, where it has one."""
        return self.own.id if self.own is not None else None


def render(entry: Entry) -> bytes:
    """The file content: kranz's keys in kranz's order and layout, then strangers' keys, then ours. No final newline."""
    shown: dict[str, object] = {"missionId": str(entry.mission)}
    if entry.ticket is not None:
        shown["ticketSlug"] = entry.ticket
    shown |= {"priority": entry.priority, "seq": entry.number}
    shown |= {key: value for key, value in entry.extra.items() if key not in shown}
    if entry.own is None:
        return json.dumps(shown, indent=2, ensure_ascii=False).encode()
    kept = json.dumps(shown, indent=2, ensure_ascii=False) if entry.extra else lined(shown, "  ", ascii_only=False)
    own = lined(_own_to_json(entry.own), "  ", outer="  ", ascii_only=False)
    return f'{kept[:-2]},\n  "kranzq": {own}\n}}'.encode()


def parse(data: bytes) -> Entry:
    """The entry in a file's bytes. Raises BadEntry. Priority and number may be missing: the file's name has them."""
    value = load_object(data)
    own = value.pop("kranzq", None)
    try:
        mission = MissionId(_text(value, "missionId"))
    except BadMissionId as fault:
        raise BadEntry(fault.sentence.rstrip(".")) from fault
    ticket = value.pop("ticketSlug", None)
    if ticket is not None and not isinstance(ticket, str):
        raise BadEntry("'ticketSlug' is no text")
    priority = _whole(value, "priority", MAX_PRIORITY, DEFAULT_PRIORITY)
    number = _whole(value, "seq", 2**64 - 1, 0)
    return Entry(mission, priority, number, ticket, None if own is None else _own_from_json(own), value)


def load_object(data: bytes) -> dict[str, object]:
    """A JSON object from untrusted bytes. Raises BadEntry, also for repeated keys, NaN and endless nesting."""
    try:
        value = json.loads(data.decode("utf-8"), object_pairs_hook=_pairs, parse_constant=_no_constant)
    except (ValueError, RecursionError) as fault:
        raise BadEntry(f"it is not JSON ({_first_line(fault)})", partial=True) from fault
    if not isinstance(value, dict):
        raise BadEntry("it is JSON, but no object")
    if b"\\u" in data:
        try:
            json.dumps(value, ensure_ascii=False).encode()
        except UnicodeEncodeError as fault:  # half a character could never be written again
            raise BadEntry("it holds half a character (a lone surrogate)") from fault
    return value


def _pairs(pairs: list[tuple[str, object]]) -> dict[str, object]:
    value = dict(pairs)
    if len(value) != len(pairs):
        raise ValueError("a key stands in it twice")
    return value


def _no_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is no JSON number")


def _first_line(fault: BaseException) -> str:
    return (str(fault).splitlines() or [type(fault).__name__])[0][:120]


def _own_to_json(own: Own) -> dict[str, object]:
    shown: dict[str, object] = {"id": own.id}
    optional: dict[str, object] = {
        "repo": own.repo,
        "command": list(own.command),
        "notBefore": own.not_before,
        "after": [str(mission) for mission in own.after],
        "again": own.again,
        "timeoutSeconds": own.timeout_seconds,
        "retries": own.retries,
        "env": dict(own.env),
        "cwd": own.cwd,
        "enqueuedAt": own.enqueued_at,
        "enqueuedBy": own.enqueued_by,
        "key": own.key,
        "mac": own.mac,
    }
    shown |= {key: value for key, value in optional.items() if value}
    return shown | {key: value for key, value in own.extra.items() if key not in shown}


def _own_from_json(value: object) -> Own:
    if not isinstance(value, dict):
        raise BadEntry("'kranzq' is no object")
    rest = dict(value)
    entry_id = _text(rest, "id")
    if len(entry_id) != _ID_LENGTH or not _HEX.issuperset(entry_id):
        raise BadEntry("'kranzq.id' is not 32 hex digits")
    not_before = rest.pop("notBefore", None)
    if not_before is not None and seconds_of(not_before) is None:
        raise BadEntry("'kranzq.notBefore' is no RFC 3339 time with a zone")
    try:
        after = tuple(MissionId(text) for text in _texts(rest, "after"))
    except BadMissionId as fault:
        raise BadEntry(f"'kranzq.after': {fault.sentence.rstrip('.')}") from fault
    return Own(
        id=entry_id,
        repo=_text(rest, "repo", ""),
        command=_texts(rest, "command"),
        mac=_text(rest, "mac", ""),
        key=_text(rest, "key", ""),
        not_before=str(not_before) if not_before is not None else None,
        after=after,
        again=_flag(rest, "again"),
        timeout_seconds=_seconds(rest, "timeoutSeconds"),
        retries=_whole(rest, "retries", 1000, 0),
        env=_env(rest),
        cwd=_text(rest, "cwd", ""),
        enqueued_at=_text(rest, "enqueuedAt", ""),
        enqueued_by=_text(rest, "enqueuedBy", ""),
        extra=rest,
    )


def _text(value: dict[str, object], key: str, default: str | None = None) -> str:
    found = value.pop(key, default)
    if not isinstance(found, str):
        raise BadEntry(f"{key!r} is missing" if found is None else f"{key!r} is no text")
    if "\0" in found:
        raise BadEntry(f"{key!r} holds a NUL")
    return found


def _texts(value: dict[str, object], key: str) -> tuple[str, ...]:
    found = value.pop(key, ())
    if not isinstance(found, list | tuple) or not all(isinstance(part, str) and "\0" not in part for part in found):
        raise BadEntry(f"{key!r} is no list of texts")
    return tuple(str(part) for part in found)


def _flag(value: dict[str, object], key: str) -> bool:
    found = value.pop(key, False)
    if not isinstance(found, bool):
        raise BadEntry(f"{key!r} is neither true nor false")
    return found


def _whole(value: dict[str, object], key: str, most: int, default: int) -> int:
    found = value.pop(key, default)
    if type(found) is not int or not 0 <= found <= most:
        raise BadEntry(f"{key!r} is no whole number from 0 to {most}")
    return found


def _seconds(value: dict[str, object], key: str) -> float | None:
    found = value.pop(key, None)
    if found is None:
        return None
    if type(found) not in {int, float} or not isinstance(found, int | float) or not 0 < found < _LONGEST_S:
        raise BadEntry(f"{key!r} is no positive number of seconds")
    return float(found)


def _env(value: dict[str, object]) -> dict[str, str]:
    found = value.pop("env", {})
    if not isinstance(found, dict):
        raise BadEntry("'env' is no object")
    for name, text in found.items():
        if not isinstance(text, str) or not name or "=" in name or "\0" in name or "\0" in text:
            raise BadEntry(f"'env' has a bad variable {name!r}")
    return found
