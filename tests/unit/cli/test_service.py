"""The verbs of the service, called in this process, beside a systemd that only writes down what it is asked."""

from __future__ import annotations

import io
import json
import os
import sys
from pathlib import Path

import pytest

from kranzq.cli.main import run
from tests.laboratory import Laboratory

pytestmark = pytest.mark.system("git")
SYSTEMCTL = """#!/bin/sh
here=$(dirname "$0")
echo "$*" >> "$here/asked"
case "$*" in
    *show*) printf 'ActiveState=%s\\nSubState=x\\nUnitFileState=enabled\\n' "$(cat "$here/active")" ;;
esac
"""


class Systemd:
    """What stands in for it: it says of every unit what `active` holds."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.say("inactive")

    def say(self, active: str) -> None:
        """What it says from now on."""
        (self.folder / "active").write_text(active)

    def asked(self) -> list[str]:
        """What it was asked, but for looks."""
        path = self.folder / "asked"
        lines = path.read_text().splitlines() if path.exists() else []
        return [line.removeprefix("--user ") for line in lines if " show " not in line]


@pytest.fixture
def systemd(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Systemd:
    """A `systemctl` of the test's own, the first in the search path."""
    folder = tmp_path / "bin"
    folder.mkdir()
    (folder / "systemctl").write_text(SYSTEMCTL)
    (folder / "systemctl").chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setattr("sys.stdin", io.StringIO())
    return Systemd(folder)


def service(root: Path, *words: str) -> int:
    """One verb; the exit code."""
    return run(["-C", str(root), "service", *words])


def installed(root: Path, capsys: pytest.CaptureFixture[str]) -> Path:
    """The file of a service that was installed."""
    assert service(root, "install", "--yes", "--json") == 0
    return Path(json.loads(capsys.readouterr().out)["file"])


def test_it_shows_what_it_would_write_and_writes_nothing_unasked(
    checkout: Path, systemd: Systemd, isolated: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Where nobody is there to be asked it refuses, with the words that would do it."""
    assert service(checkout, "install") == 5
    said = capsys.readouterr()

    assert "| Type=notify" in said.out
    assert "kranzq service install --yes" in said.err
    assert list((isolated / "config").rglob("*.service")) == []
    assert systemd.asked() == []


def test_installing_says_what_to_type_and_starts_nothing(
    checkout: Path, systemd: Systemd, isolated: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The file is there, as it was shown; a second time nothing is written, and that is said."""
    assert service(checkout, "install", "--yes") == 0
    first = capsys.readouterr().out
    [path] = (isolated / "config/systemd/user").iterdir()
    before = path.stat()
    assert service(checkout, "install") == 0
    second = capsys.readouterr().out

    assert f"  systemctl --user enable --now {path.name}" in first.splitlines()
    assert "loginctl enable-linger" in first
    assert "installed already; nothing was written" in second
    assert (path.stat().st_ino, path.stat().st_mtime_ns) == (before.st_ino, before.st_mtime_ns)
    assert path.stat().st_mode & 0o777 == 0o644
    assert systemd.asked() == []


def test_print_prints_the_file_and_nothing_else(
    checkout: Path, systemd: Systemd, isolated: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Byte by byte what would be written, for another machine or for a look."""
    assert service(checkout, "install", "--print") == 0
    printed = capsys.readouterr().out

    assert not (isolated / "config/systemd").exists()
    assert installed(checkout, capsys).read_text() == printed


def test_now_starts_it_and_a_renewed_one_anew(
    checkout: Path, systemd: Systemd, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A daemon that runs with an older text is restarted, which no mission notices; one with this text is not."""
    assert service(checkout, "install", "--yes", "--now") == 0
    systemd.say("active")
    assert service(checkout, "install", "--yes", "--now") == 0
    monkeypatch.setenv("KRANZQ_DAEMON_SCAN_SECONDS", "7")
    assert service(checkout, "install", "--yes", "--now") == 0
    capsys.readouterr()
    unit = installed(checkout, capsys).name

    begin = ["daemon-reload", f"enable --now {unit}"]
    assert systemd.asked() == [*begin, *begin, *begin, f"restart {unit}"]


def test_what_the_manager_refuses_is_told(checkout: Path, systemd: Systemd, capsys: pytest.CaptureFixture[str]) -> None:
    """With the command that failed and the manager's own words."""
    refusing = SYSTEMCTL + "\ncase \"$*\" in *reload*) echo 'Access denied' >&2; exit 1 ;; esac\n"
    (systemd.folder / "systemctl").write_text(refusing)

    assert service(checkout, "install", "--yes", "--now") == 1
    assert "'systemctl --user daemon-reload' failed: Access denied." in capsys.readouterr().err


def test_without_a_manager_it_says_what_to_do_instead(
    checkout: Path, systemd: Systemd, capsys: pytest.CaptureFixture[str]
) -> None:
    """Nothing is written that nobody would start, unless it is asked for without `--now`; each verb names a way out."""
    (systemd.folder / "systemctl").write_text("#!/bin/sh\necho 'Failed to connect to bus' >&2\nexit 1\n")

    assert service(checkout, "install", "--yes", "--now") == 1
    said = capsys.readouterr().err
    assert "does not run here for you" in said
    assert "Nothing was written" in said
    assert "nohup kranzq daemon" in said
    assert service(checkout, "status") == 0
    shown = capsys.readouterr().out
    assert "not installed" in shown
    assert "nohup kranzq daemon" in shown
    assert "kranzq service install" not in shown
    assert service(checkout, "install", "--yes") == 0
    assert "Where it runs, type:" in capsys.readouterr().out
    assert service(checkout, "status") == 0
    assert "nohup kranzq daemon" in capsys.readouterr().out


def test_a_file_that_differs_is_shown_and_renewed(
    checkout: Path, systemd: Systemd, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """`status` says how it differs and how to renew it; `install` shows the same lines and writes."""
    path = installed(checkout, capsys)
    monkeypatch.setenv("KRANZQ_DAEMON_SCAN_SECONDS", "7")
    assert service(checkout, "status") == 0
    seen = capsys.readouterr().out
    assert service(checkout, "install", "--yes") == 0
    renewed = capsys.readouterr().out

    for said in (seen, renewed):
        assert "| +Environment=KRANZQ_DAEMON_SCAN_SECONDS=7" in said
    assert "Renew it with: kranzq service install" in seen
    assert "KRANZQ_DAEMON_SCAN_SECONDS=7" in path.read_text()


def test_another_search_path_is_no_difference_until_it_is_installed(
    checkout: Path, systemd: Systemd, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A look from another shell must not cry wolf; what would be taken over from there is said."""
    path = installed(checkout, capsys)
    monkeypatch.setenv("PATH", f"{os.environ['PATH']}{os.pathsep}/more")
    assert service(checkout, "status") == 0
    seen = capsys.readouterr().out
    assert service(checkout, "install", "--yes") == 0

    assert "as it would be installed now" in seen
    assert "search path" in seen
    assert "/more" in path.read_text()


@pytest.mark.parametrize("verb", ["install", "remove"])
def test_what_somebody_has_edited_is_kept(
    checkout: Path, systemd: Systemd, capsys: pytest.CaptureFixture[str], verb: str
) -> None:
    """It is named, and only --force replaces or removes it."""
    path = installed(checkout, capsys)
    edited = path.read_text().replace("RestartSec=10", "RestartSec=60")
    path.write_text(edited)
    assert service(checkout, verb, "--yes") == 4
    said = capsys.readouterr()
    kept = path.read_text()
    assert service(checkout, verb, "--yes", "--force") == 0

    assert kept == edited
    assert f"{path} was edited since it was installed." in said.err
    assert verb == "remove" or "RestartSec=10" in path.read_text()
    assert path.exists() == (verb == "install")


@pytest.mark.parametrize("what", ["file", "link", "folder"])
def test_what_was_never_ours_is_kept(
    checkout: Path, systemd: Systemd, capsys: pytest.CaptureFixture[str], what: str
) -> None:
    """A unit of the user's own under that name, or a link to nothing: systemd's way to mask one."""
    path = installed(checkout, capsys)
    path.unlink()
    if what == "file":
        path.write_text("[Service]\nExecStart=/bin/true\n")
    elif what == "link":
        path.symlink_to("/dev/null")
    else:
        path.mkdir()
    assert service(checkout, "status", "--json") == 0
    told = json.loads(capsys.readouterr().out)

    assert told["condition"] == "foreign"
    assert service(checkout, "install", "--yes") == 4
    assert service(checkout, "remove", "--yes") == 4
    assert os.path.lexists(path)


def test_removing_takes_away_what_was_written_and_no_more(
    checkout: Path, systemd: Systemd, capsys: pytest.CaptureFixture[str]
) -> None:
    """The file and the link that enabled it; what the user put beside it stays and is named. A second time: nothing."""
    path = installed(checkout, capsys)
    wants = path.parent / "default.target.wants"
    wants.mkdir()
    (wants / path.name).symlink_to(path)
    drop_in = path.parent / f"{path.name}.d"
    drop_in.mkdir()
    assert service(checkout, "remove") == 5
    assert path.exists()
    capsys.readouterr()
    assert service(checkout, "remove", "--yes") == 0
    said = capsys.readouterr().out
    assert service(checkout, "remove") == 0

    assert sorted(path.parent.iterdir()) == [drop_in]
    assert f"Removed: {path}" in said
    assert str(drop_in) in said
    assert systemd.asked() == [f"disable --now {path.name}", "daemon-reload"]
    assert "is not installed" in capsys.readouterr().out


def test_a_daemon_in_a_terminal_has_to_leave_first(
    lab: Laboratory, systemd: Systemd, capsys: pytest.CaptureFixture[str]
) -> None:
    """It has the checkout: `--now` refuses with its pid, and without it stopping it is the first thing to type."""
    daemon = lab.daemon()
    assert service(lab.root, "install", "--yes", "--now") == 4
    refused = capsys.readouterr().err
    assert service(lab.root, "install", "--yes", "--json") == 0

    assert f"pid {daemon.pid}" in refused
    assert json.loads(capsys.readouterr().out)["next"][0] == "kranzq stop"


def test_a_secret_is_left_out_and_that_is_said(
    checkout: Path, systemd: Systemd, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every program of the user may read a unit."""
    monkeypatch.setenv("KRANZQ_WORK_URL", "postgresql://me:hidden@host/work")
    assert service(checkout, "install", "--yes") == 0
    said = capsys.readouterr()

    assert "KRANZQ_WORK_URL" in said.err
    assert "hidden" not in said.out + said.err


def test_on_a_mac_it_is_an_agent_of_launchd(
    checkout: Path, isolated: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The same verbs write, show and remove a plist."""
    monkeypatch.setattr(sys, "platform", "darwin")
    path = installed(checkout, capsys)
    assert service(checkout, "status", "--json") == 0
    told = json.loads(capsys.readouterr().out)

    assert path.parent == isolated / "Library/LaunchAgents"
    assert (told["manager"], told["condition"], told["state"]) == ("launchd", "current", None)
    assert service(checkout, "remove", "--yes") == 0
    assert not path.exists()


def test_nobody_can_be_asked_in_json(checkout: Path, systemd: Systemd, capsys: pytest.CaptureFixture[str]) -> None:
    """A question would be no JSON."""
    assert service(checkout, "install", "--json") == 2
    assert service(checkout, "remove", "--json") == 2


def test_a_checkout_that_no_daemon_would_serve_gets_no_service(
    checkout: Path, systemd: Systemd, capsys: pytest.CaptureFixture[str]
) -> None:
    """It would be started, refused and started again for ever."""
    (checkout / ".kranz").mkdir()
    (checkout / ".kranz").chmod(0o777)

    assert service(checkout, "install", "--yes") == 5
    assert "everybody may write" in capsys.readouterr().err


def test_the_question_is_answered_by_a_person(
    checkout: Path,
    systemd: Systemd,
    isolated: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """On a terminal it asks; no is no."""
    monkeypatch.setattr(sys.stdin, "isatty", lambda: True)
    monkeypatch.setattr("click.confirm", lambda *_, **__: False)
    assert service(checkout, "install") == 0
    assert "Nothing was written." in capsys.readouterr().out
    assert list((isolated / "config").rglob("*.service")) == []
