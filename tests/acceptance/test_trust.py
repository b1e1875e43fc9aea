"""What a person allows, as real commands: settings by digest, a daemon that takes and drops them, keys that rotate."""

from __future__ import annotations

import json
import os
import pty
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from kranzq.wiring import trusting
from tests.laboratory import REPO, Laboratory, wait_for

pytestmark = [pytest.mark.system("git"), pytest.mark.slow]


@pytest.fixture
def lab(checkout: Path) -> Iterator[Laboratory]:
    """A checkout with the real program in it."""
    one = Laboratory(checkout)
    yield one
    for process in one.started:
        if process.poll() is None:
            process.terminate()
        process.wait(60)


def settings(lab: Laboratory, name: str) -> Path:
    """Settings whose command makes a file, and that file."""
    lab.run("init")
    made = lab.notes / name
    (lab.root / ".kranz/kranzq.toml").write_text(f'[mission]\ncommand = ["touch", "{made}"]\n')
    return made


def check(lab: Laboratory) -> dict[str, Any]:
    """The answers of `check` by name; where there are several, the last."""
    return {one["name"]: one for one in json.loads(lab.run("check", "--json", code=None).stdout)["checks"]}


def test_settings_count_only_after_they_were_shown_and_allowed(lab: Laboratory) -> None:
    """Unseen settings run nothing; `trust --settings` shows them and what they change; each verb says one line."""
    made = settings(lab, "made")
    lab.run("enqueue", "m")
    drained = lab.run("drain", code=None)
    assert drained.stderr.count("kranzq.toml does not count") == 1
    assert not made.exists()
    for verb in ("status", "check", "trust"):
        assert lab.run(verb, code=None).stdout.count("does not count: nobody has allowed it here") == 1
    assert "Nobody is here to be asked" in lab.run("trust", "--settings", code=5).stderr

    said = lab.run("trust", "--settings", "--yes").stdout
    assert f'  | command = ["touch", "{made}"]' in said
    assert f"mission.command = touch {made}  (now: nothing)" in said
    assert check(lab)["checkout settings"]["state"] == "ok"
    lab.run("drain")
    assert made.exists()


def test_any_edit_withdraws_the_trust(lab: Laboratory) -> None:
    """After an edit the settings of the user go on, and every verb that tells says that it was changed."""
    settings(lab, "first")
    lab.run("trust", "--settings", "--yes")
    made = settings(lab, "second")
    lab.run("enqueue", "m")
    lab.run("drain", code=None)

    assert not made.exists()
    for verb in ("status", "check", "trust"):
        assert lab.run(verb, code=None).stdout.count("it was changed after it was allowed") == 1
    assert json.loads(lab.run("trust", "--json").stdout)["settings"]["state"] == "changed"


def test_settings_with_a_mistake_are_not_allowed(lab: Laboratory) -> None:
    """What could not be read afterwards is refused now, with the key and a suggestion."""
    settings(lab, "made")
    (lab.root / ".kranz/kranzq.toml").write_text("[mission]\ncomand = []\n")

    assert "Did you mean" in lab.run("trust", "--settings", "--yes", code=2).stderr
    assert json.loads(lab.run("trust", "--json").stdout)["settings"]["state"] == "not trusted"


def test_on_a_terminal_a_person_is_asked(lab: Laboratory) -> None:
    """The text is shown with control characters escaped, then the question; only a yes is one."""
    made = settings(lab, "made")
    with (lab.root / ".kranz/kranzq.toml").open("a") as file:
        file.write("# \u202e hidden\n")
    for answer, state in (("n", "not trusted"), ("y", "trusted")):
        master, slave = pty.openpty()
        with subprocess.Popen(
            lab.command("trust"), cwd=REPO, stdin=slave, stdout=subprocess.PIPE, stderr=subprocess.PIPE
        ) as process:
            os.close(slave)
            os.write(master, f"{answer}\n".encode())
            said = process.communicate(timeout=60)[0].decode()
        os.close(master)
        assert "\\u202e hidden" in said
        assert str(made) in said
        assert json.loads(lab.run("trust", "--json").stdout)["settings"]["state"] == state


def test_a_daemon_takes_settings_when_they_are_allowed_and_drops_them_when_edited(lab: Laboratory) -> None:
    """No restart is needed: the next turn has the command, and the turn after an edit has it no more."""
    made = settings(lab, "made")
    lab.run("enqueue", "m1")
    lab.daemon(env={"KRANZQ_DAEMON_SCAN_SECONDS": "0.1"})
    wait_for(lambda: "m1 passed over" in lab.log(), "m1 waits for a command")
    assert lab.log().count("kranzq.toml does not count") == 1
    lab.run("trust", "--settings", "--yes")
    wait_for(made.exists, "the command of the trusted settings runs m1")
    (lab.root / ".kranz/kranzq.toml").write_text("# nothing\n")
    wait_for(lambda: "the settings of the user count from now on" in lab.log(), "the edit is seen")
    made.unlink()
    lab.run("enqueue", "m2")

    wait_for(lambda: "m2 passed over" in lab.log(), "m2 waits for a command")
    assert not made.exists()
    assert lab.log().count("kranzq.toml does not count") == 2


def test_a_team_may_keep_its_settings_in_git(lab: Laboratory) -> None:
    """Tracked settings are trusted by their bytes like any others."""
    made = settings(lab, "made")
    subprocess.run(["git", "add", "-f", ".kranz/kranzq.toml"], cwd=lab.root, check=True)
    lab.run("trust", "--settings", "--yes")
    lab.run("enqueue", "m")
    lab.run("drain")

    assert made.exists()


def test_withdrawing_takes_back_all_that_was_allowed(lab: Laboratory) -> None:
    """One word ends both permissions, and says when there was none."""
    settings(lab, "made")
    lab.run("trust", "--settings", "--yes")
    lab.run("trust", "--unsigned")
    lab.run("trust", "--withdraw")

    shown = json.loads(lab.run("trust", "--json").stdout)
    assert (shown["unsigned"], shown["settings"]["state"]) == (False, "not trusted")
    assert "nothing was withdrawn" in lab.run("trust", "--withdraw").stdout


def test_a_rotated_key_signs_and_the_old_one_still_verifies(lab: Laboratory) -> None:
    """What was queued before the rotation runs after it; `trust` and `check` show both keys and since when."""
    lab.run("enqueue", "before", "--", "true")
    old = trusting.keyring(os.environ).current().id
    assert "signs from now on" in lab.run("trust", "--rotate-key").stdout
    new = trusting.keyring(os.environ).current().id
    lab.run("enqueue", "after", "--", "true")

    keys = json.loads(lab.run("trust", "--json").stdout)["keys"]
    assert [(one["id"], one["current"]) for one in keys] == [(new, True), (old, False)]
    assert f"Key {old} verifies what it signed; made" in lab.run("trust").stdout
    answers = check(lab)
    assert answers["key"]["text"].startswith(f"{new} signs, since 2")
    assert old in answers["older keys"]["text"]
    lab.run("drain")
    assert lab.outcomes("before") == lab.outcomes("after") == ["succeeded"]


def test_an_unsafe_key_is_named_and_mended_by_a_new_one(lab: Laboratory) -> None:
    """A key file that others could read is a fault with the cure; older keys do not hide it."""
    lab.run("enqueue", "m", "--", "true")
    key = trusting.keyring(os.environ).current()
    path = Path(os.environ["XDG_STATE_HOME"]) / "kranzq/keys" / f"{key.id}.key"
    path.chmod(0o644)

    answer = check(lab)["key"]
    assert answer["state"] == "fault"
    assert "other users may read or write it" in answer["text"]
    assert "unless: " in lab.run("trust").stdout
    lab.run("trust", "--rotate-key")
    lab.run("enqueue", "n", "--", "true")
    drained = lab.run("drain", code=None)
    assert lab.outcomes("n") == ["succeeded"]
    assert drained.stderr.count("m passed over") == 1


def test_check_explains_each_of_them(lab: Laboratory) -> None:
    """What git tracks, records that are links, directories that are open: one line each, with what to do."""
    lab.run("enqueue", "m", "--", "true")
    (lab.root / ".kranz/missions/m/dispatch/001").mkdir(parents=True)
    (lab.root / ".kranz/missions/m/dispatch/001/run.json").symlink_to("/etc/passwd")
    (lab.queue / ".daemon.json").symlink_to("/etc/passwd")
    (lab.queue / ".busy.json").write_text("{}")
    subprocess.run(["git", "add", "-f", ".kranz/queue/.busy.json"], cwd=lab.root, check=True)
    answers = check(lab)
    assert answers["tracked"]["text"] == "git tracks .kranz/queue/.busy.json: it never runs and is not believed"
    assert answers["records"]["text"].startswith("2 unbelieved records: ")
    lab.queue.chmod(0o777)

    assert check(lab)["folder"]["advice"] == f"Type: chmod o-w {lab.queue}"
    assert "Only looking works here" in lab.run("list").stderr


def test_an_index_that_cannot_be_read_lets_nothing_run(lab: Laboratory) -> None:
    """Where git's index tells nothing, the entry waits and says why."""
    lab.run("enqueue", "m", "--", sys.executable, "-c", "")
    (lab.root / ".git/index").write_bytes(b"DIRC\0\0\0\x09\0\0\0\0 unknown")

    assert "git's index cannot be read" in lab.run("drain", code=None).stderr
    assert lab.outcomes("m") == []
    assert "git's index cannot be read" in check(lab)["tracked"]["text"]
