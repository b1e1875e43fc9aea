"""Promises of the verdicts on recorded processes, held against real processes."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import psutil
import pytest

from kranzq import liveness
from kranzq.liveness import (
    HolderRecord,
    Place,
    boot_time,
    identity_of,
    judge,
    judge_claim,
    judge_holder_record,
    kranz_token,
    me,
    place_of,
    read_stat,
    start_ticks,
    suffix_k3,
    suffix_k4,
)
from kranzq.liveness import kranz as kranz_half
from kranzq.liveness import process as process_half
from kranzq.model.process import Liveness, ProcessIdentity
from tests.laboratory import wait_for

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
TOKENS = [
    ("00000000-0000-4000-8000-000000000000:12345", "18c1014b7a546f42", "70e4ee6ab1c34afb"),
    ("2f1c8d2e-7a55-4d0e-9d53-0c9b7b3f6a10:987654321", "eac60d8e8a81f29e", "6b281700e6b10f20"),
    ("Wed Aug  5 00:34:16 2026", "e39838bcfe4ee365", "c443acc525f08c4f"),
]
needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="needs root")
needs_unshare = pytest.mark.skipif(os.geteuid() != 0 or not shutil.which("unshare"), reason="needs root and unshare")


def run(code: str, *before: str) -> str:
    """What a Python process of its own prints; `before` starts it."""
    done = subprocess.run(
        [*before, sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=False, timeout=50
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


@pytest.fixture
def sleeper() -> Iterator[subprocess.Popen[bytes]]:
    """A child that lives as long as the test."""
    with subprocess.Popen(["sleep", "60"]) as process:
        yield process
        process.kill()


@pytest.fixture
def zombie() -> Iterator[int]:
    """The pid of a child that has ended and is not reaped."""
    with subprocess.Popen(["true"]) as process:
        os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
        yield process.pid


@pytest.fixture
def gone() -> int:
    """A pid that nobody has."""
    with subprocess.Popen(["true"]) as process:
        process.wait()
    return process.pid


def test_a_living_process_is_alive(sleeper: subprocess.Popen[bytes]) -> None:
    """The same process under the same start time is alive."""
    identity = identity_of(sleeper.pid)

    assert identity is not None
    assert judge(identity).verdict is Liveness.ALIVE
    assert place_of(identity) is Place.HERE


def test_a_missing_process_is_gone(gone: int) -> None:
    """A number that nobody has proves that the process is gone, and the evidence says so."""
    verdict = judge(replace(me(), pid=gone, start_ticks=12))

    assert verdict.verdict is Liveness.GONE
    assert verdict.evidence == f"process {gone} does not exist"
    assert identity_of(gone) is None


def test_a_zombie_is_gone(zombie: int) -> None:
    """A process that has ended and only waits to be reaped counts as gone."""
    verdict = judge(replace(me(), pid=zombie))

    assert verdict.verdict is Liveness.GONE
    assert verdict.evidence == f"process {zombie} is a zombie"
    assert (start_ticks(zombie), identity_of(zombie), kranz_token(zombie)) == (None, None, None)


def test_a_process_whose_main_thread_ended_is_alive() -> None:
    """A process that only looks like a zombie, since other threads of it go on, is alive."""
    code = "import ctypes, threading; e = threading.Event(); threading.Thread(target=e.wait).start(); "
    code += "ctypes.CDLL(None).pthread_exit(None)"
    with subprocess.Popen([sys.executable, "-c", code]) as process:
        wait_for(lambda: (stat := read_stat(process.pid)) is not None and stat.state == "Z", "its main thread ends")
        identity = identity_of(process.pid)

        assert identity is not None
        assert judge(identity).verdict is Liveness.ALIVE
        process.kill()


def test_another_start_time_is_another_process() -> None:
    """The same number with another start time proves that the holder is gone."""
    mine = me()
    assert mine.start_ticks is not None
    verdict = judge(replace(mine, start_ticks=mine.start_ticks - 1))

    assert verdict.verdict is Liveness.GONE
    expected = f"started at tick {mine.start_ticks}, the holder at tick {mine.start_ticks - 1}"
    assert expected in verdict.evidence


def test_without_a_start_time_existence_decides(gone: int) -> None:
    """A record without a start time is alive while anybody has its number."""
    assert judge(replace(me(), start_ticks=None)).verdict is Liveness.ALIVE
    assert judge(replace(me(), pid=gone, start_ticks=None)).verdict is Liveness.GONE


@pytest.mark.parametrize(
    ("changes", "place", "verdict"),
    [
        ({"boot_id": "an earlier one"}, Place.OTHER_BOOT, Liveness.GONE),
        ({"boot_id": "an earlier one", "machine_id": "another"}, Place.ELSEWHERE, Liveness.UNKNOWN),
        ({"boot_id": "an earlier one", "machine_id": ""}, Place.ELSEWHERE, Liveness.UNKNOWN),
        ({"machine_id": "of a container image"}, Place.HERE, Liveness.ALIVE),
        ({"pid_ns": "pid:[1]"}, Place.OTHER_NAMESPACE, Liveness.UNKNOWN),
        ({"time_ns": "time:[1]"}, Place.OTHER_NAMESPACE, Liveness.UNKNOWN),
    ],
)
def test_where_it_lived_decides_first(
    changes: dict[str, Any], place: Place, verdict: Liveness, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A number means something only on the same boot and in the same namespaces."""
    identity = replace(replace(me(), machine_id="this machine"), **changes)
    monkeypatch.setattr(process_half, "machine_id", lambda: "this machine")

    assert place_of(identity) is place
    assert judge(identity).verdict is verdict


@pytest.mark.parametrize("pid", [2**31, 2**40, 2**70])
def test_a_number_beyond_all_pids_is_unknown(pid: int) -> None:
    """A planted number that no process can have is never probed and never gone."""
    assert judge(replace(me(), pid=pid)).verdict is Liveness.UNKNOWN


@needs_root
def test_another_users_process_is_alive() -> None:
    """A process that we may not signal exists, and its start time is still compared."""
    code = "import os, dataclasses; from kranzq.liveness import *; "
    code += f"other = identity_of({os.getpid()}); os.setuid(65534); "
    code += "print(judge(other).verdict.value, judge(dataclasses.replace(other, start_ticks=1)).verdict.value)"

    assert run(code) == "alive gone"


def test_a_forked_child_knows_itself() -> None:
    """After fork the child is not taken for its parent."""
    code = "import os; from kranzq.liveness import me; me(); r, w = os.pipe(); pid = os.fork()\n"
    code += "if pid == 0: os.write(w, b'%d' % me().pid); os._exit(0)\n"
    code += "os.waitpid(pid, 0); print(int(os.read(r, 20)) == pid)"

    assert run(code) == "True"


def test_a_name_with_parentheses_does_not_mislead() -> None:
    """A process cannot pose as another by its name."""
    code = "import os; open('/proc/self/comm', 'w').write(') Z 1 1 ('); from kranzq.liveness import read_stat; "
    code += "s = read_stat(os.getpid()); print(s.state, s.parent == os.getppid())"

    assert run(code) == "R True"


def test_the_boot_began_when_the_system_says() -> None:
    """The estimate of the boot's beginning agrees with the system's own, if we were not held up while it was made."""
    wait_for(lambda: abs(boot_time() - psutil.boot_time()) < 2, "they agree")


@pytest.mark.parametrize(("token", "k4", "k3"), TOKENS)
def test_suffixes_are_kranz_s(token: str, k4: str, k3: str) -> None:
    """Both generations of kranz's suffix are computed as kranz does."""
    assert (suffix_k4(token), suffix_k3(token)) == (k4, k3)


def test_a_claim_with_either_suffix_is_alive() -> None:
    """A living claimer is recognised by the current suffix and by the one before it, however old the claim."""
    token = kranz_token(os.getpid())
    assert token is not None

    assert judge_claim(os.getpid(), suffix_k4(token), 0).verdict is Liveness.ALIVE
    assert judge_claim(os.getpid(), suffix_k3(token), 0).verdict is Liveness.ALIVE


def test_a_claim_with_another_suffix_is_gone() -> None:
    """A suffix that fits no generation proves that the number was given out again."""
    verdict = judge_claim(os.getpid(), "0123456789abcdef", time.time())

    assert verdict.verdict is Liveness.GONE
    assert "another process" in verdict.evidence


def test_a_bare_claim_is_judged_by_its_age(sleeper: subprocess.Popen[bytes]) -> None:
    """Without a suffix, only a process that is older than the claim can be its holder."""
    bare = judge_claim(sleeper.pid, None, time.time())

    assert bare.verdict is Liveness.ALIVE
    assert "by its bare pid" in bare.evidence
    assert judge_claim(sleeper.pid, None, time.time() - 3600).verdict is Liveness.GONE


def test_a_claim_of_a_dead_process_is_gone(gone: int, zombie: int) -> None:
    """A claim whose process is missing or a zombie is gone, with or without a suffix."""
    for pid in (gone, zombie):
        assert judge_claim(pid, None, time.time()).verdict is Liveness.GONE
        assert judge_claim(pid, "0123456789abcdef", time.time()).verdict is Liveness.GONE


@pytest.mark.parametrize("pid", [0, -1, 2**22 + 1, 2**70])
def test_a_claim_with_an_impossible_pid_is_never_probed(pid: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """A number that cannot be a process is unknown, and nobody is asked about it."""

    def never(*_: object) -> None:
        pytest.fail("it was probed")

    monkeypatch.setattr(os, "kill", never)

    assert judge_claim(pid, None, 0).verdict is Liveness.UNKNOWN


@pytest.mark.parametrize(
    ("data", "record"),
    [
        (b"4711\n1796000000\nboot:12\n3\n", HolderRecord(4711, 1796000000, "boot:12", 3)),
        (b"4711\n1796000000\n\n0\n", HolderRecord(4711, 1796000000, "", 0)),
        (b" 4711 \r\n", HolderRecord(4711, 0, "", 0)),
        (b"4711\nnonsense\nboot:12", HolderRecord(4711, 0, "boot:12", 0)),
        (b"\n4711\n", None),
        (b"0\n", None),
        (b"-4\n", None),
        (b"2147483648\n", None),
        ("٤٧\n".encode(), None),
        (b"4_7\n", None),
        (b"47\n\n\xff\xfe\n", None),
    ],
)
def test_lock_records_are_read_tolerantly(data: bytes, record: HolderRecord | None) -> None:
    """A lock record may miss lines, but nothing is a process id that kranz would not take for one."""
    assert HolderRecord.parse(data) == record


def test_lock_records_are_written_as_kranz_does() -> None:
    """What we write is four lines, and reading gives the same record back."""
    record = HolderRecord(4711, 1796000000, "boot:12", 0)

    assert record.render() == b"4711\n1796000000\nboot:12\n0\n"
    assert HolderRecord.parse(record.render()) == record


def test_only_proven_death_frees_a_lock_record(gone: int, zombie: int) -> None:
    """A kranz lock is gone by a missing process, a zombie or another token, and unknown when it is unreadable."""
    token = kranz_token(os.getpid())
    assert token is not None
    pid = os.getpid()
    records = {
        HolderRecord(pid, 1, token, 0).render(): Liveness.ALIVE,
        HolderRecord(pid, 1, "", 0).render(): Liveness.ALIVE,
        HolderRecord(pid, 1, "another:12", 0).render(): Liveness.GONE,
        HolderRecord(gone, 1, token, 0).render(): Liveness.GONE,
        HolderRecord(zombie, 1, token, 0).render(): Liveness.GONE,
        b"": Liveness.UNKNOWN,
        b" \n": Liveness.UNKNOWN,
        b"soon\n": Liveness.UNKNOWN,
    }

    now = time.time()
    assert {data: judge_holder_record(data, now).verdict for data in records} == records
    assert judge_holder_record(b"", now).evidence == "the lock record is empty"


def test_a_damaged_lock_record_of_an_earlier_start_is_gone() -> None:
    """Nobody who wrote before the machine was started lives; who has a token of this start is judged by it alone."""
    before = boot_time() - 60
    token = kranz_token(os.getpid())
    assert token is not None

    assert judge_holder_record(b"", before).verdict is Liveness.GONE
    assert "older than this start" in judge_holder_record(b"\0" * 40, before).evidence
    assert judge_holder_record(str(os.getpid()).encode(), before).verdict is Liveness.GONE
    assert judge_holder_record(HolderRecord(os.getpid(), 1, token, 0).render(), before).verdict is Liveness.ALIVE


def test_what_proc_does_not_show_still_exists(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where /proc hides a process, its existence decides: alive for every kind of record."""
    token = kranz_token(os.getpid())
    mine = me()
    assert token is not None
    monkeypatch.setattr(process_half, "read_stat", lambda pid: None)

    assert judge(mine).verdict is Liveness.ALIVE
    assert judge_claim(mine.pid, "0123456789abcdef", 0).verdict is Liveness.ALIVE
    assert judge_holder_record(HolderRecord(mine.pid, 1, "another:12", 0).render(), 1.0).verdict is Liveness.ALIVE
    identity = identity_of(mine.pid)
    assert identity is not None
    assert identity.start_ticks is None


def test_without_proc_psutil_answers(zombie: int, gone: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """On systems without /proc the same questions get the same kinds of answer."""
    for half in (process_half, kranz_half):
        monkeypatch.setattr(half, "HAS_PROC", False)
    mine = identity_of(os.getpid())
    token = kranz_token(os.getpid())

    assert mine is not None
    assert judge(mine).verdict is Liveness.ALIVE
    assert judge(replace(mine, pid=zombie)).verdict is Liveness.GONE
    assert judge(replace(mine, pid=gone)).verdict is Liveness.GONE
    assert token is not None
    assert re.fullmatch(r"[A-Z][a-z]{2} [A-Z][a-z]{2} [ \d]\d \d\d:\d\d:\d\d \d{4}", token)
    assert judge_claim(os.getpid(), suffix_k4(token), 0).verdict is Liveness.ALIVE
    assert judge_claim(os.getpid(), None, 0).verdict is Liveness.GONE
    assert abs(boot_time() - psutil.boot_time()) < 2


def test_an_identity_survives_its_record() -> None:
    """What a record keeps of an identity is judged like the identity itself."""
    kept = ProcessIdentity.from_json(me().to_json())

    assert kept == me()
    assert liveness.machine_id() == me().machine_id


@needs_unshare
@pytest.mark.system
def test_a_reused_number_is_not_the_holder() -> None:
    """A later process under the holder's number is told apart in our records, in claims and in lock records."""
    code = """
import os, signal, time
from kranzq.liveness import *
def start(at=None):
    if at: open("/proc/sys/kernel/ns_last_pid", "w").write(str(at - 1))
    pid = os.fork()
    if not pid: signal.pause()
    return pid
first = start(4711); old = identity_of(first); token = kranz_token(first)
os.kill(first, 9); os.waitpid(first, 0)
while time.clock_gettime(time.CLOCK_BOOTTIME) * os.sysconf("SC_CLK_TCK") < old.start_ticks + 2: pass
second = start(4711)
record = HolderRecord(first, 1, token, 0).render()
print(first == second, judge(old).verdict.value, judge_claim(first, suffix_k4(token), time.time()).verdict.value,
      judge_claim(first, suffix_k3(token), 0).verdict.value, judge_holder_record(record, time.time()).verdict.value,
      judge(identity_of(second)).verdict.value)
os.kill(second, 9); os.waitpid(second, 0)
"""
    assert run(code, "unshare", "--fork", "--pid", "--mount-proc", "--kill-child") == "True gone gone gone gone alive"


@needs_unshare
@pytest.mark.system
def test_a_proc_of_other_numbers_is_not_believed() -> None:
    """Where /proc shows another pid namespace, start times are unknown and nobody is gone who exists."""
    code = "from kranzq.liveness import *; print(proc_is_ours(), me().pid, me().start_ticks, judge(me()).verdict.value)"

    assert run(code, "unshare", "--fork", "--pid", "--kill-child") == "False 1 None alive"


@needs_unshare
@pytest.mark.system
def test_another_namespace_s_process_is_unknown() -> None:
    """A process recorded outside a container is unknown inside, although its number means nobody there."""
    kept = me().to_json()
    code = (
        f"from kranzq.liveness import *; from kranzq.model.process import *; i = ProcessIdentity.from_json({kept!r}); "
    )
    code += "print(judge(i).verdict.value, judge(i).evidence)"

    assert run(code, "unshare", "--fork", "--pid", "--mount-proc", "--kill-child") == (
        f"unknown process {os.getpid()} lives in another pid namespace"
    )
