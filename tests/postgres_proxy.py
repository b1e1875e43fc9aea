"""A socket between a program and PostgreSQL that counts messages and, when told to, loses one, or all from now on."""

from __future__ import annotations

import contextlib
import re
import shutil
import socket
import struct
import tempfile
import threading
from collections.abc import Iterator
from typing import Self

from psycopg.conninfo import conninfo_to_dict

QUERY, READY = b"Q", b"Z"


class Proxy:
    """Listens in a folder of its own; `url` leads through it to the same database."""

    def __init__(self, url: str) -> None:
        self._parts = conninfo_to_dict(url)
        self._folder = tempfile.mkdtemp(prefix="kranzq-proxy-", dir="/tmp")
        self.url = re.sub(r"://([^/]*@)?[^/]*(/[^?]*).*", rf"://\1\2?host={self._folder}", url)
        self.queries = self.connections = self.refused = 0
        self._lose_request = self._lose_answer = 0
        self._refuses = False
        self._flows = threading.Event()
        self._flows.set()
        self._sockets: list[socket.socket] = []
        self._threads: list[threading.Thread] = []
        self._mutex = threading.Lock()
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(f"{self._folder}/.s.PGSQL.5432")
        self._listener.listen(50)
        self._run(self._accept)

    def lose_request(self, number: int = 1) -> None:
        """Cut the connection instead of passing on the so-many-eth message from now."""
        self._lose_request = self.queries + number

    def lose_answer(self, number: int = 1) -> None:
        """Pass on the so-many-eth message from now, wait until it was done, and cut the connection then."""
        self._lose_answer = self.queries + number

    @property
    def has_lost(self) -> bool:
        """Whether the message that was to be lost has come."""
        return self.queries >= max(self._lose_request, self._lose_answer)

    def swallow(self) -> None:
        """Be a network that has swallowed its cable: nothing passes any more and nothing is said about it."""
        self._flows.clear()

    def flow(self) -> None:
        """Let everything pass again."""
        self._refuses = False
        self._flows.set()

    def refuse(self) -> None:
        """Cut every connection, and let nobody in until it flows again."""
        self._refuses = True
        self.cut()

    def cut(self) -> None:
        """Cut every connection."""
        with self._mutex:
            sockets, self._sockets = self._sockets, []
        for one in sockets:
            with contextlib.suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        """End it with everything that goes through it."""
        self.flow()
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self.cut()
        for thread in self._threads:
            thread.join(10)
        shutil.rmtree(self._folder)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _run(self, target: object, *arguments: object) -> None:
        thread = threading.Thread(target=target, args=arguments, daemon=True)  # type: ignore[arg-type]
        self._threads.append(thread)
        thread.start()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            if self._refuses:
                self.refused += 1
                client.close()
                continue
            self.connections += 1
            try:
                server = self._connect()
            except OSError:
                client.close()
                continue
            with self._mutex:
                self._sockets += [client, server]
            losing = threading.Event()
            self._run(self._up, client, server, losing)
            self._run(self._down, server, client, losing)

    def _connect(self) -> socket.socket:
        host, port = str(self._parts.get("host") or "/var/run/postgresql"), self._parts.get("port") or 5432
        if not host.startswith("/"):
            return socket.create_connection((host, int(port)), 10)
        server = socket.socket(socket.AF_UNIX)
        try:
            server.connect(f"{host}/.s.PGSQL.{port}")
        except OSError:
            server.close()
            raise
        return server

    def _up(self, client: socket.socket, server: socket.socket, losing: threading.Event) -> None:
        with _both_ended(client, server):
            for kind, frame in _frames(client, begins=True):
                self._flows.wait()
                if kind == QUERY:
                    with self._mutex:
                        self.queries += 1
                        number = self.queries
                    if number == self._lose_request:
                        return
                    if number == self._lose_answer:
                        losing.set()
                server.sendall(frame)

    def _down(self, server: socket.socket, client: socket.socket, losing: threading.Event) -> None:
        with _both_ended(server, client):
            for kind, frame in _frames(server):
                self._flows.wait()
                if not losing.is_set():
                    client.sendall(frame)
                elif kind == READY:
                    return


@contextlib.contextmanager
def _both_ended(*pair: socket.socket) -> Iterator[None]:
    """When one direction ends, the other one does, too."""
    try:
        with contextlib.suppress(OSError):
            yield
    finally:
        for one in pair:
            with contextlib.suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)
        pair[0].close()


def _frames(source: socket.socket, *, begins: bool = False) -> Iterator[tuple[bytes, bytes]]:
    """The messages that come, each with its kind; a client's first one has none."""
    stream = source.makefile("rb")
    while True:
        kind = b"" if begins else stream.read(1)
        size = stream.read(4)
        if len(size) < 4:
            return
        (length,) = struct.unpack("!i", size)
        yield kind, kind + size + stream.read(length - 4)
        begins = False
