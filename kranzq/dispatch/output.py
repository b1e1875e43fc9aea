"""A run's output, read forwards or from its last lines on: bounded pieces, the bytes as they are.

What was left out of a log over its cap is a hole in the file; it is told as a number, not as that many NULs.
"""

from __future__ import annotations

import errno
import os
from typing import Protocol

from kranzq.model.frozen import frozen

PIECE = 64 * 1024
TAIL_LIMIT = 16 * 1024 * 1024
"""So far back a tail looks for the beginnings of lines."""


@frozen
class Piece:
    """Bytes of a run's output. `start` is where they begin in the file, behind what was left out.

    `size` is that of the file now; `over`: the run says nothing more.
    """

    run: int
    start: int
    data: bytes
    size: int
    over: bool

    @property
    def next(self) -> int:
        """Where to go on."""
        return self.start + len(self.data)


class Sink(Protocol):
    """Where output goes."""

    def data(self, piece: bytes) -> None:
        """Some bytes, as they are on disk."""
        ...

    def gap(self, size: int) -> None:
        """Here `size` bytes were left out."""
        ...

    def pause(self) -> None:
        """That was all for now."""
        ...


class Output:
    """An output file that is read forwards from a position, in pieces."""

    def __init__(self, fd: int) -> None:
        self._fd = fd
        self._at = 0

    @property
    def size(self) -> int:
        """The bytes that are there now, with what was left out."""
        return os.fstat(self._fd).st_size

    def pump(self, sink: Sink) -> None:
        """Send everything from the position to the present end."""
        while self._at < (size := self.size):
            begin = self._seek(os.SEEK_DATA, size)
            if begin > self._at:
                sink.gap(begin - self._at)
                self._at = begin
                continue
            if (piece := self._piece(size, PIECE)) is None:
                break
            if piece:
                sink.data(piece)
            self._at += len(piece)
        sink.pause()

    def read(self, at: int, most: int) -> tuple[int, bytes, int]:
        """Where data begins at or behind `at`, at most so much of it, and the size of the file now."""
        size = self.size
        self._at = min(at, size)
        self._at = max(self._at, self._seek(os.SEEK_DATA, size))
        data = self._piece(size, most) if self._at < size else b""
        return self._at, data or b"", size

    def seek_tail(self, lines: int) -> None:
        """Go to where the last `lines` lines begin, looking back a bounded way only."""
        at = end = self._at = self.size
        if lines == 0:
            return
        wanted = lines + 1  # the newline that ends the line before the first one wanted
        if end and os.pread(self._fd, 1, end - 1) != b"\n":
            wanted -= 1
        self._at = max(0, end - TAIL_LIMIT)
        while wanted > 0 and at > self._at:
            begin = max(self._at, at - PIECE)
            piece = os.pread(self._fd, at - begin, begin)
            while wanted > 0 and (found := piece.rfind(b"\n")) >= 0:
                wanted -= 1
                if wanted == 0:
                    self._at = begin + found + 1
                piece = piece[:found]
            at = begin

    def _piece(self, size: int, most: int) -> bytes | None:
        """The bytes at the position, up to a gap; None at the end of the file."""
        stop = min(self._seek(os.SEEK_HOLE, size), self._at + most)
        piece = os.pread(self._fd, max(1, stop - self._at), self._at)
        if not piece:
            return None
        # asked again: what was punched out while it was read came as NULs
        return piece[: max(0, self._seek(os.SEEK_HOLE, self._at + len(piece)) - self._at)]

    def _seek(self, how: int, size: int) -> int:
        try:
            return min(os.lseek(self._fd, self._at, how), size)
        except OSError as fault:
            if fault.errno == errno.ENXIO:  # nothing but a gap up to the end
                return size
            return self._at if how == os.SEEK_DATA else size
