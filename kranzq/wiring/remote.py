"""A kranzq server in the place of a store of this machine: its address and the caller's token in, an open store out.

The address is `--server` or `KRANZQ_SERVER`. The token lies in the file that `KRANZQ_TOKEN_FILE` names, or in
`KRANZQ_TOKEN`; it is never a word of a command line.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from kranzq.errors import MissingPackage, Refused, UsageFault

if TYPE_CHECKING:
    from kranzq.client.remote import RemoteStore
    from kranzq.client.remote_missions import RemoteMissions
    from kranzq.client.sending import Client

SERVER, TOKEN_FILE, TOKEN = "KRANZQ_SERVER", "KRANZQ_TOKEN_FILE", "KRANZQ_TOKEN"
_OTHERS = 0o077


def server_of(environ: Mapping[str, str], named: str | None, url: str | None) -> str | None:
    """The server that is meant; None: this machine's store. A database that is named goes before the variable.

    Raises UsageFault where both are named.
    """
    if named is not None and url is not None:
        raise UsageFault("--server and --url exclude each other.", "A server has its own database.")
    return named or (None if url is not None else environ.get(SERVER, "").strip() or None)


def open_server(server: str, environ: Mapping[str, str], tell: Callable[[str], None] | None = None) -> Client:
    """A client of the server, with the caller's token; `tell` hears when a call is repeated. Nothing is sent yet.

    Raises UsageFault, Refused.
    """
    try:
        from kranzq.client.sending import Client
    except ModuleNotFoundError as fault:
        if (fault.name or "").partition(".")[0] == "kranzq":
            raise
        raise MissingPackage("A server", str(fault.name), "client") from fault
    return Client(server, token_of(environ), tell=tell)


def open_remote(server: str, environ: Mapping[str, str], tell: Callable[[str], None] | None = None) -> RemoteStore:
    """Its work queue and presence, likewise."""
    client = open_server(server, environ, tell)
    from kranzq.client.remote import RemoteStore

    return RemoteStore(client)


def open_missions(
    server: str, environ: Mapping[str, str], tell: Callable[[str], None] | None = None, *, waits: bool = True
) -> RemoteMissions:
    """The missions of the checkout in which it was started, likewise; not `waits`: while it is away, say so at once."""
    client = open_server(server, environ, tell)
    if not waits:
        client.patience_s = 0.0
    from kranzq.client.remote_missions import RemoteMissions

    return RemoteMissions(client)


def token_of(environ: Mapping[str, str]) -> str | None:
    """The caller's token; None where none is given, as for a Unix socket. Raises UsageFault, Refused."""
    path = environ.get(TOKEN_FILE, "")
    if not path:
        return environ.get(TOKEN) or None
    from kranzq.disk.read import Unreadable, read_regular

    try:
        found = read_regular(path)
    except Unreadable as fault:
        raise UsageFault(f"The token file {path} cannot be read: {fault.why}.", f"Look at ${TOKEN_FILE}.") from fault
    if found is None:
        raise UsageFault(f"There is no token file {path}.", f"Look at ${TOKEN_FILE}.")
    if found.stat.st_mode & _OTHERS:
        raise Refused(f"The token file {path} may be read by others.", f"Type: chmod 600 {path}")
    token = found.data.decode("utf-8", "replace").removesuffix("\n").removesuffix("\r")
    if not token.strip():
        raise UsageFault(
            f"The token file {path} is blank.", "Put a token into it, or get one: kranzq agent rotate NAME"
        )
    return token
