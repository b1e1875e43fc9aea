"""The protocols hold in every state that their models can reach, and each rule of them is needed for that."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.proof import models
from tests.proof.asked import Asked
from tests.proof.models import Search
from tests.proof.models_rules import RULES, Rule


@pytest.mark.slow
@pytest.mark.system("spin", "gcc")
@pytest.mark.timeout(900)
def test_no_state_breaks_a_promise_and_each_rule_is_needed(tmp_path: Path) -> None:
    """Eight scenes searched whole; each rule taken away makes a promise fail."""
    result = models.run(Asked(tmp_path, jobs=1, seconds=30))

    assert result.faults == []
    assert float(result.counts["states explored"]) > 2_000_000
    assert result.counts["rules missed then"] == result.counts["rules taken away"] == len(RULES)


@pytest.mark.parametrize(
    ("seen", "expected"),
    [
        (Search(states=9), "nothing fails"),
        (Search(states=9, failed="(runs<3)"), "no promise"),
        (Search(trouble="pan: out of memory"), "out of memory"),
    ],
)
def test_a_rule_that_nothing_needs_is_a_fault(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seen: Search, expected: str
) -> None:
    """Not needed, or the model is too weak: either way somebody must look."""
    monkeypatch.setattr(models, "search", lambda *_, **__: seen)
    monkeypatch.setattr(models, "SCENES", ())

    result = models.run(Asked(tmp_path, jobs=1, seconds=1, only=("NO_TOUCH",)))

    (fault,) = result.faults
    assert "NO_TOUCH" in fault
    assert expected in fault


def test_a_promise_that_does_not_hold_is_a_fault(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is told with the sizes at which it is seen again."""
    monkeypatch.setattr(models, "search", lambda *_, **__: Search(states=9, failed="(tree[r2]==0)"))
    monkeypatch.setattr(models, "RULES", ())
    monkeypatch.setattr(models, "_unnamed", list)

    result = models.run(Asked(tmp_path, jobs=1, seconds=1, only=("power cut",)))

    assert result.counts["promises broken"] == 1
    assert "KILLS=0 CUTS=1" in result.faults[0]


def test_a_macro_without_its_rule_is_a_fault(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What can be taken away in the text is taken away by the part."""
    kept = tuple(one for one in RULES if one.name != "NO_TOUCH")
    monkeypatch.setattr(models, "RULES", (*kept, Rule("NO_SENSE", "lock", (), "", "")))

    result = models.run(Asked(tmp_path, jobs=1, seconds=1, only=("no such name",)))

    assert result.faults == [
        "entry.pml: NO_TOUCH is no rule of models_rules.py",
        "lock.pml knows no NO_SENSE",
    ]
