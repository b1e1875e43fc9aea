"""One turn, each line a named step of the architecture page. After any of them the process may die."""

from __future__ import annotations

from dataclasses import replace

from kranzq.dispatch import item_turn, launch
from kranzq.dispatch.admission import admit_inbox
from kranzq.dispatch.choose import choose, nothing_to_do
from kranzq.dispatch.evidence import MISSION, Backstop
from kranzq.dispatch.hold import Holding, take_hold
from kranzq.dispatch.launch import Try
from kranzq.dispatch.parts import Empty, IsBusy, Left, Memory, OpenQueue, Parts, Paused, Ran, Result
from kranzq.dispatch.recover import Recovery, Report
from kranzq.dispatch.settle import settle
from kranzq.dispatch.watch_over import Interrupts, Watched, watch_over
from kranzq.events import Warned, emit
from kranzq.model.entry import Entry
from kranzq.model.outcome import Ending, NotStarted, Outcome, Retire
from kranzq.runs.folder import RETURN
from kranzq.runs.folders import Runs
from kranzq.runs.record import ExitRecord

_TOLD_TO_STOP = "the dispatcher was told to stop before it began"


def turn(parts: Parts, memory: Memory, backstop: Backstop, interrupts: Interrupts) -> Result:
    """Do one turn of the checkout: at most one mission, and never one beside another."""
    with parts.open_queue() as queue:
        memory.names = queue.names()
        admit_inbox(parts.checkout, lambda: parts, queue, memory)
        if (reason := queue.paused()) is not None:
            Recovery(parts, queue, backstop).recover()
            item_turn.adopt(parts, queue)
            return Paused(reason)
        queue.finish_moves()
        queue.tidy_up(memory.examined)
        if (idle := nothing_to_do(parts, queue, memory)) is not None and not item_turn.is_worth_asking(parts):
            return idle
        taken = take_hold(parts, queue, memory, backstop)
        item_turn.adopt(parts, queue)
        if isinstance(taken, IsBusy):
            return taken
        holding, report = taken
        return _with_hold(parts, queue, memory, holding, report, interrupts)


def recover_only(parts: Parts, memory: Memory, backstop: Backstop) -> IsBusy | Report:
    """Steps 1 and 2 and nothing more: settle what has ended, start nothing."""
    with parts.open_queue() as queue:
        taken = take_hold(parts, queue, memory, backstop)
        item_turn.adopt(parts, queue)
        if isinstance(taken, IsBusy):
            return taken
        holding, report = taken
        holding.let_go(unlock=False)
        return report


def ask_to_return(parts: Parts, who: str) -> list[str]:
    """Leave the wish to end for every keeper that lives: its mission ends and the entry goes back. The missions."""
    asked = []
    with parts.open_queue() as queue:
        runs = Runs(parts.checkout, queue.kranz_fd)
        for claimed in queue.claims():
            record = runs.of_claim(claimed.place.mission, claimed.place.name)
            folder = runs.open(record.mission, record.run) if record is not None and record.kind == MISSION else None
            if folder is not None:
                with folder:
                    if folder.wished(RETURN) is None:
                        folder.wish(RETURN, who, "the dispatcher was told to stop now")
                asked.append(str(claimed.place.mission))
    return asked


def _with_hold(
    parts: Parts, queue: OpenQueue, memory: Memory, holding: Holding, report: Report, interrupts: Interrupts
) -> Result:
    unlock, one = False, None
    try:
        taken = _take(parts, queue, memory, holding, interrupts)
        if isinstance(taken, Empty):
            return replace(taken, claims=len(report.findings))
        one, entry = taken
        memory.item_is_next = one.item is None
        watched, refused = _run(parts, queue, holding, one, entry, interrupts)
        if watched.left:
            return Left(one.record.mission, one.record.run)
        unlock = watched.safe  # the end is in hand, or nothing was started, whatever becomes of settling
        return _settle(parts, queue, one, watched, refused)
    finally:
        if one is not None and one.keeper.told_to_go and not one.keeper.reaped:
            holding.leave()  # the keeper goes on, whatever went wrong here
        else:
            if one is not None and not one.keeper.told_to_go:
                launch.undo(one)  # only now: while its keeper lives, nobody else takes its claim for a gone one's
            holding.let_go(unlock=unlock)
        if one is not None:
            one.close()


def _take(
    parts: Parts, queue: OpenQueue, memory: Memory, holding: Holding, interrupts: Interrupts
) -> tuple[Try, Entry] | Empty:
    """Steps 3 to 5, for an entry or an item; both are looked at, and who had the last mission comes second."""
    taken = None if memory.item_is_next else _take_entry(parts, queue, memory, holding, interrupts)
    if taken is None or (isinstance(taken, Empty) and not interrupts.wanted):
        one = item_turn.begin(parts, queue, holding)
        if one is not None:
            return one, Entry(one.record.mission)
    return _take_entry(parts, queue, memory, holding, interrupts) if taken is None else taken


def _take_entry(
    parts: Parts, queue: OpenQueue, memory: Memory, holding: Holding, interrupts: Interrupts
) -> tuple[Try, Entry] | Empty:
    while not interrupts.wanted:
        chosen, passed = choose(parts, queue, memory)
        if chosen is None:
            return Empty(passed, queue.next_due())
        one = launch.record(parts, queue, holding, chosen)
        try:
            taken = launch.claim(queue, one, chosen.candidate)
        except BaseException:
            launch.undo(one)
            raise
        if taken:
            return one, chosen.entry
        holding.name_dispatcher()
    return Empty({})


def _run(
    parts: Parts, queue: OpenQueue, holding: Holding, one: Try, entry: Entry, interrupts: Interrupts
) -> tuple[Watched, Ending | None]:
    """Steps 6 to 8. The second value is why it could not be started."""
    prepared = launch.prepare(parts, queue, holding, one, entry)
    if interrupts.wanted:
        prepared = Ending(Outcome.NOT_STARTED, _TOLD_TO_STOP, not_started=NotStarted.REQUEST, counted=False)
    refused = prepared if isinstance(prepared, Ending) else launch.start(parts, queue, holding, one, prepared)
    if refused is not None:
        return Watched(left=False, safe=True), refused
    return watch_over(parts, queue, holding, one, interrupts), None


def _settle(parts: Parts, queue: OpenQueue, one: Try, watched: Watched, refused: Ending | None) -> Result:
    """Steps 9 and 10; the same code as recovery's."""
    assert one.claimed is not None
    told = ExitRecord(refused, True, None, None) if refused is not None else watched.told
    if not watched.safe:
        return IsBusy(f"leftovers of mission {one.record.mission} live on", recovered=False)
    settled = settle(parts, queue, Runs(parts.checkout, queue.kranz_fd), one.claimed, one.record, told=told)
    parts.engines.forget(one.record.mission)  # a mission may be a kranz
    if settled is None:  # somebody else settled it, or its claim was removed from outside
        ending = told.ending if told is not None else Ending(Outcome.INTERRUPTED, "its claim is gone")
        emit(Warned(f"{one.record.mission} {ending.outcome.value} (run {one.record.run}); its claim is there no more"))
        return Ran(one.record.mission, one.record.run, ending, Retire(), one.item is not None)
    if one.item is not None:
        one.item.ended(settled.ending, parts.jitter())
    return Ran(one.record.mission, one.record.run, settled.ending, settled.fate, one.item is not None)
