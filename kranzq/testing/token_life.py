"""What a store of agents promises of a token: it opens until it is rotated out, revoked or over, and not a moment more.

Write a class that inherits `TokenLifeContract` and has a fixture `door`; its name begins with `Test`.
"""

from __future__ import annotations

from kranzq.errors import Conflict, NoSuchAgent, UsageFault
from kranzq.model.agents import NEVER, OPERATOR_PREFIX, new_token
from kranzq.testing.agents import DAY_MS, DAY_S, Door, known
from kranzq.testing.store import refused, together


class TokenLifeContract:
    """The promises; `door` is a fixture of the subclass."""

    def test_an_expired_agent_keeps_its_name(self, door: Door) -> None:
        """It is listed, and another of its name is refused: else old items would go to whoever comes next."""
        agents = door.open()
        agents.add("ann", expires_ms=DAY_MS)
        door.pass_time(2 * DAY_S)

        with refused(Conflict):
            agents.add("ann")
        assert [one.expired for one in agents.named("ann")] == [True]

    def test_rotation_replaces_the_token_at_once(self, door: Door) -> None:
        """The old one opens nothing any more; the agent is the same, by name in any case, or by uid."""
        agents = door.open()
        agent, first = agents.add("Ann", groups=["g"], expires_ms=DAY_MS)
        changed, second = door.open().rotate("aNN")

        assert (agents.by_token(first), agents.by_token(second)) == (None, changed)
        assert (changed.uid, changed.groups, changed.expires_at) == (agent.uid, agent.groups, agent.expires_at)
        assert changed.rotated_at is not None
        third = agents.rotate(agent.uid).token
        assert (agents.by_token(second), known(agents, third).uid) == (None, agent.uid)

    def test_revocation_closes_at_once(self, door: Door) -> None:
        """Token and agent are gone, and the name is free."""
        agents = door.open()
        agent, token = agents.add("ann")

        assert door.open().revoke("ANN") == agent
        assert agents.by_token(token) is None
        assert agents.all() == []
        for name in ("ann", agent.uid):
            with refused(NoSuchAgent):
                agents.revoke(name)
            with refused(NoSuchAgent):
                agents.rotate(name)
        assert agents.add("ann").agent.uid != agent.uid

    def test_a_token_opens_until_its_end(self, door: Door) -> None:
        """Before it everything works, after it nothing; the agent is still listed, as expired."""
        agents = door.open()
        agent, token = agents.add("ann", expires_ms=DAY_MS)
        assert agent.expires_at == agent.created_at + DAY_MS
        door.pass_time(DAY_S - 60)
        assert known(agents, token).uid == agent.uid

        door.pass_time(120)
        assert agents.by_token(token) is None
        assert [(one.uid, one.expired) for one in agents.all()] == [(agent.uid, True)]

    def test_after_its_end_a_rotation_must_say_a_new_one(self, door: Door) -> None:
        """A token that is over before it is told would help nobody."""
        agents = door.open()
        agents.add("ann", expires_ms=DAY_MS)
        door.pass_time(2 * DAY_S)
        with refused(Conflict):
            agents.rotate("ann")

        changed, token = agents.rotate("ann", expires_ms=DAY_MS)
        assert (known(agents, token), changed.expired) == (changed, False)
        door.pass_time(DAY_S - 60)
        assert known(agents, token).uid == changed.uid
        door.pass_time(120)
        assert agents.by_token(token) is None

    def test_an_end_can_be_given_and_taken_away(self, door: Door) -> None:
        """By rotation, for there is no other change."""
        agents = door.open()
        agents.add("ann")
        agent, _ = agents.rotate("ann", expires_ms=DAY_MS)
        assert agent.expires_at == (agent.rotated_at or 0) + DAY_MS
        assert agents.rotate("ann", expires_ms=NEVER).agent.expires_at is None
        assert agents.add("bob", expires_ms=NEVER).agent.expires_at is None

    def test_a_token_that_was_put_somewhere_is_the_one(self, door: Door) -> None:
        """Whoever writes the token into a file first gives it along."""
        agents, first, second = door.open(), new_token(), new_token()

        assert agents.add("ann", token=first).token == first
        assert known(agents, first).name == "ann"
        assert agents.rotate("ann", token=second).token == second
        assert (agents.by_token(first), known(agents, second).name) == (None, "ann")
        for wrong in ("x", first[:-1], first + "\n", new_token(OPERATOR_PREFIX)):
            with refused(UsageFault):
                agents.add("bob", token=wrong)

    def test_of_those_who_add_a_name_at_once_one_does(self, door: Door) -> None:
        """The others are refused; the one token that was told opens."""
        for round_ in range(3):
            told, lost = list[str](), list[int]()

            def add(number: int, name: str = f"agent {round_}", told: list[str] = told, lost: list[int] = lost) -> None:
                try:
                    told.append(door.open().add(name).token)
                except Conflict:
                    lost.append(number)

            together(6, add)
            assert (len(told), len(lost)) == (1, 5)
            assert known(door.open(), told[0]).name == f"agent {round_}"

    def test_of_those_who_rotate_at_once_the_last_one_s_opens(self, door: Door) -> None:
        """All are told a token; exactly one of them opens afterwards."""
        agents, told = door.open(), list[str]()
        agents.add("ann")
        together(6, lambda _: told.append(door.open().rotate("ann").token))

        assert len(set(told)) == 6
        assert len([token for token in told if agents.by_token(token) is not None]) == 1
