"""The screens at given sizes: what they promise of widths, heights, order and hostile texts."""

from __future__ import annotations

import pytest

from kranzq.cli.screen.checkout import mebibytes, status_lines, without_colours
from kranzq.cli.screen.drawing import Size
from kranzq.cli.screen.entries import listing_lines
from kranzq.cli.tables import wide
from kranzq.dispatch.busy_seen import BusySeen
from kranzq.dispatch.listed import Listed, Listing
from kranzq.dispatch.overview import Overview, RunningSeen, last_line
from kranzq.dispatch.status import Notice, Status
from kranzq.liveness.usage import Usage
from kranzq.model.state import State

HOSTILE = "a\x1b[2J\x9b31mb\u202ec\nd\r漢字\u2066\x07[bold red]e[/]:smile:"
COUNTS = {"queued": 40, "waiting": 1, "parked": 1, "quarantined": 1, "inbox": 0, "unsigned": 0}
SIZES = [(20, 5), (40, 12), (80, 24), (200, 60)]


@pytest.fixture(autouse=True)
def plain(monkeypatch: pytest.MonkeyPatch) -> None:
    """No colours, unless a test wants them."""
    monkeypatch.setenv("NO_COLOR", "1")


def overview(*, at: float = 1000.0, cpu_s: float = 60.0, waiting: int = 40) -> Overview:
    """A checkout with one of everything, all of it hostile."""
    listing = Listing(
        (
            Listed("running", 1, 1, State.CLAIMED),
            *(Listed(f"m-{number}", 2, number, State.QUEUED) for number in range(2, waiting + 2)),
            Listed("later", 2, 90, State.WAITING, due_ms=5_000_000, note=HOSTILE),
            Listed("aside", 2, 91, State.PARKED, note=HOSTILE, advice="When it may run again: kranzq unpark aside"),
        ),
        ((HOSTILE, HOSTILE),),
        ((HOSTILE, HOSTILE),),
    )
    busy = BusySeen("keeper", "run 1 of mission running", "running", 1, at - 751, 1, 99, at - 3)
    warnings = (Notice("1 mission is parked", "See it", listed=True), Notice(HOSTILE, HOSTILE))
    status = Status(f"/srv/{HOSTILE}", None, busy, COUNTS, None, (), warnings=warnings, kranz=HOSTILE)
    return Overview(status, listing, RunningSeen(Usage(4, cpu_s, 300 * 2**20), HOSTILE), at)


def is_harmless(line: str) -> bool:
    """Whether a line of text alone moves nothing on a terminal and turns nothing around."""
    return not any(ord(letter) < 32 or 127 <= ord(letter) < 160 or letter in "\u202e\u2066" for letter in line)


@pytest.mark.parametrize(("columns", "rows"), SIZES)
def test_status_fits_and_nothing_on_it_acts(columns: int, rows: int) -> None:
    """No line is wider than the screen, there are no more lines than a usual one has, and all is clean."""
    shown = status_lines(overview(), Size(columns, rows))

    assert [line for line in shown if wide(line) > columns] == []
    assert [line for line in shown if not is_harmless(line)] == []
    assert rows < 24 or len(shown) <= rows


def test_status_names_a_person_s_work_first_and_each_thing_once() -> None:
    """What is listed one by one is not counted beside it; markup of another library is a text like any other."""
    shown = "\n".join(status_lines(overview(), Size(300)))

    titles = [shown.index(title) for title in ("NEEDS YOU", "RUNS", "WAITS", "daemon")]
    assert titles == sorted(titles)
    assert "1 mission is parked" not in shown
    assert "aside is parked: a\\x1b[2J\\x9b31mb\\u202ec\\nd\\r漢字\\u2066\\x07[bold red]e[/]:smile:" in shown
    assert "kranzq unpark aside" in shown
    assert "+  m-2   next, when running is done" in shown
    assert "-  m-3   behind m-2\n" in shown
    assert "-  m-5   behind m-2 and 2 more" in shown
    assert "and 32 more; see all with: kranzq list" in shown


def test_what_runs_tells_how_long_and_what_it_uses() -> None:
    """One look tells the time used, two tell how busy it was in between."""
    once = "\n".join(status_lines(overview(), Size(300)))
    again = "\n".join(status_lines(overview(at=1002.0, cpu_s=61.0), Size(300), overview()))

    assert "running  for 12 min 31 s, run 1, CPU 1 min, memory 300 MiB, 4 processes, output 3 s ago" in once
    assert "CPU 50% (1 min 1 s)" in again


@pytest.mark.parametrize(("columns", "rows"), SIZES)
def test_a_list_fits_and_nothing_on_it_acts(columns: int, rows: int) -> None:
    """As for the status; what does not fit is counted."""
    shown = listing_lines(overview().listing, Size(columns, rows), parked=False)

    assert [line for line in shown if wide(line) > columns] == []
    assert [line for line in shown if not is_harmless(line)] == []


def test_a_list_printed_once_leaves_nothing_out() -> None:
    """There is room below; what is parked comes first, then what runs, then the rest in its order."""
    shown = listing_lines(overview().listing, Size(80), parked=False)
    ids = [line.split()[1] for line in shown if line[:4] in {" !  ", " >  ", " -  "}]

    assert ids[:3] == ["aside", "running", "m-2"]
    assert len(ids) == 43


def test_colours_are_there_when_they_are_wanted(monkeypatch: pytest.MonkeyPatch) -> None:
    """And only then; the text is the same."""
    plain = status_lines(overview(), Size(80))
    monkeypatch.delenv("NO_COLOR")
    monkeypatch.setenv("TERM", "xterm-256color")
    coloured = status_lines(overview(), Size(80))

    assert any("\x1b[" in line for line in coloured)
    assert [without_colours(line).rstrip() for line in coloured] == plain


@pytest.mark.parametrize(
    ("data", "line"),
    [
        (b"", ""),
        (b"one\ntwo\n\n  \n", "two"),
        (b"begin\n10%\r20%\r30%\r", "30%"),
        (b"\xff\xfe\n", "��"),
        (b"\x1b[32mgreen\x1b[0m", "\x1b[32mgreen\x1b[0m"),
    ],
)
def test_the_last_line_is_the_last_that_says_anything(data: bytes, line: str) -> None:
    """Also of a progress bar, and of bytes that are no text."""
    assert last_line(data) == line


def test_only_whole_colours_are_left_out() -> None:
    """Whatever else drives a terminal stays to be shown escaped."""
    assert without_colours("\x1b[1;32mok\x1b[0m \x1b[2J \x1b[3") == "ok \x1b[2J \x1b[3"


def test_memory_is_told_in_its_unit() -> None:
    """Two units are enough."""
    assert (mebibytes(300 * 2**20), mebibytes(3 * 2**29)) == ("300 MiB", "1.5 GiB")
