"""Each trial finds what it is for: on a sound disk it holds, and where a part lies it says so."""

from __future__ import annotations

import contextlib
import fcntl
import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from kranzq.daemon.watch import Watcher
from kranzq.disk import atomic, renameat2
from kranzq.disk.mounts import Mount
from kranzq.errors import StoreUnavailable
from kranzq.model.checkout import Checkout
from kranzq.model.trial import PROMISES, Trial, Verdict, kept
from kranzq.prove import kills, locks, names, watching
from kranzq.prove.proof import prove
from kranzq.prove.scratch import Scratch, scratch
from tests.laboratory import PATIENCE, wait_for

SHORT_S = 0.3


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Scratch]:
    """A scratch folder on the disk of the tests."""
    with scratch(Checkout(str(tmp_path), has_git=False)) as one:
        yield one


def found(trials: Iterator[Trial]) -> dict[str, Trial]:
    """The trials by name."""
    return {one.name: one for one in trials}


def test_on_a_sound_kernel_locks_hold(place: Scratch) -> None:
    """All four, and something was really tried."""
    seen = found(locks.of_locks(place, SHORT_S))

    assert [one.verdict for one in seen.values()] == [Verdict.HOLDS] * 4
    assert seen["one holder"].tried > 10


def test_on_a_sound_disk_names_hold(place: Scratch) -> None:
    """All but what the disk is known for, which is not the test's to say."""
    seen = found(names.of_names(place, SHORT_S))
    power = seen.pop("survives a power cut")

    assert power.tried == 0
    assert {one.name: one.text for one in seen.values() if one.verdict is not Verdict.HOLDS} == {}
    assert all(one.tried for one in seen.values())


@pytest.mark.parametrize(
    ("room", "trials", "name"),
    [(locks, locks.of_locks, "one holder"), (names, names.of_names, "changed in place")],
)
def test_processes_that_begin_late_try_all_the_same(
    place: Scratch,
    monkeypatch: pytest.MonkeyPatch,
    room: ModuleType,
    trials: Callable[[Scratch, float], Iterator[Trial]],
    name: str,
) -> None:
    """On a busy machine the time may be over for whoever started them; what was never tried does not hold."""
    race, now = room.race, time.monotonic

    def late(count: int, act: Callable[[int], object]) -> list[Any]:
        def begin(who: int) -> object:  # in a process of its own
            vars(time)["monotonic"] = lambda: now() + 100
            return act(who)

        return list(race(count, begin))

    monkeypatch.setattr(room, "race", late)

    assert found(trials(place, SHORT_S))[name].tried > 10


def test_locks_that_exclude_nobody_are_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As on a share that says yes to every lock. That two hold it at the same instant a short trial may not meet."""
    seen: dict[str, Trial] = {}

    def is_broken() -> bool:
        with scratch(Checkout(str(tmp_path), has_git=False)) as place, monkeypatch.context() as patched:
            patched.setattr(fcntl, "flock", lambda _fd, _how: None)
            seen.update(found(locks.of_locks(place, SHORT_S)))
        return seen["one holder"].verdict is Verdict.BROKEN

    wait_for(is_broken, "it is found")

    assert seen["freed by a kill"].verdict is Verdict.BROKEN
    assert seen["kept by heirs"].verdict is Verdict.BROKEN


def test_locks_that_are_refused_are_told_and_not_raised(place: Scratch, monkeypatch: pytest.MonkeyPatch) -> None:
    """As on a mount without locks: each trial says what the system said."""

    def refuse(*_: object) -> None:
        raise OSError(37, "No locks available")

    monkeypatch.setattr(fcntl, "flock", refuse)

    seen = found(locks.of_locks(place, SHORT_S))

    assert seen["one holder"].verdict is Verdict.BROKEN
    assert "No locks available" in seen["one holder"].text or "locks" in seen["one holder"].text


def replacing(dir_fd: int, name: str, data: bytes, **_: object) -> os.stat_result:
    """A publish that replaces what has the name."""
    atomic.replace(dir_fd, name, data, sync=False)
    return os.stat(name, dir_fd=dir_fd)


def copying(from_fd: int, name: str, to_fd: int, new_name: str, **_: object) -> None:
    """A rename that leaves its old name behind."""
    with contextlib.suppress(FileExistsError):
        os.link(name, new_name, src_dir_fd=from_fd, dst_dir_fd=to_fd)


def making_anew(dir_fd: int, name: str, data: bytes) -> None:
    """A change of content by a plain rename: it makes the name anew after somebody has moved it."""
    os.stat(name, dir_fd=dir_fd)
    atomic.replace(dir_fd, name, data, sync=False)


@pytest.mark.parametrize(
    ("attribute", "instead", "trial"),
    [
        ("move", copying, names._claimed),
        ("publish", replacing, names._refused),
        ("exchange_content", making_anew, names._exchanged),
    ],
)
def test_renames_that_double_are_found(
    attribute: str,
    instead: Callable[..., Any],
    trial: Callable[[Scratch, float], Trial],
    place: Scratch,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A claim that two get, a file that is replaced, a change that makes an entry anew.

    Each needs two processes at the same instant, which beside other work a short trial may not meet.
    """
    monkeypatch.setattr(names, attribute, instead)

    wait_for(lambda: trial(place, SHORT_S).verdict is Verdict.BROKEN, "it is found", seconds=60)


def test_two_steps_in_the_place_of_one_are_weaker(place: Scratch, monkeypatch: pytest.MonkeyPatch) -> None:
    """The fallback for old kernels and odd mounts works, and is told."""

    def invalid(*_: object) -> None:
        raise OSError(22, "Invalid argument")

    monkeypatch.setattr(renameat2, "rename2", invalid)

    refused_here = names._refused(place, 0)

    assert names._claimed(place, 0).verdict is Verdict.HOLDS
    assert refused_here.verdict is Verdict.WEAKER
    assert "refuse to replace and exchange two names" in refused_here.text


@pytest.mark.parametrize(
    ("kind", "whole", "verdict", "said"),
    [
        ("nfs4", None, Verdict.BROKEN, "other machines"),
        ("tmpfs", None, Verdict.WEAKER, "takes everything"),
        ("ext4", False, Verdict.WEAKER, "no journal"),
        ("ext4", True, Verdict.HOLDS, "keeps a rename whole"),
        ("fuse.odd", None, Verdict.WEAKER, "not one of those"),
    ],
)
def test_what_a_power_cut_does_is_told_by_the_type_of_the_file_system(
    *, kind: str, whole: bool | None, verdict: Verdict, said: str, place: Scratch, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody cuts the power for a trial."""
    monkeypatch.setattr(names, "mount_at", lambda _path: Mount("/mnt", kind, frozenset()))
    monkeypatch.setattr(names, "keeps_renames", lambda _mount, _device: whole)

    one = names._of_power(place)

    assert one.verdict is verdict
    assert said in one.text


def test_modes_that_mean_nothing_are_told(place: Scratch, monkeypatch: pytest.MonkeyPatch) -> None:
    """As on a drive of another system: every file belongs to somebody else."""
    monkeypatch.setattr(os, "geteuid", lambda: 12345)

    assert names._modes(place).verdict is Verdict.WEAKER


def test_a_watch_that_hears_nothing_is_weaker_and_no_fault(place: Scratch, monkeypatch: pytest.MonkeyPatch) -> None:
    """As on a share whose changes are made by another machine."""
    monkeypatch.setattr(watching, "_PATIENCE_S", 0.05)
    monkeypatch.setattr(watching, "_TIMES", 2)
    monkeypatch.setattr(Watcher, "start", lambda self: None)

    [one] = watching.of_watching(place, 0)

    assert one.verdict is Verdict.WEAKER
    assert "2 of 2" in one.text


def test_a_watch_is_heard(place: Scratch, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every entry that another process makes."""
    monkeypatch.setattr(watching, "_PATIENCE_S", PATIENCE)
    [one] = watching.of_watching(place, 0)

    assert (one.verdict, one.tried) == (Verdict.HOLDS, 20)


class Told:
    """A program that answers what it is told to."""

    def __init__(self, root: Path, *entries: dict[str, str]) -> None:
        self.root = str(root)
        self.entries = entries

    def ask(self, *_: str) -> dict[str, object]:
        """What `list --json` would say."""
        return {"entries": list(self.entries)}


@pytest.mark.parametrize(
    ("told", "outcomes", "promises"),
    [
        ("overlap m0 0\n", ["succeeded"], (2,)),
        ("", ["succeeded", "succeeded"], (3,)),
        ("", ["interrupted"], (4,)),
        ("", [], (4,)),
        ("", ["interrupted", "succeeded"], ()),
    ],
    ids=["met", "run again", "not settled", "lost", "sound"],
)
def test_what_missions_told_is_judged(
    told: str, outcomes: list[str], promises: tuple[int, ...], tmp_path: Path
) -> None:
    """Two at once, one again after its end, one that nobody settled: each breaks its promise."""
    (tmp_path / "told").write_text(told)
    for number, outcome in enumerate(outcomes, 1):
        run = tmp_path / ".kranz/missions/m0/dispatch" / f"{number:03}"
        run.mkdir(parents=True)
        (run / "run.json").write_text(f'{{"state": "ended", "outcome": "{outcome}"}}')

    one = kills._judged(Told(tmp_path), str(tmp_path), ["m0"], 1, [])  # type: ignore[arg-type]

    assert one.promises == (promises or (2, 3, 4))
    assert one.verdict is (Verdict.BROKEN if promises else Verdict.HOLDS)


def test_a_parked_mission_is_settled(tmp_path: Path) -> None:
    """After three interruptions it waits for a person."""
    one = kills._judged(Told(tmp_path, {"mission": "m0", "state": "parked"}), str(tmp_path), ["m0"], 3, [])  # type: ignore[arg-type]

    assert one.verdict is Verdict.HOLDS


def test_a_promise_is_as_good_as_its_worst_trial() -> None:
    """And one that nothing bears on was not tried."""
    seen = kept(
        [
            Trial("a", (1, 2), Verdict.HOLDS, 1, ""),
            Trial("b", (1,), Verdict.WEAKER, 1, ""),
            Trial("c", (2,), Verdict.BROKEN, 1, ""),
            Trial("d", (2,), Verdict.BROKEN, 1, ""),
        ]
    )

    assert [one.number for one in seen] == list(PROMISES)
    assert [(one.verdict, one.trials) for one in seen[:3]] == [
        (Verdict.WEAKER, ("b",)),
        (Verdict.BROKEN, ("c", "d")),
        (Verdict.UNTRIED, ()),
    ]


def test_a_checkout_in_which_nothing_can_be_made_is_told(tmp_path: Path) -> None:
    """Which path, why, and no traceback."""
    with pytest.raises(StoreUnavailable, match="nowhere"):
        list(prove(Checkout(str(tmp_path / "nowhere"), has_git=False), 1))


def test_what_a_killed_trial_left_is_removed_and_what_a_living_one_has_is_not(tmp_path: Path) -> None:
    """The lock on the folder tells them apart."""
    checkout = Checkout(str(tmp_path), has_git=False)
    left = tmp_path / ".kranzq-prove-left"
    (left / "deep").mkdir(parents=True)
    with scratch(checkout) as living:
        assert not left.exists()
        with scratch(checkout) as another:
            assert os.path.isdir(living.folder)
            assert another.folder != living.folder

    assert list(tmp_path.iterdir()) == []
