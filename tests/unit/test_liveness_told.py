"""The evidence behind each verdict on a process, word for word: a person must be able to check it."""

from __future__ import annotations

import os
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import psutil
import pytest

from kranzq.liveness import (
    HolderRecord,
    Place,
    identity_of,
    judge,
    judge_claim,
    judge_holder_record,
    kranz_token,
    me,
    place_of,
    read_stat,
)
from kranzq.liveness import kranz as kranz_half
from kranzq.liveness import process as process_half
from kranzq.liveness.process import judge_here, pid_max
from kranzq.model.process import Judgement, Liveness
from tests.factories import NO_PID
from tests.laboratory import wait_for

PID = os.getpid()
KTHREADD = 2


def evidence(verdict: Judgement) -> tuple[Liveness, str]:
    """Both halves of a verdict."""
    return verdict.verdict, verdict.evidence


def test_a_process_is_seen_whole() -> None:
    """As the system itself tells of us."""
    stat = read_stat(PID)

    assert stat is not None
    assert (stat.pid, stat.parent, stat.state, stat.kernel_thread) == (PID, os.getppid(), "R", False)
    wait_for(  # those of other tests may be on their way out
        lambda: (now := read_stat(PID)) is not None and now.threads == len(os.listdir("/proc/self/task")),
        "all threads are counted",
    )


@pytest.mark.skipif(not Path("/proc/2/stat").exists(), reason="no kernel threads are shown in this namespace")
def test_a_kernel_thread_is_known() -> None:
    """It is nobody's leftover."""
    stat = read_stat(KTHREADD)

    assert stat is not None
    assert stat.kernel_thread is Path("/proc/2/comm").read_text().startswith("kthreadd")


def test_an_identity_has_the_start_of_its_process() -> None:
    """Without it a number means whoever has it."""
    stat, identity = read_stat(PID), identity_of(PID)

    assert stat is not None
    assert identity is not None
    assert (identity.pid, identity.start_ticks) == (PID, stat.start_ticks)


@pytest.mark.parametrize(
    ("changes", "verdict", "words"),
    [
        ({}, Liveness.ALIVE, "process {pid} runs, the same since tick {ticks}"),
        ({"start_ticks": None}, Liveness.ALIVE, "process {pid} exists"),
        ({"pid": NO_PID}, Liveness.GONE, f"process {NO_PID} does not exist"),
        ({"pid": 2**31}, Liveness.UNKNOWN, f"{2**31} is no process id here"),
        ({"boot_id": "earlier"}, Liveness.GONE, "process {pid} belongs to an earlier boot of this machine"),
        (
            {"boot_id": "earlier", "machine_id": "another"},
            Liveness.UNKNOWN,
            "process {pid} lives or lived on another machine",
        ),
        ({"pid_ns": "pid:[1]"}, Liveness.UNKNOWN, "process {pid} lives in another pid namespace"),
        ({"time_ns": "time:[1]"}, Liveness.UNKNOWN, "process {pid} lives in another time namespace"),
        (
            {"pid_ns": "pid:[1]", "time_ns": "time:[1]"},
            Liveness.UNKNOWN,
            "process {pid} lives in another pid namespace",
        ),
    ],
)
def test_each_verdict_has_its_evidence(
    changes: dict[str, Any], verdict: Liveness, words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By our own records."""
    monkeypatch.setattr(process_half, "machine_id", lambda: "this machine")
    identity = replace(replace(me(), machine_id="this machine"), **changes)

    assert evidence(judge(identity)) == (verdict, words.format(pid=PID, ticks=me().start_ticks))


def test_without_a_name_for_the_boot_the_machine_decides(monkeypatch: pytest.MonkeyPatch) -> None:
    """Systems without a boot id: another machine is elsewhere, this one is here."""
    monkeypatch.setattr(process_half, "boot_id", lambda: "")
    monkeypatch.setattr(process_half, "machine_id", lambda: "this machine")
    nameless = replace(me(), boot_id="", machine_id="this machine")

    assert place_of(nameless) is Place.HERE
    assert place_of(replace(nameless, machine_id="another")) is Place.ELSEWHERE


def test_a_boot_without_a_name_of_its_machine_is_elsewhere(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two machines without a name are not one."""
    monkeypatch.setattr(process_half, "machine_id", lambda: "")

    assert place_of(replace(me(), boot_id="earlier", machine_id="")) is Place.ELSEWHERE


def test_what_may_not_be_signalled_exists(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where /proc does not show it: another user's process is not gone."""

    def refuse(*_: object) -> None:
        raise PermissionError

    monkeypatch.setattr(process_half, "read_stat", lambda _: None)
    monkeypatch.setattr(os, "kill", refuse)

    assert evidence(judge_here(7, None)) == (Liveness.ALIVE, "process 7 exists, but /proc does not show it")


def test_nobody_asks_about_a_group(monkeypatch: pytest.MonkeyPatch) -> None:
    """Number 1 is a process; 0 and what is below mean whole groups."""
    asked: list[int] = []
    monkeypatch.setattr(process_half, "read_stat", lambda _: None)
    monkeypatch.setattr(os, "kill", lambda pid, _: asked.append(pid))

    verdicts = [judge_here(pid, None).verdict for pid in (1, 0, -1, 2**31 - 1, 2**31)]

    assert verdicts == [Liveness.ALIVE, Liveness.UNKNOWN, Liveness.UNKNOWN, Liveness.ALIVE, Liveness.UNKNOWN]
    assert asked == [1, 2**31 - 1]


def test_a_claim_has_its_evidence() -> None:
    """By what stands in its name."""
    now = time.time()
    token = kranz_token(PID)
    assert token is not None
    suffix = kranz_half.suffix_k4(token)
    bare = judge_claim(PID, None, 1000.0)

    assert evidence(judge_claim(PID, suffix, now)) == (
        Liveness.ALIVE,
        f"process {PID} runs and its start matches the claim",
    )
    assert evidence(judge_claim(PID, "0" * 16, now)) == (
        Liveness.GONE,
        f"pid {PID} now belongs to another process: its start does not match the claim",
    )
    assert bare.verdict is Liveness.GONE
    late = float(bare.evidence.split(" started ")[1].split(" s ")[0])
    assert late == pytest.approx(psutil.Process().create_time() - 1000, abs=3)
    assert judge_claim(PID, None, now + 1).evidence == (
        f"process {PID} runs, by its bare pid: the claim does not say when it started"
    )
    for number in (0, pid_max() + 1):
        assert evidence(judge_claim(number, suffix, now)) == (Liveness.UNKNOWN, f"{number} is no process id here")
    assert judge_claim(pid_max(), suffix, now).verdict is not Liveness.UNKNOWN
    assert judge_claim(1, None, 0.0).verdict is not Liveness.UNKNOWN


@pytest.mark.parametrize(
    ("data", "pid"), [(b"1\n2\nt\n3\n", 1), (b"2147483647", 2**31 - 1), (b"2147483648", None), (b"0", None)]
)
def test_which_numbers_a_lock_record_may_have(data: bytes, pid: int | None) -> None:
    """From 1 to the largest that kranz knows."""
    record = HolderRecord.parse(data)

    assert (record.pid if record is not None else None) == pid


def test_without_a_name_for_the_boot_there_is_no_token(monkeypatch: pytest.MonkeyPatch) -> None:
    """Half a token would match another boot's."""
    monkeypatch.setattr(kranz_half, "boot_id", lambda: "")

    assert kranz_token(PID) is None


def test_without_proc_a_process_is_seen_by_psutil(monkeypatch: pytest.MonkeyPatch) -> None:
    """With one thread, and its start in hundredths of a second."""
    monkeypatch.setattr(process_half, "HAS_PROC", False)
    monkeypatch.setattr(kranz_half, "HAS_PROC", False)
    stat = read_stat(PID)

    assert stat is not None
    assert (stat.pid, stat.parent, stat.state, stat.threads) == (PID, os.getppid(), "S", 1)
    assert stat.kernel_thread is False
    assert stat.start_ticks == int(psutil.Process().create_time() * 100)
    assert kranz_token(PID) == time.asctime(time.gmtime(stat.start_ticks // 100))
    assert judge_claim(PID, None, stat.start_ticks / 100).verdict is Liveness.ALIVE
    assert judge_claim(PID, None, stat.start_ticks / 100 - 3).verdict is Liveness.GONE


def test_a_name_that_the_system_has_not_is_empty(tmp_path: Path) -> None:
    """One line, without what stands around it; bytes that are no text are replaced."""
    (tmp_path / "id").write_bytes(b" ab\xff\nmore")

    assert process_half._first_line(str(tmp_path / "id")) == "ab\ufffd"
    assert process_half._first_line(str(tmp_path / "none")) == ""
    assert process_half._link(str(tmp_path / "id")) == ""


def test_a_lock_record_has_its_evidence() -> None:
    """What is wrong with it, and who has its number now."""
    token = kranz_token(PID)
    now = time.time()
    other = judge_holder_record(HolderRecord(PID, 1, "t" * 90, 0).render(), now)

    assert evidence(judge_holder_record(b"", now)) == (Liveness.UNKNOWN, "the lock record is empty")
    assert evidence(judge_holder_record(b"x", now)) == (
        Liveness.UNKNOWN,
        "the lock record does not begin with a process id",
    )
    assert evidence(judge_holder_record(b"x", 1.0)) == (
        Liveness.GONE,
        "the lock record does not begin with a process id, and is older than this start of the machine",
    )
    assert evidence(other) == (
        Liveness.GONE,
        f"pid {PID} now belongs to another process ({token}, the holder was {'t' * 80})",
    )
    late = judge_holder_record(f"{PID}\n1\n\n0\n".encode(), 1000.0)
    assert late.verdict is Liveness.GONE
    assert late.evidence.startswith(f"pid {PID} now belongs to a process that started ")
    assert late.evidence.endswith(" s after the lock was written")
