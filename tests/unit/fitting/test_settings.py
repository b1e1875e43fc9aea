"""Fittings in JSON that others have laid out: all else stays byte for byte, and out again nothing has changed."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kranzq.errors import Conflict, UsageFault
from kranzq.fitting import json_text, settings
from kranzq.fitting.kinds import Mark, Wish, kind_named

CLAUDE, MCP = kind_named("claude"), kind_named("mcp")
BOTH = pytest.mark.parametrize("kind", [CLAUDE, MCP], ids=["claude", "mcp"])
MARK = Mark("1.2.3")
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=8,
)
GROUPS = st.lists(
    st.fixed_dictionaries(
        {"hooks": st.lists(st.fixed_dictionaries({"command": st.text(max_size=5)}), max_size=2)},
        optional={"matcher": st.just("Bash")},
    ),
    max_size=2,
)
SETTINGS = st.builds(
    lambda before, ours, after: before | ours | after,
    st.dictionaries(st.text(max_size=4), VALUES, max_size=2),
    st.fixed_dictionaries(
        {},
        optional={
            "hooks": st.fixed_dictionaries({}, optional={"Stop": GROUPS, "PostToolUse": GROUPS, "Other": GROUPS}),
            "mcpServers": st.dictionaries(st.sampled_from(["a", "b"]), VALUES, max_size=2),
        },
    ),
    st.dictionaries(st.text(max_size=4), VALUES, max_size=2),
)


@st.composite
def texts(draw: st.DrawFn) -> str:
    """Settings as somebody has laid them out, by a tool or by hand."""
    value = draw(SETTINGS)
    if draw(st.booleans()):
        end = draw(st.sampled_from(["", "\n", "\r\n", "\n\n"]))
        shown = json.dumps(value, indent=draw(st.sampled_from([None, 0, 2, 4, "\t"])), ensure_ascii=draw(st.booleans()))
        return (shown + end).replace("\n", draw(st.sampled_from(["\n", "\r\n"])))
    space = st.sampled_from(["", "", " ", "\n", "\n  ", "\r\n\t", "  \n"])
    return draw(space) + _by_hand(draw, value, space) + draw(space)


def _by_hand(draw: st.DrawFn, value: object, space: st.SearchStrategy[str]) -> str:
    if isinstance(value, dict):
        members = [
            f"{draw(space)}{json.dumps(key)}{draw(space)}:{draw(space)}{_by_hand(draw, one, space)}{draw(space)}"
            for key, one in value.items()
        ]
        return "{" + (",".join(members) or draw(space)) + "}"
    if isinstance(value, list):
        return "[" + (",".join(f"{draw(space)}{_by_hand(draw, one, space)}{draw(space)}" for one in value)) + "]"
    return json.dumps(value)


def put(text: str | None, kind: Any, wish: Wish | None = None, mark: Mark = MARK) -> str:
    """The settings with the fitting."""
    return settings.put(text, kind, wish or Wish(), mark, "settings.json")


def same(one: str, other: str) -> bool:
    """Whether two texts say the same; NaN is the same as itself."""
    return json.dumps(json.loads(one)) == json.dumps(json.loads(other))


@BOTH
@given(texts())
def test_out_again_the_settings_are_what_they_were(kind: Any, text: str) -> None:
    """Byte for byte: layout, order, numbers as they were written, and brackets that were empty."""
    assert settings.take(put(text, kind), kind, "settings.json") == text


@BOTH
@given(texts())
def test_in_there_nothing_of_others_is_lost(kind: Any, text: str) -> None:
    """What others have put there stands in the same order, and each of their lines is still there."""
    made = put(text, kind)
    old, new = json.loads(text), json.loads(made)

    assert list(new)[: len(old)] == list(old)
    assert all(same(json.dumps(new[key]), json.dumps(old[key])) for key in old.keys() - {"hooks", "mcpServers"})
    left = iter(made)
    assert all(sign in left for sign in text if not sign.isspace())
    if kind is MCP:
        assert new["mcpServers"]["kranzq"]["command"] == "kranzq"
    else:
        assert "kranzq guard" in new["hooks"]["Stop"][-1]["hooks"][0]["command"]
        assert new["hooks"]["PostToolUse"][-1]["matcher"] == "ExitPlanMode"


@BOTH
@given(texts())
def test_twice_in_is_once_in(kind: Any, text: str) -> None:
    """And what another version or another wish has put there is replaced."""
    once = put(text, kind)

    assert put(once, kind) == once
    other = put(text, kind, Wish(mission="x", command=("make",)) if kind is CLAUDE else Wish(agent="ann"), Mark("0.9"))
    assert other != once
    assert put(other, kind) == once


@BOTH
@pytest.mark.parametrize("text", [None, "{}", "{}\n", "{ }", '{"hooks": {}, "mcpServers": {}}', '{\n    "a": 1\n}\n'])
def test_a_file_that_was_made_for_it_goes_with_it(kind: Any, text: str | None) -> None:
    """One that was there before stays, even an empty one."""
    assert settings.take(put(text, kind), kind, "settings.json") == text


@BOTH
def test_what_somebody_added_since_stays(kind: Any) -> None:
    """The fitting goes, and with it only what was made for it and is empty."""
    made = json.loads(put(None, kind))
    made["mine"] = 1
    if kind is CLAUDE:
        made["hooks"]["Stop"].append({"hooks": [{"type": "command", "command": "mine"}]})
        made["hooks"]["PostToolUse"][0]["hooks"].append({"type": "command", "command": "mine"})
    left = settings.take(json.dumps(made, indent=2), kind, "settings.json")
    assert left is not None
    mine = {"type": "command", "command": "mine"}
    groups = {"PostToolUse": [{"matcher": "ExitPlanMode", "hooks": [mine]}], "Stop": [{"hooks": [mine]}]}

    assert json.loads(left) == ({"hooks": groups, "mine": 1} if kind is CLAUDE else {"mine": 1})


@BOTH
@pytest.mark.parametrize("start", [None, "{}", '{"hooks": {"Stop": [], "PostToolUse": []}}'])
def test_what_stands_behind_ours_does_not_move_it(kind: Any, start: str | None) -> None:
    """Putting it in again changes nothing, another wish changes ours alone, and out again only theirs is left."""
    once = put(start, kind)
    value = json.loads(once)
    if kind is CLAUDE:
        for event in ("PostToolUse", "Stop"):
            value["hooks"][event].append({"matcher": "Edit", "hooks": [{"type": "command", "command": "theirs"}]})
        wish = Wish(mission="other")
    else:
        value["mcpServers"]["theirs"] = {"command": "theirs"}
        wish = Wish(agent="ann")
    text = json.dumps(value, indent=2)

    assert put(text, kind) == text
    changed = put(text, kind, wish)
    assert changed != text
    assert put(changed, kind) == text
    assert settings.take(changed, kind, "f") == settings.take(text, kind, "f")
    if kind is CLAUDE:
        assert [len(groups) for groups in json.loads(changed)["hooks"].values()] == [2, 2]
        assert "theirs" in json.loads(changed)["hooks"]["Stop"][1]["hooks"][0]["command"]
        del value["hooks"]["PostToolUse"][1], value["hooks"]["Stop"][1]
    else:
        assert list(json.loads(changed)["mcpServers"]) == ["kranzq", "theirs"]
        del value["mcpServers"]["theirs"]
    left = settings.take(put(json.dumps(value, indent=2), kind), kind, "f")
    assert left is None if start is None else left is not None


def test_it_is_laid_out_as_the_rest_is() -> None:
    """Tabs among tabs, four spaces among four."""
    for indent in ("\t", "    "):
        text = json.dumps({"mcpServers": {"a": {"command": "b"}}}, indent=indent)
        ours = json.loads(put(text, MCP))
        assert put(text, MCP) == json.dumps(ours, indent=indent)


@BOTH
@pytest.mark.parametrize(
    ("text", "where"),
    [
        ('{\n  "a": 1,\n}', "line 3, column 1"),
        ("{\n// mine\n}", "line 2, column 1"),
        ("", "line 1, column 1"),
        ("\ufeff{}", "line 1, column 1"),
        ("[" * 100_000, "nested too deep"),
        ("[]", "no JSON object"),
        ('{"a": ' + "9" * 5000 + "}", "too long to be read"),
    ],
)
def test_what_is_no_json_object_is_refused_with_its_place(kind: Any, text: str, where: str) -> None:
    """Nothing is guessed in somebody's settings."""
    with pytest.raises(Conflict, match=where):
        put(text, kind)


@pytest.mark.parametrize(
    ("kind", "text", "what"),
    [
        (CLAUDE, '{"hooks": []}', "hooks is no JSON object"),
        (CLAUDE, '{"hooks": {"Stop": {}}}', "hooks.Stop is no JSON array"),
        (MCP, '{"mcpServers": 7}', "mcpServers is no JSON object"),
        (MCP, '{"mcpServers": {"kranzq": {"command": "mine"}}}', "already"),
    ],
)
def test_what_has_another_shape_is_refused(kind: Any, text: str, what: str) -> None:
    """It is somebody's mistake, or somebody's own entry; neither is written over."""
    with pytest.raises(Conflict, match=what):
        put(text, kind)


def test_a_wish_stands_in_its_mark() -> None:
    """So that a list can tell whether what is there is what would be put there."""
    wish = Wish("x", 0, "5m", missions_too=True, command=("make", "it's", "a\nline"))
    found = settings.mark_in(put(None, CLAUDE, wish), CLAUDE, "settings.json")

    assert found == Mark("1.2.3", ("file", "hooks", "PostToolUse"), wish)
    assert Wish.from_json(wish.to_json()) == wish
    for text in ("[]", "{", '{"mission": "a/b"}', '{"mission": 7, "command": "x", "priority": "1"}'):
        assert Wish.from_json(text) == Wish()


@pytest.mark.parametrize("word", ["a\0b", "kqa_" + "a" * 43])
def test_a_command_that_nobody_should_keep_is_refused(word: str) -> None:
    """No shell passes a NUL on, and a file of hooks is read by others."""
    with pytest.raises(UsageFault, match="of the command has a"):
        Wish(command=("x", word))


@pytest.mark.parametrize("agent", ["kqa_" + "a" * 43, "a\\u0000b", "ann"])
def test_whatever_stands_in_an_entry_of_ours_it_can_be_taken_out(agent: str) -> None:
    """Also what would be refused if it were asked for: a token put there is a reason to take it out."""
    made = put("{}", MCP, Wish(agent="me")).replace('"me"', f'"{agent}"')

    assert settings.mark_in(made, MCP, "f") is not None
    assert settings.take(made, MCP, "f") == "{}"
    assert settings.take(put(made, MCP), MCP, "f") == "{}"


@given(texts())
def test_every_value_is_found_where_it_stands(text: str) -> None:
    """The tree of a text says of each member what JSON says of it."""
    tree = json_text.read(text, "settings.json")

    for item in tree.items:
        assert item.key is not None
        assert same(text[item.node.start : item.node.end], json.dumps(json.loads(text)[item.key]))
