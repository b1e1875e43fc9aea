"""Following a mission's log at servers that cut, lie or never end."""

from __future__ import annotations

import asyncio
import re

import pytest

from kranzq.client import AsyncClient, Client, LogPiece, RemoteMissions
from kranzq.client.logs import FIRST_S, MOST_S, LogPlace
from kranzq.errors import AnswerTooLong, NoSuchMission, ServerUnreachable
from tests.scripted import Script, answer, scripted


def piece(
    data: bytes, start: int, size: int, *, run: object = 1, over: bool = False, next_: int | None = None
) -> bytes:
    """An answer of the log's route."""
    following = start + len(data) if next_ is None else next_
    told = {"run": run, "offset": start, "next": following, "size": size, "ended": "true" if over else "false"}
    return answer(data, 200, *(f"x-log-{name}: {text}" for name, text in told.items()))


STORY: tuple[Script, ...] = (
    piece(b"", 0, 0),
    piece(b"one\n", 0, 8),
    b"",
    piece(b"two\n", 4, 8),
    piece(b"end", 20, 23),
    piece(b"", 23, 23, over=True),
)
OFFSETS = [0, 0, 4, 4, 8, 23]


def offsets(asked: list[str]) -> list[int]:
    """From where each request wanted to read."""
    return [int(re.findall(r"offset=(\d+)", one)[0]) for one in asked]


def test_a_log_is_followed_until_its_run_has_ended() -> None:
    """Nothing twice, nothing left out, over a cut too; a hole is seen by where a piece begins. The run is pinned."""
    with scripted(*STORY) as server, Client(server.url) as client:
        found = list(RemoteMissions(client).follow("m"))
    assert [(one.start, one.data) for one in found] == [(0, b""), (0, b"one\n"), (4, b"two\n"), (20, b"end"), (23, b"")]
    assert offsets(server.asked) == OFFSETS
    assert ["run=1" in one for one in server.asked] == [False] + [True] * 5


def test_a_program_on_a_loop_follows_too() -> None:
    """In the same way."""

    async def story(url: str) -> list[LogPiece]:
        async with AsyncClient(url) as client:
            return [one async for one in client.follow("m", offset=0)]

    with scripted(*STORY) as server:
        found = asyncio.run(story(server.url))
    assert b"".join(one.data for one in found) == b"one\ntwo\nend"
    assert offsets(server.asked) == OFFSETS


@pytest.mark.parametrize(
    "script",
    [
        piece(b"x", 0, 1, run="many"),
        piece(b"x", 0, 1, run=-1),
        piece(b"x", 0, 1, next_=9),
        piece(b"x", 3, 4),
        piece(b"x", 5, 6).replace(b"x-log-size", b"x-log-width"),
        answer(b"x"),
    ],
    ids=["no number", "below zero", "not behind its bytes", "before the place", "a header less", "no headers"],
)
def test_a_piece_that_contradicts_itself_is_refused(script: bytes) -> None:
    """Bytes at a wrong place would be a wrong log."""
    with scripted(script) as server, Client(server.url) as client, pytest.raises(ServerUnreachable, match="form"):
        RemoteMissions(client).log("m", offset=5)


def test_more_than_was_asked_for_is_not_taken_in() -> None:
    """Whatever the server thinks."""
    with scripted(piece(b"x" * 100_000, 0, 100_000)) as server, Client(server.url) as client:
        with pytest.raises(AnswerTooLong, match="/v1/missions/m/log"):
            RemoteMissions(client).log("m", most=1)


def test_what_the_server_says_of_a_mission_is_raised() -> None:
    """As a local look would."""
    none = answer(b'{"error": "There is no mission m.", "hint": "", "code": "not_found"}', 404)
    with scripted(none) as server, Client(server.url) as client, pytest.raises(NoSuchMission, match="no mission m"):
        RemoteMissions(client).log("m")


def test_pauses_grow_while_nothing_is_said() -> None:
    """And begin anew when something is; behind a long piece there is none."""
    place = LogPlace("m")
    pauses = [place.took(LogPiece(1, 0, b"", 0, is_over=False)) or 0.0 for _ in range(30)]
    assert (pauses[0] < 2 * FIRST_S, pauses[-1]) == (True, MOST_S)
    assert place.took(LogPiece(1, 0, b"abc", 9, is_over=True)) == 0.0
    assert place.took(LogPiece(1, 3, b"def", 6, is_over=False)) == FIRST_S
    assert place.took(LogPiece(1, 6, b"", 6, is_over=True)) is None
