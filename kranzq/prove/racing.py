"""Several processes that do the same thing at the same time, and what each of them saw.

They are forked, for what is tried is a kernel's answer to several processes, and a start of the program would leave
little time for it. Each ends without cleaning up after its parent.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import sys
from collections.abc import Callable, Iterator
from typing import Any

from kranzq.errors import KranzqError

_TAKEN, _REFUSED = b"!", b"?"
_ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class RacerFault(KranzqError):
    """A process of a trial could not do its part."""

    def __init__(self, why: str) -> None:
        super().__init__(f"A process of the trial failed: {why}.")


class Racer:
    """One forked process."""

    def __init__(self, pid: int, pipe: int) -> None:
        self.pid = pid
        self._pipe = pipe
        self._over = False

    def answer(self) -> Any:
        """Wait for its end and read what it answered, which is plain data. Raises RacerFault."""
        return self._answer_of(b"")

    def _answer_of(self, begun: bytes) -> Any:
        with open(self._pipe, "rb", closefd=False) as file:
            text = begun + file.read()
        self._bury()
        said = json.loads(text) if text else {"fault": "it ended without a word"}
        if "fault" in said:
            raise RacerFault(said["fault"])
        return said["answer"]

    def wait_until_taken(self) -> None:
        """Wait until it says that it holds what it was to take. Raises RacerFault."""
        if (said := os.read(self._pipe, 1)) == _TAKEN:
            return
        if said != _REFUSED:
            self._answer_of(said)
        raise RacerFault("it could not take what it was to hold")

    def kill(self) -> None:
        """End it as a crash would, and wait until it is gone. To kill it twice is to kill it once."""
        if not self._over:
            os.kill(self.pid, signal.SIGKILL)
            self._bury()

    def _bury(self) -> None:
        self._over = True
        os.waitpid(self.pid, 0)
        os.close(self._pipe)


def race(count: int, act: Callable[[int], object]) -> list[Any]:
    """What so many processes answer, each given its number from 0. Raises RacerFault."""
    running = list[Racer]()
    try:
        for number in range(count):
            running.append(start(lambda number=number: act(number)))  # type: ignore[misc]
        return [one.answer() for one in running]
    finally:
        for one in running:  # where one failed, or could not be forked, the others do not race on
            one.kill()


def start(act: Callable[[], object]) -> Racer:
    """Fork a process that does something and answers what it returns."""
    return _fork(lambda _pipe: act())


@contextlib.contextmanager
def holding(take: Callable[[Callable[[], None]], object]) -> Iterator[Racer]:
    """A forked process that has taken something, and lives until the block kills it or ends. Raises RacerFault.

    `take` is given what a process of its own must call to live as long: until the block ends, or whoever tries is gone.
    """
    watched, life = os.pipe2(os.O_CLOEXEC)

    def live() -> None:
        with contextlib.suppress(OSError):
            os.close(life)
        os.read(watched, 1)

    def hold(pipe: int) -> None:
        kept = take(live)
        os.write(pipe, _TAKEN if kept is not None else _REFUSED)
        live()

    with contextlib.ExitStack() as stack:
        stack.callback(os.close, life)
        try:
            one = _fork(hold)
        finally:
            os.close(watched)
        stack.callback(one.kill)
        one.wait_until_taken()
        yield one


def _fork(act: Callable[[int], object]) -> Racer:
    read, write = os.pipe2(os.O_CLOEXEC)
    sys.stdout.flush()
    sys.stderr.flush()
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, _ENDING)  # Python drops what a handler raises while it forks
    try:
        pid = os.fork()
    except OSError:
        os.close(read)
        os.close(write)
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        raise
    if pid:
        os.close(write)
        one = Racer(pid, read)
        try:
            signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        except BaseException:
            one.kill()
            raise
        return one
    try:
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        os.close(read)
        said: dict[str, object] = {"answer": act(write)}
    except BaseException as fault:  # noqa: BLE001 - whatever it is, the parent tells of it
        said = {"fault": f"{type(fault).__name__}: {fault}"}
    with contextlib.suppress(OSError):
        os.write(write, json.dumps(said).encode())
    os._exit(0)
