"""Items while the work queue is away, and on several machines at once: PostgreSQL behind a line that can be cut."""

from __future__ import annotations

import itertools
import json
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from kranzq.model.item_policy import mission_of_item
from kranzq.model.work import ItemState
from tests.laboratory import Laboratory, is_alive, wait_for
from tests.postgres_proxy import Proxy
from tests.scenes import passes
from tests.shop import Shop, started

pytestmark = [pytest.mark.slow, pytest.mark.timeout(180)]


@pytest.fixture
def shop(lab: Laboratory, postgres_url: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[Shop]:
    """A checkout that serves a work queue on PostgreSQL."""
    one = Shop(lab, postgres_url, monkeypatch)
    yield one
    one.store.close()


@pytest.fixture
def line(shop: Shop, postgres_url: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[Proxy]:
    """The line to the server, by which the daemons of the checkout reach it."""
    with Proxy(postgres_url) as one:
        monkeypatch.setenv("KRANZQ_WORK_URL", one.url)
        yield one


def test_an_end_waits_for_a_work_queue_that_is_away(shop: Shop, line: Proxy) -> None:
    """The checkout is free meanwhile, people are told, and the end is handed in when the work queue answers."""
    item = shop.add("one", 60)
    mission = mission_of_item(item)
    shop.lab.daemon()
    started(shop.lab, "one")
    line.refuse()
    shop.lab.release()
    wait_for(lambda: shop.lab.outcomes(mission), f"its end is recorded: {shop.lab.log()}")
    shop.lab.enqueue("m1")
    wait_for(lambda: shop.lab.outcomes("m1"), f"missions run on: {shop.lab.log()}", seconds=40)
    held = shop.claims()
    status = shop.lab.run("status").stdout
    why = json.loads(shop.lab.run("why", mission, "--json").stdout)
    recovered = shop.lab.run("recover", "--json", seconds=90)
    waited = shop.lab.run("wait", mission)
    line.flow()
    shop.until(item, ItemState.DONE)
    wait_for(lambda: not shop.claims(), "its claim is gone")

    assert len(held) == 1
    assert "waits until the work queue has heard of its end" in status
    assert [one["reason"] for one in why["reasons"]] == ["work queue"]
    assert "its end waits for the work queue" in recovered.stdout
    assert waited.returncode == 0
    assert shop.lab.count("start", "one") == 1
    assert shop.lab.log().count("is not handed in yet") == 1


def test_a_short_outage_costs_a_running_item_nothing(shop: Shop, line: Proxy) -> None:
    """A renewal that failed is tried again; the item runs once."""
    item = shop.add("one", 60)
    shop.lab.daemon(env={"KRANZQ_WORK_MISSION_LEASE": "12s"})
    started(shop.lab, "one")
    line.refuse()
    refused = line.refused
    wait_for(lambda: line.refused > refused, "a renewal has failed")
    line.flow()
    shop.lab.release()
    shop.until(item, ItemState.DONE)

    assert len(shop.store.attempts(item)) == 1


def test_a_long_outage_ends_the_mission_before_another_may_claim_it(shop: Shop, line: Proxy) -> None:
    """Whoever cannot confirm its lease stops in time."""
    item = shop.add("one", 60)
    shop.lab.daemon(env={"KRANZQ_WORK_MISSION_LEASE": "12s", "KRANZQ_MISSION_GRACE_SECONDS": "3"})
    started(shop.lab, "one")
    keeper = shop.lab.keeper(mission_of_item(item))
    line.refuse()
    passes(8)
    lapsed = wait_for(lambda: shop.store.sweep().lapsed, "its lease is over")
    lives = is_alive(keeper)

    assert lapsed == (item,)
    assert not lives


class Machine:
    """One of several machines: its own checkout, home and state."""

    def __init__(self, folder: Path, url: str, monkeypatch: pytest.MonkeyPatch) -> None:
        folder.mkdir()
        root = folder / "checkout"
        root.mkdir()
        subprocess.run(["git", "init", "--quiet"], cwd=root, check=True)
        config = root / ".git" / "config"
        config.write_text(config.read_text() + '[remote "origin"]\n\turl = https://example.org/owner/name.git\n')
        self.lab = Laboratory(root)
        self.shop = Shop(self.lab, url, monkeypatch)
        home = folder / "home"
        home.mkdir()
        self.lab.home = str(home)  # what bears another one's home runs on another machine
        self.env = {
            "HOME": str(home),
            "XDG_STATE_HOME": str(home / "state"),
            "XDG_CONFIG_HOME": str(home / "config"),
            "XDG_RUNTIME_DIR": str(home),
            "KRANZQ_WORK_COMMAND": os.environ["KRANZQ_WORK_COMMAND"],
            "KRANZQ_WORK_MISSION_LEASE": "15s",
            "KRANZQ_MISSION_GRACE_SECONDS": "1",
            "KRANZQ_WORK_SWEEP_SECONDS": "1",
        }

    def start(self) -> subprocess.Popen[bytes]:
        """Its daemon."""
        return self.lab.daemon(env=self.env)

    def die(self, daemon: subprocess.Popen[bytes]) -> None:
        """Lose power: everything that runs there is gone at once."""
        daemon.kill()
        daemon.wait()
        wait_for(self.lab.kill_all, "nothing lives there")


def intervals(shop: Shop, item: str) -> list[tuple[int, int]]:
    """From when to when each attempt of an item held it, in wall milliseconds."""
    return [(one.claimed_at, one.ended_at or 2**62) for one in shop.store.attempts(item)]


@pytest.mark.parametrize("engine", ["sqlite", "postgresql"])
@pytest.mark.race
def test_three_machines_run_thirty_items_and_one_of_them_dies(
    engine: str, tmp_path: Path, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every item runs to its end, none twice at once, and what the dead machine held is taken over."""
    url = f"sqlite://{tmp_path}/work.db" if engine == "sqlite" else request.getfixturevalue("postgres_url")
    machines = [Machine(tmp_path / str(number), url, monkeypatch) for number in range(3)]
    store = machines[0].shop.store
    items = [machines[0].shop.add(f"i{number}", 0.3) for number in range(30)]
    try:
        daemons = [one.start() for one in machines]
        wait_for(machines[0].lab.told, f"the first one works: {machines[0].lab.log()}")
        wait_for(machines[0].shop.claims, "it has an item", seconds=60)
        machines[0].die(daemons[0])
        wait_for(
            lambda: all(store.show(item).state is ItemState.DONE for item in items),
            "all are done",
            seconds=120,
        )
        told = [line for one in machines for line in one.lab.told()]
        spans = [intervals(machines[0].shop, item) for item in items]
        for one in machines[1:]:
            one.lab.run("stop", env=one.env)
    finally:
        for one in machines:
            one.lab.close()
            one.shop.store.close()

    assert not [line for line in told if line.startswith("overlap")]
    assert all(told.count(f"end i{number}") >= 1 for number in range(30))
    assert sum(line.startswith("start") for line in told) <= 31
    assert all(before[1] <= after[0] for span in spans for before, after in itertools.pairwise(span))
    assert sum(len(span) for span in spans) <= 31
