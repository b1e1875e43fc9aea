"""A checkout whose dispatchers serve items of a work queue besides its own missions, for stories and kills."""

from __future__ import annotations

import os
import sys

import pytest

from kranzq.backends.sql.opening import open_store
from kranzq.model.item_policy import mission_of_item
from kranzq.model.work import ItemState, NewItem
from tests.laboratory import Laboratory, wait_for

RUN_ITEM = """
import os, subprocess, sys
notes = sys.argv[1]
title, *how = os.environ["KRANZ_ITEM_TITLE"].split("|")
seconds, code = how if how else ("0.02", "0")
print("payload", open(os.environ["KRANZ_ITEM_PAYLOAD"]).read(), "attempt", os.environ["KRANZ_ITEM_ATTEMPT"], flush=True)
sys.exit(subprocess.call([sys.executable, "-I", "-S", notes + "/alone.py", notes, title, seconds, code]))
"""


class Shop:
    """A checkout whose dispatchers serve items of one work queue as well."""

    def __init__(self, lab: Laboratory, url: str, monkeypatch: pytest.MonkeyPatch) -> None:
        self.lab, self.url = lab, url
        program = lab.notes / "run_item.py"
        program.write_text(RUN_ITEM)
        monkeypatch.setenv("KRANZQ_BACKENDS", "file,sql")
        monkeypatch.setenv("KRANZQ_WORK_URL", url)
        monkeypatch.setenv("KRANZQ_WORK_COMMAND", f"{sys.executable} -I -S {program} {lab.notes}")
        self.store = open_store(url)

    def add(self, title: str, seconds: float = 0.02, code: int = 0, **fields: object) -> str:
        """Enqueue an item; its id. It tells about itself as missions do, under its title."""
        new = NewItem(f"{title}|{seconds}|{code}", f"do {title}", kind="mission", **fields)  # type: ignore[arg-type]
        return self.store.enqueue(new).entry.id

    def state(self, item: str) -> ItemState:
        """Where it is."""
        return self.store.show(item).state

    def until(self, item: str, state: ItemState, seconds: float = 30) -> None:
        """Wait until an item is there."""
        wait_for(
            lambda: self.state(item) is state,
            f"{item} is {state.value}, not {self.state(item)}: {self.lab.log()}",
            seconds=seconds,
        )

    def runs(self, item: str) -> None:
        """Wait until the mission of an item runs."""
        wait_for(lambda: self.lab.keeper(mission_of_item(item)), "it runs")

    def claims(self) -> list[str]:
        """The claims on items that lie in the queue."""
        return [name for name in os.listdir(self.lab.queue) if name.startswith(".item.")]


def started(lab: Laboratory, title: str, times: int = 1) -> None:
    """Wait until a mission has told that it runs."""
    wait_for(lambda: lab.count("start", title) == times, f"{title} runs: {lab.log()}")
