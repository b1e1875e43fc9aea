"""Producer bindings: whose external item a mission is, kept beside the mission, so that any dispatcher may run it."""

from __future__ import annotations

from kranzq.model.frozen import frozen
from kranzq.model.ids import MissionId


@frozen
class Source:
    """A binding. `created_at` is Unix seconds, 0 when unknown."""

    mission: MissionId
    producer: str
    reference: str
    created_at: int
