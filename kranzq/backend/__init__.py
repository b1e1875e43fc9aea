"""The contracts between turns, surfaces and whatever keeps the work.

`verbs` is true of every backend and says what leases add; `missions` is what one turn asks of a queue of missions;
`items` is the whole work queue and is imported from there, by whoever needs it. Nothing here does anything.
"""

from __future__ import annotations

from kranzq.backend.missions import Candidate, Examined, MissionQueue, Past, Unclaimed, Unsettled
from kranzq.backend.verbs import Accepted, Backend, Leased, Wanted

__all__ = [
    "Accepted",
    "Backend",
    "Candidate",
    "Examined",
    "Leased",
    "MissionQueue",
    "Past",
    "Unclaimed",
    "Unsettled",
    "Wanted",
]
