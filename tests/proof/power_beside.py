"""A verb with all that lives beside it, as one program, so that one recording has the calls of them all.

    python -m tests.proof.power_beside SCENARIO FOLDER

What the verb says is said here; what the others say is in the world's log.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from tests.proof.power_world import PowerWorld
from tests.proof.scenarios_files import FILES


def main() -> None:
    """Start what lives beside it, run the verb, and let all of it come to its end."""
    scenario = next(one for one in FILES if one.name == sys.argv[1])
    world = PowerWorld(Path(sys.argv[2]))
    scenario.begin(world)
    code = subprocess.run(world.command(scenario.argv), cwd=world.folder, env=world.env, check=False).returncode
    scenario.end(world)
    sys.exit(code)


if __name__ == "__main__":
    main()
