"""Those who approve and amend missions in a storm, each in a thread that calls one verb after another.

Each verb is a process of its own, forked by `tests.forking`, which may be killed or stopped at any instruction; what it
was asked and what it answered is written down. One that was killed has answered nothing.
"""

from __future__ import annotations

import itertools
import json
import os
import random
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests import forking
from tests.forking import Wish, run
from tests.laboratory import REPO
from tests.proof import storm_mission
from tests.proof.storm_told import Told
from tests.proof.storm_victims import Victim, children, victim

ENQUEUERS, RECOVERERS, AMENDERS = 8, 2, 2
BACKLOG = 24
"""Nobody enqueues while so many wait: the storm is about those who work, not about a long queue."""
PLANS = dict(zip(storm_mission.PLANS, (50, 8, 5, 5, 8, 5, 12, 2), strict=True))
CANCEL, PARK, UNPARK, EDIT = 18, 18, 40, 24
PATIENCE_S = 60.0


class People:
    """All threads that call verbs."""

    def __init__(self, root: Path, history: Path, folder: Path, seed: int) -> None:
        self.root, self.history, self.folder, self.seed = root, history, folder, seed
        self.queue = root / ".kranz" / "queue"
        self._told = Told(history / "calls.jsonl")
        self._numbers = itertools.count(1)
        self.over = threading.Event()
        self._threads: list[threading.Thread] = []

    def begin(self) -> None:
        """Let them all begin."""
        for who, many, act in (
            ("enqueue", ENQUEUERS, self._enqueuer),
            ("recover", RECOVERERS, self._recoverer),
            ("amend", AMENDERS, self._amender),
        ):
            for number in range(many):
                name = f"{who}-{number}"
                (self.folder / "people" / name).mkdir(parents=True)
                thread = threading.Thread(target=self._again, args=(act(name, random.Random(f"{self.seed} {name}")),))
                thread.start()
                self._threads.append(thread)

    def end(self) -> None:
        """Let each come to the end of its verb."""
        self.over.set()
        for thread in self._threads:
            thread.join(2 * PATIENCE_S)

    def call(self, verb: str, mission: str, *words: str, name: str = "", seconds: float = PATIENCE_S) -> dict[str, Any]:
        """Call a verb in a process of its own; what it answered as JSON, nothing where it was killed or refused."""
        number = next(self._numbers)
        where = self.folder / "people" / name
        argv = ["-C", str(self.root), verb, *([mission] if mission else []), *words]
        self._told.say(what="call", call=number, verb=verb, mission=mission, words=words)
        code: int | str | None
        try:
            done = run(Wish("kranzq.__main__", argv, str(where if name else REPO), os.environ), seconds)
        except subprocess.TimeoutExpired:
            self._told.say(what="back", call=number, code="never", answer={}, said=f"not within {seconds} s")
            return {}
        code = None if done.returncode < 0 else done.returncode
        answer = _object(done.stdout) if code == 0 else {}
        said = done.stderr[-600:] if code else ""
        self._told.say(what="back", call=number, code=code, answer=answer, said=said)
        return answer

    def names(self, *places: str) -> list[str]:
        """The missions whose entries lie in these places of the queue; a claimed one counts as being there."""
        found = []
        for place in places:
            try:
                names = os.listdir(self.queue / place)
            except OSError:
                continue
            found += [name for name in names if ".json" in name and name[0] != "." and ".why." not in name]
        return [name.partition(".json")[0].split("-", 2)[2] for name in found if name.count("-") >= 2]

    def verbs(self) -> list[Victim]:
        """The verbs that are at work just now."""
        return [one for pid in children(self._forks()) if (one := victim(pid, str(self.folder))) is not None]

    def _forks(self) -> int:
        return forking._forks[0]._process.pid

    def log(self, name: str) -> str:
        """What a long-running program has said."""
        path = self.history / f"{name}.log"
        return path.read_text(errors="replace") if path.exists() else ""

    def _again(self, act: Callable[[], float]) -> None:
        while not self.over.wait(act()):
            pass

    def _enqueuer(self, name: str, dice: random.Random) -> Callable[[], float]:
        made: list[tuple[str, tuple[str, ...]]] = []

        def act() -> float:
            if len(self.names("")) >= BACKLOG:
                return 0.3
            extra: tuple[str, ...] = ()
            if made and dice.random() < 0.2:
                mission, words = dice.choice(made[-4:])
                extra = (dice.choice(["--once", "--again"]),)
            else:
                mission, words = f"{name}-{len(made)}", self._words(f"{name}-{len(made)}", dice)
                made.append((mission, words))
            self.call("enqueue", mission, "--json", *extra, *words, name=name)
            return dice.uniform(0.2, 2.5)

        return act

    def _words(self, mission: str, dice: random.Random) -> tuple[str, ...]:
        [plan] = dice.choices(list(PLANS), list(PLANS.values()))
        seconds = 2.0 if plan == "slow" else dice.choice([0.01, 0.05, 0.2, 0.5])
        flags = ["--priority", str(dice.randrange(4))]
        if dice.random() < 0.1:
            flags += ["--not-before", "+2s"]
        if plan == "fails":
            flags += ["--retries", str(dice.randrange(3))]
        program = [sys.executable, "-I", "-S", storm_mission.__file__, str(self.history), mission, plan, str(seconds)]
        return (*flags, "--", *program)

    def _recoverer(self, name: str, dice: random.Random) -> Callable[[], float]:
        def act() -> float:
            self.call("recover", "", "--yes", "--json", name=name)
            return dice.uniform(0.3, 2.0)

        return act

    def _amender(self, name: str, dice: random.Random) -> Callable[[], float]:
        def act() -> float:
            [verb] = dice.choices(["cancel", "park", "unpark", "edit"], [CANCEL, PARK, UNPARK, EDIT])
            names = self.names("parked") if verb == "unpark" else self.names("", "waiting")
            if names:
                words = {
                    "edit": ("--priority", str(dice.randrange(4))),
                    "park": ("the storm",),
                }.get(verb, ())
                self.call(verb, dice.choice(sorted(names)), *words, "--json", name=name)
            return dice.uniform(0.3, 2.0)

        return act


def _object(text: str) -> dict[str, Any]:
    try:
        value = json.loads(text)
    except ValueError:
        return {}
    return value if isinstance(value, dict) else {}
