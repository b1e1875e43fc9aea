"""Who is who, as requests."""

from __future__ import annotations

from typing import Any

from kranzq.client.asking import Ask


def resolve(name: str) -> Ask[dict[str, Any]]:
    """Whom a name means: `resolution` one, ambiguous, unidentified or none; with `uid` or `candidates`."""
    return Ask("POST", "/v1/agents/resolve", dict, {"name": name})
