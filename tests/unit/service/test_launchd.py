"""The agent of launchd: read again it is what was meant, whatever the paths are."""

from __future__ import annotations

import os
import plistlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kranzq.errors import UsageFault
from kranzq.service.facts import Facts
from kranzq.service.launchd import Launchd
from kranzq.service.mark import whose

PATHS = st.text(st.characters(min_codepoint=32, exclude_categories=["Cs", "Cc"], exclude_characters="\ufffe\uffff"))


def agent(root: str, **environment: str) -> Launchd:
    """The agent of a checkout."""
    return Launchd(
        Facts(root, ("/opt/bin/python", "-P", "-m", "kranzq"), tuple(environment.items()), 0o022), os.environ
    )


@given(PATHS)
def test_every_path_is_read_as_it_was(name: str) -> None:
    """Signs of XML, quotes, blanks and other scripts are the plist's affair."""
    one = agent(f"/srv/{name}", PATH=f"/bin:{name}")
    told = plistlib.loads(one.text().encode())

    assert told["ProgramArguments"][5] == f"/srv/{name}"
    assert told["EnvironmentVariables"] == {"PATH": f"/bin:{name}"}
    assert whose(one.text().encode()) == "ours"


def test_it_says_what_keeps_missions_alive_and_the_daemon_running() -> None:
    """A stop leaves the mission running; the daemon is started again for ever; nothing is slowed down."""
    told = plistlib.loads(agent("/srv/project").text().encode())

    assert told["Label"] == agent("/srv/project").unit
    assert told["ProgramArguments"][-5:] == ["-C", "/srv/project", "daemon", "--on-stop", "leave"]
    assert (told["KeepAlive"], told["RunAtLoad"], told["AbandonProcessGroup"]) == (True, True, True)
    assert told["ProcessType"] == "Interactive"


def test_it_differs_in_more_than_the_shell_or_it_does_not() -> None:
    """Another search path is the shell's; another variable is not."""
    one = agent("/srv/project", PATH="/bin")

    assert one.is_same(agent("/srv/project", PATH="/usr/bin").text(), one.text())
    assert not one.is_same(agent("/srv/project", PATH="/bin", XDG_STATE_HOME="/x").text(), one.text())
    assert not one.is_same("damaged", one.text())


@pytest.mark.parametrize("name", ["\x1b", "\udcff"])
def test_what_a_plist_cannot_hold_is_refused(name: str) -> None:
    """With what is to be done, not with a fault of the library."""
    with pytest.raises(UsageFault, match="launchd cannot be told"):
        agent(f"/srv/{name}").text()
