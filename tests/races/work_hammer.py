"""One of the programs that hammer a work queue: calls every verb at random and writes down each call before and after.

    python -m tests.races.work_hammer URL FOLDER SECONDS THREADS

It ends by itself after that time, or is killed. What it writes is for `tests.history_checker`.
"""

from __future__ import annotations

import contextlib
import json
import os
import random
import sys
import threading
import time
from collections.abc import Iterator
from typing import Any

from kranzq import work
from kranzq.work import Finish, Held, Holder, ItemClaim, NewItem, Outcome, Target, Wanted, WorkStore

LEASE_MS = 600
MOST_HELD = 12
CLOCK = time.CLOCK_BOOTTIME


class History:
    """One thread's calls, each line written before anything else happens."""

    def __init__(self, folder: str, name: str) -> None:
        self._fd = os.open(f"{folder}/{name}.jsonl", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)

    def say(self, phase: str, **facts: Any) -> None:
        """One line with the time."""
        line = json.dumps({"phase": phase, "at": time.clock_gettime_ns(CLOCK), **facts}) + "\n"
        os.write(self._fd, line.encode())

    @contextlib.contextmanager
    def call(self, verb: str, **asked: Any) -> Iterator[dict[str, Any]]:
        """Around one call: what it was asked before, its answer or the name of its fault after."""
        answer: dict[str, Any] = {}
        self.say("call", verb=verb, asked=asked)
        try:
            yield answer
        except Exception as fault:  # noqa: BLE001 - whatever it is, the checker judges it
            name = type(fault).__name__
            self.say("back", fault=name if name in {"ItemLost", "NoSuchItem"} else f"{name}: {fault}")
        else:
            self.say("back", **answer)


class Hammer:
    """One thread."""

    def __init__(self, store: WorkStore, folder: str, name: str) -> None:
        self.store, self.name = store, name
        self.history = History(folder, name)
        self.chance = random.Random(name)
        self.holder = Holder(name, uid=self.chance.choice(["", f"uid of {name}"]))
        self.held: list[ItemClaim] = []
        self.done: list[tuple[Held, Outcome, str]] = []
        self.made = 0

    def run(self, seconds: float) -> None:
        """Call one verb after another."""
        until = time.monotonic() + seconds
        verbs = {
            self.enqueue: 10,
            self.enqueue_many: 2,
            self.claim: 14,
            self.claim_again: 2,
            self.claim_many: 2,
            self.heartbeat: 8,
            self.finish: 8,
            self.finish_again: 2,
            self.finish_many: 2,
            self.release: 3,
            self.cancel: 2,
            self.impostor: 2,
            self.sweep: 1,
            self.prune: 0.3,
            self.page: 0.6,
        }
        while time.monotonic() < until:
            [verb] = self.chance.choices(list(verbs), list(verbs.values()))
            verb()

    def drain(self) -> None:
        """Claim and finish everything that there is, until nothing is left."""
        while True:
            self.claim_many(100)
            if not self.held:
                return
            while self.held:
                self.finish()

    def new(self) -> NewItem:
        """An item for anybody, for a group of all, or for this holder by name in another case."""
        self.made += 1
        target = self.chance.choice([Target(), Target(group="all"), Target()])
        return NewItem(
            title="hammered",
            payload="x" * self.chance.choice([1, 10, 5000]),
            target=target,
            priority=self.chance.randrange(3),
            max_attempts=self.chance.choice([2, 1000, 1000]),
            id=f"{self.name}-{self.made}",
            key=self.chance.choice(["", f"key of {self.made}"]),
            created_by=self.name,
        )

    def enqueue(self) -> None:
        """One item."""
        new = self.new()
        with self.history.call("enqueue", items=[new.id]):
            assert self.store.enqueue(new).created

    def enqueue_many(self) -> None:
        """Several at once."""
        new = [self.new() for _ in range(self.chance.randrange(1, 8))]
        with self.history.call("enqueue", items=[one.id for one in new]):
            assert all(answer.created for answer in self.store.enqueue_many(new))

    def claim(self, request: str = "") -> None:
        """One item, if there is one."""
        if len(self.held) > MOST_HELD:
            self.held.pop(0)  # forgotten: its lease lapses
        asked = {"holder": self.name, "lease_ms": LEASE_MS, "request": request}
        with self.history.call("claim", **asked) as answer:
            claim = self.store.claim(self.holder, self.wanted(), lease_ms=LEASE_MS, request_id=request)
            answer["answer"] = [[claim.id, claim.attempt]] if claim is not None else []
            self.held += [claim] if claim is not None else []

    def claim_again(self) -> None:
        """The same request twice, as after an answer that was lost."""
        request = f"{self.name} {self.chance.random()}"
        self.claim(request)
        self.claim(request)

    def claim_many(self, limit: int = 5) -> None:
        """Several at once."""
        with self.history.call("claim", holder=self.name, lease_ms=LEASE_MS) as answer:
            claims = self.store.claim_many(self.holder, self.wanted(), limit=limit, lease_ms=LEASE_MS)
            answer["answer"] = [[claim.id, claim.attempt] for claim in claims]
            self.held += claims

    def wanted(self) -> Wanted:
        """Everybody is of the group."""
        return Wanted(groups=frozenset({"ALL"}))

    def heartbeat(self) -> None:
        """Renew something that was claimed, perhaps long ago."""
        if self.held:
            claim = self.chance.choice(self.held)
            with self.history.call("heartbeat", **self.shown(claim), lease_ms=LEASE_MS):
                self.store.heartbeat(claim, LEASE_MS)

    def finish(self) -> None:
        """End something that was claimed."""
        if self.held:
            claim = self.held.pop(self.chance.randrange(len(self.held)))
            end = (claim, self.chance.choice([Outcome.SUCCEEDED, Outcome.FAILED]), f"{self.name} {self.made}")
            self.done = [*self.done[-5:], end]
            self._finish(*end)

    def finish_again(self) -> None:
        """Say an end once more, or another one for the same attempt."""
        if self.done:
            claim, outcome, result = self.chance.choice(self.done)
            self._finish(claim, outcome, self.chance.choice([result, result + " and more"]))

    def _finish(self, claim: Held, outcome: Outcome, result: str) -> None:
        with self.history.call("finish", **self.shown(claim), **told(outcome, result)):
            self.store.finish(claim, outcome, result)

    def finish_many(self) -> None:
        """End several at once; for the checker each is a call of its own."""
        if not self.held:
            return
        ends = [Finish(claim, Outcome.SUCCEEDED, f"{self.name} {claim.id}") for claim in self.held[:4]]
        del self.held[:4]
        for number, end in enumerate(ends):
            self.many("call", number, end)
        try:
            faults = self.store.finish_many(ends)
        except Exception as fault:  # noqa: BLE001 - as above
            for number, end in enumerate(ends):
                self.many("back", number, end, fault=f"{type(fault).__name__}: {fault}")
            return
        for number, (end, refusal) in enumerate(zip(ends, faults, strict=True)):
            self.many("back", number, end, **({"fault": type(refusal).__name__} if refusal is not None else {}))

    def many(self, phase: str, number: int, end: Finish, **more: Any) -> None:
        """A line of one of several ends; the checker pairs them by `part`."""
        asked = self.shown(end.held) | told(end.outcome, end.result)
        self.history.say(phase, verb="finish", asked=asked, part=str(number), **more)

    def release(self) -> None:
        """Give back, some as declined, sometimes twice."""
        if self.held:
            claim, declined = self.held.pop(), self.chance.random() < 0.4
            for _ in range(self.chance.choice([1, 1, 2])):
                why = f"{self.name} {claim.id}"
                with self.history.call("release", **self.shown(claim), declined=declined, result=why) as answer:
                    answer["answer"] = self.store.release(claim, why, declined=declined).value

    def cancel(self) -> None:
        """Cancel one of this thread's items, whoever has it, or one that it holds."""
        own = f"{self.name}-{self.chance.randrange(1, self.made + 1)}" if self.made else ""
        item = self.chance.choice([own, *[claim.id for claim in self.held[:1]]])
        if item:
            with self.history.call("cancel", item=item, result=self.name) as answer:
                answer["answer"] = self.store.cancel(item, self.name)

    def impostor(self) -> None:
        """Speak for somebody else: another name with the right attempt, and the right name with another attempt."""
        if self.held:
            claim = self.chance.choice(self.held)
            name = f"not {self.name}"
            for held in (Held(claim.id, claim.attempt, Holder(name)), Held(claim.id, claim.attempt + 1, Holder(name))):
                asked = self.shown(held) | {"holder": name}
                with self.history.call("heartbeat", **asked, lease_ms=LEASE_MS):
                    self.store.heartbeat(held, LEASE_MS)
                with self.history.call("finish", **asked, state="done", result="taken"):
                    self.store.finish(held, Outcome.SUCCEEDED, "taken")

    def sweep(self) -> None:
        """Lapse what is overdue."""
        with self.history.call("sweep") as answer:
            swept = self.store.sweep()
            answer["answer"] = {"lapsed": swept.lapsed, "failed": swept.failed}

    def prune(self) -> None:
        """Remove what ended over a second ago."""
        with self.history.call("prune") as answer:
            answer["answer"] = self.store.prune(1.0)

    def page(self) -> None:
        """Look around: each item once, whatever changes meanwhile, and the other lists."""
        with self.history.call("page"):
            first = self.store.page(limit=20)
            second = self.store.page(limit=20, cursor=first.cursor) if first.cursor else None
            seen = [(one.updated_at, one.seq) for page in (first, second) if page is not None for one in page.items]
            assert seen == sorted(set(seen), reverse=True), "the pages overlap"
            self.store.stats()
            self.store.unseen(5)
            self.store.entries(limit=5)

    def shown(self, held: Held) -> dict[str, Any]:
        """What a holder shows."""
        return {"item": held.id, "attempt": held.attempt, "holder": self.name}


def told(outcome: Outcome, result: str) -> dict[str, str]:
    """An end as the checker knows it."""
    return {"state": "done" if outcome is Outcome.SUCCEEDED else "failed", "result": result}


def main() -> None:
    """Hammer in several threads; with a time of 0 drain instead."""
    url, folder, seconds, threads = sys.argv[1], sys.argv[2], float(sys.argv[3]), int(sys.argv[4])
    with work.open(url) as store:
        hammers = [Hammer(store, folder, f"h{os.getpid()}-{number}") for number in range(threads)]
        if not seconds:
            hammers[0].drain()
            return
        running = [threading.Thread(target=one.run, args=(seconds,)) for one in hammers]
        for one in running:
            one.start()
        for one in running:
            one.join()


if __name__ == "__main__":
    main()
