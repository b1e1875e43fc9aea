"""Where the server listens: a Unix socket of this user's alone, and an address of TCP when one is asked for.

Beside the socket lies a file whose kernel lock says that its server lives: what a dead one left is replaced, a live
one is never put aside. Sockets are bound here, since uvicorn would make one that everybody may open.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import ipaddress
import os
import socket
import stat
from dataclasses import dataclass, field

from kranzq.errors import Busy, Refused, StoreUnavailable, UnsafePath, UsageFault
from kranzq.model.frozen import frozen

BACKLOG = 1024
_MOST_PATH = 107
"""Bytes of a socket's path that a system takes."""
_WRITABLE_BY_OTHERS = 0o022
_MOST_PORT = 65535


@dataclass(slots=True)
class SocketFile:
    """The Unix socket of one server, from `open` to `close`."""

    path: str
    _lock: int = field(default=-1, repr=False)
    _inode: int = 0

    def open(self) -> socket.socket:
        """Listen. Raises Busy when a live server has it, UsageFault, Refused, StoreUnavailable."""
        if len(os.fsencode(self.path)) > _MOST_PATH:
            raise UsageFault(
                f"{self.path} is too long for a socket: {_MOST_PATH} bytes at most.", "Name another: --socket PATH"
            )
        folder = os.path.dirname(self.path) or "."
        try:
            seen = os.stat(folder)
        except OSError as fault:
            why = f"The directory {folder} of the socket cannot be used: {fault.strerror}."
            raise UsageFault(why, "Make it, or name another socket with --socket PATH") from fault
        if seen.st_uid not in {os.geteuid(), 0} or seen.st_mode & _WRITABLE_BY_OTHERS:
            raise UnsafePath(folder, "others may write in it, and could put a socket of theirs there", "chmod go-w it.")
        self._take()
        try:
            return self._bind()
        except BaseException:
            self._let_go()
            raise

    def close(self) -> None:
        """Remove the socket, if it is still ours, and let go."""
        with contextlib.suppress(OSError):
            if self._lock >= 0 and os.lstat(self.path).st_ino == self._inode:
                os.unlink(self.path)
        self._let_go()

    def _take(self) -> None:
        name = f"{self.path}.lock"
        try:
            self._lock = os.open(name, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            who = (
                os.pread(self._lock, 200, 0).decode("ascii", "replace").strip() or "a process that has not said its id"
            )
            self._let_go()
            raise Busy(
                f"A server has {self.path} already: {who}.", "End it, or name another socket with --socket PATH"
            ) from None
        except OSError as fault:
            self._let_go()
            raise StoreUnavailable(name, fault.strerror or str(fault)) from fault
        os.ftruncate(self._lock, 0)
        os.pwrite(self._lock, f"process {os.getpid()}\n".encode(), 0)

    def _bind(self) -> socket.socket:
        with contextlib.suppress(FileNotFoundError):
            if not stat.S_ISSOCK(os.lstat(self.path).st_mode):
                raise UnsafePath(self.path, "it is no socket, so it is not replaced")
            if _is_answered(self.path):
                raise Busy(f"Another program listens on {self.path}.", "Name another socket with --socket PATH")
            os.unlink(self.path)
        made = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        old = os.umask(0o177)  # the socket appears with its mode; no thread makes files yet
        try:
            made.bind(self.path)
            made.listen(BACKLOG)
        except OSError as fault:
            made.close()
            raise StoreUnavailable(self.path, fault.strerror or str(fault)) from fault
        finally:
            os.umask(old)
        self._inode = os.lstat(self.path).st_ino
        return made

    def _let_go(self) -> None:
        if self._lock >= 0:
            os.close(self._lock)
            self._lock = -1


@frozen
class Address:
    """An address of TCP: a literal one or `localhost`, so that nobody else's name server decides where we listen."""

    host: str
    port: int

    @classmethod
    def parse(cls, text: str) -> Address:
        """From `HOST:PORT`; a port of 0 lets the system choose. Raises UsageFault."""
        host, colon, port = text.rpartition(":")
        host = host[1:-1] if host.startswith("[") and host.endswith("]") else host
        if not colon or not host or not port.isascii() or not port.isdigit() or int(port) > _MOST_PORT:
            raise UsageFault(
                f"{text[:80]!r} is no address.", "Say HOST:PORT, for example 127.0.0.1:8787 or [::1]:8787."
            )
        if host == "localhost":
            host = "127.0.0.1"
        try:
            ipaddress.ip_address(host)
        except ValueError:
            raise UsageFault(f"{host[:80]!r} is no address of this machine.", "Say its number, or localhost.") from None
        return cls(host, int(port))

    @property
    def is_loopback(self) -> bool:
        """Whether only this machine reaches it."""
        return ipaddress.ip_address(self.host).is_loopback

    def open(self, *, allow_remote: bool) -> socket.socket:
        """Listen. Raises Refused for an address that others reach, unless that is meant; Busy, UsageFault."""
        if not self.is_loopback and not allow_remote:
            raise Refused(
                f"{self.host} is reached by other machines, and what is sent there is not encrypted.",
                "Put a proxy with TLS before a loopback address; or say --allow-remote if you mean it.",
            )
        family = socket.AF_INET6 if ":" in self.host else socket.AF_INET
        made = socket.socket(family, socket.SOCK_STREAM)
        try:
            made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            if family == socket.AF_INET6:
                made.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
            made.bind((self.host, self.port))
            made.listen(BACKLOG)
        except OSError as fault:
            made.close()
            if fault.errno == errno.EADDRINUSE:
                raise Busy(f"Another program listens on {self.host}:{self.port}.", "Name another port.") from fault
            raise UsageFault(
                f"Nobody can listen on {self.host}:{self.port} here: {fault.strerror}.",
                "Name an address of this machine, such as --listen 127.0.0.1:0, and a port from 1024 on.",
            ) from fault
        return made


def url_of(listening: socket.socket) -> str:
    """The URL by which a client reaches a socket."""
    named = listening.getsockname()
    if listening.family == socket.AF_UNIX:
        return f"unix:{named}"
    return f"http://[{named[0]}]:{named[1]}" if listening.family == socket.AF_INET6 else f"http://{named[0]}:{named[1]}"


def _is_answered(path: str) -> bool:
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        probe.settimeout(1.0)
        try:
            probe.connect(path)
        except (ConnectionRefusedError, FileNotFoundError):
            return False
        except OSError:
            return True
    return True
