"""The server's own words: lines on stderr, of which none holds a token."""

from __future__ import annotations

import secrets
import sys
import time
import traceback

from kranzq.model.tokens import without_tokens


def tell(text: str) -> None:
    """One line for the log; a reader that went away stops nobody."""
    try:
        sys.stderr.write(f"{time.strftime('%H:%M:%S')} {without_tokens(text)}\n")
        sys.stderr.flush()
    except OSError:
        pass


def tell_fault(where: str, fault: BaseException) -> str:
    """A fault that nobody expected, with its traceback; the id under which it stands in the log."""
    name = secrets.token_hex(4)
    tell(f"fault {name} in {where}\n{''.join(traceback.format_exception(fault))}")
    return name
