"""A cable between a browser and a server, which a test may cut and mend."""

from __future__ import annotations

import contextlib
import socket
import threading
from typing import Self


class Cable:
    """Listens on a port of its own and passes everything on to `address`, once that is known."""

    def __init__(self) -> None:
        self.address = ""
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self._is_cut = False
        self._ends: set[socket.socket] = set()
        self._mutex = threading.Lock()
        threading.Thread(target=self._accept, daemon=True).start()

    def cut(self) -> None:
        """End every connection, and let none through until `mend`."""
        with self._mutex:
            self._is_cut = True
            ends = list(self._ends)
        for one in ends:
            _end(one)

    def mend(self) -> None:
        """Let connections through again."""
        self._is_cut = False

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.cut()
        _end(self._listener)
        self._listener.close()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                near, _ = self._listener.accept()
                host, _, port = self.address.rpartition(":")
                far = socket.create_connection((host, int(port)))
                with self._mutex:
                    if self._is_cut:
                        near.close()
                        far.close()
                        continue
                    self._ends |= {near, far}
                for source, target in ((near, far), (far, near)):
                    threading.Thread(target=self._pass_on, args=(source, target), daemon=True).start()

    def _pass_on(self, source: socket.socket, target: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while data := source.recv(65536):
                target.sendall(data)
        _end(target)  # the other direction ends by that, and closes it
        _end(source)
        with self._mutex:
            self._ends.discard(source)
            is_last = target not in self._ends
        if is_last:
            source.close()
            target.close()


def _end(one: socket.socket) -> None:
    with contextlib.suppress(OSError):
        one.shutdown(socket.SHUT_RDWR)
