"""kranz's busy lock: taken beside ours, honoured while its holder may live, never removed when it is another's."""

from __future__ import annotations

import errno
import os
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from kranzq.busy import foreign
from kranzq.busy.foreign import BACKSTOP_S, EVENTS_LOCK, LOCK, MISSION, Engines, KranzLock
from kranzq.liveness import HolderRecord, identity_of, judge_holder_record, kranz_token, me
from kranzq.model.checkout import EVENTS
from tests.factories import NO_PID, gone_pid

TOKEN = "00000000-0000-4000-8000-000000000000:12345"


@pytest.fixture
def queue(tmp_path: Path) -> Iterator[int]:
    """A descriptor of an empty queue, which is `tmp_path`."""
    fd = os.open(tmp_path, os.O_RDONLY | os.O_DIRECTORY)
    yield fd
    os.close(fd)


def age(path: Path, monkeypatch: pytest.MonkeyPatch, seconds: float) -> None:
    """Let a file look untouched for so long: its times cannot be set back, so the clock goes forward."""
    now = path.stat().st_ctime + seconds
    monkeypatch.setattr("kranzq.busy.foreign.time.time", lambda: now)
    monkeypatch.setattr("kranzq.liveness.kranz.boot_time", lambda: now - 2 * BACKSTOP_S)


def test_kranz_reads_our_record(queue: int, tmp_path: Path) -> None:
    """The lock holds four lines as kranz writes them, generation 0, and the mission's id without a line end."""
    lock = KranzLock(queue)
    assert lock.take() is None
    lock.name(me(), "m-1")
    pid, seconds, token, generation, rest = (tmp_path / LOCK).read_bytes().decode().split("\n")

    assert (int(pid), token, generation, rest) == (os.getpid(), kranz_token(os.getpid()), "0", "")
    assert int(seconds) > 1_700_000_000
    assert (tmp_path / MISSION).read_bytes() == b"m-1"
    lock.let_go()
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize("code", [errno.EPERM, errno.EACCES])
def test_b41_it_is_taken_where_links_are_refused(
    queue: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: int
) -> None:
    """By a rename that does not replace: one that is held stays."""

    def refused(*_: object, **__: object) -> None:
        raise OSError(code, os.strerror(code))

    monkeypatch.setattr(os, "link", refused)
    lock = KranzLock(queue)
    assert lock.take() is None
    assert os.listdir(tmp_path) == [LOCK]
    lock.let_go()

    content = HolderRecord(os.getppid(), 0, kranz_token(os.getppid()) or "", 0).render()
    (tmp_path / LOCK).write_bytes(content)
    assert "kranz's busy lock" in (KranzLock(queue).take() or "")
    assert (tmp_path / LOCK).read_bytes() == content
    assert os.listdir(tmp_path) == [LOCK]


def test_the_lock_names_the_keeper_from_the_beginning(queue: int, tmp_path: Path) -> None:
    """One that stands ready ends with its dispatcher; to name it again writes nothing, and what it left is ours."""
    with subprocess.Popen(["sleep", "60"]) as process:
        keeper = identity_of(process.pid)
        assert keeper is not None
        lock = KranzLock(queue)
        assert lock.take(keeper) is None
        first = (tmp_path / LOCK).stat().st_ino
        assert HolderRecord.parse((tmp_path / LOCK).read_bytes()) == HolderRecord(
            process.pid, int((tmp_path / LOCK).read_text().split()[1]), kranz_token(process.pid) or "", 0
        )
        lock.name(keeper, "m-1")
        assert (tmp_path / LOCK).stat().st_ino == first
        assert (tmp_path / MISSION).read_bytes() == b"m-1"

        assert KranzLock(queue).take() is not None  # for anybody else its holder lives
        lock.leave()
        assert KranzLock(queue).take(keeper) is None
        process.kill()


def test_a_living_kranz_makes_busy(queue: int, tmp_path: Path) -> None:
    """A lock whose holder lives is never touched, and says who has it."""
    content = HolderRecord(os.getppid(), 0, kranz_token(os.getppid()) or "", 0).render()
    (tmp_path / LOCK).write_bytes(content)

    assert "kranz's busy lock" in (KranzLock(queue).take() or "")
    assert (tmp_path / LOCK).read_bytes() == content
    assert os.listdir(tmp_path) == [LOCK]


@pytest.mark.parametrize(
    "content", [f"{NO_PID}\n0\n{TOKEN}\n0\n", f"{NO_PID}", f"{NO_PID}\n1\n", f"1\n0\n{TOKEN}\n0\n"]
)
def test_b03_the_lock_of_a_gone_holder_is_taken(queue: int, tmp_path: Path, content: str) -> None:
    """No such process, or another one under its number: the lock is dead and replaced at once, however short."""
    (tmp_path / LOCK).write_text(content)
    lock = KranzLock(queue)

    assert lock.take() is None
    assert int((tmp_path / LOCK).read_text().split("\n", maxsplit=1)[0]) == os.getpid()
    lock.let_go()


@pytest.mark.parametrize(
    "content", [b"", b"\0" * 40, b"garbage\n", b"\n\n\n\n", b"-1\n", b"0\n", b"99999999999\n", b"x" * 9000]
)
def test_b38_an_unreadable_lock_is_honoured_for_an_hour(
    queue: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, content: bytes
) -> None:
    """A lock without a holder may be one in the making: it makes busy for an hour, and then no more."""
    (tmp_path / LOCK).write_bytes(content)
    age(tmp_path / LOCK, monkeypatch, BACKSTOP_S - 1)
    assert "younger than an hour" in (KranzLock(queue).take() or "")

    age(tmp_path / LOCK, monkeypatch, BACKSTOP_S + 1)
    lock = KranzLock(queue)
    assert lock.take() is None
    lock.let_go()


@pytest.mark.parametrize(
    "content", [b"", b"\0" * 60, b"\0" * 30 + b"4000-8000-000000000000:12345\n0\n", str(os.getppid()).encode(), b"1"]
)
def test_a_lock_that_a_power_cut_damaged_is_taken_at_once(
    queue: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, content: bytes
) -> None:
    """Empty, zeros, half of it, or a number that is somebody else's now: older than this start it holds up nobody."""
    (tmp_path / LOCK).write_bytes(content)
    assert KranzLock(queue).take() is not None

    started = (tmp_path / LOCK).stat().st_ctime + 10
    monkeypatch.setattr("kranzq.liveness.kranz.boot_time", lambda: started)
    monkeypatch.setattr("kranzq.liveness.kranz.start_ticks", lambda pid: 100)
    lock = KranzLock(queue)
    assert lock.take() is None
    assert int((tmp_path / LOCK).read_bytes().split(b"\n")[0]) == os.getpid()


def test_another_ones_lock_is_not_released(queue: int, tmp_path: Path) -> None:
    """Whoever lets go removes the file that it put there and never one that came into its place."""
    lock = KranzLock(queue)
    assert lock.take() is None
    (tmp_path / LOCK).unlink()
    (tmp_path / LOCK).write_text(f"{os.getppid()}\n")
    lock.name(me(), "m-1")
    lock.let_go()

    assert (tmp_path / LOCK).read_text() == f"{os.getppid()}\n"


def test_a_dead_lock_that_was_replaced_while_it_was_judged_stays(
    queue: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of two that judge one lock dead the later one does not remove the fresh lock of the earlier one."""
    (tmp_path / LOCK).write_text(f"{gone_pid()}\n")
    fresh = HolderRecord(os.getppid(), 0, kranz_token(os.getppid()) or "", 0).render()

    def judge(data: bytes, changed_at: float) -> object:
        if data != fresh:  # the other one is quicker: dead lock away, its own there
            (tmp_path / LOCK).unlink()
            (tmp_path / LOCK).write_bytes(fresh)
        return judge_holder_record(data, changed_at)

    monkeypatch.setattr(foreign, "judge_holder_record", judge)

    assert KranzLock(queue).take() is not None
    assert (tmp_path / LOCK).read_bytes() == fresh
    assert os.listdir(tmp_path) == [LOCK]


def test_looking_removes_nothing(queue: int, tmp_path: Path) -> None:
    """Asking who holds kranz's lock leaves a dead one where it is."""
    assert foreign.look(queue) is None
    (tmp_path / LOCK).write_text(f"{NO_PID}\n")
    (tmp_path / MISSION).write_text(" m-1 \n")

    assert foreign.look(queue) is None
    assert foreign.read_mission(queue) == "m-1"
    assert sorted(os.listdir(tmp_path)) == [LOCK, MISSION]


def test_a_living_engine_is_found_by_its_event_lock(tmp_path: Path) -> None:
    """A mission's event lock makes busy while its holder lives; dead ones, links and folders without events do not."""
    kranz = os.open(tmp_path, os.O_RDONLY | os.O_DIRECTORY)
    engines = Engines()
    assert engines.alive(kranz) is None
    living, dead = (HolderRecord(pid, 0, kranz_token(pid) or "", 0).render() for pid in (os.getppid(), NO_PID))
    for mission, content in (("m-dead", dead), ("m-live", living), ("m-plain", living)):
        (tmp_path / "missions" / mission).mkdir(parents=True)
        (tmp_path / "missions" / mission / EVENTS_LOCK).write_bytes(content)
        if mission != "m-plain":
            (tmp_path / "missions" / mission / EVENTS).touch()
    (tmp_path / "missions/m-link").symlink_to("m-live")
    found = engines.find(kranz)

    assert found is not None
    assert (found.mission, found.pid) == ("m-live", os.getppid())
    (tmp_path / "missions/m-live" / EVENTS_LOCK).unlink()
    assert engines.alive(kranz) is None
    os.close(kranz)


@pytest.mark.parametrize("told", [True, False])
def test_an_engine_in_a_folder_that_was_known_is_found_in_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, told: bool
) -> None:
    """After a run of that mission at once; else when all folders are asked again."""
    folder = tmp_path / "missions/m-1"
    folder.mkdir(parents=True)
    kranz = os.open(tmp_path, os.O_RDONLY | os.O_DIRECTORY)
    engines = Engines()
    assert engines.alive(kranz) is None
    (folder / EVENTS).touch()
    (folder / EVENTS_LOCK).write_bytes(HolderRecord(os.getppid(), 0, kranz_token(os.getppid()) or "", 0).render())
    if told:
        engines.forget("m-1")
    else:
        assert engines.alive(kranz) is None
        monkeypatch.setattr(foreign, "ALL_S", 0.0)

    assert engines.alive(kranz) is not None
    (tmp_path / "missions/m-2").mkdir()
    assert engines.alive(kranz) is not None
    os.close(kranz)


def test_b38_a_garbage_event_lock_does_not_make_busy_for_ever(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A lock that cannot be judged makes busy for an hour and not until somebody deletes it."""
    kranz = os.open(tmp_path, os.O_RDONLY | os.O_DIRECTORY)
    (tmp_path / "missions/m-1").mkdir(parents=True)
    (tmp_path / "missions/m-1" / EVENTS).touch()
    (tmp_path / "missions/m-1" / EVENTS_LOCK).write_bytes(b"")

    assert Engines().alive(kranz) is not None
    age(tmp_path / "missions/m-1" / EVENTS_LOCK, monkeypatch, BACKSTOP_S + 1)
    assert Engines().alive(kranz) is None
    os.close(kranz)


def lacking(monkeypatch: pytest.MonkeyPatch, wanted: str) -> None:
    """Let one name not be opened for want of descriptors."""
    real = os.open

    def fails(path: str, *args: int, **rest: int) -> int:
        if path == wanted:
            raise OSError(errno.ENFILE, os.strerror(errno.ENFILE), path)
        return real(path, *args, **rest)

    monkeypatch.setattr(os, "open", fails)


@pytest.mark.parametrize("wanted", ["missions", "m-1", EVENTS_LOCK])
def test_for_want_of_descriptors_no_engine_is_taken_for_none(
    queue: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, wanted: str
) -> None:
    """A mission would run beside the one of an engine that could not be looked at."""
    folder = tmp_path / "missions/m-1"
    folder.mkdir(parents=True)
    (folder / EVENTS).touch()
    (folder / EVENTS_LOCK).write_bytes(HolderRecord(os.getppid(), 0, kranz_token(os.getppid()) or "", 0).render())
    assert Engines().alive(queue) is not None

    lacking(monkeypatch, wanted)
    with pytest.raises(OSError, match="Too many open files"):
        Engines().alive(queue)


@pytest.mark.parametrize("ask", [lambda queue: KranzLock(queue).take(), foreign.look], ids=["take", "look"])
def test_for_want_of_descriptors_a_lock_is_not_judged(
    queue: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ask: Callable[[int], object]
) -> None:
    """An old one whose holder lives would be taken for unreadable, and moved aside."""
    content = HolderRecord(os.getppid(), 0, kranz_token(os.getppid()) or "", 0).render()
    (tmp_path / LOCK).write_bytes(content)
    age(tmp_path / LOCK, monkeypatch, BACKSTOP_S + 1)
    lacking(monkeypatch, LOCK)

    with pytest.raises(OSError, match="Too many open files"):
        ask(queue)
    assert (tmp_path / LOCK).read_bytes() == content
