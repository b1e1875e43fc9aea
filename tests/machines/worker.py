"""A process that runs verbs on request, with the package imported already: far faster than a program for each.

    python -m tests.machines.worker

One request a line on its input, one answer a line on its output, both JSON. A verb that dispatches, or that is to be
killed or held at one of its changes of the disk or to find it full, runs in a child: this process stays what it was.
"""

from __future__ import annotations

import importlib
import io
import json
import os
import signal
import sys
from typing import Any

from kranzq import events, queue
from kranzq.backends.file import backend, bad_files
from kranzq.cli.main import INTERRUPTED, VERBS, run
from kranzq.daemon import stopping
from kranzq.errors import EXIT_BUSY, EXIT_LATER, KranzqError
from kranzq.model import policy
from kranzq.runs import keepers
from tests.crash.killed import wrap_changes
from tests.machines.full_disk import fill
from tests.machines.world import QUICK_BACKOFF_MS

LOCK_S = 100.0
"""Stands for five seconds: that a lock is held for long, where much else goes on, is no answer to be modelled."""
_IMPORTED = (
    "dispatch.approve dispatch.amend dispatch.retry dispatch.edit dispatch.cancel dispatch.look dispatch.status "
    "dispatch.why daemon.drain daemon.loop daemon.stopping dispatch.after_crash hooks.outbox trust.may_run "
    "trust.settings backends.file.backend config busy.foreign runs.leftovers runs.preflight dispatch.producers "
    "dispatch.turn dispatch.unattended runs.folder runs.folders dispatch.aftermath cli.log dispatch.predecessors "
    "cli.showing"
)


def main() -> None:
    """Answer requests until the input ends."""
    vars(policy)["BACKOFF_FIRST_S"] = QUICK_BACKOFF_MS / 1000
    for module in (backend, bad_files):
        vars(module)["PATIENCE_S"] = LOCK_S
    vars(stopping)["SECOND_AFTER_S"] = -1  # two signals, however close, are two
    vars(keepers)["KEEPER_PROGRAM"] = os.environ["MACHINE_KEEPER"]
    os.environ["KRANZ_CLAIM_TTL"] = "0"
    vars(os)["fsync"] = os.fstat  # a kill takes nothing that was written: only a power cut asks for more
    for name in {place.partition(":")[0] for place, _ in VERBS.values()} | {
        f"kranzq.{name}" for name in _IMPORTED.split()
    }:
        importlib.import_module(name)
    held: _Child | None = None
    for line in sys.stdin:
        wanted = json.loads(line)
        if held is not None:
            answer = held.go_on()
        elif wanted.get("fork") or wanted.get("at"):
            held = _Child(
                wanted["argv"], wanted.get("at") or 0, wanted.get("signal") or 0, full=wanted.get("full", False)
            )
            answer = held.wait()
        else:
            answer = _run(wanted["argv"])
        if "held" not in answer:
            held = None
        sys.__stdout__.write(json.dumps(answer) + "\n")  # type: ignore[union-attr]
        sys.__stdout__.flush()  # type: ignore[union-attr]


class _Child:
    """One verb in a process of its own."""

    def __init__(self, argv: list[str], at: int, number: int, *, full: bool) -> None:
        self._result = os.memfd_create("result")
        self._pid = os.fork()
        if self._pid == 0:
            _in_child(argv, at, number, self._result, full=full)

    def go_on(self) -> dict[str, Any]:
        os.kill(self._pid, signal.SIGCONT)
        return self.wait()

    def wait(self) -> dict[str, Any]:
        _, status = os.waitpid(self._pid, os.WUNTRACED)
        if os.WIFSTOPPED(status):
            return {"held": self._pid}
        os.lseek(self._result, 0, os.SEEK_SET)
        with open(self._result, "rb") as file:
            data = file.read()
        return json.loads(data) if data else {"code": -os.WTERMSIG(status), "out": "", "err": ""}


def _in_child(argv: list[str], at: int, number: int, result: int, *, full: bool) -> None:
    """Never returns."""
    code = 1
    try:
        os.environ["LAB_SIGNAL"] = str(number or int(signal.SIGKILL))
        if full:
            fill(at)
        elif at:
            wrap_changes(at)
        answer = _run(argv)
        with open(result, "wb", closefd=False) as file:
            file.write(json.dumps(answer).encode())
        code = 0
    finally:
        os._exit(code)


def _library(root: str, how: str, then: str, mission: str | None = None) -> int:
    """Take an entry as a program does that runs missions itself; one that leaves is gone with its claim."""
    try:
        if how == "front":
            claim = queue.claim_front(root, mission=mission)
        else:
            taken = queue.claim_front_when_repo_free(root, mission=mission)
            if isinstance(taken, queue.Busy):
                return EXIT_BUSY
            claim = taken.claim if isinstance(taken, queue.Claimed) else None
        if claim is None:
            return EXIT_LATER
        if then == "finish":
            queue.finish_claim(claim)
        elif then == "release":
            queue.release_claim(claim)
    except KranzqError as fault:
        sys.stderr.write(fault.sentence)
        return fault.exit_code
    except KeyboardInterrupt:
        return INTERRUPTED
    return 0


def _run(argv: list[str]) -> dict[str, Any]:
    """Run a command line as the program does."""
    told, complained = io.TextIOWrapper(io.BytesIO()), io.TextIOWrapper(io.BytesIO())
    sys.stdout, sys.stderr = told, complained
    try:
        code = run(argv) if argv[2:3] != ["library"] else _library(argv[1], *argv[3:])
    except SystemExit as done:
        code = done.code if isinstance(done.code, int) else 1
    finally:
        sys.stdout, sys.stderr = sys.__stdout__, sys.__stderr__
        events._listeners.clear()
    return {"code": code, "out": _text(told), "err": _text(complained)}


def _text(stream: io.TextIOWrapper) -> str:
    stream.flush()
    buffer = stream.buffer
    assert isinstance(buffer, io.BytesIO)
    return buffer.getvalue().decode()


if __name__ == "__main__":
    main()
