"""What a dispatcher may rely on when it starts, tells, hears and reaps keepers."""

from __future__ import annotations

import fcntl
import json
import os
import select
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from kranzq.liveness import identity_of
from kranzq.runs import keepers
from kranzq.runs.keepers import Keeper, KeeperLost, Order, WarmKeepers, start_keeper
from tests.laboratory import PATIENCE

ORDER = Order(
    kranzq="1.0",
    mission="m-1",
    run=1,
    nonce="ab" * 16,
    executable="/bin/sh",
    argv=["sh", "-c", "exit 3"],
    env={},
    claim="claim",
    run_path="/nonexistent",
)
IGNORES_CHILDREN = """
import select, signal
signal.signal(signal.SIGCHLD, signal.SIG_IGN)
from kranzq.runs.keepers import start_keeper
keeper = start_keeper()
keeper.dismiss()
print(keeper.reaped, signal.getsignal(signal.SIGCHLD) == signal.SIG_DFL)
"""


@pytest.fixture
def keeper() -> Iterator[Keeper]:
    """A ready keeper that is sent away at the end."""
    keeper = start_keeper()
    yield keeper
    keeper.dismiss()


def go(keeper: Keeper, folder: Path, order: Order = ORDER) -> None:
    """Say *go* with everything in one folder."""
    fds = [os.open(folder, os.O_RDONLY | os.O_DIRECTORY) for _ in range(4)]
    fds += [os.open(folder / name, os.O_WRONLY | os.O_CREAT | os.O_APPEND) for name in ("output.log", "keeper.log")]
    try:
        keeper.go(order, locks=(fds[0],), run=fds[1], queue=fds[2], cwd=fds[3], output=fds[4], log=fds[5])
    finally:
        for fd in fds:
            os.close(fd)


def wait_for_end(keeper: Keeper) -> None:
    """Wait until the process has ended, without reaping it."""
    assert select.select([keeper.pidfd], [], [], PATIENCE)[0]


def messages(keeper: Keeper) -> list[dict[str, Any]]:
    """All that it has said."""
    said = []
    while (message := keeper.read()) is not None:
        said.append(message)
    return said


def test_an_order_names_all_that_the_keeper_needs() -> None:
    """The order has exactly the keys of its format."""
    keys = (
        "version kranzq mission run nonce executable argv env claim runPath timeoutSeconds graceSeconds onSurvivors"
        " oomScoreAdjust syncParents leaseEndsBoottime record outputCap"
    )

    assert list(ORDER.to_json()) == keys.split()


def test_a_keeper_says_how_it_went_and_is_reaped_once(keeper: Keeper, tmp_path: Path) -> None:
    """Its messages are readable one by one up to the end of the stream, and it stays a zombie until it is reaped."""
    assert keeper.read() is None
    go(keeper, tmp_path)
    wait_for_end(keeper)
    said = messages(keeper)

    assert [next(iter(message)) for message in said] == ["started", "end", "survivors"]
    assert said[1]["end"]["exitCode"] == 3
    assert keeper.eof is True
    assert keeper.ended()
    assert os.path.exists(f"/proc/{keeper.pid}")
    keeper.reap()
    keeper.reap()
    assert keeper.ended()
    assert not os.path.exists(f"/proc/{keeper.pid}")


def test_its_identity_is_that_of_the_process(keeper: Keeper) -> None:
    """The identity is what anybody else sees of the process, which leads its own session."""
    assert keeper.identity == identity_of(keeper.pid)
    assert os.getsid(keeper.pid) == keeper.pid


def test_it_inherits_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It has no descriptor but null devices and its socket, the root as its folder, and no mark or secret."""
    for name in ("KRANZ_MISSION_ID", "GIT_DIR", "KRANZQ_TOKEN"):
        monkeypatch.setenv(name, "x")
    monkeypatch.setenv("LC_TIME", "C")
    with open(tmp_path / "file", "w", encoding="utf-8") as file:
        os.set_inheritable(file.fileno(), True)
        keeper = start_keeper()
    folder = f"/proc/{keeper.pid}"
    files = [os.readlink(f"{folder}/fd/{fd}") for fd in sorted(os.listdir(f"{folder}/fd"), key=int)]
    names = {part.split(b"=")[0].decode() for part in Path(f"{folder}/environ").read_bytes().split(b"\0") if part}
    cwd = os.readlink(f"{folder}/cwd")
    keeper.dismiss()

    assert files[:3] == ["/dev/null"] * 3
    assert [name.split(":")[0] for name in files[3:]] == ["socket"]
    assert cwd == "/"
    assert "LC_TIME" in names
    assert names <= {"PATH", "LANG", "TZ", "HOME", "TMPDIR"} | {name for name in names if name.startswith("LC_")}


def test_a_dead_keeper_is_lost(keeper: Keeper, tmp_path: Path) -> None:
    """*Go* to a keeper that died says so, and that nothing was started."""
    os.kill(keeper.pid, signal.SIGKILL)
    wait_for_end(keeper)

    with pytest.raises(KeeperLost, match="Nothing was started"):
        go(keeper, tmp_path)


def test_a_keeper_that_cannot_start_is_lost(tmp_path: Path) -> None:
    """A program that is no keeper, or ends at once, is reported and leaves no process."""
    (tmp_path / "keeper.py").write_text("raise SystemExit(1)\n")

    with pytest.raises(KeeperLost):
        start_keeper(str(tmp_path / "keeper.py"))


def test_a_dismissed_keeper_is_gone_even_if_it_hangs(keeper: Keeper, monkeypatch: pytest.MonkeyPatch) -> None:
    """A keeper without an order is sent away and reaped, also when it does not react."""
    monkeypatch.setattr(keepers, "LEAVES_WITHIN", 0.01)
    os.kill(keeper.pid, signal.SIGSTOP)
    keeper.dismiss()

    assert not os.path.exists(f"/proc/{keeper.pid}")


def test_the_warm_one_is_taken_if_it_lives() -> None:
    """A warm keeper is handed out once; one that died meanwhile is replaced."""
    warm = WarmKeepers()
    warm.warm()
    warm.warm()
    first = warm.take()
    warm.warm()
    second = warm.take()
    second_pid = second.pid
    second.dismiss()
    warm.warm()
    assert warm._warm is not None
    os.kill(warm._warm.pid, signal.SIGKILL)
    wait_for_end(warm._warm)
    dead_pid = warm._warm.pid
    third = warm.take()
    warm.warm()
    last_pid = warm._warm.pid
    warm.close()

    assert len({first.pid, second_pid, dead_pid, third.pid, last_pid}) == 5
    assert not first.ended()
    assert not third.ended()
    assert not any(os.path.exists(f"/proc/{pid}") for pid in (dead_pid, last_pid))
    first.dismiss()
    third.dismiss()


def test_a_warm_keeper_dies_with_its_dispatcher() -> None:
    """A warm keeper whose dispatcher is killed leaves by itself."""
    script = "from kranzq.runs.keepers import start_keeper; import signal; print(start_keeper().pid, flush=True)"
    argv = [sys.executable, "-c", f"{script}; signal.pause()"]
    with subprocess.Popen(argv, stdout=subprocess.PIPE, text=True) as dispatcher:
        assert dispatcher.stdout is not None
        pidfd = os.pidfd_open(int(dispatcher.stdout.readline()))
        dispatcher.kill()

    assert select.select([pidfd], [], [], PATIENCE)[0]
    os.close(pidfd)


def test_it_works_where_children_are_ignored() -> None:
    """A dispatcher that was started with SIGCHLD ignored still keeps and reaps its keepers."""
    done = subprocess.run([sys.executable, "-c", IGNORES_CHILDREN], capture_output=True, text=True, check=True)

    assert done.stdout == "True True\n"


def test_going_on_without_the_keeper_leaves_the_mission(keeper: Keeper, tmp_path: Path) -> None:
    """`close` after *go* ends nothing: the record appears all the same."""
    go(keeper, tmp_path)
    pidfd = os.dup(keeper.pidfd)
    keeper.close()
    assert select.select([pidfd], [], [], PATIENCE)[0]
    os.waitid(os.P_PIDFD, pidfd, os.WEXITED)
    os.close(pidfd)

    assert json.loads((tmp_path / "exit.json").read_text())["exitCode"] == 3
    with open(tmp_path / "keeper.log", "rb") as log:
        fcntl.flock(log, fcntl.LOCK_EX | fcntl.LOCK_NB)


def test_a_large_order_arrives(keeper: Keeper, tmp_path: Path) -> None:
    """An environment far beyond a packet's size is no obstacle."""
    env = {f"V{number}": "x" * 100_000 for number in range(10)}
    go(keeper, tmp_path, replace(ORDER, env=env, argv=["sh", "-c", "exit $((${#V9} / 1000))"]))
    wait_for_end(keeper)

    assert messages(keeper)[1]["end"]["exitCode"] == 100
