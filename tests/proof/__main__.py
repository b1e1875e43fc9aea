"""The laboratory: kills, breaks and cuts off the real program at every point, and prints what came of it.

    scripts/lab PART...|all|page [--seconds S] [--seed N] [--jobs N] [--only NAME] [--out FOLDER]

`all` runs every part. What a part found is kept as JSON in the folder (`build/lab`), by itself for each NAME, and from
that `page` writes the numbers into docs/explanation/proof.md. Exit code 1 when anything was found.
"""

from __future__ import annotations

import argparse
import dataclasses
import importlib
import json
import os
import platform
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from kranzq.cli.watched import long_work
from tests.proof import page
from tests.proof.asked import Asked, Result

REPO = Path(__file__).resolve().parents[2]
PARTS: dict[str, str] = {
    "kill": "kill the real program at each call by which it changes something, and recover",
    "errors": "let each of these calls fail, in each way in which it may",
    "models": "search every state of the protocols, and take away each rule that they need",
    "mutants": "put small faults into the pure rooms, one at a time; their unit tests must notice",
    "planted": "remove each safety measure in turn; what is to find that must find it",
    "prove": "kranzq check --prove, on the disk of this machine",
    "storm": "everybody at once, killed, stopped and refused; what was lost, doubled or met",
    "power": "cut the power at each instant of each verb, and recover from every state that the disk may have",
}
"""Each part, with what it does; its module has the function `run`."""


def main(words: list[str]) -> int:
    """Run what is asked; the exit code."""
    asked = _parser().parse_args(words)
    if asked.part == ["page"]:
        page.write(Path(asked.out), PARTS)
        return 0
    parts = list(PARTS) if "all" in asked.part else asked.part
    out = Path(asked.out)
    out.mkdir(parents=True, exist_ok=True)
    bad = [part for part in parts if not _run(part, asked, out)]
    if bad:
        print(f"Found something: {', '.join(bad)}", file=sys.stderr)
    return 1 if bad else 0


def _parser() -> argparse.ArgumentParser:
    listed = "\n".join(f"  {name:10} {what}" for name, what in PARTS.items())
    parser = argparse.ArgumentParser(
        "scripts/lab", description=f"{__doc__}\n{listed}", formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("part", nargs="+", choices=[*PARTS, "all", "page"], metavar="PART")
    parser.add_argument("--seconds", type=float, help="about so long for each part, with a choice by the seed")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="trials at the same time")
    parser.add_argument("--only", action="append", default=[], metavar="NAME", help="trials whose names contain this")
    parser.add_argument("--out", default=str(REPO / "build" / "lab"), metavar="FOLDER")
    return parser


def _run(part: str, words: argparse.Namespace, out: Path) -> bool:
    """Run one part, print what it found and keep it; whether that is nothing bad."""
    run: Callable[[Asked], Result] = importlib.import_module(f"tests.proof.{part}").run
    print(f"{part}: {PARTS[part]}", flush=True)
    folder = Path(tempfile.mkdtemp(prefix=f"kranzq-lab-{part}-"))
    began = time.monotonic()
    with long_work(prints=sys.stdout.isatty()):
        result = run(Asked(folder, words.seed, words.jobs, words.seconds, tuple(words.only)))
    took = time.monotonic() - began
    for name, count in result.counts.items():
        print(f"  {name:44} {count:>12,}" if isinstance(count, int) else f"  {name:44} {count:>12}")
    for fault in result.faults:
        print(f"  FOUND  {fault}")
    print(f"  {'took':44} {took:>10.0f} s", flush=True)
    if result.faults:
        print(f"  what it left is in {folder}")
    else:
        shutil.rmtree(folder, ignore_errors=True)
    only = "".join(f" --only {name!r}" if " " in name else f" --only {name}" for name in words.only)
    command = f"scripts/lab {part}{only} --seed {words.seed}"
    kept = dataclasses.asdict(result) | {
        "part": part,
        "command": command + (f" --seconds {words.seconds:g}" if words.seconds else ""),
        "whole": words.seconds is None and not words.only,
        "seconds": round(took, 1),
        "machine": _machine(),
    }
    names = "".join(f"-{re.sub('[^a-z0-9]+', '-', name.lower())}" for name in words.only)
    (out / f"{part}{names[:100]}.json").write_text(json.dumps(kept, indent=1) + "\n")
    return not result.faults


def _machine() -> dict[str, str]:
    commit = subprocess.run(
        ["git", "rev-parse", "--short", "HEAD"], cwd=REPO, capture_output=True, text=True, check=False
    ).stdout.strip()
    cores, system = f"{os.cpu_count()} cores", f"{platform.system()} {platform.release()}"
    return {"commit": commit, "machine": f"{cores}, {system}", "python": platform.python_version()}


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
