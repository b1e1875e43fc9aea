"""Make the casts of the docs anew: `scripts/casts [NAME…]`; with `--print` they are printed and nothing is written.

Each story is told in a process of its own, by the real program in a scratch checkout that is removed afterwards.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from pathlib import Path

from tests.casts.picture import draw, text_of
from tests.casts.stories import STORIES
from tests.casts.telling import tell

FOLDER = Path(__file__).resolve().parents[2] / "docs" / "casts"


def main() -> int:
    """Tell what was asked for."""
    names = [story.name for story in STORIES]
    parser = argparse.ArgumentParser(prog="scripts/casts", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"which: {', '.join(names)}; without any all")
    parser.add_argument("--print", action="store_true", help="the picture on the standard output, nothing is written")
    asked = parser.parse_args()
    if unknown := sorted(set(asked.names) - set(names)):
        parser.error(f"there is no cast {', '.join(unknown)}; there are {', '.join(names)}")
    if asked.print:
        for story in STORIES:
            if story.name in (asked.names or names):
                sys.stdout.write(draw(story.title, tell(story)))
        return 0
    FOLDER.mkdir(exist_ok=True)
    for name in asked.names or names:
        one = [sys.executable, "-m", "tests.casts", name, "--print"]
        told = subprocess.run(one, stdout=subprocess.PIPE, check=True, cwd=FOLDER.parents[1], text=True).stdout
        (FOLDER / f"{name}.svg").write_text(told)
        print(f"docs/casts/{name}.svg: {len(text_of(told))} lines, {len(told)} bytes")
    return 0


if __name__ == "__main__":
    sys.exit(main())
