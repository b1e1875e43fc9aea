"""Small faults put into the pure rooms, one at a time, by mutmut: the unit tests of these rooms must find them.

A mutant that lives is one that no test tells from the program. `mutants_alive.toml` lists those that may, with the
reason; any other is a fault of this part. Only tests that run in the same process see a mutant. mutmut works in a copy,
never in the checkout. With a time a sample of one module's mutants is tried, as the seed chooses.
"""

from __future__ import annotations

import json
import os
import random
import re
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.proof.asked import Asked, Result

REPO = Path(__file__).resolve().parents[2]
ALIVE = Path(__file__).with_name("mutants_alive.toml")
WANTED_PERCENT = 90.0
ROOMS = {
    "model": (("kranzq/model",), ("tests/unit/model",)),
    "liveness": (("kranzq/liveness",), ("tests/unit/test_liveness.py", "tests/unit/test_liveness_told.py")),
    "trust": (("kranzq/trust",), ("tests/unit/trust",)),
    "layout": (("kranzq/backends/file/layout.py",), ("tests/unit/backends/file/test_layout.py",)),
}
"""Each room with what is changed in it, and the tests that must notice."""
_COPIED = ("kranzq", "tests", "scripts", "docs", "pyproject.toml", "README.md")
_SEEN = Path(__file__).with_name("mutants_seen.py")
_FEW = 2
_SETUP_S, _EACH_S = 12.0, 0.25
_SETTINGS = """
[tool.mutmut]
source_paths = ["kranzq"]
only_mutate = {only}
do_not_mutate_patterns = ['assert_never\\(']
also_copy = ["docs", "scripts", "README.md"]
pytest_add_cli_args = ["-p", "no:randomly", "-p", "no:cacheprovider", "-q"]
pytest_add_cli_args_test_selection = {tests}
timeout_constant = 10.0
"""
_STEADY = """

hypothesis.settings.register_profile("steady", max_examples=30, deadline=None, derandomize=True, database=None)
hypothesis.settings.load_profile("steady")
"""


@dataclass(frozen=True)
class Mutant:
    """One change: its name, how it fared (`killed`, `survived`, `no tests`, `timeout`, …), and what was changed."""

    name: str
    status: str
    change: str

    @property
    def lives(self) -> bool:
        """Whether no test noticed it. A test that ran for ever did notice."""
        return self.status in {"survived", "no tests"}


def run(asked: Asked) -> Result:
    """Try all mutants of all rooms; with a time, a sample of one module's."""
    modules = [(room, one) for room, (paths, _) in ROOMS.items() for one in _modules(paths) if asked.wants(one)]
    chance = random.Random(asked.seed)
    if asked.seconds is not None:
        modules = [chance.choice(modules)]
    tried, killed, faults = 0, 0, list[str]()
    rows: list[dict[str, float | str]] = []
    known = alive()
    for room, module in modules:
        seen = try_module(module, ROOMS[room][1], asked, chance)
        living = [one.change for one in seen if one.lives]
        faults += [f"no test notices {change}" for change in living if change not in known]
        tried, killed = tried + len(seen), killed + len(seen) - len(living)
        rows.append({"module": module, "mutants": len(seen), "killed": len(seen) - len(living)})
    percent = round(100.0 * killed / tried, 1) if tried else 0.0
    if tried and asked.seconds is None and percent < WANTED_PERCENT:
        faults.append(f"{percent} % of the mutants are killed, less than {WANTED_PERCENT:g} %")
    return Result(
        {"mutants": tried, "killed": killed, "killed, %": percent, "alive, with a reason": tried - killed},
        faults,
        {"modules": rows},
    )


def alive() -> dict[str, str]:
    """What may live, with the reason."""
    groups = tomllib.loads(ALIVE.read_text(encoding="utf-8")).get("alive", [])
    return {change: group["why"] for group in groups for change in group["changes"]}


def try_module(module: str, tests: Sequence[str], asked: Asked, chance: random.Random) -> list[Mutant]:
    """The mutants of one module, or a sample of them, and how they fared."""
    copy = asked.folder / module.replace("/", ".")
    make_copy(copy, module, tests_of(module, tests))
    _mutmut(copy, asked, ["nothing has this name"])  # makes the mutants and sees which test runs which function
    names = [one.name for one in _seen(copy)]
    if asked.seconds is not None:
        most = max(5, int((asked.seconds - _SETUP_S) / _EACH_S))
        names = sorted(chance.sample(names, min(most, len(names))))
    if names:
        _mutmut(copy, asked, names)
        names_seen = _seen(copy, names)
    else:
        names_seen = []
    shutil.rmtree(copy)
    return names_seen


def make_copy(copy: Path, module: str, tests: Sequence[str]) -> None:
    """A copy of the repository in which mutmut may work."""
    copy.mkdir(parents=True)
    for name in _COPIED:
        if (REPO / name).is_dir():
            shutil.copytree(REPO / name, copy / name, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy(REPO / name, copy / name)
    settings = _SETTINGS.format(only=json.dumps([module]), tests=json.dumps(list(tests)))
    with (copy / "pyproject.toml").open("a", encoding="utf-8") as file:
        file.write(settings)
    with (copy / "tests/conftest.py").open("a", encoding="utf-8") as file:
        file.write(_STEADY)  # the same examples for every mutant, and few of them


def tests_of(module: str, tests: Sequence[str]) -> list[str]:
    """Of the room's tests, those that name the module where they import: others would only cost."""
    stem = Path(module).stem
    named = re.compile(rf"^(from|import) [\w. ,()]*\b{stem}\b", re.MULTILINE)
    files = [
        file for test in tests for file in ([REPO / test] if test.endswith(".py") else (REPO / test).glob("test_*.py"))
    ]
    found = [file for file in files if len(files) <= _FEW or named.search(file.read_text(encoding="utf-8"))]
    return sorted(str(file.relative_to(REPO)) for file in found)


def _modules(paths: Iterable[str]) -> list[str]:
    found: list[str] = []
    for path in paths:
        whole = REPO / path
        found += [str(one.relative_to(REPO)) for one in sorted(whole.glob("*.py"))] if whole.is_dir() else [path]
    return [one for one in found if not one.endswith("__init__.py")]


def _mutmut(copy: Path, asked: Asked, names: Sequence[str]) -> None:
    words = [sys.executable, "-m", "mutmut", "run", "--max-children", str(max(1, asked.jobs)), *names]
    environment = {key: text for key, text in os.environ.items() if key not in {"CI", "PYTHONPATH"}}
    environment["TMPDIR"] = str(copy)
    subprocess.run(words, cwd=copy, env=environment, capture_output=True, check=False)


def _seen(copy: Path, names: Sequence[str] = ()) -> list[Mutant]:
    said = subprocess.run(
        [sys.executable, str(_SEEN)],
        cwd=copy,
        input=json.dumps(list(names)),
        capture_output=True,
        text=True,
        check=True,
    )
    return [Mutant(*one) for one in json.loads(said.stdout)]
