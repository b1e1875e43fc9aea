"""Files of our own that somebody has damaged: none of them stops a verb, and none is believed."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.laboratory import PATIENCE, Laboratory, laboratory, wait_for

DEEP = b"[" * 8000


@pytest.fixture
def lab(checkout: Path) -> Iterator[Laboratory]:
    """A laboratory in a checkout with git."""
    with laboratory(checkout) as one:
        yield one


def _put(content: bytes) -> Callable[[Path], None]:
    def put(path: Path) -> None:
        path.unlink(missing_ok=True)
        path.write_bytes(content)

    return put


def _instead(path: Path, make: Callable[[Path], None]) -> None:
    """Have something made in the place of a file that a daemon may write again at any moment."""

    def is_made() -> bool:
        path.unlink(missing_ok=True)
        try:
            make(path)
        except FileExistsError:
            return False
        return True

    wait_for(is_made, f"it is in the place of {path.name}")


def _folder(path: Path) -> None:
    _instead(path, Path.mkdir)


def _link(path: Path) -> None:
    _instead(path, lambda one: one.symlink_to("/nowhere"))


DAMAGES = {"empty": _put(b""), "torn": _put(b'{"process": {"pi'), "deep": _put(DEEP), "folder": _folder, "link": _link}


@pytest.mark.parametrize("damage", DAMAGES.values(), ids=DAMAGES)
@pytest.mark.parametrize("name", [".seq", ".daemon.json", ".busy.json", ".stop"])
def test_no_damaged_file_stops_a_mission(lab: Laboratory, name: str, damage: Callable[[Path], None]) -> None:
    """Whatever lies there, a mission is approved, run and looked at."""
    lab.run("init")
    damage(lab.queue / name)

    lab.run("enqueue", "m1", "--", *lab.alone("m1"))
    for verb in ("list", "status", "check"):
        lab.run(verb)
    lab.run("stop", code=3)
    lab.run("drain")

    assert lab.count("end", "m1") == 1
    assert [line for line in lab.run("list", "--all").stdout.splitlines() if "quarantined" in line] == (
        [] if name != ".seq" else [f"quarantined  seq: {_why(lab)}"]
    )


def _why(lab: Laboratory) -> str:
    reason = lab.read(lab.queue / "quarantine/seq.why.json")
    assert reason is not None
    return str(reason["why"])


@pytest.mark.parametrize("damage", DAMAGES.values(), ids=DAMAGES)
def test_a_damaged_pause_is_a_pause_until_it_is_ended(lab: Laboratory, damage: Callable[[Path], None]) -> None:
    """Nothing begins by accident, and `resume` works."""
    lab.run("enqueue", "m1", "--", *lab.alone("m1"))
    damage(lab.queue / ".paused")

    lab.run("drain", code=75)
    lab.run("resume")
    assert not os.path.lexists(lab.queue / ".paused")
    lab.run("drain")
    assert lab.count("end", "m1") == 1


@pytest.mark.parametrize("damage", DAMAGES.values(), ids=DAMAGES)
def test_a_daemon_mends_its_record(lab: Laboratory, damage: Callable[[Path], None]) -> None:
    """Until then its lock tells that there is one; afterwards it can be stopped as ever."""
    daemon = lab.daemon(env={"KRANZQ_DAEMON_SCAN_SECONDS": "0.2"})
    damage(lab.queue / ".daemon.json")
    assert "no daemon runs" not in lab.run("status").stdout

    wait_for(lambda: (lab.read(lab.queue / ".daemon.json") or {}).get("process"), "the record is whole again")
    lab.run("stop")
    assert daemon.wait(PATIENCE) == 0
