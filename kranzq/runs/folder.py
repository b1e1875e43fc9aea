"""One run folder, with the records of its run, the wishes of others and its output.

Everything goes through its open descriptor and follows no link; what another user wrote is ignored.
"""

from __future__ import annotations

import contextlib
import json
import os
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Self

from kranzq.disk import atomic
from kranzq.disk.modes import counts, is_shared, mode_in
from kranzq.disk.read import ENTRY_LIMIT, GONE, RECORD_LIMIT, Unreadable, open_folder, read_regular
from kranzq.model.clock import rfc3339, seconds_of
from kranzq.model.ids import MissionId
from kranzq.model.json_object import json_object

if TYPE_CHECKING:
    from kranzq.runs.record import ExitRecord, RunRecord

RUN, EXIT, OUTPUT, LOG = "run.json", "exit.json", "output.log", "keeper.log"
CANCEL, RETURN, STUCK = "cancel.json", "return.json", "stuck.json"
LEASE = "lease.json"
"""Until when the lease of its item is confirmed, on the boot clock; whoever renews it writes this for the keeper."""
ENTRY = "entry.json"
"""The entry that the run took, byte for byte, so that it can be tried once more when it is gone."""
ABOVE = 4
"""`dispatch`, the mission's folder, `missions` and `.kranz`. A run before this one may have made them and never synced
them, so whoever makes a record safe syncs them all."""
_LIMIT = 8 * RECORD_LIMIT


@dataclass
class RunFolder:
    """One run's folder, open."""

    fd: int
    path: str
    mission: MissionId
    run: int
    above: int = ABOVE
    """How many of the folders above it are as new as it may be: without their names nothing in it survives."""

    def write(self, record: RunRecord, *, sync: bool) -> RunRecord:
        """Replace `run.json`. Only the end is synced: everything before it is repeated by it."""
        from kranzq.runs.record import render  # noqa: PLC0415 - where nothing has run there is no record

        atomic.replace(self.fd, RUN, render(record), sync=sync)
        if sync:
            self._sync_above()
        return record

    def read(self) -> RunRecord | None:
        """The run's record, if it is one and names this mission and run.

        A mission can remove it or put something in its place; then the copy that the keeper wrote into the end counts.
        """
        return self._ours(_read(self.fd, RUN)) or self._ours(self._copy_in_end())

    def _ours(self, data: bytes | None) -> RunRecord | None:
        if data is None:
            return None
        from kranzq.runs.record import parse  # noqa: PLC0415 - where nothing has run there is no record

        record = parse(data)
        return record if record is not None and (record.mission, record.run) == (self.mission, self.run) else None

    def _copy_in_end(self) -> bytes | None:
        value = json_object(data) if (data := _read(self.fd, EXIT)) is not None else None
        copy = value.get("record") if value is not None else None
        if value is None or not isinstance(copy, str):
            return None
        from kranzq.runs.record import parse, render  # noqa: PLC0415 - where nothing has run there is no record

        record = parse(copy.encode("utf-8", "replace"))
        return render(record) if record is not None and record.nonce == value.get("nonce") else None

    def read_exit(self, nonce: str) -> ExitRecord | None:
        """The keeper's record of the end, if it is of the run with this nonce."""
        data = _read(self.fd, EXIT)
        if data is None:
            return None
        from kranzq.runs.record import parse_exit  # noqa: PLC0415 - where nothing has run there is no record

        return parse_exit(data, nonce)

    def wish(self, name: str, who: str, why: str) -> None:
        """Leave a wish for the keeper, synced: `cancel.json` or `return.json`.

        So is the record, which alone tells whose wish it is.
        """
        shown = {"who": who, "why": why, "at": rfc3339(time.time())}
        atomic.replace(self.fd, name, json.dumps(shown).encode(), sync=True)
        self.sync()

    def confirm_lease(self, ends_boottime: float) -> None:
        """Tell the keeper until when the lease is confirmed. Not synced: after a power cut nothing of the run lives."""
        atomic.replace(self.fd, LEASE, json.dumps({"endsBoottime": ends_boottime}).encode(), sync=False)

    def wished(self, name: str) -> dict[str, object] | None:
        """A wish that lies here; an unreadable one still is a wish."""
        data = _read(self.fd, name)
        return None if data is None else (json_object(data) or {})

    def stuck(self) -> list[object]:
        """Processes that would not die, as the keeper named them."""
        value = json_object(data) if (data := _read(self.fd, STUCK)) is not None else None
        found = value.get("stuck") if value is not None else None
        return found if isinstance(found, list) else []

    def not_before(self) -> float | None:
        """The time that the mission asked for in `not-before`, wall seconds."""
        data = _read(self.fd, "not-before")
        if data is None:
            return None
        return seconds_of(data.decode("utf-8", "replace").strip())

    def keep_entry(self, queue_fd: int, name: str) -> None:
        """Keep the entry that was claimed as `name`: by a second name of the file, by a copy where links are refused.

        A run without it is as good as any, so a full disk is no reason to stop.
        """
        try:
            os.link(name, ENTRY, src_dir_fd=queue_fd, dst_dir_fd=self.fd, follow_symlinks=False)
        except OSError:
            with contextlib.suppress(OSError, Unreadable):
                if (found := read_regular(name, dir_fd=queue_fd, limit=ENTRY_LIMIT)) is not None:
                    atomic.write_new(self.fd, ENTRY, found.data, sync=False)

    def kept_entry(self) -> bytes | None:
        """The entry that was kept, as somebody may have changed it since: its signature tells."""
        return _read(self.fd, ENTRY, ENTRY_LIMIT)

    def open_for_writing(self, name: str) -> int:
        """A descriptor that appends to a file of the run, made with mode 0600."""
        flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
        fd = os.open(name, flags, 0o600, dir_fd=self.fd)
        if is_shared(self.fd):
            os.fchmod(fd, mode_in(self.fd, 0o600))
        return fd

    def sync(self) -> None:
        """Make the record, if there is one, and the folders above it survive a power cut."""
        with contextlib.suppress(FileNotFoundError):
            record = os.open(RUN, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=self.fd)
            try:
                os.fsync(record)
            finally:
                os.close(record)
        atomic.sync_folder(self.fd)
        self._sync_above()

    def _sync_above(self) -> None:
        for depth in range(1, self.above + 1):
            fd = open_folder("/".join([".."] * depth), dir_fd=self.fd)
            try:
                atomic.sync_folder(fd)
            finally:
                os.close(fd)

    def discard(self) -> None:
        """Remove the folder of a try that came to nothing before anything ran."""
        with contextlib.suppress(OSError):
            for name in os.listdir(self.fd):
                os.unlink(name, dir_fd=self.fd)
            os.rmdir(self.path)

    def close(self) -> None:
        """Close the descriptor."""
        with contextlib.suppress(OSError):
            os.close(self.fd)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _read(fd: int, name: str, limit: int = _LIMIT) -> bytes | None:
    try:
        found = read_regular(name, dir_fd=fd, limit=limit)
    except Unreadable as fault:
        if fault.lacking is not None:
            raise fault.lacking from None  # else an end that is there would be none, and a wish that is not there one
        return b"" if name in {CANCEL, RETURN} else None
    except OSError as fault:
        if fault.errno in GONE:
            return None
        raise
    if found is None or not counts(found.stat, fd):
        return None
    return found.data
