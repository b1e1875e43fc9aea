"""The operator's key, with which everything on a server is open: one small file that only its owner may read.

`server.key` in the state directory, or another file that is named. It holds the key and at most one end of line.
Anything else, an empty file above all, is refused with the cure: an empty key would let everybody in.
"""

from __future__ import annotations

import contextlib
import os
import threading
from collections.abc import Iterator

from kranzq.disk.atomic import publish, replace, store_fault
from kranzq.errors import KranzqError, Refused, UnsafePath
from kranzq.model.tokens import OPERATOR_PREFIX, is_token, new_token
from kranzq.trust.key import open_private, read_own

NAME = "server.key"
_NOT_PRIVATE = 0o077


class OperatorKey:
    """One key file. May be shared by threads; what was read of it is in no repr."""

    def __init__(self, state: str, path: str | None = None) -> None:
        """The file of a state directory, or the one at `path`, which is never made."""
        self.path = path or f"{state}/{NAME}"
        self._state = state if path is None else None
        self._mutex = threading.Lock()
        self._seen: tuple[int, ...] | None = None
        self._key: str | None = None

    def read(self) -> str:
        """The key. Raises Refused when there is none, or when what is there must not be used."""
        with self._folder(make=False) as fd:
            key = None if fd is None else self._read(fd)
        if key is None:
            raise Refused(
                f"{self.path} is not there.",
                "Make it: kranzq agent key" if self._state is not None else "Name the file that holds the key.",
            )
        return key

    def make(self) -> str:
        """The key, made on first use. Of two processes that make it at once, both get the same one."""
        if self._state is None:
            return self.read()
        with self._folder(make=True) as fd:
            assert fd is not None
            if (key := self._read(fd)) is not None:
                return key
            try:
                publish(fd, NAME, f"{new_token(OPERATOR_PREFIX)}\n".encode())
            except FileExistsError:
                pass  # another process was faster
            except OSError as fault:
                raise store_fault(self.path, fault) from fault
        return self.read()

    def rotate(self) -> str:
        """Another key in the place of the old one, which opens nothing from now on; also where the old one is odd.

        Raises UnsafePath for what is no file of ours.
        """
        assert self._state is not None
        key = new_token(OPERATOR_PREFIX)
        with self._folder(make=True) as fd:
            assert fd is not None
            read_own(fd, self.path, 0, "")
            try:
                replace(fd, NAME, f"{key}\n".encode(), sync=True)
            except OSError as fault:
                raise store_fault(self.path, fault) from fault
        return key

    def current(self) -> str | None:
        """The key as the file has it at this moment; None while there is none that may be used: then none opens."""
        try:
            seen = os.stat(self.path, follow_symlinks=False)
        except OSError:
            return None
        mark = (seen.st_dev, seen.st_ino, seen.st_size, seen.st_mtime_ns, seen.st_ctime_ns)
        with self._mutex:
            if mark != self._seen:
                try:
                    self._key, self._seen = self.read(), mark
                except KranzqError:  # perhaps only for a moment, as when no more files may be open: read it again
                    self._key = self._seen = None
            return self._key

    @contextlib.contextmanager
    def _folder(self, *, make: bool) -> Iterator[int | None]:
        folder = os.path.dirname(os.path.abspath(self.path))
        if self._state is not None:
            fd = open_private(os.path.dirname(folder), os.path.basename(folder), make=make)
        else:
            try:
                fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
            except FileNotFoundError:
                fd = None
            except OSError as fault:
                raise UnsafePath(folder, f"it cannot be opened as a directory: {fault.strerror}") from fault
        try:
            yield fd
        finally:
            if fd is not None:
                os.close(fd)

    def _read(self, fd: int) -> str | None:
        content = read_own(fd, self.path, _NOT_PRIVATE, "600")
        if content is None:
            return None
        key = content.data.decode("ascii", "replace").removesuffix("\n").removesuffix("\r")
        if is_token(key, OPERATOR_PREFIX):
            return key
        what = "holds no key of a server" if key.strip() else "is empty"
        cure = "Restore it, or make a new key: kranzq agent key --rotate"
        raise Refused(f"{self.path} {what}.", cure if self._state is not None else "Name the file that holds the key.")
