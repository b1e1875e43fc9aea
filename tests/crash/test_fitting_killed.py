"""`kranzq hook` killed before each of its changes on disk: the file is the old or the new one, and nothing is left."""

from __future__ import annotations

import itertools
import json
import os
import signal
from pathlib import Path

import pytest

from tests.laboratory import Laboratory

pytestmark = [pytest.mark.system("git"), pytest.mark.crash, pytest.mark.slow]
SCRIPT, SETTINGS = "#!/bin/sh\necho mine\n", '{"mcpServers": {"mine": {"command": "x"}}}\n'


@pytest.mark.parametrize(
    ("kind", "name", "text"),
    [
        ("git-pre-push", ".git/hooks/pre-push", SCRIPT),
        ("git-pre-push", ".git/hooks/pre-push", None),
        ("mcp", ".mcp.json", SETTINGS),
    ],
)
def test_killed_anywhere_the_file_is_whole(lab: Laboratory, kind: str, name: str, text: str | None) -> None:
    """In and out: each is done by one rename or one unlink, and the next call completes it."""
    path = lab.root / name
    if text is not None:
        path.write_text(text)
        path.chmod(0o755)
    before = _all(path.parent)
    lab.run("hook", "install", kind, "--yes")
    after = _all(path.parent)
    lab.run("hook", "remove", kind, "--yes")
    assert _all(path.parent) == before

    for verb, old, new in (("install", before, after), ("remove", after, before)):
        for number in itertools.count(1):
            if old is after:
                lab.run("hook", "install", kind, "--yes")
            code = lab.killed(f"change:{number}", "hook", verb, kind, "--yes")
            there = {left: data for left, data in _all(path.parent).items() if not left.endswith(".tmp")}
            assert there in ([new] if code == 0 else [old, new])
            lab.run("hook", verb, kind, "--yes")
            assert _all(path.parent) == new
            lab.run("hook", "remove", kind, "--yes")
            assert _all(path.parent) == before
            if code == 0:
                break
            assert code == -signal.SIGKILL
        assert number > (1 if new.get(path.name) is None else 3), "it was never killed"


def test_a_file_that_changed_since_it_was_shown_is_left_alone(lab: Laboratory, tmp_path: Path) -> None:
    """What was shown is what is written; also what somebody else's editor keeps beside it stays."""
    from kranzq.errors import Conflict
    from kranzq.fitting.change import change_to_put, change_to_take
    from kranzq.fitting.kinds import Wish, kind_named
    from kranzq.fitting.places import Spot

    path = tmp_path / "settings.json"
    path.write_text("{}")
    theirs = tmp_path / ".other.4194303.0.tmp"
    theirs.touch()
    change = change_to_put(kind_named("mcp"), Spot(str(path), 0o644), Wish(), "1")
    path.write_text('{"new": 1}')
    with pytest.raises(Conflict, match="meanwhile"):
        change.write()
    assert path.read_text() == '{"new": 1}'

    change_to_put(kind_named("mcp"), Spot(str(path), 0o644), Wish(), "1").write()
    assert json.loads(path.read_text())["mcpServers"]["kranzq"]["args"] == ["mcp"]
    change_to_take(kind_named("mcp"), Spot(str(path), 0o644)).write()
    assert path.read_text() == '{"new": 1}'
    assert theirs.exists()


def _all(folder: Path) -> dict[str, bytes]:
    return {name: (folder / name).read_bytes() for name in os.listdir(folder) if (folder / name).is_file()}
