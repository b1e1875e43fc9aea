"""The verbs that approve and take back missions, at a server: enqueue, cancel. The words are those of here."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from fnmatch import fnmatchcase
from functools import partial
from typing import TYPE_CHECKING, Any

from kranzq.cli import elsewhere_told as told
from kranzq.cli.elsewhere import show
from kranzq.cli.elsewhere_waiting import Unattended, refuse_inside_mission_of, wait_for_end
from kranzq.cli.queueing import approved_text
from kranzq.cli.say import complain, say, say_json
from kranzq.cli.showing import end_json, end_text
from kranzq.cli.which_server import missions_at
from kranzq.cli.withdrawing import agreed, cancelled_text
from kranzq.dispatch.cancel import Answer, NotCancelled, is_pattern
from kranzq.dispatch.request import Request, check
from kranzq.errors import EXIT_BUSY, EXIT_FAILED, KranzqError, NotFound, ServerUnreachable, UsageFault
from kranzq.model.ids import MissionId
from kranzq.model.outcome import Outcome
from kranzq.model.state import State

if TYPE_CHECKING:
    from kranzq.client.remote_missions import RemoteMissions
    from kranzq.dispatch.approve import Approved

_POLL_S = 0.2


def enqueue(server: str, request: Request, given: Mapping[str, Any], *, wait: bool, follow: bool, as_json: bool) -> int:
    """Approve a mission in the name of the server's user; the exit code. `given` has the texts as they were typed."""
    check(request)
    asked = {name: given[name] for name in ("priority", "ticket", "retries", "cwd", "again", "once", "future")}
    asked |= {name: given[name] for name in ("timeout", "source", "not_before")}
    asked |= {"mission": request.mission, "command": list(request.command), "env": dict(request.env)}
    asked |= {"after": list(request.after), "files": {name: _text(name, data) for name, data in request.files.items()}}
    with missions_at(server) as missions:
        waits = wait or follow
        if waits:
            refuse_inside_mission_of(missions, "enqueue --wait", os.environ)
        before = _last_run(missions, request.mission) if waits else 0
        found = missions.enqueue(asked)
        made, sentence = told.read(missions.where, lambda there: _approved(there, request), found)
        if not waits:
            say_json(found) if as_json else say(sentence)
            return 0
        if not as_json:
            complain(sentence)
        mission, after = made.entry.mission, before if made.created else None
        end = wait_for_end(missions, mission, show=show if follow else None, after_run=after)
    if as_json:
        say_json(found | {"end": end_json(mission, end)})
    else:
        complain(end_text(mission, end))
    return 0 if end.succeeded else EXIT_BUSY if end.state in {"parked", "quarantined"} else EXIT_FAILED


def cancel(server: str, mission: str, why: str, *, wait: bool, yes: bool, as_json: bool) -> int:
    """Take an approval back, or all that match; the exit code."""
    with missions_at(server) as missions:
        if wait:
            refuse_inside_mission_of(missions, "cancel --wait", os.environ)
        if is_pattern(mission):
            return _cancel_many(missions, mission, why, wait=wait, yes=yes, as_json=as_json)
        answer = _cancel(missions, MissionId(mission), why)
        if wait:
            answer = _until_ended(missions, answer)
    if as_json:
        say_json(answer.to_json())
    else:
        say(*cancelled_text(answer))
    return 0


def _cancel_many(missions: RemoteMissions, pattern: str, why: str, *, wait: bool, yes: bool, as_json: bool) -> int:
    """One that cannot be cancelled does not stop the others; a server that is away does."""
    there = told.read(missions.where, told.names, missions.listing(everything=True))
    found = {mission: state for mission, state in there.items() if fnmatchcase(mission, pattern)}
    if not found:
        raise NotFound(f"Nothing in the queue matches {pattern!r}.", "See what there is: kranzq list --all")
    if not yes and not agreed(pattern, found, as_json=as_json):
        complain("Nothing was changed.")
        return EXIT_FAILED
    done, failed = list[Answer](), list[NotCancelled]()
    try:
        for answer in _cancel_each(missions, list(found), why, wait=wait):
            if isinstance(answer, Answer):
                done.append(answer)
            else:
                failed.append(answer)
            if not as_json:
                _say(answer)
    finally:  # what had happened before the server went away is told
        if as_json:
            say_json({"cancelled": [one.to_json() for one in done], "failed": [one.to_json() for one in failed]})
    return EXIT_FAILED if failed else 0


def _say(answer: Answer | NotCancelled) -> None:
    if isinstance(answer, Answer):
        say(*cancelled_text(answer))
    else:
        complain(f"{answer.mission}: {answer.why}")


def _cancel_each(
    missions: RemoteMissions, names: Sequence[MissionId], why: str, *, wait: bool
) -> Iterator[Answer | NotCancelled]:
    """All are asked before one is waited for. Raises ServerUnreachable, behind what was asked for until then."""
    wished = list[Answer]()
    try:
        for mission in names:
            answer = _tried(mission, lambda name=mission: _cancel(missions, name, why))  # type: ignore[misc]
            if wait and isinstance(answer, Answer) and answer.result == "wished":
                wished.append(answer)
            else:
                yield answer
        while wished:
            yield _tried(wished[0].mission, lambda: _until_ended(missions, wished[0]))
            wished.pop(0)
    except ServerUnreachable:
        yield from wished
        raise


def _tried(mission: MissionId, act: Callable[[], Answer]) -> Answer | NotCancelled:
    try:
        return act()
    except ServerUnreachable:
        raise
    except KranzqError as fault:
        return NotCancelled(mission, fault.sentence)


def _cancel(missions: RemoteMissions, mission: MissionId, why: str) -> Answer:
    return told.read(missions.where, told.answer, missions.cancel(mission, why))


def _until_ended(missions: RemoteMissions, answer: Answer) -> Answer:
    """What became of a run that was asked to end, once it has."""
    unattended = Unattended(missions, answer.mission)
    while answer.result == "wished":
        time.sleep(_POLL_S)
        seen = missions.one(answer.mission)
        state = told.read(missions.where, told.state, seen)
        outcome = told.read(missions.where, partial(told.outcome_in, run=answer.run), seen)
        if state is State.CLAIMED and outcome is None:
            unattended.tell()
            continue
        result = "cancelled" if outcome is Outcome.CANCELLED else "ended"
        answer = replace(answer, result=result, outcome=outcome)
    return answer


def _last_run(missions: RemoteMissions, mission: MissionId | None) -> int:
    """The mission's last run so far; 0: it has none."""
    if mission is None:
        return 0
    try:
        found = told.read(missions.where, told.runs, missions.one(mission))
    except NotFound:
        return 0
    return max((one.run for one in found), default=0)


def _approved(found: Mapping[str, Any], request: Request) -> tuple[Approved, str]:
    """What is queued now, and the sentence that says so."""
    approved, asked = told.approved(found, request)
    if "outcome" in found:
        return approved, f"{approved.entry.mission} has ended already ({found['outcome']}); nothing was changed."
    return approved, approved_text(approved, asked)


def _text(name: str, data: bytes) -> str:
    try:
        return data.decode()
    except UnicodeDecodeError as fault:
        raise UsageFault(
            f"--file {name} is no UTF-8 text (at byte {fault.start}), and a server takes texts only.",
            "Put such data where the mission finds it there, and name the place.",
        ) from fault
