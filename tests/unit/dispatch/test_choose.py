"""What a turn chooses, and what it only finishes: records that others are still writing count for nothing."""

from __future__ import annotations

import os

import pytest

from kranzq.backends.file.backend import FileQueue
from kranzq.dispatch.choose import choose
from kranzq.dispatch.parts import Memory
from kranzq.dispatch.take_back import take_back
from kranzq.model.ids import MissionId
from kranzq.runs.folders import Runs
from kranzq.wiring.dispatchers import parts_of_a_verb
from tests.laboratory import Laboratory

M1 = MissionId("m1")


@pytest.mark.parametrize("kept", [True, False], ids=["killed", "taken back"])
def test_only_a_cancel_that_is_over_is_finished_by_a_turn(
    lab: Laboratory, monkeypatch: pytest.MonkeyPatch, *, kept: bool
) -> None:
    """One that finds no room takes its record back before it lets go of the lock; its entry stays approved and runs."""
    lab.enqueue(M1)
    parts = parts_of_a_verb(lab.checkout, os.environ)
    with parts.open_queue() as queue:
        runs, change = Runs(lab.checkout, queue.kranz_fd), FileQueue.change

        def last_words(queue: FileQueue) -> object:
            if not kept and (folder := runs.open(M1, 1)) is not None:
                folder.discard()
                folder.close()
            return change(queue)

        with queue.change(), monkeypatch.context() as patched:
            patched.setattr(FileQueue, "take_out", lambda *_: [])
            take_back(queue, runs, (M1,), "someone", "")
        monkeypatch.setattr(FileQueue, "change", last_words)
        chosen, passed = choose(parts, queue, Memory())

        assert (chosen is None) == kept
        assert passed == {}
        assert len(queue.places()) == (0 if kept else 1)
