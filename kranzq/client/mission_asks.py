"""Missions of the server's checkout as requests to `/v1/missions…`. Answers are the JSON of the command line."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from urllib.parse import quote

from kranzq.client.asking import Ask
from kranzq.client.receiving import Answer
from kranzq.client.values import LogPiece, log_piece_of

MISSIONS = "/v1/missions"
Json = dict[str, object]
_HEADROOM = 64 * 1024
"""Bytes that the sentence of a fault may have, whatever was asked for."""


def listing(*, parked: bool = False, everything: bool = False) -> Ask[Json]:
    """As `kranzq list --json`."""
    query = {"parked": "true"} if parked else {}
    return Ask("GET", MISSIONS, dict, query=query | ({"all": "true"} if everything else {}))


def status() -> Ask[Json]:
    """As `kranzq status --json`."""
    return Ask("GET", "/v1/status", dict)


def one(mission: str) -> Ask[Json]:
    """Where a mission is, and its runs."""
    return Ask("GET", _of(mission), dict, mission=mission)


def why(mission: str) -> Ask[Json]:
    """As `kranzq why --json`."""
    return Ask("GET", _of(mission, "why"), dict, mission=mission)


def history(mission: str | None, last: int, *, unended: bool) -> Ask[Json]:
    """As `kranzq history --json`."""
    query = (
        {"last": last} | ({"mission": mission} if mission is not None else {}) | ({"all": "true"} if unended else {})
    )
    return Ask("GET", "/v1/history", dict, query=query)


def enqueue(asked: Mapping[str, Any]) -> Ask[Json]:
    """As `kranzq enqueue --json`; `asked` has the words of the route, `files` names with their texts.

    Sent again only with an id and without `again`: else each time would make another mission, or one more run.
    """
    body = {key: value for key, value in asked.items() if value not in (None, "", (), [], {})}
    is_repeatable = bool(body.get("mission")) and not body.get("again")
    return Ask("POST", MISSIONS, dict, body, is_repeatable=is_repeatable, mission=body.get("mission"))


def cancel(mission: str, why: str = "") -> Ask[Json]:
    """As `kranzq cancel --json`."""
    return Ask("POST", _of(mission, "cancel"), dict, {"why": why} if why else None, mission=mission)


def log(mission: str, run: int | None, offset: int, most: int) -> Ask[LogPiece]:
    """Bytes of a run's output from `offset` on, or from so many before its end; of the last run without `run`."""
    query = {"offset": offset, "limit": most} | ({"run": run} if run is not None else {})

    def read(answer: Answer) -> LogPiece:
        return log_piece_of(answer.headers, answer.data, offset)

    return Ask("GET", _of(mission, "log"), read, query=query, mission=mission, is_raw=True, most=most + _HEADROOM)


def _of(mission: str, verb: str = "") -> str:
    name = quote(mission, safe="") if mission.strip(".") else mission.replace(".", "%2E")
    return f"{MISSIONS}/{name}/{verb}" if verb else f"{MISSIONS}/{name}"
