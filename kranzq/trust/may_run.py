"""The gate before each claim: whether an entry may run here, must wait for a person, or is to be set aside.

The only place that turns a signature and an approval into a decision. A candidate that may not run holds up nobody:
the answer says why it waits and what to type, for `list`, `status`, `why` and the daemon's log alike.
"""

from __future__ import annotations

import enum
from collections.abc import Callable
from dataclasses import replace
from typing import assert_never

from kranzq.errors import Refused
from kranzq.model.entry import Entry
from kranzq.model.frozen import frozen
from kranzq.trust.approval import Approvals
from kranzq.trust.mac import Keys, Signature, verify
from kranzq.trust.second_net import why_tracked

Net = Callable[[Entry, str], tuple[str, str] | None]
"""Why an entry of the checkout at a path must not run whatever its signature says, and what to type; None: it may."""


class PermitKind(enum.Enum):
    """What to do with a candidate."""

    RUN = "run"
    WAIT = "wait"
    QUARANTINE = "quarantine"


@frozen
class Permit:
    """A decision. `why` is half a sentence, `advice` what to type next; both are empty for a signed entry that may run.

    `own_command` is False when the entry only names a mission: then its command, environment and folder are not used.
    """

    kind: PermitKind
    why: str = ""
    advice: str = ""
    own_command: bool = False


class Gate:
    """Decides for one user, by keys and approvals, and by what git tracks."""

    def __init__(self, keys: Keys, approvals: Approvals, net: Net = why_tracked) -> None:
        self._keys = keys
        self._approvals = approvals
        self._net = net

    def may_run(self, entry: Entry, root: str) -> Permit:
        """The decision about an entry in the checkout at the canonical path `root`. Changes nothing on disk."""
        if (planted := self._net(entry, root)) is not None:
            return Permit(PermitKind.WAIT, *planted)
        try:
            found = verify(entry, root, self._keys)
        except Refused as fault:  # a key file that is not safe: its entries wait, the others do not
            return Permit(PermitKind.WAIT, fault.sentence.rstrip("."), fault.advice)
        own = entry.own
        match found:
            case Signature.VALID:
                return Permit(PermitKind.RUN, own_command=True)
            case Signature.UNSIGNED:
                return self._unsigned(root)
            case Signature.MOVED:
                signed_for = own.repo if own is not None else ""
                why = f"signed for {signed_for}: this checkout was moved or copied"
                return Permit(PermitKind.WAIT, why, "If it is yours, type: kranzq trust --here")
            case Signature.UNKNOWN_KEY:
                key_id = own.key if own is not None else ""
                advice = f"To run it as your own: kranzq cancel {entry.mission}, then enqueue it yourself"
                return Permit(PermitKind.WAIT, f"signed by another user (key {key_id})", advice)
            case Signature.WRONG:
                why = "its signature is wrong: it was changed after it was signed"
                return Permit(PermitKind.QUARANTINE, why, f"Look at it, then: kranzq enqueue {entry.mission}")
            case _:
                assert_never(found)

    def _unsigned(self, root: str) -> Permit:
        if self._approvals.unsigned(root):
            return Permit(PermitKind.RUN, "unsigned, and this checkout lets unsigned missions run")
        return Permit(PermitKind.WAIT, "unsigned", "To let such missions run here, type: kranzq trust --unsigned")


def usable(entry: Entry, permit: Permit) -> Entry:
    """The entry without what its permit does not cover: an unsigned one names a mission and nothing else to execute.

    A command is not the only way in: PATH or LD_PRELOAD in its environment, or a planted folder, would be another.
    """
    own = entry.own
    if permit.own_command or own is None:
        return entry
    return replace(entry, own=replace(own, command=(), env={}, cwd=""))
