"""The verbs of the work queue, called in this process: what becomes of arguments, what people and programs are told."""

from __future__ import annotations

import io
import json
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from kranzq.cli.main import run
from kranzq.cli.tables import cut_to, fitted, wide

KEYS = (
    "id title payload kind target_agent target_group priority state claimed_by target_agent_uid claimed_by_uid "
    "claim_expires attempts max_attempts created_by created_by_uid created_at updated_at not_before result"
).split()
HOSTILE = [
    "\x1b[2J\x1b]0;owned\x07",
    "line\nbreak\r\n",
    "\u202egnp.exe",
    "tab\there",
    "\x9b31m",
    "' OR 1=1 --",
    "<script>",
    "%s%n{0}",
]
Ask = Callable[..., dict[str, Any]]


@pytest.fixture
def ask(capsys: pytest.CaptureFixture[str]) -> Ask:
    """Call a verb with --json; its answer. `code` is the exit code that is expected."""

    def call(*words: str, code: int = 0) -> dict[str, Any]:
        capsys.readouterr()
        assert run(["work", *words, "--json"]) == code, capsys.readouterr()
        value = json.loads(capsys.readouterr().out)
        assert isinstance(value, dict)
        return value

    return call


@pytest.fixture
def complained(capsys: pytest.CaptureFixture[str]) -> Callable[..., str]:
    """Call a verb that fails with `code`; what it says."""

    def call(*words: str, code: int = 2) -> str:
        capsys.readouterr()
        assert run(["work", *words]) == code
        return capsys.readouterr().err

    return call


@pytest.fixture(params=["UTC", "Pacific/Auckland"])
def zone(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """The time zone of the machine."""
    monkeypatch.setenv("TZ", request.param)
    time.tzset()
    yield request.param
    monkeypatch.undo()
    time.tzset()


def enqueue(ask: Ask, name: str = "one", *more: str) -> dict[str, Any]:
    """Put an item into the queue."""
    return ask("enqueue", "--id", name, "--title", "a title", "--payload", "do it", *more)


def test_the_keys_of_an_item_are_those_of_the_seed(ask: Ask) -> None:
    """In its order, times as milliseconds, null where there is none; what is new comes behind them."""
    made = enqueue(ask)
    item = ask("claim", "--agent", "me")["claimed"][0]["item"]

    assert made["created"] is True
    assert list(item)[: len(KEYS)] == KEYS
    assert list(item)[len(KEYS) :] == ["declined", "seq"]
    assert item["not_before"] is None
    assert item["claim_expires"] - item["updated_at"] == 120_000
    assert (item["claimed_by"], item["attempts"], item["state"]) == ("me", 1, "claimed")
    assert list(ask("show", "one")["item"]) == list(item)


def test_a_life_of_an_item(ask: Ask) -> None:
    """Enqueued, claimed, kept, given back, claimed again, handed in; each step says where it is."""
    enqueue(ask, "one", "--kind", "review", "--priority", "-3")
    assert ask("list", "--state", "open")["items"][0]["priority"] == -3
    claim = ask("claim", "--kind", "review", "--lease", "10m", "--agent", "me")["claimed"][0]
    kept = ask("heartbeat", "one", "--attempt", "1", "--lease", "1h", "--agent", "ME")
    assert kept["ok"] is True
    assert kept["item"]["claim_expires"] > claim["item"]["claim_expires"]
    assert ask("release", "one", "--attempt", "1", "--reason", "not now", "--agent", "me") == {
        "ok": True,
        "id": "one",
        "state": "open",
    }
    assert ask("claim", "--agent", "me")["claimed"][0]["attempt"] == 2
    for _ in range(2):
        assert ask("complete", "one", "--attempt", "2", "--result", "good", "--agent", "me")["state"] == "done"
    shown = ask("show", "one")
    assert [(one["attempt"], one["ended"], one["why"]) for one in shown["attempts"]] == [
        (1, "released", "not now"),
        (2, "done", ""),
    ]
    assert ask("stats")["states"]["done"] == 1


def test_higher_priority_first_then_the_older(ask: Ask) -> None:
    """The opposite of missions, and said so where it is asked for."""
    for name, priority in (("low", "0"), ("first", "7"), ("second", "7")):
        enqueue(ask, name, "--priority", priority)

    assert [one["item"]["id"] for one in ask("claim", "--count", "5")["claimed"]] == ["first", "second", "low"]


@pytest.mark.parametrize("words", [[], ["work"], ["schema"], ["source"]])
def test_a_group_alone_shows_its_help(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    """Line by line, as one who does not know it yet needs it."""
    assert run(words) == 2
    shown = capsys.readouterr().err

    assert shown.startswith("Usage: kranzq")
    assert "\\n" not in shown
    assert len(shown.splitlines()) > 5


@pytest.mark.parametrize("verb", ["enqueue"])
def test_help_says_which_priority_comes_first(verb: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Whoever knows missions would take it the wrong way round."""
    run(["work", verb, "--help"])
    assert "Higher first" in capsys.readouterr().out


@pytest.mark.parametrize(
    "words",
    [
        ["claim", "--id", "one", "--agent", "another"],
        ["claim"],
    ],
)
def test_nothing_to_claim_is_75(ask: Ask, complained: Callable[..., str], words: list[str]) -> None:
    """Also of a named item that is there; the answer for programs is an empty list."""
    enqueue(ask)
    ask("claim", "--agent", "me")

    assert ask(*words, code=75) == {"claimed": []}
    assert "to claim" in complained(*words, code=75)


def test_what_is_unknown_is_3(complained: Callable[..., str]) -> None:
    """Whatever one wants of it, and whether there is a database or not."""
    for _ in range(2):
        assert "nope" in complained("show", "nope", code=3)
        for verb in ("heartbeat", "complete", "release"):
            assert "nope" in complained(verb, "nope", "--attempt", "1", code=3)
        assert "nope" in complained("cancel", "nope", code=3)
        assert "nope" in complained("claim", "--id", "nope", code=3)


@pytest.mark.parametrize("attempt", ["1", "3", "01x", "1.0", "-1", "0", "", "true", "99999999999999999999"])
def test_b68_only_the_attempt_that_is_live_is_believed(ask: Ask, complained: Callable[..., str], attempt: str) -> None:
    """A reaped attempt of the same agent changes no field, nor does anything that is no attempt."""
    enqueue(ask)
    ask("claim", "--agent", "me")
    ask("release", "one", "--attempt", "1", "--agent", "me")
    ask("claim", "--agent", "me")
    before = ask("show", "one")

    code = 4 if attempt in {"1", "3"} else 2
    for verb in (["heartbeat"], ["complete", "--result", "stale"], ["release", "--reason", "stale"]):
        told = complained(verb[0], "one", "--attempt", attempt, "--agent", "me", *verb[1:], code=code)
        assert ("attempt" in told.lower()) or code == 2
    assert ask("show", "one") == before


def test_b68_another_holder_with_the_right_number_is_refused(ask: Ask, complained: Callable[..., str]) -> None:
    """The number alone is no proof, and it is never given out again."""
    enqueue(ask)
    for holder, attempt in (("a", "1"), ("b", "2"), ("a", "3")):
        assert str(ask("claim", "--agent", holder)["claimed"][0]["attempt"]) == attempt
        assert "not yours" in complained("complete", "one", "--attempt", attempt, "--agent", "other", code=4)
        ask("release", "one", "--attempt", attempt, "--declined", "--agent", holder)

    assert ask("claim", "--agent", "c")["claimed"][0]["attempt"] == 4


@pytest.mark.parametrize("limit", ["0", "-1", "1.5", "many", "1000001", "²"])
def test_b72_odd_limits_are_refused(complained: Callable[..., str], limit: str) -> None:
    """And nothing is enqueued by them."""
    assert "--max-attempts" in complained("enqueue", "--title", "t", "--payload", "p", f"--max-attempts={limit}")


def test_b72_the_last_release_says_that_it_failed(ask: Ask, complained: Callable[..., str]) -> None:
    """A bare ok would make its holder think that somebody tries again."""
    enqueue(ask, "one", "--max-attempts", "1")
    ask("claim")
    assert ask("release", "one", "--attempt", "1", "--reason", "broken")["state"] == "failed"

    assert "nothing to claim" in complained("claim", code=75)
    item = ask("list", "--state", "failed")["items"][0]
    assert (item["attempts"], item["max_attempts"], item["result"]) == (1, 1, "broken")


def test_a_cancelled_item_is_told_to_its_holder(ask: Ask, complained: Callable[..., str]) -> None:
    """At its next call, with the reason; a second cancel changes nothing and is no fault."""
    enqueue(ask)
    ask("claim")
    assert ask("cancel", "one", "--reason", "not needed") == {"id": "one", "cancelled": True, "state": "cancelled"}
    assert ask("cancel", "one")["cancelled"] is False

    assert "cancelled: not needed" in complained("heartbeat", "one", "--attempt", "1", code=4)


def test_the_same_key_gives_the_same_item(ask: Ask, complained: Callable[..., str]) -> None:
    """A repeat after a lost answer makes no second item; another content under the key is a conflict."""
    words = ["enqueue", "--title", "t", "--payload", "p", "--key", "k"]
    first = ask(*words)
    again = ask(*words)

    assert (again["id"], first["created"], again["created"]) == (first["id"], True, False)
    assert "k" in complained("enqueue", "--title", "other", "--payload", "p", "--key", "k", code=4)


def test_a_request_gives_the_same_claim(ask: Ask) -> None:
    """An answer that was lost costs no attempt and no second item."""
    enqueue(ask, "one")
    enqueue(ask, "two")
    first, again = (ask("claim", "--request-id", "r-1")["claimed"] for _ in range(2))

    assert [(one["item"]["id"], one["attempt"]) for one in (*first, *again)] == [("one", 1), ("one", 1)]


def test_groups_come_from_the_line_or_the_environment(ask: Ask, monkeypatch: pytest.MonkeyPatch) -> None:
    """An item for a group is given to its members only."""
    enqueue(ask, "one", "--group", "builders")
    enqueue(ask, "two", "--group", "Testers")
    ask("claim", code=75)
    monkeypatch.setenv("KRANZQ_AGENT_GROUPS", "painters, testers")

    assert ask("claim", "--group", "others, builders")["claimed"][0]["item"]["id"] == "one"
    assert ask("claim")["claimed"][0]["item"]["id"] == "two"


def test_names_and_uids_come_from_the_environment(ask: Ask, monkeypatch: pytest.MonkeyPatch) -> None:
    """Who enqueues and who claims; an item for a uid is nobody else's."""
    monkeypatch.setenv("KRANZQ_AGENT", "AgentY")
    monkeypatch.setenv("KRANZQ_AGENT_UID", "u-1")
    made = enqueue(ask, "one", "--agent-uid", "u-2")["item"]
    assert (made["created_by"], made["created_by_uid"]) == ("AgentY", "u-1")
    ask("claim", code=75)
    monkeypatch.setenv("KRANZQ_AGENT_UID", "u-2")

    item = ask("claim")["claimed"][0]["item"]
    assert (item["claimed_by"], item["claimed_by_uid"]) == ("AgentY", "u-2")


def test_an_addressee_that_was_never_seen_is_named(ask: Ask, capsys: pytest.CaptureFixture[str]) -> None:
    """A mistyped name would wait for ever."""
    enqueue(ask, "one", "--agent", "agentx")
    enqueue(ask, "two", "--agent", "AgentY")
    ask("claim", "--agent", "agenty")

    assert [one["id"] for one in ask("list", "--unseen")["items"]] == ["one"]
    assert ask("stats")["unseen"] == 1
    run(["work", "stats"])
    assert "kranzq work list --unseen" in capsys.readouterr().out


@pytest.mark.parametrize("text", HOSTILE)
def test_hostile_texts_are_kept_and_shown_escaped(text: str, ask: Ask, capsys: pytest.CaptureFixture[str]) -> None:
    """What people see drives no terminal; what programs get is what was given, byte for byte."""
    words = ["--title", text, "--payload", text, "--kind", text, "--agent", text, "--key", text]
    made = ask("enqueue", "--id", "one", *words)["item"]
    assert (made["title"], made["payload"], made["target_agent"]) == (text, text, text)
    ask("claim", "--agent", text)
    assert run(["work", "list"]) == 0
    assert len(capsys.readouterr().out.splitlines()) == 2, "a title and a name stay on their line"
    for verb in (
        ["show", "one"],
        ["stats"],
        ["release", "one", "--attempt", "1", "--agent", text, "--reason", text],
    ):
        assert run(["work", *verb]) == 0
    assert run(["work", "claim", "--agent", text]) == 0
    assert run(["work", "complete", "one", "--attempt", "9", "--agent", text]) == 4
    shown = "".join(capsys.readouterr())

    assert not {
        one for one in shown if (ord(one) < 32 and one not in "\n\t") or 127 <= ord(one) < 160 or one in "\u202e\u2066"
    }


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--payload", "p"], "title"),
        (["--title", " ", "--payload", "p"], "title"),
        (["--title", "t"], "payload"),
        (["--title", "t", "--payload", " \n"], "payload is blank"),
        (["--title", "t", "--payload", "p", "-"], "more than one"),
        (["--title", "t", "--payload", "p", "extra"], "extra"),
        (["--title", "t", "--payload", "p", "--agent", "a", "--group", "g"], "not for both"),
        (["--title", "t", "--payload", "p", "--group", "g,h"], "an item is for one"),
        (["--title", "t" * 1025, "--payload", "p"], "title has 1025 bytes"),
        (["--title", "t", "--payload", "p", "--key", "k" * 201], "key has 201 bytes"),
        (["--title", "t", "--payload", "p", "--priority", "high"], "--priority"),
        (["--title", "t", "--payload", "p", "--priority", "2147483648"], "--priority"),
        (["--title", "t", "--payload", "p", "--priority", "--5"], "--priority"),
        (["--title", "t", "--file", "/nowhere"], "/nowhere"),
        (["--batch", "f", "--title", "t"], "--batch stands alone"),
    ],
)
def test_what_is_wrong_is_refused_and_named(
    words: list[str], said: str, ask: Ask, complained: Callable[..., str]
) -> None:
    """A slip of the hand makes no item."""
    assert said in complained("enqueue", *words)
    assert ask("list")["items"] == []


def test_the_payload_comes_from_a_file_or_the_input(
    ask: Ask, complained: Callable[..., str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As it is, up to a mebibyte; what is no text, or larger, is refused."""
    path = tmp_path / "prompt"
    path.write_bytes("zwei\nZeilen ü".encode())
    assert ask("enqueue", "--title", "t", "--file", str(path))["item"]["payload"] == "zwei\nZeilen ü"
    for words in (["-"], ["--file", "-"]):
        monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(b"from the input")))
        assert ask("enqueue", "--title", "t", *words)["item"]["payload"] == "from the input"
    path.write_bytes(b"x" * (1024 * 1024))
    assert len(ask("enqueue", "--title", "t", "--file", str(path))["item"]["payload"]) == 1024 * 1024
    path.write_bytes(b"x" * (1024 * 1024 + 1))
    assert "more than" in complained("enqueue", "--title", "t", "--file", str(path))
    path.write_bytes(b"\xff\xfe")
    assert "UTF-8" in complained("enqueue", "--title", "t", "--file", str(path))


INSTANT_MS = 1_893_456_000_000
"""2030-01-01T00:00:00Z"""


@pytest.mark.parametrize(
    "text", ["2030-01-01T00:00:00Z", "2030-01-01 00:00Z", "2030-01-01T01:00:00+01:00", "2029-12-31T14:00-10:00"]
)
def test_b77_a_time_with_its_zone_is_one_instant(zone: str, text: str, ask: Ask, tmp_path: Path) -> None:
    """Whatever the zone of the machine, on the command line and in a file."""
    assert enqueue(ask, "one", "--not-before", text)["item"]["not_before"] == INSTANT_MS
    path = tmp_path / "items"
    lines = [{"title": "t", "payload": "p", "not_before": due} for due in (text, INSTANT_MS)]
    path.write_text("\n".join(map(json.dumps, lines)))
    assert [one["item"]["not_before"] for one in ask("enqueue", "--batch", str(path))["items"]] == [INSTANT_MS] * 2
    assert ask("stats")["states"]["delayed"] == 3


def test_b77_a_length_of_time_counts_from_now(zone: str, ask: Ask) -> None:
    """An hour is an hour, also over a change of clocks."""
    due = enqueue(ask, "one", "--not-before", "+1h30m")["item"]["not_before"]
    assert abs(due / 1000 - time.time() - 5400) < 30


@pytest.mark.parametrize(
    "text",
    [
        "1893456000",
        "1893456000000",
        "2030-03-31T02:30:00",
        "2030-10-27 02:30",
        "2026-02-30T00:00:00Z",
        "10000-01-01T00:00:00Z",
        "-5",
        "0",
        "1.5",
        "tomorrow",
        "2030-01-01",
        "2030-01-01T00:00:00 Europe/Berlin",
    ],
)
def test_b77_what_could_mean_two_instants_is_refused(
    zone: str, text: str, ask: Ask, complained: Callable[..., str], tmp_path: Path
) -> None:
    """A bare number, a time without a zone, a day that does not exist: nothing is guessed, nothing is enqueued."""
    told = complained("enqueue", "--title", "t", "--payload", "p", f"--not-before={text}")
    assert "with its zone" in told
    path = tmp_path / "items"
    path.write_text(json.dumps({"title": "t", "payload": "p", "not_before": text}))
    assert "Line 1" in complained("enqueue", "--batch", str(path))
    assert ask("list")["items"] == []


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ('{"title": "t"}', "payload is blank"),
        ('{"title": "t", "payload": "p", "not_before": 1893456000}', "looks like seconds"),
        ('{"title": "t", "payload": "p", "not_before": 1.5}', "is no time"),
        ('{"title": "t", "payload": "p", "not_before": true}', "is no time"),
        ('{"title": "t", "payload": "p", "not_before": -1}', "not_before"),
        ('{"title": "t", "payload": "p", "priority": "5"}', "priority must be a whole number"),
        ('{"title": "t", "payload": "p", "priority": NaN}', "NaN is no number"),
        ('{"title": "t", "payload": "p", "priority": 1e3}', "priority must be a whole number"),
        ('{"title": "t", "payload": "p", "max_attempts": 0}', "max_attempts"),
        ('{"title": "t", "payload": "p", "titles": "x"}', "Did you mean 'title'?"),
        ('{"title": "t", "title": "u", "payload": "p"}', "twice"),
        ('{"title": 5, "payload": "p"}', "title must be a text"),
        ('{"title": "t", "payload": "\\ud800"}', "half of a character"),
        ('["t", "p"]', "no JSON object"),
        ("title=t", "no JSON"),
        ("[" * 100_000, "no JSON"),
    ],
)
def test_a_file_of_items_is_taken_whole_or_not_at_all(
    line: str, said: str, ask: Ask, complained: Callable[..., str], tmp_path: Path
) -> None:
    """The line that is wrong is named, and the good ones before it are not enqueued either."""
    path = tmp_path / "items"
    path.write_text('{"title": "good", "payload": "p", "key": "k"}\n\n' + line + "\n")
    told = complained("enqueue", "--batch", str(path))
    assert "Line 3" in told
    assert said in told
    assert ask("list")["items"] == []


def test_many_items_at_once(ask: Ask, tmp_path: Path) -> None:
    """More than one transaction takes; a repeat with keys is harmless."""
    path = tmp_path / "items"
    path.write_text("".join(json.dumps({"title": f"t{n}", "payload": "p", "key": f"k{n}"}) + "\n" for n in range(1500)))

    assert sum(one["created"] for one in ask("enqueue", "--batch", str(path))["items"]) == 1500
    assert sum(one["created"] for one in ask("enqueue", "--batch", str(path))["items"]) == 0
    assert ask("stats")["states"]["open"] == 1500


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--lease", "0"], "--lease must be more than 0"),
        (["--lease", "25h"], "at most 24h"),
        (["--lease", "soon"], "--lease must be"),
        (["--wait", "-1"], "--wait must be"),
        (["--count", "0"], "--count"),
        (["--count", "2", "--request-id", "r"], "one item"),
        (["--forever"], "for --exec"),
        (["--fail-on-error"], "for --exec"),
        (["--exec"], "no command"),
        (["--json", "--exec", "true"], "exclude each other"),
        (["--timeout", "0", "--exec", "true"], "--timeout must be more than 0"),
        (["--agent", "n" * 201], "agent has 201 bytes"),
        (["--group", "g" * 201], "group has 201 bytes"),
    ],
)
def test_a_claim_that_is_wrong_claims_nothing(
    words: list[str], said: str, ask: Ask, complained: Callable[..., str]
) -> None:
    """And says which part of it is."""
    enqueue(ask)
    assert said in complained("claim", *words)
    assert ask("show", "one")["item"]["state"] == "open"


def test_the_shortest_lease_is_one_all_the_same(ask: Ask) -> None:
    """A lease that rounds to nothing is not the two minutes of one that was not said."""
    enqueue(ask)
    item = ask("claim", "--lease", "0.0001")["claimed"][0]["item"]
    assert item["claim_expires"] - item["updated_at"] == 1


def test_what_was_declined_is_no_try(
    ask: Ask, complained: Callable[..., str], capsys: pytest.CaptureFixture[str]
) -> None:
    """The list and the one item count alike; and how long an item may be kept back is said in words."""
    enqueue(ask, "one")
    ask("claim")
    assert "--delay must be at most 30d." in complained("release", "one", "--attempt", "1", "--delay", "31d", code=2)
    ask("release", "one", "--attempt", "1", "--declined")
    capsys.readouterr()
    run(["work", "show", "one"])

    assert "  tries    0/3, 1 declined\n" in capsys.readouterr().out


def test_pages_follow_each_other(ask: Ask) -> None:
    """Each item once, the newest change first, and the last page says so; a made-up cursor is refused."""
    for number in range(7):
        enqueue(ask, f"i{number}")
    seen, cursor = [], None
    for _ in range(4):
        page = ask("list", "--limit", "2", *(["--cursor", cursor] if cursor else []))
        seen += [one["id"] for one in page["items"]]
        cursor = page["cursor"]

    assert seen == [f"i{number}" for number in range(6, -1, -1)]
    assert cursor is None
    assert run(["work", "list", "--cursor", "rubbish"]) == 2


def test_looking_makes_nothing(ask: Ask, isolated: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Who only looks leaves no database behind."""
    assert ask("list") == {"items": [], "cursor": None}
    assert ask("stats")["states"]["open"] == 0
    assert run(["work", "show", "x"]) == 3
    assert run(["schema", "show", "--json"]) == 0

    assert not (isolated / "state").exists()
    assert '"version": 0' in capsys.readouterr().out


def test_recover_says_what_lapsed_failed_and_came_due(ask: Ask, capsys: pytest.CaptureFixture[str]) -> None:
    """Twice in a row the second finds nothing; a queue without trouble says so."""
    enqueue(ask, "again")
    enqueue(ask, "last", "--max-attempts", "1")
    ask("claim", "--count", "2", "--lease", "0.05")
    until = time.monotonic() + 20
    done = ask("recover")
    while len(done["lapsed"]) + len(done["failed"]) < 2:
        assert time.monotonic() < until
        more = ask("recover")
        done = {key: done[key] + more[key] for key in done}

    assert (done["lapsed"], done["failed"]) == (["again"], ["last"])
    assert ask("recover") == {"lapsed": [], "failed": [], "opened": 0}
    run(["work", "recover"])
    assert "Nothing was overdue." in capsys.readouterr().out


def test_prune_removes_what_ended_long_ago(ask: Ask, complained: Callable[..., str]) -> None:
    """By the setting, or at once when told so; what has not ended stays."""
    enqueue(ask, "one")
    enqueue(ask, "two")
    ask("claim", "--id", "one")
    ask("complete", "one", "--attempt", "1")

    assert ask("prune") == {"pruned": 0}
    time_passed = time.time_ns() // 1_000_000
    while time.time_ns() // 1_000_000 <= time_passed + 2:
        pass
    assert ask("prune", "--older-than", "0") == {"pruned": 1}
    assert [one["id"] for one in ask("list")["items"]] == ["two"]
    complained("show", "one", code=3)


def test_no_password_is_taken_or_shown(
    complained: Callable[..., str], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """On the command line it is refused, with the advice; from the setting it is used and never printed."""
    url = "postgresql://me:s3cr3t@127.0.0.1:1/none"
    told = complained("list", "--url", url)
    assert "PGPASSFILE" in told
    assert "work.url" in told
    monkeypatch.setenv("KRANZQ_WORK_URL", url)
    for words in (
        ["work", "list"],
        ["work", "enqueue", "--title", "t", "--payload", "p"],
        ["schema", "show"],
        ["check"],
    ):
        run(words)
    monkeypatch.setenv("KRANZQ_WORK_URL", "mysql://me:s3cr3t@host/none")
    run(["work", "list"])

    assert "s3cr3t" not in told + "".join(capsys.readouterr())


def test_check_names_the_database(
    checkout: Path, ask: Ask, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Which one it is and whether it can be used; looking makes none."""

    def checked() -> dict[str, Any]:
        capsys.readouterr()
        run(["-C", str(checkout), "check", "--json"])
        found = [one for one in json.loads(capsys.readouterr().out)["checks"] if one["name"] == "work queue"]
        assert len(found) == 1
        return dict(found[0])

    assert "nothing is there yet" in checked()["text"]
    enqueue(ask)
    assert "up to date" in checked()["text"]
    monkeypatch.setenv("KRANZQ_WORK_URL", "postgresql://me:s3cr3t@127.0.0.1:1/none")
    wrong = checked()
    assert wrong["state"] == "fault"
    assert "s3cr3t" not in str(wrong)


def test_the_schema_is_shown_and_migrated(capsys: pytest.CaptureFixture[str]) -> None:
    """Nothing, then the newest; a repeat changes nothing."""

    def schema(verb: str) -> dict[str, Any]:
        capsys.readouterr()
        assert run(["schema", verb, "--json"]) == 0
        found = json.loads(capsys.readouterr().out)
        assert isinstance(found, dict)
        return found

    assert schema("show")["version"] == 0
    made = schema("migrate")
    assert made["version"] == made["newest"] >= 1
    assert schema("migrate") == schema("show") == made


@pytest.mark.parametrize("words", [["--version"], ["list"], ["enqueue", "--help"], ["work", "--help"], ["status"]])
def test_no_database_is_imported_where_none_is_used(words: list[str], checkout: Path) -> None:
    """The mission verbs start as fast as before."""
    code = (
        "import sys; from kranzq.cli.main import run; run(sys.argv[1:]);"
        "sys.exit(', '.join({'sqlite3', 'psycopg', 'kranzq.backends.sql'} & set(sys.modules)) or 0)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, *words],
        cwd=checkout,
        env={"PATH": "/usr/bin:/bin", "PYTHONPATH": str(Path(__file__).parents[3]), "HOME": str(checkout)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("columns", [40, 80, 100, 200])
def test_a_table_fits_the_terminal(
    columns: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Titles are cut, ids never; wide letters count twice."""
    monkeypatch.setenv("COLUMNS", str(columns))
    monkeypatch.setattr("sys.stdout.isatty", lambda: True, raising=False)
    head = ("ID", "STATE", "WHO", "TITLE")
    fitted(head, [("i" * 12, "claimed", "by somebody with a long name", "漢字" * 60)], cut=(2, 3))
    lines = capsys.readouterr().out.splitlines()

    assert all(wide(line) <= columns for line in lines)
    assert "i" * 12 in lines[1]


def test_a_text_is_cut_at_a_whole_letter() -> None:
    """A wide letter that does not fit is left out."""
    assert [cut_to("漢字x", width) for width in (5, 4, 3, 2)] == ["漢字x", "漢…", "漢…", "…"]
