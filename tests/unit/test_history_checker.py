"""The checker of the hammer can fail: each kind of broken history is told, and sound ones are not."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.history_checker import Call, Kept, check, read

MS = 1_000_000


def call(
    verb: str, began: int, returned: int | None, answer: Any = None, fault: str | None = None, **asked: Any
) -> Call:
    """A call with times in milliseconds."""
    return Call(verb, began * MS, None if returned is None else returned * MS, asked, answer, fault)


def enqueue(at: int = 0, *, item: str = "w", returned: int | None = 1) -> Call:
    """One item."""
    return call("enqueue", at, returned, items=[item])


def claim(began: int, returned: int, attempt: int, holder: str = "ann", request: str = "") -> Call:
    """A claim of 100 ms that gave the item."""
    asked: dict[str, Any] = {"holder": holder, "lease_ms": 100, "request": request}
    return call("claim", began, returned, [["w", attempt]], **asked)


def finish(
    began: int, returned: int | None, attempt: int, holder: str = "ann", result: str = "r", fault: str | None = None
) -> Call:
    """An end as done."""
    asked = {"item": "w", "attempt": attempt, "holder": holder, "state": "done", "result": result}
    return call("finish", began, returned, fault=fault, **asked)


def heartbeat(began: int, returned: int, attempt: int, holder: str = "ann", fault: str | None = None) -> Call:
    """A renewal of 100 ms."""
    asked = {"item": "w", "attempt": attempt, "holder": holder, "lease_ms": 100}
    return call("heartbeat", began, returned, fault=fault, **asked)


def cancel(began: int, returned: int) -> Call:
    """A cancel that ended it."""
    return call("cancel", began, returned, True, item="w", result="r")


DONE = {"w": Kept("done", 1, "r", [(1, "ann", "done")])}
TWICE = {"w": Kept("done", 2, "r", [(1, "ann", "lapsed"), (2, "bob", "done")])}
SOUND: dict[str, tuple[Sequence[Call], dict[str, Kept]]] = {
    "one claim and its end": ([enqueue(), claim(2, 3, 1), heartbeat(50, 51, 1), finish(120, 121, 1)], DONE),
    "the same end again": ([enqueue(), claim(2, 3, 1), finish(4, 5, 1), finish(6, 7, 1)], DONE),
    "another end refused": (
        [enqueue(), claim(2, 3, 1), finish(4, 5, 1), finish(6, 7, 1, "ann", "x", "ItemLost")], DONE,
    ),
    "a lapse": ([enqueue(), claim(2, 3, 1), claim(103, 104, 2, "bob"), finish(105, 106, 2, "bob")], TWICE),
    "a late call refused": (
        [enqueue(), claim(2, 3, 1), claim(103, 104, 2, "bob"), finish(105, 106, 1, fault="ItemLost"),
         finish(107, 108, 2, "bob")],
        TWICE,
    ),
    "the same request again": (
        [enqueue(), claim(2, 3, 1, request="q"), claim(4, 5, 1, request="q"), finish(6, 7, 1)], DONE,
    ),
    "an end that was cut off": ([enqueue(), claim(2, 3, 1), finish(4, None, 1)], DONE),
    "an enqueue that was cut off": ([enqueue(returned=None)], {}),
    "pruned": ([enqueue(), claim(2, 3, 1), finish(4, 5, 1), call("prune", 6, 7, 1)], {}),
    "claims that overlap in time": (
        [enqueue(), claim(2, 110, 1), claim(3, 120, 2, "bob"), finish(121, 122, 2, "bob")], TWICE,
    ),
}  # fmt: skip
BROKEN: dict[str, tuple[Sequence[Call], dict[str, Kept], str]] = {
    "two at once": (
        [enqueue(), claim(2, 3, 1), claim(50, 51, 2, "bob"), finish(52, 53, 2, "bob")], TWICE, "ann held attempt 1",
    ),
    "two at once after a renewal": (
        [enqueue(), claim(2, 3, 1), heartbeat(90, 91, 1), claim(150, 151, 2, "bob"), finish(152, 153, 2, "bob")], TWICE,
        "ann held attempt 1",
    ),
    "one attempt for two": (
        [enqueue(), claim(2, 3, 1), claim(200, 201, 1, "bob"), finish(202, 203, 1)], DONE, "given to ann and to bob",
    ),
    "attempts that fall": (
        [enqueue(), claim(2, 3, 2, "bob"), claim(200, 201, 1), finish(202, 203, 2, "bob")], TWICE, "after a higher one",
    ),
    "a late end accepted": (
        [enqueue(), claim(2, 3, 1), claim(103, 104, 2, "bob"), finish(105, 106, 1)],
        {"w": Kept("done", 2, "r", [(1, "ann", "done"), (2, "bob", None)])}, "was accepted after a later claim",
    ),
    "a late heartbeat accepted": (
        [enqueue(), claim(2, 3, 1), claim(103, 104, 2, "bob"), heartbeat(105, 106, 1), finish(107, 108, 2, "bob")],
        TWICE, "was accepted after a later claim",
    ),
    "a stranger accepted": (
        [enqueue(), claim(2, 3, 1), heartbeat(4, 5, 1, "eve"), finish(6, 7, 1)], DONE, "was accepted of eve",
    ),
    "a holder refused": (
        [enqueue(), claim(2, 3, 1), heartbeat(4, 5, 1, fault="ItemLost"), finish(6, 7, 1)], DONE, "was refused to its",
    ),
    "a lock reached a caller": (
        [enqueue(), call("claim", 2, 3, fault="StoreLocked: x", holder="ann", lease_ms=1)],
        {"w": Kept("done", 0, "", [])}, "raised StoreLocked",
    ),
    "not found though never pruned": (
        [enqueue(), claim(2, 3, 1), finish(4, 5, 1), heartbeat(6, 7, 1, fault="NoSuchItem")], DONE, "did not find",
    ),
    "two ends": ([enqueue(), claim(2, 3, 1), finish(4, 5, 1), cancel(6, 7)], DONE, "ended more than once"),
    "another result kept": (
        [enqueue(), claim(2, 3, 1), finish(4, 5, 1)], {"w": Kept("done", 1, "x", [(1, "ann", "done")])},
        "is kept with 'x'",
    ),
    "another state kept": (
        [enqueue(), claim(2, 3, 1), finish(4, 5, 1)], {"w": Kept("failed", 1, "r", [(1, "ann", "failed")])},
        "is kept as failed",
    ),
    "claimed after its end": (
        [enqueue(), claim(2, 3, 1), finish(4, 5, 1), claim(6, 7, 2, "bob")], TWICE, "had ended as done when bob",
    ),
    "lost": ([enqueue()], {}, "was enqueued and is gone"),
    "lost though something was pruned": ([enqueue(), call("prune", 2, 3, 1)], {}, "was enqueued and is gone"),
    "from nowhere": ([], {"w": Kept("done", 0, "", [])}, "nobody enqueued it"),
    "never to be had": ([enqueue()], {"w": Kept("open", 0, "", [])}, "w is open"),
    "an attempt left out": (
        [enqueue(), claim(2, 3, 2, "bob"), finish(4, 5, 2, "bob")], {"w": Kept("done", 2, "r", [(2, "bob", "done")])},
        "its history tells of [2]",
    ),
    "another holder kept": (
        [enqueue(), claim(2, 3, 1), finish(4, 5, 1)], {"w": Kept("done", 1, "r", [(1, "bob", "done")])}, "kept is bob",
    ),
    "done without an attempt that did it": (
        [enqueue(), claim(2, 3, 1), finish(4, 5, 1)], {"w": Kept("done", 1, "r", [(1, "ann", "lapsed")])},
        "0 of its attempts are done",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", SOUND)
def test_a_sound_history_is_accepted(name: str) -> None:
    """What can have happened in some order is no fault."""
    calls, kept = SOUND[name]

    assert check(calls, kept, drained=True) == []


@pytest.mark.parametrize("name", BROKEN)
def test_a_broken_history_is_told(name: str) -> None:
    """Each kind of broken promise has its sentence."""
    calls, kept, expected = BROKEN[name]

    assert any(expected in told for told in check(calls, kept, drained=True))


def test_histories_are_read_as_they_were_written(tmp_path: Path) -> None:
    """Lines are paired, by their part where one call has several, and a line that was cut off ends its file."""
    lines = [
        {"phase": "call", "at": 1, "verb": "enqueue", "asked": {"items": ["w"]}},
        {"phase": "back", "at": 2},
        {"phase": "call", "at": 3, "verb": "finish", "asked": {"item": "w"}, "part": "0"},
        {"phase": "call", "at": 4, "verb": "finish", "asked": {"item": "v"}, "part": "1"},
        {"phase": "back", "at": 5, "part": "1", "fault": "ItemLost"},
    ]
    text = "".join(json.dumps(line) + "\n" for line in lines) + '{"phase": "ba'
    (tmp_path / "one.jsonl").write_text(text)

    assert read(tmp_path) == [
        Call("enqueue", 1, 2, {"items": ["w"]}),
        Call("finish", 3, None, {"item": "w"}),
        Call("finish", 4, 5, {"item": "v"}, None, "ItemLost"),
    ]
