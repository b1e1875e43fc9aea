"""A table as a picture: bars with their 99 % mark, as SVG on a ground of its own, light or dark as the page is."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from xml.sax.saxutils import escape

from tests.benchmarks.asked import Row, Table

WIDTH, LEFT, RIGHT, TOP, STEP, BAR = 860, 300, 120, 44, 24, 14
STYLE = """
.page { fill: #ffffff; }
text { font: 12px system-ui, sans-serif; fill: #24292f; }
.title { font-weight: 600; font-size: 13px; }
.quiet { fill: #6e7781; }
.line { stroke: #d0d7de; stroke-width: 1; }
.mark { stroke: #24292f; stroke-width: 2; }
.ours { fill: #0969da; } .floor { fill: #8c959f; } .peer { fill: #bf8700; }
@media (prefers-color-scheme: dark) {
  .page { fill: #0d1117; }
  text { fill: #e6edf3; }
  .quiet { fill: #8d96a0; }
  .line { stroke: #30363d; }
  .mark { stroke: #e6edf3; }
  .ours { fill: #4493f8; } .floor { fill: #6e7681; } .peer { fill: #d29922; }
}
"""


def chart(table: Table) -> str:
    """The picture of a table; its axis is logarithmic where the figures lie more than thirtyfold apart."""
    rows = [row for row in table.rows if row.median]
    height = TOP + STEP * len(rows) + 34
    body = "\n".join(_drawn(table, rows, height)) if rows else ""
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" height="{height}"'
        f' role="img" aria-label="{_quoted(table.title)}">\n<style>{STYLE}</style>\n'
        f'<rect class="page" width="{WIDTH}" height="{height}" rx="6"/>\n{body}\n</svg>\n'
    )


def _drawn(table: Table, rows: Sequence[Row], height: int) -> Iterator[str]:
    ends = [max(row.median or 0, row.p99 or 0) for row in rows]
    medians = [row.median or 0 for row in rows]
    low, high = min(medians), max(ends)
    axis = _Axis(low, high)
    kind = "more is better" if table.better == "higher" else "less is better"
    yield f'<text class="title" x="8" y="20">{escape(table.title)}: {escape(table.unit)}, {kind}</text>'
    for at in axis.ticks():
        x = axis.x(at)
        yield f'<line class="line" x1="{x:.1f}" y1="{TOP - 10}" x2="{x:.1f}" y2="{height - 26}"/>'
        yield f'<text class="quiet" x="{x:.1f}" y="{height - 10}" text-anchor="middle">{figure(at)}</text>'
    for number, row in enumerate(rows):
        yield from _bar(row, TOP + number * STEP, axis, table.better == "lower")


def _bar(row: Row, y: int, axis: _Axis, has_tail: bool) -> Iterator[str]:  # noqa: FBT001 (a plain switch of one bar)
    median = row.median or 0.0
    end = axis.x(median)
    yield f'<text x="{LEFT - 8}" y="{y + BAR - 2}" text-anchor="end">{escape(row.subject)}</text>'
    yield f'<rect class="{row.kind}" x="{LEFT}" y="{y}" width="{max(1.0, end - LEFT):.1f}" height="{BAR}" rx="2"/>'
    edge = end
    if has_tail and row.p99:
        edge = axis.x(row.p99)
        yield f'<line class="line" x1="{end:.1f}" y1="{y + BAR / 2}" x2="{edge:.1f}" y2="{y + BAR / 2}"/>'
        yield f'<line class="mark" x1="{edge:.1f}" y1="{y + 2}" x2="{edge:.1f}" y2="{y + BAR - 2}"/>'
    told = figure(median) + (f"  ({figure(row.ratio)}x)" if row.ratio is not None else "")
    yield f'<text class="quiet" x="{edge + 6:.1f}" y="{y + BAR - 2}">{told}</text>'


class _Axis:
    """From a figure to its place."""

    def __init__(self, low: float, high: float) -> None:
        self._log = low > 0 and high / low > 30
        self._low = 10 ** math.floor(math.log10(low)) if self._log else 0.0
        self._high = high or 1.0

    def x(self, value: float) -> float:
        """Where a figure lies."""
        room = WIDTH - LEFT - RIGHT
        if not self._log:
            return LEFT + room * value / self._high
        whole = math.log10(self._high / self._low)
        return LEFT + room * math.log10(max(value, self._low) / self._low) / whole

    def ticks(self) -> list[float]:
        """Round figures along it."""
        if self._log:
            first, last = round(math.log10(self._low)), math.floor(math.log10(self._high))
            return [10.0**power for power in range(first, last + 1)]
        step = 10 ** math.floor(math.log10(self._high))
        for part in (1, 2, 5):
            if self._high / (step / part) >= 4:
                step /= part
                break
        return [step * number for number in range(int(self._high / step) + 1)]


def figure(value: float) -> str:
    """A figure with three digits that count, as it is read."""
    if value == 0:
        return "0"
    if abs(value) >= 1000:
        return f"{value:,.0f}"
    digits = max(0, 2 - math.floor(math.log10(abs(value))))
    return f"{value:.{min(digits, 4)}f}".rstrip("0").rstrip(".") if digits else f"{value:.0f}"


def _quoted(text: str) -> str:
    return escape(text, {'"': "&quot;"})
