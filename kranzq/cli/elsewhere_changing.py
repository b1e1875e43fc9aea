"""The verbs that approve and take back missions, at a server: enqueue, cancel. The words are those of here."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from dataclasses import replace
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any

from kranzq.cli import elsewhere_told as told
from kranzq.cli.elsewhere import show
from kranzq.cli.elsewhere_waiting import refuse_inside_mission_of, wait_for_end
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

if TYPE_CHECKING:
    from kranzq.client.remote_missions import RemoteMissions

Json = dict[str, object]
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
        sentence = _sentence(missions.where, found, request)
        if not waits:
            say_json(found) if as_json else say(sentence)
            return 0
        if not as_json:
            complain(sentence)
        mission = MissionId(str(found["mission"]))
        after = before if found["created"] else None
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
        answer = _cancel(missions, MissionId(mission), why, wait=wait)
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
    for mission in found:
        try:
            done.append(_cancel(missions, mission, why, wait=wait))
        except ServerUnreachable:
            raise
        except KranzqError as fault:
            failed.append(NotCancelled(mission, fault.sentence))
            if not as_json:
                complain(f"{mission}: {fault.sentence}")
            continue
        if not as_json:
            say(*cancelled_text(done[-1]))
    if as_json:
        say_json({"cancelled": [one.to_json() for one in done], "failed": [one.to_json() for one in failed]})
    return EXIT_FAILED if failed else 0


def _cancel(missions: RemoteMissions, mission: MissionId, why: str, *, wait: bool) -> Answer:
    answer = told.read(missions.where, told.answer, missions.cancel(mission, why))
    while wait and answer.result == "wished":
        time.sleep(_POLL_S)
        seen = missions.one(mission)
        run = next((one for one in told.read(missions.where, told.runs, seen) if one.run == answer.run), None)
        if seen["state"] == "claimed" and (run is None or run.outcome is None):
            continue
        outcome = Outcome(run.outcome) if run is not None and run.outcome is not None else None
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


def _sentence(where: str, found: Json, request: Request) -> str:
    if "outcome" in found:
        return f"{found['mission']} has ended already ({found['outcome']}); nothing was changed."
    return approved_text(*told.read(where, lambda answer: told.approved(answer, request), found))


def _text(name: str, data: bytes) -> str:
    try:
        return data.decode()
    except UnicodeDecodeError as fault:
        raise UsageFault(
            f"--file {name} is no UTF-8 text (at byte {fault.start}), and a server takes texts only.",
            "Put such data where the mission finds it there, and name the place.",
        ) from fault
