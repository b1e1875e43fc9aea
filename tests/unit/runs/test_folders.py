"""Run folders: what lies in them besides the records."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from kranzq.model.checkout import Checkout
from kranzq.model.ids import MissionId
from kranzq.runs.folders import Runs


def test_a_run_keeps_the_entry_that_it_took(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """By a second name of the file, by a copy where the system refuses one, and not at all on a full disk."""
    (tmp_path / ".kranz").mkdir()
    (tmp_path / "claim").write_bytes(b"entry")
    queue = os.open(tmp_path, os.O_RDONLY)
    kranz = os.open(tmp_path / ".kranz", os.O_RDONLY)
    runs = Runs(Checkout(str(tmp_path), has_git=False), kranz)

    def refused(*_: object, **__: object) -> None:
        raise PermissionError

    with runs.new(MissionId("m-1")) as linked:
        linked.keep_entry(queue, "claim")
        assert linked.kept_entry() == b"entry"
        assert (tmp_path / "claim").stat().st_nlink == 2
    monkeypatch.setattr(os, "link", refused)
    with runs.new(MissionId("m-1")) as copied:
        copied.keep_entry(queue, "claim")
        assert copied.kept_entry() == b"entry"
        assert (tmp_path / "claim").stat().st_nlink == 2
    with runs.new(MissionId("m-1")) as without:
        without.keep_entry(queue, "gone")
        assert without.kept_entry() is None
    os.close(queue)
    os.close(kranz)
