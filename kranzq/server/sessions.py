"""Sessions of the dashboard: a token that was shown once, in exchange for a cookie that a page cannot read.

A browser sends cookies by itself, also when another site's page makes it ask: so a request that is let in by one must
come from a page of this server. Sessions live in this process alone, and end with it; each request is proven by the
token behind its session, so one that was revoked or rotated out opens nothing from that moment on.
"""

from __future__ import annotations

import secrets
import threading
import time
from collections import Counter
from collections.abc import Callable
from typing import TYPE_CHECKING

from kranzq.model.frozen import frozen
from kranzq.model.tokens import token_hash
from kranzq.server.errors import HttpFault

if TYPE_CHECKING:
    from kranzq.server.routing import Sent
    from kranzq.server.service import Service

LIFE_S = 12 * 3600.0
"""A session ends so long after its sign-in, whatever happens in it."""
MOST = 1000
"""Sessions of one server; one more ends the oldest of the token that has most: nobody signs others out by his own."""
_SAFE = frozenset({"GET", "HEAD", "OPTIONS"})
_SECURE_PREFIX = "__Host-"
"""Browsers keep a cookie of such a name only if it came by TLS, for this very host."""


@frozen
class Session:
    """A sign-in: the token behind it, and when it ends by the monotonic clock. The repr hides the token."""

    token: str
    ends: float

    def __repr__(self) -> str:
        return f"Session(token=***, ends={self.ends!r})"


class Sessions:
    """All sessions of one server, by the hash of what the cookie says. May be shared by threads."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._open: dict[str, Session] = {}
        self._mutex = threading.Lock()

    def begin(self, token: str) -> str:
        """A new session for a token that opens; the secret that its cookie says."""
        secret = secrets.token_urlsafe(32)
        with self._mutex:
            if len(self._open) >= MOST:
                self._make_room()
            self._open[token_hash(secret)] = Session(token, self._clock() + LIFE_S)
        return secret

    def find(self, secret: str) -> Session | None:
        """The session of a cookie; None for one that is unknown, has ended, or is over."""
        key = token_hash(secret)
        with self._mutex:
            found = self._open.get(key)
            if found is not None and found.ends <= self._clock():
                del self._open[key]
                return None
            return found

    def end(self, secret: str) -> None:
        """Sign out: that cookie opens nothing any more."""
        with self._mutex:
            self._open.pop(token_hash(secret), None)

    def _make_room(self) -> None:
        now, count = self._clock(), Counter(one.token for one in self._open.values())
        most = max(count.values())
        over = [key for key, one in self._open.items() if one.ends <= now]
        for key in over or [next(key for key, one in self._open.items() if count[one.token] == most)]:
            del self._open[key]

    def proving(self, secret: str, prove: Callable[[], None], closed: Callable[[], Exception]) -> Callable[[], None]:
        """As `prove`, which asks about the token, and the session must not have ended meanwhile either."""

        def both() -> None:
            if self.find(secret) is None:
                raise closed()
            prove()

        return both


def sessions(_: Service) -> Sessions:
    """Those of one server; for `Service.shared`."""
    return Sessions()


def cookie_name(host: str, *, secure: bool) -> str:
    """By the port, since browsers give the cookies of one port to every other one of the same host."""
    port = host.rpartition(":")[2]
    return f"{_SECURE_PREFIX if secure else ''}kranzq-{port if port.isascii() and port.isdigit() else 'web'}"


def secret_of(sent: Sent) -> str | None:
    """What the cookie of this server says; None when there is none, or when it is not clear which one is meant."""
    host = (sent.get("host") or ("",))[0]
    pairs = [part.strip().partition("=") for line in sent.get("cookie", ()) for part in line.split(";")]
    for wanted in (cookie_name(host, secure=True), cookie_name(host, secure=False)):
        found = {value for name, _, value in pairs if name == wanted and value}
        if found:
            return found.pop() if len(found) == 1 else None
    return None


def set_cookie(sent: Sent, secret: str | None) -> str:
    """The header that gives the browser its cookie, or takes it away (None). Only by TLS where the page came by it."""
    host = (sent.get("host") or ("",))[0]
    secure = (sent.get("origin") or ("",))[0].startswith("https://")
    value = f"{cookie_name(host, secure=secure)}={secret or ''}; Path=/; HttpOnly; SameSite=Strict"
    return value + ("; Secure" if secure else "") + ("" if secret else "; Max-Age=0")


def check_same_origin(method: str, sent: Sent) -> None:
    """Refuse what a page of another origin made the browser send with its cookie. Raises HttpFault (403).

    Another port of the same host is another origin, though its pages send the cookie. What changes something must say
    where it comes from.
    """
    sites, origins, hosts = (sent.get(name, ()) for name in ("sec-fetch-site", "origin", "host"))
    own = {f"{scheme}://{host}" for scheme in ("http", "https") for host in hosts}
    allowed = {"same-origin", "none"} if method in _SAFE else {"same-origin"}
    if any(one not in allowed for one in sites) or any(one not in own for one in origins):
        raise _foreign()
    if method not in _SAFE and not sites and not origins:
        raise _foreign()


def _foreign() -> HttpFault:
    return HttpFault(
        403,
        "origin",
        "A session opens this server's own pages only.",
        "Programs send a token: Authorization: Bearer TOKEN",
    )
