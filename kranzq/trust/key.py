"""The user's signing keys, outside any checkout: `$XDG_STATE_HOME/kranzq/keys/<key id>.key`, and `current`.

Only enqueue and `trust` make or rotate a key; whoever verifies only reads. A key is on disk, synced, before anything
can be signed with it, and stays after a rotation, so what was signed once can be verified as long as the file is there.
A key file that others could read or could have put there is refused with the cure.
"""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Mapping
from dataclasses import field

from kranzq.disk.atomic import make_folder, publish, remove, replace, store_fault
from kranzq.disk.read import GONE, LACKING, Content, Unreadable, open_folder, read_regular
from kranzq.errors import BadSetting, KranzqError, Refused, StoreUnavailable, UnsafePath
from kranzq.model.frozen import frozen

SECRET_BYTES = 32
_CURRENT = "current"
_TRIES = 5
_KEY_ID = re.compile(r"[0-9a-f]{16}", re.ASCII)
_PRIVATE = 0o700
_NOT_PRIVATE = 0o077
_WRITABLE_BY_OTHERS = 0o022


@frozen
class Key:
    """One secret and its public short name. The secret is in no repr, so no log and no traceback shows it."""

    id: str
    secret: bytes = field(repr=False)

    @classmethod
    def of(cls, secret: bytes) -> Key:
        """The key of a secret. Its id is derived through a hash, so it names the secret and reveals nothing of it."""
        import hashlib  # noqa: PLC0415 - with OpenSSL it costs 4 ms; a look at nothing signed needs none

        return cls(hashlib.sha256(b"kranzq key id\0" + secret).hexdigest()[:16], secret)


def base_dir(environ: Mapping[str, str], variable: str, below_home: str) -> str:
    """An XDG base directory. A relative one counts as not set, as the XDG specification demands."""
    named = environ.get(variable, "")
    return named.rstrip("/") if named.startswith("/") else f"{_home(environ)}/{below_home}"


def state_dir(environ: Mapping[str, str]) -> str:
    """Where keys and approvals lie: `$XDG_STATE_HOME/kranzq`, else `~/.local/state/kranzq`. Makes nothing."""
    return base_dir(environ, "XDG_STATE_HOME", ".local/state") + "/kranzq"


def is_key_id(text: str) -> bool:
    """Whether `text` has the form of a key id, and so may become part of a path."""
    return _KEY_ID.fullmatch(text) is not None


def open_private(state: str, name: str, *, make: bool) -> int | None:
    """A descriptor of the folder `name` in the state directory, or None when it is missing and not to be made.

    Raises Refused when it is a link, another user's, or others may write in it.
    """
    path = f"{state}/{name}"
    if make:
        _make_private(state, path)
    try:
        fd = open_folder(path)
    except OSError as fault:
        if fault.errno in GONE and not os.path.lexists(path):
            return None
        unsafe = UnsafePath(path, f"it cannot be opened as a directory: {fault.strerror}")
        raise (store_fault(path, fault) if fault.errno in LACKING else unsafe) from fault
    try:
        _check_owner(path, os.fstat(fd), _WRITABLE_BY_OTHERS, "go-w")
    except Refused:
        os.close(fd)
        raise
    return fd


def read_own(dir_fd: int, path: str, forbidden_mode: int, cure: str) -> Content | None:
    """A small file of ours, `path` in the open folder, or None when it is missing.

    Raises Refused for a link or anything else not regular, another user's file, or one with a bit of `forbidden_mode`
    (`cure` is what chmod must be told).
    """
    try:
        content = read_regular(os.path.basename(path), dir_fd=dir_fd)
    except Unreadable as fault:  # for want of descriptors nobody should mend or remove a good key
        raise (store_fault(path, fault.lacking) if fault.lacking else UnsafePath(path, fault.why)) from fault
    if content is not None:
        _check_owner(path, content.stat, forbidden_mode, cure)
    return content


@frozen
class KeySeen:
    """One key that lies there, for people: `since` is wall seconds; `fault` says why it cannot be used."""

    id: str
    since: float
    current: bool
    fault: str = ""


class Keyring:
    """The keys of one user below a state directory."""

    def __init__(self, state: str) -> None:
        self._state = state
        self._path = f"{state}/keys"

    def find(self, key_id: str) -> Key | None:
        """The key with this id, or None. Raises Refused when its file is not safe. Changes nothing on disk."""
        with contextlib.ExitStack() as stack:
            fd = self._open(stack, make=False)
            return None if fd is None else self._read(fd, key_id)

    def find_current(self) -> Key | None:
        """The key that `current` would use, or None when one would be made. Changes nothing on disk."""
        with contextlib.ExitStack() as stack:
            fd = self._open(stack, make=False)
            named = None if fd is None else self._read_pointer(fd)
            return None if fd is None or named is None else self._read(fd, named)

    def seen(self) -> list[KeySeen]:
        """All keys, the current one first, then the newest. Raises Refused for a folder or pointer that is not safe."""
        with contextlib.ExitStack() as stack:
            fd = self._open(stack, make=False)
            if fd is None:
                return []
            named = self._read_pointer(fd)
            found = [self._seen(fd, name.removesuffix(".key"), named) for name in os.listdir(fd) if _is_key_file(name)]
            return sorted(found, key=lambda key: (not key.current, -key.since, key.id))

    def _seen(self, fd: int, key_id: str, current: str | None) -> KeySeen:
        since = os.stat(f"{key_id}.key", dir_fd=fd, follow_symlinks=False).st_mtime
        try:
            self._read(fd, key_id)
        except Refused as fault:
            return KeySeen(key_id, since, key_id == current, fault.sentence.rstrip("."))
        return KeySeen(key_id, since, key_id == current)

    def current(self) -> Key:
        """The key to sign with, made on first use. Of two processes that make the first one, both use the winner's."""
        with contextlib.ExitStack() as stack:
            fd = self._open(stack, make=True)
            assert fd is not None
            for _ in range(_TRIES):
                named = self._read_pointer(fd)
                key = self._make_first(fd) if named is None else self._read(fd, named) or self._make_next(fd)
                if key is not None:
                    return key
        raise StoreUnavailable(f"{self._path}/{_CURRENT}", "other processes change it all the time")

    def rotate(self) -> Key:
        """Make a new key the current one. Older ones still verify; remove a key's file to end that."""
        with contextlib.ExitStack() as stack:
            fd = self._open(stack, make=True)
            assert fd is not None
            return self._make_next(fd)

    def _open(self, stack: contextlib.ExitStack, *, make: bool) -> int | None:
        fd = open_private(self._state, "keys", make=make)
        if fd is not None:
            stack.callback(os.close, fd)
        return fd

    def _make_first(self, fd: int) -> Key | None:
        """A new current key, or None when another process was faster."""
        key = self._write_key(fd)
        try:
            publish(fd, _CURRENT, f"{key.id}\n".encode())
        except FileExistsError:
            with contextlib.suppress(OSError):
                remove(fd, f"{key.id}.key")  # nothing was signed with it
            return None
        except OSError as fault:
            raise store_fault(f"{self._path}/{_CURRENT}", fault) from fault
        return key

    def _make_next(self, fd: int) -> Key:
        """A new current key in the place of one that is rotated out, or whose file somebody removed."""
        key = self._write_key(fd)
        try:
            replace(fd, _CURRENT, f"{key.id}\n".encode(), sync=True)
        except OSError as fault:
            raise store_fault(f"{self._path}/{_CURRENT}", fault) from fault
        return key

    def _write_key(self, fd: int) -> Key:
        key = Key.of(os.urandom(SECRET_BYTES))
        name = f"{key.id}.key"
        try:
            publish(fd, name, f"{key.secret.hex()}\n".encode())
        except OSError as fault:
            raise store_fault(f"{self._path}/{name}", fault) from fault
        return key

    def _read_pointer(self, fd: int) -> str | None:
        path = f"{self._path}/{_CURRENT}"
        content = read_own(fd, path, _NOT_PRIVATE, "600")
        if content is None:
            return None
        key_id = content.data.decode("ascii", "replace").strip()
        if not is_key_id(key_id):
            raise Refused(f"{path} names no key.", "Remove it; the next enqueue makes a new key.")
        return key_id

    def _read(self, fd: int, key_id: str) -> Key | None:
        if not is_key_id(key_id):
            return None
        path = f"{self._path}/{key_id}.key"
        content = read_own(fd, path, _NOT_PRIVATE, "600")
        if content is None:
            return None
        try:
            key = Key.of(bytes.fromhex(content.data.decode("ascii").strip()))
        except ValueError as fault:
            raise _no_key(path) from fault
        if len(key.secret) != SECRET_BYTES or key.id != key_id:
            raise _no_key(path)
        return key


def _is_key_file(name: str) -> bool:
    return name.endswith(".key") and is_key_id(name.removesuffix(".key"))


def _no_key(path: str) -> KranzqError:
    return Refused(
        f"{path} does not hold the key that its name says.",
        "Restore it from a backup, or remove it and enqueue again what it signed.",
    )


def _home(environ: Mapping[str, str]) -> str:
    home = environ.get("HOME", "")
    if not home:  # services of the system often have none
        import pwd  # noqa: PLC0415 - only then is the user database asked

        with contextlib.suppress(KeyError):
            home = pwd.getpwuid(os.geteuid()).pw_dir
    if not home.startswith("/"):
        raise BadSetting("environment", "HOME", "is no absolute path", "Set HOME to your home directory.")
    return home.rstrip("/")


def _check_owner(path: str, seen: os.stat_result, forbidden_mode: int, cure: str) -> None:
    if seen.st_uid != os.geteuid():
        raise Refused(
            f"{path} is refused: it belongs to user {seen.st_uid}, and this process runs as {os.geteuid()}.",
            "Run kranzq as its owner, or set XDG_STATE_HOME to a directory of your own.",
        )
    if seen.st_mode & forbidden_mode:
        what = "write in" if forbidden_mode == _WRITABLE_BY_OTHERS else "read or write"
        raise Refused(f"{path} is refused: other users may {what} it.", f"If they did not, type: chmod {cure} {path}")


_synced: set[tuple[str, int, int] | None] = set()
"""Folders whose names this process has synced, by path, device and inode: once, not at each signature."""


def _make_private(state: str, path: str) -> None:
    """Make the folder and the state directory. The last two names are synced even if another process made them."""
    if (there := _identity(path)) is not None and there in _synced:
        return
    try:
        _make_missing(os.path.dirname(state))
        _make_synced(state)
        _make_synced(path)
    except OSError as fault:
        raise store_fault(path, fault) from fault
    _synced.add(_identity(path))


def _identity(path: str) -> tuple[str, int, int] | None:
    with contextlib.suppress(OSError):
        seen = os.stat(path, follow_symlinks=False)
        return path, seen.st_dev, seen.st_ino
    return None


def _make_missing(path: str) -> None:
    if not os.path.isdir(path):
        _make_missing(os.path.dirname(path))
        _make_synced(path)


def _make_synced(path: str) -> None:
    """Make one directory where it is missing, 0700 as the XDG specification demands, and sync its name."""
    parent = os.open(os.path.dirname(path), os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        if not make_folder(os.path.basename(path), dir_fd=parent, mode=_PRIVATE):
            os.fsync(parent)
    finally:
        os.close(parent)
