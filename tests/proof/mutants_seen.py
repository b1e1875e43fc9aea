"""What mutmut has made and tried in the current folder, as JSON: name, status and change of each mutant that is named.

The names are read from standard input; none: all, without their changes. A change is the function with the line as it
was and as it is, so that it is known again when mutants are numbered anew.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from mutmut.mutation.diff_apply import get_diff_for_mutant
from mutmut.stats import status_by_exit_code


def main() -> None:
    """Print them."""
    names = set(json.load(sys.stdin))
    told = []
    for path in sorted(Path("mutants").rglob("*.py.meta")):
        for name, code in json.loads(path.read_text())["exit_code_by_key"].items():
            if not names or name in names:
                told.append((name, status_by_exit_code[code], change(name) if names else ""))
    json.dump(told, sys.stdout)


def change(name: str) -> str:
    """The function, what was taken out and what was put in."""
    module, _, mangled = name.removeprefix("kranzq.").partition(".x")
    function = mangled.split("__mutmut_", maxsplit=1)[0].strip("_ǁ").replace("ǁ", ".")
    lines = get_diff_for_mutant(name).splitlines()
    parts = [
        " ".join(line[1:].strip() for line in lines if line.startswith(sign) and not line.startswith(sign * 3))
        for sign in "-+"
    ]
    return f"{module}.{function}: {parts[0]} => {parts[1]}"


if __name__ == "__main__":
    main()
