"""What presence promises, whoever keeps it: claims that are renewed, released by their holder, and vanish by one rule.

Write a class that inherits `PresenceContract` and has a fixture `presences`; its name begins with `Test`.
"""

from __future__ import annotations

import itertools
from typing import Protocol

from kranzq.backend.presence import Presence
from kranzq.errors import PresenceFull, UsageFault
from kranzq.model.claim import Holder
from kranzq.model.presence import MOST_CLAIMS, MOST_NOTE, MOST_PATH, NewPresence, PresenceClaim, Subject
from kranzq.model.who import Question, question_about, question_of, who, words_of
from kranzq.testing.store import refused, together

ANN, BOB = Holder("Ann"), Holder("bob")
ANN_UID = Holder("Ann", uid="u-1")
REPO, OTHER_REPO = "hub.example/owner/repo", "lab.example/a/owner/repo"
SRV = Subject(REPO, "crates/srv")
MINUTE_S = 60.0


class Presences(Protocol):
    """What the suite works on: an empty store of one's own for each test, whose time passes when it is told to."""

    def open(self) -> Presence:
        """Presence on the store; each call may give another one, as another process would have it."""
        ...

    def pass_time(self, seconds: float) -> None:
        """Let that time pass for every claim."""
        ...


def new(holder: Holder, subject: Subject, note: str = "", minutes: int | None = None) -> NewPresence:
    """A claim that is to be put."""
    return NewPresence(holder, subject, note, minutes)


def subjects(found: list[PresenceClaim]) -> list[Subject]:
    """What claims are about, in order."""
    return [one.subject for one in found]


class PresenceContract:
    """The promises; `presences` is a fixture of the subclass."""

    def test_a_claim_is_there_for_everybody(self, presences: Presences) -> None:
        """What was put is shown by whoever looks next, every part as it was."""
        about = Subject(REPO, "a/b", "/abs", "Main", "Log In")
        claim = presences.open().put(NewPresence(ANN_UID, about, "é 漢 🙂", 30, "local:/x", "a channel")).claim

        assert presences.open().live() == [claim]
        assert (claim.agent, claim.agent_uid, claim.channel, claim.home) == ("Ann", "u-1", "a channel", "local:/x")
        assert (claim.subject, claim.note, claim.expires_at - claim.created_at) == (about, "é 漢 🙂", 30 * 60_000)

    def test_renewal_keeps_id_and_start(self, presences: Presences) -> None:
        """The same holder and subject again is the same claim with a new note and a new end."""
        first = presences.open().put(new(ANN, SRV, "one"))
        presences.pass_time(MINUTE_S)
        (there,) = presences.open().live()
        second = presences.open().put(new(Holder("ANN"), SRV, "two", 300))

        assert (first.renewed, second.renewed) == (False, True)
        assert (second.claim.id, second.claim.created_at) == (first.claim.id, there.created_at)
        assert (second.claim.note, second.claim.agent) == ("two", "ANN")
        assert second.claim.expires_at > there.expires_at
        assert presences.open().live() == [second.claim]

    def test_a_subject_is_the_same_when_every_part_is(self, presences: Presences) -> None:
        """Each other part makes another claim, an absent one equals an absent one, and a topic ignores case."""
        several = [
            Subject(REPO, ""),
            Subject(REPO, None, None, "main"),
            Subject(REPO, "a"),
            Subject(REPO, "a", None, "main"),
            Subject(REPO, "A"),
            Subject(OTHER_REPO, "a"),
            Subject(None, None, "/a"),
            Subject(None, None, None, "main"),
            Subject(None, None, None, "Main"),
            Subject(None, None, None, None, "main"),
        ]
        for about in several:
            assert not presences.open().put(new(ANN, about)).renewed
        for about in (*several, Subject(topic="MAIN")):
            assert presences.open().put(new(ANN, about)).renewed

        assert len(presences.open().live()) == len(several)

    def test_a_topic_is_one_claim_from_wherever_it_is_claimed(self, presences: Presences) -> None:
        """The repository of the holder is no part of what is claimed, and a question about it is not met."""
        store = presences.open()
        store.put(NewPresence(ANN, Subject(topic="login"), home=REPO))
        claim = store.put(NewPresence(ANN, Subject(topic="login"), home=OTHER_REPO)).claim

        assert store.live() == [claim]
        assert store.who(question_of(repo=OTHER_REPO)) == ()
        assert [one.facts.agent for one in store.who(question_of(query="LOGIN"))] == ["Ann"]

    def test_each_holder_has_a_claim_of_its_own(self, presences: Presences) -> None:
        """Two may say that they work on the same: nobody is refused, and each is told of the other."""
        store = presences.open()
        for holder in (ANN, BOB, ANN_UID, Holder("Ann", uid="u-2")):
            assert not store.put(new(holder, SRV)).renewed
        mine = next(one for one in store.live() if one.agent == "bob")

        others = store.who(question_about(mine), caller=BOB)
        assert {(one.facts.agent, one.facts.uid) for one in others} == {("Ann", ""), ("Ann", "u-1"), ("Ann", "u-2")}

    def test_a_uid_is_the_holder_under_whatever_name(self, presences: Presences) -> None:
        """A renamed agent renews and releases its own claim, shown under its new name."""
        store = presences.open()
        first = store.put(new(ANN_UID, SRV)).claim
        again = store.put(new(Holder("Anna", uid="u-1"), SRV))

        assert (again.renewed, again.claim.id, again.claim.agent) == (True, first.id, "Anna")
        assert [one.id for one in store.release(Holder("somebody", uid="u-1"))] == [first.id]

    def test_only_the_holder_releases(self, presences: Presences) -> None:
        """Another name, another uid, or the bare name of a uid's holder end nothing; another case of the name does."""
        store = presences.open()
        by_name, by_uid = store.put(new(ANN, SRV)).claim, store.put(new(ANN_UID, SRV)).claim

        for holder in (BOB, Holder("Ann", uid="u-2"), Holder("ann ")):
            assert store.release(holder) == store.release(holder, by_name.id) == store.release(holder, by_uid.id) == []
        assert store.release(ANN, by_uid.id) == []
        assert store.release(ANN, "no such id") == []
        assert store.release(Holder("aNN"), by_name.id) == [by_name]
        assert store.release(ANN_UID) == [by_uid]
        assert store.release(ANN_UID) == store.live() == []

    def test_all_claims_of_a_holder_are_released_together(self, presences: Presences) -> None:
        """Without an id every claim of the holder ends, in order, and nobody else's."""
        store = presences.open()
        mine = [store.put(new(ANN, Subject(topic=str(number)))).claim for number in range(3)]
        kept = store.put(new(BOB, SRV)).claim

        assert sorted(store.release(ANN), key=lambda one: one.subject.topic or "") == mine
        assert presences.open().live() == [kept]

    def test_an_expired_claim_is_gone_for_every_reader(self, presences: Presences) -> None:
        """Before its end everybody sees it; after it nobody does, it is not released, and to claim is to begin anew."""
        store = presences.open()
        claim = store.put(new(ANN, SRV, minutes=10)).claim
        question = question_of(path="crates/srv/main.rs", repo=REPO)
        presences.pass_time(9 * MINUTE_S)
        assert [one.id for one in store.live()] == [one.id for one in store.about(question)] == [claim.id]
        assert len(store.who(question)) == 1

        presences.pass_time(2 * MINUTE_S)
        assert store.live() == store.about(question) == store.release(ANN) == store.release(ANN, claim.id) == []
        assert store.who(question) == ()
        anew = store.put(new(ANN, SRV))
        assert (anew.renewed, anew.claim.id != claim.id, anew.claim.created_at > claim.created_at) == (
            False,
            True,
            True,
        )

    def test_a_forgotten_renewal_ends_as_said_last(self, presences: Presences) -> None:
        """A renewal counts from the moment at which it is made, and may shorten a claim."""
        store = presences.open()
        store.put(new(ANN, SRV, minutes=100))
        presences.pass_time(MINUTE_S)
        store.put(new(ANN, SRV, minutes=10))
        presences.pass_time(11 * MINUTE_S)

        assert store.live() == []

    def test_lifetimes_are_bounded(self, presences: Presences) -> None:
        """Two hours if nothing is said; never under five minutes, never over a day."""
        store = presences.open()
        for minutes, expected in ((None, 120), (-1, 5), (0, 5), (5, 5), (6, 6), (1440, 1440), (10**30, 1440)):
            claim = store.put(new(ANN, SRV, minutes=minutes)).claim
            presences.open().release(ANN)
            assert round((claim.expires_at - claim.created_at) / 60_000) == expected, minutes

    def test_claims_are_listed_by_their_start(self, presences: Presences) -> None:
        """The oldest comes first, however often it was renewed."""
        store = presences.open()
        about = [Subject(topic=str(number)) for number in (3, 1, 2)]
        for one in about:
            store.put(new(ANN, one))
            presences.pass_time(1)
        store.put(new(ANN, about[0]))

        assert subjects(store.live()) == about

    def test_a_holder_has_so_many_claims_and_no_more(self, presences: Presences) -> None:
        """One more is refused and changes nothing; to renew, to release and other holders still work."""
        store = presences.open()
        for number in range(MOST_CLAIMS):
            store.put(new(ANN, Subject(topic=str(number)), minutes=10))
        with refused(PresenceFull):
            store.put(new(Holder("ann"), SRV))

        assert len(store.live()) == MOST_CLAIMS
        assert store.put(new(ANN, Subject(topic="0"), minutes=20)).renewed
        assert not store.put(new(BOB, SRV)).renewed
        presences.pass_time(15 * MINUTE_S)
        assert not store.put(new(ANN, SRV)).renewed

    def test_what_may_answer_is_found_by_every_road(self, presences: Presences) -> None:
        """Asked anything about anything, a store that looks by indexes finds what a look at all claims finds."""
        store = presences.open()
        parts = (
            (None, REPO, OTHER_REPO, "owner/repo", "b/owner/repo", "local:/x"),
            (None, "", "crates", "crates/srv/main.rs"),
            (None, "/abs/dir"),
            (None, "main"),
            (None, "log in"),
        )
        for number, about in enumerate(itertools.product(*parts)):
            subject = Subject(*about)
            if number % 3 and subject != Subject():
                store.put(NewPresence(Holder(f"agent {number % 7}"), subject, "a word", home=REPO))
        claims = store.live()
        assert len(claims) > MOST_CLAIMS

        for repo, path, absolute, branch, words in itertools.product(*parts):
            question = Question(repo, path, absolute, branch, words_of(words or ""))
            assert store.who(question, caller=Holder("agent 1")) == who(question, claims, caller=Holder("agent 1"))

    def test_those_who_renew_at_once_have_one_claim(self, presences: Presences) -> None:
        """Whoever comes first makes it, and all the others renew it: one row, one id, one that was not there before."""
        for round_ in range(3):
            about, made = Subject(REPO, f"path {round_}"), list[tuple[str, bool]]()

            def put(_: int, about: Subject = about, made: list[tuple[str, bool]] = made) -> None:
                put = presences.open().put(new(ANN, about))
                made.append((put.claim.id, put.renewed))

            together(8, put)
            assert len({name for name, _ in made}) == 1
            assert [renewed for _, renewed in made].count(False) == 1
        assert len(presences.open().live()) == round_ + 1

    def test_texts_are_kept_on_one_line_and_cut(self, presences: Presences) -> None:
        """Whatever is sent, what others get is one line of bounded size, and it is found again."""
        store = presences.open()
        hostile = "a\r\n\x00\x1b[31m\u202eb \ud800" + "x" * 10_000_000
        claim = store.put(new(ANN, Subject(REPO, hostile, hostile, hostile, hostile), hostile)).claim

        assert store.live() == [claim]
        assert claim.note.startswith("a [31m b \ufffdx")
        for text, most in ((claim.note, MOST_NOTE), (claim.subject.path or "", MOST_PATH)):
            assert (len(text), text[-1], text.isprintable()) == (most, "…", True)
        assert store.put(new(ANN, Subject(REPO, hostile, hostile, hostile, hostile))).renewed

    def test_names_that_no_store_keeps_are_refused(self, presences: Presences) -> None:
        """Who claims has a name of bounded size; what is released is named by an id that may be one."""
        store = presences.open()
        for name in ("a\0b", "a\ud800", "x" * 201):
            for holder in (Holder(name), Holder("ann", uid=name)):
                with refused(UsageFault):
                    store.put(new(holder, SRV))
        for name in ("", " \t"):
            with refused(UsageFault):
                store.put(new(Holder(name), SRV))
        with refused(UsageFault):
            store.release(ANN, "a\0b")
        with refused(UsageFault):
            store.put(new(ANN, Subject()))

        assert store.live() == []
