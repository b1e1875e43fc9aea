"""The page and the document about HTTP are what the routes say."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from kranzq.server.errors import TABLE
from kranzq.server.openapi import MEANINGS, statuses_of
from kranzq.server.table import ROUTES

ROOT = Path(__file__).resolve().parents[2]


def test_what_is_made_from_the_routes_is_up_to_date() -> None:
    """Whoever changes a route writes them anew."""
    program = [sys.executable, "scripts/reference.py", "--check"]
    done = subprocess.run(program, cwd=ROOT, capture_output=True, text=True, check=False)

    assert (done.returncode, done.stdout) == (0, "")


def test_every_code_and_status_stands_on_the_page() -> None:
    """Each word by which a fault is told, and each status that a route may answer, has its row."""
    page = (ROOT / "docs/reference/http.md").read_text()
    rows = [line for line in page.splitlines() if line.startswith("| ") and line[2:5].isdigit()]

    assert {code for _, _, code in TABLE if f"`{code}`" not in "".join(rows)} == set()
    statuses = {status for route in ROUTES for status in statuses_of(route) if status >= 400}
    assert {status for status in statuses if not [row for row in rows if str(status) in row.split("|")[1]]} == set()
    assert statuses <= set(MEANINGS)


def test_every_route_says_what_it_is_for() -> None:
    """A sentence, and a scope or a reason to need none."""
    assert [route.path for route in ROUTES if not route.summary.endswith(".")] == []
    assert {route.path for route in ROUTES if route.scope is None} <= {"/healthz", "/readyz", "/v1/session"}
