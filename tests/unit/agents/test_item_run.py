"""One item whose command cannot be started: it goes back, and people read why."""

from __future__ import annotations

import errno
import os
from typing import Any, cast

import pytest

from kranzq.agents.item_command import ItemCommand
from kranzq.agents.item_run import ItemEnd, ItemRunner
from kranzq.model.claim import Holder
from kranzq.model.work import ItemClaim


class Store:
    """Notes what is given back."""

    def __init__(self) -> None:
        self.released: list[tuple[str, bool]] = []

    def release(self, _: object, why: str, *, declined: bool) -> None:
        """Note it."""
        self.released.append((why, declined))


@pytest.mark.parametrize(
    ("fault", "told"),
    [
        (OSError(errno.EMFILE, os.strerror(errno.EMFILE)), "Too many open files"),
        (OSError(errno.ENOENT, os.strerror(errno.ENOENT), "/gone"), "/gone: No such file or directory"),
    ],
)
def test_why_it_was_not_started_is_told_in_words(fault: OSError, told: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """With the file where there is one; no attempt is used up, and the agent leaves."""

    def start(*_: object) -> ItemCommand:
        raise fault

    monkeypatch.setattr(ItemCommand, "start", start)
    store, nothing = Store(), cast("Any", None)
    runner = ItemRunner(cast("Any", store), nothing, 60.0, nothing, nothing, nothing, nothing)

    assert runner.run(ItemClaim("one", 1, Holder("me"), nothing), 0.0) == ItemEnd("one", "not started", told)
    assert store.released == [(told, True)]
