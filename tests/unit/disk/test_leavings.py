"""Promises about what killed writers leave: found by the writer's pid, removed whole or not at all."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from kranzq.disk import leavings
from kranzq.disk.atomic import temporary_name


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[int]:
    """An open folder."""
    fd = os.open(tmp_path, os.O_RDONLY)
    yield fd
    os.close(fd)


@pytest.mark.parametrize("form", ["ours", "a keeper's", "kranz's", "kranz's oldest", "a name with dots"])
def test_the_writer_of_a_temporary_file_is_told_by_its_name(tmp_path: Path, folder: int, form: str) -> None:
    """Our form, a keeper's, and both of kranz's bear the writer's pid."""
    name, pid = {
        "ours": (temporary_name(".seq"), os.getpid()),
        "a keeper's": (".exit.json.4711.2.tmp", 4711),
        "kranz's": (".x.json.4711.12.tmp", 4711),
        "kranz's oldest": (".x.json.4711.tmp", 4711),
        "a name with dots": (".002-00000000000000000007-a.1.2.json.4711.0.tmp", 4711),
    }[form]
    (tmp_path / name).touch()
    asked: list[int] = []

    def is_gone(one: int, _: float) -> bool:
        asked.append(one)
        return True

    assert list(leavings.dead_temporaries(folder, is_gone)) == [name]
    assert asked == [pid]


def test_only_files_of_gone_writers_go(tmp_path: Path, folder: int) -> None:
    """A living writer's file stays, and so does what is no temporary file, or a folder with something in it."""
    kept = ["x.json", ".x.json.1.1.tmp", "x.json.2.1.tmp", ".x.tmp", ".2.tmp.json", ".busy.flock"]
    for name in [*kept, ".x.json.2.1.tmp"]:
        (tmp_path / name).touch()
    (tmp_path / ".full.2.1.tmp/x").mkdir(parents=True)
    (tmp_path / ".empty.2.1.tmp").mkdir()
    (tmp_path / ".link.2.1.tmp").symlink_to("x.json")

    assert leavings.sweep_temporaries(folder, lambda pid, _: pid == 2) == 2
    assert sorted(os.listdir(tmp_path)) == sorted([*kept, ".full.2.1.tmp", ".link.2.1.tmp"])


def test_a_folder_is_removed_with_all_that_is_in_it_and_no_link_is_followed(tmp_path: Path, folder: int) -> None:
    """What a mission put there goes too; what it points to stays."""
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "kept").touch()
    (tmp_path / "run/deep/er").mkdir(parents=True)
    (tmp_path / "run/deep/file").touch()
    (tmp_path / "run/link").symlink_to(outside)

    assert leavings.remove_whole(folder, "run")
    assert not leavings.remove_whole(folder, "run")
    assert os.listdir(tmp_path) == ["outside"]
    assert (outside / "kept").exists()


def test_a_removal_that_was_killed_is_finished_later(
    tmp_path: Path, folder: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After a kill the folder is whole or hidden, and the hidden rest goes with the next sweep."""
    (tmp_path / "run/deep").mkdir(parents=True)

    def killed(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as change:
        change.setattr(leavings, "_remove", killed)
        with pytest.raises(KeyboardInterrupt):
            leavings.remove_whole(folder, "run")
    left = os.listdir(tmp_path)
    leavings.finish_removals(folder)

    assert len(left) == 1
    assert left[0].startswith(".gone.")
    assert os.listdir(tmp_path) == []
