"""The ring of events: ids from which one can read on, and frames that nothing in their data can end."""

from __future__ import annotations

import json
import threading

import hypothesis
import pytest
from hypothesis import strategies

from kranzq.server.event_log import EventLog, frame

BOOT = "0123456789abcdef"


def log_of(many: int, most: int = 10) -> EventLog:
    """A log with so many events."""
    log = EventLog(BOOT, most)
    for number in range(1, many + 1):
        log.add("item", {"number": number})
    return log


def test_events_are_read_on_in_order() -> None:
    """In pieces, from any place."""
    log = log_of(7)

    assert [one.number for one in log.after(0, 100)] == [1, 2, 3, 4, 5, 6, 7]
    assert [one.number for one in log.after(4, 2)] == [5, 6]
    assert log.after(7, 100) == []


def test_the_oldest_ones_go() -> None:
    """From a place before them nobody reads on: a part would look like the whole."""
    log = log_of(25)

    assert (log.tail, log.head) == (15, 25)
    assert [one.number for one in log.after(15, 100)] == list(range(16, 26))
    assert log.after(14, 100) == []
    assert log.place(log.id(14)) is None
    assert log.place(log.id(15)) == 15


@pytest.mark.parametrize(
    "text",
    [
        "",
        "-",
        "7",
        BOOT,
        f"{BOOT}-",
        f"{BOOT}-8",
        f"{BOOT}--1",
        f" {BOOT}-1",
        f"{BOOT}-1\n",
        f"{BOOT}-\u0661",
        f"x{BOOT}-1",
    ],
)
def test_b88_what_is_no_id_of_ours_is_no_place(text: str) -> None:
    """B88: garbage, another start of the server and what is still to come."""
    assert log_of(7).place(text) is None


def test_an_id_of_ours_is_a_place() -> None:
    """Also the one before the first event."""
    log = log_of(7)

    assert [log.place(log.id(number)) for number in (0, 1, 7)] == [0, 1, 7]


@hypothesis.given(strategies.text(strategies.characters(), max_size=40), strategies.text(max_size=40))
def test_b84_a_frame_is_one_event_whatever_its_data(name: str, value: str) -> None:
    """B84: three lines and an empty one; the data is JSON, also of half characters."""
    made = frame("item", {name: value, "file": "\udcff"}, f"{BOOT}-1")

    *lines, empty, rest = made.decode("ascii").split("\n")
    assert [line.partition(": ")[0] for line in lines] == ["id", "event", "data"]
    assert (empty, rest) == ("", "")
    json.loads(lines[2].partition(": ")[2])


def test_threads_add_without_losing_any() -> None:
    """Each gets a number of its own."""
    log = EventLog(BOOT, 1000)

    def add() -> None:
        for _ in range(100):
            log.add("item", {})

    threads = [threading.Thread(target=add) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert [one.number for one in log.after(0, 1000)] == list(range(1, 401))
