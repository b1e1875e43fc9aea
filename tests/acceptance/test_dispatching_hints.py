"""Events are only a hint: however an entry appears, and whatever the watch does not tell, it runs, once and soon."""

from __future__ import annotations

import contextlib
import os
import secrets
import signal
import sys
import time

import psutil
import pytest

from kranzq.liveness import HolderRecord, kranz_token
from kranzq.model.entry import Entry, Own, render
from kranzq.model.ids import MissionId
from kranzq.trust.mac import sign
from kranzq.wiring import trusting
from tests.laboratory import PATIENCE, REPO, Laboratory, wait_for
from tests.scenes import begun, configure, passes, through

pytestmark = pytest.mark.slow
DEAF = """
import sys
from kranzq.cli.main import run
from kranzq.daemon import inotify, wake
waits, wait, take = open(sys.argv[1], "w", buffering=1), wake.Wake.wait, inotify.Inotify.take
inotify.Inotify.take = lambda self: take(self) and False
wake.Wake.wait = lambda self, seconds: (print(seconds, file=waits), wait(self, seconds))[1]
sys.exit(run(sys.argv[2:]))
"""
LIMITED = 'echo 0 > /proc/sys/user/max_inotify_{what} && exec "$@"'


def signed(lab: Laboratory, mission: str, number: int) -> tuple[str, bytes]:
    """The name and the content of an entry that nobody has put into the queue yet."""
    own = Own(id=secrets.token_hex(16), command=lab.alone(mission))
    entry = sign(
        Entry(MissionId(mission), 2, number, own=own), lab.checkout.root, trusting.keyring(os.environ).current()
    )
    return f"002-{number:020d}-{mission}.json", render(entry)


SELDOM = "[daemon]\nscan_seconds = 3600\n"
"""What begins under this was not found by the timer."""


def test_b27_whatever_is_enqueued_while_a_daemon_starts_is_seen(lab: Laboratory) -> None:
    """At any offset to its start an entry runs without another event, long before the timer would find it."""
    configure(SELDOM)
    for number in range(8):
        process = lab.start(lab.command("daemon"))
        at = time.monotonic() + number * 0.05
        wait_for(lambda until=at: time.monotonic() >= until, "the offset")  # type: ignore[misc]
        lab.enqueue(f"m{number}")
        begun(lab, f"m{number}")
        wait_for(lambda: not lab.entries(), "it is settled")
        process.send_signal(signal.SIGTERM)

        assert process.wait(PATIENCE) == 0


@pytest.mark.parametrize("how", ["rename", "from elsewhere", "link", "write", "write slowly", "editor"])
def test_b29_an_entry_runs_once_however_it_is_published(lab: Laboratory, how: str) -> None:
    """Rename, rename from another folder, link, plain write or an editor's save: one run, and no other name counts."""
    configure(SELDOM)
    lab.run("init")
    lab.daemon()
    name, data = signed(lab, "m1", 5)
    target, other = lab.queue / name, lab.root / "other.json"
    for ignored in (".hidden.json", "4913", f"{name}~", f".{name}.swp", f"{name}.tmp"):
        (lab.queue / ignored).write_bytes(data)
    if how == "write slowly":
        with target.open("wb", buffering=0) as file:
            file.write(data[:100])
            passes(0.1)  # not longer: what stays half a file for two seconds is a broken one
            file.write(data[100:])
    elif how in {"write", "editor"}:
        target.write_bytes(data)
        if how == "editor":
            with contextlib.suppress(FileNotFoundError):  # it may have been claimed before it could be saved
                target.rename(lab.queue / f"{name}~")
                target.write_bytes(data)
    else:
        temporary = other if how == "from elsewhere" else lab.queue / ".new.json.tmp"
        temporary.write_bytes(data)
        if how == "link":
            os.link(temporary, target)
            temporary.unlink()
        else:
            temporary.rename(target)
    begun(lab)
    wait_for(lambda: not [one for one in lab.entries() if one.endswith(("m1.json",)) or ".claimed." in one], "settled")
    lab.run("stop")

    assert lab.told() == ["start m1", "end m1"]


def test_b30_a_burst_that_overflows_the_watch_loses_nothing(lab: Laboratory) -> None:
    """More events than the kernel keeps, while the daemon stands still: afterwards every entry runs, in order."""
    daemon = lab.daemon()
    daemon.send_signal(signal.SIGSTOP)
    for number in range(10_000):
        path = lab.queue / f"{number}.txt"
        path.touch()
        path.unlink()
    for number in range(12):
        lab.enqueue(f"m{number}", *lab.alone(f"m{number}", 0))
    daemon.send_signal(signal.SIGCONT)
    wait_for(lambda: not lab.entries(), "all is drained")

    assert [line for line in lab.told() if "start" in line] == [f"start m{number}" for number in range(12)]


@pytest.mark.system("unshare")
@pytest.mark.parametrize("what", ["instances", "watches"])
def test_b31_without_watches_a_daemon_polls_and_says_so(lab: Laboratory, what: str) -> None:
    """At the user's limit of watches a daemon works all the same; one warning and the status say how."""
    configure(SELDOM)
    lab.daemon(before=("unshare", "-Ur", "sh", "-c", LIMITED.format(what=what), "sh"))
    record = lab.read(lab.queue / ".daemon.json") or {}
    lab.enqueue("m1")
    begun(lab)
    shown = lab.run("status", "--json").stdout

    assert record["watching"] == "polling" in shown
    assert lab.log().count("cannot be watched") == 1


@pytest.mark.system("unshare")
def test_a_daemon_that_polls_sees_a_change_long_before_its_timer(lab: Laboratory) -> None:
    """A glance at the directories tells that something appeared: in the queue, in what waits, in the inbox."""
    configure("[daemon]\nscan_seconds = 3600\npoll_seconds = 3600\n")
    lab.daemon(before=("unshare", "-Ur", "sh", "-c", LIMITED.format(what="watches"), "sh"))
    for number in range(5):
        lab.enqueue(f"m{number}")
        through(lab, f"m{number}")

    dropped = lab.queue / "inbox" / ".dropped"
    dropped.write_text('{"missionId": "dropped"}')
    dropped.rename(lab.queue / "inbox" / "dropped")
    wait_for(lambda: not dropped.with_name("dropped").exists(), "it is admitted")


@pytest.mark.system("unshare")
def test_a_daemon_that_polls_is_at_rest_while_a_kranz_has_the_checkout(lab: Laboratory) -> None:
    """What each of its looks changes in the queue does not make it look ever faster."""
    lab.run("init")
    lock = lab.queue / ".repo.busy.lock"
    lock.write_bytes(HolderRecord(os.getpid(), int(time.time()), kranz_token(os.getpid()) or "", 0).render())
    daemon = lab.daemon(before=("unshare", "-Ur", "sh", "-c", LIMITED.format(what="watches"), "sh"))
    lab.enqueue("m1")
    wait_for(lambda: "kranz's busy lock" in lab.log(), "it waits")
    before, began = psutil.Process(daemon.pid).cpu_times(), time.monotonic()
    passes(3)
    after, took = psutil.Process(daemon.pid).cpu_times(), time.monotonic() - began
    lock.unlink()
    through(lab, "m1")

    assert after.user + after.system - before.user - before.system < 0.1 * took


def test_b33_a_watch_that_never_tells_costs_no_more_than_the_timer(lab: Laboratory) -> None:
    """On a mount without events the scan finds what is due."""
    configure("[daemon]\nscan_seconds = 1\n")
    process = lab.start([sys.executable, "-c", DEAF, str(lab.notes / "waits"), "-C", str(lab.root), "daemon"])
    wait_for((lab.queue / ".daemon.json").exists, "it serves")
    told = lab.notes / "waits"
    for number in range(3):  # each is queued while it waits: else a look that was under way would find it
        wait_for(lambda least=number: told.read_text().count("\n") > least, "it waits")  # type: ignore[misc]
        lab.enqueue(f"m{number}")
        through(lab, f"m{number}")
    lab.kill(process)
    waits = [float(line) for line in told.read_text().splitlines()]

    assert len(waits) >= 3
    assert max(waits) <= 1


def test_b34_a_daemon_does_not_need_the_folder_it_was_started_in(lab: Laboratory) -> None:
    """Started in a folder that is removed, it starts missions all the same."""
    folder = lab.root / "scratch"
    folder.mkdir()
    begin = f"import os, sys; sys.path.insert(0, {str(REPO)!r}); os.chdir({str(folder)!r})"
    program = f"{begin}; from kranzq.__main__ import main; main()"
    lab.start([sys.executable, "-c", program, "daemon"])
    wait_for((lab.queue / ".daemon.json").exists, "it serves")
    folder.rmdir()
    lab.enqueue("m1")

    begun(lab)


def test_b34_a_checkout_that_is_away_starts_nothing_until_it_is_back(lab: Laboratory) -> None:
    """Renamed while idle: the reason is said, nothing is made under the old name, and work goes on afterwards."""
    configure("[daemon]\nscan_seconds = 0.3\n")
    lab.daemon()
    away = lab.root.parent / "away"
    said = "is gone or another directory now"  # a turn that was under way may say it in words of its own
    lab.root.rename(away)
    wait_for(lambda: said in lab.log(), "it says that the checkout is gone")
    made = lab.root.exists()
    away.rename(lab.root)
    lab.enqueue("m1")
    begun(lab)

    assert not made
    assert lab.log().count(said) == 1


@pytest.mark.parametrize("how", ["renamed", "queue removed"])
def test_b34_a_run_ends_with_an_outcome_whatever_becomes_of_the_checkout(lab: Laboratory, how: str) -> None:
    """The checkout is renamed, or its `.kranz` is removed, while a mission runs: the end is known, and work goes on."""
    configure("[daemon]\nscan_seconds = 0.3\n")
    lab.enqueue("m1", *lab.alone("m1", 60, 3))
    lab.daemon()
    begun(lab)
    lab.keeper("m1")
    away = lab.root.parent / "away"
    if how == "renamed":
        lab.root.rename(away)
        lab.release()
        record = away / ".kranz/missions/m1/dispatch/001/run.json"
        wait_for(lambda: (lab.read(record) or {}).get("state") == "ended", "the end is recorded")
        made = lab.root.exists()
        away.rename(lab.root)
    else:
        (lab.root / ".kranz").rename(away)
        lab.release()
        wait_for(lambda: "m1 failed" in lab.log(), "the end is said")
        made = False
    lab.enqueue("m2")
    begun(lab, "m2")

    assert not made
    assert lab.count("start", "m1") == 1
