"""What a hook is told: the event's fields, by which id it is known again, and one sentence for people."""

from __future__ import annotations

import os
from collections.abc import Mapping

from kranzq.events import Event
from kranzq.model.clock import rfc3339

_NOT_TOLD = frozenset({"person"})
_REASON_MOST = 500


def told(hook: str, event: Event, root: str, now: float, fallback: str) -> dict[str, object]:
    """The event as JSON has it. `now` is wall seconds; `fallback` is its id where nothing about it can be one."""
    fields = {name: value for name, value in vars(event).items() if name not in _NOT_TOLD}
    number = fields.get("run", fields.get("seq"))
    mark = f"{fields.get('mission', '')}/{number}/{hook}" if number is not None else fallback
    head = {"event": hook, "id": mark, "at": rfc3339(now), "repo": root, "text": sentence(hook, fields, root)}
    return head | fields


def sentence(hook: str, fields: Mapping[str, object], root: str) -> str:
    """One sentence about an event, such as a chat shows. No line breaks: what a mission wrote stays one line."""
    mission, where = str(fields.get("mission", "")), os.path.basename(root) or root
    why = str(fields.get("why", "") or fields.get("reason", ""))
    match hook:
        case "enqueued":
            text = f"{mission} was approved"
        case "started":
            text = f"{mission} runs (run {fields.get('run')})"
        case "ended" | "failed":
            text = f"{mission} {fields.get('outcome')} (run {fields.get('run')})"
        case "parked":
            text = f"{mission} was parked"
        case "drained":
            text = f"nothing more may run now; {fields.get('ran')} ran"
        case "needs_person":
            text = f"{mission or fields.get('file') or 'every mission'} needs a person"
        case _:
            text = "a test, sent by hand"
    told_why = f": {why}" if why else ""
    return " ".join(f"{where}: {text}{told_why}".split())[:_REASON_MOST]
