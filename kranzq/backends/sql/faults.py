"""What PostgreSQL's faults mean for a call: try again, wait, or tell the operator, in words and without a password."""

from __future__ import annotations

import psycopg

from kranzq.errors import KranzqError, StoreLocked, StoreUnavailable, StoreUnreachable

_CLASHES = frozenset({"40001", "40P01"})
"""Serialization failure, deadlock: the transaction was undone, and is to be run again."""
_STARTING, _READ_ONLY = "57P03", "25006"
_ENDED = frozenset({"57P01", "57P02", "57P05", "25P03", "25P04", _STARTING, _READ_ONLY})
"""The server ends the session, or is one that takes no writes: after a failover another connection may do better."""
_WAITED = frozenset({"55P03", "57014"})
"""Lock not available, query cancelled: what our own time limits lead to."""
_STARTS = ("starting up", "shutting down", "in recovery mode", "not yet accepting")
_IS_FULL = ("too many clients", "too many connections", "connection slots")
_REFUSED = "FATAL:"
_QUESTION = "Is the server running"
"""The driver asks this below each refused connection; our own advice stands there already."""
_NO_SCHEMA = frozenset({"42P01", "42883", "3F000"})
_RIGHTS = "Let the database's owner grant what is missing; docs/howto/use-postgres.md lists it."


def is_clash(fault: psycopg.Error) -> bool:
    """Whether two transactions were in each other's way and this one was undone."""
    return fault.sqlstate in _CLASHES


def is_lost(fault: psycopg.Error, *, closed: bool) -> bool:
    """Whether the connection is gone, or of no use any more; what was asked may have been done."""
    state = fault.sqlstate or ""
    return state in _ENDED or state.startswith("08") or (closed and isinstance(fault, psycopg.OperationalError))


def comes_back(fault: psycopg.OperationalError, *, was_there: bool) -> bool:
    """Whether a connection that was refused may soon be had: the server starts or is full, or was there before.

    The driver tells nothing but a text here. One in another language is taken for a refusal, and told at once.
    """
    text = str(fault)
    return any(phrase in text for phrase in (*_STARTS, *_IS_FULL)) or (was_there and _REFUSED not in text)


def named(fault: psycopg.Error, where: str, patience_s: float) -> KranzqError:
    """Our own error for one of PostgreSQL's."""
    state = fault.sqlstate or ""
    if state in _WAITED or state in _CLASHES:
        return StoreLocked(where, patience_s, "others", "Try again; see who waits for whom in pg_stat_activity.")
    if state == "53100":
        return StoreUnavailable(where, "the server's disk is full")
    if state.startswith("58"):
        return StoreUnavailable(where, f"the server reports an error of its disk ({in_words(fault)})")
    if state == _READ_ONLY:
        return StoreUnreachable(where, "it takes no writes (a standby?)", "Name the primary server, or wait for it.")
    if state == "42501":
        return StoreUnreachable(where, in_words(fault), _RIGHTS)
    if state in _NO_SCHEMA:
        return StoreUnreachable(where, f"its schema is not there ({in_words(fault)})", "Type: kranzq schema migrate")
    if isinstance(fault, psycopg.errors._WaitTimeout):  # noqa: SLF001 - its only name
        return StoreUnreachable(where, f"no answer within {patience_s:.0f} s")
    return StoreUnreachable(where, in_words(fault))


def in_words(fault: psycopg.Error) -> str:
    """The driver's text on one line; the server never repeats a password in it."""
    text = fault.diag.message_primary or str(fault) or type(fault).__name__
    lines = [" ".join(line.split()) for line in text.removeprefix("connection failed: ").splitlines()]
    return "; ".join(line for line in lines if line and not line.startswith(_QUESTION)).rstrip(".")
