"""A client of live events for tests: it reads in a thread, or does not, and can be cut at any time."""

from __future__ import annotations

import contextlib
import http.client
import json
import socket
import threading
from dataclasses import dataclass, field
from typing import Any, Self

from tests.laboratory import PATIENCE, wait_for
from tests.servers import Served


@dataclass(frozen=True)
class Told:
    """One event as it came."""

    kind: str
    id: str
    data: Any


@dataclass
class Stream:
    """One open stream. `reads`: whether anybody takes what comes."""

    served: Served
    last: str | None = None
    reads: bool = True
    events: list[Told] = field(default_factory=list)
    retries: list[str] = field(default_factory=list)
    is_over: bool = False

    def __enter__(self) -> Self:
        """Open it."""
        self._connection = self.served.connection()
        self._connection.request("GET", "/v1/events", headers={"Last-Event-ID": self.last} if self.last else {})
        self._answer = self._connection.getresponse()
        assert self._answer.status == 200, self._answer.read()
        self.type = self._answer.getheader("content-type")
        if self.reads:
            self._thread = threading.Thread(target=self._read, daemon=True)
            self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        """Hang up."""
        with contextlib.suppress(OSError):
            self._connection.sock.shutdown(socket.SHUT_RDWR)
        if self.reads:
            self._thread.join(PATIENCE)
        self._answer.close()
        self._connection.close()

    @property
    def place(self) -> str:
        """The id of the last event that has one."""
        return next(one.id for one in reversed(self.events) if one.id)

    def of(self, kind: str) -> list[Any]:
        """What was told of one kind."""
        return [one.data for one in self.events if one.kind == kind]

    def until(self, kind: str, many: int = 1) -> list[Any]:
        """Wait for so many events of a kind; all of them."""
        wait_for(lambda: len(self.of(kind)) >= many or self.is_over, f"{many} events {kind}")
        assert len(self.of(kind)) >= many, f"the stream has ended: {self.events[-3:]}"
        return self.of(kind)

    def item_states(self) -> list[tuple[str, str]]:
        """Which items were told, and in which state."""
        return [(one["id"], one["state"]) for one in self.of("item")]

    def is_cut(self) -> bool:
        """For one that does not read: whether the server has cut it. Takes what had come before."""
        self._connection.sock.settimeout(0.05)
        try:
            while self._connection.sock.recv(1 << 20):
                pass
        except TimeoutError:
            return False
        except OSError:
            pass
        return True

    def _read(self) -> None:
        lines: dict[str, str] = {}
        with contextlib.suppress(OSError, ValueError, http.client.HTTPException):
            while raw := self._answer.readline():
                text = raw.decode("ascii").rstrip("\n")
                if text.startswith(":"):
                    continue
                if text:
                    name, _, value = text.partition(": ")
                    assert name in {"id", "retry", "event", "data"}, text
                    assert name not in lines, text
                    lines[name] = value
                    continue
                if "retry" in lines:
                    self.retries.append(lines["retry"])
                if "event" in lines:
                    self.events.append(Told(lines["event"], lines.get("id", ""), json.loads(lines["data"])))
                lines = {}
        self.is_over = True
