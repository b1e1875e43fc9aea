"""JSON as a text that is somebody else's: one member or element put in or taken out, and every other byte as it was.

Nothing is read and written anew, since that would change what a person has laid out. What was put in last and is taken
out first leaves the text as it was before.
"""

from __future__ import annotations

import json
import re
from typing import Literal

from kranzq.errors import Conflict
from kranzq.model.frozen import frozen

_SPACE = re.compile(r"[ \t\r\n]*")
_DECODER = json.JSONDecoder()
_INDENT = re.compile(r"\n([ \t]+)\S")
_TWO = "  "


@frozen
class Item:
    """A member (with its key) or an element (without), from `start`, where its key or value begins."""

    key: str | None
    start: int
    node: Node


@frozen
class Node:
    """A value in a text, from `start` to `end`."""

    kind: Literal["object", "array", "scalar"]
    start: int
    end: int
    items: tuple[Item, ...] = ()

    def at(self, key: str) -> Node | None:
        """The member of that name; of several the last one counts."""
        return next((item.node for item in reversed(self.items) if item.key == key), None)


def read(text: str, path: str) -> Node:
    """The tree of a text. Raises Conflict, with the line, for what is no JSON."""
    try:
        json.loads(text)
        return _value(text, _after_space(text, 0))
    except json.JSONDecodeError as fault:
        raise Conflict(
            f"{path}, line {fault.lineno}, column {fault.colno}: this is no JSON: {fault.msg}.",
            "Mend it, then try again; comments and commas before a closing bracket are not allowed in JSON.",
        ) from fault
    except ValueError as fault:  # more digits than Python makes a number of
        raise Conflict(f"{path} has a number that is too long to be read.", "Look at it, and mend it.") from fault
    except RecursionError as fault:
        raise Conflict(f"{path} is nested too deep to be read.", "Look at it.") from fault


def value_of(text: str, node: Node) -> object:
    """What stands there."""
    return json.loads(text[node.start : node.end])


def append(text: str, into: Node, value: object, key: str | None = None) -> str:
    """The text with a member or element more, behind the others, laid out as they are."""
    if into.items:
        last = into.items[-1]
        gap = text[into.start + 1 : last.start]
        if len(into.items) > 1:
            gap = text[into.items[-2].node.end : last.start].partition(",")[2]
        piece = _rendered(text, value, key, gap.rpartition("\n")[2] if "\n" in gap else None)
        return text[: last.node.end] + "," + gap + piece + text[last.node.end :]
    lead, trail, indent = _around(text, into)
    return text[: into.start + 1] + lead + _rendered(text, value, key, indent) + trail + text[into.start + 1 :]


def swap(text: str, old: Node, value: object) -> str:
    """The text with another value in the place of one, laid out by the line on which it begins."""
    line = text[text.rfind("\n", 0, old.start) + 1 : old.start]
    indent = line[: len(line) - len(line.lstrip(" \t"))]
    own_line = "\n" in text[old.start : old.end]
    return text[: old.start] + _rendered(text, value, None, indent if own_line else None) + text[old.end :]


def drop(text: str, out_of: Node, index: int) -> str:
    """The text without one member or element, and without the comma and space that it needed."""
    item, count = out_of.items[index], len(out_of.items)
    if index > 0:
        return text[: out_of.items[index - 1].node.end] + text[item.node.end :]
    if count > 1:
        return text[: item.start] + text[out_of.items[1].start :]
    _, trail, _ = _around(text, out_of)
    return text[: out_of.start + 1] + text[item.node.end :].removeprefix(trail)


def _around(text: str, empty: Node) -> tuple[str, str, str | None]:
    """What goes before and behind the only thing in a pair of brackets, and its indent; None: all on one line."""
    line = text[text.rfind("\n", 0, empty.start) + 1 : empty.start]
    outer = line[: len(line) - len(line.lstrip(" \t"))]
    if "\n" not in text and empty.start > 0 and text[: empty.start].strip():
        return "", "", None
    newline = _newline(text)
    return newline + outer + _unit(text), newline + outer, outer + _unit(text)


def _rendered(text: str, value: object, key: str | None, indent: str | None) -> str:
    head = "" if key is None else f"{json.dumps(key, ensure_ascii=False)}: "
    if indent is None:
        return head + json.dumps(value, ensure_ascii=False)
    shown = json.dumps(value, ensure_ascii=False, indent=_unit(text))
    return head + shown.replace("\n", _newline(text) + indent)


def _newline(text: str) -> str:
    return "\r\n" if "\r\n" in text else "\n"


def _unit(text: str) -> str:
    """By how much this text indents: as its first line that does."""
    found = _INDENT.search(text)
    return found[1] if found is not None else _TWO


def _value(text: str, at: int) -> Node:
    if text[at] == "{":
        return _container(text, at, "object", "}")
    if text[at] == "[":
        return _container(text, at, "array", "]")
    return Node("scalar", at, _DECODER.raw_decode(text, at)[1])


def _container(text: str, start: int, kind: Literal["object", "array"], close: str) -> Node:
    items: list[Item] = []
    at = _after_space(text, start + 1)
    while text[at] != close:
        begin, key = at, None
        if kind == "object":
            key, at = _DECODER.raw_decode(text, at)
            at = _after_space(text, _after_space(text, at) + 1)  # behind the colon
        node = _value(text, at)
        items.append(Item(key, begin, node))
        at = _after_space(text, node.end)
        if text[at] == ",":
            at = _after_space(text, at + 1)
    return Node(kind, start, at + 1, tuple(items))


def _after_space(text: str, at: int) -> int:
    found = _SPACE.match(text, at)
    return found.end() if found is not None else at
