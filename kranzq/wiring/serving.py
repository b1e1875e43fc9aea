"""What a server needs of this machine: the folder of its socket."""

from __future__ import annotations

import os
from collections.abc import Mapping

FOLDER, SOCKET = "server", "kranzq.sock"


def default_socket(environ: Mapping[str, str]) -> str:
    """Where a server of this user listens if nothing else is said. Makes nothing."""
    from kranzq.trust.key import state_dir

    return f"{state_dir(environ)}/{FOLDER}/{SOCKET}"


def make_socket_folder(environ: Mapping[str, str]) -> None:
    """Make the folder of the default socket, for this user alone. Raises Refused when it is another's, or a link."""
    from kranzq.trust.key import open_private, state_dir

    fd = open_private(state_dir(environ), FOLDER, make=True)
    assert fd is not None
    try:
        os.fchmod(fd, 0o700)
    finally:
        os.close(fd)
