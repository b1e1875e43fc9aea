"""Identities of processes in records: all of it or nothing."""

from __future__ import annotations

import pytest

from kranzq.liveness import me
from kranzq.model.process import ProcessIdentity


def test_an_identity_survives_a_record() -> None:
    """What was written about a process names the same process when it is read."""
    assert ProcessIdentity.from_json(me().to_json()) == me()


@pytest.mark.parametrize(
    "change",
    [{"pid": 0}, {"pid": -1}, {"pid": "7"}, {"pid": True}, {"startTicks": -1}, {"startTicks": "7"}, {"bootId": None},
     {"machineId": 7}, {"pidNs": None}, {"timeNs": []}],
)  # fmt: skip
def test_an_identity_is_never_believed_in_part(change: dict[str, object]) -> None:
    """A record with one wrong field names nobody, so nobody is judged or signalled by it."""
    assert ProcessIdentity.from_json(me().to_json() | change) is None
    assert ProcessIdentity.from_json("x") is None
