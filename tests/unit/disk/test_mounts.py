"""Which file systems keep a rename whole over a power cut: known by type, and of ext4 by whether it has a journal."""

from __future__ import annotations

import builtins
import io
import os
from typing import Any

import pytest

from kranzq.disk.mounts import Mount, keeps_renames


@pytest.mark.parametrize(
    ("kind", "whole"), [("btrfs", True), ("xfs", True), ("tmpfs", None), ("overlay", None), ("9p", None)]
)
def test_the_type_tells(*, kind: str, whole: bool | None) -> None:
    """What is not known is not said to be bad."""
    assert keeps_renames(Mount("/", kind, frozenset()), 0) is whole


@pytest.mark.parametrize(("said", "whole"), [("412\n", True), ("<none>\n", False), (None, None)])
def test_an_ext4_tells_whether_it_has_a_journal(
    *,
    said: str | None,
    whole: bool | None,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """By the kernel's own page about that disk; without one it is not known."""
    asked = []

    def read(path: str, *_: Any, **__: Any) -> io.StringIO:
        asked.append(path)
        if said is None:
            raise FileNotFoundError(2, "No such file or directory", path)
        return io.StringIO(said)

    monkeypatch.setattr(os, "readlink", lambda _path: "../../block/vda/vda1")
    monkeypatch.setattr(builtins, "open", read)

    assert keeps_renames(Mount("/", "ext4", frozenset()), os.makedev(254, 1)) is whole
    assert asked == ["/sys/fs/ext4/vda1/journal_task"]
