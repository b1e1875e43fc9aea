"""Each safety measure, removed from a copy of the product: what is to find that must find it.

The list is `planted.toml`. A measure that is no longer where it was, and one that nobody misses, is a fault of this
part; so is a check that fails on the whole product, for then its failing says nothing.
"""

from __future__ import annotations

import os
import random
import shlex
import shutil
import subprocess
import sys
import time
import tomllib
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from tests.proof.asked import Asked, Result

REPO = Path(__file__).resolve().parents[2]
LIST = Path(__file__).with_suffix(".toml")
COPIED = ("kranzq", "tests", "docs", "scripts", "pyproject.toml", "README.md")
SLOWEST_S = 900.0


@dataclass(frozen=True)
class Planted:
    """One measure that is removed, and what must miss it."""

    name: str
    kind: str
    file: str
    old: str
    new: str
    by: tuple[str, ...] = ()
    """Each `lab PART WORDS…` or `tests WORDS…`; the first that fails has found it."""


@dataclass(frozen=True)
class Found:
    """What became of one of them: who found it, or why not."""

    planted: Planted
    by: str = ""
    why: str = ""
    seconds: float = 0.0


def listed() -> list[Planted]:
    """All of them, in the order of the list."""
    with LIST.open("rb") as file:
        found = tomllib.load(file)["fault"]
    return [Planted(**{**one, "by": tuple(one.get("by", ()))}) for one in found]


def run(asked: Asked) -> Result:
    """Remove each in turn, in as many copies as there are jobs."""
    wanted = [one for one in listed() if asked.wants(one.name)]
    dice, until = random.Random(asked.seed), None
    if asked.seconds is not None:
        dice.shuffle(wanted)
        until = time.monotonic() + asked.seconds
    copies = [copy(asked.folder / f"copy-{number}") for number in range(asked.jobs)]
    free = list(copies)
    finders = list(dict.fromkeys(words for planted in wanted for words in planted.by)) if until is None else []

    def whole(words: str) -> str | None:
        root = free.pop()
        try:
            return fails(words, root)
        finally:
            free.append(root)

    def one(planted: Planted) -> Found | None:
        if until is not None and time.monotonic() > until:
            return None
        root = free.pop()
        try:
            return remove(planted, root)
        finally:
            free.append(root)

    with ThreadPoolExecutor(asked.jobs) as pool:
        unfit = {words: why for words, why in zip(finders, pool.map(whole, finders), strict=True) if why is not None}
        found = [one for one in pool.map(one, wanted) if one is not None]
    kinds = Counter(one.planted.kind for one in found)
    missed = [one for one in found if not one.by]
    counts = {
        "finders that pass on the whole product": len(finders) - len(unfit),
        "measures removed": len(found),
        **{f"  {kind}": count for kind, count in sorted(kinds.items())},
    }
    rows: list[dict[str, float | str]] = [
        {"measure": one.planted.name, "found by": one.by, "seconds": round(one.seconds)} for one in found
    ]
    return Result(
        counts | {"missed by the laboratory": len(found) - len(missed), "not missed": len(missed)},
        [
            *(f"{words}: fails on the whole product too: {why}" for words, why in unfit.items()),
            *(f"{one.planted.name}: {one.why}" for one in missed),
        ],
        {"planted": rows},
    )


def copy(root: Path) -> Path:
    """A copy of the product and its laboratory, in which something may be removed."""
    for name in COPIED:
        of = REPO / name
        if of.is_dir():
            shutil.copytree(of, root / name, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            root.mkdir(parents=True, exist_ok=True)
            shutil.copy2(of, root / name)
    return root


def remove(planted: Planted, root: Path) -> Found:
    """Remove one measure from a copy, see who misses it, and put it back."""
    path = root / planted.file
    whole = path.read_text()
    if whole.count(planted.old) != 1 or not planted.old:
        return Found(planted, why=f"what it removes stands {whole.count(planted.old)} times in {planted.file}")
    if not planted.by:
        return Found(planted, why="nobody is named that should find it")
    began = time.monotonic()
    path.write_text(whole.replace(planted.old, planted.new))
    try:
        for words in planted.by:
            if (why := fails(words, root)) is not None:
                return Found(planted, f"{words}: {why}" if why else words, seconds=time.monotonic() - began)
    finally:
        path.write_text(whole)
    return Found(planted, why=f"it was removed, and nobody missed it: {'; '.join(planted.by)}")


def fails(words: str, root: Path) -> str | None:
    """None when it goes well; else what it said first of what it found."""
    kind, *rest = shlex.split(words)
    program = ["-m", "tests.proof", *rest, "--out", str(root / "out")] if kind == "lab" else ["-m", "pytest", *rest]
    if kind != "lab":
        program += ["-x", "-q", "-p", "no:cacheprovider", "-p", "no:randomly", f"--basetemp={root / 'tmp'}"]
    kept = {name: text for name, text in os.environ.items() if name != "GATES_FAILED"}
    process = subprocess.Popen(
        [sys.executable, *program],
        cwd=root,
        env=kept | {"PYTHONPATH": str(root), "PYTHONDONTWRITEBYTECODE": "1"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )
    try:
        said, _ = process.communicate(timeout=SLOWEST_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.communicate()
        return "it did not end"
    lines = said.splitlines()
    if process.returncode == 0:
        return None
    told = [line.strip() for line in lines if line.startswith(("E  ", "  FOUND"))]
    if process.returncode != 1 or not told:  # it could not even begin: that finds nothing
        raise RuntimeError(f"{words} ended with {process.returncode}: {' / '.join(lines[-3:])}")
    return " ".join(told[0].removeprefix("E ").replace(str(root), "…").split())[:200]
