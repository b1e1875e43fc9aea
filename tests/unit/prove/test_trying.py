"""A trial that cannot be made says why, breaks no promise for want of room, and stops no other."""

from __future__ import annotations

import errno
import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Self

import pytest

from kranzq.errors import KranzqError, Refused
from kranzq.model.checkout import Checkout
from kranzq.model.trial import Trial, Verdict
from kranzq.prove import kills, names, watching
from kranzq.prove.program import Program, ProgramFault, program
from kranzq.prove.racing import RacerFault, holding, race
from kranzq.prove.scratch import Scratch, scratch
from kranzq.prove.trying import each
from kranzq.wiring import proving
from tests.laboratory import wait_for

FINE = Trial("fine", (1,), Verdict.HOLDS, 1, "")
FULL = OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), "f")


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Scratch]:
    """A scratch folder on the disk of the tests."""
    with scratch(Checkout(str(tmp_path), has_git=False)) as one:
        yield one


def raising(fault: Exception) -> Callable[..., Any]:
    """What fails, whatever it is asked."""

    def fail(*_: object, **__: object) -> None:
        raise fault

    return fail


@pytest.mark.parametrize(
    ("fault", "verdict"),
    [
        (FULL, Verdict.UNTRIED),
        (OSError(errno.EMFILE, os.strerror(errno.EMFILE)), Verdict.UNTRIED),
        (
            ProgramFault("enqueue", 6, f"q cannot be used: {os.strerror(errno.ENOSPC)}. Nothing was changed."),
            Verdict.UNTRIED,
        ),
        (RacerFault(f"OSError: {os.strerror(errno.ENOMEM)}"), Verdict.UNTRIED),
        (OSError(errno.EIO, os.strerror(errno.EIO)), Verdict.BROKEN),
        (ProgramFault("list", 70, "a fault"), Verdict.BROKEN),
        (subprocess.SubprocessError("gone"), Verdict.BROKEN),
    ],
    ids=str,
)
def test_want_of_room_breaks_no_promise_and_stops_no_trial(fault: Exception, verdict: Verdict) -> None:
    """It was not tried then; everything else that fails is told as broken, with the reason."""
    planned = (("bad", (2,), raising(fault)), ("fine", (1,), lambda: FINE))

    bad, fine = each(planned, "so: ", "move")

    assert (bad.name, bad.promises, bad.verdict, bad.text[:4]) == ("bad", (2,), verdict, "so: ")
    assert ("make room" in bad.advice.lower()) is (verdict is Verdict.UNTRIED)
    assert fine is FINE


def test_on_a_full_disk_nothing_is_called_broken(place: Scratch, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither where this process writes nor where one does that it forked; and a watch is told like the others."""
    for module in (names, watching):
        monkeypatch.setattr(module, "publish", raising(FULL))

    told = [*names.of_names(place, 0), *watching.of_watching(place, 0)]

    assert {one.verdict for one in told if one.tried == 0 and one.name != "survives a power cut"} == {Verdict.UNTRIED}
    assert Verdict.BROKEN not in {one.verdict for one in told}
    assert told[-1].verdict is Verdict.UNTRIED


def test_a_racer_that_fails_leaves_none_behind() -> None:
    """The others are ended, and all are buried."""

    def act(number: int) -> None:
        if number == 0:
            raise RuntimeError("no")
        wait_for(lambda: False, "the end", seconds=60)

    def children() -> list[str]:
        return Path(f"/proc/self/task/{os.getpid()}/children").read_text().split()

    before = children()
    with pytest.raises(RacerFault, match="no"):
        race(3, act)
    assert children() == before


def test_why_something_could_not_be_taken_is_told() -> None:
    """The words of the system, from the process that wanted it."""
    with pytest.raises(RacerFault, match=os.strerror(errno.ENOSPC)), holding(raising(FULL)):
        pass
    with pytest.raises(RacerFault, match="could not take"), holding(lambda _live: None):
        pass


def test_runs_that_never_began_are_no_runs(tmp_path: Path) -> None:
    """A dispatcher was killed while it made the folder, or before it wrote the record; a damaged record is no end."""
    for name, text in (
        ("001", '{"state": "ended", "outcome": "succeeded"}'),
        ("002", None),
        ("003", '{"state": "claiming"}'),
        (".010.12.3.tmp", None),
        ("004", "{"),
        ("005", '{"state": "ended"}'),
        ("1000", '{"state": "ended", "outcome": "failed"}'),
    ):
        (tmp_path / name).mkdir()
        if text is not None:
            (tmp_path / name / "run.json").write_text(text)

    assert kills._outcomes(str(tmp_path)) == ["succeeded", "unreadable", "unreadable", "failed"]
    assert kills._outcomes(str(tmp_path / "none")) == []


class Quick:
    """An `enqueue` that is slow the first time alone, as where the program is read from the disk first."""

    def __init__(self, root: str) -> None:
        self.root, self.started_s, self.wanted = root, list[float](), list[str]()

    def run(self, _verb: str, mission: str, *_: str) -> None:
        """The first one."""
        self.wanted.append(mission)

    def started(self, _verb: str, mission: str, *_: str) -> Any:
        """One that takes an instant of the time that the first one took."""
        self.wanted.append(mission)
        return _Instant(self.started_s)

    def ask(self, *_: str) -> Any:
        """Everything is there."""
        return {"entries": [{"mission": mission} for mission in self.wanted]}


class _Instant:
    """A process that ends after a hundredth of a time unit, or is killed when it is not given that long."""

    returncode = 0

    def __init__(self, waits: list[float]) -> None:
        self._waits = waits

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def wait(self, seconds: float) -> None:
        """End, or not in time."""
        self._waits.append(seconds)
        if seconds < _CLOCK.step:
            self.returncode = -9
            raise subprocess.TimeoutExpired("enqueue", seconds)
        _CLOCK.now += _CLOCK.step


_CLOCK = SimpleNamespace(now=0.0, step=1.0)


def test_kills_come_in_time_although_the_first_start_was_slow(place: Scratch, monkeypatch: pytest.MonkeyPatch) -> None:
    """Else none would be killed, and the trial would never end."""
    quick = Quick(place.folder)

    def slow(*_: object) -> Quick:
        return quick

    def first(*_: str) -> None:
        _CLOCK.now += 100.0
        quick.wanted.append(_[1])

    monkeypatch.setattr(kills, "program", slow)
    monkeypatch.setattr(quick, "run", first)
    monkeypatch.setattr(time, "monotonic", lambda: _CLOCK.now)

    told = kills._enqueues(place, 0)

    assert told.tried >= 1
    assert len(quick.started_s) < 100


def test_missions_of_a_trial_need_no_space_of_their_own(place: Scratch, monkeypatch: pytest.MonkeyPatch) -> None:
    """A disk with less than missions are given is no broken promise."""
    monkeypatch.setattr(Program, "run", lambda *_, **__: "")
    made = program(place, "one")
    assert made.environ["KRANZQ_MISSION_MIN_FREE_DISK"] == "0"


def test_what_the_program_says_otherwise_is_a_fault_of_the_trial(
    place: Scratch, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No JSON, a damaged line, a busy record of another form: none is a traceback."""
    made = Program(place.make("p"), {})
    monkeypatch.setattr(Program, "run", lambda *_, **__: "no")
    with pytest.raises(ProgramFault, match="no JSON"):
        made.ask("list")
    (Path(made.root) / "told").write_text("start m0 1.0end m0 2.0\n")
    with pytest.raises(KranzqError, match="damaged"):
        kills._told(made.root)
    record = Path(made.root) / ".kranz/queue/.busy.json"
    record.parent.mkdir(parents=True)
    for text in ('{"process": null}', "[]", '{"process": {"pid": "x", "startTicks": 1}}', '{"process": {}}'):
        record.write_text(text)
        assert made.keeper() is None


def test_an_unsafe_folder_is_refused_before_anything_is_made(tmp_path: Path) -> None:
    """Others could put something of theirs in the place of what is started; and a link leads out of the checkout."""
    (tmp_path / "elsewhere/queue").mkdir(parents=True)
    (tmp_path / ".kranz").symlink_to("elsewhere")
    with pytest.raises(Refused, match="link"):
        proving.trials(Checkout(str(tmp_path), has_git=False), 1)
    (tmp_path / ".kranz").unlink()
    (tmp_path / ".kranz").mkdir()
    (tmp_path / ".kranz").chmod(0o777)
    with pytest.raises(Refused, match="everybody"):
        proving.trials(Checkout(str(tmp_path), has_git=False), 1)
    assert list((tmp_path / ".kranz").iterdir()) == []


def test_a_signal_that_comes_while_a_process_is_forked_is_not_lost() -> None:
    """Python drops what a handler raises in the calls around a fork: a proof would go on that was told to end."""

    class Told(BaseException):
        """What the handler raises."""

    def leave(*_: object) -> None:
        raise Told

    def children() -> list[str]:
        return Path(f"/proc/self/task/{os.getpid()}/children").read_text().split()

    def tell() -> None:
        if told[0]:
            signal.raise_signal(signal.SIGTERM)

    told = [False]
    os.register_at_fork(after_in_parent=tell)
    before, there = signal.signal(signal.SIGTERM, leave), children()
    try:
        told[0] = True
        with pytest.raises(Told):
            race(1, lambda _: None)
    finally:
        told[0] = False
        signal.signal(signal.SIGTERM, before)
    assert children() == there
