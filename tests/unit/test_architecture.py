"""The walls of the package that no tool's configuration holds: the keeper alone, short modules, words at the top."""

from __future__ import annotations

import ast
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
MODULES = sorted((ROOT / "kranzq").rglob("*.py"))
MOST_LINES = 300
REASON = "# Longer than 300 lines: "
NO_NAMES = {"utils", "util", "helpers", "common", "misc", "base"}


def imports_of(path: Path) -> set[str]:
    """The top names that a module imports, wherever in it."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found |= {alias.name.partition(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            found.add("kranzq" if node.level else (node.module or "").partition(".")[0])
    return found


def test_the_keeper_imports_only_the_standard_library() -> None:
    """A mission's parent must not need a package that may be replaced or removed while the mission runs."""
    assert imports_of(ROOT / "kranzq/keeper.py") <= sys.stdlib_module_names


def test_nothing_imports_the_keeper() -> None:
    """It is run by path: whoever imported it would tie its own version to that of running missions."""
    importers = [
        str(path.relative_to(ROOT))
        for path in MODULES
        for node in ast.walk(ast.parse(path.read_text()))
        if (isinstance(node, ast.ImportFrom) and node.module == "kranzq.keeper")
        or (isinstance(node, ast.ImportFrom) and node.module == "kranzq" and "keeper" in {a.name for a in node.names})
        or (isinstance(node, ast.Import) and "kranzq.keeper" in {alias.name for alias in node.names})
    ]

    assert importers == []


@pytest.mark.parametrize("path", [pytest.param(path, id=str(path.relative_to(ROOT))) for path in MODULES])
def test_a_module_is_short_and_says_what_it_is_for(path: Path) -> None:
    """Within 300 lines, or with its reason at the top; with a docstring; under a name that says something."""
    text = path.read_text()
    lines = text.splitlines()

    assert len(lines) <= MOST_LINES or any(line.startswith(REASON) for line in lines[:12])
    assert ast.get_docstring(ast.parse(text))
    assert path.stem not in NO_NAMES


def test_a_verb_that_only_looks_starts_without_the_heavy_parts() -> None:
    """The command line imports neither the watcher nor the dispatcher before a verb needs them."""
    program = "import sys, kranzq.cli.main; print(' '.join(sys.modules))"
    loaded = subprocess.run(
        [sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout

    heavy = {"watchdog", "psutil", "filelock", "kranzq.dispatch", "kranzq.daemon", "sqlite3", "asyncio"}
    assert heavy.isdisjoint(loaded.split())


def test_scripts_are_programs() -> None:
    """Each script that a person types can be executed."""
    for name in ("test", "check", "format", "try", "python", "postgres"):
        assert os.access(ROOT / "scripts" / name, os.X_OK), name
