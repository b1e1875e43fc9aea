"""Agents say what they work on and learn of each other, from the command line, in checkouts and outside of them."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from kranzq import work
from kranzq.cli.main import run
from kranzq.cli.say import clean, local_time
from kranzq.model.presence import MOST_CLAIMS, Subject
from tests.unit.cli.test_hostile_names import EVIL, assert_harmless

Ask = Callable[..., Any]
REPO = "example.org/o/r"


@pytest.fixture
def ask(checkout: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Ask:
    """Runs `kranzq presence …` in a checkout, whose origin others know; what it printed, as JSON where it is asked."""
    subprocess.run(["git", "-C", checkout, "remote", "add", "origin", "git@example.org:O/R.git"], check=True)

    def call(*words: str, agent: str = "", uid: str = "", code: int = 0, at: str | Path = "") -> Any:
        monkeypatch.setenv("KRANZQ_AGENT", agent)
        monkeypatch.setenv("KRANZQ_AGENT_UID", uid)
        capfd.readouterr()
        found = run(["-C", str(checkout / at), "presence", *words])
        said = capfd.readouterr()
        assert found == code, said
        return json.loads(said.out) if "--json" in words and not code else said.out + said.err

    return call


def subjects(answer: dict[str, Any]) -> list[Subject]:
    """What the claims of an answer are about."""
    keys = ("repo", "path", "absolute_path", "branch", "topic")
    return [Subject(*(one[key] for key in keys)) for one in answer["claims"]]


def test_two_agents_learn_of_each_other(ask: Ask) -> None:
    """Ann claims a folder; bob, who claims a file in it, is told at once; after her release nobody is named."""
    ask("claim", "src", "--note", "moving it", agent="ann")
    said = ask("claim", "src/x.py", agent="bob")
    assert 'ann claims path "src"; says "moving it"' in said
    assert [one["agent"] for one in ask("who", "src/x.py", "--json", agent="ann")["agents"]] == ["bob"]

    (released,) = ask("release", "--all", "--json", agent="ANN")["released"]
    assert (released["path"], released["repo"], released["note"]) == ("src", REPO, "moving it")
    assert ask("who", agent="bob").startswith("Nobody else says so.")


def test_a_claim_says_until_when_and_is_renewed(ask: Ask) -> None:
    """The same words again keep id and start; people see the end in their own zone."""
    first = ask("claim", "src", "--ttl", "10m", "--json")["claims"][0]
    again = ask("claim", "src/", "--ttl", "90", "--json")["claims"][0]

    assert (first["renewed"], again["renewed"]) == (False, True)
    assert (again["id"], again["created_at"]) == (first["id"], first["created_at"])
    assert first["expires_at"] - first["created_at"] == 600_000
    assert first["expires_at"] > again["expires_at"]
    shown = ask("list")
    assert local_time(again["expires_at"] / 1000) in shown
    assert again["id"] in shown


def test_who_asks_is_the_flag_then_the_variable_then_the_user(ask: Ask) -> None:
    """A uid counts before every name, and each is told of all others."""
    by_user = ask("claim", "a", "--json")["claims"][0]
    ask("claim", "a", agent="ann")
    ask("claim", "a", "--agent", "bob", agent="ann")
    ask("claim", "a", agent="carl", uid="u-1")

    assert by_user["agent"].endswith(f"@{os.uname().nodename}")
    names = {one["agent"] for one in ask("list", "--json")["claims"]}
    assert names == {"ann", "bob", "carl", by_user["agent"]}
    assert [one["agent"] for one in ask("list", "--mine", "--json", agent="renamed", uid="u-1")["claims"]] == ["carl"]
    assert len(ask("release", "--all", "--json", agent="renamed", uid="u-1")["released"]) == 1


def test_agents_under_one_name_are_told_why_they_see_nobody(ask: Ask) -> None:
    """Two agents of one user who gave themselves no names are one agent; a person sees what stands under that name."""
    ask("claim", "src")

    assert "Nobody else says so. Under your own name" in ask("who", "src")
    assert ask("who", "src", "--json")["agents"] == []
    assert ask("who", "docs") == "Nobody else says so.\n"


def test_only_ones_own_claims_are_released(ask: Ask) -> None:
    """Another's claim stays, and one is told whose it is; what has vanished is no fault; something must be named."""
    name = ask("claim", "a", "--json", agent="ann", uid="u-1")["claims"][0]["id"]
    for who in ({"agent": "bob"}, {"agent": "ann"}, {"agent": "ann", "uid": "u-2"}):
        assert "is a claim of ann, and stays" in ask("release", name, code=4, **who)
    assert len(ask("list", "--json")["claims"]) == 1

    assert "Nothing of yours" in ask("release", "no-such-claim")
    assert "Nothing of yours" in ask("release", "--all")
    ask("release", code=2)
    ask("release", name, "--all", code=2)
    assert len(ask("release", name, name, "--json", agent="x", uid="u-1")["released"]) == 1


def test_a_path_is_named_from_where_one_is(ask: Ask, checkout: Path, tmp_path: Path) -> None:
    """From a sub-directory, through a link, absolute, in another repository: each is one place."""
    (checkout / "src/deep").mkdir(parents=True)
    (checkout / "alias").symlink_to("src")
    places = [
        (("x.py",), "src/deep", Subject(REPO, "src/deep/x.py")),
        (("alias/deep/../y.py",), "", Subject(REPO, "src/y.py")),
        ((str(checkout / "alias"),), "", Subject(REPO, "src")),
        ((".",), "src", Subject(REPO, "src")),
        ((".",), "", Subject(REPO, "")),
        (("a/b", "--repo", "https://lab.example/x/y/z.git"), "src", Subject("lab.example/x/y/z", "a/b")),
        (("a", "--repo", "o/r"), "src", Subject(REPO, "src/a")),
        (("--repo", "o/r"), "src", Subject(REPO, "")),
        (("--branch", "HEAD"), "", Subject(REPO, None, None, "main")),
        (("--branch", "b", "--topic", "t"), "", Subject(REPO, None, None, "b", "t")),
        (("--topic", "t"), "", Subject(topic="t")),
        (("z",), tmp_path, Subject(None, None, str(tmp_path / "z"))),
        (("--branch", "b"), tmp_path, Subject(None, None, None, "b")),
    ]
    for words, at, expected in places:
        assert subjects(ask("claim", *words, "--json", at=at)) == [expected], words
    assert subjects(ask("claim", "one", "two", "--json")) == [Subject(REPO, "one"), Subject(REPO, "two")]


def test_questions_are_asked_from_where_one_is(ask: Ask, tmp_path: Path) -> None:
    """By path, branch, words and repository, in the checkout and outside of it."""
    ask("claim", "src", "--branch", "fix", "--topic", "Log in", agent="ann")

    def names(*words: str, at: str | Path = "") -> list[str]:
        return [one["agent"] for one in ask("who", *words, "--json", at=at)["agents"]]

    for words, at in (
        ((), ""),
        (("src/x",), ""),
        (("--branch", "fix"), ""),
        (("--query", "LOG"), ""),
        (("--repo", "o/r"), tmp_path),
        (("src", "--repo", "example.org/o/r"), tmp_path),
        (("--query", "in log src"), tmp_path),
        (("--branch", "fix"), tmp_path),
    ):
        assert names(*words, at=at) == ["ann"], words
    for words in (("srcs",), ("--branch", "Fix"), ("--query", "logs"), ("--repo", "lab.example/a/o/r")):
        assert names(*words) == [], words
    answer = ask("who", "src", "--json", agent="bob")
    assert answer["asked"] == {"repo": REPO, "path": "src", "absolute_path": None, "branch": None, "query": None}
    assert answer["caller"] == {"agent": "bob", "repo": REPO, "branch": "main"}
    assert len(ask("list", "--repo", "o/r", "--json")["claims"]) == 1
    assert ask("list", "--repo", "x/y", "--json")["claims"] == []


def test_what_cannot_be_meant_is_refused(ask: Ask, checkout: Path, tmp_path: Path) -> None:
    """Nothing named, no repository, a detached HEAD, an odd length of time, a password in a URL: 2, nothing is made."""
    subprocess.run(["git", "-C", checkout, "checkout", "-q", "--detach"], check=True)
    for words in (
        ("claim",),
        ("claim", ""),
        ("who", " "),
        ("claim", "--branch", "HEAD"),
        ("claim", "a", "--ttl", "soon"),
        ("claim", "--repo", "/srv/x"),
        ("claim", "../x", "--repo", "me/other"),
        ("claim", "a", "--url", "postgresql://u:secret@h/d"),
        ("claim", "a", "--url", "mysql://h/d"),
        ("claim", "a", "--agent", "x" * 300),
        ("who", "--query", "---"),
        ("who", "a", "--repo", "file:///x"),
    ):
        assert "secret" not in ask(*words, code=2)
    ask("who", at=tmp_path, code=2)
    assert not list(Path(os.environ["XDG_STATE_HOME"]).rglob("work.db"))


def test_looking_makes_no_database(ask: Ask, tmp_path: Path) -> None:
    """Where nobody ever claimed, whoever looks finds nobody and leaves nothing."""
    for words in (("who",), ("list",), ("release", "--all"), ("list", "--json"), ("who", "--json")):
        ask(*words, "--url", f"sqlite://{tmp_path}/none.db")
    assert not (tmp_path / "none.db").exists()
    assert not list(Path(os.environ["XDG_STATE_HOME"]).rglob("work.db"))


def test_texts_of_others_drive_no_terminal(ask: Ask) -> None:
    """Names, paths, branches, topics and notes are one harmless line wherever they are shown."""
    ask("claim", EVIL, "--branch", EVIL, "--topic", EVIL, "--note", EVIL, agent=EVIL)
    ask("claim", os.fsdecode(b"\xff\xfe"), "--note", "x" * 10_000)

    for words in (("list",), ("who", "--repo", "o/r"), ("claim", EVIL, "--topic", EVIL), ("who", EVIL)):
        assert_harmless(ask(*words))
    assert_harmless(ask("release", "--all", agent=EVIL))
    assert clean(EVIL) not in ask("list")


def test_an_agent_with_too_many_claims_is_told_what_to_do(ask: Ask) -> None:
    """4, what found room is told, and a release makes more."""
    with work.open() as store:
        for number in range(MOST_CLAIMS - 1):
            store.presence.put(work.NewPresence(work.Holder("ann"), Subject(topic=str(number))))

    said = ask("claim", "a", "b", agent="ann", code=4)
    assert 'path "a"' in said
    assert "kranzq presence release" in said
    assert 'path "b"' not in ask("list")
    ask("release", "--all", agent="ann")
    ask("claim", "a", agent="ann")
