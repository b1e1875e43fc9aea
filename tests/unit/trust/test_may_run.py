"""The gate: only what this user signed for this place is executed as it says; the rest waits or is set aside."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import pytest

from kranzq.model.entry import Entry, Own
from kranzq.model.ids import MissionId
from kranzq.trust.approval import Approvals
from kranzq.trust.key import Key, Keyring
from kranzq.trust.mac import sign
from kranzq.trust.may_run import Gate, Permit, PermitKind, usable

ROOT = "/home/ada/project"
ENTRY = Entry(
    MissionId("m-1"), own=Own("0" * 32, command=("make",), env={"PATH": "/x"}, cwd="sub", timeout_seconds=9.0)
)


@pytest.fixture
def state(tmp_path: Path) -> str:
    """A state directory with one key."""
    state = str(tmp_path / "kranzq")
    Keyring(state).current()
    return state


@pytest.fixture
def gate(state: str) -> Gate:
    """The gate over that state directory."""
    return Gate(Keyring(state), Approvals(state))


def signed(state: str) -> Entry:
    """The entry, signed with the user's key."""
    return sign(ENTRY, ROOT, Keyring(state).current())


def test_a_signed_entry_runs_with_its_own_command(gate: Gate, state: str) -> None:
    """What this user enqueued here runs as it was enqueued, also after the key was rotated."""
    entry = signed(state)
    Keyring(state).rotate()

    permit = gate.may_run(entry, ROOT)

    assert permit == Permit(PermitKind.RUN, own_command=True)
    assert usable(entry, permit) == entry


def test_an_unsigned_entry_waits_for_a_person(gate: Gate) -> None:
    """An unsigned entry waits, and the answer says what to type."""
    permit = gate.may_run(ENTRY, ROOT)

    assert (permit.kind, permit.why, permit.own_command) == (PermitKind.WAIT, "unsigned", False)
    assert "kranzq trust --unsigned" in permit.advice


def test_an_allowed_unsigned_entry_only_names_its_mission(gate: Gate, state: str) -> None:
    """Even where unsigned missions may run, nothing that the file says is executed."""
    Approvals(state).allow_unsigned(ROOT)

    permit = gate.may_run(ENTRY, ROOT)
    left = usable(ENTRY, permit)

    assert (permit.kind, permit.own_command) == (PermitKind.RUN, False)
    assert left.own is not None
    assert (left.mission, left.own.command, left.own.env, left.own.cwd) == ("m-1", (), {}, "")
    assert left.own.timeout_seconds == 9.0
    assert gate.may_run(ENTRY, "/home/ada/other").kind is PermitKind.WAIT


def test_an_entry_of_kranz_is_usable_as_it_is(gate: Gate) -> None:
    """An entry without fields of ours has nothing to take away."""
    entry = Entry(MissionId("m-2"))

    assert usable(entry, gate.may_run(entry, ROOT)) is entry


def test_an_entry_whose_signature_was_taken_away_is_unsigned(gate: Gate, state: str) -> None:
    """Taking the signature away does not get a command executed."""
    Approvals(state).allow_unsigned(ROOT)
    entry = signed(state)
    assert entry.own is not None

    permit = gate.may_run(replace(entry, own=replace(entry.own, mac="")), ROOT)

    assert (permit.kind, permit.own_command) == (PermitKind.RUN, False)


def test_a_moved_checkout_waits_for_trust_here(gate: Gate, state: str) -> None:
    """Entries of a copied checkout wait, name where they were signed for, and say what to type."""
    permit = gate.may_run(signed(state), "/home/ada/copy")

    assert (permit.kind, permit.own_command) == (PermitKind.WAIT, False)
    assert ROOT in permit.why
    assert "kranzq trust --here" in permit.advice


def test_another_users_entry_waits(gate: Gate) -> None:
    """An entry that another user signed is passed over and says with which key, also where unsigned ones may run."""
    other = Key.of(b"o" * 32)

    permit = gate.may_run(sign(ENTRY, ROOT, other), ROOT)

    assert (permit.kind, permit.own_command) == (PermitKind.WAIT, False)
    assert permit.why == f"signed by another user (key {other.id})"


def test_a_changed_entry_is_set_aside(gate: Gate, state: str) -> None:
    """An entry that was changed after it was signed is quarantined, also where unsigned ones may run."""
    Approvals(state).allow_unsigned(ROOT)

    permit = gate.may_run(replace(signed(state), mission=MissionId("m-2")), ROOT)

    assert (permit.kind, permit.own_command) == (PermitKind.QUARANTINE, False)


def test_an_unsafe_key_makes_its_entries_wait(gate: Gate, state: str) -> None:
    """A key that others may read holds up the entries that it signed, with the cure, and fails nobody's turn."""
    entry = signed(state)
    path = f"{state}/keys/{Keyring(state).current().id}.key"
    os.chmod(path, 0o644)

    permit = gate.may_run(entry, ROOT)

    assert (permit.kind, permit.own_command) == (PermitKind.WAIT, False)
    assert path in permit.why
    assert "chmod 600" in permit.advice
