"""What `/v1/missions…` is told and answers. Answers are those of the command line's `--json`."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from kranzq.dispatch.request import MAX_RETRIES
from kranzq.model.entry import DEFAULT_PRIORITY, MAX_PRIORITY
from kranzq.model.ids import MAX_LENGTH
from kranzq.server.bodies import Given
from kranzq.wiring.missions import MOST_RUNS

MissionName = Annotated[str, Meta(extra_json_schema={"minLength": 1, "maxLength": MAX_LENGTH})]
State = Literal["inbox", "queued", "waiting", "claimed", "parked", "quarantined", "gone"]
Outcome = str | None
RunNumber = Annotated[int, Meta(extra_json_schema={"minimum": 1})]


class NewMission(Given):
    """A mission to approve, as `kranzq enqueue` takes it. Without `mission` an id is made."""

    mission: MissionName | None = None
    priority: Annotated[int, Meta(extra_json_schema={"minimum": 0, "maximum": MAX_PRIORITY})] = DEFAULT_PRIORITY
    command: Annotated[
        list[str], Meta(description="The program and its arguments; none: the command that is configured.")
    ] = msgspec.field(default_factory=list)
    ticket: str | None = None
    timeout: Annotated[str | None, Meta(description="90s, 5m, 2h.")] = None
    retries: Annotated[int, Meta(extra_json_schema={"minimum": 0, "maximum": MAX_RETRIES})] = 0
    env: dict[str, str] = msgspec.field(default_factory=dict)
    cwd: Annotated[str, Meta(description="A directory inside the checkout.")] = ""
    again: Annotated[bool, Meta(description="Queue one more run behind the running one.")] = False
    once: Annotated[bool, Meta(description="Change nothing if the mission has ended before.")] = False
    source: Annotated[str | None, Meta(description="PRODUCER:REFERENCE.")] = None
    files: Annotated[
        dict[str, str], Meta(description="Texts that are put into the mission's input/, by their names.")
    ] = msgspec.field(default_factory=dict)
    not_before: Annotated[str | None, Meta(description="+90m, or a time with its zone (RFC 3339).")] = None
    after: Annotated[list[str], Meta(description="Missions that must have succeeded.")] = msgspec.field(
        default_factory=list
    )
    future: Annotated[bool, Meta(description="One in `after` may be a mission that comes later.")] = False


class MissionCancel(Given):
    """Why it is cancelled."""

    why: Annotated[str, Meta(description="Kept with the end.")] = ""


class ListQuery(Given):
    """Which entries."""

    parked: Annotated[bool, Meta(description="Only what is parked.")] = False
    all: Annotated[bool, Meta(description="Also what is parked or quarantined.")] = False


class LogQuery(Given):
    """Which bytes of which run."""

    run: RunNumber | None = None
    offset: Annotated[int, Meta(description="From this byte on; negative: so many before the end.")] = 0
    limit: Annotated[int, Meta(extra_json_schema={"minimum": 1, "maximum": 1048576})] = 1048576


class Approved(msgspec.Struct):
    """What is queued, and whether this call made it."""

    mission: str
    seq: int
    priority: int
    created: bool
    state: State
    outcome: str | msgspec.UnsetType = msgspec.UNSET


class Entry(msgspec.Struct):
    """One entry."""

    mission: str
    priority: int
    seq: int | None
    state: State
    due: str | None
    waitingFor: list[str]  # noqa: N815 - as `list --json` has it
    signed: bool | str | None
    note: Annotated[str, Meta(description="What holds it up.")]
    advice: Annotated[str, Meta(description="What to type on the server's machine.")]


class BadFile(msgspec.Struct):
    """A file that is no entry, and why."""

    file: str
    why: str


class Listing(msgspec.Struct):
    """Entries in order, and what is none."""

    entries: list[Entry]
    bad: list[BadFile]
    quarantined: list[BadFile]


class Run(msgspec.Struct):
    """One run; without an outcome it has not ended."""

    mission: str
    run: int
    outcome: Outcome
    fate: str | None
    exitCode: int | None  # noqa: N815 - as `history --json` has it
    signal: int | None
    startedAt: str | None  # noqa: N815
    endedAt: str | None  # noqa: N815
    tree: dict[str, Any] | None
    kranzStatus: str | None  # noqa: N815
    reason: str


class HistoryQuery(Given):
    """Which runs."""

    mission: Annotated[str | None, Meta(description="Only of this mission.")] = None
    last: Annotated[
        int, Meta(description="Only the newest so many.", extra_json_schema={"minimum": 1, "maximum": MOST_RUNS})
    ] = 100
    all: Annotated[bool, Meta(description="Also runs that have not ended.")] = False


class History(msgspec.Struct):
    """Runs, newest last."""

    runs: list[Run]


class Mission(msgspec.Struct):
    """One mission: its entries, the one that matters most first, and its runs, newest last."""

    mission: str
    state: State
    entries: list[Entry]
    runs: list[Run]


class Reason(msgspec.Struct):
    """Why it does not run, and what would clear that."""

    reason: str
    text: str
    clear: str


class Why(msgspec.Struct):
    """The reasons, the first that bites first."""

    mission: str
    state: State
    reasons: list[Reason]


class MissionCancelled(msgspec.Struct):
    """What came of it."""

    mission: str
    result: Literal["removed", "wished", "cancelled", "ended"]
    removed: bool
    run: int | None
    outcome: Outcome


class Notice(msgspec.Struct):
    """Something that a person should look at."""

    text: str
    advice: str
    listed: Annotated[bool, Meta(description="Whether the list of missions names what it is about, one by one.")]
    claim: Annotated[str | None, Meta(description="The name of the claim that it is about.")]


class Status(msgspec.Struct):
    """The state of the checkout."""

    repo: str
    version: str
    daemon: dict[str, Any] | None
    busy: dict[str, Any] | None
    queued: int
    waiting: int
    parked: int
    quarantined: int
    inbox: int
    unsigned: int
    paused: str | None
    claims: list[dict[str, Any]]
    next: Annotated[list[str], Meta(description="The missions that come next.")]
    due: Annotated[str | None, Meta(description="When the next of those that wait is due.")]
    waits: Annotated[list[str], Meta(description="What some of them wait for, for people.")]
    warnings: Annotated[list[Notice], Meta(description="What a person should look at, and what to type there.")]
    daemonHidden: Annotated[  # noqa: N815 - as `status --json` has it
        str | None, Meta(description="Why a daemon, if there is one, cannot be seen from there.")
    ]
