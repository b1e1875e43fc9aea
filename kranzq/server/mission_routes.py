"""Missions on `/v1/missions…` and `/v1/status`: the verbs of the command line, with the JSON of their `--json`.

They are those of the checkout in which the server was started. To enqueue is to approve in the name of the server's
user, with a command of one's own if one likes: so it needs the scope that may do everything.
"""

from __future__ import annotations

import re

from starlette.responses import Response

from kranzq.errors import NotFound, UsageFault
from kranzq.model.agents import Scope
from kranzq.server import mission_bodies as forms
from kranzq.server.errors import HttpFault
from kranzq.server.live import missions
from kranzq.server.plain import plain
from kranzq.server.routing import Call, Route
from kranzq.wiring.approving import request_of
from kranzq.wiring.missions import MOST_LOG, MOST_RUNS, Missions

_RANGE = re.compile(r"bytes=(?:([0-9]{1,18})-([0-9]{0,18})|-([0-9]{1,18}))", re.ASCII)


def list_(call: Call) -> object:
    """What waits, in order."""
    said: forms.ListQuery = call.query
    return plain(missions_of(call).listing(parked=said.parked, everything=said.all).to_json())


def status(call: Call) -> object:
    """The state of the checkout."""
    return plain(missions_of(call).status().to_json())


def show(call: Call) -> object:
    """One mission."""
    return plain(missions_of(call).one(call.path["mission"]).to_json())


def history(call: Call) -> object:
    """How runs ended."""
    said: forms.HistoryQuery = call.query
    if not 1 <= said.last <= MOST_RUNS:
        raise UsageFault(f"The newest {said.last} runs are none, or too many.", f"Ask for 1 to {MOST_RUNS}.")
    runs = missions_of(call).history(said.mission, last=said.last, unended=said.all)
    return plain({"runs": [run.to_json() for run in runs]})


def why(call: Call) -> object:
    """Why it does not run."""
    return plain(missions_of(call).why(call.path["mission"]).to_json())


def enqueue(call: Call) -> object:
    """Approve a mission."""
    said: forms.NewMission = call.body
    files = {name: text.encode() for name, text in said.files.items()}
    request = request_of(
        said.mission,
        priority=said.priority,
        command=said.command,
        ticket=said.ticket,
        timeout=said.timeout,
        retries=said.retries,
        env=said.env,
        cwd=said.cwd,
        again=said.again,
        once=said.once,
        source=said.source,
        files=files,
        not_before=said.not_before,
        after=said.after,
        future=said.future,
    )
    return plain(missions_of(call).enqueue(request).to_json())


def cancel(call: Call) -> object:
    """Take an approval back."""
    said: forms.MissionCancel | None = call.body
    return plain(missions_of(call).cancel(call.path["mission"], said.why if said is not None else "").to_json())


def log(call: Call) -> object:
    """Bytes of a run's output."""
    said: forms.LogQuery = call.query
    asked = call.headers.get("range")
    if not 1 <= said.limit <= MOST_LOG:
        raise UsageFault(f"A limit of {said.limit} bytes is none.", f"Ask for 1 to {MOST_LOG}.")
    offset, most = (said.offset, said.limit) if asked is None else _range(asked)
    piece = missions_of(call).log(call.path["mission"], run=said.run, offset=offset, most=most)
    told = {
        "content-type": "application/octet-stream",
        "content-disposition": "attachment",
        "accept-ranges": "bytes",
        "x-log-run": str(piece.run),
        "x-log-offset": str(piece.start),
        "x-log-next": str(piece.next),
        "x-log-size": str(piece.size),
        "x-log-ended": "true" if piece.over else "false",
    }
    if asked is None:
        return Response(piece.data, 200, told)
    if not piece.data:
        raise HttpFault(
            416,
            "range",
            "There is nothing in that range.",
            "Ask again later, or from an earlier byte on.",
            {"content-range": f"bytes */{piece.size}"} | {name: told[name] for name in told if name[:2] == "x-"},
        )
    told["content-range"] = f"bytes {piece.start}-{piece.next - 1}/{piece.size}"
    return Response(piece.data, 206, told)


def _range(text: str) -> tuple[int, int]:
    """Where a range begins, and how long it is. Raises HttpFault."""
    found = _RANGE.fullmatch(text.strip())
    if found is None:
        raise HttpFault(400, "range", "The range is not understood.", "Send one: Range: bytes=FIRST-LAST")
    if found[3] is not None:
        return (-int(found[3]), MOST_LOG) if int(found[3]) else (2**62, 1)
    first = int(found[1])
    last = int(found[2]) if found[2] else first + MOST_LOG - 1
    if last < first:
        raise HttpFault(400, "range", "The range ends before it begins.", "Send one: Range: bytes=FIRST-LAST")
    return first, last - first + 1


def missions_of(call: Call) -> Missions:
    """Those that this server serves. Raises NotFound where there are none."""
    found = call.service.shared(missions)
    if found is None:
        raise NotFound(
            f"The server serves no missions: {call.service.directory} is in no checkout.",
            "Start it in one, or with: kranzq -C DIR serve",
        )
    return found


_NONE = (404,)
_WRONG = (400, 404, 422)

ROUTES: tuple[Route, ...] = (
    Route(
        "GET",
        "/v1/missions",
        list_,
        "The missions that wait or run, in order.",
        Scope.READ,
        forms.Listing,
        query=forms.ListQuery,
        statuses=_WRONG,
        is_shared=True,
    ),
    Route(
        "GET",
        "/v1/status",
        status,
        "What runs, what waits, and what needs a person.",
        Scope.READ,
        forms.Status,
        statuses=(404,),
        is_shared=True,
    ),
    Route(
        "GET",
        "/v1/history",
        history,
        "How runs ended, newest last.",
        Scope.READ,
        forms.History,
        query=forms.HistoryQuery,
        statuses=_WRONG,
        is_shared=True,
    ),
    Route(
        "POST",
        "/v1/missions",
        enqueue,
        "Approve a mission in the name of the server's user; it may bring a command of its own.",
        Scope.OPERATE,
        forms.Approved,
        forms.NewMission,
        statuses=(403, 404, 409),
    ),
    Route(
        "GET",
        "/v1/missions/{mission}",
        show,
        "Where a mission is, and its runs.",
        Scope.READ,
        forms.Mission,
        statuses=(400, 404),
        is_shared=True,
    ),
    Route(
        "GET",
        "/v1/missions/{mission}/why",
        why,
        "Why a mission does not run, or how it ended.",
        Scope.READ,
        forms.Why,
        statuses=(400, 404),
        is_shared=True,
    ),
    Route(
        "GET",
        "/v1/missions/{mission}/log",
        log,
        "Bytes of a run's output; the headers X-Log-… say which, and where to go on.",
        Scope.READ,
        bytes,
        query=forms.LogQuery,
        statuses=(206, *_WRONG, 416),
        media="application/octet-stream",
    ),
    Route(
        "POST",
        "/v1/missions/{mission}/cancel",
        cancel,
        "Take the approval of a mission back: remove what waits, ask what runs to end.",
        Scope.OPERATE,
        forms.MissionCancelled,
        forms.MissionCancel,
        body_optional=True,
        statuses=(403, 404, 409),
    ),
)
