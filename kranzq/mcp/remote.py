"""An agent that works on a server's stores: who it is, and in which groups, is known by its token."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from kranzq.backend import Wanted
from kranzq.client.identity_asks import resolve
from kranzq.client.remote import RemoteStore
from kranzq.client.remote_missions import RemoteMissions
from kranzq.client.sending import Client
from kranzq.errors import Conflict, Refused
from kranzq.mcp.caller import Here, Json, Missions
from kranzq.model.claim import Holder
from kranzq.model.frozen import frozen
from kranzq.model.work import ItemClaim, folded


@frozen
class RemoteCaller:
    """An agent somewhere else. Paths are still those of its own disk."""

    here: Here
    client: Client
    remote: RemoteStore

    @property
    def missions(self) -> Missions:
        """Those of the checkout in which the server was started."""
        return MissionsElsewhere(self.client)

    def store(self) -> RemoteStore:
        """The server's."""
        return self.remote

    def holder(self) -> Holder:
        """Whom the token names. Raises Refused where it names no agent."""
        me = self.remote.me()
        if not me.holder.name:
            raise Refused(
                f"The server {self.client.address} knows you as its operator, who is no agent and holds nothing.",
                "A person should give you the token of an agent: KRANZQ_TOKEN_FILE, from kranzq agent add NAME",
            )
        return me.holder

    def groups(self, asked: Collection[str]) -> frozenset[str]:
        """Those that are asked for, which must be the token's; the server takes none for all of them."""
        own = self.remote.me().groups
        known = {folded(name) for name in own}
        if foreign := sorted(name for name in asked if folded(name) not in known):
            raise Refused(
                f"You are in no group {foreign[0][:100]!r}; yours are: {', '.join(sorted(own)) or 'none'}.",
                "Leave groups out to claim for all of yours. The operator of the server gives you more.",
            )
        return frozenset(asked)

    def claim(self, wanted: Wanted, lease_ms: int | None, request_id: str, wait_s: float) -> ItemClaim | None:
        """Claim; the server waits."""
        return self.remote.claim(self.holder(), wanted, lease_ms=lease_ms, request_id=request_id, wait_s=wait_s)

    def uid_of(self, agent: str) -> str:
        """The uid of the one agent of that name, as the seed's tool looks it up. Raises Conflict for several."""
        if not agent.strip():
            return ""
        found = self.client.send(resolve(agent))
        if found["resolution"] == "ambiguous":
            uids = ", ".join(str(one["uid"]) for one in found["candidates"])
            raise Conflict(
                f"Several agents are called {agent[:100]!r}; nothing was enqueued.",
                f"Say which one with target_agent_uid: {uids}",
            )
        return str(found["uid"]) if found["resolution"] == "one" else ""

    def close(self) -> None:
        """Let go of connections."""
        self.client.close()


class MissionsElsewhere(RemoteMissions):
    """A server's missions, with the words of a tool."""

    def enqueue(self, asked: Mapping[str, Any]) -> Json:
        """The texts of files travel as texts."""
        files = {name: content.decode() for name, content in asked.get("files", {}).items()}
        return super().enqueue({**asked, "files": files})
