"""Faults as answers: one table from the classes of `kranzq.errors` to status and code, one JSON form for all of them.

`{"error": "<sentence>", "hint": "<next step>", "code": "<word>"}`; on the original holder paths `"ok": false` comes
first. A hint names the route in the place of a verb of the command line; then `verb` has it as it was. No answer holds
the text of an unexpected exception, nor anything that looks like a token.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping

from kranzq.errors import (
    Busy,
    ClaimLost,
    Conflict,
    ItemLost,
    KranzqError,
    NotFound,
    PresenceFull,
    Refused,
    StoreUnavailable,
    TryLater,
    UsageFault,
)
from kranzq.model.tokens import without_tokens
from kranzq.server.hints import in_routes

TABLE: tuple[tuple[type[KranzqError], int, str], ...] = (
    (ClaimLost, 409, "lost"),
    (PresenceFull, 409, "full"),
    (Conflict, 409, "conflict"),
    (Busy, 409, "busy"),
    (NotFound, 404, "not_found"),
    (UsageFault, 400, "usage"),
    (Refused, 403, "refused"),
    (TryLater, 503, "later"),
    (StoreUnavailable, 503, "unavailable"),
    (KranzqError, 500, "failed"),
)
"""The first class that fits decides; a test holds every class of `kranzq.errors` against it."""
RETRY_AFTER_S = 1
"""What a client is told to wait when the store is locked or away."""
_NOT_FOUND, _LATER, _CONFLICT, _FAULT = 404, 503, 409, 500


class Form(enum.Enum):
    """Which client a route was made for; it decides how faults look."""

    V1 = "v1"
    ORIGINAL = "original"
    """The seed's paths: a store that fails is 500."""
    HOLDER = "holder"
    """Those of its paths that answer `ok`: as `ORIGINAL`, and an unknown id is 409."""


class HttpFault(Exception):
    """Something wrong with a request as HTTP: raised anywhere below `app`, answered there."""

    def __init__(
        self, status: int, code: str, sentence: str, hint: str = "", headers: Mapping[str, str] | None = None
    ) -> None:
        super().__init__(sentence)
        self.status, self.code, self.sentence, self.hint = status, code, sentence, hint
        self.headers = dict(headers or {})


def answer_to(fault: KranzqError | HttpFault, form: Form) -> tuple[int, dict[str, object], dict[str, str]]:
    """The status, body and headers by which a fault is told."""
    if isinstance(fault, HttpFault):
        return fault.status, body_of(fault.sentence, fault.hint, fault.code, form), fault.headers
    status, code = next((status, code) for kind, status, code in TABLE if isinstance(fault, kind))
    if form is not Form.V1 and status == _LATER:
        status = _FAULT
    if form is Form.HOLDER and status == _NOT_FOUND:
        status = _CONFLICT
    if isinstance(fault, ItemLost) and fault.cancelled is not None:
        code = "cancelled"
    hint = in_routes(fault.advice)
    body = body_of(fault.sentence, hint, code, form)
    if form is Form.V1 and hint != fault.advice:
        body["verb"] = without_tokens(fault.advice)
    if isinstance(fault, ItemLost):
        body |= {"item": fault.item, "attempt": fault.attempt, "state": fault.state, "cancelled": fault.cancelled}
    return status, body, {"retry-after": str(RETRY_AFTER_S)} if status == _LATER else {}


def body_of(sentence: str, hint: str, code: str, form: Form = Form.V1) -> dict[str, object]:
    """The one JSON form of a fault."""
    told: dict[str, object] = {"error": without_tokens(sentence), "hint": without_tokens(hint), "code": code}
    return {"ok": False} | told if form is Form.HOLDER else told
