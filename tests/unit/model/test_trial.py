"""How far each promise holds on a disk: the worst of the trials that bear on it, and by which of them."""

from __future__ import annotations

from kranzq.model.trial import PROMISES, Kept, Trial, Verdict, kept

WORST = Verdict.BROKEN
BEST = Verdict.HOLDS


def trial(name: str, verdict: Verdict, *promises: int) -> Trial:
    """One trial."""
    return Trial(name, promises, verdict, 3, "text")


def test_a_promise_is_as_good_as_its_worst_trial() -> None:
    """All that were as bad are named; what nobody tried is said to be untried."""
    first, second, third, *_ = PROMISES
    found = kept(
        [
            trial("a", BEST, first, second),
            trial("b", WORST, first),
            trial("c", WORST, first),
            trial("d", BEST, second),
            trial("e", WORST),
        ]
    )

    assert [one.number for one in found] == list(PROMISES)
    assert found[0] == Kept(first, PROMISES[first], WORST, ("b", "c"))
    assert found[1] == Kept(second, PROMISES[second], BEST, ("a", "d"))
    assert found[2] == Kept(third, PROMISES[third], Verdict.UNTRIED, ())


def test_both_have_their_documented_keys() -> None:
    """Programs read them."""
    assert Trial("n", (1, 2), BEST, 3, "t", "a").to_json() == {
        "name": "n",
        "promises": [1, 2],
        "verdict": BEST.value,
        "tried": 3,
        "text": "t",
        "advice": "a",
    }
    assert Kept(1, "p", WORST, ("n",)).to_json() == {
        "promise": 1,
        "text": "p",
        "verdict": WORST.value,
        "trials": ["n"],
    }
