"""The list of known checkouts: one file each, and one that is damaged hides no other."""

from __future__ import annotations

from pathlib import Path

import pytest

from kranzq.errors import Refused
from kranzq.known import KnownCheckouts

ODD = ["/srv/a", "/srv/with\nline\x1b[2J", "/srv/half\udcff", "/srv/漢字"]


def test_what_was_added_is_there_until_it_is_removed(tmp_path: Path) -> None:
    """Whatever the path is made of; each act tells whether it changed anything."""
    known = KnownCheckouts(str(tmp_path / "state"))

    assert [known.add(root) for root in ODD] == [True] * 4
    assert known.add(ODD[1]) is False
    assert known.roots() == sorted(ODD)
    assert known.remove(ODD[1]) is True
    assert known.remove(ODD[1]) is False
    assert known.roots() == sorted({*ODD} - {ODD[1]})


def test_a_look_makes_nothing(tmp_path: Path) -> None:
    """Neither does taking out what is not there."""
    known = KnownCheckouts(str(tmp_path / "state"))

    assert known.roots() == []
    assert known.remove("/srv/a") is False
    assert not (tmp_path / "state").exists()


def test_a_damaged_file_hides_no_other(tmp_path: Path) -> None:
    """Nor does one that was copied to another name, or that others may write."""
    known = KnownCheckouts(str(tmp_path / "state"))
    for root in ("/srv/a", "/srv/b", "/srv/c"):
        known.add(root)
    folder = tmp_path / "state" / "checkouts"
    first, second, third = sorted(folder.iterdir())
    kept = known.roots()
    (folder / f"{'0' * 32}.json").write_bytes(third.read_bytes())
    (folder / "x.json").symlink_to("/etc/passwd")
    assert known.roots() == kept
    first.write_text("{")
    second.chmod(0o622)

    assert len(known.roots()) == 1


def test_a_folder_that_others_may_write_is_refused(tmp_path: Path) -> None:
    """It would let them choose where this user looks."""
    known = KnownCheckouts(str(tmp_path / "state"))
    known.add("/srv/a")
    (tmp_path / "state" / "checkouts").chmod(0o777)

    with pytest.raises(Refused):
        known.roots()
