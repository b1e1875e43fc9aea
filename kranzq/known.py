"""The checkouts that a user has worked in: `$XDG_STATE_HOME/kranzq/checkouts/<hash of the path>.json`, one file each.

For looking at several at once; nothing else rests on it. A file of its own for each needs no lock: it is put there
whole, or taken away. What became of a checkout is found out by whoever looks.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os

from kranzq.disk.atomic import publish, remove, store_fault
from kranzq.errors import Refused
from kranzq.model.frozen import frozen
from kranzq.model.json_object import json_object
from kranzq.trust.key import open_private, read_own

FOLDER = "checkouts"
_WRITABLE_BY_OTHERS = 0o022
_SUFFIX = ".json"


@frozen
class KnownCheckouts:
    """The known checkouts of one user, below a state directory."""

    state: str

    def add(self, root: str) -> bool:
        """Remember a checkout by its absolute path. False when it was known. Raises Refused, StoreUnavailable."""
        with contextlib.ExitStack() as stack:
            fd = self._open(stack, make=True)
            assert fd is not None
            name = _name_of(root)
            with contextlib.suppress(FileNotFoundError):
                os.stat(name, dir_fd=fd, follow_symlinks=False)
                return False
            try:
                publish(fd, name, json.dumps({"root": root}).encode())
            except FileExistsError:
                return False
            except OSError as fault:
                raise store_fault(f"{self.state}/{FOLDER}/{name}", fault) from fault
            return True

    def remove(self, root: str) -> bool:
        """Remember a checkout no more. False when it was not known. Raises Refused, StoreUnavailable."""
        with contextlib.ExitStack() as stack:
            fd = self._open(stack, make=False)
            if fd is None:
                return False
            try:
                return remove(fd, _name_of(root))
            except OSError as fault:
                raise store_fault(f"{self.state}/{FOLDER}/{_name_of(root)}", fault) from fault

    def roots(self) -> list[str]:
        """Their paths, in order. A file that says nothing usable is passed over. Raises Refused where all is unsafe."""
        with contextlib.ExitStack() as stack:
            fd = self._open(stack, make=False)
            names = [] if fd is None else [name for name in os.listdir(fd) if name.endswith(_SUFFIX)]
            found = {root for name in names if (root := self._read(fd or 0, name)) is not None}
            return sorted(found)

    def _read(self, fd: int, name: str) -> str | None:
        try:
            content = read_own(fd, f"{self.state}/{FOLDER}/{name}", _WRITABLE_BY_OTHERS, "600")
        except Refused:
            return None
        value = json_object(content.data) if content is not None else None
        root = value.get("root") if value is not None else None
        return root if isinstance(root, str) and root.startswith("/") and _name_of(root) == name else None

    def _open(self, stack: contextlib.ExitStack, *, make: bool) -> int | None:
        fd = open_private(self.state, FOLDER, make=make)
        if fd is not None:
            stack.callback(os.close, fd)
        return fd


def _name_of(root: str) -> str:
    return hashlib.sha256(os.fsencode(root)).hexdigest()[:32] + _SUFFIX
