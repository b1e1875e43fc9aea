"""The unit: systemd reads it without a word of complaint, and it says what the daemon needs."""

from __future__ import annotations

import configparser
import os
import re
import subprocess
from pathlib import Path

import pytest

from kranzq.daemon.notify import ServiceManager
from kranzq.errors import EXIT_REFUSED, EXIT_USAGE, UsageFault
from kranzq.service.facts import STOP_S, WATCHDOG_S, Facts, name_of
from kranzq.service.mark import whose
from kranzq.service.systemd import Systemd, unit_of

HOSTILE = "a \"b\" 'c' $HOME ${X} %h %% \\x41 é \udcff;#"
PATH = ("PATH", "/usr/bin:/bin")
DOCS = Path(__file__).resolve().parents[3] / "docs"


def unit(root: str = "/srv/project", program: str = "/bin/true", *more: tuple[str, str]) -> Systemd:
    """The unit of a checkout, as a user would get it whose home is the test's."""
    return Systemd(Facts(root, (program, "-P", "-m", "kranzq"), (PATH, *more), 0o022), os.environ)


def verified(text: str, folder: Path) -> str:
    """What `systemd-analyze verify` complains of; it ends well whatever it finds."""
    path = folder / "kranzq-test.service"
    path.write_text(text)
    argv = ["systemd-analyze", "--user", "--man=no", "verify", str(path)]
    done = subprocess.run(argv, capture_output=True, text=True, check=False, timeout=30)
    return done.stderr + (f"exit code {done.returncode}" if done.returncode else "")


@pytest.mark.system("systemd-analyze")
@pytest.mark.parametrize("name", ["project", "a b", HOSTILE, "trailing\\", "\n[Service]\nRestart=no"])
def test_systemd_has_nothing_to_complain_of(name: str, tmp_path: Path) -> None:
    """Whatever the checkout is called, and wherever Python lies: not one word on standard error."""
    program = tmp_path / os.fsdecode(os.fsencode(f"bin {name}"))
    os.symlink("/bin/true", program)
    made = unit(f"/srv/{name}", str(program), ("XDG_STATE_HOME", "/a 'b' \"c\" $d %h é"))

    assert verified(made.text(), tmp_path) == ""


@pytest.mark.system("systemd-analyze")
def test_a_key_that_systemd_does_not_know_would_be_seen(tmp_path: Path) -> None:
    """The check of the other tests can fail: an unknown key, and a program that is not there."""
    text = unit().text()

    assert "Unknown key" in verified(text.replace("KillMode=", "KilMode="), tmp_path)
    assert "/no/such" in verified(text.replace("ExecStart=/bin/true", "ExecStart=/no/such"), tmp_path)


@pytest.mark.system("systemd-analyze")
def test_the_drop_ins_of_the_page_are_understood(tmp_path: Path) -> None:
    """Each example of what a person may add is read by systemd without complaint, behind the unit."""
    found = re.findall(r"```ini\n(.*?)```", (DOCS / "howto/run-as-a-service.md").read_text(), flags=re.DOTALL)

    assert found
    for drop_in in found:
        assert verified(unit().text() + drop_in, tmp_path) == ""


def test_it_says_what_keeps_missions_alive_and_the_daemon_running() -> None:
    """Only the daemon is signalled, out of memory ends nobody else, and it is started again for ever."""
    said = configparser.ConfigParser(interpolation=None, strict=False)
    said.optionxform = str  # type: ignore[assignment,method-assign]
    said.read_string(unit().text())
    service = dict(said["Service"])

    assert service["Type"] == "notify"
    assert service["NotifyAccess"] == "main"
    assert service["KillMode"] == "process"
    assert service["OOMPolicy"] == "continue"
    assert service["Restart"] == "always"
    assert said["Unit"]["StartLimitIntervalSec"] == "0"
    assert service["RestartPreventExitStatus"].split() == [str(EXIT_USAGE), str(EXIT_REFUSED)]
    assert service["ExecStart"] == "/bin/true -P -m kranzq -C /srv/project daemon"
    assert service["ExecStop"].endswith("/bin/true -P -m kranzq -C /srv/project stop --now")
    assert int(service["TimeoutStopSec"]) == STOP_S
    assert ServiceManager({"WATCHDOG_USEC": f"{service['WatchdogSec']}000000"}).ping_every_s == WATCHDOG_S / 2


@pytest.mark.parametrize(
    "key",
    """NoNewPrivileges PrivateTmp PrivateUsers PrivateDevices ProtectHome ProtectSystem ProtectKernelTunables
    ProtectControlGroups RestrictNamespaces RestrictSUIDSGID MemoryDenyWriteExecute SystemCallFilter LockPersonality
    RestrictRealtime SendSIGHUP""".split(),
)
def test_nothing_is_taken_away_that_a_mission_would_inherit(key: str) -> None:
    """A mission is any command of the user's: what a service is denied, each mission under it is denied as well."""
    assert f"{key}=" not in unit().text()


def test_a_variable_that_systemd_would_drop_is_refused() -> None:
    """It would run without it, say with other keys, and nobody would be told."""
    with pytest.raises(UsageFault, match="XDG_STATE_HOME"):
        unit("/srv/project", "/bin/true", ("XDG_STATE_HOME", "/a\udcff")).text()


def test_each_checkout_has_a_unit_of_its_own() -> None:
    """Named after its folder for people; a hash of the whole path keeps those apart that share a name."""
    names = [
        name_of(root) for root in ("/srv/shop", "/home/ann/shop", "/srv/日本", "/srv/Ünïted shop!", "/", "/x" * 2000)
    ]

    assert len(set(names)) == len(names)
    assert names[0].startswith("kranzq-shop-")
    assert all(re.fullmatch(r"kranzq-[A-Za-z0-9_.-]{1,60}", name) for name in names)


def test_a_unit_differs_in_more_than_the_shell_or_it_does_not() -> None:
    """Another search path or umask is the shell's; another program is not."""
    ours, facts = unit(), unit().facts
    other_shell = Systemd(Facts(facts.root, facts.program, (("PATH", "/a b"),), 0o002), os.environ)

    assert ours.is_same(other_shell.text(), ours.text())
    assert not ours.is_same(unit(program="/bin/false").text(), ours.text())
    assert whose(other_shell.text().encode()) == "ours"


def test_the_unit_of_a_process_is_told_by_its_control_group() -> None:
    """Of one that no unit has started there is none."""
    assert unit_of(2**22 + 1) is None
    assert (unit_of(os.getpid()) or "x.service").endswith(".service")
