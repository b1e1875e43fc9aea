"""Presence on SQLite: the exact end of a claim, what has piled up, and how claims are found."""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Iterator
from pathlib import Path

import pytest

from kranzq.backends.sql.presence import PURGED_AT_ONCE
from kranzq.backends.sql.statements import Dialect, statements
from kranzq.events import Event, PresenceClaimed, PresenceReleased, subscribe
from kranzq.model.claim import Holder
from kranzq.model.presence import LEAST_MINUTES, MOST_CLAIMS, NewPresence, Subject
from kranzq.model.who import Question, question_of
from tests.item_stores import SqliteItems

ANN, SRV = Holder("ann"), Subject("hub.example/o/r", "srv")
ASKED = question_of(path="srv/x", repo="o/r")
LIVES_S = LEAST_MINUTES * 60


@pytest.fixture
def items(tmp_path: Path) -> Iterator[SqliteItems]:
    """An empty file, and a clock that only moves when it is told to."""
    store = SqliteItems(tmp_path / "work.db")
    yield store
    store.close()


def expired(items: SqliteItems, count: int) -> None:
    """Put claims into the file that ended long ago."""
    with sqlite3.connect(items.path) as connection:
        connection.executemany(
            "insert into kranzq_presence (id, holder, subject, agent, agent_uid, channel, repo, tail, path, note,"
            " created_at, expires_at) values (?, 'n:ann', ?, 'ann', '', '', 'hub.example/o/r', 'o/r', 'srv', '', 1, ?)",
            [(f"old-{number}", f"subject-{number}", 1000 + number) for number in range(count)],
        )
    connection.close()


def rows(items: SqliteItems) -> int:
    """How many rows there are, whatever became of them."""
    connection = sqlite3.connect(items.path)
    count = connection.execute("select count(*) from kranzq_presence").fetchone()[0]
    connection.close()
    return int(count)


def test_a_claim_ends_for_every_reader_at_the_same_instant(items: SqliteItems) -> None:
    """A millisecond before its end everybody sees it; at its end nobody does."""
    store = items.open().presence
    claim = store.put(NewPresence(ANN, SRV, minutes=LEAST_MINUTES)).claim
    items.pass_time(LIVES_S - 0.001)
    assert (store.live(), store.about(ASKED), len(store.who(ASKED))) == ([claim], [claim], 1)
    assert claim.is_live(claim.expires_at - 1)

    items.pass_time(0.001)
    assert (store.live(), store.about(ASKED), store.who(ASKED), store.release(ANN)) == ([], [], (), [])
    assert not claim.is_live(claim.expires_at)


def test_to_claim_at_the_end_is_to_begin_anew(items: SqliteItems) -> None:
    """A millisecond before the end it is a renewal, at the end a new claim, though the old row may still be there."""
    store = items.open().presence
    new = NewPresence(ANN, SRV, minutes=LEAST_MINUTES)
    first = store.put(new).claim
    items.pass_time(LIVES_S - 0.001)
    assert store.put(new).claim.id == first.id
    items.pass_time(LIVES_S)
    anew = store.put(new)

    assert (anew.renewed, anew.claim.id != first.id, anew.claim.created_at - first.created_at) == (
        False,
        True,
        2 * LIVES_S * 1000 - 1,
    )
    assert rows(items) == 1


def test_a_row_that_has_expired_and_is_still_there_is_no_claim(items: SqliteItems) -> None:
    """Behind more expired rows than one put removes, the old row of the same subject gives neither id nor start."""
    store = items.open().presence
    first = store.put(NewPresence(ANN, SRV, minutes=LEAST_MINUTES)).claim
    expired(items, 3 * PURGED_AT_ONCE)
    items.pass_time(LIVES_S)
    anew = store.put(NewPresence(ANN, SRV))

    assert rows(items) == 2 * PURGED_AT_ONCE + 1
    assert (anew.renewed, anew.claim.id == first.id, anew.claim.created_at > first.created_at) == (False, False, True)
    assert store.live() == [anew.claim]


def test_ten_thousand_expired_rows_are_seen_by_nobody_and_go_in_small_batches(items: SqliteItems) -> None:
    """They answer no question, count for no limit, and each put and release takes a hundred of them away."""
    expired(items, 10_000)
    store = items.open().presence
    assert (store.live(), store.about(Question("o/r")), store.release(ANN, "old-9999")) == ([], [], [])
    left = 10_000 - PURGED_AT_ONCE
    assert rows(items) == left

    store.put(NewPresence(ANN, SRV))
    assert rows(items) == left - PURGED_AT_ONCE + 1
    while rows(items) > 1:
        before = rows(items)
        store.release(ANN, "nothing")
        assert before - rows(items) <= PURGED_AT_ONCE
    assert [one.subject for one in store.live()] == [SRV]


def test_expired_claims_leave_room(items: SqliteItems) -> None:
    """Only what lives counts for the limit of a holder."""
    store = items.open().presence
    for number in range(MOST_CLAIMS):
        store.put(NewPresence(ANN, Subject(topic=str(number)), minutes=LEAST_MINUTES))
    items.pass_time(LIVES_S)

    assert not store.put(NewPresence(ANN, SRV)).renewed


@pytest.mark.parametrize("dialect", ["sqlite", "postgres"])
def test_every_statement_that_reads_claims_has_the_one_rule(dialect: Dialect) -> None:
    """Nobody can add a reader of the table that sees expired claims; only the purge looks for those."""
    clock = {"sqlite": ":wall", "postgres": "kranzq_now()"}[dialect]
    for name, commands in statements(dialect).items():
        text = " ".join(" ".join(commands).split())
        reads = len(re.findall(r"from kranzq_presence\b", text))
        if name == "presence_purge":
            assert f"where expires_at <= {clock}" in text
        elif reads:
            assert len(re.findall(rf"expires_at > {re.escape(clock)}", text)) >= reads, name


def test_claims_are_found_by_indexes(items: SqliteItems) -> None:
    """A question about a repository, branch or absolute path looks at no other claims."""
    items.open()
    (command,) = statements("sqlite")["presence_about"]
    connection = sqlite3.connect(items.path)
    values = {"tail": "o/r", "branch": "b", "absolute": 1, "words": 0, "wall": 1}
    plan = [row[3] for row in connection.execute(f"explain query plan {command}", values)]
    connection.close()

    for index in ("kranzq_presence_tail", "kranzq_presence_branch", "kranzq_presence_absolute"):
        assert any(f"USING INDEX {index}" in line for line in plan), plan


def test_each_change_is_told_once(items: SqliteItems) -> None:
    """A put and a release are one event each; looking, and a release of nothing, are none."""
    heard: list[Event] = []
    end = subscribe(heard.append)
    try:
        store = items.open().presence
        name = store.put(NewPresence(ANN, SRV)).claim.id
        store.put(NewPresence(ANN, SRV))
        store.live()
        store.who(ASKED)
        store.release(Holder("bob"))
        store.release(ANN)
    finally:
        end()

    assert heard == [
        PresenceClaimed(name, "ann", renewed=False),
        PresenceClaimed(name, "ann", renewed=True),
        PresenceReleased((name,), "ann"),
    ]
