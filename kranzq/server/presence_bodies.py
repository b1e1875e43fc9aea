"""What presence is told and answers over HTTP, as types (seed h). Texts are flattened and cut, never refused."""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import Meta

from kranzq.server.bodies import Given, Tolerated
from kranzq.server.work_bodies import Word

Minutes = Annotated[int | None, Meta(description="From 5 to 1440; less or more becomes the nearest. Null is 120.")]


class PresenceOriginalBody(Tolerated):
    """What somebody says to work on. `agent` counts where no token tells who it is."""

    path: str | None = None
    repo: str | None = None
    branch: str | None = None
    topic: str | None = None
    note: str | None = None
    ttl_minutes: Minutes = None
    agent: Word | None = None
    block: str | None = None


class PresenceBody(Given):
    """What somebody says to work on; as `/api/v1`, and what a client knows of its own disk."""

    path: str | None = None
    absolute_path: Annotated[str | None, Meta(description="Instead of `path`, or where a link leads to.")] = None
    repo: str | None = None
    branch: str | None = None
    topic: str | None = None
    note: str | None = None
    ttl_minutes: Minutes = None
    home: Annotated[str | None, Meta(description="The repository in which the caller works.")] = None
    channel: Word = ""
    agent: Word | None = None


class ReleaseOriginalBody(Tolerated):
    """Which claim ends; without an id, all that the caller has."""

    id: Word | None = None
    agent: Word | None = None
    block: str | None = None


class ReleasePresenceBody(Given):
    """Which claim ends; without an id, all that the caller has."""

    id: Word | None = None
    agent: Word | None = None


class WhoOriginalQuery(Tolerated):
    """What is asked about."""

    path: str = ""
    repo: str = ""
    branch: str = ""
    query: str = ""
    agent: Word = ""
    block: str = ""


class WhoQuery(Given):
    """What is asked about."""

    path: str = ""
    absolute_path: str = ""
    repo: str = ""
    branch: str = ""
    query: str = ""
    agent: Word = ""


class PresenceSeen(msgspec.Struct):
    """A claim; absent parts are null."""

    id: str
    agent: str
    agent_uid: str
    channel: str
    repo: str | None
    path: str | None
    absolute_path: str | None
    branch: str | None
    topic: str | None
    note: str
    created_at: int
    expires_at: int
    home: str | None


class MatchSeen(msgspec.Struct):
    """One reason to name somebody."""

    kind: str
    detail: str
    since_ms: int | None


class WorkingSeen(msgspec.Struct):
    """Somebody who works on it, the strongest reason first."""

    agent: str
    channel: str
    status: str
    goal: str
    repo: str | None
    branch: str | None
    git_checked_ms: int | None
    matches: list[MatchSeen]


class PresenceClaimed(msgspec.Struct):
    """The claim as it is now, and who else works on it."""

    claim: PresenceSeen
    claimed: bool
    renewed: bool
    others_working_on_it: list[WorkingSeen]
    note: str


class PresenceReleased(msgspec.Struct):
    """What had not expired of what was released."""

    released: list[PresenceSeen]
    note: str


class PresenceLive(msgspec.Struct):
    """Every claim that has not expired, the oldest first."""

    claims: list[PresenceSeen]


class Asked(msgspec.Struct):
    """The question, as it was understood."""

    repo: str | None
    path: str | None
    absolute_path: str | None
    branch: str | None
    query: str | None


class CallerAt(msgspec.Struct):
    """Who asked."""

    agent: str
    repo: str | None
    branch: str | None


class Remote(msgspec.Struct):
    """An agent elsewhere; there are none here."""

    agent: str
    channel: str
    status: str


class WhoWorks(msgspec.Struct):
    """Everybody but the caller who works on it."""

    asked: Asked
    caller: CallerAt | None
    agents: list[WorkingSeen]
    remote_agents: list[Remote]
    unreachable_channels: list[str]
    note: str


class FactsSeen(msgspec.Struct):
    """Whoever has claims, with all of them."""

    agent: str
    channel: str
    status: str
    goal: str
    repo: str | None
    branch: str | None
    git_checked_ms: int | None
    claims: list[PresenceSeen]


class AllFacts(msgspec.Struct):
    """What is known here of agents: their claims."""

    channel: str
    agents: list[FactsSeen]
