"""Agents that speak MCP: the official client in this process or over stdio, and a whole life of items between two."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from mcp import Client
from mcp.client.stdio import StdioServerParameters
from mcp.server.mcpserver import MCPServer
from mcp.types import TextContent

from kranzq.mcp.caller import Here
from kranzq.mcp.local import LocalCaller
from kranzq.mcp.serving import tool_server
from tests.laboratory import REPO

Mode = Literal["auto", "legacy"]


@dataclass(frozen=True)
class AgentOverMcp:
    """One agent. A tool that refuses gives its words; one that does not, its answer."""

    client: Client

    async def call(self, tool: str, /, **arguments: Any) -> dict[str, Any]:
        """The answer of a tool that must not refuse."""
        done = await self.client.call_tool(tool, arguments)
        assert not done.is_error, done.content
        assert isinstance(done.structured_content, dict)
        return done.structured_content

    async def refused(self, tool: str, /, **arguments: Any) -> str:
        """The words of a tool that must refuse."""
        done = await self.client.call_tool(tool, arguments)
        assert done.is_error, done.structured_content
        (said,) = done.content
        assert isinstance(said, TextContent)
        return said.text


@contextlib.asynccontextmanager
async def near(
    where: Path, *, mode: Mode = "auto", command: bool = False, **environ: str
) -> AsyncIterator[AgentOverMcp]:
    """An agent whose server lives in this process."""
    caller = LocalCaller(Here(str(where), {**os.environ, **environ}), may_command=command)
    async with over(tool_server(caller), mode=mode) as agent:
        yield agent
    caller.close()


@contextlib.asynccontextmanager
async def over(server: MCPServer[Any] | StdioServerParameters, *, mode: Mode = "auto") -> AsyncIterator[AgentOverMcp]:
    """An agent that speaks to a server."""
    async with Client(server, mode=mode) as client:
        yield AgentOverMcp(client)


def stdio(where: Path, *words: str, **environ: str) -> StdioServerParameters:
    """How an agent's host starts `kranzq mcp` in a folder."""
    return StdioServerParameters(
        command=sys.executable,
        args=["-m", "kranzq", "-C", str(where), "mcp", *words],
        env={**os.environ, **environ},
        cwd=REPO,
    )


async def a_whole_life(ann: AgentOverMcp, bob: AgentOverMcp, path: str) -> None:
    """Enqueue, claim, heartbeat, a lost fence, reclaim, complete; presence, who. Ann and bob are two agents."""
    made = await ann.call("WorkEnqueue", title="look", payload="look at it", idempotency_key="one")
    again = await ann.call("WorkEnqueue", title="look", payload="look at it", idempotency_key="one")
    assert (made["created"], again["created"], again["id"]) == (True, False, made["id"])

    got = await ann.call("WorkClaim", lease_ms=60_000)
    mine = {"id": got["item"]["id"], "attempt": got["attempt"]}
    assert (mine, got["item"]["payload"]) == ({"id": made["id"], "attempt": 1}, "look at it")
    assert "WorkHeartbeat" in got["note"]
    assert (await bob.call("WorkClaim"))["claimed"] is False
    kept = await ann.call("WorkHeartbeat", **mine, lease_ms=1)  # over before anybody can look

    taken = await bob.call("WorkClaim", wait_ms=20_000)
    assert (kept["ok"], taken["item"]["id"], taken["attempt"]) == (True, made["id"], 2)
    assert "lost its lease" in taken["note"]
    assert "Stop working on it" in await ann.refused("WorkHeartbeat", **mine)
    assert "Stop working on it" in await ann.refused("WorkComplete", **mine, result="too late")
    assert "result is blank" in await bob.refused("WorkComplete", id=made["id"], attempt=2, result=" ")
    given = await bob.call("WorkRelease", id=made["id"], attempt=2, reason="needs more thought")
    assert given["state"] == "open"

    last = await ann.call("WorkClaim")
    assert '"needs more thought"' in last["note"]
    for _ in range(2):  # an answer that was lost costs nothing
        assert (await ann.call("WorkComplete", id=made["id"], attempt=3, result="all good"))["state"] == "done"
    (shown,) = (await bob.call("WorkList", id=made["id"]))["items"]
    assert (shown["state"], shown["result"]) == ("done", "all good")

    claim = await ann.call("ClaimWork", path=path, note="moving it")
    (found,) = (await bob.call("WhoIsWorkingOn", path=path, pr=7))["agents"]
    assert (found["agent"], "moving it" in found["matches"][0]["detail"]) == (claim["claim"]["agent"], True)
    assert (await bob.call("ReleaseWork", id=claim["claim"]["id"]))["released"] == []
    assert len((await ann.call("ReleaseWork"))["released"]) == 1
    assert (await bob.call("WhoIsWorkingOn", path=path))["agents"] == []
