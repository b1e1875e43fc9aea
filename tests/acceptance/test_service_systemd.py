"""The service under a real user manager of systemd: what becomes of a mission when its daemon is restarted or ends."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from kranzq.service.quoting import assignment, command_line, is_assignable
from tests.laboratory import Laboratory, is_alive, wait_for
from tests.user_manager import UserManager, user_manager

pytestmark = [pytest.mark.system("systemctl", "unshare", "git"), pytest.mark.slow]


@pytest.fixture
def manager(monkeypatch: pytest.MonkeyPatch, lab: Laboratory) -> Iterator[UserManager]:
    """A manager of the test's own, which the verbs find as well."""
    with user_manager() as one:
        monkeypatch.setenv("XDG_RUNTIME_DIR", one.env["XDG_RUNTIME_DIR"])
        yield one


def installed(lab: Laboratory, manager: UserManager, *, drop_in: str = "") -> str:
    """Install and start the service, with a drop-in of the user's; its unit, once its daemon is ready."""
    told = json.loads(lab.run("service", "install", "--yes", "--json").stdout)
    path, unit = Path(told["file"]), str(told["service"])
    if drop_in:
        (path.parent / f"{unit}.d").mkdir()
        (path.parent / f"{unit}.d" / "mine.conf").write_text(f"[Service]\n{drop_in}\n")
    lab.run("service", "install", "--yes", "--now")
    assert manager.ask("is-active", unit) == "active"
    return unit


def next_daemon(manager: UserManager, unit: str, *earlier: int) -> int:
    """The pid of a daemon that is ready and none of the earlier ones."""
    wait_for(lambda: manager.pid_of(unit) not in {0, *earlier}, "a new daemon")
    wait_for(lambda: manager.ask("is-active", unit) == "active", "it is ready")
    return manager.pid_of(unit)


def begun(lab: Laboratory, mission: str) -> int:
    """The keeper of a mission, once that runs."""
    wait_for(lambda: lab.count("start", mission), f"{mission} has begun")
    return lab.keeper(mission)


def test_a_mission_outlives_each_restart_and_is_settled_by_the_next_daemon(
    lab: Laboratory, manager: UserManager
) -> None:
    """Restarted, killed, stopped from within: a daemon is there again, and the mission has run once."""
    lab.enqueue("m1", *lab.alone("m1", 60))
    unit = installed(lab, manager, drop_in="RestartSec=100ms")
    keeper, first = begun(lab, "m1"), manager.pid_of(unit)
    manager.ask("restart", unit)
    second = next_daemon(manager, unit, first)
    os.kill(second, 9)
    third = next_daemon(manager, unit, first, second)
    stopped = lab.run("stop").stdout
    next_daemon(manager, unit, first, second, third)

    assert f"systemctl --user stop {unit}" in stopped
    assert is_alive(keeper)
    lab.release()
    wait_for(lambda: lab.outcomes("m1") == ["succeeded"], "it is settled")
    assert lab.told() == ["start m1", "end m1"]


def test_when_the_manager_ends_the_running_mission_is_put_back(lab: Laboratory, manager: UserManager) -> None:
    """After the last session, or with the machine: ended in order, uncounted, its entry in its place."""
    lab.enqueue("m1", *lab.alone("m1", 60))
    unit = installed(lab, manager)
    keeper = begun(lab, "m1")
    manager.end()

    assert not is_alive(keeper)
    assert lab.outcomes("m1") == ["interrupted"], unit
    assert lab.records("m1")[-1].counted is False
    assert [name for name in lab.names() if name.endswith("-m1.json")]


def test_term_to_all_of_its_group_puts_the_mission_back(lab: Laboratory, manager: UserManager) -> None:
    """A unit that signals every process, mission and keeper too, makes no mission *failed*: its entry is back."""
    lab.enqueue("m0")
    lab.enqueue("m1", "sh", "-c", f"trap 'exit 9' TERM; setsid sleep 300 & echo start m1 >> {lab.notes}/told; wait")
    lab.enqueue("m2")
    unit = installed(lab, manager, drop_in="KillMode=control-group")
    begun(lab, "m1")
    before = lab.entries()
    manager.ask("stop", unit)
    recovered = lab.run("recover")

    assert lab.outcomes("m1") == ["interrupted"]
    assert lab.records("m1")[-1].counted is False
    assert sorted(name.partition(".json")[0] for name in lab.entries()) == sorted(
        name.partition(".json")[0] for name in before
    )
    assert lab.entries()[0].endswith("-m1.json")
    assert "No claims." in recovered.stdout


def test_remove_leaves_nothing_of_it_but_the_mission(lab: Laboratory, manager: UserManager) -> None:
    """No daemon, no file, no link; the mission goes on, and whoever dispatches next settles it."""
    lab.enqueue("m1", *lab.alone("m1", 60))
    unit = installed(lab, manager)
    keeper = begun(lab, "m1")
    told = json.loads(lab.run("service", "status", "--json").stdout)
    lab.run("service", "remove", "--yes")
    left = [str(path) for path in Path(os.environ["XDG_CONFIG_HOME"]).rglob("*") if unit in path.name]

    assert (told["condition"], told["state"]["active"]) == ("current", True)
    assert manager.ask("show", unit, "--property=LoadState", "--value") == "not-found"
    assert left == []
    assert is_alive(keeper)
    lab.release()
    lab.run("drain")
    assert lab.told() == ["start m1", "end m1"]


def test_what_only_a_person_can_mend_is_not_tried_for_ever(
    lab: Laboratory, manager: UserManager, isolated: Path
) -> None:
    """Wrong settings end the service as *failed*, and it says so; mended, it is started by the same command."""
    config = isolated / "config/kranzq/config.toml"
    config.parent.mkdir(parents=True)
    config.write_text("nonsense = 1\n")
    refused = lab.run("service", "install", "--yes", "--now", code=1)
    seen = json.loads(lab.run("service", "status", "--json").stdout)["state"]
    config.unlink()
    lab.run("service", "install", "--yes", "--now")
    mended = json.loads(lab.run("service", "status", "--json").stdout)

    assert "enable --now" in refused.stderr
    assert (seen["active"], "exit code 2" in seen["text"]) == (False, True)
    assert (mended["state"]["active"], mended["daemon"]["pid"]) == (True, manager.pid_of(mended["service"]))


def test_a_daemon_of_an_older_unit_is_restarted_when_that_is_asked_for(lab: Laboratory, manager: UserManager) -> None:
    """A renewed unit alone changes nothing that runs, and says so; one that runs as it should is left alone."""
    unit = installed(lab, manager)
    first = manager.pid_of(unit)
    lab.run("service", "install", "--yes", "--now")
    left_alone = manager.pid_of(unit)
    newer = {"KRANZQ_DAEMON_SCAN_SECONDS": "7"}
    written = lab.run("service", "install", "--yes", env=newer).stdout
    seen = lab.run("service", "status", env=newer).stdout
    still = manager.pid_of(unit)
    lab.run("service", "install", "--yes", "--now", env=newer)

    assert first == left_alone == still
    assert all(f"systemctl --user restart {unit}" in said for said in (written, seen))
    assert next_daemon(manager, unit, first) != first
    assert "restart" not in lab.run("service", "status", env=newer).stdout


HOSTILE = [
    *(chr(code) for code in range(1, 128)),
    *(
        "",
        " ",
        "a b",
        "$HOME",
        "${HOME}",
        "$$",
        "a$",
        "%h",
        "%%",
        "%",
        "\\",
        "\\n",
        "\\x41",
        ";",
        "\\;",
        "'\"",
        "é",
        "\u2028",
    ),
    *("--", "-x", "@", "trailing\\", "#", "a\nb", "\udcff", "日本", "[Service]", "~", "*", "`id`", "$(id)"),
]


def test_every_word_reaches_the_program_as_it_was(manager: UserManager, tmp_path: Path) -> None:
    """Whatever is in a path: systemd hands it on byte by byte, also as the program's own path and in a variable."""
    folder = tmp_path / "a 'b' \"c\" $HOME \\x %h é"
    folder.mkdir()
    told, program = tmp_path / "told", folder / "program"
    program.write_text(f"""#!/bin/sh
for word in "$0" "$@" "$VALUE"; do printf '%s\\0' "$word"; done > '{told}'
""")
    program.chmod(0o755)
    value = "".join(word for word in HOSTILE if is_assignable(word))
    unit = Path(os.environ["XDG_CONFIG_HOME"]) / "systemd/user/words.service"
    unit.parent.mkdir(parents=True)
    unit.write_text(
        f"[Service]\nType=oneshot\nEnvironment={assignment('VALUE', value)}\n"
        f"ExecStart={command_line([str(program), *HOSTILE])}\n"
    )
    manager.ask("start", "words.service")

    found = [os.fsdecode(word) for word in told.read_bytes().split(b"\0")]
    assert found == [str(program), *HOSTILE, value, ""]
