"""The URL of a database: what it may look like, and how it is shown. A password in it is never in any output."""

from __future__ import annotations

import re
from dataclasses import dataclass
from urllib.parse import unquote

FORMS = "Write sqlite:///absolute/path or postgresql://user@host/database."
_SECRET_KEYS = frozenset({"password", "sslpassword"})
_PORT = re.compile(r"[0-9]*(?:$|[/?,])")
_IN_TEXT = re.compile(r"(://[^\s:/@\"']*):[^\s\"']*@")
_HIDDEN = "***"


@dataclass(frozen=True, slots=True, repr=False)
class DatabaseUrl:
    """A URL that was checked. `text` is for whoever connects; `str` and `repr` show it without its password."""

    text: str

    @classmethod
    def parse(cls, text: str) -> DatabaseUrl:
        """The URL that `text` is. Raises ValueError with half a sentence, which shows no password."""
        scheme, mark, rest = text.partition("://")
        if not mark or scheme not in {"sqlite", "postgresql", "postgres"} or not rest or "\0" in text:
            raise ValueError(f"must be sqlite:///path or postgresql://user@host/name, not {shown(text)!r:.200}")
        path = rest.removeprefix("/") if rest.startswith("//") else rest
        if scheme == "sqlite" and (not path.startswith("/") or path.endswith("/")):
            raise ValueError(f"names no absolute path of a SQLite file: {shown(text)!r:.200}")
        return cls(text)

    @property
    def has_password(self) -> bool:
        """Whether a secret stands in it."""
        return has_password(self.text)

    @property
    def sqlite_path(self) -> str | None:
        """The file that it names, None for a server."""
        scheme, _, rest = self.text.partition("://")
        if scheme != "sqlite":
            return None
        return rest.removeprefix("/") if rest.startswith("//") else rest

    def __str__(self) -> str:
        return shown(self.text)

    def __repr__(self) -> str:
        return repr(shown(self.text))


def has_password(url: str) -> bool:
    """Whether a secret stands in a URL, also in one that is written wrongly."""
    return shown(url) != url


def shown(url: str) -> str:
    """A URL that may be printed. Where it is written wrongly, rather too much of it is hidden than too little."""
    scheme, mark, rest = url.partition("://")
    if not mark or scheme == "sqlite":
        return url
    body, question, query = rest.partition("?")
    head, at, place = body.rpartition("@")
    user, colon, secret = head.partition(":")
    if at and colon and secret:
        body = f"{user}:{_HIDDEN}@{place}"
    elif not at and "@" in query and (rough := body.partition(":"))[1] and _PORT.match(rough[2]) is None:
        return f"{scheme}://{rough[0]}:{_HIDDEN}"  # a question mark in the password
    parts = [_part(one) for one in query.split("&")]
    return f"{scheme}://{body}{question}{'&'.join(parts)}"


def stripped(url: str) -> str | None:
    """A URL without its password, for whoever may know the database and not the secret; None where it is unclear."""
    if not has_password(url):
        return url
    told = re.sub(rf":{re.escape(_HIDDEN)}@", "@", shown(url), count=1)
    told = re.sub(rf"[^?&]*={re.escape(_HIDDEN)}(&|$)", "", told).rstrip("?&")
    return None if _HIDDEN in told else told


def without_passwords(text: str) -> str:
    """A text of somebody else's making, such as a settings file, with the passwords of URLs in it hidden."""
    return _IN_TEXT.sub(rf"\1:{_HIDDEN}@", text)


def _part(text: str) -> str:
    key, mark, value = text.partition("=")
    return f"{key}={_HIDDEN}" if mark and value and unquote(key).strip().lower() in _SECRET_KEYS else text
