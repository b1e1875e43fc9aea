"""Bad files among what waits and what is parked: named by every verb, set aside by a turn, in nobody's way."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.factories import kranz_entry, kranz_name
from tests.laboratory import Laboratory, laboratory, wait_for

FUTURE = 4_000_000_000_000
BAD = {
    "waiting/notes.json": "its name is not DUE.ENTRY",
    f"waiting/soon.{kranz_name('m-soon', 2, 1)}": "its name is not DUE.ENTRY",
    f"waiting/{'9' * 17}.{kranz_name('m-late', 2, 2)}": "its name is not DUE.ENTRY",
    f"waiting/{FUTURE}.{kranz_name('m-torn', 2, 3)}": "it is not JSON",
    f"waiting/after.{kranz_name('m-other', 2, 4)}": "its name says mission m-other, its content m-x",
    f"waiting/{FUTURE}.{kranz_name('m-dir', 2, 5)}": "it is a directory",
    f"waiting/{FUTURE}.{kranz_name('m-link', 2, 6)}": "it is a symbolic link",
    "parked/notes.json": "its name is not PRIORITY-NUMBER-MISSION.json",
    f"parked/{kranz_name('m-broken', 2, 7)}": "it is not JSON",
    f"parked/{kranz_name('m-fifo', 2, 8)}": "it is a FIFO",
    f"parked/{kranz_name('m-gone', 2, 9)}.why.json": "it is the reason of an entry that is not there",
}
IGNORED = ("waiting/.hidden.json", "waiting/read.me", "parked/.x.json", "parked/x.json.tmp")


@pytest.fixture
def lab(checkout: Path) -> Iterator[Laboratory]:
    """A laboratory with good entries that wait and are parked, and with every kind of bad file beside them."""
    with laboratory(checkout) as one:
        one.enqueue("waits", not_before="2090-01-01T00:00:00Z")
        one.enqueue("stays")
        one.run("park", "stays", "for now")
        for name in (*BAD, *IGNORED):
            path = one.queue / name
            if "-dir" in name:
                path.mkdir()
                (path / "inside").write_text("kept")
            elif "-link" in name:
                path.symlink_to("/nowhere")
            elif "-fifo" in name:
                os.mkfifo(path)
            elif "-other" in name:
                path.write_bytes(kranz_entry("m-x", 2, 4))
            else:
                path.write_text('{"why": "because"}' if name.endswith(".why.json") else "torn")
        wait_until_old(one)
        yield one


def wait_until_old(one: Laboratory) -> None:
    """Give half-written files their two seconds: only the kernel sets the time that counts."""
    newest = max((one.queue / name).lstat().st_ctime for name in BAD)
    wait_for(lambda: time.time() - newest > 2.05, "nothing is fresh any more")


@pytest.mark.slow
def test_each_is_named_and_then_set_aside_with_its_bytes(lab: Laboratory) -> None:
    """Looking names them and moves nothing; a turn quarantines them with reasons, and runs what may run."""
    before = {name: (lab.queue / name).lstat().st_ino for name in BAD}
    shown = lab.run("list", "--all").stdout
    for name, why in BAD.items():
        (line,) = [line for line in shown.splitlines() if line.startswith(f"! {name} is no entry: ")]
        assert why in line
        assert "it will be quarantined at the next turn" in line
    for name in IGNORED:
        assert name not in shown
    plain, parked = lab.run("list").stdout, lab.run("list", "--parked").stdout
    assert "! waiting/notes.json" in plain
    assert "! parked/notes.json" not in plain
    assert "! parked/notes.json" in parked
    assert "! waiting/notes.json" not in parked
    status = lab.run("status").stdout
    assert "is no entry" in status
    assert f"{len(BAD) - 3} more files are no entries" in status
    assert "1 waiting, 1 parked" in status
    assert f"{len(BAD)} bad files: " in lab.run("check", code=None).stdout
    for mission, name in (("m-soon", "soon"), ("m-torn", str(FUTURE)), ("m-broken", "m-broken"), ("m-gone", "m-gone")):
        assert name in lab.run("why", mission).stdout
        assert "is no entry" in lab.run("why", mission).stdout
    assert {name: (lab.queue / name).lstat().st_ino for name in BAD} == before

    lab.enqueue("runs")
    lab.run("drain")

    assert lab.count("end", "runs") == 1
    assert [name for name in BAD if os.path.lexists(lab.queue / name)] == []
    assert [name for name in IGNORED if not os.path.lexists(lab.queue / name)] == []
    aside = {one.name: one for one in (lab.queue / "quarantine").iterdir()}
    inodes = {one.lstat().st_ino: name for name, one in aside.items() if not name.endswith(".why.json")}
    for name, why in BAD.items():
        reason = lab.read(lab.queue / "quarantine" / f"{inodes[before[name]]}.why.json")
        assert reason is not None
        assert why in reason["why"]
    assert (lab.queue / f"quarantine/{kranz_name('m-dir', 2, 5)}/inside").read_text() == "kept"
    assert "quarantined as" in lab.run("why", "m-torn").stdout
    assert [name for name in lab.names("waiting") if name != "read.me"] == [f"3786912000000.{kranz_name('waits')}"]
    assert lab.run("list", "--all").stdout.count("quarantined  ") == len(BAD)
    assert "parked: for now" in lab.run("why", "stays").stdout
    assert "1 waiting, 1 parked" in lab.run("status").stdout
