"""Tables as text, and the numbers of docs/explanation/performance.md from the newest runs of each question."""

from __future__ import annotations

import json
import statistics
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from tests.benchmarks.asked import Result, Row, Table, Target
from tests.benchmarks.charts import chart, figure
from tests.benchmarks.figures import disturbed, judged

PAGE = Path(__file__).resolve().parents[2] / "docs" / "explanation" / "performance.md"
BEGIN, END = "<!-- Numbers, written by scripts/bench page. -->", "<!-- End of the numbers. -->"
RUNS = 3
"""So many of the newest runs of a question are looked at together."""


def write(out: Path, questions: Mapping[str, str]) -> None:
    """Put targets, tables and pictures of all questions that were measured between the two marks of the page."""
    text = PAGE.read_text()
    before, _, rest = text.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not end:
        raise SystemExit(f"{PAGE} has lost its marks: {BEGIN} … {END}")
    found = {letter: runs for letter in questions if (runs := runs_of(out, letter))}
    for letter, runs in found.items():
        for number, table in enumerate(_of(runs[-1]).tables, 1):
            if any(row.median for row in table.rows):
                PAGE.with_name(f"performance-{letter}-{number}.svg").write_text(chart(table))
    written = "\n".join(numbers(found, questions))
    PAGE.write_text(f"{before}{BEGIN}\n{written and f'{chr(10)}{written}{chr(10)}'}{END}{after}")


def runs_of(out: Path, letter: str) -> list[dict[str, Any]]:
    """The newest whole runs of a question on one commit, oldest first; quick looks do not count."""
    runs = [json.loads(path.read_text()) for path in sorted(out.glob(f"{letter}-*.json"))]
    whole = [one for one in runs if not one["quick"]]
    same = [one for one in whole if one["machine"]["commit"] == whole[-1]["machine"]["commit"]]
    return same[-RUNS:]


def numbers(found: Mapping[str, Sequence[Mapping[str, Any]]], questions: Mapping[str, str]) -> Iterator[str]:
    """The table of targets over all questions, then a section each."""
    if not found:
        return
    yield "### Targets"
    yield ""
    yield "| | what | measured (lowest to highest run) | target | acceptable | |"
    yield "|---|---|---|---|---|---|"
    for letter, runs in found.items():
        for target in together([_of(one).targets for one in runs]):
            yield f"| ({letter}) {target_line(target)}"
    yield ""
    for letter, runs in found.items():
        last, result = runs[-1], _of(runs[-1])
        machine = last["machine"]
        yield f"### ({letter}) {questions[letter]}"
        yield ""
        yield (
            f"`{last['command']}`, {len(runs)} {'run' if len(runs) == 1 else 'runs'}, the tables from the last:"
            f" {machine['cores']} cores ({machine['processor']}), {machine['memory']}, {machine['system']},"
            f" Python {machine['python']}, SQLite {machine['sqlite']}, commit {machine['commit']},"
            f" load {machine['load']} at the beginning; {canary_line(result)}."
        )
        yield ""
        for number, table in enumerate(result.tables, 1):
            yield from table_lines(table)
            if any(row.median for row in table.rows):
                yield f"![{table.title}](performance-{letter}-{number}.svg)"
                yield ""
        yield from (f"- {remark}" for remark in result.remarks)
        if result.remarks:
            yield ""
    versions = [*found.values()][-1][-1]["versions"]
    yield "Versions: " + ", ".join(f"{name} {which}" for name, which in sorted(versions.items())) + "."


def together(runs: Sequence[Sequence[Target]]) -> Iterator[Target]:
    """Each target of the last run, with the median of what all runs measured and how far they lie apart."""
    for target in runs[-1]:
        every = [one for targets in runs for one in targets if _key(one) == _key(target)]
        values = [one.measured for one in every if one.measured is not None]
        middle = statistics.median(values) if values else None
        verdict = judged(middle, target.target, target.acceptable, at_most=target.at_most)
        apart = (min(values), max(values)) if len(values) > 1 else (target.low, target.high)
        yield Target(**{**vars(target), "measured": middle, "verdict": verdict, "low": apart[0], "high": apart[1]})


def _key(target: Target) -> tuple[str, str, str]:
    return target.what, target.against, target.unit


def target_line(target: Target) -> str:
    """The cells of a target, after that of its question."""
    sign = "<=" if target.at_most else ">="
    unit = "x" if target.unit == "x" else f" {target.unit}"
    measured = "" if target.measured is None else f"{figure(target.measured)}{unit}"
    if target.low is not None and target.high is not None:
        measured += f" ({figure(target.low)} to {figure(target.high)})"
    what = f"{target.what}, against {target.against}" if target.against else target.what
    return f"| {what} | {measured} | {sign} {target.target:g}{unit} | {target.acceptable:g}{unit} | {target.verdict} |"


def table_lines(table: Table) -> Iterator[str]:
    """A table as Markdown."""
    more = list(dict.fromkeys(name for row in table.rows for name in row.more))
    heads = ["subject", f"median, {table.unit}", "99 %", "spread"]
    heads += [f"x {table.base} (lowest to highest round)"] if table.base else []
    heads += [*more, "samples", ""]
    yield f"**{table.title[:1].upper()}{table.title[1:]}.** {table.how}"
    yield ""
    yield f"| {' | '.join(heads)} |"
    yield f"|{'---|' * len(heads)}"
    for row in table.rows:
        yield f"| {' | '.join(_cells(row, table, more))} |"
    yield ""


def _cells(row: Row, table: Table, more: Sequence[str]) -> Iterator[str]:
    yield f"**{row.subject}**" if row.kind == "ours" else row.subject
    yield "" if row.median is None else figure(row.median)
    yield "" if row.p99 is None or table.better == "higher" else figure(row.p99)
    yield "" if row.spread is None else f"{row.spread:.2f}"
    if table.base:
        apart = f" ({figure(row.ratio_low)} to {figure(row.ratio_high)})" if row.ratio_low and row.ratio_high else ""
        yield "" if row.ratio is None else f"{figure(row.ratio)}{apart}"
    for name in more:
        value = row.more.get(name, "")
        yield figure(value) if isinstance(value, int | float) else value
    yield f"{row.samples:,}" if row.samples else ""
    yield row.note.replace("|", "\\|")


def canary_line(result: Result) -> str:
    """What the canary tells of the machine's peace."""
    if not result.canary:
        return "no canary"
    work, synced = (statistics.median(one[place] for one in result.canary) for place in (0, 1))
    told = f"canary {figure(work)} ms of work, {figure(synced)} ms a synced write"
    return f"{told}, disturbed in {disturbed(result.canary)} of {len(result.canary)} rounds"


def _of(run: Mapping[str, Any]) -> Result:
    """A result as it was kept."""
    said = run["result"]
    tables = [Table(**{**one, "rows": [Row(**row) for row in one["rows"]]}) for one in said["tables"]]
    canary = [(one[0], one[1]) for one in said["canary"]]
    return Result(tables, [Target(**one) for one in said["targets"]], said["remarks"], canary)
