"""The system call that renames without replacing, or exchanges two names: Python offers neither."""

from __future__ import annotations

import errno
import os

from kranzq.disk.libc import last_error, libc

NOREPLACE = 1
EXCHANGE = 2


def rename2(from_fd: int, name: str, to_fd: int, new_name: str, flags: int) -> None:
    """Rename with NOREPLACE or EXCHANGE. Raises OSError as the system does; ENOSYS where there is no such call."""
    call = getattr(libc(), "renameat2", None)
    if call is None:
        raise OSError(errno.ENOSYS, os.strerror(errno.ENOSYS))
    if call(from_fd, os.fsencode(name), to_fd, os.fsencode(new_name), flags) != 0:
        code = last_error()
        raise OSError(code, os.strerror(code), name, None, new_name)


def kernel_renames(dir_fd: int) -> tuple[bool, bool]:
    """Whether the kernel refuses to replace, and exchanges two names, in one step here; tried with two new files."""
    one, other = (f".rename-{number}.{os.getpid()}.{os.urandom(4).hex()}.tmp" for number in (1, 2))
    for name in (one, other):
        os.close(os.open(name, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600, dir_fd=dir_fd))
    try:
        return _answers(dir_fd, one, other, NOREPLACE) == errno.EEXIST, _answers(dir_fd, one, other, EXCHANGE) is None
    finally:
        for name in (one, other):
            os.unlink(name, dir_fd=dir_fd)


def _answers(dir_fd: int, one: str, other: str, flag: int) -> int | None:
    try:
        rename2(dir_fd, one, dir_fd, other, flag)
    except OSError as fault:
        return fault.errno
    return None
