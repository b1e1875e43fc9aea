"""The short form of the laboratory's errors: a choice of the seed, from each kind of verb."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.proof import errors
from tests.proof.asked import Asked

pytestmark = [pytest.mark.crash, pytest.mark.slow, pytest.mark.system("strace", "gcc")]
SECONDS = 25
CHOSEN = ("park waiting@", "work release@", "turn admits@")
FEW = 3


def test_a_verb_whose_calls_fail_says_so_and_leaves_nothing_half_done(tmp_path: Path) -> None:
    """A park, a release of an item and a turn with its keeper meet errors where the seed says."""
    found = errors.run(Asked(tmp_path, seed=1, jobs=1, seconds=SECONDS, only=CHOSEN))

    assert found.faults == []
    assert isinstance(hit := found.counts["faults put in"], int)
    assert hit >= FEW
