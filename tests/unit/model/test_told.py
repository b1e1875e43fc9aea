"""What values tell people and programs about work, places, times and processes: exact words, exact limits."""

from __future__ import annotations

import datetime as dt
import time

import pytest

from kranzq.model.claim import Holder
from kranzq.model.clock import rfc3339
from kranzq.model.database_url import DatabaseUrl, shown, stripped
from kranzq.model.outcome import Park
from kranzq.model.policy import Counters, Limits, deferral
from kranzq.model.presence import (
    MOST_PATH,
    MOST_TOPIC,
    NewPresence,
    PresenceClaim,
    Subject,
    Whereabouts,
    one_line,
    subject_of,
)
from kranzq.model.process import ProcessIdentity
from kranzq.model.repository import repo_key, same_repository, tail_of
from kranzq.model.tree import Tree
from kranzq.model.when import parse_when
from kranzq.model.who import Facts, Kind, Match, Question, question_about, question_of, subject_text, who, words_of
from kranzq.model.work_lines import parse_lines

REPO = "hub.example/o/r"
HERE = Whereabouts(REPO, "/home/me/r", "main")
LONG = "p" * 4000


def claim(subject: Subject, *, home: str | None = None) -> PresenceClaim:
    """A live claim."""
    return PresenceClaim("id", "ann", "", "", subject, home, "", 1, 10**15)


@pytest.mark.parametrize(
    ("facts", "question", "match"),
    [
        (
            Facts("a", repo=REPO, dirty=("src/",), git_checked_ms=5),
            Question(REPO, "src/x"),
            Match(Kind.DIRTY, "has uncommitted changes in src/", 5),
        ),
        (
            Facts("a", repo=REPO, dirty=("src/",), git_checked_ms=5),
            Question(REPO, "src"),
            Match(Kind.DIRTY, "has uncommitted changes in src/", 5),
        ),
        (Facts("a", repo=REPO, edited=(("src/x", 7),)), Question(REPO, "src"), Match(Kind.EDITED, "edited src/x", 7)),
        (
            Facts("a", repo=REPO, branch="b", git_checked_ms=5),
            Question(branch="b"),
            Match(Kind.BRANCH, "is on branch b", 5),
        ),
        (Facts("a", repo=REPO, git_checked_ms=5), Question(REPO), Match(Kind.REPO, f"works in {REPO}", 5)),
        (
            Facts("a", goal='Mend "it"'),
            Question(words=words_of("mend it")),
            Match(Kind.GOAL, "has the goal \"Mend 'it'\""),
        ),
        (
            Facts("a", todos=("mend it",)),
            Question(words=words_of("mend it")),
            Match(Kind.TODO, 'means to do "mend it"'),
        ),
    ],
)
def test_each_fact_is_told_in_its_words(facts: Facts, question: Question, match: Match) -> None:
    """With since when, where that is known."""
    (found,) = who(question, [], facts=[facts])

    assert found.matches == (match,)


def test_a_path_is_met_in_its_own_repository_only() -> None:
    """The same name elsewhere is another file."""
    facts = Facts("a", repo="hub.example/o/other", dirty=("src",), edited=(("src", 1),))

    assert who(Question(REPO, "src"), [], facts=[facts]) == ()


def test_two_people_of_one_name_are_two() -> None:
    """A uid tells them apart; a claim that does not meet is no reason to stop looking."""
    facts = [Facts("ann", "u-1", repo=REPO), Facts("ann", "u-2", repo=REPO)]
    claims = [claim(Subject("hub.example/o/other", "")), claim(Subject(REPO, ""))]

    assert len(who(Question(REPO), claims, facts=facts)) == 3


@pytest.mark.parametrize(
    ("subject", "home", "question"),
    [
        (Subject(REPO, ""), None, Question(REPO)),
        (Subject(REPO, "src"), None, Question(REPO, "src")),
        (Subject(REPO, "", None, "b"), None, Question(REPO, "", None, "b")),
        (Subject(None, None, None, "b"), REPO, Question(REPO, None, None, "b")),
        (Subject("hub.example/o/x", None, None, "b"), REPO, Question("hub.example/o/x", None, None, "b")),
        (Subject(REPO, "", None, None, "t"), None, Question(REPO, "", words=words_of("t"))),
        (Subject(None, None, None, None, "Two words"), REPO, Question(words=words_of("two words"))),
        (Subject(None, None, "/x"), REPO, Question(None, None, "/x")),
    ],
)
def test_what_was_claimed_is_what_is_asked(subject: Subject, home: str | None, question: Question) -> None:
    """The holder's own repository helps with branches, and with nothing else."""
    assert question_about(claim(subject, home=home)) == question


def test_where_one_works_helps_to_name_things() -> None:
    """A repository's short name, clones elsewhere, and what a link leads to."""
    other = Whereabouts("hub.example/o/x", "/srv/x")
    assert question_of(repo="o/r", here=HERE).repo == REPO
    assert question_of(path="/srv/x/a", here=HERE, clones=[other]) == Question("hub.example/o/x", "a")
    assert question_of(path="data", here=HERE, leads_to="/mnt/d").absolute_path == "/mnt/d"


def test_a_subject_is_told_part_by_part() -> None:
    """In one line."""
    assert subject_text(Subject(REPO, "", None, "b", "t")) == f'the whole repository "{REPO}", branch "b", topic "t"'
    assert subject_text(Subject(None, "")) == 'the whole repository ""'


def test_each_part_of_a_claim_is_cut_and_kept() -> None:
    """Absolute path and topic as well; the home of the holder too."""
    made = NewPresence(Holder("ann"), Subject(REPO, None, "/" + LONG, "b", "T" * 4000), home=f" {REPO} ")

    assert made.subject.absolute_path == ("/" + LONG)[: MOST_PATH - 1] + "…"
    assert made.subject.topic == "T" * (MOST_TOPIC - 1) + "…"
    assert made.subject.path is None
    assert made.home == REPO
    assert not Subject(topic="a").same_as(Subject(topic="b"))
    assert Subject(topic="A").same_as(Subject(topic="a"))


def test_a_long_path_is_cut_once() -> None:
    """At its limit it is whole, one letter more and it ends in an ellipsis."""
    assert subject_of(path="p" * MOST_PATH, here=HERE).path == "p" * MOST_PATH
    assert subject_of(path="p" * (MOST_PATH + 1), here=HERE).path == "p" * (MOST_PATH - 1) + "…"
    assert one_line("a" + " " * 100_000 + "b", 5) == "a b"


@pytest.mark.parametrize(
    ("text", "offset_minutes"),
    [("Z", 0), ("+01:30", 90), ("-01:30", -90), ("+23:59", 1439), ("-23:59", -1439)],
)
def test_a_zone_is_east_or_west(text: str, offset_minutes: int) -> None:
    """With its minutes."""
    there = parse_when(f"2030-01-31T09:00:00.25{text}", 0.0)

    assert there == dt.datetime(2030, 1, 31, 9, tzinfo=dt.UTC).timestamp() - offset_minutes * 60 + 0.25


@pytest.mark.parametrize(
    ("key", "tail"), [("hub.example/a/o/r", "o/r"), ("hub.example/o/r", "o/r"), ("o/r", "o/r"), ("r", "r")]
)
def test_a_repository_is_shown_by_its_end(key: str, tail: str) -> None:
    """Owner and name."""
    assert tail_of(key) == tail


def test_places_of_this_machine_are_no_addresses() -> None:
    """However they begin; whatever stands behind a question mark is no part of an address."""
    for text in ("./o/r", "../o/r", "\\o\\r", ".\\o\\r", "..\\o\\r", "~/o/r"):
        with pytest.raises(Exception, match="names no repository"):
            repo_key(text)
    assert repo_key("https://hub.example/o/r?x=1?y#z") == REPO
    assert same_repository("o/r", REPO)


@pytest.mark.parametrize(
    ("pid", "ticks", "is_one"), [(1, 0, True), (2, None, True), (0, 5, False), (1, -1, False), (True, 5, False)]
)
def test_what_may_be_a_process(pid: object, ticks: object, *, is_one: bool) -> None:
    """Number 1 and a start at tick 0 are."""
    value = ProcessIdentity(9, 9, "b", "m", "p", "t").to_json() | {"pid": pid, "startTicks": ticks}

    assert (ProcessIdentity.from_json(value) is not None) is is_one


@pytest.mark.parametrize(
    ("url", "hidden"),
    [
        ("postgresql://u:p:q@h/d", "postgresql://u:***@h/d"),
        ("postgresql://u@h/d", "postgresql://u@h/d"),
        ("postgresql://u:@h/d", "postgresql://u:@h/d"),
        ("postgresql://h/d?x=a://b", "postgresql://h/d?x=a://b"),
    ],
)
def test_a_password_in_a_url_is_hidden(url: str, hidden: str) -> None:
    """All of it, and nothing else."""
    assert shown(url) == hidden
    assert repr(DatabaseUrl.parse(url)) == repr(hidden)


def test_a_url_is_kept_without_its_password() -> None:
    """What is left leads to the same database."""
    assert stripped("postgresql://u:p@h/d") == "postgresql://u@h/d"
    assert stripped("postgres://h/d?sslmode=require&password=p") == "postgres://h/d?sslmode=require"
    assert stripped("postgresql://h/d?password=p") == "postgresql://h/d"


def test_a_tree_is_told_in_words() -> None:
    """One file, two files, and where the lock went."""
    one = Tree.from_json({"branch": "b", "changed": {"count": 1, "names": ["x"], "complete": True}})
    two = Tree.from_json({"branch": "b", "changed": {"count": 2, "names": ["x", "y"], "complete": True}})
    assert one is not None
    assert two is not None

    assert "1 changed file: x" in one.sentence
    assert "2 changed files: x, y" in two.sentence


def test_a_claim_lives_until_its_time_is_over() -> None:
    """At that very moment it is over."""
    made = claim(Subject(REPO))

    assert [made.is_live(made.expires_at - 1), made.is_live(made.expires_at)] == [True, False]


def test_an_untracked_folder_is_met_by_what_lies_in_it_and_around_it() -> None:
    """A slash at its end tells that all in it is new; blanks in names are names."""
    facts = [Facts("a", repo=REPO, dirty=("new/",))]
    for path in ("", "new", "new/x"):
        assert who(Question(REPO, path), [], facts=facts)
    assert not who(Question(REPO, "newer"), [], facts=facts)
    assert not who(Question(REPO, "n"), [], facts=[Facts("a", repo=REPO, dirty=("n ",))])


@pytest.mark.parametrize("scheme", ["postgres", "postgresql"])
def test_both_names_of_the_server_are_known(scheme: str) -> None:
    """As its own tools do."""
    assert DatabaseUrl.parse(f"{scheme}://h/d").sqlite_path is None


def test_where_a_file_is_that_a_url_names() -> None:
    """With two, three or four slashes; a folder is none, nor is a relative path."""
    assert DatabaseUrl.parse("sqlite:///a/b.db").sqlite_path == "/a/b.db"
    assert DatabaseUrl.parse("sqlite:////a/b.db").sqlite_path == "/a/b.db"
    for text in ("sqlite://a.db", "sqlite:///a/", "sqlite://///", "mysql://h/d", "sqlite://", "/a/b.db"):
        with pytest.raises(ValueError, match=r"must be|no absolute path"):
            DatabaseUrl.parse(text)


def test_times_are_told_in_utc_wherever_one_is(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever the zone of the machine."""
    with monkeypatch.context() as patched:
        patched.setenv("TZ", "Pacific/Kiritimati")
        time.tzset()
        told = rfc3339(0.0)
    time.tzset()

    assert told == "1970-01-01T00:00:00.000Z"


def test_half_a_list_of_changes_is_none() -> None:
    """A record that somebody damaged tells nothing of files."""
    for changed in ({"count": 1, "names": "x"}, {"count": "1", "names": ["x"]}):
        tree = Tree.from_json({"branch": "b", "changed": changed})
        assert tree is None or tree.changed is None


def test_what_deferred_itself_for_exactly_the_limit_may_once_more() -> None:
    """Longer than that it is parked."""
    limits = Limits(deferral_s=100.0)
    counters = Counters(first_deferred_at=1000.0)

    assert deferral(counters, limits, 1100.0, lambda: 0.0, 5000.0) == 5_000_000
    assert isinstance(deferral(counters, limits, 1101.0, lambda: 0.0, 5000.0), Park)


def test_a_span_in_a_line_counts_from_when_the_lines_were_read() -> None:
    """All of a file from one moment."""
    (made,) = parse_lines(b'{"title": "t", "payload": "p", "not_before": "+1h"}', 1_700_000_000.0, "", "")

    assert made.not_before == 1_700_003_600_000
