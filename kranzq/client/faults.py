"""What a server says is wrong, as the faults that a local store would raise."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from kranzq.client.asking import Ask
from kranzq.errors import (
    Busy,
    ClaimLost,
    Conflict,
    ItemLost,
    KranzqError,
    NoSuchItem,
    NoSuchMission,
    NotFound,
    PresenceFull,
    Refused,
    ServerUnreachable,
    StoreUnavailable,
    TryLater,
    UsageFault,
)

OK, UNAUTHORIZED = range(200, 300), 401
VERSION = "x-agentmux-srv-version"
_KINDS: Mapping[str, type[KranzqError]] = {
    "busy": Busy,
    "conflict": Conflict,
    "full": PresenceFull,
    "later": TryLater,
    "lost": ClaimLost,
    "not_found": NotFound,
    "refused": Refused,
    "scope": Refused,
    "unavailable": StoreUnavailable,
    "usage": UsageFault,
}
_BY_STATUS = {400: UsageFault, 403: Refused, 404: NotFound, 409: Conflict, 413: UsageFault, 422: UsageFault}
"""What a code that we do not know means, by its status."""
_MOST_SHOWN = 2000


def check_server(where: str, status: int, headers: Mapping[str, str]) -> None:
    """Raise ServerUnreachable where no kranzq server answers."""
    if VERSION not in headers:
        raise _no_server(where, status)


def value_of(where: str, status: int, headers: Mapping[str, str], raw: bytes) -> dict[str, Any]:
    """The JSON object of an answer, good or not. Raises ServerUnreachable for what no kranzq server would say."""
    try:
        value = json.loads(raw)
    except (ValueError, RecursionError):
        value = None
    if not isinstance(value, dict) or VERSION not in headers:
        raise _no_server(where, status)
    return value


def fault_of(where: str, status: int, told: Mapping[str, Any], ask: Ask[Any]) -> KranzqError:
    """The fault that the server tells of."""
    sentence, code = _text(told, "error"), _text(told, "code")
    hint = _text(told, "verb") or _text(told, "hint")  # whoever uses us has the command line
    if status == UNAUTHORIZED and code != "agent":
        return Refused(
            f"The server {where} takes no call without a token that it knows.",
            "Name the file of your token with KRANZQ_TOKEN_FILE; one that was rotated or revoked is known no longer. "
            "The operator makes one with: kranzq agent add NAME, or: kranzq agent rotate NAME",
        )
    if code == "agent":
        return Refused(
            sentence,
            "Name the file of the agent's token with KRANZQ_TOKEN_FILE. The operator makes one with: "
            "kranzq agent add NAME --token-file FILE",
        )
    if code in {"lost", "cancelled"} and "state" in told:
        facts = {key: told.get(key) for key in ("item", "attempt", "state", "cancelled")}
        return _like(ItemLost, sentence, hint, **facts)
    kind = _KINDS.get(code) or _BY_STATUS.get(status, KranzqError)
    if kind is NotFound and ask.item is not None:
        return NoSuchItem(ask.item)
    if kind is NotFound and ask.mission is not None:
        return _like(NoSuchMission, sentence, hint)
    if kind is KranzqError:
        return ServerUnreachable(where, f"it says: {sentence or status}", hint or "Look into its log.")
    return _like(kind, sentence, hint, **({"path": where} if kind is StoreUnavailable else {}))


def retry_after(status: int, headers: Mapping[str, str]) -> float | None:
    """The seconds that the server asks to wait; None where it says nothing of it."""
    text = headers.get("retry-after", "")
    return float(text) if status in {429, 503} and text.isascii() and text.isdigit() else None


def _no_server(where: str, status: int) -> ServerUnreachable:
    return ServerUnreachable(
        where,
        f"what answers there (with {status}) is no kranzq server",
        "Look at the address; a proxy between needs the right one, too.",
    )


def _like(kind: type[KranzqError], sentence: str, hint: str, **facts: object) -> KranzqError:
    """A fault of that class in the server's words: its own constructor would build other ones."""
    fault = kind.__new__(kind)
    KranzqError.__init__(fault, sentence, hint)
    for name, value in facts.items():
        setattr(fault, name, value)
    return fault


def _text(told: Mapping[str, Any], key: str) -> str:
    value = told.get(key, "")
    return value[:_MOST_SHOWN] if isinstance(value, str) else ""
