"""Recovery of many claims, of which one cannot be settled."""

from __future__ import annotations

import errno
import os
from pathlib import Path
from typing import Any

import pytest

from kranzq import progress
from kranzq.dispatch import recover
from kranzq.dispatch.recover import Recovery
from kranzq.errors import UnsafePath
from kranzq.model.checkout import Checkout
from kranzq.wiring import dispatching
from tests.factories import gone_pid, kranz_entry, kranz_name, make_queue, names

PID = gone_pid()
DENIED = PermissionError(errno.EACCES, os.strerror(errno.EACCES), ".run.json.1.tmp")


@pytest.mark.parametrize("fault", [DENIED, UnsafePath("parked", "it is a link")], ids=["denied", "unsafe"])
@pytest.mark.parametrize("together", [True, False], ids=["many at once", "each by itself"])
def test_a_claim_that_may_not_be_settled_holds_up_no_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fault: Exception, *, together: bool
) -> None:
    """It stays, and is named with what to mend: its mission may have taken away the rights to its run folder."""
    make_queue(tmp_path).close()
    claims = [f"{kranz_name(f'm-{one}', 2, one)}.claimed.{gone_pid()}" for one in range(3)]
    for one, claim in enumerate(claims):
        (tmp_path / ".kranz/queue" / claim).write_bytes(kranz_entry(f"m-{one}", 2, one))
    verb = "settle_place" if together else "settle"
    real = getattr(recover, verb)

    def settle(parts: Any, queue: Any, runs: Any, of: Any, record: Any) -> Any:
        if (of if together else of.place).mission == "m-0":
            raise fault
        return real(parts, queue, runs, of, record)

    monkeypatch.setattr(recover, verb, settle)
    if not together:
        monkeypatch.setattr(Recovery, "_put_back", lambda *_: {})
    environ = {"HOME": str(tmp_path / "home")}
    report = dispatching.recover(Checkout(str(tmp_path), has_git=False), environ)

    assert names(tmp_path) == [claims[0], kranz_name("m-1", 2, 1), kranz_name("m-2", 2, 2)]
    assert [one.explained for one in report.findings] == [False, True, True]
    assert report.findings[0].is_refused
    assert "mend the rights to .kranz/missions/m-0/dispatch" in report.findings[0].action
    assert (report.explained, report.moved) == (False, 2)


@pytest.mark.parametrize("together", [True, False], ids=["many at once", "each by itself"])
def test_recovery_tells_how_far_it_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, together: bool) -> None:
    """Whoever looks on hears of all claims, to the last; nobody has to listen."""
    make_queue(tmp_path).close()
    for one in range(250):
        claim = f"{kranz_name(f'm-{one}', 2, one)}.claimed.{PID}"
        (tmp_path / ".kranz/queue" / claim).write_bytes(kranz_entry(f"m-{one}", 2, one))
    if not together:
        monkeypatch.setattr(Recovery, "_put_back", lambda *_: {})
    heard: list[tuple[str, int, int | None]] = []
    monkeypatch.setattr(progress, "_listeners", [lambda *told: heard.append(told)])
    dispatching.recover(Checkout(str(tmp_path), has_git=False), {"HOME": str(tmp_path / "home")})

    for what in ("looking at claims", "putting claims back" if together else "settling claims"):
        told = [(done, total) for name, done, total in heard if name == what]
        assert told[-1] == (250, 250)
        assert {total for _, total in told} == {250}
