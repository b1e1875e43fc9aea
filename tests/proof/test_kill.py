"""The short form of the laboratory's kills: a choice of the seed, from each kind of verb."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.proof import kill
from tests.proof.asked import Asked

pytestmark = [pytest.mark.crash, pytest.mark.slow, pytest.mark.system("strace", "gcc")]
SECONDS = 25
CHOSEN = ("enqueue with source@", "work claim@", "turn admits@")
FEW = 3


def test_a_verb_that_is_killed_anywhere_loses_nothing_and_leaves_nothing(tmp_path: Path) -> None:
    """An enqueue, a claim of an item and a turn with its keeper are killed where the seed says."""
    found = kill.run(Asked(tmp_path, seed=1, jobs=1, seconds=SECONDS, only=CHOSEN))

    assert found.faults == []
    assert isinstance(hit := found.counts["distinct points killed at"], int)
    assert hit >= FEW
