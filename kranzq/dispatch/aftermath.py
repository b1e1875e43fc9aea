"""After a run that was ended by force: what it left in the working tree is noted, before anybody decides its fate.

A mission that ended by itself had its chance to tidy up. One that was killed may have been in the middle of a commit:
the lock that its git left would stop every mission after it.
"""

from __future__ import annotations

import contextlib

from kranzq.dispatch.evidence import MISSION
from kranzq.events import Warned, emit
from kranzq.model.checkout import Checkout
from kranzq.model.clock import seconds_of
from kranzq.model.outcome import Ending, Outcome
from kranzq.model.tree import Tree
from kranzq.runs import index_lock
from kranzq.runs.folder import RunFolder
from kranzq.runs.record import ExitRecord, RunRecord
from kranzq.runs.tree import look_at_tree

_BY_FORCE = frozenset({Outcome.INTERRUPTED, Outcome.TIMED_OUT, Outcome.CANCELLED})


def tree_left(
    checkout: Checkout, folder: RunFolder, record: RunRecord, ending: Ending, end: ExitRecord | None
) -> Tree | None:
    """Set a lock that the run's git left aside, and look at the tree, for the record of the end; None: nothing to tell.

    To be called when all of the run is proven gone: by the keeper's last record, or by two empty looks for leftovers.
    """
    if not (checkout.has_git and record.kind == MISSION and record.began and was_forced(ending)):
        return None
    lock = None
    begun = seconds_of(record.created_at)
    with contextlib.suppress(OSError):  # of a checkout that is gone or cannot be read nothing is told
        if begun is not None and not (end is not None and end.survivors):
            lock = index_lock.set_aside(checkout.root, folder.fd, folder.path, since=begun)
        if lock is not None:
            emit(Warned(f"run {record.run} of {record.mission} left git's index.lock behind; it was moved to {lock}"))
        return look_at_tree(checkout.root, lock)
    return None


def was_forced(ending: Ending) -> bool:
    """Whether a run that had begun was ended by somebody else: by us, by a kill, by the loss of its keeper."""
    return ending.outcome in _BY_FORCE or (ending.outcome is Outcome.FAILED and ending.signal is not None)
