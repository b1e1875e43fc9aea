"""Two users and one checkout: shared where the repository says so, refused up front where it does not.

Each user is a process with a user, groups and an umask of its own, and a home of its own.
"""

from __future__ import annotations

import contextlib
import importlib.util
import json
import os
import shutil
import signal
import stat
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.laboratory import REPO, wait_for

pytestmark = [pytest.mark.system("git"), pytest.mark.slow]
GROUP = 64300
NEEDED = ("click", "filelock", "watchdog", "psutil")
LIBRARY = """
import sys
from kranzq import queue
claimed = queue.claim_front(sys.argv[1])
print(type(claimed).__name__)
if type(claimed).__name__ == "QueueClaim":
    queue.release_claim(claimed)
"""


@dataclass(frozen=True)
class User:
    """One user with a home, a umask, the group that is shared, and a Python that he may run."""

    uid: int
    home: Path
    umask: int
    python: str
    groups: tuple[int, ...] = (GROUP,)

    def start(self, *argv: str, **more: Any) -> subprocess.Popen[str]:
        """Start a program as this user."""
        environ = {"PATH": os.environ["PATH"], "HOME": str(self.home), "LC_ALL": "C.UTF-8"}
        environ["PYTHONPATH"] = f"{REPO}:{self.home.parent / 'packages'}"
        return subprocess.Popen(
            argv,
            cwd="/",
            env=environ,
            user=self.uid,
            group=self.uid,
            extra_groups=self.groups,
            umask=self.umask,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            **more,
        )

    def run(self, *argv: str, code: int | None = 0) -> str:
        """Run a program to its end; what it said."""
        process = self.start(*argv)
        out, err = process.communicate(timeout=60)
        assert code is None or process.returncode == code, (argv, process.returncode, out, err)
        return out + err

    def kranzq(self, root: Path, *words: str, code: int | None = 0) -> str:
        """Run a verb in a checkout."""
        return self.run(self.python, "-m", "kranzq", "-C", str(root), *words, code=code)


@pytest.fixture
def place() -> Iterator[Path]:
    """A directory that every user can reach."""
    path = Path(tempfile.mkdtemp(prefix="kranzq-users-"))
    path.chmod(0o755)
    for name in NEEDED:
        found = importlib.util.find_spec(name)
        assert found is not None
        assert found.submodule_search_locations
        shutil.copytree(next(iter(found.submodule_search_locations)), path / "packages" / name)
    yield path
    shutil.rmtree(path)


def user(place: Path, uid: int, umask: int, *groups: int) -> User:
    """A user whose home exists."""
    home = place / f"home-{uid}"
    home.mkdir(exist_ok=True)
    os.chown(home, uid, uid)
    home.chmod(0o700)
    for python in (sys.executable, "/usr/local/bin/python3", "/usr/bin/python3"):
        one = User(uid, home, umask, python, groups or (GROUP,))
        with contextlib.suppress(OSError, AssertionError):
            one.run(python, "-c", "import kranzq.__main__, sys; sys.exit(sys.version_info < (3, 11))")
            return one
    pytest.skip("needs a Python that other users may run")


@pytest.fixture(autouse=True)
def as_root() -> None:
    """Only root can become several users."""
    if os.geteuid() != 0:
        pytest.skip("needs root, to become several users")


def checkout_of(owner: User, root: Path, *, mode: int | None = None) -> Path:
    """A checkout of the user; with a mode, its directory belongs to the shared group."""
    root.mkdir()
    os.chown(root, owner.uid, owner.uid if mode is None else GROUP)
    root.chmod(0o755 if mode is None else mode)
    owner.run("git", "init", "-q", *([] if mode is None else ["--shared=group"]), str(root))
    return root


def assert_private(root: Path) -> None:
    """Nothing in the queue is writable by everybody."""
    for path in (root / ".kranz").rglob("*"):
        assert not path.lstat().st_mode & stat.S_IWOTH, path


@pytest.mark.parametrize("order", ["ab", "ba"])
@pytest.mark.parametrize("umask", [0o022, 0o077])
def test_b40_users_of_one_group_share_a_setgid_checkout(place: Path, umask: int, order: str) -> None:
    """Whoever comes first, with whatever umask, leaves locks, entries and folders that the other can use."""
    a, b = user(place, 64301, umask), user(place, 64302, 0o002)
    root = checkout_of(a, place / "r", mode=0o2775)
    first, second = (a, b) if order == "ab" else (b, a)

    first.kranzq(root, "enqueue", "of-first", "--", "true")
    second.kranzq(root, "enqueue", "of-second", "--", "true")
    for one in (first, second):
        assert "QueueClaim" in one.run(one.python, "-c", LIBRARY, str(root))
    first.kranzq(root, "drain")
    second.kranzq(root, "drain")

    assert_private(root)
    queue = root / ".kranz/queue"
    assert stat.S_IMODE(queue.stat().st_mode) == 0o2775
    assert stat.S_IMODE((queue / ".mutate.flock").stat().st_mode) == 0o660
    assert (queue / ".busy.flock").stat().st_gid == GROUP
    runs = json.loads(first.kranzq(root, "history", "--json"))["runs"]
    assert {(one["mission"], one["outcome"]) for one in runs if one["outcome"] != "never began"} == {
        ("of-first", "succeeded"),
        ("of-second", "succeeded"),
    }
    assert "nothing" not in second.kranzq(root, "logs", "of-first")


def test_b40_entries_have_the_groups_mode(place: Path) -> None:
    """An entry that waits in a shared queue can be read by the group, and by nobody else."""
    a = user(place, 64301, 0o077)
    root = checkout_of(a, place / "r", mode=0o2775)
    a.kranzq(root, "enqueue", "m", "--", "true")

    (entry,) = (root / ".kranz/queue").glob("*-m.json")
    assert stat.S_IMODE(entry.stat().st_mode) == 0o660
    assert entry.stat().st_gid == GROUP


def test_b40_git_can_say_that_a_checkout_is_shared(place: Path) -> None:
    """core.sharedRepository is read from git's file; the queue gets the group of the repository."""
    a, b = user(place, 64301, 0o022), user(place, 64302, 0o022)
    root = checkout_of(a, place / "r")
    a.run("git", "-C", str(root), "config", "core.sharedRepository", "group")
    os.chown(root / ".git", a.uid, GROUP)
    a.kranzq(root, "init")
    b.kranzq(root, "enqueue", "m", "--", "true")

    assert (root / ".kranz/queue").stat().st_gid == GROUP
    assert_private(root)


def test_b40_a_checkout_that_is_not_shared_is_refused_up_front(place: Path) -> None:
    """Another user's checkout is refused with the reason before anything is made; looking works, with one line."""
    a, b = user(place, 64301, 0o022), user(place, 64302, 0o002)
    root = checkout_of(a, place / "r")
    for line in ("enqueue m -- true", "init", "drain", "recover", "pause"):
        assert "belongs to user 64301" in b.kranzq(root, *line.split(), code=5)
    assert not (root / ".kranz").exists()
    a.kranzq(root, "enqueue", "m", "--", "true")

    said = b.kranzq(root, "list")
    assert said.count("Only looking works here") == 1
    for line in ("enqueue n -- true", "cancel m", "daemon", "drain", "trust --unsigned"):
        assert "belongs to user 64301" in b.kranzq(root, *line.split(), code=5)


def test_a_user_who_is_not_in_the_group_is_refused(place: Path) -> None:
    """A declared group is for its members."""
    a, stranger = user(place, 64301, 0o022), user(place, 64303, 0o022, 64399)
    root = checkout_of(a, place / "r", mode=0o2775)
    a.kranzq(root, "init")

    assert "not in it" in stranger.kranzq(root, "enqueue", "m", "--", "true", code=5)


def test_b10_the_second_user_sees_and_waits(place: Path) -> None:
    """While a's mission runs, b sees it and whose it is, starts no daemon beside a's, and recovers nothing of it."""
    a, b = user(place, 64301, 0o022), user(place, 64302, 0o002)
    root = checkout_of(a, place / "r", mode=0o2775)
    a.kranzq(root, "enqueue", "m1", "--", "sleep", "60")
    daemon = a.start(a.python, "-m", "kranzq", "-C", str(root), "daemon", start_new_session=True)
    try:

        def busy() -> dict[str, Any]:
            said = b.kranzq(root, "status", "--json")
            assert "kranzq:" not in said, said
            found = json.loads(said)
            return (found["busy"] or {}) | {"claims": found["claims"]}

        def runs() -> bool:
            seen = busy()
            return (seen.get("mission"), seen.get("run")) == ("m1", 1) and bool(seen["claims"])

        wait_for(runs, "b sees m1 run")

        assert "of user 64301" in b.kranzq(root, "status")
        assert "m1" in b.kranzq(root, "list")
        report = json.loads(b.kranzq(root, "recover", "--json"))
        assert [(one["verdict"], one["action"]) for one in report["claims"]] == [("alive", "left alone")]
        assert f"pid {daemon.pid}" in b.kranzq(root, "daemon", code=4)
        b.kranzq(root, "drain", "--once", code=4)
        assert busy()["mission"] == "m1"
    finally:
        with contextlib.suppress(ProcessLookupError):
            daemon.send_signal(signal.SIGTERM)
        a.kranzq(root, "cancel", "m1", code=None)
        daemon.communicate(timeout=60)


def test_b10_entries_of_the_other_user_are_passed_over(place: Path) -> None:
    """What a signed does not run as b: b's dispatcher says whose it is, and leaves it where it lies."""
    a, b = user(place, 64301, 0o022), user(place, 64302, 0o002)
    root = checkout_of(a, place / "r", mode=0o2775)
    a.kranzq(root, "enqueue", "m1", "--", "touch", str(root / "ran"))

    assert b.kranzq(root, "drain", code=None).count("signed by another user (key") == 1
    assert not (root / "ran").exists()
    assert "m1" in a.kranzq(root, "list")


def test_b10_a_dead_claim_of_the_other_user_goes_where_its_record_says(place: Path) -> None:
    """The recovery by b reads a's record of the end in a shared checkout, so an ended mission is not run again."""
    a, b = user(place, 64301, 0o077), user(place, 64302, 0o002)
    root = checkout_of(a, place / "r", mode=0o2775)
    a.kranzq(root, "enqueue", "m1", "--", "true")
    a.kranzq(root, "drain")
    (run,) = (root / ".kranz/missions/m1/dispatch").iterdir()
    record = json.loads((run / "run.json").read_text())
    claim = root / ".kranz/queue" / record["claim"]
    claim.write_text('{"missionId":"m1","ticketSlug":null,"priority":2,"seq":0}')  # as if settling had not come to it
    os.chown(claim, a.uid, GROUP)

    report = json.loads(b.kranzq(root, "recover", "--json"))
    assert [(one["verdict"], one["action"]) for one in report["claims"]] == [("gone", "settled: succeeded, retire")]
    assert not claim.exists()


def test_root_in_another_users_checkout_is_refused(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Root works in a user's checkout only where it says that it means it, by a flag or a variable."""
    a = user(place, 64301, 0o022)
    root = checkout_of(a, place / "r")
    a.kranzq(root, "init")
    command = [sys.executable, "-m", "kranzq", "-C", str(root)]

    def run(*words: str) -> int:
        done = subprocess.run([*command, *words], cwd=REPO, capture_output=True, text=True, check=False, timeout=60)
        assert done.returncode in {0, 5}, done.stderr
        assert done.returncode == 0 or "runs as root" in done.stderr
        return done.returncode

    writing = (("init",), ("enqueue", "m", "--", "true"), ("cancel", "m"), ("drain",), ("recover",), ("daemon",))
    assert {run(*words) for words in (*writing, ("pause",), ("resume",), ("stop",))} == {5}
    assert {run(verb, "--as-root") for verb in ("init", "drain", "recover")} == {0}
    assert {run(verb) for verb in ("list", "status", "history")} == {0}
    monkeypatch.setenv("KRANZQ_AS_ROOT", "1")
    assert run("enqueue", "m", "--", "true") == 0
