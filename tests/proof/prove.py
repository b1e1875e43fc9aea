"""`kranzq check --prove`, as a user runs it, on the disk of this machine."""

from __future__ import annotations

import json
import subprocess
import sys

from tests.laboratory import REPO
from tests.proof.asked import Asked, Result

SECONDS = 120


def run(asked: Asked) -> Result:
    """Run it in a scratch repository; a promise that is weaker here is told, one that is broken is a fault."""
    root, home = asked.folder / "checkout", asked.folder / "home"
    home.mkdir()
    subprocess.run(["git", "init", "--quiet", str(root)], check=True)
    seconds = max(1, round(SECONDS if asked.seconds is None else asked.seconds))
    done = subprocess.run(
        [sys.executable, "-m", "kranzq", "-C", str(root), "check", "--prove", "--seconds", str(seconds), "--json"],
        env={"PATH": "/usr/bin:/bin", "HOME": str(home), "PYTHONPATH": str(REPO)},
        capture_output=True,
        text=True,
        check=False,
    )
    if not done.stdout:
        return Result({}, [f"check --prove ended with {done.returncode}: {done.stderr.strip()}"])
    told = json.loads(done.stdout)
    verdicts = [one["verdict"] for one in told["promises"]]
    return Result(
        {
            "trials": len(told["trials"]),
            "tried": sum(one["tried"] for one in told["trials"]),
            "promises that hold": verdicts.count("holds"),
            "promises that are weaker on this disk": verdicts.count("weaker"),
            "promises that are broken": verdicts.count("broken"),
        },
        [f"{one['name']}: {one['text']}" for one in told["trials"] if one["verdict"] == "broken"],
        {"check --prove": [{name: one[name] for name in ("name", "verdict", "text")} for one in told["trials"]]},
    )
