"""Items as lines of JSON, one object a line: what a program hands over to enqueue many at once.

Keys are those of an item. Nothing is guessed: a key that is unknown or stands there twice, a number that is a text, a
due time that could mean two instants are refused with the number of the line, and then nothing is enqueued.
"""

from __future__ import annotations

import json
from collections.abc import Mapping

from kranzq.errors import UsageFault
from kranzq.model.when import FORMS, parse_when
from kranzq.model.work import DEFAULT_ATTEMPTS, NewItem, Target

_TEXTS = ("title", "payload", "kind", "target_agent", "target_agent_uid", "target_group", "id", "key")
_NUMBERS = ("priority", "max_attempts")
_KEYS = frozenset({*_TEXTS, *_NUMBERS, "not_before"})
_SHOWN = 60


def parse_lines(data: bytes, now: float, created_by: str, created_by_uid: str) -> list[NewItem]:
    """The items of a file; blank lines are passed over. `now` is wall seconds. Raises UsageFault, naming the line."""
    found = []
    for number, line in enumerate(data.split(b"\n"), 1):
        if not line.strip():
            continue
        try:
            found.append(new_item(_object(line), now, created_by, created_by_uid))
        except UsageFault as fault:
            raise UsageFault(f"Line {number}: {fault.sentence}", fault.advice) from fault
    if not found:
        raise UsageFault("There is no item in it.", "Write one JSON object a line, with title and payload at least.")
    return found


def new_item(value: Mapping[str, object], now: float, created_by: str, created_by_uid: str) -> NewItem:
    """The item that an object means. Raises UsageFault."""
    unknown = sorted(value.keys() - _KEYS)
    if unknown:
        import difflib  # noqa: PLC0415 - only a mistake needs it

        near = difflib.get_close_matches(unknown[0], _KEYS, 1)
        raise UsageFault(
            f"{unknown[0][:_SHOWN]!r} is no key of an item.",
            f"Did you mean {near[0]!r}?" if near else "Known are: " + ", ".join(sorted(_KEYS)),
        )
    texts = {key: _text(key, value.get(key, "")) for key in _TEXTS}
    return NewItem(
        title=texts["title"],
        payload=texts["payload"],
        kind=texts["kind"],
        target=Target(texts["target_agent"], texts["target_agent_uid"], texts["target_group"]),
        priority=_whole("priority", value.get("priority", 0)),
        max_attempts=_whole("max_attempts", value.get("max_attempts", DEFAULT_ATTEMPTS)),
        not_before=due_ms(value.get("not_before"), now),
        created_by=created_by,
        created_by_uid=created_by_uid,
        id=texts["id"],
        key=texts["key"],
    )


def due_ms(value: object, now: float) -> int | None:
    """A due time as wall milliseconds: such a number, or a text in the forms of `--not-before`. Raises UsageFault."""
    if value is None or type(value) is int:
        return value
    if isinstance(value, str):
        try:
            return round(parse_when(value, now) * 1000)
        except ValueError as fault:
            raise UsageFault(f"not_before {value[:_SHOWN]!r} {fault}.", FORMS) from fault
    raise UsageFault(
        f"not_before {str(value)[:_SHOWN]!r} is no time.",
        "Give whole milliseconds since 1970, or a time with its zone.",
    )


def _object(line: bytes) -> Mapping[str, object]:
    try:
        value = json.loads(line, object_pairs_hook=_once, parse_constant=_no_number)
    except UnicodeDecodeError as fault:
        raise UsageFault(f"it is no UTF-8 text (at byte {fault.start}).") from fault
    except (ValueError, RecursionError) as fault:
        raise UsageFault(f"it is no JSON: {fault}.") from fault
    if not isinstance(value, dict):
        raise UsageFault("it is no JSON object.", 'Write {"title": "…", "payload": "…"}.')
    return value


def _once(pairs: list[tuple[str, object]]) -> dict[str, object]:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise ValueError("a key stands there twice")
    return found


def _no_number(text: str) -> object:
    raise ValueError(f"{text} is no number")


def _text(key: str, value: object) -> str:
    if not isinstance(value, str):
        raise UsageFault(f"{key} must be a text, not {str(value)[:_SHOWN]!r}.")
    return value


def _whole(key: str, value: object) -> int:
    if type(value) is not int:
        raise UsageFault(f"{key} must be a whole number, not {value!r:.60}.")
    return value
