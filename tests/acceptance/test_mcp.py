"""`kranzq mcp` as an agent's host starts it: over stdio, with the official client and with bare lines of JSON."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any, Self

from tests.laboratory import PATIENCE, REPO
from tests.mcp_agents import a_whole_life, near, over, stdio

OLDER = "2025-06-18"


def test_a_whole_life_over_stdio(checkout: Path) -> None:
    """Two agents, each with a server of its own, share the queue and presence of one user."""

    async def story() -> None:
        ann = stdio(checkout, "--agent", "ann")
        async with over(ann) as one, near(checkout, mode="legacy", KRANZQ_AGENT="bob") as other:
            await a_whole_life(one, other, "src")

    asyncio.run(story())


def test_an_older_client_is_served_line_by_line(checkout: Path) -> None:
    """A client of an older protocol gets answers of that version, one line each, and nothing else on the output."""
    with Lines(checkout) as server:
        hello = server.ask(
            "initialize", protocolVersion=OLDER, capabilities={}, clientInfo={"name": "old", "version": "0"}
        )
        assert hello["protocolVersion"] == OLDER
        assert "WorkHeartbeat" in hello["instructions"]
        server.tell("notifications/initialized")
        assert len(server.ask("tools/list")["tools"]) == 13

        made = server.call("WorkEnqueue", title="t", payload="cut inside \ud83d")
        got = server.call("WorkClaim")
        assert (got["item"]["id"], got["attempt"], got["item"]["payload"]) == (made["id"], 1, "cut inside \ufffd")
        assert server.call("WorkHeartbeat", id=made["id"], attempt=1)["ok"] is True
        refused = server.ask("tools/call", name="WorkHeartbeat", arguments={"id": made["id"], "attempt": 2})
        assert (refused["isError"], "Stop working on it" in refused["content"][0]["text"]) == (True, True)
        assert server.call("WorkComplete", id=made["id"], attempt=1, result="done")["state"] == "done"

        server.send("tools/call", name="WorkClaim", arguments={"wait_ms": 60_000})
        server.ask("ping")  # and the input is closed in the middle of that wait: the server leaves at once
    assert (server.code, server.errors) == (0, "")
    assert [json.loads(line)["error"]["message"] for line in server.rest] == ["Connection closed"]


class Lines:
    """A server that is spoken to line by line; its block ends when its input is closed and it has gone."""

    def __init__(self, where: Path) -> None:
        argv = [sys.executable, "-m", "kranzq", "-C", str(where), "mcp"]
        self._process = subprocess.Popen(
            argv, cwd=REPO, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        self._number = 0
        self.code: int | None = None
        self.rest: list[str] = []
        self.errors = ""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        try:
            out, err = self._process.communicate(timeout=PATIENCE)
        finally:
            self._process.kill()
        self.code, self.rest, self.errors = self._process.returncode, out.splitlines(), err

    def call(self, tool: str, **arguments: Any) -> dict[str, Any]:
        """The answer of a tool."""
        done = self.ask("tools/call", name=tool, arguments=arguments)
        assert not done.get("isError"), done
        found = done["structuredContent"]
        assert isinstance(found, dict)
        return found

    def ask(self, method: str, **params: Any) -> dict[str, Any]:
        """The result of a request."""
        number = self.send(method, **params)
        assert self._process.stdout is not None
        for line in self._process.stdout:
            answer = json.loads(line)
            assert answer["jsonrpc"] == "2.0"
            if answer.get("id") == number:
                found = answer["result"]
                assert isinstance(found, dict)
                return found
        raise AssertionError(f"it ended: {self._process.stderr.read() if self._process.stderr else ''}")

    def send(self, method: str, **params: Any) -> int:
        """Ask, and do not wait; the number of the request."""
        self._number += 1
        self._write({"jsonrpc": "2.0", "id": self._number, "method": method, "params": params})
        return self._number

    def tell(self, method: str) -> None:
        """Say something that has no answer."""
        self._write({"jsonrpc": "2.0", "method": method})

    def _write(self, message: dict[str, Any]) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(message) + os.linesep)
        self._process.stdin.flush()
