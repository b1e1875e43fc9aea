"""Post one event to a webhook, signed, and leave: 0 taken, 3 refused, 4 not reachable.

A program of its own, run by path with the standard library alone; the courier gives it a time limit. What to post comes
on the standard input, so that a URL, which is often a secret, is in no argument list. One line on the standard output
says why it was not taken. Signed by the rules of Standard Webhooks, so that receivers can use a library:
HMAC-SHA256 over id, time and body. A redirect is not followed: it would carry the event to whomever the receiver names.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import http.client
import json
import os
import stat
import sys
import time
import urllib.parse

REFUSED, UNREACHABLE = 3, 4
TIMEOUT_S = 30.0
PREFIX = "whsec_"
_OTHERS = 0o077
_TAKEN, _ELSEWHERE = range(200, 300), range(300, 400)
_PASSING = {408, 425, 429, *range(500, 600)}


def main() -> int:
    """Post what the standard input says; the exit code."""
    order = json.load(sys.stdin)
    try:
        secret = secret_in(order["key"])
    except (OSError, ValueError) as fault:
        say(f"the key for signatures cannot be read: {fault}. Make another with: kranzq notify secret --new")
        return UNREACHABLE
    body = json.dumps(order["event"]).encode()
    try:
        status, reason = post(order["url"], body, headers(str(order["event"]["id"]), int(time.time()), body, secret))
    except (OSError, http.client.HTTPException, ValueError) as fault:
        say(f"it cannot be reached: {getattr(fault, 'strerror', None) or str(fault) or type(fault).__name__}")
        return UNREACHABLE
    if status in _TAKEN:
        return 0
    if status in _ELSEWHERE:
        say(f"it answered {status}, which sends us elsewhere; that is not followed. Configure where it should go")
        return UNREACHABLE
    say(f"it answered {status} {reason}")
    return UNREACHABLE if status in _PASSING else REFUSED


def say(why: str) -> None:
    """Why an event was not taken: one line for the courier."""
    sys.stdout.write(f"{why}\n")


def secret_in(path: str) -> bytes:
    """The secret of a key file. Raises OSError, and ValueError when others may read it or it is none."""
    fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK)
    try:
        seen = os.fstat(fd)
        if not stat.S_ISREG(seen.st_mode) or seen.st_uid != os.geteuid() or seen.st_mode & _OTHERS:
            raise ValueError(f"{path} is not a file that only you may read")
        text = os.read(fd, 4096).decode("ascii", "replace").strip()
    finally:
        os.close(fd)
    if not text.startswith(PREFIX):
        raise ValueError(f"{path} holds no key")
    return base64.b64decode(text.removeprefix(PREFIX), validate=True)


def headers(name: str, now: int, body: bytes, secret: bytes) -> dict[str, str]:
    """What goes with a body: its id, the time in seconds, and the signature over both and the body."""
    plain = name.encode("ascii", "backslashreplace").decode()  # a header takes nothing else
    signed = hmac.new(secret, f"{plain}.{now}.".encode() + body, hashlib.sha256).digest()
    return {
        "Content-Type": "application/json",
        "User-Agent": "kranzq",
        "webhook-id": plain,
        "webhook-timestamp": str(now),
        "webhook-signature": f"v1,{base64.b64encode(signed).decode()}",
    }


def post(url: str, body: bytes, given: dict[str, str]) -> tuple[int, str]:
    """One request; the answer's status and reason. No proxy, no redirect, nothing of the answer's body is read."""
    parts = urllib.parse.urlsplit(url)
    kind = http.client.HTTPSConnection if parts.scheme == "https" else http.client.HTTPConnection
    assert parts.hostname is not None
    connection = kind(parts.hostname, parts.port, timeout=TIMEOUT_S)
    try:
        connection.request("POST", urllib.parse.urlunsplit(("", "", parts.path or "/", parts.query, "")), body, given)
        answer = connection.getresponse()
        return answer.status, answer.reason[:100]
    finally:
        connection.close()


if __name__ == "__main__":
    raise SystemExit(main())
