"""Trials of the kernel's locks: the busy lock itself, wanted by several processes, inherited, held by who is killed."""

from __future__ import annotations

import fcntl
import os
import signal
import time
from collections.abc import Callable, Iterator

from kranzq.busy.lock import BusyLock, Hold
from kranzq.model.checkout import Checkout
from kranzq.model.trial import Trial, Verdict
from kranzq.prove.racing import holding, race
from kranzq.prove.scratch import Scratch
from kranzq.prove.trying import Planned, each
from kranzq.runs.holders import keeper_lives

_PROCESSES = 4
_PATIENCE_S = 2.0
_ADVICE = "Move the checkout to a local file system of this machine: kranzq check names the one it lies on"


def of_locks(scratch: Scratch, seconds: float) -> Iterator[Trial]:
    """All trials of locks; about so long."""
    planned: tuple[Planned, ...] = (
        ("one holder", (2,), lambda: _contended(scratch.checkout, seconds)),
        ("freed by a kill", (2,), lambda: _freed(scratch.checkout)),
        ("kept by heirs", (2,), lambda: _inherited(scratch.checkout)),
        ("who lives, answered", (2,), lambda: _asked(scratch)),
    )
    return each(planned, "locks cannot be used here: ", _ADVICE)


def _contended(checkout: Checkout, seconds: float) -> Trial:
    """Each holder reads a number and writes the next one, and looks whether it is alone."""
    inside, counter = f"{checkout.root}/inside", f"{checkout.root}/counter"
    with open(counter, "x", encoding="ascii") as file:
        file.write("0")

    def take(_number: int) -> list[int]:
        lock, taken, met = BusyLock(checkout), 0, 0
        until = time.monotonic() + seconds  # of its own: on a busy machine a process may begin when others are done
        queue = os.open(checkout.queue, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        while time.monotonic() < until:
            if (hold := lock.try_hold(queue)) is None:
                lock.wait_until_free()
                continue
            met += not _alone(inside)
            with open(counter, "r+", encoding="ascii") as file:
                count = int(file.read())
                file.seek(0)
                file.write(str(count + 1))
            taken += 1
            _leave(inside)
            hold.unlock()
        return [taken, met]

    seen = race(_PROCESSES, take)
    taken, met = sum(one[0] for one in seen), sum(one[1] for one in seen)
    with open(counter, encoding="ascii") as file:
        counted = int(file.read())
    if met or counted != taken:
        text = (
            f"{taken} times held by {_PROCESSES} processes: {met} met another one, {taken - counted} changes were lost"
        )
        return Trial("one holder", (2,), Verdict.BROKEN, taken, text, _ADVICE)
    return Trial(
        "one holder", (2,), Verdict.HOLDS, taken, f"{taken} times held by {_PROCESSES} processes, never by two"
    )


def _alone(inside: str) -> bool:
    try:
        os.close(os.open(inside, os.O_CREAT | os.O_EXCL | os.O_WRONLY))
    except FileExistsError:
        return False
    return True


def _leave(inside: str) -> None:
    try:
        os.unlink(inside)
    except FileNotFoundError:
        return  # the other one that was inside has removed it


def _freed(checkout: Checkout, times: int = 20) -> Trial:
    """The holder is killed; the lock must be free at once."""
    slowest = 0.0
    for _ in range(times):
        with holding(lambda _live: _take(checkout)) as holder:
            if _free(checkout):
                text = "a lock that another process holds was given out"
                return Trial("freed by a kill", (2,), Verdict.BROKEN, times, text, _ADVICE)
            holder.kill()
            killed = time.monotonic()
            while not _free(checkout):
                if time.monotonic() - killed > _PATIENCE_S:
                    text = f"the lock of a killed process was still held after {_PATIENCE_S:g} s"
                    return Trial("freed by a kill", (2, 4), Verdict.BROKEN, times, text, _ADVICE)
                time.sleep(0.001)
            slowest = max(slowest, time.monotonic() - killed)
    text = f"{times} holders killed, free after {1000 * slowest:.0f} ms at most"
    return Trial("freed by a kill", (2, 4), Verdict.HOLDS, times, text)


def _inherited(checkout: Checkout) -> Trial:
    """What a keeper and a mission rest on: whoever inherited the lock keeps it when its taker is killed."""
    heirs = f"{checkout.root}/heir"

    def take_and_leave(live: Callable[[], None]) -> Hold:
        hold = _take(checkout)
        pid = os.fork()
        if pid == 0:
            live()
            os._exit(0)
        with open(heirs, "w", encoding="ascii") as file:
            file.write(str(pid))
        return hold

    with holding(take_and_leave) as taker:
        with open(heirs, encoding="ascii") as file:
            heir = int(file.read())
        taker.kill()
        still = not _free(checkout)
        os.kill(heir, signal.SIGKILL)
    until = time.monotonic() + _PATIENCE_S
    while not (free := _free(checkout)) and time.monotonic() < until:
        time.sleep(0.001)
    if still and free:
        return Trial("kept by heirs", (2,), Verdict.HOLDS, 1, "who inherited the lock kept it, until its own end")
    text = "the lock was free while an heir lived" if not still else "the lock was held when nobody lived"
    return Trial("kept by heirs", (2,), Verdict.BROKEN, 1, text, _ADVICE)


def _asked(scratch: Scratch) -> Trial:
    """The keeper's own lock: the kernel names who holds it, and forgets it with its end."""
    path = f"{scratch.folder}/asked"
    with open(path, "x", encoding="ascii"):
        pass

    def take(_live: Callable[[], None]) -> int:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        fcntl.lockf(fd, fcntl.LOCK_SH)
        return fd

    with holding(take) as holder:
        named = keeper_lives(path)
        holder.kill()
        after = keeper_lives(path)
    if (named, after) == (holder.pid, None):
        return Trial("who lives, answered", (2, 4), Verdict.HOLDS, 1, "the kernel names who holds a lock")
    text = f"process {holder.pid} held it: the kernel named {named}, and {after} after its end"
    return Trial("who lives, answered", (2, 4), Verdict.BROKEN, 1, text, _ADVICE)


def _take(checkout: Checkout) -> Hold:
    queue = os.open(checkout.queue, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    until = time.monotonic() + _PATIENCE_S
    while (hold := BusyLock(checkout).try_hold(queue)) is None and time.monotonic() < until:
        time.sleep(0.001)
    if hold is None:
        raise TimeoutError("the lock is not free")
    return hold


def _free(checkout: Checkout) -> bool:
    queue = os.open(checkout.queue, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        return BusyLock(checkout).is_free(queue)
    finally:
        os.close(queue)
