"""Agents and their tokens as values: what a token opens, whom a name means, and that no token is ever shown."""

from __future__ import annotations

from dataclasses import replace

import pytest

from kranzq.errors import Conflict, NoSuchAgent
from kranzq.model.agents import (
    MOST_LIFE_MS,
    Agent,
    Issued,
    NewAgent,
    Scope,
    agent_json,
    check_life,
    name_taken,
    only_one,
    still_opens,
    token_to_issue,
)
from kranzq.model.claim import Holder
from kranzq.model.tokens import (
    AGENT_PREFIX,
    OPERATOR_PREFIX,
    has_token,
    is_token,
    new_token,
    token_hash,
    without_tokens,
)

TOKEN = AGENT_PREFIX + "x" * 43
ANN = Agent("u-1", "Ann", frozenset({"Builders", "b"}), frozenset({Scope.WORK}), 50, 10, None)


def test_each_scope_includes_those_before_it() -> None:
    """Read, work, operate."""
    assert [[one.includes(other) for other in Scope] for one in Scope] == [
        [True, False, False],
        [True, True, False],
        [True, True, True],
    ]
    assert [ANN.may(scope) for scope in Scope] == [True, True, False]
    assert not replace(ANN, scopes=frozenset()).may(Scope.READ)


def test_an_agent_takes_part_in_its_own_groups_only() -> None:
    """Those that are asked for, ignoring case; all when none is."""
    assert ANN.groups_of() == {"Builders", "b"}
    assert ANN.groups_of(["builders", "others"]) == {"Builders"}
    assert ANN.holder == Holder("Ann", uid="u-1")


def test_an_agent_as_json_has_no_token() -> None:
    """Groups and scopes are in order."""
    assert agent_json(replace(ANN, scopes=frozenset(Scope), rotated_at=20, expired=True)) == {
        "name": "Ann",
        "uid": "u-1",
        "groups": ["Builders", "b"],
        "scopes": ["read", "work", "operate"],
        "expires_at": 50,
        "created_at": 10,
        "rotated_at": 20,
        "expired": True,
    }
    assert repr(Issued(ANN, TOKEN)) == f"Issued(agent={ANN!r}, token=***)"


def test_a_new_agent_may_be_as_large_as_this() -> None:
    """The limits themselves are allowed."""
    made = NewAgent("n" * 200, frozenset(str(one) for one in range(64)), life_ms=MOST_LIFE_MS, uid="u")

    assert made.scopes == {Scope.WORK}
    assert NewAgent("a").uid == ""
    check_life(0)
    check_life(None)
    assert MOST_LIFE_MS == 315_360_000_000


def told(new: NewAgent, *there: Agent, another: bool = False) -> tuple[str, str] | None:
    """With what words a name is refused, or None."""
    try:
        name_taken(new, there, another=another)
    except Conflict as fault:
        return fault.sentence, fault.advice
    return None


def test_a_name_that_is_taken_is_refused() -> None:
    """By uid, by name, and where the name of one is the uid of the other."""
    assert told(NewAgent("bob", uid="u-1"), ANN) == (
        "An agent has the uid u-1 already: Ann. Nothing was changed.",
        "Say another.",
    )
    assert told(NewAgent("ann"), ANN) == (
        "There is an agent Ann already (uid u-1). Nothing was changed.",
        "A new token for it: kranzq agent rotate u-1   Another agent of that name: --another",
    )
    mixed = (
        (
            "Agent Ann (uid u-1) and the new one could be taken for each other: "
            "the name of one is the uid of the other. Nothing was changed."
        ),
        "Say another name or uid.",
    )
    assert told(NewAgent("u-1"), ANN) == mixed
    assert told(NewAgent("bob", uid="ann"), ANN) == mixed
    assert told(NewAgent("ann", uid="u-2"), ANN, another=True) is None
    assert told(NewAgent("bob", uid="u-2"), ANN) is None


def test_whom_a_name_means() -> None:
    """A uid first, wherever it stands, then a name without case; several of one name are told."""
    other = replace(ANN, uid="u-2", name="u-1x")
    twin = replace(ANN, uid="u-3", name="ann")
    assert only_one("u-2", [ANN, other]) is other
    assert only_one("ANN", [other, ANN]) is ANN
    with pytest.raises(NoSuchAgent):
        only_one("carl", [ANN])
    with pytest.raises(Conflict) as caught:
        only_one("ann", [ANN, other, twin])

    assert caught.value.sentence == "2 agents are named Ann: u-1, u-3."
    assert caught.value.advice == "Say the uid of the one you mean."


def test_a_token_that_would_be_over_is_not_given() -> None:
    """It says how to say how long."""
    still_opens(ANN)
    with pytest.raises(Conflict) as caught:
        still_opens(replace(ANN, expired=True))

    assert caught.value.sentence == (
        "The time of agent Ann is over, and a new token would be over too. Nothing was changed."
    )
    assert caught.value.advice == "Say how long it opens: kranzq agent rotate u-1 --expires 30d   (or: never)"


def test_a_token_is_known_wherever_it_stands() -> None:
    """And hidden there; its kind stays to be seen."""
    assert [is_token(TOKEN), is_token(TOKEN + "x"), is_token(TOKEN[:-1]), is_token("x" + TOKEN)] == [
        True,
        False,
        False,
        False,
    ]
    assert not is_token(TOKEN, OPERATOR_PREFIX)
    assert is_token(OPERATOR_PREFIX + "-" * 43, OPERATOR_PREFIX)
    assert has_token(f"see {TOKEN}!")
    assert not has_token(TOKEN[:-1])
    assert without_tokens(f"a {TOKEN} b {OPERATOR_PREFIX}{'y' * 43}") == "a kqa_*** b kqo_***"


def test_a_new_token_is_random_and_only_its_hash_is_kept() -> None:
    """256 bits; the hash is SHA-256, also of what no text should be."""
    made = {new_token() for _ in range(9)}
    assert len(made) == 9
    assert all(is_token(one) for one in made)
    assert is_token(new_token(OPERATOR_PREFIX), OPERATOR_PREFIX)
    assert token_hash("abc") == "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
    assert len(token_hash("\ud800")) == 64
    assert token_to_issue(TOKEN) == TOKEN
    assert is_token(token_to_issue(""))
