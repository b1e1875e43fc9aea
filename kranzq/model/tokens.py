"""Tokens: the secrets by which a server knows an agent or the operator, recognisable wherever they turn up.

A token never stands in a repr, an error or a log. Imported where speed counts, so it loads nothing before it is used.
"""

from __future__ import annotations

import re

AGENT_PREFIX, OPERATOR_PREFIX = "kqa_", "kqo_"
"""By which a token is known: an agent's, and the operator's key."""
_RANDOM_BYTES = 32
_RANDOM = re.compile(r"[A-Za-z0-9_-]{43}")
_TOKEN = re.compile(r"(kq[ao]_)[A-Za-z0-9_-]{43}")


def new_token(prefix: str = AGENT_PREFIX) -> str:
    """A new token: 256 random bits, 43 url-safe characters behind its prefix."""
    import secrets  # noqa: PLC0415 - its imports cost more than all of this module

    return prefix + secrets.token_urlsafe(_RANDOM_BYTES)


def token_hash(text: str) -> str:
    """What is kept of a token. Its 256 bits are random, so that a plain hash cannot be guessed backwards."""
    import hashlib  # noqa: PLC0415 - as above

    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def is_token(text: str, prefix: str = AGENT_PREFIX) -> bool:
    """Whether a text has the form of a token with that prefix."""
    return text.startswith(prefix) and _RANDOM.fullmatch(text, len(prefix)) is not None


def has_token(text: str) -> bool:
    """Whether a token of anybody stands somewhere in a text."""
    return _TOKEN.search(text) is not None


def without_tokens(text: str) -> str:
    """A text of somebody else's making, such as what was typed, with the tokens in it hidden."""
    return _TOKEN.sub(r"\1***", text)
