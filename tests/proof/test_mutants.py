"""The unit tests of the pure rooms notice small faults; those that nobody notices are listed with the reason."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.proof import mutants
from tests.proof.asked import Asked
from tests.proof.mutants import Mutant

LIVING = Mutant("m__mutmut_1", "survived", "model.m.f: a => b")


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_a_sample_of_small_faults_is_noticed(tmp_path: Path) -> None:
    """One module, as the seed chooses; what lives there is listed."""
    result = mutants.run(Asked(tmp_path, jobs=1, seconds=20, only=("model/ids", "model/item_policy", "model/tree")))

    assert result.faults == []
    assert float(result.counts["mutants"]) >= 20
    assert float(result.counts["killed, %"]) >= mutants.WANTED_PERCENT


def tried(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, *seen: Mutant) -> list[str]:
    """The faults of a whole run in which each module has these mutants."""
    monkeypatch.setattr(mutants, "try_module", lambda *_: list(seen))
    return list(mutants.run(Asked(tmp_path, only=("model/ids",))).faults)


def test_a_mutant_that_lives_and_is_not_listed_is_a_fault(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A test that runs for ever has noticed it; one that is not there has not."""
    killed = [Mutant(f"k{number}", status, "") for number, status in enumerate(["killed"] * 18 + ["timeout"])]
    monkeypatch.setattr(mutants, "alive", dict)

    for status in ("survived", "no tests"):
        (fault,) = tried(monkeypatch, tmp_path, *killed, Mutant("m", status, LIVING.change))
        assert fault == "no test notices model.m.f: a => b"
    monkeypatch.setattr(mutants, "alive", lambda: {LIVING.change: "it changes nothing"})
    assert tried(monkeypatch, tmp_path, *killed, LIVING) == []


def test_too_many_that_live_are_a_fault_though_they_are_listed(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Nine in ten are to be noticed."""
    monkeypatch.setattr(mutants, "alive", lambda: {LIVING.change: "it changes nothing"})

    (fault,) = tried(monkeypatch, tmp_path, *[Mutant("k", "killed", "")] * 8, LIVING)
    assert fault == "88.9 % of the mutants are killed, less than 90 %"


def test_what_may_live_says_why() -> None:
    """Each group has its reason, and no change stands there twice."""
    known = mutants.alive()
    text = mutants.ALIVE.read_text(encoding="utf-8")

    assert all(len(why) > 10 for why in known.values())
    assert text.count(" => ") == len(known)


def test_each_module_is_tried_with_the_tests_that_name_it(tmp_path: Path) -> None:
    """A copy, with what mutmut needs to know in it; the checkout stays as it is."""
    before = (mutants.REPO / "pyproject.toml").read_text()
    tests = mutants.tests_of("kranzq/model/ids.py", mutants.ROOMS["model"][1])
    mutants.make_copy(tmp_path / "copy", "kranzq/model/ids.py", tests)
    settings = (tmp_path / "copy/pyproject.toml").read_text()

    assert "tests/unit/model/test_ids.py" in tests
    assert "tests/unit/model/test_clock.py" not in tests
    assert 'only_mutate = ["kranzq/model/ids.py"]' in settings
    assert (mutants.REPO / "pyproject.toml").read_text() == before
