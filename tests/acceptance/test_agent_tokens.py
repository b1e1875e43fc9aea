"""The operator gives agents tokens from the command line: shown once, in a file, changed, taken away, never leaked."""

from __future__ import annotations

import json
import os
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from kranzq import work
from kranzq.backends.sql.sqlite import SqliteDatabase
from kranzq.backends.sql.statements import migrations
from kranzq.cli.main import run
from kranzq.cli.say import local_time
from kranzq.model.tokens import OPERATOR_PREFIX, is_token, new_token, token_hash
from tests.laboratory import REPO

Ask = Callable[..., Any]
TOKEN = "kqa_" + "x" * 43


@pytest.fixture
def ask(isolated: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> Ask:
    """Runs `kranzq agent …`; what it printed, as JSON where that is asked for, else both streams together."""
    del isolated

    def call(*words: str, code: int = 0) -> Any:
        capfd.readouterr()
        found = run(["-C", str(tmp_path), "agent", *words])
        said = capfd.readouterr()
        assert found == code, said
        return json.loads(said.out) if "--json" in words and not code else said.out + said.err

    return call


def opens(token: str) -> bool:
    """Whether the token is somebody's."""
    with work.open() as store:
        return store.agents.by_token(token) is not None


def test_a_token_is_shown_once(ask: Ask) -> None:
    """By the verb that makes it; no later verb knows it, and the database does not have it."""
    said = ask("add", "ann", "--group", "web,ops", "--scope", "read", "--scope", "work")
    (token,) = [word for word in said.split() if word.startswith("kqa_")]
    assert opens(token)
    assert "groups   ops, web" in said
    assert "scopes   read, work" in said

    for later in (ask("list"), json.dumps(ask("list", "--json")), ask("add", "ann", code=4)):
        assert token not in later
        assert token_hash(token) not in later
    with sqlite3.connect(os.environ["XDG_STATE_HOME"] + "/kranzq/work.db") as connection:
        assert token not in "\n".join(connection.iterdump())


def test_for_programs_it_stands_alone(ask: Ask) -> None:
    """`--quiet` is for a pipe into a secret store, `--json` for a program."""
    quiet, made = ask("add", "ann", "--quiet"), ask("add", "bob", "--json", "--expires", "90m")

    assert is_token(quiet.removesuffix("\n"))
    assert is_token(made["token"])
    agent = made["agent"]
    assert (agent["name"], agent["scopes"], agent["groups"], agent["rotated_at"]) == ("bob", ["work"], [], None)
    assert agent["expires_at"] - agent["created_at"] == 90 * 60_000
    assert ask("list", "--json")["agents"][1] == agent


def test_the_list_tells_what_matters(ask: Ask) -> None:
    """Who has a token, for what, until when; also who had one."""
    assert ask("list").startswith("No agent has a token.")
    assert not os.path.exists(os.environ["XDG_STATE_HOME"])
    ann = ask("add", "ann", "--json", "--group", "web")["agent"]
    bob = ask("add", "bob", "--json", "--expires", "1h")["agent"]
    with sqlite3.connect(os.environ["XDG_STATE_HOME"] + "/kranzq/work.db") as connection:
        connection.execute("update kranzq_agents set expires_at = 1000 where name = 'bob'")
    _, first, second = ask("list").splitlines()

    assert first.split() == ["ann", ann["uid"], "work", "web", "never", *local_time(ann["created_at"] / 1000).split()]
    assert second.startswith(f"bob   {bob['uid']}  work    -       {local_time(1)} (over)")


def test_a_token_goes_into_a_file_unseen(ask: Ask, tmp_path: Path) -> None:
    """Of mode 600, relative to -C; the old one opens nothing once the new one is there."""
    said = ask("add", "ann", "--token-file", "ann.token")
    first = (tmp_path / "ann.token").read_text().strip()
    assert opens(first)
    assert "kqa_" not in said
    assert str(tmp_path / "ann.token") in said

    assert ask("rotate", "ANN", "--token-file", "ann.token", "--quiet") == ""
    second = (tmp_path / "ann.token").read_text().strip()
    assert (opens(first), opens(second)) == (False, True)
    assert ask("rotate", "ann", "--token-file", "ann.token", "--json")["token_file"] == str(tmp_path / "ann.token")
    assert (tmp_path / "ann.token").stat().st_mode & 0o777 == 0o600


def test_a_refusal_leaves_file_and_agents_alone(ask: Ask, tmp_path: Path) -> None:
    """A name that is taken, an agent that is not there, a file that is something else, a folder that is not there."""
    ask("add", "ann", "--token-file", "ann.token")
    (tmp_path / "notes").write_text("mine")
    kept = (tmp_path / "ann.token").read_text()
    before, names = ask("list", "--json"), sorted(os.listdir(tmp_path))

    assert "kranzq agent rotate" in ask("add", "Ann", "--token-file", "ann.token", code=4)
    assert "kranzq agent list" in ask("rotate", "bob", "--token-file", "ann.token", code=3)
    assert "notes" in ask("rotate", "ann", "--token-file", "notes", code=4)
    assert "nowhere" in ask("add", "bob", "--token-file", "nowhere/t", code=3)
    assert ask("list", "--json") == before
    assert sorted(os.listdir(tmp_path)) == names
    assert ((tmp_path / "ann.token").read_text(), (tmp_path / "notes").read_text()) == (kept, "mine")


def test_rotate_and_revoke_count_at_once(ask: Ask) -> None:
    """For a program that has the store open all the while, as a server has."""
    first = ask("add", "ann", "--quiet").strip()
    with work.open() as server:
        assert server.agents.by_token(first) is not None
        second = ask("rotate", "ann", "--quiet").strip()
        assert server.agents.by_token(first) is None
        assert server.agents.by_token(second) is not None
        assert "leases end" in ask("revoke", "ann")
        assert server.agents.by_token(second) is None

    assert ask("list", "--json") == {"agents": []}
    ask("revoke", "ann", code=3)


def test_an_end_is_said_as_a_length_or_never(ask: Ask) -> None:
    """What is none is refused with examples, and an agent whose time is over needs a new one."""
    ask("add", "ann", "--expires", "1h", "--quiet")
    for bad in ("0", "-1", "soon", "4000d", ""):
        assert "--expires" in ask("add", "bob", "--expires", bad, code=2)
    with sqlite3.connect(os.environ["XDG_STATE_HOME"] + "/kranzq/work.db") as connection:
        connection.execute("update kranzq_agents set expires_at = 1000")

    assert "--expires 30d" in ask("rotate", "ann", code=4)
    assert ask("rotate", "ann", "--expires", "never", "--json")["agent"]["expires_at"] is None


def test_a_token_that_is_typed_is_not_repeated(ask: Ask) -> None:
    """Somebody pastes it in the place of a name, or behind one: what is said about it may end in a log."""
    for words in (
        ("add", TOKEN),
        ("add", "ann", "--uid", TOKEN),
        ("add", "ann", "--group", f"x{TOKEN}"),
        ("add", "ann", TOKEN),
        ("add", "ann", "--scope", TOKEN),
        ("add", "ann", "--expires", TOKEN),
        ("rotate", "ann", f"--{TOKEN}"),
        ("revoke", "ann", "--token-file", TOKEN),
        (TOKEN,),
    ):
        said = ask(*words, code=2)
        assert TOKEN[4:] not in said, words
    for verb in ("rotate", "revoke"):
        assert TOKEN[4:] not in ask(verb, TOKEN, code=3)


def test_a_fault_of_our_own_is_reported_without_tokens(
    ask: Ask, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """What went wrong may have one in its words: neither the line nor the report repeats it."""

    def fail(*_: object, **__: object) -> None:
        raise RuntimeError(f"row ('ann', '{TOKEN}')")

    monkeypatch.setattr("kranzq.wiring.tokens.issue", fail)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    said = ask("add", "ann", code=70)
    (report,) = tmp_path.glob("kranzq-fault-*.txt")

    assert "kqa_***" in said
    assert "kqa_***" in report.read_text()
    assert TOKEN not in said + report.read_text()


def test_odd_names_drive_no_terminal(ask: Ask) -> None:
    """They are refused, shown escaped."""
    for name in ("a\x1b[31mb", "a\nb", "a\u202eb", "", " ", "x" * 201, "a\udcffb"):
        said = ask("add", name, code=2)
        assert said.isascii()
        assert "\x1b" not in said

    assert ask("list").startswith("No agent")


def test_a_server_s_agents_are_not_added_to_the_own_database(ask: Ask, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where `KRANZQ_SERVER` is set, a token that is made here would open nothing there."""
    monkeypatch.setenv("KRANZQ_SERVER", "http://127.0.0.1:1")
    for words in (("add", "ann"), ("list",), ("rotate", "ann"), ("revoke", "ann")):
        assert "--url" in ask(*words, code=2)
    assert not os.path.exists(os.environ["XDG_STATE_HOME"])

    url = f"sqlite:///{os.environ['HOME']}/other.db"
    assert is_token(ask("add", "ann", "--quiet", "--url", url).strip())
    assert len(ask("list", "--json", "--url", url)["agents"]) == 1


def test_the_operator_s_key_is_made_once_and_rotated(ask: Ask) -> None:
    """It is printed alone, so that a program can read it; where it lies can be asked."""
    key = ask("key").removesuffix("\n")
    assert is_token(key, OPERATOR_PREFIX)
    assert ask("key").strip() == key
    path = ask("key", "--path").strip()
    assert Path(path).read_text().strip() == key
    other = ask("key", "--rotate").strip()
    assert other != key
    assert Path(path).read_text().strip() == other

    for odd, mode, cure in ((other, 0o644, "chmod 600"), ("", 0o600, "--rotate"), (" \n", 0o600, "--rotate")):
        Path(path).write_text(odd)
        os.chmod(path, mode)
        assert cure in ask("key", code=5)
    assert is_token(ask("key", "--rotate").strip(), OPERATOR_PREFIX)


def test_a_database_of_before_gets_its_table_at_the_next_use(ask: Ask, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever was in it stays; and a program of before goes on beside."""
    path = Path(os.environ["XDG_STATE_HOME"]) / "kranzq/work.db"
    with monkeypatch.context() as before:
        before.setattr("kranzq.backends.sql.sqlite.migrations", lambda dialect: migrations(dialect)[:2])
        before.setattr("kranzq.backends.sql.schema.COMPATIBLE", {1: 1, 2: 1})
        with work.open() as store:
            store.enqueue(work.NewItem("a", "b", id="w-1"))
        assert SqliteDatabase(str(path)).schema().version == 2
    assert opens(ask("add", "ann", "--quiet").strip())
    assert SqliteDatabase(str(path)).schema().version == 3

    with monkeypatch.context() as before:
        before.setattr("kranzq.backends.sql.schema.COMPATIBLE", {1: 1, 2: 1})
        with work.open() as store:
            assert store.show("w-1").title == "a"
            store.enqueue(work.NewItem("c", "d"))


PROGRAM = """
import os, sys
from kranzq.cli.main import run
sys.exit(run(["agent", "add", "ann", "--quiet"]))
"""


@pytest.mark.race
def test_of_those_who_add_an_agent_at_once_one_does(ask: Ask) -> None:
    """Each a process of its own, on a database that is not there yet: one prints the token that opens."""
    programs = [
        subprocess.Popen(
            [sys.executable, "-c", PROGRAM], cwd=REPO, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        for _ in range(4)
    ]
    said = [one.communicate(timeout=60) for one in programs]

    assert sorted(one.returncode for one in programs) == [0, 4, 4, 4], said
    (token,) = [out.strip() for out, _ in said if out]
    assert opens(token)
    assert len(ask("list", "--json")["agents"]) == 1


def test_tokens_differ(ask: Ask) -> None:
    """From each other, and from what a program of its own makes."""
    assert len({ask("add", f"a{number}", "-q") for number in range(5)} | {new_token() for _ in range(5)}) == 10
