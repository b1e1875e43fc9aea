"""The watch of a queue: by the kernel's own means and by watchdog the same is heard, and nothing of our own noise."""

from __future__ import annotations

import errno
import os
import shutil
import struct
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from kranzq.daemon import inotify, watch
from kranzq.daemon.inotify import Inotify
from kranzq.daemon.wake import Wake
from kranzq.daemon.watch import Watcher
from kranzq.disk import atomic
from tests.laboratory import wait_for

HEARD = 20.0
"""Seconds in which what is to be heard must be heard, on a machine that does much else."""
UNHEARD = 0.1


@pytest.fixture(params=["inotify", "watchdog"])
def watcher(request: pytest.FixtureRequest, queue: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Watcher]:
    """A watch that has begun, of either kind."""
    monkeypatch.setattr(watch, "has_inotify", lambda: request.param == "inotify")
    wake = Wake()
    one = Watcher(str(queue), wake)
    one.start()
    assert one.watching == "events", one.why_polling
    yield one
    one.stop()
    wake.close()


@pytest.fixture
def queue(tmp_path: Path) -> Path:
    """An empty queue."""
    queue = tmp_path / "queue"
    queue.mkdir()
    return queue


def _wake_of(watcher: Watcher) -> Wake:
    return watcher._wake


def _made(queue: Path, name: str) -> None:
    fd = os.open(queue, os.O_RDONLY | os.O_DIRECTORY)
    try:
        atomic.publish(fd, name, b"x")
    finally:
        os.close(fd)


@pytest.mark.parametrize("name", ["002-1-m.json", ".stop", ".paused", "waiting/1.002-1-m.json", "inbox/m.json"])
def test_a_new_name_wakes(watcher: Watcher, queue: Path, name: str) -> None:
    """What is queued, waits, was dropped or is a wish; also while somebody else waits for the descriptor alone."""
    wake = _wake_of(watcher)
    folder, _, last = name.rpartition("/")
    _made(queue / folder, last)

    assert wake.wait(HEARD)
    (queue / name).unlink()
    _made(queue / folder, last)
    wait_for(lambda: bool(_ready(wake)), "the descriptor is readable", seconds=HEARD)


def _ready(wake: Wake) -> list[tuple[int, int]]:
    import select

    poll = select.poll()
    poll.register(wake.fileno(), select.POLLIN)
    return poll.poll(100)


@pytest.mark.parametrize("how", ["renamed", "linked", "written"])
def test_however_an_entry_comes_it_wakes(watcher: Watcher, queue: Path, how: str) -> None:
    """Other programs rename, link or simply write; the last word of a slow writer counts as well."""
    wake, name = _wake_of(watcher), queue / "002-1-m.json"
    outside = queue.parent / "outside"
    outside.write_text("{}")
    match how:
        case "renamed":
            outside.rename(name)
        case "linked":
            name.hardlink_to(outside)
        case _:
            with name.open("w") as slow:
                assert wake.wait(HEARD)
                wake.clear()
                slow.write("{}")

    assert wake.wait(HEARD)


def test_what_is_hidden_wakes_nobody(watcher: Watcher, queue: Path) -> None:
    """Temporary files, locks and hints come and go at each change of names."""
    wake = _wake_of(watcher)
    for name in (".seq", ".busy.json", ".repo.busy.lock"):
        _made(queue, name)

    assert not wake.wait(UNHEARD)
    _made(queue, "002-1-m.json")
    assert wake.wait(HEARD)


def test_what_was_cleared_wakes_no_more(queue: Path) -> None:
    """Changes of a turn lie in the kernel until it is over, and are forgotten by the clearing before the next."""
    wake = Wake()
    one = Watcher(str(queue), wake)
    one.start()
    _made(queue, "002-1-m.json")
    wake.clear()

    assert not wake.wait(UNHEARD)
    assert _ready(wake) == []
    wake.set()
    assert wake.wait(HEARD)
    one.stop()
    wake.close()


def test_a_wake_up_of_another_thread_is_heard_beside_the_watch(watcher: Watcher) -> None:
    """Locks that are granted and signals come by the pipe."""
    wake = _wake_of(watcher)
    threading.Timer(0.05, wake.set).start()

    assert wake.wait(HEARD)


@pytest.mark.parametrize("how", ["removed", "replaced", "moved", "below"])
def test_a_queue_that_is_another_one_is_watched_no_more(watcher: Watcher, queue: Path, how: str) -> None:
    """Then the watch is not sound; where the kernel tells it itself the loop is woken, else its timer finds out."""
    match how:
        case "removed":
            shutil.rmtree(queue)
        case "moved":
            queue.rename(queue.with_name("elsewhere"))
        case "below":
            (queue / "waiting").rmdir()
        case _:
            queue.rename(queue.with_name("elsewhere"))
            queue.mkdir()

    assert _wake_of(watcher).wait(HEARD if watch.has_inotify() else 0.0) or not watch.has_inotify()
    wait_for(lambda: not watcher.is_sound(), "the watch is known to be over", seconds=HEARD)
    queue.mkdir(exist_ok=True)
    watcher.start()
    assert watcher.is_sound()
    _wake_of(watcher).clear()
    _made(queue, "002-1-m.json")
    assert _wake_of(watcher).wait(HEARD)


def test_a_directory_that_was_replaced_under_its_own_number_is_known_by_its_events(queue: Path) -> None:
    """A file system may give the same inode again at once: the kernel says that the watch is gone."""
    wake = Wake()
    one = Watcher(str(queue), wake)
    one.start()
    for name in ("waiting", "inbox"):
        (queue / name).rmdir()
    queue.rmdir()
    queue.mkdir()
    for name in ("waiting", "inbox"):
        (queue / name).mkdir()
    wake.clear()

    assert not one.is_sound()
    one.stop()
    wake.close()


def test_a_full_queue_of_events_wakes(queue: Path) -> None:
    """What the kernel could not keep may have been anything."""
    one = Inotify([str(queue)], frozenset())
    overflow = struct.pack("iIII", -1, 0x4000, 0, 0)

    assert one._tells(overflow)
    assert one.alive
    one.close()


@pytest.mark.parametrize("number", [errno.EMFILE, errno.ENOSPC])
def test_where_no_watch_is_left_the_daemon_polls_and_says_why(
    queue: Path, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    """Both limits of a user: instances and watches; nothing stays open."""

    def none_left(*_: object) -> int:
        raise OSError(number, os.strerror(number))

    before = len(os.listdir("/proc/self/fd"))
    wake = Wake()
    one = Watcher(str(queue), wake)
    with monkeypatch.context() as patch:
        if number == errno.ENOSPC:
            checked, calls = inotify._checked, list[int]()

            def second(result: int, what: str) -> int:
                calls.append(result)
                return checked(result, what) if len(calls) == 1 else none_left()

            patch.setattr(inotify, "_checked", second)
        else:
            patch.setattr(inotify, "_checked", none_left)
        one.start()

    assert one.watching == "polling"
    assert os.strerror(number) in str(one.why_polling)
    assert one.is_sound()
    wake.close()
    most = before + (number == errno.EMFILE)  # the made-up fault leaves a real one
    wait_for(lambda: len(os.listdir("/proc/self/fd")) <= most, "all is closed, also what another test has yet to close")
