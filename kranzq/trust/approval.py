"""What a person has allowed for a checkout, recorded outside it: `$XDG_STATE_HOME/kranzq/trust/<sha256 of root>.json`.

Nothing is allowed until a record says so. A record that is a link, another user's, writable by others, broken, or
about another path counts for nothing. Keys of a record that this version does not know are kept.
"""

from __future__ import annotations

import contextlib
import json
import os

from kranzq.disk.atomic import replace, store_fault
from kranzq.errors import Refused
from kranzq.model.clock import Clock, SystemClock, rfc3339
from kranzq.trust.key import open_private, read_own

_WRITABLE_BY_OTHERS = 0o022


class Approvals:
    """The approvals of one user, by the canonical path of the checkout."""

    def __init__(self, state: str, clock: Clock | None = None) -> None:
        self._state = state
        self._clock: Clock = clock or SystemClock()

    def unsigned(self, root: str) -> bool:
        """Whether unsigned entries of this checkout may run. Changes nothing on disk."""
        return self._read(root).get("unsigned") is True

    def allow_unsigned(self, root: str) -> None:
        """Let unsigned entries of this checkout run, from now on. Durable when it returns."""
        self._write(root, {"unsigned": True, "unsignedAt": rfc3339(self._clock.now())})

    def withdraw_unsigned(self, root: str) -> bool:
        """Let them wait again; False when they were not allowed. Durable when it returns."""
        if not self.unsigned(root):
            return False
        self._write(root, {"unsigned": False, "unsignedAt": rfc3339(self._clock.now())})
        return True

    def settings(self, root: str) -> tuple[str, str]:
        """The digest of the settings that were allowed here, and when; two empty texts for none."""
        record = self._read(root)
        digest, since = record.get("settings"), record.get("settingsAt")
        return digest if isinstance(digest, str) else "", since if isinstance(since, str) else ""

    def allow_settings(self, root: str, digest: str) -> None:
        """Let settings with exactly this digest count, from now on. Durable when it returns."""
        self._write(root, {"settings": digest, "settingsAt": rfc3339(self._clock.now())})

    def withdraw_settings(self, root: str) -> bool:
        """Let no settings of the checkout count; False when none were allowed. Durable when it returns."""
        if not self.settings(root)[0]:
            return False
        self._write(root, {"settings": "", "settingsAt": rfc3339(self._clock.now())})
        return True

    def stamp(self, root: str) -> tuple[int, int] | None:
        """What changes whenever the record does; None where there is none."""
        try:
            seen = os.stat(self._path(root), follow_symlinks=False)
        except OSError:
            return None
        return seen.st_ino, seen.st_mtime_ns

    def _read(self, root: str) -> dict[str, object]:
        with contextlib.ExitStack() as stack:
            try:
                fd = open_private(self._state, "trust", make=False)
                if fd is None:
                    return {}
                stack.callback(os.close, fd)
                content = read_own(fd, self._path(root), _WRITABLE_BY_OTHERS, "600")
                record = {} if content is None else _object(content.data)
            except Refused:
                return {}
        return record if record.get("root") == root else {}

    def _write(self, root: str, changes: dict[str, object]) -> None:
        path = self._path(root)
        record = {"root": root} | self._read(root) | changes
        fd = open_private(self._state, "trust", make=True)
        assert fd is not None
        try:
            replace(fd, os.path.basename(path), json.dumps(record, indent=2).encode(), sync=True)
        except OSError as fault:
            raise store_fault(path, fault) from fault
        finally:
            os.close(fd)

    def _path(self, root: str) -> str:
        import hashlib  # noqa: PLC0415 - it costs 4 ms, and most looks need no approval

        name = hashlib.sha256(os.fsencode(root)).hexdigest()
        return f"{self._state}/trust/{name}.json"


def _object(data: bytes) -> dict[str, object]:
    """The record in a file's bytes; a path that is no UTF-8 stands in it as half characters, unlike in an entry."""
    try:
        value = json.loads(data)
    except (ValueError, RecursionError):
        return {}
    return value if isinstance(value, dict) else {}
