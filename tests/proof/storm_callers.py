"""Agents that work by the command line: each call is a process of its own, which may be killed at any instruction.

What each was asked and answered is written down as `tests.history_checker` reads it; one that was killed has no answer.
"""

from __future__ import annotations

import json
import os
import random
import subprocess
import threading
from pathlib import Path
from typing import Any

from tests import forking
from tests.forking import Wish, run
from tests.laboratory import REPO
from tests.proof.storm_victims import children
from tests.races.work_hammer import History

LEASE_S = 3
PATIENCE_S = 60.0
FAULTS = {3: "NoSuchItem", 4: "ItemLost", 6: "StoreUnavailable"}
"""How the checker calls what an exit code tells."""


class Caller:
    """One agent: it enqueues, claims, renews and hands in, and now and then forgets what it has."""

    def __init__(self, url: str, folder: Path, name: str) -> None:
        self.url, self.name = url, name
        self.dice = random.Random(name)
        self.history = History(str(folder), name)
        self.held: list[tuple[str, int]] = []
        self.calls = self.made = 0
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._work)

    def begin(self) -> None:
        """Work from now on."""
        self._thread.start()

    def end(self) -> None:
        """Come to the end of the call at hand."""
        self._over.set()
        self._thread.join(2 * PATIENCE_S)

    def _work(self) -> None:
        while not self._over.wait(self.dice.uniform(0.05, 0.5)):
            self.dice.choice([self._enqueue, self._claim, self._claim, self._renew, self._hand_in])()

    def _enqueue(self) -> None:
        self.made += 1
        item = f"{self.name}-{self.made}"
        self._call("enqueue", {"items": [item]}, "--id", item, "--title", "called", "--payload", "x", by=False)

    def _claim(self) -> None:
        asked = {"holder": self.name, "lease_ms": LEASE_S * 1000}
        answer = self._call("claim", asked, "--lease", f"{LEASE_S}s")
        self.held = [*self.held[-3:], *((one["id"], one["attempt"]) for one in (answer or {}).get("claimed", ()))]

    def _renew(self) -> None:
        if self.held:
            item, attempt = self.dice.choice(self.held)
            self._call(
                "heartbeat", self._shown(item, attempt), item, "--attempt", str(attempt), "--lease", f"{LEASE_S}s"
            )

    def _hand_in(self) -> None:
        if self.held:
            item, attempt = self.held.pop()
            asked = self._shown(item, attempt) | {"state": "done", "result": self.name}
            self._call("finish", asked, item, "--attempt", str(attempt), "--result", self.name)

    def _shown(self, item: str, attempt: int) -> dict[str, Any]:
        return {"item": item, "attempt": attempt, "holder": self.name, "lease_ms": LEASE_S * 1000}

    def _call(self, verb: str, asked: dict[str, Any], *words: str, by: bool = True) -> dict[str, Any] | None:
        """One call; its answer, None where it was killed or refused."""
        self.calls += 1
        part = str(self.calls)
        spoken = "complete" if verb == "finish" else verb
        argv = ["work", spoken, *words, *(("--agent", self.name) if by else ()), "--url", self.url, "--json"]
        self.history.say("call", verb=verb, asked=asked, part=part)
        try:
            done = run(Wish("kranzq.__main__", argv, str(REPO), os.environ), PATIENCE_S)
        except subprocess.TimeoutExpired:
            self.history.say("back", part=part, fault=f"never came back within {PATIENCE_S} s")
            return None
        if done.returncode < 0:
            return None  # killed: nobody knows what it did
        if verb == "claim" and done.returncode == 75:
            self.history.say("back", part=part, answer=[])
            return None
        if done.returncode:
            what = FAULTS.get(done.returncode, f"code {done.returncode}")
            known = done.returncode in {3, 4}
            self.history.say("back", part=part, fault=what if known else f"{what}: {done.stderr[-300:]}")
            return None
        answer: dict[str, Any] = json.loads(done.stdout)
        claimed = [[one["id"], one["attempt"]] for one in answer.get("claimed", ())]
        self.history.say("back", part=part, **({"answer": claimed} if verb == "claim" else {}))
        return answer


def at_work() -> list[int]:
    """The pids of the calls that go on just now."""
    return children(forking._forks[0]._process.pid) if forking._forks else []
