"""The screen of `kranzq status`: what needs a person, what runs, what waits and why, who dispatches."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from kranzq.cli.say import duration, local_time
from kranzq.cli.screen.drawing import (
    PERSON,
    QUIET,
    RUNS,
    TITLE,
    WAITS,
    Size,
    columned,
    cut,
    fitting,
    marked,
    rendered,
    said,
)
from kranzq.cli.showing import daemon_text, remark, runs_text
from kranzq.model.state import State

if TYPE_CHECKING:
    from rich.text import Text

    from kranzq.dispatch.listed import Listed
    from kranzq.dispatch.overview import Overview, RunningSeen
    from kranzq.dispatch.status import Status

_MOST_NOTICES, _MOST_WAITING = 40, 10
_LEAST_ROOM = 4
_COLOURS = ("\x1b[", "m")
_SHARES = 2


def status_lines(seen: Overview, size: Size, before: Overview | None = None, *, where: str = "") -> list[str]:
    """The screen. `before` is an earlier look: what was used between both tells how busy the mission is.

    `where` is the server that was asked, if one was.
    """
    at = f" at {where}" if where else ""
    by = f"  kranzq {seen.version}, {local_time(seen.at)}"
    head = rendered(cut((seen.status.repo, TITLE), at, (by, QUIET)), size.columns)
    runs = [*_title("RUNS", "", size), *_runs(seen, before, size)]
    foot = rendered(cut(("daemon   ", TITLE), daemon_text(seen.status.daemon, seen.at)), size.columns)
    person, waiting = list(_notices(seen, size)), _waiting(seen)
    room = None if size.lines is None else max(_LEAST_ROOM, size.lines - len(head) - len(runs) - len(foot) - 2)
    lines = head
    if person:
        most = sum(map(len, person[:_MOST_NOTICES])) if room is None else room // _SHARES if waiting else room
        fit, left = fitting(person, most)
        rest = cut((f"   and {left} more; see all with: kranzq list --all", PERSON))
        more = rendered(rest, size.columns) if left else []
        lines = [*lines, *_title("NEEDS YOU", "", size, PERSON), *fit, *more]
        room = None if room is None else max(1, room - len(fit) - len(more) - 1)
    return [*lines, *runs, *_waits(seen, waiting, size, room), *foot]


def _title(title: str, beside: str, size: Size, style: str = TITLE) -> list[str]:
    return rendered(cut((title, style), f"  {beside}" if beside else ""), size.columns)


def _notices(seen: Overview, size: Size) -> Iterator[list[str]]:
    """What a person should look at, each as lines: first what never moves by itself."""
    found = [(f"{one.mission} is parked: {one.note}", one.advice) for one in seen.listing.entries if _is_parked(one)]
    found += [(f"{name} is quarantined: {why}", "") for name, why in seen.listing.quarantined]
    found += [(f"{name} is no entry: {why}", "") for name, why in seen.listing.bad]
    if seen.status.paused is not None:
        found.append((f"paused: {seen.status.paused}", "Go on with: kranzq resume"))
    found += [(one.text, one.advice) for one in seen.status.warnings if not one.listed]
    for text, advice in found:
        lines = rendered(marked((" ! ", PERSON), said(text)), size.columns)
        yield [*lines, *(rendered(marked(("   ", QUIET), said((advice, QUIET))), size.columns) if advice else [])]


def _is_parked(one: Listed) -> bool:
    return one.state is State.PARKED


def _runs(seen: Overview, before: Overview | None, size: Size) -> list[str]:
    busy, now = seen.status.busy, seen.at
    if busy is None:
        return rendered(said(("   nothing", QUIET)), size.columns)
    if busy.by not in {"keeper", "claim"} or busy.mission is None:
        return rendered(marked((" > ", RUNS), said(runs_text(busy, now))), size.columns)
    parts = [f"for {duration(now - busy.since)}"] if busy.since is not None else []
    parts += [f"run {busy.run}"] if busy.run is not None else []
    parts += _used(seen.running, _running_before(seen, before), seen.at - before.at if before is not None else 0.0)
    parts += [f"output {duration(now - busy.last_output)} ago" if busy.last_output is not None else "no output yet"]
    parts += [f"of user {busy.user}"] if busy.user is not None else []
    parts += [f"kranz says {seen.status.kranz}"] if seen.status.kranz is not None else []
    lines = rendered(marked((" > ", RUNS), said((busy.mission, RUNS + " bold"), "  " + ", ".join(parts))), size.columns)
    if seen.running is not None and seen.running.last_line:
        lines += rendered(cut(("   | ", QUIET), without_colours(seen.running.last_line)), size.columns)
    return lines


def _running_before(seen: Overview, before: Overview | None) -> RunningSeen | None:
    """What the same run did at an earlier look."""
    if before is None or before.status.busy is None or seen.status.busy is None:
        return None
    same = (before.status.busy.mission, before.status.busy.run) == (seen.status.busy.mission, seen.status.busy.run)
    return before.running if same else None


def _used(now: RunningSeen | None, before: RunningSeen | None, seconds: float) -> list[str]:
    """CPU and memory of the mission's processes; how busy they are, where there were two looks."""
    if now is None or now.usage is None:
        return []
    cpu = f"CPU {duration(now.usage.cpu_s)}"
    if before is not None and before.usage is not None and seconds > 0:
        cpu = f"CPU {max(0.0, now.usage.cpu_s - before.usage.cpu_s) / seconds:.0%} ({duration(now.usage.cpu_s)})"
    count = now.usage.processes
    return [cpu, f"memory {mebibytes(now.usage.memory)}", f"{count} process{'es' if count != 1 else ''}"]


def mebibytes(size: int) -> str:
    """An amount of memory for people."""
    mib = size / 2**20
    return f"{mib / 1024:.1f} GiB" if mib >= 1024 else f"{mib:.0f} MiB"  # noqa: PLR2004 - what makes a GiB


def without_colours(text: str) -> str:
    """The text without whole sequences that only set colours; whatever else drives a terminal is shown, not obeyed."""
    first, *parts = text.split(_COLOURS[0])
    kept = first
    for part in parts:
        numbers, end, rest = part.partition(_COLOURS[1])
        is_colour = bool(end) and all(letter in "0123456789;:" for letter in numbers)
        kept += rest if is_colour else _COLOURS[0] + part
    return kept


def _waiting(seen: Overview) -> list[Listed]:
    return [one for one in seen.listing.entries if one.state not in {State.CLAIMED, State.PARKED}]


def _waits(seen: Overview, waiting: Sequence[Listed], size: Size, room: int | None) -> list[str]:
    counted = ((seen.status.counts[word], word) for word in ("queued", "waiting", "inbox"))
    counts = ", ".join(f"{number} {word}" for number, word in counted if number)
    title = _title("WAITS", counts, size)
    if not waiting:
        return [*title, *rendered(said(("   nothing", QUIET)), size.columns)]
    most = _MOST_WAITING if room is None else max(1, room - 1)
    shown = list(waiting) if len(waiting) <= most else list(waiting[: max(1, most - 1)])
    rows = list(_rows(seen, shown))
    lines = rendered(columned(rows, size.columns, folded=1, room=2), size.columns)
    left = len(waiting) - len(shown)
    if room is not None and len(lines) + bool(left) > most:  # wide ids took more lines than one each
        lines = lines[: max(1, most - bool(left))]
    more = rendered(cut((f"   and {left} more; see all with: kranzq list", QUIET)), size.columns) if left else []
    return [*title, *lines, *more]


def _rows(seen: Overview, waiting: Sequence[Listed]) -> Iterator[tuple[Text, Text, Text]]:
    """Each that waits, with the reason: its own, or whoever goes before it."""
    ahead: list[str] = []
    for one in waiting:
        why = remark(one)
        if one.state is State.QUEUED and not why:
            others = f" and {len(ahead) - 1} more" if len(ahead) > 1 else ""
            why, style = (f"behind {ahead[0]}{others}", "") if ahead else (_next(seen.status), WAITS)
            ahead.append(one.mission)
        else:
            style = ""
        yield said((" +" if style else " -", style)), said((one.mission, style)), cut((why, style))


def _next(status: Status) -> str:
    """What the first of those waits for that nothing of its own holds up."""
    if status.paused is not None:
        return "next; paused"
    if status.busy is not None:
        return f"next, when {status.busy.mission or 'the checkout'} is {'done' if status.busy.mission else 'free'}"
    return "next" if status.daemon is not None else "next; no daemon runs"
