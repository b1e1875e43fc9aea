"""What a store of agents promises: who they are, what they may do, and that a token is told once and hidden.

Write a class that inherits `AgentsContract` and has a fixture `door`; its name begins with `Test`. How tokens end is
`token_life`.
"""

from __future__ import annotations

from typing import Protocol

from kranzq.backend.agents import Agents
from kranzq.errors import Conflict, KranzqError, UsageFault
from kranzq.model.agents import (
    AGENT_PREFIX,
    MOST_LIFE_MS,
    OPERATOR_PREFIX,
    Agent,
    Scope,
    agent_json,
    is_token,
    new_token,
    token_hash,
)
from kranzq.testing.store import refused

DAY_S, DAY_MS = 86_400.0, 86_400_000


class Door(Protocol):
    """What the suite works on: an empty store of one's own for each test, whose time passes when it is told to."""

    def open(self) -> Agents:
        """The agents of the store; each call may give others, as another process would have them."""
        ...

    def pass_time(self, seconds: float) -> None:
        """Let that time pass for every token."""
        ...

    def ask_for_work(self, name: str) -> None:
        """Ask for an item as somebody of that name; there is none."""
        ...


class AgentsContract:
    """The promises; `door` is a fixture of the subclass."""

    def test_a_token_opens_for_its_agent(self, door: Door) -> None:
        """What was added is found by its token, in another process as well, every part as it was."""
        agent, token = door.open().add("Ann é 漢", groups=["Backend", "ops"], scopes=[Scope.READ, Scope.WORK])

        assert is_token(token)
        assert door.open().by_token(token) == agent
        assert (agent.name, agent.groups) == ("Ann é 漢", frozenset({"Backend", "ops"}))
        assert agent.scopes == frozenset({Scope.READ, Scope.WORK})
        assert (agent.expires_at, agent.rotated_at, agent.expired) == (None, None, False)
        assert (agent.holder.name, agent.holder.uid) == ("Ann é 漢", agent.uid)
        assert door.open().all() == [agent]

    def test_every_token_is_another_one(self, door: Door) -> None:
        """Tokens, and uids where none is said, are never the same."""
        agents = door.open()
        made = [agents.add(f"agent {number}") for number in range(20)]

        assert len({token for _, token in made}) == len({agent.uid for agent, _ in made}) == 20
        assert all(agents.by_token(token) == agent for agent, token in made)

    def test_nothing_but_its_token_opens(self, door: Door) -> None:
        """Not a part of it, not what is kept of it, not a name; whatever is sent is answered and not a fault."""
        agents = door.open()
        agent, token = agents.add("ann")
        odd = [
            "",
            " ",
            "\n",
            token + "\n",
            token[:-1],
            token.upper(),
            f" {token}",
            "é" * 47,
            "\0",
            "\ud800",
            "x" * 10**6,
        ]

        for text in (*odd, token_hash(token), agent.uid, "ann", new_token(), new_token(OPERATOR_PREFIX), AGENT_PREFIX):
            assert agents.by_token(text) is None, text[:60]
        assert agents.by_tokens([*odd, token, new_token(), token]) == [None] * len(odd) + [agent, None, agent]
        assert agents.by_tokens([]) == []

    def test_a_token_is_shown_by_nothing(self, door: Door) -> None:
        """It is in no repr, no JSON and no error, and neither is its hash."""
        agents = door.open()
        issued = agents.add("ann")
        told = [repr(issued), str(issued), repr(agents.all()), repr(agent_json(issued.agent)), repr(agents)]
        for wrong in (
            lambda: agents.add("ann"),
            lambda: agents.add(issued.token),
            lambda: agents.add("bob", uid=issued.token),
            lambda: agents.add("bob", groups=[issued.token]),
            lambda: agents.rotate(issued.token),
            lambda: agents.revoke(issued.token),
            lambda: agents.add("bob", token=issued.token + "x"),
        ):
            try:
                wrong()
            except KranzqError as fault:
                told.append(f"{fault} {fault!r}")
            else:
                raise AssertionError("nothing was refused")

        for text in told:
            assert issued.token not in text
            assert token_hash(issued.token) not in text

    def test_a_name_is_one_agent_s_unless_another_is_meant(self, door: Door) -> None:
        """ASCII case makes no other name; a second agent of a name has to be asked for, and has a uid of its own."""
        agents = door.open()
        first = agents.add("Ann").agent
        with refused(Conflict):
            agents.add("aNN")
        assert agents.all() == [first]

        door.pass_time(1)
        (first,) = agents.all()
        second = agents.add("ann", another=True).agent
        assert agents.named("ANN") == [first, second]
        assert agents.named("an") == agents.named("") == []
        with refused(Conflict):
            agents.add("ann")

    def test_a_uid_is_one_agent_s(self, door: Door) -> None:
        """One's own uid is kept; a second one is refused, also with `another`, and so is what could be mistaken."""
        agents = door.open()
        agent = agents.add("ann", uid="u-1").agent
        for name, uid in (("bob", "u-1"), ("u-1", ""), ("bob", "ANN"), ("ann", "u-1")):
            for another in (False, True):
                with refused(Conflict):
                    agents.add(name, uid=uid, another=another)

        assert (agent.uid, agents.all()) == ("u-1", [agent])
        assert agents.add("same", uid="same").agent.uid == "same"

    def test_of_several_only_a_uid_names_one(self, door: Door) -> None:
        """A name that two agents have changes neither of them."""
        agents = door.open()
        (first, token), (second, _) = agents.add("ann"), agents.add("ann", another=True)
        for verb in (agents.rotate, agents.revoke):
            with refused(Conflict):
                verb("ann")

        assert known(agents, token) == first
        assert agents.revoke(second.uid) == second
        assert agents.rotate("ann").agent.uid == first.uid

    def test_names_that_cannot_be_shown_are_refused(self, door: Door) -> None:
        """One line of at most 200 bytes that looks like what it is, for names, uids and groups; nothing is changed."""
        agents = door.open()
        bad = ["", " ", "a\nb", "a\0b", "\x1b[31m", "a\u202eb", "a\u200bb", " a", "a ", "a\ud800", "é" * 101, "x" * 201]
        for text in (*bad, new_token(), AGENT_PREFIX):
            with refused(UsageFault):
                agents.add(text)
            with refused(UsageFault):
                agents.add("ann", groups=["g", text])
            if text:
                with refused(UsageFault):
                    agents.add("ann", uid=text)
        for life in (-1, MOST_LIFE_MS + 1):
            with refused(UsageFault):
                agents.add("ann", expires_ms=life)
        with refused(UsageFault):
            agents.add("ann", scopes=[])
        with refused(UsageFault):
            agents.add("ann", groups=[str(number) for number in range(65)])
        for text in ("a\0b", "\ud800", "x" * 201):
            for verb in (agents.rotate, agents.revoke, agents.named, agents.is_seen):
                with refused(UsageFault):
                    verb(text)

        assert agents.all() == []
        assert agents.add("é" * 100, groups=["x" * 200], uid="y" * 200).agent.name == "é" * 100

    def test_agents_are_listed_by_name(self, door: Door) -> None:
        """Whatever its case, then by when they came."""
        agents = door.open()
        for name in ("bob", "Zoe", "Ann", "carl"):
            agents.add(name)
            door.pass_time(1)
        agents.add("BOB", another=True)

        assert [one.name for one in agents.all()] == ["Ann", "bob", "BOB", "carl", "Zoe"]

    def test_who_has_asked_for_work_was_seen(self, door: Door) -> None:
        """Whether with a token or without, in any case of the name; to be added is not to be seen."""
        agents = door.open()
        agents.add("bob")
        door.ask_for_work("Ann")

        assert [agents.is_seen(name) for name in ("ann", "ANN", "an", "bob", "")] == [True, True, False, False, False]

    def test_scopes_include_those_below(self, door: Door) -> None:
        """To work is to look as well; to operate is both."""
        agents = door.open()
        made = {scope: known(agents, agents.add(scope.value, scopes=[scope]).token) for scope in Scope}
        may = {scope: [one for one in Scope if agent.may(one)] for scope, agent in made.items()}

        assert may == {
            Scope.READ: [Scope.READ],
            Scope.WORK: [Scope.READ, Scope.WORK],
            Scope.OPERATE: [Scope.READ, Scope.WORK, Scope.OPERATE],
        }

    def test_groups_are_cut_to_one_s_own(self, door: Door) -> None:
        """Who asks for groups gets those of its own among them; who asks for none gets all of its own."""
        agent = door.open().add("ann", groups=["Ops", "web"]).agent

        assert agent.groups_of() == {"Ops", "web"}
        assert agent.groups_of(["OPS", "admin"]) == {"Ops"}
        assert agent.groups_of(["admin"]) == frozenset()


def known(agents: Agents, token: str) -> Agent:
    """Whose token that is; it must be somebody's."""
    agent = agents.by_token(token)
    assert agent is not None
    return agent
