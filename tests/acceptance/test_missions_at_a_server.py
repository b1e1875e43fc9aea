"""Missions from elsewhere: the verbs of a checkout at its server, in the same words, with the same codes and JSON."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from kranzq.cli.main import VERBS, run
from kranzq.model.agents import Scope
from tests.forking import Wish
from tests.forking import run as forked
from tests.laboratory import PATIENCE, REPO, wait_for
from tests.servers import Served

pytestmark = pytest.mark.system("git")


@dataclass(frozen=True)
class Said:
    """What a verb said."""

    out: str
    err: str

    @property
    def json(self) -> Any:
        """Its standard output."""
        return json.loads(self.out)

    @property
    def all(self) -> str:
        """Everything."""
        return self.out + self.err


@dataclass
class Place:
    """A checkout with its server, and somebody elsewhere."""

    server: Served
    checkout: Path
    elsewhere: Path
    monkeypatch: pytest.MonkeyPatch
    capfd: pytest.CaptureFixture[str]

    def here(self, *words: str, code: int = 0) -> Said:
        """A verb in the checkout, of the server's user."""
        argv = ["-C", str(self.checkout), *words]
        done = forked(Wish("kranzq.__main__", argv, str(REPO), self.server.environ), PATIENCE)
        said = Said(done.stdout, done.stderr)
        assert done.returncode == code, (words, said)
        return said

    def there(self, *words: str, code: int = 0, server: str | None = None) -> Said:
        """A verb at the server, in a directory that is in no checkout."""
        with self.monkeypatch.context() as patched:
            patched.setenv("KRANZQ_SERVER", server or f"unix:{self.server.socket}")
            patched.chdir(self.elsewhere)
            self.capfd.readouterr()
            found = run(words)
            said = Said(*self.capfd.readouterr())
            assert found == code, (words, said)
            return said

    def start(self, *words: str, there: bool = False) -> subprocess.Popen[bytes]:
        """A verb that goes on, in the checkout or at the server."""
        environ = self.server.environ | ({"KRANZQ_SERVER": f"unix:{self.server.socket}"} if there else {})
        where = () if there else ("-C", str(self.checkout))
        return subprocess.Popen(
            [sys.executable, "-m", "kranzq", *where, *words],
            cwd=self.elsewhere,
            env=environ | {"PYTHONPATH": str(REPO)},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
        )

    def says(self, mission: str) -> bytes:
        """What a mission has said; until it runs, that it has not."""
        return self.server.ask("GET", f"/v1/missions/{mission}/log").raw

    @contextlib.contextmanager
    def daemon(self) -> Iterator[None]:
        """A daemon of the checkout."""
        process = self.start("daemon")
        try:
            wait_for(lambda: self.here("status", "--json").json["daemon"], "the daemon is there")
            yield
        finally:
            process.terminate()
            process.communicate(timeout=PATIENCE)


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> Iterator[Place]:
    """A checkout, its server, and a directory elsewhere."""
    checkout, elsewhere = tmp_path / "checkout", tmp_path / "elsewhere"
    (checkout / ".kranz" / "queue").mkdir(parents=True)
    elsewhere.mkdir()
    server = Served(tmp_path, ("--listen", "127.0.0.1:0"), cwd=checkout)
    try:
        server.start()
        yield Place(server, checkout, elsewhere, monkeypatch, capfd)
    finally:
        server.kill()


def test_every_look_is_that_of_the_checkout(place: Place) -> None:
    """Lists, states, reasons and histories are told in the same words and JSON; `status` says at which server."""
    place.there("enqueue", "good", "--", "printf", "fine")
    place.there("enqueue", "bad", "--", "sh", "-c", "exit 3")
    place.here("drain", code=1)
    place.there("enqueue", "queued", "--priority", "1", "--", "true")
    place.there("enqueue", "late", "--not-before", "+2h", "--", "true")
    place.there("enqueue", "after", "--after", "bad", "--", "true")
    place.there("enqueue", "parked", "--", "true")
    place.here("park", "parked", "not now")

    looks = ["list", "list --all", "list --parked", "status", "history", "history --last 1", "history good --all"]
    looks += [f"why {one}" for one in ("good", "queued", "late", "after", "parked")]
    looks += ["wait good", "logs good"]
    for look in looks:
        words = look.split(" ")
        if words[0] != "logs":
            code = {"wait parked": 4}.get(look, 0)
            assert place.there(*words, "--json", code=code).json == place.here(*words, "--json", code=code).json
        here, there = place.here(*words).out, place.there(*words).out
        meant = "What is to be typed is meant for the machine of the server.\n"
        assert there.removesuffix(meant).replace(f" at unix:{place.server.socket}", "") == here
    assert f"{place.checkout} at unix:" in place.there("status").out
    for look, code in (("wait bad", 1), ("wait parked", 4), ("wait none", 3), ("why none", 3), ("logs queued", 3)):
        assert place.there(*look.split(" "), code=code).out == place.here(*look.split(" "), code=code).out
    assert "parked, not now" in place.there("wait", "parked", code=4).err
    assert "no mission id" in place.there("why", "../up", code=2).err
    assert place.there("wait", "late", "--timeout", "0.1s", code=75).err.count("No daemon runs there") == 1


def test_an_approval_is_that_of_the_checkout(place: Place, tmp_path: Path) -> None:
    """With all that may be said; the same again changes nothing, another command is a conflict; files are texts."""
    prompt, data = tmp_path / "prompt.md", tmp_path / "data"
    prompt.write_text("Do it.\n")
    data.write_bytes(b"\xff\xfe")
    words = ["enqueue", "m1", "--priority", "0", "--retries", "2", "--timeout", "5m", "--env", "WHO=me"]
    words += [
        "--ticket",
        "T-1",
        "--source",
        "tracker:42",
        "--file",
        str(prompt),
        "--not-before",
        "+2h",
        "--after",
        "m0",
    ]
    words += ["--future", "--", "sh", "-c", "true"]
    first = place.there(*words)
    again = place.there(*words)
    assert first.out.startswith("m1 waits until m0 has succeeded, then until 2")
    assert again.out == "m1 is waiting already (priority 0, number 0); nothing was changed.\n"
    assert (place.checkout / ".kranz" / "missions" / "m1" / "input" / "prompt.md").read_text() == "Do it.\n"
    assert place.here("source", "list", "--json").json["sources"][0]["reference"] == "42"
    assert place.there("enqueue", "m1", "--", "false", code=4).err.startswith("kranzq: Mission m1")
    made = place.there("enqueue", "--json", "--", "true").json
    assert (made["created"], made["state"]) == (True, "queued")

    assert "no UTF-8 text" in place.there("enqueue", "m2", "--file", str(data), "--", "true", code=2).err
    assert "--timeout" in place.there("enqueue", "m2", "--timeout", "soon", code=2).err
    token = "kqa_" + "x" * 43
    said = place.there("enqueue", "m2", "--", "say", token, code=2).err
    assert ("has a token of kranzq in it" in said, token in said) == (True, False)
    assert [one["mission"] for one in place.here("list", "--json").json["entries"]] == [made["mission"], "m1"]


def test_only_who_may_operate_approves(place: Place, tmp_path: Path) -> None:
    """An agent of the scope `work` looks; it is told what is missing when it approves or cancels."""
    path = tmp_path / "ann.token"
    path.touch(0o600)
    path.write_text(place.server.agent("ann", scopes=(Scope.WORK,)))
    place.monkeypatch.setenv("KRANZQ_TOKEN_FILE", str(path))
    url = f"http://{place.server.address}"
    assert place.there("list", server=url).out == "Nothing waits.\n"
    assert "needs the scope" in place.there("enqueue", "m1", "--", "true", code=5, server=url).err
    assert "needs the scope" in place.there("cancel", "m1", code=5, server=url).err
    path.write_text("kqa_" + "x" * 43)
    assert "without a token that it knows" in place.there("status", code=5, server=url).err


@pytest.mark.slow
def test_a_mission_is_waited_for_and_heard(place: Place) -> None:
    """Its output is that of its runs, its end the exit code; what ended before does not count."""
    with place.daemon():
        command = ("--", "sh", "-c", 'echo "one of $KRANZ_RUN"; sleep 0.1; echo two; exit $CODE')
        said = place.there("enqueue", "m1", "--follow", "--env", "CODE=3", *command, code=1)
        assert said.out.splitlines()[1:] == ["two"]
        assert "m1: run 1 failed" in said.err
        again = place.there("enqueue", "m1", "--wait", "--json", "--env", "CODE=0", *command).json
        assert (again["created"], again["end"]["run"], again["end"]["outcome"]) == (True, 2, "succeeded")
        assert place.there("wait", "m1", "--json").json == place.here("wait", "m1", "--json").json
        place.there("enqueue", "m2", "--not-before", "+2h", "--", "true")
        waiting = place.start("wait", "m2", there=True)
        place.there("cancel", "m2", "--why", "unwanted")
        said_of_m2 = waiting.communicate(timeout=PATIENCE)[0].decode()
        assert (waiting.returncode, "cancelled" in said_of_m2) == (1, True), said_of_m2


def test_a_log_is_that_of_the_checkout(place: Place) -> None:
    """Byte by byte, with what was left out, and from its last lines on."""
    lines = "".join(f"line {number} ü\n" for number in range(20_000))
    place.there(
        "enqueue",
        "long",
        "--",
        sys.executable,
        "-c",
        "print(''.join(f'line {n} ü\\n' for n in range(20000)), end='')",
    )
    place.there("enqueue", "open", "--", "printf", "a\nb\nno end")
    place.there("enqueue", "silent", "--", "true")
    place.there("enqueue", "holed", "--", "true")
    place.here("drain")
    (output,) = (place.checkout / ".kranz" / "missions" / "holed").glob("**/output.log")
    with output.open("wb") as file:
        file.write(b"begin\n")
        file.seek(1 << 20)
        file.write(b"middle\n")
        file.truncate(2 << 20)
        file.seek(3 << 20)
        file.write(b"end\n")

    assert place.there("logs", "long").out == lines
    for mission in ("long", "open", "silent", "holed"):
        for more in ((), ("--run", "1"), ("-f",), *(("--tail", str(number)) for number in (0, 1, 2, 3, 5000, 99_999))):
            assert place.there("logs", mission, *more).out == place.here("logs", mission, *more).out, (mission, more)
    assert "no run 7" in place.there("logs", "long", "--run", "7", code=3).err


@pytest.mark.slow
@pytest.mark.crash
def test_a_log_is_followed_over_a_killed_server(place: Place) -> None:
    """Whoever follows is told that the server is away, and then gets the rest, once."""
    go = place.elsewhere / "go"
    place.there("enqueue", "m1", "--", "sh", "-c", f"echo one; until [ -e {go} ]; do sleep 0.02; done; echo two")
    with place.daemon():
        wait_for(lambda: place.says("m1") == b"one\n", "the mission runs")
        follower = place.start("logs", "-f", "m1", there=True)
        assert follower.stdout is not None
        assert follower.stdout.readline() == b"one\n"
        place.server.kill()
        assert b"cannot be used" in follower.stdout.readline()
        go.touch()
        place.server.start()
        rest = follower.communicate(timeout=PATIENCE)[0].decode()
    assert (follower.returncode, rest.splitlines()[-1], rest.count("two")) == (0, "two", 1)


def test_approvals_are_taken_back(place: Place) -> None:
    """One, all that match, and what runs; nothing without a word where nobody can be asked."""
    for mission in ("a-1", "a-2", "b-1"):
        place.there("enqueue", mission, "--not-before", "+2h", "--", "true")
    assert place.there("cancel", "b-1", "--why", "no").out == "b-1 is cancelled: its entry is removed.\n"
    assert place.there("cancel", "b-1").out.startswith("b-1 had ended already")
    place.there("cancel", "none", code=3)
    assert "say so with: --yes" in place.there("cancel", "a-*", code=2).err
    place.there("cancel", "c-*", code=3)
    done = place.there("cancel", "a-*", "--yes", "--json").json
    assert [one["mission"] for one in done["cancelled"]] == ["a-1", "a-2"]
    assert done["failed"] == []

    place.there("enqueue", "runs", "--", "sh", "-c", "echo one; exec sleep 600")
    with place.daemon():
        wait_for(lambda: place.says("runs") == b"one\n", "the mission runs")
        ended = place.there("cancel", "runs", "--wait", "--json").json
    assert (ended["result"], ended["run"], ended["outcome"]) == ("cancelled", 1, "cancelled")


@pytest.mark.parametrize(
    "verb", ["edit", "park", "pause", "recover", "resume", "retry", "source", "stop", "trust", "unpark"]
)
def test_a_verb_of_a_checkout_does_nothing_behind_the_back_of_a_server(
    checkout: Path, verb: str, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """Where a server is named it refuses, with what to type; a checkout that is named goes before the variable."""
    (checkout / ".kranz" / "queue").mkdir(parents=True)
    monkeypatch.chdir(checkout)
    monkeypatch.setenv("KRANZQ_SERVER", "unix:/none")
    before = sorted(str(path) for path in checkout.rglob("*"))
    assert run([verb, "m1"]) == 2
    assert f"kranzq -C . {verb}" in capfd.readouterr().err
    assert run([verb, "--help"]) == 0
    assert sorted(str(path) for path in checkout.rglob("*")) == before
    assert run(["-C", ".", "list"]) == 0
    assert run(["-C", ".", "list", "--server", "nonsense"]) == 2


def test_whoever_stops_no_daemon_is_told_of_the_server(place: Place) -> None:
    """Perhaps that was meant; it is another process, and goes on."""
    assert place.server.process is not None
    said = place.here("stop", code=3).err
    assert "No daemon serves this checkout" in said
    assert f"end it with: kill {place.server.process.pid}" in said
    place.server.stop()
    assert "server" not in place.here("stop", code=3).err


def test_a_dispatcher_works_where_it_is(place: Place) -> None:
    """Its environment may name a server for what it runs; it says whose missions it takes."""
    place.here("enqueue", "m1", "--", "true")
    place.monkeypatch.setenv("KRANZQ_SERVER", "unix:/none")
    for name in ("XDG_STATE_HOME", "XDG_CONFIG_HOME", "HOME"):
        place.monkeypatch.setenv(name, place.server.environ[name])
    place.monkeypatch.chdir(place.checkout)
    place.capfd.readouterr()
    done = subprocess.run(
        [sys.executable, "-m", "kranzq", "drain"],
        env=os.environ | {"PYTHONPATH": str(REPO)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, "no server dispatches for others" in done.stderr) == (0, True), done.stderr
    assert place.here("history", "--json").json["runs"][0]["mission"] == "m1"


def test_a_verb_that_asks_no_server_says_so(capfd: pytest.CaptureFixture[str]) -> None:
    """In a sentence that names those that do, for each of them."""
    asking = {
        "cancel",
        "enqueue",
        "guard",
        "history",
        "list",
        "logs",
        "mcp",
        "status",
        "wait",
        "why",
        "work",
        "presence",
    }
    groups = {"source", "agent", "schema"}
    for verb in set(VERBS) - asking - groups:
        assert run([verb, "--server", "unix:/none"]) == 2
        assert f"kranzq: {verb} works on this machine only" in capfd.readouterr().err
    assert run(["--server", "unix:/none", "list"]) == 2
    assert "behind the verb" in capfd.readouterr().err


def test_a_server_in_no_checkout_says_so(served: Served, capfd: pytest.CaptureFixture[str]) -> None:
    """With how to start it in one."""
    for words in (["status"], ["list"], ["history"], ["logs", "m1"], ["enqueue", "m1"], ["wait", "m1"]):
        assert run([*words, "--server", f"unix:{served.socket}"]) == 3
        assert "serves no missions" in capfd.readouterr().err
