"""Promises of finding and ending what a killed keeper left, held against real processes."""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from kranzq.liveness import read_stat, start_ticks
from kranzq.runs import leftovers
from kranzq.runs.holders import flock_holders, key_of
from kranzq.runs.leftovers import Leftover, Seen, end, look
from tests.laboratory import PATIENCE, wait_for

ROOT = str(Path(__file__).parents[3])
NONCE = "0123456789abcdef0123456789abcdef"
OTHER = "fedcba9876543210fedcba9876543210"
STUBBORN = "trap '' TERM; while :; do sh -c \"trap '' TERM; sleep 60\" & sleep 0.02; done"
needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="needs root")
needs_unshare = pytest.mark.skipif(os.geteuid() != 0 or not shutil.which("unshare"), reason="needs root and unshare")


class Stage:
    """A checkout with its lock, and processes in it that the test starts; all are ended with the test."""

    def __init__(self, root: Path) -> None:
        self.root = str(root)
        self.lock = str(root / ".git")
        os.mkdir(self.lock)
        key = key_of(self.lock)
        assert key is not None
        self.key = key
        self._started: list[subprocess.Popen[str]] = []
        self._grips: list[int] = []

    def marks(self, nonce: str = NONCE, root: str | None = None) -> dict[str, str]:
        """A mission's environment."""
        claim = f"{nonce}:{self.key[0]}:{self.key[1]}"
        return {"PATH": os.environ["PATH"], "KRANZ_CLAIM": claim, "KRANZ_REPO": root or self.root}

    def start(self, *argv: str, env: dict[str, str] | None = None, **more: Any) -> subprocess.Popen[str]:
        """A process in a session of its own, with a mission's environment unless told otherwise."""
        process = subprocess.Popen(
            argv, env=self.marks() if env is None else env, text=True, start_new_session=True, **more
        )
        self._started.append(process)
        return process

    def python(self, code: str, *argv: str, env: dict[str, str] | None = None) -> subprocess.Popen[str]:
        """A Python process, once it has said that it is ready."""
        process = self.start(sys.executable, "-c", code, *argv, env=env or {}, cwd=ROOT, stdout=subprocess.PIPE)
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        return process

    def leave_holder(self) -> int:
        """A process without any mark that kept the lock of a dispatcher which is gone."""
        code = (
            "import fcntl, os, subprocess, sys; fd = os.open(sys.argv[1], os.O_RDONLY); fcntl.flock(fd, 2); "
            "os.set_inheritable(fd, True); "
            "print(subprocess.Popen(['sleep', '60'], close_fds=False, env={}, stdout=-3, start_new_session=True).pid)"
        )
        said = subprocess.run([sys.executable, "-c", code, self.lock], stdout=subprocess.PIPE, text=True, check=True)
        pid = int(said.stdout)
        self._grips.append(os.pidfd_open(pid))
        return pid

    def story(self, code: str) -> Any:
        """What a dispatcher of its own reports, as JSON; `root`, `lock` and `nonce` are at hand in it."""
        prelude = (
            "import fcntl, json, os, signal, subprocess, sys, time\n"
            "from kranzq.liveness import start_ticks\n"
            "from kranzq.runs.leftovers import become_subreaper, end, look\n"
            f"root, lock, nonce = {self.root!r}, {self.lock!r}, {NONCE!r}\n"
            f"marks = {self.marks()!r}\n"
        )
        with tempfile.TemporaryFile("w+") as errors:  # a file: what the story leaves behind must not hold us up
            done = subprocess.run(
                [sys.executable, "-c", prelude + code],
                cwd=ROOT,
                stdout=subprocess.PIPE,
                stderr=errors,
                text=True,
                check=False,
                timeout=50,
            )
            errors.seek(0)
            assert done.returncode == 0, errors.read()
        return json.loads(done.stdout)

    def close(self) -> None:
        """End everything that was started."""
        for process in self._started:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)  # not yet reaped, so the number is still ours
            process.wait()
            if process.stdout is not None:
                process.stdout.close()
        for fd in self._grips:
            with contextlib.suppress(ProcessLookupError):
                signal.pidfd_send_signal(fd, signal.SIGKILL)
            os.close(fd)


@pytest.fixture
def stage(tmp_path: Path) -> Iterator[Stage]:
    """A checkout and its processes."""
    made = Stage(tmp_path)
    yield made
    made.close()


def pids(seen: Seen) -> set[int]:
    """Who was found."""
    return {leftover.pid for leftover in seen.leftovers}


def is_gone(pid: int) -> bool:
    """Whether a process is dead, reaped or not."""
    stat = read_stat(pid)
    return stat is None or stat.dead


def test_the_mark_finds_what_left_its_session(stage: Stage) -> None:
    """A process that bears the nonce of the run and this checkout is found wherever it went."""
    sleeper = stage.start("sleep", "60")
    ticks = start_ticks(sleeper.pid)
    assert ticks is not None
    wait_for(lambda: pids(look(stage.root, nonces=[NONCE])) == {sleeper.pid}, "it is found")

    (leftover,) = look(stage.root, nonces=[NONCE]).leftovers

    assert leftover == Leftover(sleeper.pid, ticks, "sleep 60", "mark")
    assert look(stage.root, nonces=[OTHER]).leftovers == ()


def test_a_stranger_with_our_nonce_is_spared(stage: Stage) -> None:
    """A nonce counts only together with the checkout: it could have been copied or planted."""
    stranger = stage.start("sleep", "60", env=stage.marks(root="/another"))
    sleeper = stage.start("sleep", "60")
    wait_for(lambda: sleeper.pid in pids(look(stage.root, nonces=[NONCE])), "it is found")

    assert stranger.pid not in pids(look(stage.root, nonces=[NONCE]))
    assert look(f"{stage.root}/", nonces=[NONCE]).leftovers == ()


@pytest.mark.parametrize("nonce", ["", "0123", NONCE.upper(), NONCE + "0", ".*"])
def test_a_text_that_is_no_nonce_finds_nobody(stage: Stage, nonce: str) -> None:
    """A record with a malformed nonce leads to nobody, even if a process bears the same text."""
    stage.start("sleep", "60", env=stage.marks(nonce))

    assert look(stage.root, nonces=[nonce]).leftovers == ()
    assert look(stage.root, nonces=[nonce], locks=[stage.lock], in_hand=True).leftovers == ()


def test_with_the_lock_in_hand_any_mark_of_the_checkout_counts(stage: Stage) -> None:
    """Whoever holds the busy lock also finds runs that no record names, but not those whose claim is not gone."""
    sleeper = stage.start("sleep", "60", env=stage.marks(OTHER))
    wait_for(lambda: pids(look(stage.root, locks=[stage.lock], in_hand=True)) == {sleeper.pid}, "it is found")

    assert look(stage.root, locks=[stage.lock]).leftovers == ()
    assert look(stage.root, locks=[stage.lock], in_hand=True, spare_nonces=[OTHER]).leftovers == ()
    assert look(stage.root, locks=[stage.root, stage.lock], in_hand=True).leftovers == ()


def test_the_lock_finds_what_lost_its_environment(stage: Stage) -> None:
    """A process without any mark that kept the descriptor of the lock is found by it."""
    pid = stage.leave_holder()

    seen = look(stage.root, nonces=[NONCE], locks=[stage.lock])

    assert [(leftover.pid, leftover.net) for leftover in seen.leftovers] == [(pid, "lock")]


def test_waiters_and_readers_are_never_hit(stage: Stage) -> None:
    """Who waits for the lock, or looks whether it is free, is no leftover."""
    holder = stage.leave_holder()
    code = "import fcntl, os, sys; fd = os.open(sys.argv[1], os.O_RDONLY); print('ready', flush=True); "
    waiter = stage.python(code + "fcntl.flock(fd, fcntl.LOCK_EX)", stage.lock)
    shared = stage.python(code + "fcntl.flock(fd, fcntl.LOCK_SH)", stage.lock)
    waiting = [f"-> FLOCK  ADVISORY  WRITE {waiter.pid} ", f"-> FLOCK  ADVISORY  READ {shared.pid} "]
    wait_for(lambda: all(line in Path("/proc/locks").read_text() for line in waiting), "they wait")

    assert pids(look(stage.root, locks=[stage.lock])) == {holder}


def test_a_reader_with_the_lock_is_never_hit(stage: Stage) -> None:
    """A waiting dispatcher has the lock shared for an instant, and is no leftover then."""
    code = "import fcntl, os, signal, sys; fd = os.open(sys.argv[1], os.O_RDONLY); fcntl.flock(fd, fcntl.LOCK_SH); "
    stage.python(code + "print('ready', flush=True); signal.pause()", stage.lock)

    assert look(stage.root, locks=[stage.lock]).leftovers == ()
    assert look(stage.root, locks=[stage.lock], in_hand=True).leftovers == ()


def test_a_dispatcher_at_work_is_never_hit(stage: Stage) -> None:
    """While the taker of the lock is among its holders nobody is left over."""
    code = "import fcntl, os, signal, sys; fd = os.open(sys.argv[1], os.O_RDONLY); fcntl.flock(fd, fcntl.LOCK_EX); "
    stage.python(code + "print('ready', flush=True); signal.pause()", stage.lock)

    assert look(stage.root, locks=[stage.lock]).leftovers == ()


def test_beside_a_living_keeper_the_lock_accuses_nobody(stage: Stage) -> None:
    """As long as a keeper lives, whoever holds the lock is its mission, although the dispatcher is gone."""
    holder = stage.leave_holder()
    code = "import fcntl, os, signal, struct, sys; fd = os.open(sys.argv[1], os.O_RDONLY); "
    code += "fcntl.fcntl(fd, fcntl.F_SETLK, struct.pack('hhqqi4x', fcntl.F_RDLCK, 0, 0, 0, 0)); "
    keeper = stage.python(code + "print('ready', flush=True); signal.pause()", stage.lock)

    assert look(stage.root, locks=[stage.lock]).leftovers == ()
    keeper.kill()
    keeper.wait()
    assert pids(look(stage.root, locks=[stage.lock])) == {holder}


def test_what_is_spared_is_spared_with_its_descendants(stage: Stage) -> None:
    """A living keeper and all that descends from it are left alone; a later process under its number is not."""
    code = "import os, signal, subprocess; c = subprocess.Popen(['sleep', '60'], stdout=-3); "
    parent = stage.python(code + "print('ready', flush=True); signal.pause()", env=stage.marks())
    ticks = start_ticks(parent.pid)
    assert ticks is not None
    wait_for(lambda: len(pids(look(stage.root, nonces=[NONCE]))) == 2, "both bear the mark")

    assert look(stage.root, nonces=[NONCE], spare={parent.pid: ticks}).leftovers == ()
    assert look(stage.root, nonces=[NONCE], spare={parent.pid: None}).leftovers == ()
    assert len(look(stage.root, nonces=[NONCE], spare={parent.pid: ticks - 1}).leftovers) == 2


def test_the_asker_and_its_ancestors_are_never_hit(stage: Stage) -> None:
    """Whoever looks from inside a run neither ends itself nor those that started it."""
    code = f"from kranzq.runs.leftovers import look; s = look({stage.root!r}, nonces=[{NONCE!r}]); "
    code += "print('found', len(s.leftovers))"
    done = subprocess.run(
        ["sh", "-c", '"$0" -c "$1"; true', sys.executable, code],
        cwd=ROOT,
        env=stage.marks(),
        capture_output=True,
        text=True,
        check=False,
    )

    assert (done.stdout, done.stderr) == ("found 0\n", "")


def test_a_process_in_the_middle_of_exec_is_not_missed(stage: Stage, tmp_path: Path) -> None:
    """An environment that is empty only for an instant hides nobody: it is read again, or reported as not seen."""
    script = tmp_path / "again"
    script.write_text('#!/bin/sh\nexec "$0"\n')
    script.chmod(0o755)
    restless = stage.start(str(script))
    wait_for(lambda: restless.pid in pids(look(stage.root, nonces=[NONCE])), "it is found")

    for _ in range(60):
        seen = look(stage.root, nonces=[NONCE])
        assert restless.pid in pids(seen) | set(seen.cannot_look)


def test_a_dispatcher_takes_orphans_for_leftovers(stage: Stage) -> None:
    """What a killed keeper left comes to its dispatcher, is found there without any mark, ended and reaped."""
    told = stage.story("""
assert become_subreaper()
keeper = subprocess.Popen([sys.executable, "-c", "import subprocess, os; "
    "p = subprocess.Popen(['sleep', '60'], env={}, start_new_session=True, stdout=-3); print(p.pid, flush=True)"],
    stdout=subprocess.PIPE, text=True)
orphan = int(keeper.stdout.readline()); keeper.wait()
hook = subprocess.Popen(["sh", "-c", "sleep 60; :"], stdout=-3, start_new_session=True)
def again(): return look(root, orphans_of=os.getpid(), spare={hook.pid: start_ticks(hook.pid)})
found = [(l.pid == orphan, l.net) for l in again().leftovers]
ended = end(again)
hook_lives = hook.poll() is None
os.killpg(hook.pid, signal.SIGKILL); hook.wait()
print(json.dumps([found, [l.pid == orphan for l in ended.ended], len(ended.remaining), hook_lives,
                  start_ticks(orphan), os.path.exists(f"/proc/{orphan}")]))
""")

    assert told == [[[True, "orphan"]], [True], 0, True, None, False]


def test_the_holder_of_the_lock_finds_whoever_shares_it(stage: Stage) -> None:
    """A dispatcher with the lock in hand finds the other holders of the lock it took, and never itself."""
    told = stage.story("""
fd = os.open(lock, os.O_RDONLY); fcntl.flock(fd, fcntl.LOCK_EX); os.set_inheritable(fd, True)
child = subprocess.Popen(["sleep", "60"], env={}, close_fds=False, stdout=-3)
mine = look(root, locks=[fd], in_hand=True).leftovers
spared = look(root, locks=[fd], in_hand=True, spare={child.pid: None}).leftovers
at_work = look(root, locks=[fd]).leftovers
child.kill(); child.wait()
print(json.dumps([[(l.pid == child.pid, l.net) for l in mine], len(spared), len(at_work)]))
""")

    assert told == [[[True, "lock"]], 0, 0]


@needs_root
def test_what_we_may_not_look_into_is_reported(stage: Stage) -> None:
    """Another user's process is reported as not seen, not as innocent; a descendant of ours holds us up."""
    told = stage.story("""
child = subprocess.Popen(["sleep", "60"], env=marks, stdout=-3)
while not look(root, nonces=[nonce]).leftovers: pass
fd = os.open(lock, os.O_RDONLY)
os.setresuid(65534, 65534, 0)
seen = look(root, nonces=[nonce], locks=[fd])
below = look(root, nonces=[nonce], orphans_of=os.getpid())
ended = end(lambda: look(root, orphans_of=os.getpid()), grace=3600)
os.setresuid(0, 0, 0)
lives = child.poll() is None
child.kill(); child.wait()
print(json.dumps([len(seen.leftovers), child.pid in seen.cannot_look, [l.net for l in below.leftovers],
                  child.pid in below.cannot_look, [l.pid == child.pid for l in ended.remaining], lives]))
""")

    assert told == [0, True, ["orphan"], False, [True], True]


@needs_unshare
@pytest.mark.system
def test_without_a_proc_of_ours_the_look_is_blind(stage: Stage) -> None:
    """Where /proc shows other numbers than ours, the look says that it saw nothing at all."""
    code = f"from kranzq.runs.leftovers import look; print(look({stage.root!r}).blind)"
    done = subprocess.run(
        ["unshare", "--fork", "--pid", "--kill-child", sys.executable, "-c", code],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )

    assert done.stdout == "True\n"
    assert not look(stage.root).blind


@pytest.mark.slow
def test_a_tree_that_ignores_term_and_forks_is_ended(stage: Stage) -> None:
    """Whatever a run left is proven gone in the end, also what ignores TERM and goes on forking."""
    stage.start("sh", "-c", STUBBORN)
    wait_for(lambda: len(look(stage.root, nonces=[NONCE]).leftovers) > 3, "the tree grows")

    done = end(lambda: look(stage.root, nonces=[NONCE]), grace=0.3, patience=PATIENCE)

    assert done.remaining == ()
    assert len(done.ended) > 3
    assert all(is_gone(leftover.pid) for leftover in done.ended)
    assert look(stage.root, nonces=[NONCE]).leftovers == ()


@pytest.mark.slow
def test_term_comes_first_and_once(stage: Stage, tmp_path: Path) -> None:
    """A process that cleans up on TERM gets the time for it, and no second TERM that would cut it short."""
    note = tmp_path / "note"
    code = """
import os, signal, sys, time
def leave(*_):
    with open(sys.argv[1], "a") as f: f.write("term ")
    time.sleep(0.8); os._exit(0)
signal.signal(signal.SIGTERM, leave); print("ready", flush=True)
while True: signal.pause()
"""
    process = stage.python(code, str(note), env=stage.marks())

    done = end(lambda: look(stage.root, nonces=[NONCE]), grace=30)

    assert [leftover.pid for leftover in done.ended] == [process.pid]
    assert note.read_text() == "term "


@pytest.mark.slow
def test_dropping_the_mark_does_not_help(stage: Stage) -> None:
    """A process that becomes another program without the mark while it is being ended is ended nevertheless."""
    code = """
import os, signal
signal.signal(signal.SIGTERM, lambda *_: os.execve("/bin/sh", ["sh", "-c", "trap '' TERM; sleep 60; :"], {}))
print("ready", flush=True)
while True: signal.pause()
"""
    process = stage.python(code, env=stage.marks())

    done = end(lambda: look(stage.root, nonces=[NONCE]), grace=0.5)

    assert (done.remaining, [leftover.pid for leftover in done.ended]) == ((), [process.pid])
    assert is_gone(process.pid)


def test_an_impostor_is_never_signalled(stage: Stage) -> None:
    """If the number of a leftover belongs to another process by now, that one is left alone."""
    innocent = stage.start("sleep", "60", env={})
    ticks = start_ticks(innocent.pid)
    assert ticks is not None
    looks = iter([Seen((Leftover(innocent.pid, ticks - 1, "was somebody else", "mark"),)), Seen(()), Seen(())])

    done = end(lambda: next(looks))

    assert (done.ended, done.remaining) == ((), ())
    assert innocent.poll() is None


def test_two_empty_looks_in_a_row_prove_the_end(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    """One empty look proves nothing: what turns up in the second one is ended as well."""
    monkeypatch.setattr(leftovers, "_LOOK_AGAIN", PATIENCE)  # the next look comes when it is gone
    late = stage.start("sleep", "60")
    ticks = start_ticks(late.pid)
    assert ticks is not None
    found = Seen((Leftover(late.pid, ticks, "sleep 60", "mark"),))
    looks = iter([Seen(()), found, Seen(()), Seen(())])

    done = end(lambda: next(looks), grace=PATIENCE)

    assert [leftover.pid for leftover in done.ended] == [late.pid]
    assert next(looks, None) is None


@pytest.mark.slow
def test_at_the_deadline_the_rest_is_named(stage: Stage) -> None:
    """What still lives at the deadline is reported, with its command, instead of waited for."""
    code = "import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN); print('ready', flush=True); signal.pause()"
    process = stage.python(code, env=stage.marks())
    times = iter([0.0, 0.0, 31.0])

    done = end(lambda: look(stage.root, nonces=[NONCE]), clock=lambda: next(times))

    assert [leftover.pid for leftover in done.remaining] == [process.pid]
    assert "signal.SIG_IGN" in done.remaining[0].command


@pytest.mark.slow
def test_a_long_grace_does_not_take_the_time_for_the_kill(stage: Stage) -> None:
    """Whoever sets minutes for a clean end gets them, and what does not hear TERM is killed after them."""
    code = "import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN); print('ready', flush=True); signal.pause()"
    process = stage.python(code, env=stage.marks())
    times = itertools.chain([0.0, 0.0, 99.0], itertools.repeat(101.0))

    done = end(lambda: look(stage.root, nonces=[NONCE]), grace=100, clock=lambda: next(times))

    assert ([leftover.pid for leftover in done.ended], done.remaining) == ([process.pid], ())


def test_a_process_whose_main_thread_ended_is_found_and_ended(stage: Stage) -> None:
    """A process that looks like a zombie while other threads of it go on is a leftover like any other."""
    code = "import ctypes, threading; e = threading.Event(); threading.Thread(target=e.wait).start(); "
    code += "print('ready', flush=True); ctypes.CDLL(None).pthread_exit(None)"
    process = stage.python(code, env=stage.marks())
    wait_for(lambda: (stat := read_stat(process.pid)) is not None and stat.state == "Z", "its thread ends")

    assert pids(look(stage.root, nonces=[NONCE])) == {process.pid}
    done = end(lambda: look(stage.root, nonces=[NONCE]))
    assert [leftover.pid for leftover in done.ended] == [process.pid]


def test_ending_frees_the_lock(stage: Stage) -> None:
    """After the leftovers that held the lock are ended, nobody holds it."""
    pid = stage.leave_holder()

    done = end(lambda: look(stage.root, locks=[stage.lock]))

    assert [leftover.pid for leftover in done.ended] == [pid]
    assert flock_holders([stage.key]).holders == ()
