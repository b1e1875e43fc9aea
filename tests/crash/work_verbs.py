"""Runs one verb of the work queue in a process that is killed at a system call that it is told, again and again.

Started by `tests.crash.test_work_killed` under `strace`, which kills whatever of its processes makes the `KILLED_AT`-th
call of those that change something. Each line on standard input names a verb, a file and a number; a child makes as
many calls that change nothing as it takes for the kill to meet the verb's own call of that number.
"""

from __future__ import annotations

import contextlib
import json
import os
import sys
from collections.abc import Callable

from kranzq.backend import Wanted
from kranzq.backends.sql.backend import SqlBackend
from kranzq.backends.sql.opening import open_store
from kranzq.model.claim import Holder
from kranzq.model.outcome import Outcome
from kranzq.model.presence import NewPresence, Subject
from kranzq.model.work import Finish, Held, ItemState
from kranzq.testing.items import item

KILLED_AT = 120
CHANGES = "pwrite64,write,fdatasync,fsync,ftruncate,unlink,unlinkat,rename,mkdir,flock,fallocate"
ANN = Holder("ann", uid="u-1")
SRC = Subject("hub.example/o/r", "src")
ONE, TWO = Held("c-1", 1, ANN), Held("c-2", 1, ANN)


def prepare(path: str) -> None:
    """A queue with something for every verb."""
    with open_store(f"sqlite:///{path}") as work:
        work.enqueue_many([item(name) for name in ("c-1", "c-2", "lapsed", "done", "overdue")])
        work.claim_many(ANN, limit=2)
        work.claim(ANN, lease_ms=1)
        last = work.claim(ANN, Wanted(frozenset({"done"})))
        assert last is not None
        work.finish(last)
        while work.show("lapsed").state is not ItemState.LAPSED:
            work.sweep()
        work.claim(ANN, Wanted(frozenset({"overdue"})), lease_ms=1)
        work.enqueue_many([item(f"o-{number}", payload="x" * 9000) for number in range(3)])
        for about in (SRC, Subject(topic="another")):
            work.presence.put(NewPresence(ANN, about, "one"))


VERBS: dict[str, Callable[[SqlBackend], object]] = {
    "enqueue": lambda work: work.enqueue(item("n-1", key="k", payload="x" * 9000)),
    "enqueue_many": lambda work: work.enqueue_many([item(f"n-{number}") for number in range(3)]),
    "claim": lambda work: work.claim(ANN, request_id="r-1"),
    "claim_many": lambda work: work.claim_many(ANN, limit=3),
    "heartbeat": lambda work: work.heartbeat(Held("lapsed", 1, ANN)),
    "finish": lambda work: work.finish(ONE, Outcome.SUCCEEDED, "r" * 5000),
    "finish_many": lambda work: work.finish_many([Finish(ONE, Outcome.SUCCEEDED, "r"), Finish(TWO, Outcome.FAILED)]),
    "release": lambda work: work.release(ONE, "why not"),
    "declined": lambda work: work.release(ONE, "not mine", declined=True),
    "cancel": lambda work: work.cancel("c-1", "not wanted"),
    "sweep": lambda work: work.sweep(),
    "grant_grace": lambda work: work.grant_grace(5),
    "prune": lambda work: work.prune(-1),
    "renew": lambda work: work.presence.put(NewPresence(ANN, SRC, "two")),
    "end_presence": lambda work: work.presence.release(ANN),
}
AGAIN = frozenset(
    {
        "enqueue",
        "enqueue_many",
        "claim",
        "heartbeat",
        "finish",
        "finish_many",
        "release",
        "declined",
        "cancel",
        "sweep",
        "renew",
        "end_presence",
    }
)
"""Verbs that a caller who got no answer may call once more: twice is the same as once."""


def run(verb: str, path: str, told: int) -> None:
    """The verb in full, from opening to closing; says `done` as soon as it was reported."""
    if verb == "migrate":
        open_store(f"sqlite:///{path}").close()
        os.writev(told, [b"done"])
        return
    with open_store(f"sqlite:///{path}") as work:
        VERBS[verb](work)
        os.writev(told, [b"done"])


def child(verb: str, path: str, at: int, told: int) -> None:
    """Be killed at the verb's own change number `at`; 0 is never."""
    if at:
        for _ in range(KILLED_AT - at):
            with contextlib.suppress(OSError):
                os.fdatasync(told)  # of a pipe: an error, and yet a call that counts
    run(verb, path, told)


def main() -> None:
    """One child for each line; answers whether it was killed, and whether it had reported."""
    for line in sys.stdin:
        order = json.loads(line)
        reading, writing = os.pipe()
        pid = os.fork()
        if pid == 0:
            code = 1
            try:
                child(order["verb"], order["path"], order["at"], writing)
                code = 0
            finally:
                os._exit(code)
        os.close(writing)
        _, status = os.waitpid(pid, 0)
        said = os.read(reading, 100).decode()
        os.close(reading)
        os.writev(1, [json.dumps({"status": status, "reported": said == "done"}).encode() + b"\n"])


if __name__ == "__main__":
    main()
