"""The rules that the models need, each with the macro that takes it away and the smallest sizes at which that shows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Rule:
    """A rule of a model: its macro, the sizes, what it says, and where in the product it is."""

    name: str
    model: str
    sizes: Sequence[str]
    what: str
    where: str


RULES = (
    Rule("NO_MUTATE_LOCK", "entry", ("KILLS=0", "LIVES=2"), "one change of names at a time", "backends/file/change.py"),
    Rule(
        "NO_RECORD_BEFORE_CLAIM",
        "entry",
        ("KILLS=0", "TWO_SPACES", "RUNS=3"),
        "record before claim",
        "dispatch/launch.py",
    ),
    Rule("NO_STARTING_BEFORE_GO", "entry", ("KILLS=2",), "*starting* before *go*", "dispatch/launch.py"),
    Rule(
        "NO_LOOK_BEFORE_STARTING", "entry", ("KILLS=1",), "no state over a recorded end", "dispatch/launch.py (advance)"
    ),
    Rule("NO_LOCK_IN_GO", "entry", ("KILLS=1",), "the locks travel with *go*", "runs/keepers.py"),
    Rule(
        "NO_INHERITED_LOCK", "entry", ("KILLS=2", "TWO_SPACES"), "the mission inherits the lock", "keeper.py (await_go)"
    ),
    Rule("NO_KEEPER_LOCK", "entry", ("KILLS=1",), "a keeper says that it lives", "keeper.py (say_alive)"),
    Rule("NO_TAKER_CHECK", "entry", ("KILLS=0",), "a taker among the holders is at work", "runs/holders.py"),
    Rule("NO_LEFTOVERS_CHECK", "entry", ("KILLS=1",), "leftovers are ended first", "runs/leftovers.py"),
    Rule("NO_READ_AFTER_DEATH", "entry", ("KILLS=1",), "read only after the death is proven", "dispatch/recover.py"),
    Rule("NO_START_TICKS", "entry", ("KILLS=1",), "a pid counts with its start", "liveness/process.py"),
    Rule("NO_START_IN_NAME", "entry", ("KILLS=1", "RUNS=3"), "a claimed name never occurs twice", "liveness/kranz.py"),
    Rule(
        "NO_LOCK_ABOUT_OTHERS",
        "entry",
        ("KILLS=0", "TWO_SPACES", "RUNS=3"),
        "of others only the lock tells",
        "dispatch/evidence.py",
    ),
    Rule("NO_TOUCH", "entry", ("KILLS=0", "ELSEWHERE", "RUNS=3"), "touch before the claim", "backends/file/claims.py"),
    Rule(
        "NO_INODE_CHECK",
        "entry",
        ("KILLS=0", "LIVES=2"),
        "the inode is compared after the claim",
        "backends/file/claims.py",
    ),
    Rule(
        "NO_FATE_PRECEDENCE",
        "entry",
        ("KILLS=0", "CUTS=1", "ACTS=0"),
        "a recorded fate goes first",
        "dispatch/choose.py",
    ),
    Rule(
        "NO_SETTLE_FIRST",
        "entry",
        ("KILLS=0", "LIVES=2"),
        "an end is settled before an approval",
        "dispatch/unattended.py",
    ),
    Rule("NEVER_AT_REST", "entry", ("KILLS=1",), "(a check of the model: it comes to rest)", "promela/entry.pml"),
    Rule("NO_FIRST_HALF", "lock", (), "the first half of the lock", "busy/lock.py"),
    Rule("NO_SECOND_HALF", "lock", (), "the second half of the lock", "busy/lock.py"),
    Rule("NO_STILL_NAMED", "lock", (), "a locked path is looked up again", "busy/lock.py"),
    Rule("NO_LOOK_AT_FIRST", "lock", (), "a first turn looks for leftovers", "dispatch/hold.py"),
    Rule("NO_LOOK_BY_RECORD", "lock", (), "so does one that meets `.busy.json`", "dispatch/hold.py"),
    Rule("NO_LOOK_IN_NEW_QUEUE", "lock", (), "so does one in a new queue", "dispatch/hold.py"),
    Rule("NO_FENCE", "lease", ("KILLS=1", "LOSSES=0"), "a holder shows its attempt", "backends/sql/statements"),
    Rule("NO_STATE_CHECK", "lease", ("KILLS=0", "LOSSES=0"), "only what is held is changed", "backends/sql/statements"),
    Rule("NO_LEASE_CHECK", "lease", ("KILLS=0", "LOSSES=0"), "only what is overdue lapses", "backends/sql/statements"),
    Rule(
        "NO_ONE_STATEMENT",
        "lease",
        ("KILLS=0", "LOSSES=0"),
        "choosing and taking are one statement",
        "backends/sql/statements",
    ),
    Rule("NO_GROWING_ATTEMPTS", "lease", ("KILLS=0", "LOSSES=1"), "attempts only grow", "backends/sql/statements"),
    Rule(
        "NO_REQUEST_ID",
        "lease",
        ("KILLS=0", "LOSSES=1"),
        "a claim is repeated by its request",
        "backends/sql/claiming.py",
    ),
    Rule(
        "NO_SAME_END_AGAIN",
        "lease",
        ("KILLS=0", "LOSSES=1"),
        "the same end again is a success",
        "backends/sql/claims.py",
    ),
    Rule(
        "NEVER_AT_REST",
        "lease",
        ("KILLS=0", "LOSSES=0"),
        "(a check of the model: it comes to rest)",
        "promela/lease.pml",
    ),
)

PROMISES = (
    ("claim[r2]==0", "a claim stays for ever"),
    ("tree[r", "two missions in one tree"),
    ("||done[r2]", "an approval is lost"),
    ("done[taken", "a mission with a recorded end runs again"),
    ("withdrawn[taken", "what was taken back runs"),
    ("==taken[", "what runs is not what was claimed"),
    ("done[", "an entry is lost"),
    ("!=before", "an approval is taken for one that had ended"),
    ("n<=1", "an entry in two places"),
    ("keeper[r2]", "a living mission is ended as a leftover"),
    ("at_work[taker]", "a dispatcher at work is ended as a leftover"),
    ("began[", "what began is told as never begun"),
    ("holders==0", "a lock stays for ever"),
    ("lapsed_early", "an item is lost while its lease lasts"),
    ("stands==", "a stale holder changes an item"),
    ("state>=3", "an item changes after its end"),
    ("request_life==", "a holder is not told what it was given"),
    ("finisher!=", "a holder is not told that it finished"),
    ("stands!=", "a holder is refused"),
    ("0", "nothing, as it must be: the end is reached"),
)
"""By which part of its text a failed assertion is known, and which promise it is; the first that matches."""
