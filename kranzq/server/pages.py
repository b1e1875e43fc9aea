"""The dashboard's own files, as they lie in the package: they hold nothing of anybody, so they need no token.

What the page may do is told to the browser with it: scripts and styles from here alone, none inside the page, no frame
around it, and no text that becomes markup. They are no part of the API, and stand in no OpenAPI document.
"""

from __future__ import annotations

import functools
import os

from starlette.responses import Response

from kranzq.server.errors import HttpFault
from kranzq.server.routing import Call, Route

FOLDER = os.path.join(os.path.dirname(os.path.abspath(__file__)), "dashboard")
KINDS = {
    ".html": "text/html; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
}
POLICY = {
    "default-src": "'none'",
    "script-src": "'self'",
    "style-src": "'self'",
    "img-src": "'self'",
    "connect-src": "'self'",
    "base-uri": "'none'",
    "form-action": "'none'",
    "frame-ancestors": "'none'",
    "require-trusted-types-for": "'script'",
    "trusted-types": "'none'",
}
HEADERS = {
    "content-security-policy": "; ".join(f"{name} {what}" for name, what in POLICY.items()),
    "x-frame-options": "DENY",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "permissions-policy": "camera=(), geolocation=(), microphone=(), payment=(), usb=()",
}


def index(_: Call) -> object:
    """The page."""
    return _answer("index.html")


def part(call: Call) -> object:
    """One of its parts."""
    return _answer(call.path["file"])


def _answer(name: str) -> Response:
    found = files().get(name)
    if found is None:
        raise HttpFault(404, "not_found", "The dashboard has no such file.", "Begin at /")
    return Response(found, 200, HEADERS | {"content-type": KINDS[os.path.splitext(name)[1]]})


@functools.cache
def files() -> dict[str, bytes]:
    """All of them by name. Read once: a page and its scripts stay of one version while the server runs."""
    return {name: _read(name) for name in sorted(os.listdir(FOLDER)) if os.path.splitext(name)[1] in KINDS}


def _read(name: str) -> bytes:
    with open(os.path.join(FOLDER, name), "rb") as file:
        return file.read()


ROUTES: tuple[Route, ...] = (
    Route("GET", "/", index, "The dashboard.", None, bytes, media="text/html", is_api=False),
    Route("GET", "/ui/{file}", part, "A part of the dashboard.", None, bytes, media="text/css", is_api=False),
)
