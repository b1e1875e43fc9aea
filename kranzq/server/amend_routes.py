"""Changing one's mind about missions on `/v1/missions/{mission}/…`: park, unpark, edit, retry; and when they ran.

What is decided here stands in the verbs of the same names. To change a mission needs the scope that approves one.
"""

from __future__ import annotations

from typing import Annotated, Any

import msgspec
from msgspec import Meta

from kranzq.errors import UsageFault
from kranzq.model.agents import Scope
from kranzq.model.entry import MAX_PRIORITY
from kranzq.server.bodies import Given
from kranzq.server.mission_bodies import State
from kranzq.server.mission_routes import missions_of
from kranzq.server.plain import plain
from kranzq.server.routing import Call, Route
from kranzq.wiring.approving import edits_of
from kranzq.wiring.missions import MOST_RUNS


class ParkBody(Given):
    """Why it is parked."""

    why: Annotated[str, Meta(description="Shown to whoever asks; without one it says who did it.")] = ""


class EditBody(Given):
    """What is to change; what is left out stays."""

    priority: Annotated[
        int | None,
        Meta(
            description="Lower is earlier; it goes behind those that have it.",
            extra_json_schema={"minimum": 0, "maximum": MAX_PRIORITY},
        ),
    ] = None
    not_before: Annotated[str | None, Meta(description="+90m, a time with its zone (RFC 3339), or now.")] = None
    timeout: Annotated[str | None, Meta(description="90s, 5m, 2h; or none.")] = None


class TimelineQuery(Given):
    """Which runs."""

    mission: Annotated[str | None, Meta(description="Only of this mission.")] = None
    last: Annotated[
        int, Meta(description="Only the newest so many.", extra_json_schema={"minimum": 1, "maximum": MOST_RUNS})
    ] = 100


class Amended(msgspec.Struct):
    """Where the entry is now, and whether this call changed something."""

    mission: str
    state: State
    changed: bool
    priority: int
    seq: int
    due: str | None
    note: Annotated[str, Meta(description="What people should know besides.")]


class Survivor(msgspec.Struct):
    """A process that outlived its mission."""

    pid: int | None
    name: str


class RunTimes(msgspec.Struct):
    """One run, with its times; `enqueuedAt` is that of its entry, which several runs may share."""

    mission: str
    run: int
    state: str
    enqueuedAt: str | None  # noqa: N815 - as all JSON of missions has it
    claimedAt: str | None  # noqa: N815
    startedAt: str | None  # noqa: N815
    endedAt: str | None  # noqa: N815
    outcome: str | None
    fate: str | None
    reason: str
    exitCode: int | None  # noqa: N815
    signal: int | None
    counted: bool
    keeper: Annotated[int, Meta(description="The pid of its keeper.")]
    process: Annotated[int | None, Meta(description="The pid of the mission's own process.")]
    survivors: list[Survivor]
    version: Annotated[str, Meta(description="The version that recorded it.")]


class Waiting(msgspec.Struct):
    """An entry that is in the queue now."""

    state: State
    enqueuedAt: str | None  # noqa: N815
    due: str | None


class Timeline(msgspec.Struct):
    """Runs, newest last; `waiting` only of a mission that was asked for."""

    runs: list[RunTimes]
    waiting: list[Waiting]


def park(call: Call) -> object:
    """Set a mission aside."""
    said: ParkBody | None = call.body
    return _told(missions_of(call).park(call.path["mission"], said.why if said is not None else ""))


def unpark(call: Call) -> object:
    """Let it back."""
    return _told(missions_of(call).unpark(call.path["mission"]))


def edit(call: Call) -> object:
    """Change what has not begun."""
    said: EditBody = call.body
    edits = edits_of(said.priority, said.not_before, said.timeout)
    return _told(missions_of(call).edit(call.path["mission"], edits))


def retry(call: Call) -> object:
    """Run it once more."""
    return _told(missions_of(call).retry(call.path["mission"]))


def timeline(call: Call) -> object:
    """When runs began and ended."""
    said: TimelineQuery = call.query
    if not 1 <= said.last <= MOST_RUNS:
        raise UsageFault(f"The newest {said.last} runs are none, or too many.", f"Ask for 1 to {MOST_RUNS}.")
    return plain(missions_of(call).timeline(said.mission, last=said.last).to_json())


def _told(done: Any) -> object:
    return plain(done.to_json() | {"note": done.note})


_CHANGED = (403, 404, 409)

ROUTES: tuple[Route, ...] = (
    Route(
        "GET",
        "/v1/timeline",
        timeline,
        "When runs were enqueued, claimed, started and ended, newest last, also those that have not ended.",
        Scope.READ,
        Timeline,
        query=TimelineQuery,
        statuses=(400, 404, 422),
        is_shared=True,
    ),
    Route(
        "POST",
        "/v1/missions/{mission}/park",
        park,
        "Set a mission aside that has not begun: it does not run until it is unparked.",
        Scope.OPERATE,
        Amended,
        ParkBody,
        body_optional=True,
        statuses=_CHANGED,
    ),
    Route(
        "POST",
        "/v1/missions/{mission}/unpark",
        unpark,
        "Let a parked mission run again, in its old place and with new counters.",
        Scope.OPERATE,
        Amended,
        statuses=_CHANGED,
    ),
    Route(
        "POST",
        "/v1/missions/{mission}/edit",
        edit,
        "Change a mission that has not begun: when it runs, and how long it may take.",
        Scope.OPERATE,
        Amended,
        EditBody,
        statuses=_CHANGED,
    ),
    Route(
        "POST",
        "/v1/missions/{mission}/retry",
        retry,
        "Run a mission once more: one that has ended, is parked, or waits after a run that failed.",
        Scope.OPERATE,
        Amended,
        statuses=_CHANGED,
    ),
)
