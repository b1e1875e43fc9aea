"""The record of one run: `run.json` is the dispatcher's, `exit.json` the keeper's, both replaced whole.

A run belongs to a claim only if its record names that claim. States only grow: claiming, starting, running, ended; a
library's claim begins as running. What cannot be read counts as no record.
"""

from __future__ import annotations

from collections.abc import Mapping

from kranzq import __version__
from kranzq.errors import BadMissionId
from kranzq.model.frozen import frozen
from kranzq.model.ids import MissionId
from kranzq.model.item_run import ItemOfRun
from kranzq.model.json_object import json_object, lined
from kranzq.model.outcome import Ending, Fate, NotStarted, Outcome, fate_from_json, fate_to_json
from kranzq.model.process import ProcessIdentity
from kranzq.model.tree import Tree

STATES = ("claiming", "starting", "running", "ended")
FORMAT = 1
_NONCE = 32
_HEX = frozenset("0123456789abcdef")
_COMMAND_SHOWN = 1000
_NOT_STARTED = {kind.value: kind for kind in NotStarted}


@frozen
class EntryIdentity:
    """Which entry a run took: `id` where it has one, else name, inode and birth time tell."""

    id: str | None
    name: str
    inode: int
    born_ns: int | None


@frozen
class RunRecord:
    """One run as `run.json` keeps it. Times are RFC 3339, `fate` is set once `state` is ended."""

    kind: str
    mission: MissionId
    run: int
    state: str
    nonce: str
    entry: EntryIdentity
    claim: str
    number: int
    keeper: ProcessIdentity
    lock: str = ""
    command: tuple[str, ...] = ()
    process: tuple[int, int] | None = None
    created_at: str = ""
    started_at: str | None = None
    ended_at: str | None = None
    outcome: Outcome | None = None
    fate: Fate | None = None
    reason: str = ""
    exit_code: int | None = None
    signal: int | None = None
    counted: bool = True
    not_started: NotStarted | None = None
    retries: int = 0
    tree: Tree | None = None
    version: str = __version__
    item: ItemOfRun | None = None
    """The item of the work queue that it runs, if it is one's; then no entry was taken."""

    @property
    def began(self) -> bool:
        """Whether the keeper may have been told to go."""
        return self.state != STATES[0]


def render(record: RunRecord) -> bytes:
    """The content of `run.json`."""
    shown: dict[str, object] = {
        "version": FORMAT,
        "kranzq": record.version,
        "kind": record.kind,
        "mission": record.mission,
        "run": record.run,
        "state": record.state,
        "nonce": record.nonce,
        "entry": {
            "id": record.entry.id,
            "name": record.entry.name,
            "inode": record.entry.inode,
            "bornNs": record.entry.born_ns,
        },
        "claim": record.claim,
        "number": record.number,
        "keeper": record.keeper.to_json(),
        "lock": record.lock,
        "command": _shortened(record.command),
        "process": None if record.process is None else {"pid": record.process[0], "startTicks": record.process[1]},
        "createdAt": record.created_at,
        "startedAt": record.started_at,
        "endedAt": record.ended_at,
        "outcome": record.outcome.value if record.outcome is not None else None,
        "fate": fate_to_json(record.fate) if record.fate is not None else None,
        "reason": record.reason[:_COMMAND_SHOWN],
        "exitCode": record.exit_code,
        "signal": record.signal,
        "counted": record.counted,
        "notStarted": record.not_started.value if record.not_started is not None else None,
        "retries": record.retries,
        "tree": record.tree.to_json() if record.tree is not None else None,
    }
    if record.item is not None:
        shown["item"] = record.item.to_json()
    return lined(shown, " ").encode()


def parse(data: bytes) -> RunRecord | None:
    """The record in a file's bytes, or None when it is none: nothing is believed in part."""
    value = json_object(data)
    if value is None:
        return None
    keeper = ProcessIdentity.from_json(value.get("keeper"))
    entry, nonce, state = _entry(value.get("entry")), value.get("nonce"), value.get("state")
    claim, kind, mission = value.get("claim"), value.get("kind"), value.get("mission")
    run, number = value.get("run"), value.get("number")
    if keeper is None or entry is None or not is_nonce(nonce) or state not in STATES:
        return None
    if not isinstance(claim, str) or not isinstance(kind, str) or not isinstance(mission, str):
        return None
    if type(run) is not int or type(number) is not int:
        return None
    fate = fate_from_json(value.get("fate"))
    outcome = _outcome(value.get("outcome"))
    if state == STATES[-1] and (fate is None or outcome is None):
        return None
    try:
        name = MissionId(mission)
    except BadMissionId:
        return None
    command = value.get("command")
    return RunRecord(
        kind=kind,
        mission=name,
        run=run,
        state=state,
        nonce=str(nonce),
        entry=entry,
        claim=claim,
        number=number,
        keeper=keeper,
        lock=_text(value, "lock"),
        command=tuple(str(part) for part in command) if isinstance(command, list) else (),
        process=_process(value.get("process")),
        created_at=_text(value, "createdAt"),
        started_at=_text(value, "startedAt") or None,
        ended_at=_text(value, "endedAt") or None,
        outcome=outcome,
        fate=fate,
        reason=_text(value, "reason"),
        exit_code=_whole(value, "exitCode"),
        signal=_whole(value, "signal"),
        counted=value.get("counted") is not False,
        not_started=_NOT_STARTED.get(_text(value, "notStarted")),
        retries=_whole(value, "retries") or 0,
        tree=Tree.from_json(value.get("tree")),
        version=_text(value, "kranzq"),
        item=ItemOfRun.from_json(value.get("item")),
    )


@frozen
class ExitRecord:
    """What the keeper recorded. `complete` tells that its last act is in it: survivors were dealt with."""

    ending: Ending
    complete: bool
    started_at: str | None
    ended_at: str | None
    survivors: tuple[Mapping[str, object], ...] = ()


def parse_exit(data: bytes, nonce: str) -> ExitRecord | None:
    """The end in `exit.json`, or None when it is none of the run with this nonce."""
    value = json_object(data)
    if value is None or value.get("nonce") != nonce or not isinstance(value.get("started"), bool):
        return None
    survivors = value.get("survivors")
    listed = [one for one in survivors if isinstance(one, dict)] if isinstance(survivors, list) else []
    return ExitRecord(
        ending=_ending(value),
        complete=isinstance(survivors, list),
        started_at=_text(value, "startedAt") or None,
        ended_at=_text(value, "endedAt") or None,
        survivors=tuple(listed),
    )


def is_nonce(value: object) -> bool:
    """Whether a value is exactly 32 lowercase hex digits."""
    return isinstance(value, str) and len(value) == _NONCE and _HEX.issuperset(value)


_WHYS = {
    "cancel": Outcome.CANCELLED,
    "timeout": Outcome.TIMED_OUT,
    "return": Outcome.INTERRUPTED,
    "terminated": Outcome.INTERRUPTED,
    "lease": Outcome.INTERRUPTED,
}
_DEFERRED = 75


def _ending(value: dict[str, object]) -> Ending:
    code, signal, reason = _whole(value, "exitCode"), _whole(value, "signal"), _text(value, "reason")
    counted = value.get("counted") is not False
    if value.get("started") is False:
        kind = _NOT_STARTED.get(_text(value, "notStarted"), NotStarted.ENVIRONMENT)
        cancelled = value.get("why") == "cancel"
        outcome = Outcome.CANCELLED if cancelled else Outcome.NOT_STARTED
        return Ending(outcome, reason, not_started=kind, counted=False, cancel_wished=cancelled)
    why = value.get("why")
    if isinstance(why, str) and why in _WHYS:
        return Ending(_WHYS[why], reason, code, signal, counted=counted, cancel_wished=why == "cancel")
    if signal is None and code == 0:
        return Ending(Outcome.SUCCEEDED, reason, code)
    if signal is None and code == _DEFERRED:
        return Ending(Outcome.DEFERRED, reason or "it asked to be run later (exit code 75)", code)
    return Ending(Outcome.FAILED, reason or _how(code, signal), code, signal)


def _how(code: int | None, signal: int | None) -> str:
    return f"killed by signal {signal}" if signal is not None else f"exit code {code}"


def _entry(value: object) -> EntryIdentity | None:
    if not isinstance(value, dict):
        return None
    entry_id, name, inode, born = value.get("id"), value.get("name"), value.get("inode"), value.get("bornNs")
    if not isinstance(name, str) or type(inode) is not int or not (entry_id is None or isinstance(entry_id, str)):
        return None
    return EntryIdentity(entry_id, name, inode, born if type(born) is int else None)


def _process(value: object) -> tuple[int, int] | None:
    if not isinstance(value, dict):
        return None
    pid, ticks = value.get("pid"), value.get("startTicks")
    return (pid, ticks) if type(pid) is int and type(ticks) is int else None


def _outcome(value: object) -> Outcome | None:
    return next((outcome for outcome in Outcome if outcome.value == value), None)


def _text(value: Mapping[str, object], key: str) -> str:
    found = value.get(key)
    return found if isinstance(found, str) else ""


def _whole(value: Mapping[str, object], key: str) -> int | None:
    found = value.get(key)
    return found if type(found) is int else None


def _shortened(command: tuple[str, ...]) -> list[str]:
    """A record stays small: what does not fit is left out and marked."""
    shown, left = [], _COMMAND_SHOWN
    for part in command:
        shown.append(part if len(part) <= left else part[:left] + "…")
        left -= len(part)
        if left <= 0:
            return [*shown, "…"] if len(shown) < len(command) else shown
    return shown
