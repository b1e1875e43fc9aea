"""The work queue, presence and agents as a library: items that are pulled by lease, kept by SQLite or PostgreSQL.

`open()` gives the user's own queue, `open("sqlite:///path")` or `open("postgresql://host/name")` another one. It may be
shared by threads; processes open their own.
"""

from __future__ import annotations

import os

from kranzq.backend import Accepted, Wanted
from kranzq.backend.agents import Agents
from kranzq.backend.items import WorkStore
from kranzq.backend.presence import Presence, Put, SharedStore
from kranzq.errors import (
    Conflict,
    ItemLost,
    KranzqError,
    NoSuchAgent,
    NoSuchItem,
    PresenceFull,
    StoreUnavailable,
    TryLater,
    UsageFault,
)
from kranzq.model.agents import Agent, Issued, Scope
from kranzq.model.claim import Holder
from kranzq.model.outcome import Outcome
from kranzq.model.presence import NewPresence, PresenceClaim, Subject, Whereabouts, subject_of
from kranzq.model.who import Facts, Match, Question, Working, question_about, question_of
from kranzq.model.work import (
    Attempt,
    Finish,
    Held,
    ItemClaim,
    ItemState,
    NewItem,
    Page,
    Recovered,
    Stats,
    Target,
    WorkItem,
)
from kranzq.wiring import presence, working

__all__ = [
    "Accepted",
    "Agent",
    "Agents",
    "Attempt",
    "Conflict",
    "Facts",
    "Finish",
    "Held",
    "Holder",
    "Issued",
    "ItemClaim",
    "ItemLost",
    "ItemState",
    "KranzqError",
    "Match",
    "NewItem",
    "NewPresence",
    "NoSuchAgent",
    "NoSuchItem",
    "Outcome",
    "Page",
    "Presence",
    "PresenceClaim",
    "PresenceFull",
    "Put",
    "Question",
    "Recovered",
    "Scope",
    "SharedStore",
    "Stats",
    "StoreUnavailable",
    "Subject",
    "Target",
    "TryLater",
    "UsageFault",
    "Wanted",
    "Whereabouts",
    "WorkItem",
    "WorkStore",
    "Working",
    "open",
    "question_about",
    "question_of",
    "subject_of",
    "whereabouts",
]


def open(url: str | None = None) -> SharedStore:  # noqa: A001 - as in `gzip.open`: it is always called with its module
    """The work queue at a URL; without one, that of the configuration (`work.url`), else the user's own file.

    A database that is empty or has an older schema is brought up to date first. Raises UsageFault for a URL that is
    none, SchemaTooNew, StoreUnavailable, Refused (SQLite on a network file system).
    """
    return working.open_work(url, os.environ)


def whereabouts(directory: str = ".") -> Whereabouts | None:
    """The repository, root and branch of the checkout at or above a directory, without running git; None outside."""
    return presence.whereabouts(directory, os.environ)
