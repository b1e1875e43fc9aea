"""Signing in to the dashboard and out again: a token for a cookie, which ends with the browser or the server."""

from __future__ import annotations

from typing import Literal

import msgspec

from kranzq.model.agents import Scope
from kranzq.server.errors import HttpFault
from kranzq.server.routing import Call, Reply, Route, Sent
from kranzq.server.sessions import LIFE_S, secret_of, sessions, set_cookie

_BEARER = "Bearer "


class SignedIn(msgspec.Struct):
    """It came with a cookie that opens what the token opens; how many seconds at most."""

    ok: Literal[True]
    seconds: float


class Known(msgspec.Struct):
    """Whether the cookie of this request names a session; what it opens is told by `/v1/agent`."""

    signed_in: bool


class SignedOut(msgspec.Struct):
    """The cookie opens nothing any more."""

    ok: Literal[True]


async def sign_in(call: Call) -> object:
    """Exchange the token of this request, which was proven already, for a cookie."""
    sent = _sent(call)
    said = [one.removeprefix(_BEARER) for name in ("authorization", "x-authkey") for one in sent.get(name, ())]
    if not said:
        raise HttpFault(
            400, "usage", "A session begins with a token, which did not come.", "Send it: Authorization: Bearer TOKEN"
        )
    secret = call.service.shared(sessions).begin(said[0])
    return Reply({"ok": True, "seconds": LIFE_S}, headers={"set-cookie": set_cookie(sent, secret)})


async def known(call: Call) -> object:
    """Whether there is a session, for a page that would otherwise have to be refused to find out."""
    secret = secret_of(_sent(call))
    return {"signed_in": secret is not None and call.service.shared(sessions).find(secret) is not None}


async def sign_out(call: Call) -> object:
    """End the session of this request's cookie, if there is one."""
    sent = _sent(call)
    if (secret := secret_of(sent)) is not None:
        call.service.shared(sessions).end(secret)
    return Reply({"ok": True}, headers={"set-cookie": set_cookie(sent, None)})


def _sent(call: Call) -> Sent:
    return {name: call.headers.getlist(name) for name in ("host", "origin", "cookie", "authorization", "x-authkey")}


ROUTES: tuple[Route, ...] = (
    Route(
        "POST",
        "/v1/session",
        sign_in,
        "Sign in to the dashboard: the token of this request in exchange for a cookie.",
        Scope.READ,
        SignedIn,
        statuses=(400,),
    ),
    Route("GET", "/v1/session", known, "Whether the cookie of this request names a session.", None, Known),
    Route("DELETE", "/v1/session", sign_out, "Sign out: the cookie opens nothing any more.", Scope.READ, SignedOut),
)
