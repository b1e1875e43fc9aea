"""The short forms of the storms: all at work at once, killed, stopped and refused; nothing is lost, nothing twice."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests import postgres
from tests.proof.asked import Asked, Result
from tests.proof.storm import run
from tests.proof.storm_schedule import schedule

pytestmark = [pytest.mark.race, pytest.mark.slow, pytest.mark.timeout(300)]


def storm(folder: Path, only: str, seconds: float) -> Result:
    """One kind of storm."""
    return run(Asked(folder, seed=387, jobs=1, seconds=seconds, only=(only,)))


@pytest.mark.system("unshare")
def test_a_storm_over_a_checkout_loses_nothing_and_doubles_nothing(tmp_path: Path) -> None:
    """Daemon, drains, enqueuers and those who amend, under kills, stops, clock steps and a disk that fails."""
    result = storm(tmp_path, "files", 14)

    assert not result.faults, "\n".join(result.faults)
    assert float(result.counts["kills"]) > 10
    assert float(result.counts["missions run"]) > 5


@pytest.mark.parametrize("engine", ["sqlite", "postgres"])
def test_a_storm_over_a_work_queue_keeps_its_promises(tmp_path: Path, engine: str) -> None:
    """Agents under kills and stops, and a server that is killed and comes back."""
    if engine == "postgres" and not postgres.has_binaries():
        pytest.skip(postgres.MISSING)
    result = storm(tmp_path, engine, 28)

    assert not result.faults, "\n".join(result.faults)
    assert float(result.counts[f"{engine}: kills: agent"]) > 3
    assert float(result.counts[f"{engine}: calls"]) > 100


def test_recovery_is_measured(tmp_path: Path) -> None:
    """From a kill to the next mission; how fast that is depends on what else the machine does just now."""
    result = storm(tmp_path, "recovery", 1)

    assert not [fault for fault in result.faults if "p99" not in fault]
    assert float(result.counts["recovery, TERM obeyed: trials"]) >= 1
    assert float(result.counts["recovery, TERM ignored: p50 ms"]) > 1_000


def test_a_seed_draws_the_same_storm_again_and_another_one_another() -> None:
    """The schedule is all of a storm that can be had again; the machine's own timing cannot."""
    assert schedule(1, 60) == schedule(1, 60)
    assert schedule(1, 60) != schedule(2, 60)
    assert {act.what for act in schedule(1, 60)} == {"kill", "stop", "term", "step", "disk"}
