"""Is the claim of the mission that this process belongs to still its own? Asked by `kranzq guard`; changes nothing.

The marks in the environment say which run this is; the run's record says which claim it has. Neither is believed alone:
the nonces must agree, the claim must lie in the queue, nothing may say that the run is over or shall be, and whoever
holds the claim must live. What a clone brought along, or another user wrote, is no record.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Mapping
from typing import TYPE_CHECKING

from kranzq.disk.modes import counts
from kranzq.disk.tracked import tracked
from kranzq.dispatch.evidence import MISSION
from kranzq.errors import BadMissionId, CannotTell, MissionLost
from kranzq.liveness import judge
from kranzq.model.checkout import Checkout
from kranzq.model.frozen import frozen
from kranzq.model.ids import MissionId
from kranzq.model.process import Liveness
from kranzq.runs.folder import CANCEL, RETURN
from kranzq.runs.folders import Runs
from kranzq.runs.holders import keeper_lives
from kranzq.runs.marks import is_nonce

if TYPE_CHECKING:
    from kranzq.runs.record import RunRecord

_MOST_DIGITS = 9


@frozen
class RunMarks:
    """Which run a process belongs to, as its environment has it. `lock` is the second half of the claim's mark."""

    mission: MissionId
    run: int
    nonce: str
    lock: str
    repo: str


def marks_in(environ: Mapping[str, str]) -> RunMarks:
    """The marks of the run. Raises CannotTell where they are not whole: something took a part of them away."""
    mission, number = environ.get("KRANZ_MISSION_ID", ""), environ.get("KRANZ_RUN_NUMBER", "")
    nonce, _, lock = environ.get("KRANZ_CLAIM", "").partition(":")
    repo = environ.get("KRANZ_REPO", "")
    try:
        name = MissionId(mission)
    except BadMissionId:
        name = None
    whole = number.isascii() and number.isdigit() and len(number) <= _MOST_DIGITS
    if name is None or not whole or not is_nonce(nonce) or not repo.startswith("/"):
        raise CannotTell(
            mission,
            "its environment has lost some of the marks that a mission is given (KRANZ_…)",
            "Let whatever starts git hand them on: KRANZ_CLAIM, KRANZ_MISSION_ID, KRANZ_REPO, KRANZ_RUN_NUMBER",
        )
    return RunMarks(name, int(number), nonce, lock, repo)


def check_own(checkout: Checkout, kranz: int, queue: int, marks: RunMarks) -> RunRecord:
    """The run's record, when its claim is still its own; `kranz` and `queue` are descriptors of those folders.

    Raises MissionLost, CannotTell.
    """
    runs = Runs(checkout, kranz)
    if runs.are_hidden(marks.mission):
        raise CannotTell(str(marks.mission), f"its records below {checkout.missions} may not be read by this user")
    record = _record(runs, marks)
    _check_claim(checkout, queue, marks, record)
    _check_holder(checkout, marks, record)
    return record


def _record(runs: Runs, marks: RunMarks) -> RunRecord:
    """The record, if it is this run's and says of no end. A wish is enough: the run shall not go on."""
    folder = runs.open(marks.mission, marks.run)
    if folder is None:
        raise _lost(marks, "there is no record of this run that could be believed")
    with folder:
        record = folder.read()
        if record is None or record.nonce != marks.nonce or record.lock not in {"", marks.lock}:  # a library's has none
            raise _lost(marks, "the record of this run is another one's, or gone")
        if record.state == "ended" and record.outcome is not None:
            raise _lost(marks, f"this run has ended: {record.outcome.value}")
        if folder.read_exit(record.nonce) is not None:
            raise _lost(marks, "this run has ended, and this process outlived it")
        if (wish := folder.wished(CANCEL)) is not None:
            raise _lost(marks, f"it was cancelled{_by(wish)}")
        if (wish := folder.wished(RETURN)) is not None:
            raise _lost(marks, f"it was asked to stop, and will be run again{_by(wish)}")
    return record


def _check_claim(checkout: Checkout, queue: int, marks: RunMarks, record: RunRecord) -> None:
    if "/" in record.claim or not record.claim:
        raise _lost(marks, "its record names no claim")
    try:
        seen = os.stat(record.claim, dir_fd=queue, follow_symlinks=False)
    except (FileNotFoundError, NotADirectoryError):
        raise _lost(marks, "its claim is not in the queue any more: somebody took it back") from None
    except (OSError, ValueError) as fault:
        why = f"its claim {record.claim} cannot be looked at: {fault}"
        raise CannotTell(str(marks.mission), why) from fault
    if not stat.S_ISREG(seen.st_mode) or not counts(seen, queue):
        raise _lost(marks, f"{record.claim} is no claim: it is a link or another user's")
    brought = tracked(checkout.root).has(f".kranz/queue/{record.claim}")
    if brought:
        raise _lost(marks, f"{record.claim} is tracked by git: a clone brought it along")
    if brought is None:
        raise CannotTell(
            str(marks.mission),
            "git's index cannot be read, so nobody knows whether a clone brought its claim along",
            "Mend the index (git status tells what is wrong with it)",
        )


def _check_holder(checkout: Checkout, marks: RunMarks, record: RunRecord) -> None:
    """A claim whose holder is gone is put back by whoever looks next, so it is nobody's any more."""
    if record.kind == MISSION and any(_keeper_lives(path) for path in (checkout.git, checkout.busy_flock)):
        return
    judged = judge(record.keeper)
    if judged.verdict is Liveness.ALIVE:
        return
    if judged.verdict is Liveness.GONE or record.kind == MISSION:  # a keeper's lock is seen from everywhere
        raise _lost(marks, f"whoever held its claim is gone ({judged.evidence})")
    raise CannotTell(str(marks.mission), f"whoever holds its claim cannot be seen from here ({judged.evidence})")


def _keeper_lives(path: str) -> bool:
    try:
        return keeper_lives(path) is not None
    except OSError:
        return False


def _by(wish: Mapping[str, object]) -> str:
    who, why = wish.get("who"), wish.get("why")
    told = f" by {who}" if isinstance(who, str) and who else ""
    return f"{told}: {why}" if isinstance(why, str) and why else told


def _lost(marks: RunMarks, why: str) -> MissionLost:
    return MissionLost(str(marks.mission), marks.run, why, marks.repo)
