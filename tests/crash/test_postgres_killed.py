"""PostgreSQL killed in mid-claim, programs killed in mid-migration: nothing twice, nothing lost, nothing in between."""

from __future__ import annotations

import collections
import functools
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from kranzq.backends.sql.opening import open_store
from kranzq.backends.sql.schema import newest
from kranzq.testing.items import item
from tests import postgres
from tests.factories import ROOT, run_python
from tests.laboratory import wait_for

pytestmark = pytest.mark.crash
ITEMS, WORKERS, KILLS = 600, 3, 3
WORKER = """
import os, sys
from kranzq.backends.sql.postgres import PostgresDatabase
from kranzq.work import Holder, open
PostgresDatabase.__init__.__kwdefaults__["patience_s"] = 100.0  # a busy machine may take for long to restart a server
url, told, name = sys.argv[1:]
fd = os.open(told, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
with open(url) as store:
    store.stats()
    print("ready", flush=True)
    sys.stdin.readline()
    while (claim := store.claim(Holder(name))) is not None:
        os.write(fd, f"{claim.id} {claim.attempt}\\n".encode())
        store.heartbeat(claim)
        store.finish(claim)
"""
MIGRATOR = """
import os, signal, sys
from kranzq.backends.sql import postgres
database = postgres.PostgresDatabase(sys.argv[1])
execute, left = postgres._Transaction.execute, 0

def killed(self, command):
    global left
    execute(self, command)
    left -= 1
    if left == 0:
        os.kill(os.getpid(), signal.SIGKILL)

postgres._Transaction.execute = killed
number, version = 1, 0
while number < 200:
    pid = os.fork()
    if pid == 0:
        left = number
        database.migrate("a program that is killed")
        os._exit(0)
    _, status = os.waitpid(pid, 0)
    before, version = version, database.schema().version
    print(number, version, flush=True)
    if status == 0:
        break
    number = number + 1 if version == before else 1  # each step is killed behind each of its own commands
database.close()
"""


@pytest.fixture
def own_server() -> Iterator[postgres.Server]:
    """A server that this test may kill."""
    if not postgres.has_binaries():
        pytest.skip(postgres.MISSING)
    with postgres.running() as server:
        yield server


def has_lines(path: Path, most: int) -> bool:
    """Whether a file has more lines than that."""
    return len(path.read_text().splitlines()) > most


def test_a_server_that_is_killed_and_restarted_is_worked_with(own_server: postgres.Server, tmp_path: Path) -> None:
    """Several programs claim and finish while the server is killed again and again: each item was given once."""
    told = tmp_path / "told"
    told.touch()
    with open_store(own_server.url()) as store:
        store.enqueue_many([item(f"w-{number:03}") for number in range(ITEMS)])
    workers = [run_python(WORKER, own_server.url(), str(told), f"worker-{number}") for number in range(WORKERS)]
    try:
        for worker in workers:  # each has connected once: nobody waits for a server that never was there
            assert worker.stdout is not None
            assert worker.stdout.readline() == "ready\n"
        for worker in workers:
            assert worker.stdin is not None
            worker.stdin.write("\n")
            worker.stdin.flush()
        for kill in range(1, KILLS + 1):
            wait_for(functools.partial(has_lines, told, kill * ITEMS // 10), "work goes on")
            own_server.kill()
            own_server.start()
        codes = [worker.wait(100) for worker in workers]
    finally:
        for worker in workers:
            worker.kill()
            worker.communicate()
    given = collections.Counter(told.read_text().splitlines())

    assert codes == [0] * WORKERS
    assert given == {f"w-{number:03} 1": 1 for number in range(ITEMS)}
    with open_store(own_server.url()) as store:
        assert store.stats().by_state["done"] == ITEMS


def test_a_migration_that_is_killed_is_old_or_new(bare_postgres_url: str) -> None:
    """After a kill behind each of its commands the schema is that of some step, and the others can be taken."""
    done = subprocess.run(
        [sys.executable, "-c", MIGRATOR, bare_postgres_url], cwd=ROOT, capture_output=True, text=True, check=True
    )
    versions = [int(line.split()[1]) for line in done.stdout.splitlines()]

    assert versions == sorted(versions)
    assert set(versions) == set(range(newest() + 1))
    with open_store(bare_postgres_url) as store:
        store.enqueue(item())
        assert len(store.entries()) == 1


def test_programs_that_migrate_at_once_take_each_step_once(bare_postgres_url: str) -> None:
    """Four programs open an empty database in the same moment; all of them can work, and no step was taken twice."""
    program = "import sys; from kranzq.work import open; sys.stdin.readline(); open(sys.argv[1]).close()"
    words = [sys.executable, "-c", program, bare_postgres_url]
    programs = [subprocess.Popen(words, cwd=ROOT, stdin=subprocess.PIPE) for _ in range(4)]
    for one in programs:
        assert one.stdin is not None
        one.stdin.write(b"\n")
        one.stdin.close()
    codes = [one.wait(60) for one in programs]

    assert codes == [0] * 4
    with psycopg.connect(bare_postgres_url) as connection:
        found = connection.execute("select version from kranzq_schema order by version").fetchall()
    assert [version for (version,) in found] == list(range(1, newest() + 1))
