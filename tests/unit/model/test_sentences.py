"""What is refused is told in one sentence that names it, with what to do next: these are read by people at night."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from kranzq.errors import BadEntry, BadMissionId, KranzqError
from kranzq.model import agents, presence, repository, who, work, work_lines
from kranzq.model.claim import Holder
from kranzq.model.entry import parse
from kranzq.model.ids import MissionId
from kranzq.model.outcome import Ending, NotStarted, Outcome, Park
from kranzq.model.policy import Counters, Limits, decide, span
from kranzq.model.when import FORMS, due, parse_when

NAMED = presence.Subject("hub.example/o/r", "src")
LONG = "x" * 300
LIFE = "a whole number from 0 to 315360000000"


def told(call: Callable[[], object]) -> tuple[str, str]:
    """The sentence and the advice with which a call is refused."""
    with pytest.raises(KranzqError) as caught:
        call()
    return caught.value.sentence, caught.value.advice


def new_presence(**given: Any) -> presence.NewPresence:
    """A claim that is all right but for what is given."""
    whole: dict[str, Any] = {"holder": Holder("ann"), "subject": NAMED} | given
    return presence.NewPresence(**whole)


def new_item(**given: Any) -> work.NewItem:
    """An item that is all right but for what is given."""
    whole: dict[str, Any] = {"title": "t", "payload": "p"} | given
    return work.NewItem(**whole)


PLACES = [
    (
        lambda: new_presence(holder=Holder(" ")),
        "A presence claim needs the name of its holder.",
        "Name the agent.",
    ),
    (lambda: new_presence(holder=Holder(LONG)), "agent has 300 bytes; at most 200 are taken.", "Put long texts"),
    (lambda: new_presence(holder=Holder("a", uid=LONG)), "agent uid has 300 bytes; at most 200 are taken.", "Put "),
    (lambda: new_presence(channel=LONG), "channel has 300 bytes; at most 200 are taken.", "Put long texts into a"),
    (
        lambda: new_presence(minutes="x" * 50),
        f"ttl_minutes must be a whole number of minutes, not {'x' * 40!r}.",
        "",
    ),
    (
        lambda: presence.subject_of(path="src"),
        "The path 'src' is relative, and no repository is named.",
        "Name one with it.",
    ),
    (
        lambda: presence.subject_of(path="a/" + LONG),
        f"The path {'a/' + 'x' * 198!r} is relative, and no repository is named.",
        "Name one with it.",
    ),
    (
        lambda: presence.subject_of(path="../" + LONG, repo="hub.example/o/r"),
        f"The path {'../' + 'x' * 197!r} leads out of its repository.",
        "Name it from the root.",
    ),
    (
        presence.subject_of,
        "Nothing is named to work on.",
        "Name a path, a repository, a branch or a topic.",
    ),
    (
        lambda: who.question_of(query="-" * 90),
        f"{'-' * 80!r} has no word to look for.",
        "Ask with letters or digits.",
    ),
    (who.question_of, "Nothing is asked about.", "Name a path, a repository, a branch or words to look for."),
    (
        lambda: repository.repo_key("https://me:secret@example/" + "y y" * 50),
        f"{('https://***@example/' + 'y y' * 50)[:120]!r} names no repository that others can know.",
        repository.FORMS,
    ),
]

WORK = [
    (lambda: new_item(title=" "), "title is blank.", "An item needs a title and a payload."),
    (lambda: new_item(payload=""), "payload is blank.", "An item needs a title and a payload."),
    (
        lambda: new_item(target=work.Target("a", "", "g")),
        "An item is for one agent or for one group, not for both.",
        "Leave one of them out.",
    ),
    (lambda: new_item(title="é" * 513), "title has 1026 bytes; at most 1024 are taken.", "Put long texts into a file"),
    (lambda: new_item(kind=LONG), "kind has 300 bytes; at most 200 are taken.", "Put long texts into a file and name"),
    (lambda: new_item(target=work.Target(LONG)), "target_agent has 300 bytes; at most 200 are taken.", "Put long"),
    (lambda: new_item(target=work.Target(uid=LONG)), "target_agent_uid has 300 bytes; at most 200 are taken.", "Put "),
    (lambda: new_item(target=work.Target(group=LONG)), "target_group has 300 bytes; at most 200 are taken.", "Put "),
    (lambda: new_item(created_by=LONG), "created_by has 300 bytes; at most 200 are taken.", "Put long texts into"),
    (lambda: new_item(created_by_uid=LONG), "created_by_uid has 300 bytes; at most 200 are taken.", "Put long texts"),
    (lambda: new_item(id=LONG), "id has 300 bytes; at most 200 are taken.", "Put long texts into a file and name it."),
    (lambda: new_item(key=LONG), "key has 300 bytes; at most 200 are taken.", "Put long texts into a file and name it"),
    (lambda: new_item(payload="x" * (2**20 + 1)), "payload has 1048577 bytes; at most 1048576 are taken.", "Put long"),
    (lambda: new_item(priority=2**31), "priority must be a whole number from -2147483647 to 2147483647, not '214", ""),
    (lambda: new_item(max_attempts=0), "max_attempts must be a whole number from 1 to 1000000, not '0'.", ""),
    (
        lambda: new_item(not_before=1_700_000_000),
        "not_before 1700000000 lies before 1974: that looks like seconds.",
        "Give milliseconds since 1970.",
    ),
    (lambda: new_item(not_before=-1), "not_before must be a whole number from 0 to 253", ""),
    (lambda: work.check_text("title", 7, 9), "title must be a text, not '7'.", ""),  # type: ignore[arg-type]
    (lambda: work.check_text("t", ["x" * 50], 9), f"t must be a text, not {str(['x' * 50])[:40]!r}.", ""),  # type: ignore[arg-type]
    (
        lambda: work.check_text("why", "a\0b", 9),
        "why holds a NUL character, which no database keeps.",
        "Take it out.",
    ),
    (
        lambda: work.check_text("why", "\ud800", 9),
        "why is no text: it holds half of a character.",
        "Send it as UTF-8.",
    ),
    (
        lambda: work.check_text("why", "0123456789", 9),
        "why has 10 bytes; at most 9 are taken.",
        "Put long texts into a file and name it.",
    ),
    (lambda: work.lease_ms("9" * 50), f"lease_ms must be a whole number of milliseconds, not {'9' * 40!r}.", ""),  # type: ignore[arg-type]
    (lambda: work.check_number("n", "9" * 50, 1, 2), f"n must be a whole number from 1 to 2, not {'9' * 40!r}.", ""),  # type: ignore[arg-type]
    (lambda: work.span_ms("age", "9" * 50, 0, 9), f"age must be from 0 to 9 seconds, not {'9' * 40!r}.", ""),  # type: ignore[arg-type]
]

LINES = [
    (b"\n \n", "There is no item in it.", "Write one JSON object a line, with title and payload at least."),
    (b'\n{"title": "t"}', "Line 2: payload is blank.", "An item needs a title and a payload."),
    (b"\xff", "Line 1: it is no UTF-8 text (at byte 0).", ""),
    (b"{", "Line 1: it is no JSON: Expecting property name enclosed in double quotes: line 1 column 2 (char 1).", ""),
    (b"[]", "Line 1: it is no JSON object.", 'Write {"title": "…", "payload": "…"}.'),
    (b'{"title": "t", "title": "u"}', "Line 1: it is no JSON: a key stands there twice.", ""),
    (b'{"priority": NaN}', "Line 1: it is no JSON: NaN is no number.", ""),
    (b'{"titel": "t"}', "Line 1: 'titel' is no key of an item.", "Did you mean 'title'?"),
    (
        b'{"zz": "t"}',
        "Line 1: 'zz' is no key of an item.",
        (
            "Known are: id, key, kind, max_attempts, not_before, payload, priority, target_agent, target_agent_uid, "
            "target_group, title"
        ),
    ),
    (b'{"title": 7}', "Line 1: title must be a text, not '7'.", ""),
    (b'{"title": "t", "payload": "p", "priority": "2"}', "Line 1: priority must be a whole number, not '2'.", ""),
    (b'{"title": "t", "payload": "p", "max_attempts": 1.5}', "Line 1: max_attempts must be a whole number, not 1.", ""),
    (
        b'{"title": "t", "payload": "p", "not_before": "soon"}',
        "Line 1: not_before 'soon' is no time.",
        FORMS,
    ),
    (
        b'{"title": "t", "payload": "p", "not_before": 1.5}',
        "Line 1: not_before '1.5' is no time.",
        "Give whole milliseconds since 1970, or a time with its zone.",
    ),
]

AGENTS = [
    (
        lambda: agents.NewAgent("a", frozenset(str(number) for number in range(65))),
        "An agent has at most 64 groups, not 65.",
        "",
    ),
    (
        lambda: agents.NewAgent("a", scopes=frozenset()),
        "An agent needs a scope.",
        "Say one of: read, work, operate.",
    ),
    (lambda: agents.NewAgent(" "), "The name of an agent is blank.", "Give it one that people can read."),
    (lambda: agents.NewAgent("a", frozenset({""})), "The group of an agent is blank.", "Give it one that people can"),
    (
        lambda: agents.NewAgent("a", uid=" u"),
        "The uid ' u' has blanks around it, or characters that cannot be shown.",
        "Use letters, digits and signs on one line.",
    ),
    (
        lambda: agents.NewAgent("a\tb"),
        "The name 'a\\tb' has blanks around it, or characters that cannot be shown.",
        "Use letters, digits and signs on one line.",
    ),
    (
        lambda: agents.NewAgent("kqa_x"),
        "The name that was given is a token.",
        "A token is named by the agent that has it.",
    ),
    (lambda: agents.NewAgent("see kqo_" + "x" * 43), "The name that was given is a token.", "A token is named by the"),
    (lambda: agents.NewAgent(LONG), "name has 300 bytes; at most 200 are taken.", "Put long texts into a file"),
    (lambda: agents.NewAgent("a", life_ms=-1), f"expires_ms must be {LIFE}, not '-1'.", ""),
    (
        lambda: agents.token_to_issue("hunter2"),
        "What was given as the token of an agent is none.",
        "Leave it out, and one is made.",
    ),
]


@pytest.mark.parametrize(("call", "sentence", "advice"), [*PLACES, *WORK, *AGENTS])
def test_a_refusal_says_what_is_wrong_and_what_to_do(call: Callable[[], object], sentence: str, advice: str) -> None:
    """Word for word: what is quoted of the input is cut, and secrets are hidden."""
    said, next_step = told(call)

    assert said.startswith(sentence)
    assert said == sentence or not sentence.endswith(".")
    assert next_step.startswith(advice)
    assert next_step == advice or not advice.endswith(".")
    assert bool(next_step) == bool(advice)


@pytest.mark.parametrize(("data", "sentence", "advice"), LINES)
def test_a_bad_line_is_named(data: bytes, sentence: str, advice: str) -> None:
    """With its number, for it is one of many."""
    said, next_step = told(lambda: work_lines.parse_lines(data, 0.0, "me", ""))

    assert said.startswith(sentence)
    assert next_step == advice


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (b'{"missionId": "m", "priority": 2, "seq": 1, "kranzq": 7}', "'kranzq' is no object"),
        (b'{"missionId": "m", "priority": 2, "seq": 1, "kranzq": {"id": "z"}}', "'kranzq.id' is not 32 hex digits"),
        (b'{"missionId": "m", "priority": NaN, "seq": 1}', "it is not JSON (NaN is no JSON number)"),
        (b'{"missionId": 7, "priority": 2, "seq": 1}', "'missionId' is no text"),
        (b'{"priority": 2, "seq": 1}', "'missionId' is missing"),
    ],
)
def test_a_bad_entry_says_which_field(content: bytes, why: str) -> None:
    """It lies in the quarantine with this reason."""
    with pytest.raises(BadEntry) as caught:
        parse(content)

    assert caught.value.why.endswith(why)


@pytest.mark.parametrize(
    ("field", "value", "why"),
    [
        ("notBefore", '"2026"', "'kranzq.notBefore' is no RFC 3339 time with a zone"),
        ("after", '["a/b"]', "'kranzq.after': "),
        ("after", '"m"', "'after' is no list of texts"),
        ("command", "[7]", "'command' is no list of texts"),
        ("again", "1", "'again' is neither true nor false"),
        ("timeoutSeconds", "0", "'timeoutSeconds' is no positive number of seconds"),
        ("timeoutSeconds", "true", "'timeoutSeconds' is no positive number of seconds"),
        ("env", "[]", "'env' is no object"),
        ("env", '{"A=B": "x"}', "'env' has a bad variable 'A=B'"),
        ("env", '{"A": "x\\u0000"}', "'env' has a bad variable 'A'"),
        ("env", '{"A\\u0000": "x"}', "'env' has a bad variable 'A\\x00'"),
    ],
)
def test_a_bad_field_of_ours_says_why(field: str, value: str, why: str) -> None:
    """What kranz ignores must be right for us."""
    content = f'{{"missionId": "m", "priority": 2, "seq": 1, "kranzq": {{"id": "{"a" * 32}", "{field}": {value}}}}}'
    with pytest.raises(BadEntry) as caught:
        parse(content.encode())

    assert why in caught.value.why
    assert not caught.value.why.endswith(".")


@pytest.mark.parametrize(
    ("ending", "interruptions", "limits", "reason"),
    [
        (
            Ending(Outcome.NOT_STARTED, not_started=NotStarted.ENTRY),
            0,
            Limits(),
            "its command could not be started",
        ),
        (Ending(Outcome.NOT_STARTED, "no such file", not_started=NotStarted.ENTRY), 0, Limits(), "no such file"),
        (
            Ending(Outcome.INTERRUPTED),
            0,
            Limits(park_interrupted=True),
            'interrupted, and on_interrupted is "park"',
        ),
        (Ending(Outcome.INTERRUPTED), 2, Limits(), "interrupted 3 times: it would be interrupted again"),
    ],
)
def test_what_is_parked_says_why(ending: Ending, interruptions: int, limits: Limits, reason: str) -> None:
    """The reason stands beside the parked entry."""
    fate = decide(ending, Counters(interruptions=interruptions), limits, now=0.0, jitter=lambda: 0.0)

    assert fate == Park(reason)


def test_one_interruption_less_is_no_reason_to_park() -> None:
    """The limit is the limit."""
    fate = decide(Ending(Outcome.INTERRUPTED), Counters(interruptions=1), Limits(), now=0.0, jitter=lambda: 0.0)

    assert not isinstance(fate, Park)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("+3651d", "is more than 3650 days from now"),
        ("30", "is a bare number, which may mean seconds, minutes or milliseconds"),
        ("soon", "is no time"),
        ("2026-08-01T06:00:00", "has no time zone, so it is another instant on another machine"),
        ("0001-01-01T00:00:00+23:59", "is no time that exists in every zone"),
        ("2026-08-01T06:00:00+24:00", "is no time that exists (there is no zone +24:00)"),
    ],
)
def test_a_time_that_is_none_says_why(text: str, why: str) -> None:
    """Half a sentence: whoever asks has named the text."""
    with pytest.raises(ValueError, match=r".") as caught:
        parse_when(text, 0.0)

    assert str(caught.value) == why


def test_ten_years_are_not_too_far() -> None:
    """The limit is the limit."""
    assert parse_when("+3650d", 0.0) == 3650 * 86_400


@pytest.mark.parametrize(
    ("seconds", "shown"), [(119, "119 seconds"), (120, "2 minutes"), (7140, "119 minutes"), (7200, "2 hours")]
)
def test_a_span_is_shown_in_the_largest_unit_that_it_has_twice(seconds: float, shown: str) -> None:
    """So that no half of it is lost."""
    assert span(seconds) == shown


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "it is empty"),
        ("m" * 129, "it is longer than 128 characters"),
        ("-m", "it has a character that is not allowed, or begins with one of . _ -"),
        ("a..b", "it contains '..'"),
        ("a.Claimed.1", "it contains '.claimed.' or ends in '.claimed', which marks a claim"),
        ("a.claimed", "it contains '.claimed.' or ends in '.claimed', which marks a claim"),
        ("a.JSON", "it ends in '.json'"),
        ("a.json.why", "it ends in '.json.why'"),
        ("a.tmp", "it ends in '.tmp'"),
        ("a.lock", "it ends in '.lock'"),
    ],
)
def test_a_text_that_is_no_id_says_why(text: str, why: str) -> None:
    """Whoever typed it sees what to change."""
    with pytest.raises(BadMissionId) as caught:
        MissionId(text)

    assert caught.value.sentence.endswith(f"{why}.")


def test_a_due_time_that_is_none_is_told_with_its_name() -> None:
    """And what would be understood; of a long text the beginning."""
    assert due("--not-before", "+1m", 5.0) == 65.0
    assert told(lambda: due("--not-before", "x" * 200, 5.0)) == (f"--not-before {'x' * 140!r} is no time.", FORMS)
