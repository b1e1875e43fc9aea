"""The user's key for signatures of webhooks: one small file in the state directory that only its owner may read.

In the form of Standard Webhooks, `whsec_` and the secret in base64, so a receiver's library takes it as it is.
"""

from __future__ import annotations

import base64
import os

from kranzq.disk.atomic import publish, replace, store_fault
from kranzq.trust.key import SECRET_BYTES, open_private, read_own

PREFIX = "whsec_"
FOLDER, NAME = "hooks", "key"
_NOT_PRIVATE = 0o077


class SigningKey:
    """The key below one state directory."""

    def __init__(self, state: str) -> None:
        self.path = f"{state}/{FOLDER}/{NAME}"
        self._state = state

    def make(self) -> str:
        """The key, made on first use; of two processes that make it at once both get the same one.

        Raises Refused when what is there is no file of ours alone, StoreUnavailable when the disk takes none.
        """
        fd = open_private(self._state, FOLDER, make=True)
        assert fd is not None
        try:
            if (seen := self._read(fd)) is None:
                try:
                    publish(fd, NAME, _new())
                except FileExistsError:
                    pass  # another process was faster
                except OSError as fault:
                    raise store_fault(self.path, fault) from fault
                seen = self._read(fd)
            return seen or ""
        finally:
            os.close(fd)

    def renew(self) -> str:
        """Another key in the place of the old one, whatever that was. Raises as `make` does."""
        fd = open_private(self._state, FOLDER, make=True)
        assert fd is not None
        try:
            replace(fd, NAME, _new(), sync=True)
            return self._read(fd) or ""
        except OSError as fault:
            raise store_fault(self.path, fault) from fault
        finally:
            os.close(fd)

    def _read(self, fd: int) -> str | None:
        content = read_own(fd, self.path, _NOT_PRIVATE, "600")
        return None if content is None else content.data.decode("ascii", "replace").strip()


def _new() -> bytes:
    return f"{PREFIX}{base64.b64encode(os.urandom(SECRET_BYTES)).decode()}\n".encode()
