"""The arithmetic of the benchmarks and their page: small examples that can be checked by head."""

from __future__ import annotations

import dataclasses
import json
import xml.etree.ElementTree as ET
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.benchmarks import figures, page
from tests.benchmarks.asked import Result, Row, Table, Target
from tests.benchmarks.charts import chart, figure
from tests.benchmarks.peers.known import adapters
from tests.benchmarks.rounds import Subject, measure

WHAT = {"a": "from here to there"}


def test_a_ratio_is_taken_round_by_round() -> None:
    """A machine that is three times slower in one round changes no ratio."""
    floor = [[1.0, 1.0, 1.0], [3.0, 3.0, 3.0]]
    ours = [[2.0, 2.0, 9.0], [6.0, 6.0, 6.0]]

    row = figures.row_of("ours", "ours", ours, floor)

    assert (row.ratio, row.ratio_low, row.ratio_high) == (2.0, 2.0, 2.0)
    assert (row.median, row.p99, row.samples) == (6.0, 9.0, 6)


def test_a_subject_without_samples_is_absent() -> None:
    """It stays in the table, with a reason."""
    row = figures.row_of("peer", "peer", [])

    assert (row.kind, row.median, row.note) == ("absent", None, "gave no figure")


def test_spread_is_the_middle_half() -> None:
    """One wild round of five does not count, and a single one has none."""
    assert figures.spread([10.0, 10.0, 10.0, 10.0, 500.0]) == 0
    assert figures.spread([8.0, 9.0, 10.0, 11.0, 12.0]) == pytest.approx(0.2)
    assert figures.spread([10.0]) == 0


@pytest.mark.parametrize(
    ("measured", "at_most", "verdict"),
    [
        (1.3, True, "met"),
        (1.4, True, "acceptable"),
        (1.8, True, "missed"),
        (None, True, "not measured"),
        (1.8, False, "met"),
        (1.5, False, "acceptable"),
        (1.2, False, "missed"),
    ],
)
def test_a_figure_is_judged(measured: float | None, at_most: bool, verdict: str) -> None:  # noqa: FBT001
    """A limit itself is within it."""
    wanted, acceptable = (1.3, 1.7) if at_most else (1.7, 1.3)

    assert figures.judged(measured, wanted, acceptable, at_most=at_most) == verdict


def test_rounds_in_which_the_canary_was_slow_are_counted() -> None:
    """Half as long again as in the best round, in either part of it."""
    assert figures.disturbed([(1.0, 1.0), (1.4, 1.0), (1.6, 1.0), (1.0, 9.0)]) == 2
    assert figures.disturbed([]) == 0


def test_subjects_take_turns_and_one_that_fails_stops_alone(tmp_path: Path) -> None:
    """Each round begins with another one; the table names the reason of the one that failed."""
    order: list[str] = []

    def sample(name: str) -> Callable[[], float]:
        def once() -> float:
            order.append(name)
            if name == "bad" and len(order) > 3:
                raise OSError("it is gone")
            return 1.0

        return once

    subjects = [Subject(name, "peer", sample(name)) for name in ("first", "bad", "last")]
    measured = measure(subjects, 2, 1, tmp_path)
    table = measured.table("all", "ms", "how", base="first", absent=[Row("other", "absent", note="not here")])

    assert order == ["first", "bad", "last", "first", "bad", "last", "last", "first"]
    assert [(row.subject, row.ratio) for row in table.rows] == [
        ("first", 1.0),
        ("last", 1.0),
        ("bad", None),
        ("other", None),
    ]
    assert table.row("bad").note == "failed: OSError: it is gone"
    assert len(measured.canary) == 2


def a_run(commit: str, measured: float, *, quick: bool = False) -> dict[str, object]:
    """A run as it is kept."""
    rows = [Row("floor", "floor", 1.0, 2.0, 0.1, 1.0, 1.0, 1.0, 9), Row("kranzq | so", "ours", measured, 3.0, 0.1)]
    absent = Row("nq", "absent", note="not installed here")
    table = Table("on a disk", "ms", "From a to b.", [*rows, absent], "floor")
    targets = [
        Target("dispatch", measured, 1.3, 1.7, "met", against="floor"),
        Target("dispatch", 7.0, 10, 20, "met", unit="ms"),
    ]
    machine = dict.fromkeys(("cores", "processor", "memory", "system", "python", "sqlite", "load"), "x")
    return {
        "quick": quick,
        "command": "scripts/bench a",
        "machine": machine | {"commit": commit},
        "versions": {"nq": "0.3"},
        "result": dataclasses.asdict(Result([table], targets, ["No b here."], [(1.0, 2.0)])),
    }


def test_the_page_is_written_from_the_newest_runs_of_one_commit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Three of them together, quick looks left out; what stands around the marks stays."""
    there = tmp_path / "performance.md"
    there.write_text(f"before\n{page.BEGIN}\nold\n{page.END}\nafter\n")
    monkeypatch.setattr(page, "PAGE", there)
    runs = [
        a_run("old", 9.0),
        *(a_run("new", measured) for measured in (9.5, 1.2, 1.9, 1.5)),
        a_run("new", 7, quick=True),
    ]
    for number, run in enumerate(runs):
        (tmp_path / f"a-{number}.json").write_text(json.dumps(run))

    page.write(tmp_path, WHAT)

    text = there.read_text()
    assert text.startswith(f"before\n{page.BEGIN}\n\n### Targets\n")
    assert text.endswith(f"{page.END}\nafter\n")
    assert "| (a) | dispatch, against floor | 1.5x (1.2 to 1.9) | <= 1.3x | 1.7x | acceptable |" in text
    assert "| (a) | dispatch | 7 ms (7 to 7) | <= 10 ms | 20 ms | met |" in text
    assert "`scripts/bench a`, 3 runs" in text
    assert "| nq |  |  |  |  |  | not installed here |" in text
    assert "- No b here." in text
    assert "old" not in text
    assert (tmp_path / "performance-a-1.svg").exists()


def test_without_a_run_nothing_stands_between_the_marks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No figure that was not measured; a page without marks is left alone."""
    there = tmp_path / "performance.md"
    there.write_text(f"{page.BEGIN}\nold\n{page.END}\n")
    monkeypatch.setattr(page, "PAGE", there)

    page.write(tmp_path, WHAT)

    assert there.read_text() == f"{page.BEGIN}\n{page.END}\n"
    there.write_text("no marks")
    with pytest.raises(SystemExit, match="lost its marks"):
        page.write(tmp_path, WHAT)


@pytest.mark.parametrize("high", [2.0, 2000.0])
def test_a_chart_is_a_picture_of_all_that_was_measured(high: float) -> None:
    """Well-formed, a bar each, none longer than the picture is wide; what is absent has none."""
    rows = [Row("a & <b>", "floor", 1.0, 2.0), Row("c", "ours", high, high * 1.1, ratio=high), Row("d", "absent")]
    root = ET.fromstring(chart(Table("a & b", "ms", "", rows)))

    bars = [one for one in root.findall("{*}rect") if one.get("class") != "page"]

    assert [bar.get("class") for bar in bars] == ["floor", "ours"]
    widths = [float(bar.get("width", "0")) for bar in bars]
    assert 0 < widths[0] < widths[1] < float(root.get("width", "0"))


def test_figures_have_three_digits_that_count() -> None:
    """As they are read, not as they are computed."""
    assert [figure(one) for one in (0, 0.01234, 1.0, 1.239, 25.04, 123.4, 12345.6)] == [
        "0", "0.0123", "1", "1.24", "25", "123", "12,346",
    ]  # fmt: skip


def test_every_adapter_says_whether_it_is_here() -> None:
    """None of them needs its peer to be asked."""
    for one in adapters():
        assert one.NAME
        assert one.PROMISES
        assert isinstance(one.missing(), str)
        assert not one.missing() or "not installed here (" in one.missing()
