"""Items of the work queue as the daemon of a checkout runs them: one busy lock, one lease, one end to hand in."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from kranzq.model.claim import Holder
from kranzq.model.item_policy import mission_of_item
from kranzq.model.work import ItemClaim, ItemState, NewItem, Target
from tests.laboratory import PATIENCE, REPO, Laboratory, is_alive, state_of, wait_for
from tests.scenes import passes, patient
from tests.shop import Shop, started

pytestmark = [pytest.mark.slow, pytest.mark.timeout(120)]
HOLDER = Holder("another", uid="another")


BOTH_ENGINES = pytest.mark.parametrize("shop", ["sqlite", "postgresql"], indirect=True)


@pytest.fixture
def shop(
    request: pytest.FixtureRequest, lab: Laboratory, isolated: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Shop]:
    """A checkout that serves a work queue, on SQLite unless told otherwise."""
    on_postgres = getattr(request, "param", "sqlite") == "postgresql"
    url = request.getfixturevalue("postgres_url") if on_postgres else f"sqlite://{isolated}/state/kranzq/work.db"
    one = Shop(lab, url, monkeypatch)
    yield one
    one.store.close()


def taken_over(shop: Shop) -> ItemClaim:
    """What another one is given as soon as a lease of twelve seconds is over that nobody renews."""
    passes(8)  # whoever asked all that time would keep others of this machine from theirs
    given = wait_for(lambda: shop.store.claim(HOLDER), "another gets it")
    assert given is not None
    return given


@BOTH_ENGINES
def test_an_item_runs_in_the_checkout_and_its_output_is_the_result(shop: Shop) -> None:
    """The daemon runs it under the busy lock, with its payload as a file, and hands its output in."""
    item = shop.add("one")
    daemon = shop.lab.daemon()
    shop.until(item, ItemState.DONE)
    shop.lab.run("stop")
    found = shop.store.show(item)

    assert daemon.wait(PATIENCE) == 0
    assert found.result == "payload do one attempt 1\n"
    assert shop.lab.outcomes(mission_of_item(item)) == ["succeeded"]
    assert shop.claims() == []
    shop.lab.assert_nothing_left()


@BOTH_ENGINES
def test_an_idle_daemon_hears_of_a_new_item_at_once(shop: Shop) -> None:
    """Nothing polls for it, and yet it starts long before the timer."""
    shop.lab.daemon(env={"KRANZQ_DAEMON_SCAN_SECONDS": "3600"})
    for title in ("one", "two"):
        shop.until(shop.add(title), ItemState.DONE)


def test_missions_and_items_take_turns(shop: Shop) -> None:
    """Neither kind keeps the other from running, however much of it there is."""
    for number in range(3):
        shop.lab.enqueue(f"m{number}")
        shop.add(f"i{number}")
    shop.lab.run("drain")
    kinds = [line.split()[1][0] for line in shop.lab.told() if line.startswith("start")]

    assert kinds == ["m", "i", "m", "i", "m", "i"]
    assert not [line for line in shop.lab.told() if line.startswith("overlap")]


def test_a_failed_item_is_failed_with_its_reason_and_output(shop: Shop) -> None:
    """What the command said stands in the work queue."""
    item = shop.add("one", code=3)
    shop.lab.run("drain", code=1)
    found = shop.store.show(item)

    assert found.state is ItemState.FAILED
    assert found.result.startswith("failed: exit code 3")
    assert "payload do one" in found.result


def test_a_deferred_item_is_put_back_for_later(shop: Shop) -> None:
    """Exit code 75 uses up no attempt and holds up nobody."""
    item = shop.add("one", code=75)
    assert shop.lab.start(patient(shop.lab, "drain")).wait(PATIENCE) == 75
    found = shop.store.show(item)

    assert found.state is ItemState.DELAYED
    assert (found.attempts, found.declined) == (1, 1)
    assert shop.claims() == []


def test_items_for_others_are_left_alone(shop: Shop) -> None:
    """Only what is for anybody, this checkout or its groups is taken, and only of the kind `mission`."""
    others = [
        shop.add("a", target=Target(agent="somebody")),
        shop.add("b", target=Target(group="repo:other/one")),
        shop.store.enqueue(NewItem("c", "c", kind="chat")).entry.id,
    ]
    mine = shop.add("d", target=Target(group="repo:Owner/Name"))
    config = shop.lab.root / ".git" / "config"
    config.write_text(config.read_text() + '[remote "origin"]\n\turl = git@example.org:owner/name.git\n')
    shop.lab.run("drain")

    assert [shop.state(item) for item in others] == [ItemState.OPEN] * 3
    assert shop.state(mine) is ItemState.DONE


def test_settings_that_count_anew_count_for_items_too(shop: Shop) -> None:
    """Whoever allows another name, other groups or another lease need not start the daemon anew."""
    settings = shop.lab.root / ".kranz/kranzq.toml"

    def allow(name: str) -> None:
        settings.write_text(f'[work]\nagent = "{name}"\n')
        shop.lab.run("trust", "--settings", "--yes")

    shop.lab.run("init")
    allow("ann")
    anns, bobs = (shop.add(name, target=Target(agent=name)) for name in ("ann", "bob"))
    shop.lab.daemon(env={"KRANZQ_DAEMON_SCAN_SECONDS": "0.1"})
    shop.until(anns, ItemState.DONE)
    assert shop.state(bobs) is ItemState.OPEN
    allow("bob")
    shop.until(bobs, ItemState.DONE)

    assert [one.holder for one in shop.store.attempts(bobs)] == ["bob"]


@BOTH_ENGINES
def test_an_item_that_is_cancelled_in_the_work_queue_ends_here(shop: Shop) -> None:
    """Its holder learns of it at the next renewal, and the keeper ends the mission."""
    item = shop.add("one", 60)
    shop.lab.daemon(env={"KRANZQ_WORK_MISSION_LEASE": "9s"})
    started(shop.lab, "one")
    shop.store.cancel(item, "not wanted any more")
    wait_for(lambda: shop.lab.outcomes(mission_of_item(item)), f"its end is recorded: {shop.lab.log()}")
    wait_for(lambda: not shop.claims(), "its claim is gone")

    assert shop.lab.outcomes(mission_of_item(item)) == ["cancelled"]
    assert shop.state(item) is ItemState.CANCELLED
    assert shop.store.show(item).result == "not wanted any more"


def test_an_item_that_is_cancelled_here_is_cancelled_in_the_work_queue(shop: Shop) -> None:
    """`kranzq cancel item-…` works as for any mission."""
    item = shop.add("one", 60)
    shop.lab.daemon()
    started(shop.lab, "one")
    shop.lab.run("cancel", mission_of_item(item), "--why", "enough", "--wait")
    shop.until(item, ItemState.CANCELLED)
    wait_for(lambda: not shop.claims(), "its claim is gone")

    assert shop.store.show(item).result == "enough"


def test_the_verbs_show_a_running_item_as_a_mission(shop: Shop) -> None:
    """`status`, `why`, `list`, `logs` and `history` know it by its mission id."""
    item = shop.add("one", 60)
    mission = mission_of_item(item)
    shop.lab.daemon()
    started(shop.lab, "one")
    status = json.loads(shop.lab.run("status", "--json").stdout)
    why = json.loads(shop.lab.run("why", mission, "--json").stdout)
    logs = shop.lab.run("logs", mission).stdout
    shop.lab.run("list")
    shop.lab.release()
    shop.until(item, ItemState.DONE)
    history = json.loads(shop.lab.run("history", mission, "--json").stdout)

    assert status["busy"]["mission"] == mission
    assert [one["verdict"] for one in status["claims"]] == ["alive"]
    assert why["state"] == "claimed"
    assert logs.startswith("payload do one")
    assert [one["outcome"] for one in history["runs"]] == ["succeeded"]


@BOTH_ENGINES
def test_a_killed_daemon_costs_the_item_nothing(shop: Shop) -> None:
    """The next daemon adopts the run, renews its lease, and hands its end in."""
    item = shop.add("one", 60)
    short = {"KRANZQ_WORK_MISSION_LEASE": "12s"}
    first = shop.lab.daemon(env=short)
    started(shop.lab, "one")
    shop.lab.kill(first)
    shop.lab.daemon(env=short)
    expires = shop.store.show(item).claim_expires
    assert expires is not None
    wait_for(lambda: (shop.store.show(item).claim_expires or 0) > expires + 3000, f"it is renewed: {shop.lab.log()}")
    shop.lab.release()
    shop.until(item, ItemState.DONE)

    assert shop.lab.count("start", "one") == 1
    assert shop.store.show(item).attempts == 1


@BOTH_ENGINES
def test_b67_a_mission_outlives_its_daemon_by_one_lease_at_most(shop: Shop) -> None:
    """The keeper ends it in time, so whoever claims the item next does not meet it."""
    item = shop.add("one", 60)
    short = {"KRANZQ_WORK_MISSION_LEASE": "12s", "KRANZQ_MISSION_GRACE_SECONDS": "3"}
    first = shop.lab.daemon(env=short)
    started(shop.lab, "one")
    keeper = shop.lab.keeper(mission_of_item(item))
    shop.lab.kill(first)
    given = taken_over(shop)
    alive = is_alive(keeper)

    assert given.attempt == 2
    assert not alive
    shop.lab.run("drain", code=None)
    assert shop.claims() == []
    assert shop.state(item) is ItemState.CLAIMED
    assert shop.store.show(item).claimed_by == "another"


def test_b66_a_long_mission_keeps_its_short_lease(shop: Shop) -> None:
    """Several leases long, it is started once."""
    item = shop.add("one", 60)
    shop.lab.daemon(env={"KRANZQ_WORK_MISSION_LEASE": "5s", "KRANZQ_WORK_SWEEP_SECONDS": "1"})
    started(shop.lab, "one")
    first = shop.store.show(item).claim_expires or 0
    passes(12)
    wait_for(lambda: (shop.store.show(item).claim_expires or 0) > first + 15_000, "three leases have passed")
    shop.lab.release()
    shop.until(item, ItemState.DONE)

    assert shop.lab.count("start", "one") == 1
    assert len(shop.store.attempts(item)) == 1


def test_b67_a_lease_is_kept_by_a_daemon_whose_log_nobody_reads(shop: Shop) -> None:
    """Renewal waits for nobody: not for the loop, and not for whoever reads what it says."""
    item = shop.add("one", 60)
    read, write = os.pipe()
    argv, env = shop.lab.command("daemon"), os.environ | {"KRANZQ_WORK_MISSION_LEASE": "5s"}
    shop.lab.started.append(subprocess.Popen(argv, cwd=REPO, stdout=write, stderr=write, env=env))
    os.set_blocking(write, False)
    started(shop.lab, "one")
    with contextlib.suppress(BlockingIOError):
        while True:
            os.write(write, b"x" * 65536)
    os.set_blocking(write, True)
    first = shop.store.show(item).claim_expires or 0
    passes(9)
    wait_for(lambda: (shop.store.show(item).claim_expires or 0) > first + 11_000, "it is renewed, again and again")

    assert shop.lab.count("start", "one") == 1
    os.close(write)
    os.close(read)


def test_b70_a_stopped_daemon_is_followed_by_no_second_run(shop: Shop) -> None:
    """Stopped for longer than its lease, it finds the item with another, and nothing is run twice at once."""
    item = shop.add("one", 60)
    daemon = shop.lab.daemon(env={"KRANZQ_WORK_MISSION_LEASE": "12s", "KRANZQ_MISSION_GRACE_SECONDS": "3"})
    started(shop.lab, "one")
    keeper = shop.lab.keeper(mission_of_item(item))
    os.kill(daemon.pid, signal.SIGSTOP)
    wait_for(lambda: state_of(daemon.pid) == "T", "it stands still")
    given = taken_over(shop)
    ended = not is_alive(keeper)
    os.kill(daemon.pid, signal.SIGCONT)
    wait_for(lambda: not shop.claims(), f"its claim is gone: {shop.lab.log()}")

    assert given.attempt == 2
    assert ended
    assert shop.store.show(item).claimed_by == "another"
    assert shop.lab.count("start", "one") == 1


def test_a_killed_keeper_uses_up_an_attempt(shop: Shop) -> None:
    """The mission is ended, and the item goes back, to be run again."""
    item = shop.add("one", 60)
    shop.lab.daemon()
    started(shop.lab, "one")
    os.kill(shop.lab.keeper(mission_of_item(item)), signal.SIGKILL)
    started(shop.lab, "one", 2)
    shop.lab.release()
    shop.until(item, ItemState.DONE)

    assert [one.ended for one in shop.store.attempts(item)] == ["released", "done"]
    assert shop.store.show(item).declined == 0
    assert not [line for line in shop.lab.told() if line.startswith("overlap")]


def test_stop_now_puts_the_item_back_uncounted(shop: Shop) -> None:
    """An interruption that was asked for uses up nothing."""
    item = shop.add("one", 60)
    shop.lab.daemon()
    started(shop.lab, "one")
    shop.lab.run("stop", "--now")

    assert shop.state(item) is ItemState.OPEN
    assert shop.store.show(item).declined == 1
    assert shop.claims() == []


def test_without_a_command_items_are_left_alone_and_said_so_once(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    """A checkout that could not run them claims none."""
    monkeypatch.delenv("KRANZQ_WORK_COMMAND")
    item = shop.add("one")
    shop.lab.enqueue("m1")
    shop.lab.enqueue("m2")
    shop.lab.start(shop.lab.command("drain")).wait(PATIENCE)

    assert shop.store.show(item).attempts == 0
    assert shop.lab.log().count("items are not asked for") == 1
    assert shop.lab.outcomes("m2") == ["succeeded"]


def test_a_command_that_is_not_there_holds_up_no_mission(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    """The item is put back for later; missions with commands of their own run on."""
    monkeypatch.setenv("KRANZQ_WORK_COMMAND", "/there/is/no/such/program")
    item = shop.add("one")
    for number in range(3):
        shop.lab.enqueue(f"m{number}")
    shop.lab.start(patient(shop.lab, "drain")).wait(PATIENCE)
    found = shop.store.show(item)

    assert found.state is ItemState.DELAYED
    assert (found.attempts, found.declined) == (1, 1)
    assert all(shop.lab.outcomes(f"m{number}") == ["succeeded"] for number in range(3))


def test_a_work_queue_that_is_away_keeps_no_mission_waiting(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    """File missions run on; that it is away is said once."""
    monkeypatch.setenv("KRANZQ_WORK_URL", f"postgresql://nobody@/none?host={shop.lab.notes}")
    for number in range(3):
        shop.lab.enqueue(f"m{number}")
    shop.lab.start(shop.lab.command("drain")).wait(PATIENCE)

    assert all(shop.lab.outcomes(f"m{number}") == ["succeeded"] for number in range(3))
    assert shop.lab.log().count("the work queue is away") == 1


@pytest.mark.parametrize("what", [".kranz/queue .kranz/missions", ".kranz", ".kranz/missions", ".kranz/queue"])
def test_an_item_that_removes_its_records_runs_once(shop: Shop, monkeypatch: pytest.MonkeyPatch, what: str) -> None:
    """As `git clean -fdx` does. Its end is known to whoever watched, and is handed in."""
    removes = f"until rm -rf {what}; do :; done"  # it fails when a record is written beside it in that moment
    monkeypatch.setenv("KRANZQ_WORK_COMMAND", f"/bin/sh -c 'echo start >> {shop.lab.notes}/told; {removes}'")
    item = shop.add("one")
    shop.lab.run("drain", code=None)

    assert shop.lab.told() == ["start"]
    assert shop.state(item) is ItemState.DONE
    assert shop.claims() == []


def test_a_dispatcher_of_missions_alone_loads_no_database(lab: Laboratory) -> None:
    """Whoever does not use the work queue pays nothing for it, and makes no file of it."""
    program = (
        "import sys; from kranzq.cli.main import run; code = run(sys.argv[1:]);"
        "print(code, *(name for name in sys.modules if 'sql' in name or 'psycopg' in name))"
    )
    lab.enqueue("m1")
    argv = [sys.executable, "-c", program, "-C", str(lab.root), "drain"]
    done = subprocess.run(argv, cwd=REPO, capture_output=True, text=True, check=True)

    assert lab.outcomes("m1") == ["succeeded"]
    assert done.stdout.split() == ["0"]
    assert not Path(os.environ["XDG_STATE_HOME"], "kranzq/work.db").exists()


def test_daemon_and_keeper_killed_together_give_the_item_back(shop: Shop) -> None:
    """What they left running is ended first; then the item runs again, and never beside itself."""
    item = shop.add("one", 60)
    daemon = shop.lab.daemon()
    started(shop.lab, "one")
    keeper = shop.lab.keeper(mission_of_item(item))
    os.kill(daemon.pid, signal.SIGKILL)
    os.kill(keeper, signal.SIGKILL)
    daemon.wait()
    shop.lab.daemon()
    started(shop.lab, "one", 2)
    shop.lab.release()
    shop.until(item, ItemState.DONE)

    assert [one.ended for one in shop.store.attempts(item)] == ["released", "done"]
    assert not [line for line in shop.lab.told() if line.startswith("overlap")]
    wait_for(lambda: not shop.claims(), "its claim is gone")


def test_a_run_of_an_item_is_not_retried_here(shop: Shop) -> None:
    """Only the work queue gives an item out again; the verb says so."""
    item = shop.add("one", code=3)
    shop.lab.run("drain", code=1)
    done = shop.lab.run("retry", mission_of_item(item), code=4)

    assert f"kranzq work show {item}" in done.stderr


@pytest.mark.parametrize("verb", ["recover", "drain"])
def test_whoever_serves_no_items_still_hands_an_end_in(shop: Shop, verb: str) -> None:
    """An item that ran here is settled by any dispatcher, whatever it serves."""
    item = shop.add("one", 60)
    daemon = shop.lab.daemon()
    started(shop.lab, "one")
    keeper = shop.lab.keeper(mission_of_item(item))
    shop.lab.kill(daemon)
    shop.lab.release()
    wait_for(lambda: not is_alive(keeper), "its keeper is gone")
    shop.lab.run(verb, env={"KRANZQ_BACKENDS": "file"})

    assert shop.state(item) is ItemState.DONE
    assert shop.claims() == []
