"""One of the agents that storm a server: calls the verbs of `/v1/work` at random, with the standard library alone.

    python -I -S tests/races/http_agent.py PORT TOKEN_FILE FOLDER NAME PAUSE_S

It runs until it is killed. A call whose answer was lost is sent again until there is one, as a client may that shows an
id, a request or a fence. What it writes is for `tests.history_checker`.
"""

from __future__ import annotations

import http.client
import json
import os
import random
import sys
import time
from typing import Any

LEASE_MS = 4000
MOST_HELD = 6
OK, UNKNOWN, LOST, LATER = 200, 404, 409, 503


class Agent:
    """One agent with one connection."""

    def __init__(self, port: int, token: str, folder: str, name: str) -> None:
        self.name, self.chance = name, random.Random(f"{name} {os.getpid()}")
        self._port, self._headers = port, {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}
        self._fd = os.open(f"{folder}/{name}-{os.getpid()}.jsonl", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        self._connection: http.client.HTTPConnection | None = None
        self.made = 0
        self.held: list[tuple[str, int]] = []
        self.mine: list[str] = []

    def run(self, pause_s: float) -> None:
        """Call one verb after another, with pauses as of somebody who works."""
        verbs = {
            self.enqueue: 10,
            self.claim: 12,
            self.wait: 2,
            self.heartbeat: 8,
            self.finish: 8,
            self.release: 2,
            self.cancel: 1,
            self.stale: 1,
            self.page: 1,
        }
        while True:
            [verb] = self.chance.choices(list(verbs), list(verbs.values()))
            verb()
            time.sleep(self.chance.expovariate(1 / pause_s))

    def enqueue(self) -> None:
        """One item, for anybody or for the group."""
        self.made += 1
        item = f"{self.name}-{os.getpid()}-{self.made}"
        self.mine = [*self.mine[-20:], item]
        body = {
            "id": item,
            "title": "stormed",
            "payload": "x" * self.chance.choice([1, 10, 5000]),
            "target_group": self.chance.choice(["", "", "all"]),
            "priority": self.chance.randrange(3),
            "max_attempts": self.chance.choice([2, 1000, 1000]),
            "idempotency_key": self.chance.choice(["", f"key of {item}"]),
        }
        self.call("enqueue", {"items": [item]}, "POST", "/v1/work", body)

    def claim(self, wait_ms: int = 0) -> None:
        """One item, if there is one."""
        if len(self.held) > MOST_HELD:
            self.held.pop(0)  # forgotten: its lease lapses
        request = f"{self.name} {self.chance.random()}"
        body = {"lease_ms": LEASE_MS, "request_id": request, "wait_ms": wait_ms}
        asked = {"holder": self.name, "lease_ms": LEASE_MS, "request": request, "wait_ms": wait_ms}
        self.call("claim", asked, "POST", "/v1/work/claim", body)

    def wait(self) -> None:
        """One item, waited for."""
        self.claim(wait_ms=300)

    def heartbeat(self) -> None:
        """Renew something that was claimed, perhaps long ago."""
        if self.held:
            held = self.chance.choice(self.held)
            body = {"attempt": held[1], "lease_ms": LEASE_MS}
            self.call("heartbeat", self.shown(held) | {"lease_ms": LEASE_MS}, "POST", f"{path(held)}/heartbeat", body)

    def finish(self) -> None:
        """End something that was claimed."""
        if self.held:
            held = self.held.pop(self.chance.randrange(len(self.held)))
            outcome, state = self.chance.choice([("succeeded", "done"), ("failed", "failed")])
            result = f"{self.name} {self.chance.random()}"
            body = {"attempt": held[1], "outcome": outcome, "result": result}
            asked = self.shown(held) | {"state": state, "result": result}
            self.call("finish", asked, "POST", f"{path(held)}/complete", body)

    def release(self) -> None:
        """Give something back, at times as declined."""
        if self.held:
            held, declined = self.held.pop(), self.chance.random() < 0.4
            why = f"{self.name} {held[0]}"
            body = {"attempt": held[1], "reason": why, "declined": declined}
            asked = self.shown(held) | {"declined": declined, "result": why}
            self.call("release", asked, "POST", f"{path(held)}/release", body)

    def cancel(self) -> None:
        """Cancel an item of one's own, whoever has it."""
        if self.mine:
            item = self.chance.choice(self.mine)
            self.call(
                "cancel", {"item": item, "result": self.name}, "DELETE", f"/v1/work/{item}", {"reason": self.name}
            )

    def stale(self) -> None:
        """Show a fence that was never given."""
        if self.held:
            item, attempt = self.chance.choice(self.held)
            held = (item, attempt + 1)
            asked = self.shown(held) | {"state": "done", "result": "taken"}
            body = {"attempt": attempt + 1, "result": "taken"}
            self.call("finish", asked, "POST", f"{path(held)}/complete", body)

    def page(self) -> None:
        """Look around."""
        self.call("page", {}, "GET", "/v1/work?limit=20", None)

    def call(self, verb: str, asked: dict[str, Any], method: str, where: str, body: dict[str, Any] | None) -> None:
        """One call with a line before it and one after it."""
        self.say("call", verb=verb, asked=asked)
        status, answer = self.send(method, where, body)
        if status == OK:
            self.say("back", answer=self.understood(verb, answer))
        elif status in {LOST, UNKNOWN}:
            self.say("back", fault="ItemLost" if status == LOST else "NoSuchItem")
        else:
            self.say("back", fault=f"{status}: {answer}")

    def understood(self, verb: str, answer: dict[str, Any]) -> Any:
        """What the checker is told of an answer."""
        if verb == "claim":
            claims = [[answer["item"]["id"], answer["attempt"]]] if answer["claimed"] else []
            self.held += [(item, attempt) for item, attempt in claims]
            return claims
        return {"release": answer.get("state"), "cancel": answer.get("cancelled")}.get(verb)

    def send(self, method: str, where: str, body: dict[str, Any] | None) -> tuple[int, dict[str, Any]]:
        """Send it until there is an answer that counts."""
        text = json.dumps(body) if body is not None else None
        while True:
            try:
                if self._connection is None:
                    self._connection = http.client.HTTPConnection("127.0.0.1", self._port, timeout=30)
                self._connection.request(method, where, text, self._headers)
                response = self._connection.getresponse()
                answer = json.loads(response.read())
                if response.status != LATER:
                    return response.status, answer
            except (OSError, http.client.HTTPException):
                if self._connection is not None:
                    self._connection.close()
                self._connection = None
            time.sleep(self.chance.uniform(0.05, 0.3))

    def shown(self, held: tuple[str, int]) -> dict[str, Any]:
        """What a holder shows."""
        return {"item": held[0], "attempt": held[1], "holder": self.name}

    def say(self, phase: str, **facts: Any) -> None:
        """One line with the time."""
        line = json.dumps({"phase": phase, "at": time.clock_gettime_ns(time.CLOCK_BOOTTIME), **facts}) + "\n"
        os.write(self._fd, line.encode())


def path(held: tuple[str, int]) -> str:
    """The path of an item."""
    return f"/v1/work/{held[0]}"


def main() -> None:
    """Storm until killed."""
    port, token_file, folder, name, pause_s = sys.argv[1:]
    with open(token_file, encoding="ascii") as file:
        token = file.read().strip()
    Agent(int(port), token, folder, name).run(float(pause_s))


if __name__ == "__main__":
    main()
