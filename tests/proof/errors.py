"""Part `errors`: each call that changes something fails, once, in each way in which it may; the program says so.

Then the fault is gone, and another process must find nothing half done and go on. The names of errors are those that
disks and kernels give: full, broken, forbidden, read-only, too many files, interrupted, stale; and a rename, link or
unlink that reports a failure though it happened, as network file systems do.
"""

from __future__ import annotations

import errno
from collections.abc import Iterator, Sequence

from tests.proof import errors_daemon, tracing
from tests.proof.asked import Asked, Result
from tests.proof.faulty import Faulty
from tests.proof.invariants import Learned, judge, settle
from tests.proof.scenario import Scenario, World
from tests.proof.sweep import Found, Sweep, Trial, result, sorts

DOCUMENTED = frozenset({0, 1, 2, 3, 4, 5, 6, 75})
"""The exit codes of `docs/reference/cli.md` that say what is wrong; 70 is a fault of kranzq itself."""
NOTHING_CHANGED = "Nothing was changed."
_NAMES = ("ENOSPC", "EIO", "EACCES", "EROFS", "ESTALE")
_BY_CALL: dict[str, tuple[str, ...]] = {
    **dict.fromkeys(tracing.OPENS, (*_NAMES, "EMFILE", "EINTR")),
    **dict.fromkeys(tracing.NAMES, _NAMES),
    **dict.fromkeys(("mkdir", "mkdirat"), (*_NAMES, "EMFILE")),
    **dict.fromkeys(("unlink", "unlinkat", "rmdir"), ("EIO", "EACCES", "EROFS", "ESTALE")),
    **dict.fromkeys(("write", "writev", "pwrite64", "pwritev"), ("ENOSPC", "EIO", "EINTR", "ESTALE")),
    **dict.fromkeys(("ftruncate", "truncate", "fallocate"), ("ENOSPC", "EIO", "EINTR", "EROFS")),
    **dict.fromkeys(("utimensat", "chmod", "fchmod", "fchmodat", "chown", "fchown"), ("EIO", "EACCES", "EROFS")),
    **dict.fromkeys(tracing.SYNCS, ("EIO", "ENOSPC", "EINTR", "ESTALE")),
    **dict.fromkeys(("flock", "fcntl"), ("EIO", "EINTR", "ESTALE")),
    **dict.fromkeys(("clone", "clone3", "fork", "vfork"), ("EAGAIN", "ENOMEM")),
    **dict.fromkeys(("sendmsg", "sendto"), ("EINTR", "EIO")),
}
AFTER = frozenset({"rename", "renameat", "renameat2", "link", "linkat", "unlink", "unlinkat"})
"""Calls that may happen and report a failure all the same."""


def run(asked: Asked) -> Result:
    """Break everything, or what the seed says."""
    faulty = Faulty.made(asked.folder)

    def attempt(world: World, scenario: Scenario, learned: Learned, trial: Trial) -> Found:
        return _break(world, scenario, learned, trial, faulty)

    sweep = Sweep(asked, derive, attempt)
    if not asked.only or any(part.partition("@")[0] == errors_daemon.NAME for part in asked.only):
        errors_daemon.run(sweep, derive, faulty, from_inside)
    tally = sweep.run()
    counts: dict[str, float | str] = {
        "scenarios": len(tally.scenarios),
        "points in recorded runs": tally.recorded,
        "faults put in": len(tally.hit),
        "at distinct points": len({name.rpartition(":")[0] for name in tally.hit}),
        "  borne: done all the same": tally.kinds["borne"],
        "  told, with a documented exit code": tally.kinds["told"],
        "not met (the run was another)": tally.tried - len(tally.hit),
        **sorts(tally),
    }
    return result(tally, counts, "errors")


def derive(scenario: Scenario, points: Sequence[tracing.Point]) -> list[Trial]:
    """Each point with each error that its call may give."""
    del scenario
    return [Trial(point, how) for point in points for how in _ways(point.name)]


def _ways(name: str) -> Iterator[str]:
    yield from _BY_CALL.get(name, ())
    if name in AFTER:
        yield from ("after EIO", "after ESTALE")


def put(world: World, scenario: Scenario, trial: Trial, faulty: Faulty) -> tracing.Traced:
    """Run the verb with the fault in it."""
    point = trial.point
    if (how := from_inside(trial)) is not None:
        return faulty.run(world, scenario.argv, point, how)
    role = tracing.KEEPER if point.role == tracing.KEEPER else tracing.PROGRAM
    fault = tracing.Fault(role, point.name, point.at, f"error={trial.how}")
    return tracing.run(world, scenario.argv, fault, role=role)


def from_inside(trial: Trial) -> str | None:
    """How `faulty.c` has the fault, where `strace` cannot put it in."""
    first, _, second = trial.how.partition(" ")
    if trial.point.name not in tracing.OPENS and not second:
        return None
    return f"{'after' if second else 'fail'}:{getattr(errno, second or first)}"


def _break(world: World, scenario: Scenario, learned: Learned, trial: Trial, faulty: Faulty) -> Found:
    point = trial.point
    scenario.put_back(world)
    traced = put(world, scenario, trial, faulty)
    scenario.end(world)
    if not traced.was_hit:
        return Found(hit=False)
    faults = list(said_well(traced, scenario))
    again = scenario.again is not None and (point.ordinal + len(trial.how)) % 2 == 0
    found = settle(scenario, world, again=again)
    is_done = traced.code == scenario.code and not scenario.turn
    faults += judge(scenario, learned, found, reported=is_done, again=again, keeper=point.role == tracing.KEEPER)
    if NOTHING_CHANGED in traced.err and not again and not scenario.turn:
        changed = sorted(
            key
            for key in {*found.recovered.facts, *learned.before.recovered.facts}
            if (found.recovered.facts.get(key) or None) != (learned.before.recovered.facts.get(key) or None)
        )
        faults += [f"it says that nothing was changed, but {key} was" for key in changed]
    return Found(True, faults, "borne" if traced.code == scenario.code else "told")


def said_well(traced: tracing.Traced, scenario: Scenario) -> Iterator[str]:
    """What is wrong with the exit code and the message."""
    if traced.code not in DOCUMENTED:
        yield f"exit {traced.code}: {traced.err[-700:]}"
    elif "Traceback" in traced.err:
        yield f"a traceback: {traced.err[-700:]}"
    elif traced.code != scenario.code and not traced.err.strip():
        yield f"exit {traced.code} without a word"
