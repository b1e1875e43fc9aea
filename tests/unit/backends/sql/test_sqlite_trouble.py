"""SQLite on a bad day: each trouble has its one clear sentence, nothing half done, and an end once it is mended."""

from __future__ import annotations

import contextlib
import json
import os
import re
import sqlite3
import subprocess
import sys
import tempfile
import threading
import tracemalloc
import types
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from kranzq.backends.sql.backend import SqlBackend
from kranzq.backends.sql.database import Transaction
from kranzq.backends.sql.opening import open_store
from kranzq.backends.sql.sqlite import SqliteDatabase
from kranzq.backends.sql.sqlite_faults import named
from kranzq.errors import SchemaTooNew, StoreLocked, StoreUnavailable, UnsafePath, UsageFault
from kranzq.model.outcome import Outcome
from kranzq.testing.items import item
from kranzq.testing.store import HOLDER
from tests.laboratory import PATIENCE, REPO


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A queue with one item, which nobody has open."""
    path = tmp_path / "work.db"
    with open_store(f"sqlite:///{path}") as work:
        work.enqueue(item("w-1"))
    return path


def opened(path: Path) -> SqlBackend:
    """The queue at a path."""
    return open_store(f"sqlite:///{path}")


def ids(path: Path) -> list[str]:
    """What is open."""
    with opened(path) as work:
        return [one.id for one in work.entries()]


@pytest.mark.system("strace")
def test_an_item_is_on_disk_before_it_is_reported(path: Path, tmp_path: Path) -> None:
    """A14: the log is synced after its last write and before the answer is written, for each single enqueue."""
    program = (
        "import os, sys; from kranzq import work; from kranzq.work import NewItem\n"
        "with work.open(sys.argv[1]) as store:\n"
        "    for number in range(3): store.enqueue(NewItem('a', 'b')); os.write(1, b'reported')\n"
    )
    trace = tmp_path / "trace"
    calls = "trace=pwrite64,fdatasync,fsync,write"
    argv = ["strace", "-f", "-qq", "-y", "-e", calls, "-o", str(trace), sys.executable, "-c", program]
    done = subprocess.run([*argv, f"sqlite:///{path}"], cwd=REPO, check=True, capture_output=True)
    said, log = re.compile(r'write\(1<[^>]*>, "reported"'), re.escape(f"{path}-wal")

    assert done.stdout == b"reported" * 3
    before_each = said.split(trace.read_text())[:-1]
    assert len(before_each) == 3
    for part in before_each:
        steps = re.findall(rf"(pwrite64|fdatasync|fsync)\(\d+<{log}>", part)
        assert "pwrite64" in steps
        assert steps[-1] in {"fdatasync", "fsync"}


@pytest.mark.system("strace")
def test_the_first_log_is_synced_with_its_folder(tmp_path: Path) -> None:
    """A new queue's names are on disk too when its first item is reported."""
    program = (
        "import os, sys; from kranzq import work; from kranzq.work import NewItem\n"
        "with work.open(sys.argv[1]) as store: store.enqueue(NewItem('a', 'b')); os.write(1, b'reported')\n"
    )
    trace, folder = tmp_path / "trace", tmp_path / "new"
    argv = ["strace", "-f", "-qq", "-y", "-e", "trace=fsync,fdatasync,write", "-o", str(trace), sys.executable, "-c"]
    subprocess.run([*argv, program, f"sqlite:///{folder}/work.db"], cwd=REPO, check=True, capture_output=True)
    text = trace.read_text()

    assert re.search(rf"f(data)?sync\(\d+<{re.escape(str(folder))}>", text[: text.index('"reported"')])


FULL_DISK = """
import json, os, sys
os.system("mount -t tmpfs -o size=1m,mode=755 none " + sys.argv[1])
from kranzq import work
from kranzq.errors import KranzqError
from kranzq.work import Holder, NewItem
store = work.open("sqlite:///" + sys.argv[1] + "/work.db")
store.enqueue(NewItem("a", "b", id="before"))
claim = store.claim(Holder("ann"))
with open(sys.argv[1] + "/filler", "wb", buffering=0) as filler:
    try:
        while True: filler.write(b"x" * 4096)
    except OSError: pass
said = []
def refused(act):
    try: act()
    except KranzqError as fault: said.append([type(fault).__name__, str(fault)])
    else: said.append(None)
refused(lambda: store.enqueue_many([NewItem("a", "x" * 400_000, id=f"n-{n}") for n in range(3)]))
refused(lambda: store.enqueue(NewItem("a", "x" * 900_000, id="big")))
refused(lambda: [store.enqueue(NewItem("a", "x" * 4000, id=f"small-{n}")) for n in range(2000)])
seen = sorted(one.id for one in store.page(limit=500).items if not one.id.startswith("small"))
os.unlink(sys.argv[1] + "/filler")
store.enqueue(NewItem("a", "b", id="after"))
store.finish(claim)
store.close()
again = work.open("sqlite:///" + sys.argv[1] + "/work.db")
kept = {one.id: one.state.value for one in again.page(limit=500).items if not one.id.startswith("small")}
print(json.dumps([said, seen, kept]))
"""


@pytest.mark.system("unshare", "mount")
def test_a_full_disk_is_said_and_leaves_nothing_half_done(tmp_path: Path) -> None:
    """What did not fit is not there, what was there is, looking goes on, and writing does as soon as there is room."""
    if subprocess.run(["unshare", "-m", "true"], capture_output=True, check=False).returncode != 0:
        pytest.skip("needs the right to make a mount namespace")
    (tmp_path / "small").mkdir()
    argv = ["unshare", "-m", sys.executable, "-c", FULL_DISK, str(tmp_path / "small")]
    done = subprocess.run(argv, cwd=REPO, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    said, seen, kept = json.loads(done.stdout)

    for one in said:
        assert one is not None
        assert one[0] == "StoreUnavailable"
        assert "the disk is full. Nothing was changed." in one[1]
    assert seen == ["before"]
    assert kept == {"before": "done", "after": "open"}


def test_a_disk_is_called_full_whatever_sqlite_calls_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It reports an error of the disk where there is no room for the file that its readers share."""
    fault = sqlite3.OperationalError("disk I/O error")
    fault.sqlite_errorname = "SQLITE_IOERR_SHMSIZE"
    path = f"{tmp_path}/work.db"
    empty = named(fault, path, 1.0)
    monkeypatch.setattr(os, "statvfs", lambda _: types.SimpleNamespace(f_bavail=0))
    full = named(fault, path, 1.0)

    assert "reports an error" in str(empty)
    assert "is full" in str(full)


def damage_head(path: Path) -> None:
    """Something else where SQLite's own first page was."""
    path.write_bytes(b"no database at all\n" * 1000)


def damage_body(path: Path) -> None:
    """The first page as it was, the others torn."""
    whole = path.read_bytes()
    path.write_bytes(whole[:4096] + os.urandom(len(whole) - 4096))


def cut(path: Path) -> None:
    """Half of it is gone."""
    os.truncate(path, path.stat().st_size // 2 + 100)


def damage_schema(path: Path) -> None:
    """A byte that is no text, where the tables are described."""
    path.write_bytes(path.read_bytes().replace(b"title text not null", b"title text\xf0not null", 1))


def damage_text(path: Path) -> None:
    """A byte that is no text, in what somebody wrote."""
    with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute("pragma wal_checkpoint(truncate)")
        other.execute("update kranzq_payloads set payload = cast(x'ff' as text)")


@pytest.mark.parametrize("damage", [damage_head, damage_body, cut, damage_schema, damage_text])
def test_a_damaged_file_is_named_and_left_as_it_is(path: Path, damage: Callable[[Path], None]) -> None:
    """The sentence says what to do with it; not a byte is changed, so that it can be rescued."""
    damage(path)
    before = path.read_bytes()
    with pytest.raises(StoreUnavailable, match=r"damaged or is no database") as caught:
        use(path)

    assert str(path) in str(caught.value)
    assert "Move it away" in str(caught.value)
    assert path.read_bytes() == before


def use(path: Path) -> None:
    """Open it and call what reads and what writes."""
    with opened(path) as work:
        work.page()
        work.enqueue(item("w-2"))
        work.claim_many(HOLDER, limit=9)


def a_folder(path: Path) -> None:
    """A folder under its name."""
    path.mkdir()


def a_link(path: Path) -> None:
    """A link to a database."""
    with contextlib.closing(sqlite3.connect(path.parent / "other.db")) as connection:
        connection.execute("create table t (a)")
    path.symlink_to(path.parent / "other.db")


def a_link_to_nothing(path: Path) -> None:
    """A link that would make a file elsewhere."""
    path.symlink_to(path.parent / "elsewhere")


def a_pipe(path: Path) -> None:
    """A named pipe, on which a plain open would wait for ever."""
    os.mkfifo(path)


@pytest.mark.parametrize("plant", [a_folder, a_link, a_link_to_nothing, a_pipe])
def test_what_is_no_regular_file_is_refused(tmp_path: Path, plant: Callable[[Path], None]) -> None:
    """Nothing is read from it, written to it or made behind it."""
    path = tmp_path / "work.db"
    plant(path)
    before = sorted(tmp_path.iterdir())
    with pytest.raises(UnsafePath, match="regular file"):
        opened(path)

    assert sorted(tmp_path.iterdir()) == before


def test_a_link_for_the_lock_beside_it_is_refused(path: Path) -> None:
    """Who plants a link there makes nobody write elsewhere."""
    lock = Path(f"{path}.lock")
    lock.unlink()
    lock.symlink_to(path.parent / "elsewhere")
    with pytest.raises(StoreUnavailable, match="lock"):
        use(path)

    assert not (path.parent / "elsewhere").exists()


@pytest.mark.skipif(os.getuid() != 0, reason="only root can become somebody else, and no permission stops root")
def test_a_file_that_may_not_be_opened_is_said() -> None:
    """Another user is told which file it is, in one line."""
    program = (
        "import os, sys\n"
        "from kranzq import work\n"
        "from kranzq.errors import KranzqError\n"
        "work.open('sqlite:///' + sys.argv[2]).close()  # so that everything is imported\n"
        "os.setgroups([]); os.setgid(65534); os.setuid(65534)\n"
        "try: work.open(sys.argv[1]).page()\n"
        "except KranzqError as fault: print(type(fault).__name__, fault)\n"
    )
    with tempfile.TemporaryDirectory(prefix="kranzq-", dir="/tmp") as folder:
        path = Path(folder) / "work.db"
        opened(path).close()
        for mode in (0o755, 0o700):
            Path(folder).chmod(mode)
            argv = [sys.executable, "-c", program, f"sqlite:///{path}", f"{folder}/other.db"]
            done = subprocess.run(argv, cwd=REPO, capture_output=True, text=True, check=False)

            assert done.returncode == 0, done.stderr
            expected = rf"StoreUnreachable .*{re.escape(str(path))}.* this user may not .*\n +Call as the user .*\n"
            assert re.fullmatch(expected, done.stdout), done.stdout


def test_a_folder_that_may_not_be_made_is_said(tmp_path: Path) -> None:
    """A file where a folder should be."""
    (tmp_path / "file").write_text("")
    with pytest.raises(StoreUnavailable, match=re.escape(str(tmp_path / "file"))):
        opened(tmp_path / "file" / "work.db")


@pytest.mark.parametrize(
    "url", ["sqlite:work.db", "sqlite://work.db", "sqlite:///", "sqlite:///tmp/", "mysql://x", "", "sqlite:///a\0b"]
)
def test_a_url_that_names_nothing_is_refused(url: str) -> None:
    """With the forms that there are."""
    with pytest.raises(UsageFault, match="sqlite:///"):
        open_store(url)


def test_a19_a_newer_schema_is_refused_untouched_only_if_it_says_so(path: Path) -> None:
    """A step that only adds leaves older programs running; one that they would misunderstand turns them away."""
    with contextlib.closing(sqlite3.connect(path)) as connection:
        connection.execute("insert into kranzq_schema values (900, 1, 0, 'a newer one')")
        connection.commit()
    assert ids(path) == ["w-1"]
    with contextlib.closing(sqlite3.connect(path)) as connection:
        connection.execute("update kranzq_schema set compatible = 900 where version = 900")
        connection.commit()
    before = path.read_bytes()
    with pytest.raises(SchemaTooNew, match="900"):
        opened(path)

    assert path.read_bytes() == before


@contextlib.contextmanager
def locked(path: Path) -> Iterator[sqlite3.Connection]:
    """SQLite's own write lock in the hands of another program."""
    with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute("begin immediate")
        yield connection


def test_b61_past_the_patience_a_lock_is_said_and_nothing_is_half_done(path: Path) -> None:
    """Looking goes on meanwhile; whoever would write is told to try again, and can as soon as the lock is free."""
    work = SqlBackend(SqliteDatabase(str(path), patience_s=0.05))
    with locked(path):
        for act in (
            lambda: work.enqueue(item("w-2")),
            lambda: work.claim(HOLDER),
            lambda: work.cancel("w-1"),
            work.sweep,
        ):
            with pytest.raises(StoreLocked, match="nothing was changed"):
                act()
        assert [one.id for one in work.entries()] == ["w-1"]

    claim = work.claim(HOLDER)
    assert claim is not None
    assert [one.attempt for one in work.attempts("w-1")] == [1]
    work.close()


def test_b61_a_write_has_the_lock_before_it_reads(path: Path) -> None:
    """Nobody can come between what an act reads and what it writes: SQLite would refuse it at once, however patient."""
    database = SqliteDatabase(str(path))

    def act(transaction: Transaction) -> None:
        assert transaction.one("digest", id="w-1") is not None
        with contextlib.closing(sqlite3.connect(path, timeout=0, isolation_level=None)) as other:
            with pytest.raises(sqlite3.OperationalError, match="locked"):
                other.execute("update kranzq_items set priority = 1")
        transaction.run("cancel", id="w-1", why="")

    database.write(act)
    database.close()


def test_b61_a_lock_that_ends_in_time_is_waited_for(path: Path) -> None:
    """A write waits for another program as long as the patience lasts; also one that read before it."""
    with opened(path) as work, contextlib.ExitStack() as stack:
        work.show("w-1")
        other = stack.enter_context(locked(path))
        answers: list[object] = []
        thread = threading.Thread(target=lambda: answers.append(work.claim(HOLDER)))
        thread.start()
        thread.join(0.15)
        assert thread.is_alive(), "it did not wait"
        other.execute("rollback")
        thread.join(PATIENCE)

        assert [getattr(one, "id", None) for one in answers] == ["w-1"]


def test_b62_a_forgotten_reader_is_survived_and_told(path: Path) -> None:
    """The log grows while somebody reads for ever, and stats say so; heartbeats add little; then it is cut back."""
    with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as forgotten, opened(path) as work:
        claim = work.claim(HOLDER)
        assert claim is not None
        forgotten.execute("begin")
        forgotten.execute("select count(*) from kranzq_items").fetchone()
        before = work.stats().log_size
        for _ in range(150):
            work.heartbeat(claim)
        grown = work.stats().log_size - before
        assert 0 < grown < 150 * 5 * 4120, f"{grown / 150:.0f} bytes a heartbeat"

        forgotten.execute("rollback")
        for _ in range(300):
            work.heartbeat(claim)
        assert work.stats().log_size < 1100 * 4120, "the log was not begun anew"
    assert not Path(f"{path}-wal").exists()


def test_a_reader_that_went_away_does_not_hold_the_log(path: Path) -> None:
    """Each look of ours ends with its answer: after it nothing pins the log."""
    with opened(path) as work:
        for _ in range(3):
            work.page()
            work.stats()
            work.enqueue(item())
        with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as other:
            busy, *_ = other.execute("pragma wal_checkpoint(truncate)").fetchone()

    assert busy == 0


def test_a_child_of_a_fork_closes_nothing_of_its_parent(path: Path) -> None:
    """A child that only closes what it got leaves its parent's connections, its log and its lock as they are."""
    with opened(path) as work:
        work.enqueue(item("w-2"))
        work.page()
        pid = os.fork()
        if pid == 0:
            work.close()
            os._exit(0)
        assert os.waitpid(pid, 0)[1] == 0
        work.enqueue(item("w-3"))

        assert Path(f"{path}-wal").exists()
        assert [one.id for one in work.entries()] == ["w-1", "w-2", "w-3"]


def test_a_child_of_a_fork_has_connections_of_its_own(path: Path) -> None:
    """A program that forks may use the queue in both halves."""
    with opened(path) as work:
        work.enqueue(item("w-2"))
        pid = os.fork()
        if pid == 0:
            code = 1
            with contextlib.suppress(BaseException):
                work.enqueue(item("w-3"))
                code = 0 if work.claim(HOLDER) is not None else 2
            os._exit(code)
        assert os.waitpid(pid, 0)[1] == 0
        work.enqueue(item("w-4"))

        assert [one.id for one in work.entries()] == ["w-2", "w-3", "w-4"]


@pytest.mark.parametrize("half", ["the parent's store", "a store of its own"])
def test_what_a_child_of_a_fork_enqueues_outlives_its_parents_close(path: Path, half: str) -> None:
    """SQLite would take the parent's locks for the child's, and the log away from under it."""
    work = opened(path)
    work.enqueue(item("w-2"))
    work.page()
    (began, begin), (closed, close) = os.pipe(), os.pipe()
    pid = os.fork()
    if pid == 0:
        code = 1
        with contextlib.suppress(BaseException):
            mine = work if half == "the parent's store" else opened(path)
            mine.enqueue(item("w-3"))
            os.write(begin, b"x")
            os.read(closed, 1)
            mine.enqueue(item("w-4"))
            code = 0
        os._exit(code)
    os.read(began, 1)
    work.close()
    opened(path).close()
    os.write(close, b"x")
    assert os.waitpid(pid, 0)[1] == 0
    for end in (began, begin, closed, close):
        os.close(end)

    with opened(path) as later:
        assert [one.id for one in later.entries()] == ["w-1", "w-2", "w-3", "w-4"]


def test_a_fork_waits_for_those_who_use_a_connection(path: Path) -> None:
    """A child gets no connection that a thread of its parent is just using."""
    with opened(path) as work:
        reading, go_on = threading.Event(), threading.Event()

        def look(_: object) -> None:
            reading.set()
            assert go_on.wait(PATIENCE)

        reader = threading.Thread(target=lambda: work.database.read(look))
        reader.start()
        assert reading.wait(PATIENCE)
        threading.Timer(0.1, go_on.set).start()
        pid = os.fork()
        if pid == 0:
            os._exit(0 if go_on.is_set() else 1)
        reader.join(PATIENCE)

        assert os.waitpid(pid, 0)[1] == 0


def test_a_close_takes_no_connection_from_those_who_use_it(path: Path) -> None:
    """Whoever is in the middle of a call has its answer; SQLite's library ends the process otherwise."""
    script = f"""
import threading, time
from kranzq import work
store, until = work.open({f"sqlite://{path}"!r}), time.monotonic() + 1.0
def use():
    while time.monotonic() < until:
        store.enqueue(work.NewItem("title", "payload" * 300))
        claim = store.claim(work.Holder("ann"))
        if claim is not None:
            store.finish(claim)
        store.page(limit=100)
        store.wait_for_work(0.001)
threads = [threading.Thread(target=use) for _ in range(4)]
for thread in threads:
    thread.start()
while time.monotonic() < until:
    store.close()
for thread in threads:
    thread.join()
assert len(store.database._connections._users) == 0
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)

    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize("what", ["removed", "replaced"])
def test_a_file_that_lost_its_name_is_told(path: Path, what: str) -> None:
    """Nothing is reported as kept that nobody would find, and nothing is made in its place."""
    with opened(path) as work:
        work.enqueue(item("w-2"))
        aside = path.parent / "aside.db"
        path.rename(aside)
        if what == "replaced":
            opened(path).close()
        for act in (lambda: work.enqueue(item("w-3")), lambda: work.claim(HOLDER), work.page, work.stats):
            with pytest.raises(StoreUnavailable, match="removed or replaced"):
                act()
        assert path.exists() == (what == "replaced")


def test_a_file_that_was_moved_away_is_not_made_anew(path: Path) -> None:
    """An empty one in its place would take over its log: whoever moves the file back would have lost what was in it."""
    away = path.with_name("away.db")
    with opened(path) as work:
        work.enqueue(item("w-1"))
        path.rename(away)
        for look in (lambda: work.wait_for_work(0), work.database.schema, work.stats):
            with contextlib.suppress(StoreUnavailable):
                look()
            assert not path.exists()
        away.rename(path)

        assert work.show("w-1").id == "w-1"


def test_a12_what_is_pruned_gives_its_place_back(path: Path) -> None:
    """The file gets smaller, and what stays in it of large payloads is used anew."""
    with opened(path) as work:
        before = work.stats().size
        work.enqueue_many([item(payload="x" * 6_000) for _ in range(300)])
        for claim in work.claim_many(HOLDER, limit=1000):
            work.finish(claim)
        checkpoint(path)
        full = work.stats().size
        assert work.prune(-10) == 301
        checkpoint(path)

        assert full > before + 1_500_000
        assert work.stats().size < before + 200_000


def checkpoint(path: Path) -> None:
    """Let what is in the log get into the file."""
    with contextlib.closing(sqlite3.connect(path)) as connection:
        connection.execute("pragma wal_checkpoint(truncate)")


def test_a_page_reads_no_more_payloads_than_it_shows(path: Path) -> None:
    """However many states there are to choose from, and however large their items."""
    with opened(path) as work:
        for state in range(3):
            work.enqueue_many([item(payload="x" * 1_000_000, priority=state) for _ in range(4)])
            for claim in work.claim_many(HOLDER, limit=4):
                work.finish(claim, Outcome.SUCCEEDED if state else Outcome.FAILED)
        work.enqueue_many([item(payload="x" * 1_000_000) for _ in range(4)])
        tracemalloc.start()
        try:
            assert len(work.page(limit=3).items) == 3
            _, peak = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()

    assert peak < 6_000_000
