"""Presence and the caller itself as requests."""

from __future__ import annotations

from typing import Any

from kranzq.backend.presence import Put
from kranzq.client import values
from kranzq.client.asking import Ask
from kranzq.client.values import Me
from kranzq.model.presence import NewPresence, PresenceClaim

CLAIMS = "/v1/work-claims"


def me() -> Ask[Me]:
    """Who the server takes the caller for."""
    return Ask("GET", "/v1/agent", values.me_of)


def put(new: NewPresence) -> Ask[Put]:
    """Claim, or renew. The subject is sent as it was resolved on the caller's own disk."""
    about = new.subject
    body: dict[str, Any] = {
        "repo": about.repo,
        "path": about.path or ("." if about.path is not None else None),  # blank would be: none is named
        "absolute_path": about.absolute_path,
        "branch": about.branch,
        "topic": about.topic,
        "note": new.note,
        "ttl_minutes": new.minutes,
        "home": new.home,
        "channel": new.channel or None,
    }
    return Ask("POST", CLAIMS, values.put_of, {key: value for key, value in body.items() if value is not None})


def live() -> Ask[list[PresenceClaim]]:
    """Every claim that has not expired."""
    return Ask("GET", CLAIMS, values.presences_of("claims"))


def release(claim: str | None) -> Ask[list[PresenceClaim]]:
    """End one claim of the caller, or all."""
    return Ask("POST", f"{CLAIMS}/release", values.presences_of("released"), {"id": claim} if claim is not None else {})
