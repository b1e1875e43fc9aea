"""What a server needs of this machine: the folder of its socket."""

from __future__ import annotations

import os
from collections.abc import Mapping

FOLDER, SOCKET = "server", "kranzq.sock"
_PATIENCE_S = 1.0


def default_socket(environ: Mapping[str, str]) -> str:
    """Where a server of this user listens if nothing else is said. Makes nothing."""
    from kranzq.trust.key import state_dir

    return f"{state_dir(environ)}/{FOLDER}/{SOCKET}"


def listening_server(environ: Mapping[str, str]) -> tuple[str, int] | None:
    """The default socket and the process that listens there (0: it cannot be seen); None where nobody does."""
    import socket
    import struct

    path = default_socket(environ)
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as asking:
        try:
            asking.settimeout(_PATIENCE_S)
            asking.connect(path)
            peer = asking.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i"))
        except (OSError, AttributeError):  # nobody, or a system that does not tell
            return None
    return path, int(struct.unpack("3i", peer)[0])


def make_socket_folder(environ: Mapping[str, str]) -> None:
    """Make the folder of the default socket, for this user alone. Raises Refused when it is another's, or a link."""
    from kranzq.trust.key import open_private, state_dir

    fd = open_private(state_dir(environ), FOLDER, make=True)
    assert fd is not None
    try:
        os.fchmod(fd, 0o700)
    finally:
        os.close(fd)
