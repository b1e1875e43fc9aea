"""The gate on the shape of files: short modules, described modules, and nothing that leads outside the project.

A module over 300 lines says why in its first comment lines (`# Longer than 300 lines: …`). A name of a host binds the
project to a place that others may not reach, so none stands in it but those reserved for examples.
"""

from __future__ import annotations

import ast
import os
import re
import sys
from collections.abc import Iterator

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
ROOMS = (".ci", "docs", "kranzq", "scripts", "tests")
MOST_LINES = 300
REASON = re.compile(r"^# Longer than 300 lines: .{20,}", re.MULTILINE)
URL = re.compile(r"https?://[^\s)>\"'`]+")
HOST = re.compile(r"(?<![\w@/.-])(?:[a-z0-9-]+\.)+(?:org|com|io)\b(?![(\w.-])", re.IGNORECASE)
PLACES = r"(?:[\w-]+\.)*example(?:\.(?:org|com|net))?|localhost|127\.0\.0\.1|toml\.io|www\.w3\.org/2000/svg"
ALLOWED = re.compile(rf"(?:https?://(?:[^/\s]*@)?)?(?:(?:{PLACES})\b|\[::1\]|[\[(]?\{{)")
"""Also what a program fills in: `{`; and the name of SVG, which nobody looks up."""
HEAD_LINES = 12


def main() -> int:
    """Print what is out of shape; the exit code."""
    faults = [fault for path in files() for fault in faults_of(path)]
    print("\n".join(faults))
    return 1 if faults else 0


def files() -> list[str]:
    """The project's text files, relative to its root; whether git knows them does not matter."""
    found = [name for name in os.listdir(ROOT) if name.endswith((".md", ".toml"))]
    for room in ROOMS:
        for folder, _, names in os.walk(os.path.join(ROOT, room)):
            found += [os.path.relpath(os.path.join(folder, name), ROOT) for name in names if not name.endswith(".pyc")]
    return sorted(found)


def faults_of(path: str) -> Iterator[str]:
    """What is out of shape in one file, a line each."""
    try:
        with open(os.path.join(ROOT, path), encoding="utf-8") as file:
            text = file.read()
    except UnicodeDecodeError:
        return
    for number, line in enumerate(text.splitlines(), 1):
        for found in (*URL.finditer(line), *HOST.finditer(line)):
            if ALLOWED.match(found[0]) is None:
                yield f"{path}:{number}: names a host: {found[0]}"
    if path.startswith("kranzq/") and path.endswith(".py"):
        yield from module_faults(path, text)


def module_faults(path: str, text: str) -> Iterator[str]:
    """What is out of shape in one module of the package."""
    lines = text.splitlines()
    if len(lines) > MOST_LINES and REASON.search("\n".join(lines[:HEAD_LINES])) is None:
        yield f"{path}: {len(lines)} lines; split it, or say why at its top (# Longer than {MOST_LINES} lines: …)"
    if ast.get_docstring(ast.parse(text)) is None:
        yield f"{path}: has no docstring that tells its place and its promise"


if __name__ == "__main__":
    sys.exit(main())
