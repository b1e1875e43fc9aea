"""What a mission, a hook and an item's command see of the dispatcher's secrets: nothing that opens a server."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from kranzq import work
from tests.laboratory import REPO, wait_for

pytestmark = pytest.mark.slow
TOKEN, KEY = "kqa_" + "x" * 43, "kqo_" + "y" * 43
GIVEN = {
    "KRANZQ_TOKEN": TOKEN,
    "KRANZQ_TOKEN_FILE": "/home/ann/secret.token",
    "KRANZQ_SERVER": f"https://ann:secret@queue.example/?authkey={KEY}",
    "AGENTMUX_AUTH_KEY": KEY,
}


def kranzq(where: Path, *words: str, **more: str) -> subprocess.CompletedProcess[str]:
    """Run the command with secrets in its environment."""
    return subprocess.run(
        [sys.executable, "-m", "kranzq", *words],
        cwd=where,
        env={**os.environ, "PYTHONPATH": str(REPO), **more},
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )


def assert_clean(seen: Path) -> None:
    """Nothing in an environment that was written down opens anything."""
    text = seen.read_text()
    assert "PATH=" in text
    assert not [word for word in ("kqa_", "kqo_", "secret", "KRANZQ_TOKEN", "AGENTMUX") if word in text]


def test_a_mission_and_a_hook_inherit_no_token(checkout: Path, tmp_path: Path) -> None:
    """Of a dispatcher that has them all."""
    seen, heard = tmp_path / "mission", tmp_path / "hook"
    hook = tmp_path / "hook.sh"
    hook.write_text(f"#!/bin/sh\nenv > {heard}.new && mv {heard}.new {heard}\n")
    hook.chmod(0o700)
    config = Path(os.environ["XDG_CONFIG_HOME"]) / "kranzq/config.toml"
    config.parent.mkdir(parents=True)
    config.write_text(f'[hooks]\ndrained = ["{hook}"]\n')
    assert kranzq(checkout, "enqueue", "m1", "--", "sh", "-c", f"env > {seen}").returncode == 0
    done = kranzq(checkout, "drain", **GIVEN)

    assert done.returncode == 0, done.stderr
    wait_for(heard.exists, "the hook is told")
    assert_clean(heard)
    assert_clean(seen)
    assert "KRANZQ_SERVER=https://queue.example/\n" in seen.read_text()


def test_an_items_command_inherits_no_token(isolated: Path, tmp_path: Path) -> None:
    """Of an agent that claims from a server or a database with them."""
    del isolated
    seen, url = tmp_path / "command", f"sqlite:///{tmp_path}/work.db"
    with work.open(url) as store:
        store.enqueue(work.NewItem("a", "b"))
    words = ("work", "claim", "--url", url, "--exec", "--", "sh", "-c", f"env > {seen}")
    done = kranzq(tmp_path, *words, **GIVEN)

    assert done.returncode == 0, done.stderr
    assert_clean(seen)


@pytest.mark.parametrize(
    "words",
    [
        ("--", "curl", "-H", f"Authorization: Bearer {TOKEN}"),
        ("--env", f"A={KEY}", "--", "true"),
        ("--env", "KRANZQ_TOKEN=anything", "--", "true"),
    ],
)
def test_no_approval_takes_a_token(checkout: Path, words: tuple[str, ...]) -> None:
    """It would lie in the checkout; the refusal says what to do, and repeats nothing."""
    done = kranzq(checkout, "enqueue", "m1", *words)

    assert done.returncode == 2
    assert "Put the token into a file" in done.stderr
    assert not [word for word in (TOKEN, KEY) if word in done.stderr]
    assert not list((checkout / ".kranz").glob("queue/*.json"))
