"""A receiver of webhooks for tests: keeps what it was sent, and answers as it is told."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


@dataclass
class Receiver:
    """What came, and what is answered: a status for each path, 204 for others."""

    port: int = 0
    answers: dict[str, int] = field(default_factory=dict)
    headers: dict[str, str] = field(default_factory=dict)
    """What goes with each answer."""
    came: list[tuple[str, dict[str, str], bytes]] = field(default_factory=list)
    may_answer: threading.Event = field(default_factory=threading.Event)

    def url(self, path: str = "/x") -> str:
        """Where to post to."""
        return f"http://127.0.0.1:{self.port}{path}"

    @property
    def events(self) -> list[dict[str, Any]]:
        """The events that came, in order, also those in summaries and those that were not taken."""
        told = [json.loads(body) for _, _, body in self.came]
        return [event for one in told for event in one.get("events", [one])]


@contextmanager
def receiver() -> Iterator[Receiver]:
    """A receiver on a free port of this machine."""
    one = Receiver()
    one.may_answer.set()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            one.came.append((self.path, {name.lower(): value for name, value in self.headers.items()}, body))
            one.may_answer.wait()
            self.send_response(one.answers.get(self.path, 204))
            for name, value in one.headers.items():
                self.send_header(name, value)
            self.end_headers()

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the library's name
            del format, args

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    one.port = server.server_address[1]
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield one
    finally:
        one.may_answer.set()
        server.shutdown()
        thread.join()
        server.server_close()


def is_signed(headers: dict[str, str], body: bytes, key: str) -> bool:
    """Whether a request bears the signature of a key, by the rules of Standard Webhooks."""
    secret = base64.b64decode(key.removeprefix("whsec_"))
    text = f"{headers['webhook-id']}.{headers['webhook-timestamp']}.".encode() + body
    wanted = base64.b64encode(hmac.new(secret, text, hashlib.sha256).digest()).decode()
    return f"v1,{wanted}" in headers["webhook-signature"].split()
