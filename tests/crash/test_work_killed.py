"""A process that is killed at any system call that changes something has done what it was asked, or nothing of it."""

from __future__ import annotations

import contextlib
import json
import shutil
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import IO

import pytest

from kranzq.backends.sql.opening import open_store
from kranzq.backends.sql.schema import newest
from tests.crash.work_verbs import AGAIN, CHANGES, KILLED_AT, VERBS, prepare
from tests.laboratory import REPO

pytestmark = [pytest.mark.crash, pytest.mark.slow, pytest.mark.system("strace")]
OF_TIME = {
    "created_at",
    "updated_at",
    "claim_expires",
    "lease_ends",
    "claimed_at",
    "applied_at",
    "first_at",
    "until",
    "expires_at",
}


class Launcher:
    """Children of one traced process, each killed at another call."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        assert process.stdin is not None
        assert process.stdout is not None
        self._orders: IO[str] = process.stdin
        self._answers: IO[str] = process.stdout

    def run(self, verb: str, path: Path, at: int = 0) -> tuple[bool, bool]:
        """Whether the verb's process was killed, and whether it had reported success before."""
        self._orders.write(json.dumps({"verb": verb, "path": str(path), "at": at}) + "\n")
        self._orders.flush()
        answer = json.loads(self._answers.readline())
        assert answer["status"] in {0, 9}, answer
        return answer["status"] == 9, answer["reported"]


@pytest.fixture
def launcher(tmp_path: Path) -> Iterator[Launcher]:
    """One that is gone at the end."""
    inject = f"inject={CHANGES}:signal=KILL:when={KILLED_AT}"
    traced = ["strace", "-f", "-qq", "-o", "/dev/null", "-e", f"trace={CHANGES}", "-e", inject]
    with subprocess.Popen(
        [*traced, sys.executable, "-m", "tests.crash.work_verbs"],
        cwd=REPO,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        yield Launcher(process)
        assert process.stdin is not None
        process.stdin.close()


def dump(path: Path) -> dict[str, list[tuple[object, ...]]]:
    """Everything that a database holds but times, as a program that opens it now sees it."""
    with contextlib.closing(sqlite3.connect(path)) as connection:
        assert connection.execute("pragma integrity_check").fetchall() == [("ok",)]
        assert connection.execute("pragma foreign_key_check").fetchall() == []
        found = {}
        names = connection.execute("select name from sqlite_schema where type = 'table' order by name").fetchall()
        for (table,) in names:
            columns = [row[1] for row in connection.execute(f"pragma table_info({table})") if row[1] not in OF_TIME]
            shown = ", ".join("ended_at is null" if column == "ended_at" else column for column in columns)
            found[table] = sorted(connection.execute(f"select {shown} from {table}").fetchall(), key=str)
    return found


def copy(base: Path, folder: Path, name: str) -> Path:
    """A database of its own for one run."""
    (folder / name).mkdir()
    path = folder / name / "work.db"
    if base.exists():
        shutil.copy(base, path)
    return path


@pytest.mark.parametrize("verb", VERBS)
def test_a_verb_that_is_killed_anywhere_was_done_or_was_not(verb: str, launcher: Launcher, tmp_path: Path) -> None:
    """What was reported is there; what was not is there wholly or not at all, and may be asked for once more."""
    base = tmp_path / "base.db"
    prepare(str(base))
    whole = copy(base, tmp_path, "whole")
    assert launcher.run(verb, whole) == (False, True)
    before, after = dump(base), dump(whole)
    assert before != after, "the verb changes nothing"
    seen = set()

    for at in range(1, KILLED_AT):
        path = copy(base, tmp_path, str(at))
        killed, reported = launcher.run(verb, path, at)
        found = dump(path)
        assert found == after or (not reported and found == before), (at, reported)
        seen.add((found == after, reported))
        if verb in AGAIN:
            assert launcher.run(verb, path) == (False, True)
            assert dump(path) == after
        if not killed:
            break
        shutil.rmtree(path.parent)
    else:
        pytest.fail("the verb makes more changes than can be counted")
    assert seen == {(False, False), (True, False), (True, True)}, "killed before, in the middle and after"


def test_a_migration_that_is_killed_anywhere_is_old_or_new(launcher: Launcher, tmp_path: Path) -> None:
    """A step of the schema happened wholly or not at all, and the next program that comes finishes the work."""
    whole = copy(tmp_path / "none", tmp_path, "whole")
    assert launcher.run("migrate", whole) == (False, True)
    after, versions = dump(whole), set()

    for at in range(1, KILLED_AT):
        path = copy(tmp_path / "none", tmp_path, str(at))
        killed, reported = launcher.run("migrate", path, at)
        if path.exists():
            tables = dump(path)
            version = len(tables.get("kranzq_schema", []))
            versions.add(version)
            assert (version == newest()) == (tables == after)
            assert version or not tables
        assert not reported or dump(path) == after
        open_store(f"sqlite:///{path}").close()
        assert [row[:2] for row in dump(path)["kranzq_schema"]] == [row[:2] for row in after["kranzq_schema"]]
        assert dump(path).keys() == after.keys()
        if not killed:
            break
    else:
        pytest.fail("the migration makes more changes than can be counted")
    assert versions == set(range(newest() + 1))
