"""Programs that renew, release and ask at once, on one file and on one server: one row for one holder and subject."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from kranzq import work
from kranzq.model.claim import Holder
from kranzq.model.presence import NewPresence, Subject

pytestmark = [pytest.mark.race, pytest.mark.slow]
PROGRAMS, ROUNDS, SUBJECTS = 4, 25, 3
RENEWS = """
import json, sys
from kranzq import work
from kranzq.model.claim import Holder
from kranzq.model.presence import NewPresence, Subject
url, rounds, subjects = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
with work.open(url) as store:
    print("ready", flush=True)
    sys.stdin.readline()
    seen = []
    for number in range(rounds * subjects):
        put = store.presence.put(NewPresence(Holder("ann", uid="u-1"), Subject("o/r", f"path {number % subjects}")))
        seen.append((put.claim.subject.path, put.claim.id, put.renewed))
        assert len(store.presence.live()) <= subjects
print(json.dumps(seen))
"""
CHANGES = """
import random, sys
from kranzq import work
from kranzq.model.claim import Holder
from kranzq.model.presence import NewPresence, Subject
url, rounds, seed = sys.argv[1], int(sys.argv[2]), sys.argv[3]
random.seed(seed)
me, mine = Holder(f"agent {seed}"), set()
with work.open(url) as store:
    print("ready", flush=True)
    sys.stdin.readline()
    for _ in range(rounds * 3):
        topic = f"topic {random.randrange(4)}"
        if random.random() < 0.5:
            put = store.presence.put(NewPresence(me, Subject(topic=topic)))
            assert put.renewed == (topic in mine), topic
            mine.add(topic)
        else:
            found = [one for one in store.presence.live() if one.agent == me.name]
            assert {one.subject.topic for one in found} == mine, found
            if found:
                assert store.presence.release(me, found[0].id) == [found[0]]
                mine.discard(found[0].subject.topic)
print(len(mine))
"""


@pytest.fixture(params=["sqlite", "postgres"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """A database of each engine."""
    if request.param == "postgres":
        return str(request.getfixturevalue("postgres_url"))
    return f"sqlite://{tmp_path}/work.db"


def all_at_once(program: str, *words: list[str]) -> list[str]:
    """Start one program for each list of words, let them go in the same moment; what each printed last."""
    started = [
        subprocess.Popen(
            [sys.executable, "-c", program, *each], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        for each in words
    ]
    for one in started:
        assert one.stdout is not None
        assert one.stdout.readline() == "ready\n"
    for one in started:
        assert one.stdin is not None
        one.stdin.write("go\n")
        one.stdin.flush()
    said = [one.communicate(timeout=100)[0] for one in started]
    assert [one.returncode for one in started] == [0] * len(started)
    return said


def test_programs_that_renew_at_once_make_one_row(url: str) -> None:
    """Whoever is first makes the claim, and all others renew that one: one id for each subject, made once."""
    work.open(url).close()
    said = all_at_once(RENEWS, *[[url, str(ROUNDS), str(SUBJECTS)]] * PROGRAMS)
    seen = [tuple(one) for text in said for one in json.loads(text)]

    assert len({(path, name) for path, name, _ in seen}) == SUBJECTS
    assert [renewed for *_, renewed in seen].count(False) == SUBJECTS
    with work.open(url) as store:
        assert len(store.presence.live()) == SUBJECTS


def test_each_program_sees_its_own_changes_among_those_of_others(url: str) -> None:
    """A claim is renewed exactly if it is there, a release gives back exactly it, whatever others do meanwhile."""
    work.open(url).close()
    said = all_at_once(CHANGES, *[[url, str(ROUNDS), str(seed)] for seed in range(PROGRAMS)])

    with work.open(url) as store:
        assert len(store.presence.live()) == sum(int(text) for text in said)
        other = store.presence.put(NewPresence(Holder("another"), Subject(topic="topic 0")))
        assert not other.renewed


def test_w6_a_holder_has_no_more_claims_than_it_may_however_many_it_makes_at_once(url: str) -> None:
    """Each of many threads finds one place left, and one of them gets it."""
    me, full = Holder("ann", uid="u-1"), list[int]()

    def claim(first: int) -> None:
        for number in range(first, first + 15):
            try:
                store.presence.put(NewPresence(me, Subject(topic=f"topic {number}")))
            except work.PresenceFull:
                full.append(number)

    with work.open(url) as store:
        threads = [threading.Thread(target=claim, args=(15 * number,)) for number in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

        assert (len(store.presence.live()), len(full)) == (100, 20)
