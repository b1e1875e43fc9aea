"""A short look at what a power cut may leave; the whole is `scripts/lab power`."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.proof.asked import Asked
from tests.proof.power import SURE, run

SEED = 20261130
SECONDS = 20.0


@pytest.mark.crash
@pytest.mark.slow
@pytest.mark.system("strace", "git")
def test_a_power_cut_takes_nothing_that_was_reported(tmp_path: Path) -> None:
    """Of some verbs, chosen by a seed, some states that a disk may have: each is recovered as it must be."""
    result = run(Asked(tmp_path, seed=SEED, jobs=1, seconds=SECONDS))

    assert list(result.faults) == []
    assert result.counts["recovered and examined"] >= SURE  # type: ignore[operator]
