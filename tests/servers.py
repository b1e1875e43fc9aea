"""A real `kranzq serve` for tests, and the plainest of clients: one request, one answer, over the socket or TCP."""

from __future__ import annotations

import atexit
import contextlib
import http.client
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from kranzq import work
from kranzq.model.agents import Scope
from tests.laboratory import PATIENCE, REPO, wait_for

STARTED = re.compile(r"kranzq serves unix:(\S+)(?: and http:..(\S+))? as process (\d+);")
LEFT_OUT = ("KRANZQ_", "XDG_")
SHORT_WAYS: list[Path] = []
"""The folders that lie beside those of the tests."""


@dataclass(frozen=True)
class Answer:
    """What came back."""

    status: int
    headers: dict[str, str]
    raw: bytes

    @property
    def json(self) -> Any:
        """The body as JSON."""
        return json.loads(self.raw)


class OverSocket(http.client.HTTPConnection):
    """HTTP over a Unix socket."""

    def __init__(self, path: str) -> None:
        super().__init__("localhost", timeout=PATIENCE)
        self._path = path

    def connect(self) -> None:
        """Open the socket in the place of an address."""
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(self.timeout)
        self.sock.connect(self._path)


def short_way_to(folder: Path) -> str:
    """A path of that folder which leaves room for a socket's name; the system takes 107 bytes for all of it."""
    if not folder.exists():
        short = tempfile.mkdtemp(prefix="kranzq-")
        SHORT_WAYS.append(Path(short))
        atexit.register(shutil.rmtree, short, ignore_errors=True)
        folder.symlink_to(short)
    return os.path.realpath(folder)


@dataclass
class Served:
    """One server process, with the folder of its state."""

    folder: Path
    words: tuple[str, ...] = ()
    environ: dict[str, str] = field(default_factory=dict)
    cwd: Path = Path()
    """Where it is started: without one in its folder, for a server serves the missions of the checkout around it."""
    program: tuple[str, ...] = ("-m", "kranzq")
    """Another one takes `serve` and its words in its own way."""

    def __post_init__(self) -> None:
        """Keep its state and its log in the folder."""
        kept = {name: text for name, text in os.environ.items() if not name.startswith(LEFT_OUT)}
        state = {"XDG_STATE_HOME": short_way_to(self.folder / "state"), "XDG_CONFIG_HOME": str(self.folder / "config")}
        self.environ = kept | state | {"HOME": str(self.folder), "PYTHONPATH": str(REPO)} | self.environ
        self.cwd = self.folder if self.cwd == Path() else self.cwd
        self.log = self.folder / "log"
        self.url = f"sqlite://{self.folder}/work.db"
        self.process: subprocess.Popen[bytes] | None = None
        self.socket, self.address = "", ""

    def start(self) -> None:
        """Start it and wait until it takes requests."""
        told = self.log.stat().st_size if self.log.exists() else 0
        with self.log.open("ab") as output:
            self.process = subprocess.Popen(
                [sys.executable, *self.program, "serve", "--url", self.url, *self.words],
                cwd=self.cwd,
                env=self.environ,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                start_new_session=True,
            )

        def begun() -> re.Match[str] | None:
            assert self.process is not None
            text = self.log.read_text()[told:]
            assert self.process.poll() is None, f"the server has ended: {text}"
            return STARTED.search(text)

        found = wait_for(begun, "the server takes requests")
        assert found is not None
        self.socket, self.address = found[1], found[2] or ""

    def stop(self, number: int = signal.SIGTERM) -> int:
        """End it; its exit code."""
        assert self.process is not None
        self.process.send_signal(number)
        return self.process.wait(PATIENCE)

    def kill(self) -> None:
        """End it as the kernel does when memory is short."""
        if self.process is not None and self.process.poll() is None:
            self.process.kill()
            self.process.wait(PATIENCE)

    @property
    def key(self) -> str:
        """The operator's key."""
        return (self.folder / "state" / "kranzq" / "server.key").read_text().strip()

    def agent(self, name: str, *, scopes: tuple[Scope, ...] = (Scope.WORK,), groups: tuple[str, ...] = ()) -> str:
        """A new agent's token."""
        with work.open(self.url) as store:
            return store.agents.add(name, scopes=scopes, groups=groups).token

    def connection(self, *, tcp: bool = False) -> http.client.HTTPConnection:
        """A new connection."""
        return http.client.HTTPConnection(self.address, timeout=PATIENCE) if tcp else OverSocket(self.socket)

    def ask(
        self,
        method: str,
        path: str,
        body: object = None,
        *,
        token: str | None = None,
        headers: Mapping[str, str] | None = None,
        tcp: bool = False,
    ) -> Answer:
        """One request. A body is sent as JSON, bytes as they are."""
        sent = body if isinstance(body, bytes) or body is None else json.dumps(body).encode()
        said = {"Content-Type": "application/json"} if sent is not None else {}
        said |= {"Authorization": f"Bearer {token}"} if token is not None else {}
        connection = self.connection(tcp=tcp)
        with contextlib.closing(connection):
            connection.request(method, path, sent, said | dict(headers or {}))
            return read_answer(connection)


def read_answer(connection: http.client.HTTPConnection) -> Answer:
    """The answer to what was sent on a connection."""
    answer = connection.getresponse()
    return Answer(answer.status, {name.lower(): text for name, text in answer.getheaders()}, answer.read())


@contextlib.contextmanager
def serving(
    folder: Path, *words: str, environ: Mapping[str, str] | None = None, program: tuple[str, ...] = ("-m", "kranzq")
) -> Iterator[Served]:
    """A server that runs while the block does."""
    one = Served(folder, words, dict(environ or {}), program=program)
    try:
        one.start()
        yield one
    finally:
        one.kill()


def raw(served: Served, sent: bytes, *, tcp: bool = True, seconds: float = PATIENCE) -> bytes:
    """All that comes back for some bytes, until the server closes the connection or nothing more comes."""
    with connected(served, tcp=tcp) as connection:
        connection.sendall(sent)
        return all_of(connection, seconds)


@contextlib.contextmanager
def connected(served: Served, *, tcp: bool = True) -> Iterator[socket.socket]:
    """A bare connection."""
    if tcp:
        host, _, port = served.address.rpartition(":")
        connection = socket.create_connection((host, int(port)), PATIENCE)
    else:
        connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        connection.settimeout(PATIENCE)
        connection.connect(served.socket)
    with connection:
        yield connection


def all_of(connection: socket.socket, seconds: float = PATIENCE) -> bytes:
    """What comes until the other side closes; fails when it does not within so long."""
    connection.settimeout(seconds)
    parts = []
    with contextlib.suppress(ConnectionResetError):
        while part := connection.recv(65536):
            parts.append(part)
    return b"".join(parts)
