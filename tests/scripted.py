"""A server that is none: it says to each connection what it was told to, whatever it was asked."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from tests.laboratory import PATIENCE

Script = bytes | Callable[[socket.socket], None]
"""What is sent before it hangs up, or who does it."""
VERSION = "x-agentmux-srv-version: 1\r\n"


@dataclass
class Scripted:
    """Its scripts, one a connection, and the heads of what it was asked."""

    scripts: list[Script]
    asked: list[str] = field(default_factory=list)
    url: str = ""

    def serve(self, listening: socket.socket) -> None:
        """Answer until there is no script left."""
        for script in self.scripts:
            connection, _ = listening.accept()
            with connection, connection.makefile("rb") as stream:
                self.asked.append(b"".join(iter(stream.readline, b"\r\n")).decode().lower())
                with contextlib.suppress(OSError):
                    if isinstance(script, bytes):
                        connection.sendall(script)
                    else:
                        script(connection)


@contextlib.contextmanager
def scripted(*scripts: Script) -> Iterator[Scripted]:
    """Such a server while the block lasts; all that it has to say must be asked for."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        one = Scripted(list(scripts), url=f"http://127.0.0.1:{listening.getsockname()[1]}")
        thread = threading.Thread(target=one.serve, args=(listening,))
        thread.start()
        yield one
        thread.join(PATIENCE)
        assert not thread.is_alive(), "it was asked too seldom"


def answer(body: bytes, status: int = 200, *headers: str, length: int | None = None) -> bytes:
    """A whole answer, or one that says to be longer."""
    said = "".join(f"{one}\r\n" for one in headers)
    head = f"HTTP/1.1 {status} X\r\n{VERSION}content-length: {len(body) if length is None else length}\r\n{said}"
    return f"{head}connection: close\r\n\r\n".encode() + body


def stream(body: bytes, kind: str = "text/event-stream; charset=utf-8") -> bytes:
    """An answer that lasts until its server hangs up."""
    return f"HTTP/1.1 200 X\r\n{VERSION}content-type: {kind}\r\nconnection: close\r\n\r\n".encode() + body
