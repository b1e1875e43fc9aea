# Longer than 300 lines: every error of the project stands here, so that surfaces and the reference page can be held
# against one list.
"""Every error that kranzq raises on purpose: facts go into the constructor, the class builds the sentence.

Each sentence says which file or id, what is wrong, and what to do next. `exit_code` is the one table by which the
command line leaves; a test holds each class against the reference page.
"""

from __future__ import annotations

import sys

EXIT_FAILED = 1
EXIT_USAGE = 2
EXIT_NOT_FOUND = 3
EXIT_BUSY = 4
EXIT_REFUSED = 5
EXIT_STORE = 6
EXIT_FAULT = 70
EXIT_LATER = 75


class KranzqError(Exception):
    """Root of all expected faults. `exit_code` is the process's exit code, `advice` the next step for a person."""

    exit_code = EXIT_FAILED

    def __init__(self, sentence: str, advice: str = "") -> None:
        super().__init__(sentence if not advice else f"{sentence}\n  {advice}")
        self.sentence = sentence
        self.advice = advice


class UsageFault(KranzqError):
    """The call or the configuration is wrong."""

    exit_code = EXIT_USAGE


class MissingPackage(UsageFault):
    """A package that an extra brings along is not there; `what` needs it."""

    def __init__(self, what: str, package: str, extra: str) -> None:
        import shlex  # noqa: PLC0415 - rarely needed, and hooks wait for each import

        super().__init__(
            f"{what} needs the package {package}, which this Python has not.",
            f"Type: {shlex.quote(sys.executable or 'python3')} -m pip install 'kranzq[{extra}]'",
        )


class BadMissionId(UsageFault):
    """A text that cannot be a mission id."""

    def __init__(self, text: str, why: str) -> None:
        super().__init__(
            f"{text[:140]!r} is no mission id: {why}.",
            "Use 1 to 128 of A-Z a-z 0-9 . _ - and begin with a letter or digit.",
        )
        self.text = text


class BadEntry(UsageFault):
    """A queue file's content that is no entry; `why` says what is wrong, `partial` that it may still be written."""

    def __init__(self, why: str, *, partial: bool = False) -> None:
        super().__init__(f"This is no queue entry: {why}.")
        self.why = why
        self.partial = partial


class BadSetting(UsageFault):
    """A setting that is unknown or has a wrong value."""

    def __init__(self, where: str, key: str, why: str, advice: str = "") -> None:
        super().__init__(f"{where}: {f'setting {key!r} ' if key else ''}{why}.", advice)
        self.key = key


class NotFound(KranzqError):
    """There is no such mission, item or checkout."""

    exit_code = EXIT_NOT_FOUND


class NoCheckout(NotFound):
    """No checkout at or above a directory."""

    def __init__(self, start: str) -> None:
        super().__init__(
            f"There is no checkout at or above {start}.",
            "Go into a git repository, name one with -C DIR, or make one here with: kranzq init",
        )


class BareRepository(NotFound):
    """A repository that has no working tree in which a mission could run."""

    def __init__(self, path: str) -> None:
        super().__init__(
            f"{path} is a bare repository: it has no working tree for missions.",
            "Go into one of its worktrees (see: git worktree list), or clone it.",
        )


class NoSuchMission(NotFound):
    """A mission that this checkout has never seen."""

    def __init__(self, mission: str) -> None:
        super().__init__(f"This checkout knows no mission {mission}.", "See what there is: kranzq list, kranzq history")


class NoSuchItem(NotFound):
    """An item that the work queue does not know, or that was pruned."""

    def __init__(self, item: str) -> None:
        super().__init__(f"The work queue knows no item {item[:200]}.", "See what there is: kranzq work list")
        self.item = item


class NoSuchAgent(NotFound):
    """An agent that has no token here. What was said is not repeated where it is a token itself."""

    def __init__(self, named: str) -> None:
        shown = "whose token that is" if named.startswith(("kqa_", "kqo_")) else f"{named[:200]!r}"
        super().__init__(f"There is no agent {shown}.", "See who has a token: kranzq agent list")


class Busy(KranzqError):
    """Somebody else has what is needed, or the request contradicts what is there."""

    exit_code = EXIT_BUSY


class RepoBusy(Busy):
    """The busy lock of the checkout is held."""

    def __init__(self, root: str, holder: str) -> None:
        super().__init__(f"The checkout {root} is busy: {holder}.", "See why: kranzq status")
        self.holder = holder


class DaemonRuns(Busy):
    """Another daemon serves this checkout."""

    def __init__(self, root: str, who: str) -> None:
        super().__init__(f"A daemon serves {root} already: {who}.", "Stop it with: kranzq stop")


class Conflict(Busy):
    """The mission is there in another form; nothing was changed."""


class ClaimLost(Busy):
    """The claim is no longer this holder's: somebody recovered, cancelled or finished it."""

    def __init__(self, name: str) -> None:
        super().__init__(f"The claim {name} is no longer ours.", "Nothing was changed; see: kranzq history")


class ItemLost(ClaimLost):
    """A call of somebody who does not hold the item under that attempt any more; nothing was changed by it.

    `state` is the item's state now; `cancelled` tells why, when its attempt was cancelled from outside.
    """

    def __init__(self, item: str, attempt: int, state: str, cancelled: str | None = None) -> None:
        told = f": {cancelled}" if cancelled else ""
        if cancelled is not None:
            sentence, advice = f"Item {item} was cancelled{told}.", "Stop working on it; there is nothing to hand in."
        else:
            sentence = f"Attempt {attempt} of item {item} is not yours any more: the item is {state}."
            advice = "Stop working on it; what was done under this attempt does not count. Claim anew for more work."
        KranzqError.__init__(self, sentence, advice)
        self.item, self.attempt, self.state, self.cancelled = item, attempt, state, cancelled


class LeaseOver(ItemLost):
    """An item whose lease is over while nobody else has claimed it: a heartbeat may still bring it back."""

    def __init__(self, item: str, attempt: int) -> None:
        super().__init__(item, attempt, "lapsed")
        self.sentence = f"The lease of item {item} (attempt {attempt}) is over; anybody may claim it now."
        self.advice = f"If you still work on it: kranzq work heartbeat {item} --attempt {attempt}; if that fails, stop."
        self.args = (f"{self.sentence}\n  {self.advice}",)


class MissionLost(ClaimLost):
    """A mission whose claim is no longer its own, told to whoever acts in its name; `why` is half a sentence."""

    def __init__(self, mission: str, run: int, why: str, root: str) -> None:
        import shlex  # noqa: PLC0415 - rarely needed, and hooks wait for each import

        KranzqError.__init__(
            self,
            f"Mission {mission} (run {run}) has lost its claim: {why}.",
            f"Stop working on it; nothing was changed. What became of it: kranzq -C {shlex.quote(root)} why {mission}",
        )
        self.mission, self.run, self.why = mission, run, why


class PresenceFull(Busy):
    """A holder that has so many presence claims that it gets no more; nothing was changed."""

    def __init__(self, holder: str, most: int) -> None:
        super().__init__(
            f"{holder[:200]} has {most} presence claims already, which is the most.",
            "End what is over: kranzq presence release ID, or all of them with --all.",
        )


class InsideMission(Busy):
    """A verb that would wait for the very mission that runs it."""

    def __init__(self, verb: str, mission: str) -> None:
        super().__init__(
            f"'{verb}' refuses inside mission {mission} of the same checkout: it would wait for itself.",
            "enqueue, list, status and why work here.",
        )


class Refused(KranzqError):
    """Untrusted, unsafe path, or no permission."""

    exit_code = EXIT_REFUSED


class UnsafePath(Refused):
    """A path that is a link, another user's, or not what it must be."""

    def __init__(self, path: str, why: str, advice: str = "Look at it, mend or remove it, and try again.") -> None:
        super().__init__(f"{path} is refused: {why}.", advice)
        self.path = path


class CannotTell(Refused):
    """Nobody can tell whether a claim is still its holder's, so it is taken for lost; `why` is half a sentence."""

    def __init__(self, what: str, why: str, advice: str = "") -> None:
        super().__init__(
            f"Whether the claim of {what or 'this mission'} is still its own cannot be told: {why}.",
            f"{advice or 'Look at it: kranzq check'}.",
        )
        self.why = why


class StoreUnavailable(KranzqError):
    """The disk or database does not take what must be kept; nothing was changed, or `changed` says what was."""

    exit_code = EXIT_STORE

    def __init__(
        self,
        path: str,
        why: str,
        changed: str = "Nothing was changed.",
        advice: str = "Free space or mend the disk, then try again.",
    ) -> None:
        super().__init__(f"{path} cannot be written: {why}. {changed}", advice)
        self.path = path


class LocksUnsupported(StoreUnavailable):
    """The file system has no kernel locks; kranzq never falls back to guessing."""

    def __init__(self, path: str, why: str) -> None:
        KranzqError.__init__(
            self,
            f"The file system of {path} does not support kernel locks ({why}), so kranzq cannot work there.",
            "Move the checkout to a local file system.",
        )
        self.path = path


class TryLater(KranzqError):
    """Nothing is wrong, but not now."""

    exit_code = EXIT_LATER


class QueueLocked(TryLater):
    """The queue's short lock was not to be had in time."""

    def __init__(self, path: str, seconds: float, holder: str) -> None:
        super().__init__(
            f"The queue is locked ({path}) for {seconds:.0f} s by {holder}; nothing was changed.",
            "Try again; if that process hangs, end it.",
        )


class StoreLocked(TryLater):
    """Others kept what was needed of the database for too long; nothing was changed."""

    def __init__(self, path: str, seconds: float, who: str = "another program", advice: str = "") -> None:
        super().__init__(
            f"The database {path} was locked for {seconds:.0f} s by {who}; nothing was changed.",
            advice or "Try again; see who has it open: fuser -v " + path,
        )


class StoreUnreachable(StoreUnavailable):
    """The database does not answer, or refuses; what was asked may be repeated with the same id or key."""

    def __init__(self, where: str, why: str, advice: str = "Look after the database, then repeat the call.") -> None:
        KranzqError.__init__(self, f"The database {where} cannot be used: {why}.", advice)
        self.path = where


class ServerUnreachable(StoreUnavailable):
    """A kranzq server does not answer, or what answers is none; whether the call was carried out is said."""

    def __init__(self, where: str, why: str, advice: str = "See whether it runs there: kranzq serve") -> None:
        KranzqError.__init__(self, f"The server {where} cannot be used: {why}.", advice)
        self.path = where


class AnswerTooLong(ServerUnreachable):
    """A server's answer is longer than a client takes in; what was asked for may have been done."""

    def __init__(self, where: str, what: str, most: int) -> None:
        super().__init__(
            where, f"its answer to {what} has more than {most} bytes", "Ask for less at once, with a smaller limit."
        )


class SchemaTooNew(StoreUnavailable):
    """A newer kranzq made the database into something that this one does not understand; it was not touched."""

    def __init__(self, where: str, theirs: int, ours: int) -> None:
        KranzqError.__init__(
            self,
            f"The database {where} has schema {theirs}; this kranzq understands {ours} at most. It was not touched.",
            "Upgrade kranzq on this machine, or name another database with --url.",
        )
        self.path = where
