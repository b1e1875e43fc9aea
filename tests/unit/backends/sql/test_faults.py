"""What PostgreSQL's faults are called here: one class, one exit code and one line each."""

from __future__ import annotations

import pytest
from psycopg import OperationalError, errors

from kranzq.backends.sql.faults import comes_back, is_clash, is_lost, named
from kranzq.errors import StoreLocked, StoreUnavailable, StoreUnreachable

WHERE = "postgresql://ann@db.example/work"


@pytest.mark.parametrize(
    ("fault", "kind", "told"),
    [
        (errors.DiskFull("no space left"), StoreUnavailable, "disk is full"),
        (errors.IoError("could not read block"), StoreUnavailable, "error of its disk"),
        (errors.LockNotAvailable("timeout"), StoreLocked, "locked for 10 s"),
        (errors.QueryCanceled("timeout"), StoreLocked, "nothing was changed"),
        (errors.DeadlockDetected("deadlock"), StoreLocked, "by others"),
        (errors.ReadOnlySqlTransaction("read-only"), StoreUnreachable, "takes no writes"),
        (errors.InsufficientPrivilege("permission denied"), StoreUnreachable, "permission denied"),
        (errors.UndefinedTable("no such table"), StoreUnreachable, "schema is not there"),
        (errors.TooManyConnections("sorry, too many clients"), StoreUnreachable, "too many clients"),
        (errors.AdminShutdown("terminating"), StoreUnreachable, "terminating"),
        (errors.IndexCorrupted("broken\n  page"), StoreUnreachable, "broken; page"),
        (errors._WaitTimeout("wait"), StoreUnreachable, "no answer within 10 s"),
        (
            OperationalError("connection failed: no route\n\tIs the server running?"),
            StoreUnreachable,
            "used: no route.",
        ),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, Exception) else "",
)
def test_each_fault_has_its_class_and_its_words(
    fault: OperationalError, kind: type[StoreUnavailable | StoreLocked], told: str
) -> None:
    """A person reads what is wrong, where, and what to do."""
    found = named(fault, WHERE, 10)

    assert type(found) is kind
    assert told in found.sentence
    assert WHERE in found.sentence
    assert "\n" not in found.sentence
    assert found.advice


def test_what_is_tried_again() -> None:
    """A clash was undone; a lost connection may have been too late; a refusal stays one."""
    assert all(is_clash(one) for one in (errors.SerializationFailure(), errors.DeadlockDetected()))
    assert all(is_lost(one, closed=False) for one in (errors.AdminShutdown(), errors.ReadOnlySqlTransaction()))
    assert is_lost(OperationalError("gone"), closed=True)
    assert not any(is_lost(one, closed=False) for one in (errors.UniqueViolation(), OperationalError("still there")))


@pytest.mark.parametrize(
    ("text", "was_there", "expected"),
    [
        ("FATAL:  the database system is starting up", False, True),
        ("FATAL:  sorry, too many clients already", False, True),
        ("connection to server failed: Connection refused", True, True),
        ("connection to server failed: Connection refused", False, False),
        ('FATAL:  password authentication failed for user "ann"', True, False),
        ('FATAL:  database "work" does not exist', True, False),
    ],
    ids=["starting", "full", "was there", "never was there", "password", "name"],
)
def test_for_whom_a_call_waits(text: str, was_there: bool, expected: bool) -> None:  # noqa: FBT001
    """For a server that starts or is full, and for one that was there before; for no other refusal."""
    assert comes_back(OperationalError(text), was_there=was_there) is expected
