"""Where a server is: `http` or `https` with a host, or `unix:/path/to/socket`. No token is ever part of it."""

from __future__ import annotations

from urllib.parse import urlsplit

from kranzq.errors import UsageFault
from kranzq.model.frozen import frozen

FORMS = "Write http://localhost:8787, https://queue.example.org, or unix:/path/to/socket."
_UNIX = "unix:"
_MOST_SHOWN = 200


@frozen
class Address:
    """A server. `base` is the URL that paths are put behind, `socket` the Unix socket where there is one."""

    base: str
    socket: str | None = None

    @classmethod
    def parse(cls, text: str) -> Address:
        """The address that a text means. Raises UsageFault; a password or token in it is not repeated."""
        if text.startswith(_UNIX):
            path = text.removeprefix(_UNIX)
            path = path.removeprefix("//") if path.startswith("///") else path
            if not path.startswith("/") or "\0" in path:
                raise UsageFault(f"{text[:_MOST_SHOWN]!r} names no absolute path of a Unix socket.", FORMS)
            return cls("http://localhost", path)
        try:
            parts = urlsplit(text)
            host, port = parts.hostname, parts.port
        except ValueError:
            host, port, parts = None, None, urlsplit("")
        if parts.username is not None or parts.password is not None or parts.query or parts.fragment:
            raise UsageFault(
                "The address of the server has more in it than a host and a path.",
                f"{FORMS} A token goes into a file that KRANZQ_TOKEN_FILE names.",
            )
        if parts.scheme not in {"http", "https"} or not host or not text.isprintable() or " " in text:
            raise UsageFault(f"{text[:_MOST_SHOWN]!r} is no address of a server.", FORMS)
        name = f"[{host}]" if ":" in host else host
        return cls(f"{parts.scheme}://{name}{f':{port}' if port is not None else ''}{parts.path.rstrip('/')}")

    @property
    def is_secret(self) -> bool:
        """Whether what is sent there is encrypted, or never leaves the machine by a network."""
        return self.base.startswith("https://") or self.socket is not None

    def __str__(self) -> str:
        return f"{_UNIX}{self.socket}" if self.socket is not None else self.base
