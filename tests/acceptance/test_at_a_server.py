"""Agents and people at a server: the command line, the MCP tools and programs, each known by its token."""

from __future__ import annotations

import asyncio
import json
import subprocess
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import pytest

from kranzq import work
from kranzq.cli.main import run
from kranzq.client import AsyncClient, Client, RemoteStore
from kranzq.errors import ItemLost, NoSuchItem, Refused
from kranzq.mcp.caller import Here
from kranzq.mcp.remote import RemoteCaller
from kranzq.mcp.serving import tool_server
from kranzq.model.agents import Scope
from tests.laboratory import PATIENCE
from tests.mcp_agents import a_whole_life, over, stdio
from tests.servers import Served

pytestmark = pytest.mark.system("git")
Ask = Callable[..., Any]
T = TypeVar("T")


@dataclass(frozen=True)
class Place:
    """A server of a checkout, and files with the tokens of its agents."""

    server: Served
    folder: Path

    @property
    def url(self) -> str:
        """Its address on TCP."""
        return f"http://{self.server.address}"

    def token_file(self, name: str, **said: Any) -> Path:
        """The file of a new agent's token."""
        path = self.folder / f"{name}.token"
        path.touch(0o600)
        path.write_text(self.server.agent(name, **said) + "\n")
        return path


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    """One server for all tests; each test has agents and items of its own."""
    folder = tmp_path_factory.mktemp("s")
    checkout = folder / "checkout"
    checkout.mkdir()
    subprocess.run(["git", "init", "--quiet", "--initial-branch=main"], cwd=checkout, check=True)
    server = Served(folder, ("--listen", "127.0.0.1:0"), cwd=checkout)
    try:
        server.start()
        yield Place(server, folder)
    finally:
        server.kill()


@pytest.fixture
def ask(place: Place, checkout: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Ask:
    """Runs a verb at the server as an agent; what it printed, as JSON where it is asked for."""

    def call(*words: str, token: Path | None = None, code: int = 0, socket: bool = False) -> Any:
        monkeypatch.setenv("KRANZQ_TOKEN_FILE", str(token) if token is not None else "")
        monkeypatch.setenv("KRANZQ_SERVER", f"unix:{place.server.socket}" if socket else place.url)
        capfd.readouterr()
        found = run(["-C", str(checkout), *words])
        said = capfd.readouterr()
        assert found == code, said
        return json.loads(said.out) if "--json" in words and not code else said.out + said.err

    return call


def test_the_verbs_of_work_work_at_a_server(place: Place, ask: Ask) -> None:
    """Enqueue, claim for a group, heartbeat, release, complete; another agent's name and a lost fence are refused."""
    ann = place.token_file("cli-ann", groups=("cli",))
    bob = place.token_file("cli-bob", scopes=(Scope.OPERATE,))
    made = ask("work", "enqueue", "--title", "t", "--payload", "p", "--group", "cli", "--json", token=bob)
    assert (made["created"], made["item"]["created_by"]) == (True, "cli-bob")
    assert "nothing to claim" in ask("work", "claim", "--id", made["id"], token=bob, code=75)
    (got,) = ask("work", "claim", "--id", made["id"], "--wait", "5s", "--json", token=ann)["claimed"]
    fence = (made["id"], "--attempt", str(got["attempt"]))
    assert got["item"]["claimed_by"] == "cli-ann"

    assert ask("work", "heartbeat", *fence, "--json", token=ann)["item"]["state"] == "claimed"
    assert "knows you by your token as cli-ann" in ask("work", "release", *fence, "--agent", "x", token=ann, code=5)
    assert "is not yours any more" in ask("work", "complete", *fence, token=bob, code=4)
    assert "is done" in ask("work", "complete", *fence, "--result", "fine", token=ann)
    assert ask("work", "show", made["id"], "--json", token=ann)["attempts"][0]["ended"] == "done"
    assert ask("work", "list", "--state", "done", "--json", token=ann)["items"]
    assert ask("work", "stats", "--json", token=ann)["states"]["done"] >= 1
    assert "needs the scope" in ask("work", "recover", token=ann, code=5)
    assert "Nothing was overdue" in ask("work", "recover", token=bob)
    assert "knows no item none" in ask("work", "cancel", "none", token=bob, code=3)


def test_the_verbs_of_presence_work_at_a_server(place: Place, ask: Ask) -> None:
    """Paths are those of the caller's own checkout; who else works on them is found."""
    ann, bob = place.token_file("presence-ann"), place.token_file("presence-bob")
    (claim,) = ask("presence", "claim", "src", "--note", "moving it", "--json", token=ann)["claims"]
    assert (claim["agent"], claim["path"], claim["renewed"]) == ("presence-ann", "src", False)
    assert 'presence-ann claims path "src"; says "moving it"' in ask("presence", "who", "src/x.py", token=bob)
    assert [one["id"] for one in ask("presence", "list", "--mine", "--json", token=ann)["claims"]] == [claim["id"]]
    assert "stays" in ask("presence", "release", claim["id"], token=bob, code=4)
    assert "Released" in ask("presence", "release", "--all", token=ann)


def test_many_items_go_in_at_once(place: Place, ask: Ask, tmp_path: Path) -> None:
    """A batch is kept whole; the command of a worker is told of the server, and gets no token."""
    lines = tmp_path / "items"
    lines.write_text("".join(f'{{"title": "t", "payload": "p{n}", "kind": "batch"}}\n' for n in range(3)))
    ann = place.token_file("batch-ann")
    made = ask("work", "enqueue", "--batch", str(lines), "--json", token=ann)["items"]
    assert [one["created"] for one in made] == [True] * 3
    (one, two) = ask("work", "claim", "--kind", "batch", "--count", "2", "--json", token=ann)["claimed"]
    assert {one["item"]["payload"], two["item"]["payload"]} == {"p0", "p1"}

    told = tmp_path / "told"
    shell = f'cat > {told}; env | grep "^KRANZQ_" >> {told}'
    ask("work", "claim", "--kind", "batch", "--exec", "sh", "-c", shell, token=ann)
    assert told.read_text().startswith("p2")
    assert (f"KRANZQ_SERVER={place.url}" in told.read_text(), "TOKEN" in told.read_text()) == (True, False)
    assert ask("work", "show", made[2]["id"], "--json", token=ann)["item"]["state"] == "done"


def test_the_operator_of_a_socket_holds_nothing(place: Place, ask: Ask) -> None:
    """Without a token one is the operator there: who enqueues and looks, and is told what it takes to claim."""
    made = ask("work", "enqueue", "--title", "t", "--payload", "p", "--kind", "op", "--json", socket=True)
    assert made["item"]["created_by"] == ""
    said = ask("work", "claim", "--kind", "op", socket=True, code=5)
    assert "Only an agent may do this" in said
    assert "KRANZQ_TOKEN_FILE" in said, "what is typed next, not which header is sent"
    assert "is cancelled" in ask("work", "cancel", made["id"], socket=True)


@pytest.mark.parametrize(
    ("spoil", "code", "said"),
    [
        (lambda path: path.chmod(0o644), 5, "chmod 600"),
        (lambda path: path.write_text("\n"), 2, "is blank"),
        (lambda path: path.unlink(), 2, "There is no token file"),
        (lambda path: path.write_text("kqa_" + "x" * 43), 5, "takes no call without a token that it knows"),
        (lambda path: path.write_text("two words"), 2, "holds what no token does"),
    ],
    ids=["open to others", "blank", "missing", "unknown", "none"],
)
def test_what_is_wrong_with_a_token_is_said(
    place: Place, ask: Ask, spoil: Callable[[Path], object], code: int, said: str, request: pytest.FixtureRequest
) -> None:
    """Which file it is and what to type; never the token."""
    path = place.token_file(f"spoilt {request.node.callspec.id}")
    spoil(path)
    found = ask("work", "list", token=path, code=code)
    assert (said in found, "kqa_" in found) == (True, False)


def test_a_server_and_a_database_exclude_each_other(place: Place, ask: Ask) -> None:
    """A named database goes before the variable, and both named are a mistake."""
    assert "exclude each other" in ask("work", "list", "--url", "sqlite:///x/y", "--server", place.url, code=2)
    assert "The queue is empty" in ask("work", "list", "--url", f"sqlite://{place.folder}/none.db")
    assert "no address of a server" in ask("work", "list", "--server", "nonsense", code=2)


def test_agents_over_mcp_share_a_server(place: Place, checkout: Path) -> None:
    """A whole life of an item and a note: one agent over stdio, as its host starts it, one in this process."""
    bob = place.token_file("mcp-bob")
    ann = stdio(checkout, KRANZQ_SERVER=place.url, KRANZQ_TOKEN_FILE=str(place.token_file("mcp-ann")))
    client = Client(f"unix:{place.server.socket}", bob.read_text().strip())
    caller = RemoteCaller(Here(str(checkout), {}), client, RemoteStore(client))

    async def story() -> None:
        async with over(ann) as one, over(tool_server(caller), mode="legacy") as other:
            await a_whole_life(one, other, "src")

    asyncio.run(story())
    caller.close()


def test_tools_at_a_server_know_names_groups_and_missions(place: Place, checkout: Path) -> None:
    """A name becomes the uid of its one agent; several are told; missions are the server's, where the scope allows."""
    place.token_file("tools-bob")
    with work.open(place.server.url) as store:
        twins = [store.agents.add("tools-twin", another=True).agent.uid for _ in range(2)]
        uid = store.agents.named("tools-bob")[0].uid
    ann = Client(place.url, place.token_file("tools-ann", groups=("tools",)).read_text().strip())
    boss = Client(place.url, place.token_file("tools-boss", scopes=(Scope.OPERATE,)).read_text().strip())
    nobody = Client(f"unix:{place.server.socket}")
    callers = [RemoteCaller(Here(str(checkout), {}), one, RemoteStore(one)) for one in (ann, boss, nobody)]

    async def story() -> None:
        async with (
            over(tool_server(callers[0])) as agent,
            over(tool_server(callers[1])) as leader,
            over(tool_server(callers[2])) as anonymous,
        ):
            made = await agent.call("WorkEnqueue", title="t", payload="p", target_agent="TOOLS-BOB")
            (item,) = (await agent.call("WorkList", id=made["id"]))["items"]
            assert item["target_agent_uid"] == uid
            said = await agent.refused("WorkEnqueue", title="t", payload="p", target_agent="tools-twin")
            assert all(one in said for one in twins)
            unknown = await agent.call("WorkEnqueue", title="t", payload="p", target_agent="nobody-yet")
            assert unknown["created"] is True

            assert "yours are: tools." in await agent.refused("WorkClaim", groups=["others"])
            assert "no agent" in await anonymous.refused("WorkClaim")
            assert "needs the scope" in await agent.refused("MissionEnqueue", mission="m-tools")
            enqueued = await leader.call("MissionEnqueue", mission="m-tools", prompt="do it")
            assert enqueued["created"] is True
            assert (await agent.call("MissionStatus", mission="m-tools"))["state"] == "queued"
            assert (await agent.call("MissionStatus"))["queued"] == 1
            assert (await agent.call("MissionWhy", mission="m-tools"))["reasons"]
            assert "with MissionStatus." in await agent.refused("MissionWhy", mission="m-none")

    asyncio.run(story())
    for one in callers:
        one.close()


def test_a_program_on_a_loop_uses_the_same_verbs(place: Place) -> None:
    """Each verb of the async client answers as the store does, and refuses as it does."""
    token = place.token_file("loop-ann", groups=("loop",), scopes=(Scope.OPERATE,)).read_text().strip()

    async def story() -> None:
        async with AsyncClient(place.url, token) as client:
            me = await client.me()
            assert (me.holder.name, me.groups) == ("loop-ann", frozenset({"loop"}))
            new = work.NewItem("t", "p", kind="loop", target=work.Target(group="loop"))
            made = await client.enqueue(new)
            assert made.created
            assert [one.created for one in await client.enqueue_many([new, new])] == [True, True]
            claim = await client.claim(work.Wanted(kind="loop"), wait_s=5)
            assert claim is not None
            assert (claim.id, claim.holder) == (made.entry.id, me.holder)
            assert (await client.heartbeat(claim, 60_000) or 0) > claim.item.updated_at
            assert await client.release(claim, "not now", delay_ms=60_000) is work.ItemState.DELAYED
            with pytest.raises(ItemLost) as lost:
                await client.finish(claim)
            assert (lost.value.state, lost.value.cancelled) == ("delayed", None)
            rest = await client.claim_many(work.Wanted(kind="loop"), limit=9)
            ends = [work.Finish(one, result="done") for one in rest] + [work.Finish(claim)]
            told = await client.finish_many(ends)
            assert ([type(one) for one in told]) == [type(None), type(None), ItemLost]
            assert await client.cancel(made.entry.id, "enough") is True
            assert (await client.show(made.entry.id)).state is work.ItemState.CANCELLED
            assert [one.ended for one in await client.attempts(made.entry.id)] == ["released"]
            with pytest.raises(NoSuchItem):
                await client.show("none")
            assert (await client.page("done", limit=1)).items
            assert (await client.stats()).by_state["done"] >= 2
            assert (await client.unseen()) is not None
            assert await client.prune(86_400) == 0
            assert not await client.sweep()

            about = work.subject_of(path="src", repo="example.org/o/loop")
            put = await client.put_presence(work.NewPresence(me.holder, about, "moving"))
            assert put.claim in await client.live_presence()
            assert [one.facts.agent for one in await client.who(work.question_about(put.claim))] == ["loop-ann"]
            assert await client.release_presence(put.claim.id) == [put.claim]

    asyncio.run(story())


def test_who_is_named_must_be_whom_the_token_names(place: Place) -> None:
    """Nothing is sent in another's name; agents are not looked after over the network."""
    token = place.token_file("named-ann").read_text().strip()
    with RemoteStore(Client(place.url, token)) as store:
        for call in (
            lambda: store.claim(work.Holder("somebody else")),
            lambda: store.enqueue(work.NewItem("t", "p", created_by="somebody else")),
            lambda: store.presence.release(work.Holder("somebody else")),
            lambda: store.agents,
        ):
            with pytest.raises(Refused):
                call()
        assert store.claim(work.Holder("NAMED-ANN"), work.Wanted(kind="none of it")) is None


@pytest.mark.crash
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")  # httpx2 leaves the socket open
def test_a_holder_outlives_its_server(tmp_path_factory: pytest.TempPathFactory) -> None:
    """The server is killed in the middle of a life and started again: each call is carried out, once."""
    server = Served(tmp_path_factory.mktemp("k"))

    def killed_before(call: Callable[[], T]) -> T:
        """What a call gives that is made while the server is away."""
        server.kill()
        again = threading.Thread(target=server.start)
        again.start()
        try:
            return call()
        finally:
            again.join()

    try:
        server.start()
        client = Client(f"unix:{server.socket}", server.agent("ann"), patience_s=2 * PATIENCE)  # more than a start has
        with RemoteStore(client) as store:
            me = store.me().holder
            made = store.enqueue(work.NewItem("t", "p"))
            claim = killed_before(lambda: store.claim(me))
            assert claim is not None
            assert (claim.id, claim.attempt) == (made.entry.id, 1)
            killed_before(lambda: store.finish(claim, result="fine"))
            assert [one.ended for one in store.attempts(made.entry.id)] == ["done"]
    finally:
        server.kill()
