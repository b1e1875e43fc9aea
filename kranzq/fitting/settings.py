"""Fittings in the JSON of an agent's host: hooks of Claude Code and whoever reads the same form, and MCP servers.

Ours are known by their marks: a comment at the end of a command, a variable of a server. All else stays byte for byte.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import replace

from kranzq.errors import Conflict
from kranzq.fitting import json_text
from kranzq.fitting.json_text import Node
from kranzq.fitting.kinds import FILE, FOLDER, Kind, Mark, Place, Wish
from kranzq.fitting.scripts import approval_command, stop_command
from kranzq.model.frozen import frozen

MARK_VARIABLE = "KRANZQ_HOOK"
"""In the entry of an MCP server: the mark. Nobody else reads it."""
SERVER, SERVERS, HOOKS = "kranzq", "mcpServers", "hooks"
APPROVAL, STOP = ("PostToolUse", "ExitPlanMode"), ("Stop", None)
_COMMENT = re.compile(r".* # kranzq hook (\S+) (.+)", re.DOTALL)
_EMPTY = "{}"


@frozen
class Ours:
    """A fitting's element in the tree: where it hangs, and its mark."""

    holder: Node
    index: int
    event: str
    mark: Mark
    group: Node
    item: Node


def put(text: str | None, kind: Kind, wish: Wish, mark: Mark, path: str) -> str:
    """The settings with the fitting in it, an older one of the kind replaced, in its place. Raises Conflict."""
    if text is not None and (kept := _in_place(text, kind, wish, mark, path)) is not None:
        return kept
    before = take(text, kind, path) if text is not None else None
    made = list(mark.made)
    if text is not None and before is None:
        made = [FILE, *(part for part in _made(text, kind, path) if part == FOLDER)]
    elif text is None:
        made = [FILE, *made]
    now = before if before is not None else _EMPTY
    now = (
        _put_server(now, wish, replace(mark, made=tuple(made)), path)
        if kind.place is Place.SERVERS
        else _put_hooks(now, kind, wish, replace(mark, made=tuple(made), wish=wish), path)
    )
    return now if before is not None else now + "\n"


def take(text: str, kind: Kind, path: str) -> str | None:
    """The settings as they were without the fitting; None when nothing is left of a file that was made for it."""
    made = _made(text, kind, path)
    while found := list(_ours(text, kind, path)):
        last = found[-1]
        text = json_text.drop(text, last.holder, last.index)
        text = _drop_empty(text, kind, last.event, made, path)
    if FILE in made and text.strip() == _EMPTY:
        return None
    return text


def mark_in(text: str, kind: Kind, path: str) -> Mark | None:
    """The mark of the fitting in these settings; None without one. Raises Conflict."""
    return next((one.mark for one in _ours(text, kind, path)), None)


def _in_place(text: str, kind: Kind, wish: Wish, mark: Mark, path: str) -> str | None:
    """The settings with ours brought up to date where it stands, before whatever others have put behind it.

    None when it is not there whole, so that it must be put there anew.
    """
    found = list(_ours(text, kind, path))
    if kind.place is Place.SERVERS:
        return _server_in_place(text, found[0], wish, mark) if len(found) == 1 else None
    commands = (approval_command(kind, wish), stop_command())
    if [one.event for one in found] != [APPROVAL[0], STOP[0]]:
        return None
    swaps: list[tuple[Node, str]] = []
    for one, matcher, command in zip(found, (APPROVAL[1], STOP[1]), commands, strict=True):
        item = _mapping(json_text.value_of(text, one.item))
        is_as_made = item.keys() == {"type", "command"} and item["type"] == "command"
        if not is_as_made or _mapping(json_text.value_of(text, one.group)).get("matcher") != matcher:
            return None
        wanted = command + _comment(kind, replace(mark, made=one.mark.made, wish=wish))
        there = one.item.at("command")
        if there is not None and item["command"] != wanted:
            swaps.append((there, wanted))
    for node, wanted in sorted(swaps, key=lambda swap: -swap[0].start):  # from behind: what is before stays where it is
        text = json_text.swap(text, node, wanted)
    return text


def _server_in_place(text: str, there: Ours, wish: Wish, mark: Mark) -> str | None:
    entry = _entry(wish, replace(mark, made=there.mark.made))
    if json_text.value_of(text, there.item) == entry:
        return text
    is_last = there.index == len(there.holder.items) - 1
    return None if is_last else json_text.swap(text, there.item, entry)


def _put_hooks(text: str, kind: Kind, wish: Wish, mark: Mark, path: str) -> str:
    commands = ((APPROVAL, approval_command(kind, wish)), (STOP, stop_command()))
    for at, ((event, matcher), command) in enumerate(commands):
        root = _object(json_text.read(text, path), path, "it")
        hooks = root.at(HOOKS)
        groups = _object(hooks, path, HOOKS).at(event) if hooks is not None else None
        made = (
            *(mark.made if at == 0 else ()),
            *([HOOKS] if hooks is None else []),
            *([event] if groups is None else []),
        )
        comment = _comment(kind, replace(mark, made=made))
        group: dict[str, object] = {} if matcher is None else {"matcher": matcher}
        group[HOOKS] = [{"type": "command", "command": command + comment}]
        if hooks is None:
            text = json_text.append(text, root, {event: [group]}, HOOKS)
        elif groups is None:
            text = json_text.append(text, hooks, [group], event)
        else:
            text = json_text.append(text, _array(groups, path, f"{HOOKS}.{event}"), group)
    return text


def _put_server(text: str, wish: Wish, mark: Mark, path: str) -> str:
    root = _object(json_text.read(text, path), path, "it")
    servers = root.at(SERVERS)
    if servers is not None and _object(servers, path, SERVERS).at(SERVER) is not None:
        raise Conflict(
            f"{path} has an MCP server {SERVER!r} already, which kranzq did not put there.",
            "If it is as you want it, leave it so; else remove it by hand, then type the same again.",
        )
    made = (*mark.made, SERVERS) if servers is None else mark.made
    entry = _entry(wish, replace(mark, made=made))
    if servers is None:
        return json_text.append(text, root, {SERVER: entry}, SERVERS)
    return json_text.append(text, servers, entry, SERVER)


def _comment(kind: Kind, mark: Mark) -> str:
    return f" # kranzq hook {kind.name} {mark.render()}"


def _entry(wish: Wish, mark: Mark) -> dict[str, object]:
    env = {MARK_VARIABLE: replace(mark, wish=None).render()}
    if wish.agent:
        env["KRANZQ_AGENT"] = wish.agent
    return {"command": "kranzq", "args": ["mcp"], "env": env}


def _made(text: str, kind: Kind, path: str) -> set[str]:
    return {part for one in _ours(text, kind, path) for part in one.mark.made}


def _ours(text: str, kind: Kind, path: str) -> Iterator[Ours]:
    """All that is ours in the order in which it was put there."""
    root = json_text.read(text, path)
    if kind.place is Place.SERVERS:
        servers = root.at(SERVERS)
        for index, item in enumerate(servers.items if servers is not None else ()):
            env = _mapping(json_text.value_of(text, item.node)).get("env")
            told = _mapping(env).get(MARK_VARIABLE)
            if item.key == SERVER and isinstance(told, str) and (mark := Mark.parse(told)) is not None:
                assert servers is not None
                told_mark = replace(mark, wish=Wish.of_agent(_mapping(env).get("KRANZQ_AGENT")))
                yield Ours(servers, index, "", told_mark, servers, item.node)
        return
    for event, _ in (APPROVAL, STOP):
        hooks = root.at(HOOKS)
        groups = hooks.at(event) if hooks is not None else None
        for index, group in enumerate(groups.items if groups is not None else ()):
            assert groups is not None
            yield from _in_group(text, kind, groups, index, group.node, event)


def _in_group(text: str, kind: Kind, groups: Node, index: int, group: Node, event: str) -> Iterator[Ours]:
    """Ours in one group of hooks: the whole group where nothing else is in it."""
    inner = group.at(HOOKS)
    for at, item in enumerate(inner.items if inner is not None else ()):
        assert inner is not None
        command = _mapping(json_text.value_of(text, item.node)).get("command")
        found = _COMMENT.match(command) if isinstance(command, str) else None
        mark = Mark.parse(found[2]) if found is not None and found[1] == kind.name else None
        if mark is not None:
            alone = len(inner.items) == 1
            yield Ours(groups if alone else inner, index if alone else at, event, mark, group, item.node)


def _drop_empty(text: str, kind: Kind, event: str, made: set[str], path: str) -> str:
    """What was made around a fitting goes with it, when nobody has put anything else there."""
    for names in ([SERVERS],) if kind.place is Place.SERVERS else ([HOOKS, event], [HOOKS]):
        holder, node = None, json_text.read(text, path)
        for name in names:
            holder, following = node, node.at(name)
            if following is None:
                break
            node = following
        else:
            if holder is not None and names[-1] in made and node.kind != "scalar" and not node.items:
                index = max(at for at, item in enumerate(holder.items) if item.key == names[-1])
                text = json_text.drop(text, holder, index)
    return text


def _object(node: Node, path: str, what: str) -> Node:
    if node.kind != "object":
        raise Conflict(f"{path}: {what} is no JSON object, so nothing can be put there.", "Look at it, and mend it.")
    return node


def _array(node: Node, path: str, what: str) -> Node:
    if node.kind != "array":
        raise Conflict(f"{path}: {what} is no JSON array, so nothing can be put there.", "Look at it, and mend it.")
    return node


def _mapping(value: object) -> Mapping[str, object]:
    return value if isinstance(value, Mapping) else {}
