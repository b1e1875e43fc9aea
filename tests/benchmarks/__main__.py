"""How fast kranzq is, beside its physical floor and its peers, in one run: tables, pictures, targets met or missed.

    scripts/bench [QUESTION...] [--quick] [--rounds N] [--out FOLDER]
    scripts/bench page

Without a question all are asked. Every run is kept as JSON with machine and versions in the folder (`build/bench`),
pictures beside it; `page` writes docs/explanation/performance.md from the newest runs. `--quick` is a look in a minute.
"""

from __future__ import annotations

import argparse
import dataclasses
import importlib
import json
import os
import sys
import tempfile
import time
import traceback
from collections.abc import Callable
from pathlib import Path

from tests.benchmarks import checkouts, machine, page, places
from tests.benchmarks.asked import Asked, Result
from tests.benchmarks.charts import chart

REPO = Path(__file__).resolve().parents[2]
QUESTIONS: dict[str, tuple[str, str]] = {
    "a": ("dispatch", "from an entry that appears to the mission's first instruction"),
    "b": ("whole_process", "one command from its start to its end"),
    "c": ("files", "the mission queue in one process, ever deeper; a daemon's start and recovery behind ten thousand"),
    "d": ("sql", "the work queue on SQLite and PostgreSQL, alone, together and in batches"),
    "e": ("hostile", "a claim among what was made to be in its way"),
    "f": ("over_http", "requests to the server, by ever more clients, on disks that sync ever more slowly"),
    "g": ("idle", "memory and processor time while nothing happens"),
    "h": ("over_time", "the same latency after twenty thousand missions and a million items"),
}
"""Each question: its module, which has the function `run`, and what is asked."""
ASKED = {letter: what for letter, (_, what) in QUESTIONS.items()}


def main(words: list[str]) -> int:
    """Ask what is wanted; the exit code is 1 when a question failed, never because a target was missed."""
    asked = _parser().parse_args(words)
    out = Path(asked.out).absolute()
    os.chdir(REPO)  # what is started by `-m` lies here
    if asked.question == ["page"]:
        page.write(out, ASKED)
        return 0
    command = places.with_own_mounts([sys.executable, "-m", "tests.benchmarks", *words])
    if command is not None:
        os.environ[places.OURS] = "yes"
        os.execvp(command[0], command)
    out.mkdir(parents=True, exist_ok=True)
    failed = [letter for letter in asked.question or QUESTIONS if not _ask(letter, asked, out)]
    if failed:
        print(f"Could not be measured: {', '.join(failed)}", file=sys.stderr)
    return 1 if failed else 0


def _parser() -> argparse.ArgumentParser:
    listed = "\n".join(f"  {letter}  {what}" for letter, what in ASKED.items())
    parser = argparse.ArgumentParser(
        "scripts/bench", description=f"{__doc__}\n{listed}", formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("question", nargs="*", choices=[*QUESTIONS, "page"], metavar="QUESTION")
    parser.add_argument("--quick", action="store_true", help="a look: it shows that all works, and little more")
    parser.add_argument("--rounds", type=int, help="how often every subject has its turn")
    parser.add_argument("--out", default=str(REPO / "build" / "bench"), metavar="FOLDER")
    return parser


def _ask(letter: str, words: argparse.Namespace, out: Path) -> bool:
    """Ask one question, print and keep what came of it; whether that worked."""
    module, what = QUESTIONS[letter]
    run: Callable[[Asked], Result] = importlib.import_module(f"tests.benchmarks.{module}").run
    print(f"({letter}) {what}", flush=True)
    here = machine.machine()
    began, at = time.monotonic(), time.strftime("%Y%m%dT%H%M%SZ", time.gmtime())
    with tempfile.TemporaryDirectory(prefix=f"kranzq-bench-{letter}-", ignore_cleanup_errors=True) as made:
        with checkouts.home(Path(made)):
            try:
                result = run(Asked(Path(made), words.quick, words.rounds))
            except Exception:  # noqa: BLE001 (the other questions are asked all the same)
                traceback.print_exc()
                return False
    _show(result)
    print(f"took {time.monotonic() - began:.0f} s\n", flush=True)
    kept = {
        "question": letter,
        "command": " ".join(["scripts/bench", letter, *_flags(words)]),
        "quick": words.quick,
        "at": at,
        "seconds": round(time.monotonic() - began, 1),
        "machine": here,
        "versions": machine.all_versions(),
        "result": dataclasses.asdict(result),
    }
    (out / f"{letter}-{at}.json").write_text(json.dumps(kept, indent=1) + "\n")
    for number, table in enumerate(result.tables, 1):
        (out / f"{letter}-{number}.svg").write_text(chart(table))
    return True


def _flags(words: argparse.Namespace) -> list[str]:
    return [*(["--quick"] if words.quick else []), *([f"--rounds {words.rounds}"] if words.rounds else [])]


def _show(result: Result) -> None:
    for table in result.tables:
        print("\n".join(page.table_lines(table)), flush=True)
    for target in result.targets:
        print(f"  {target.verdict:12} {page.target_line(target).strip('| ')}")
    for remark in result.remarks:
        print(f"  {remark}")
    print(f"  {page.canary_line(result)}")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
