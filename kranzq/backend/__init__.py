"""The contracts between turns, surfaces and whatever keeps the work.

`verbs` is true of every backend and says what leases add; `missions` is what one turn asks of a queue of missions;
`items` is the whole work queue; `presence` is advisory and a thing of its own. Nothing here does anything.
"""

from __future__ import annotations

from kranzq.backend.missions import Candidate, MissionQueue, Past
from kranzq.backend.items import AcceptedItem, WorkStore
from kranzq.backend.verbs import Accepted, Backend, Leased, Wanted

__all__ = ["Accepted", "AcceptedItem", "Backend", "Candidate", "Leased", "MissionQueue", "Past", "Wanted", "WorkStore"]
