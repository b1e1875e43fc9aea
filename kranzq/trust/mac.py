"""Signatures of entries: what enqueue puts on an entry, and what becomes of it on the way through a checkout.

Covered is all that decides what is executed, where and after what; not priority, number and due time, which a rename
may change. Between signing and verifying the entry lies in a directory where anybody may have written.
"""

from __future__ import annotations

import enum
from collections.abc import Sequence
from dataclasses import replace
from typing import Protocol

from kranzq.errors import Refused
from kranzq.model.entry import Entry, Own
from kranzq.trust.key import Key, is_key_id

_FORMAT = "kranzq entry 1"


class Signature(enum.Enum):
    """What verifying an entry found."""

    VALID = "valid"
    MOVED = "moved"
    """Signed by this user for another path: the checkout was moved or copied."""
    UNKNOWN_KEY = "unknown key"
    """Signed with a key that this user does not have."""
    WRONG = "wrong"
    """Changed after it was signed, or never signed by that key."""
    UNSIGNED = "unsigned"


class Keys(Protocol):
    """Where verifying looks for a key."""

    def find(self, key_id: str) -> Key | None:
        """The key with this id, or None."""
        ...


def sign(entry: Entry, root: str, key: Key) -> Entry:
    """The entry, signed for the checkout at the canonical path `root`. It must have fields of ours (an id) already."""
    own = entry.own
    assert own is not None
    own = replace(own, repo=root, key=key.id, mac="")
    return replace(entry, own=replace(own, mac=_mac(entry, own, key)))


def is_unsigned(entry: Entry) -> bool:
    """Whether nobody has signed the entry; no key is asked."""
    return entry.own is None or not entry.own.mac


def verify(entry: Entry, root: str, keys: Keys) -> Signature:
    """What the signature is worth in the checkout at the canonical path `root`."""
    own = entry.own
    if own is None or is_unsigned(entry):
        return Signature.UNSIGNED
    if not is_key_id(own.key):
        return Signature.WRONG
    key = keys.find(own.key)
    if key is None:
        return Signature.UNKNOWN_KEY
    import hmac  # noqa: PLC0415 - what is not signed needs none

    if not hmac.compare_digest(_mac(entry, own, key).encode(), _bytes(own.mac)):
        return Signature.WRONG
    return Signature.VALID if own.repo == root else Signature.MOVED


def resign(entry: Entry, root: str, key: Key, keys: Keys) -> Entry:
    """An entry that came along with a moved checkout, signed anew for `root`. Raises Refused for any other."""
    found = verify(entry, root, keys)
    if found is not Signature.MOVED:
        raise Refused(
            f"Mission {entry.mission} is not signed anew: its signature is not that of a moved entry ({found.value}).",
            f"See what holds it up: kranzq why {entry.mission}",
        )
    return sign(entry, root, key)


def _mac(entry: Entry, own: Own, key: Key) -> str:
    import hmac  # noqa: PLC0415 - as above

    return hmac.digest(key.secret, _message(entry, own), "sha256").hex()


def _message(entry: Entry, own: Own) -> bytes:
    """Each field with its length before it, each list with its count, so no byte can change its field."""
    pairs = [text for pair in sorted(own.env.items()) for text in pair]
    timeout = "" if own.timeout_seconds is None else float(own.timeout_seconds).hex()
    fields = [_FORMAT, own.repo, own.id, entry.mission]
    fields += [*_counted(own.command), timeout, *_counted(pairs), own.cwd, *_counted(own.after)]
    parts: list[bytes] = []
    for text in fields:
        data = _bytes(text)
        parts += (len(data).to_bytes(8, "big"), data)
    return b"".join(parts)


def _counted(texts: Sequence[str]) -> list[str]:
    return [str(len(texts)), *texts]


def _bytes(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")  # JSON can carry lone surrogates; each has bytes of its own here
