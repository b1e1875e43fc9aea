"""No token of kranzq and nothing else that opens a server gets into a mission's environment."""

from __future__ import annotations

import pytest

from kranzq.model.checkout import Checkout
from kranzq.runner import Prepared
from kranzq.runs.command import MissionRunner, mission_environment
from tests.factories import make_entry

TOKEN, KEY = "kqa_" + "x" * 43, "kqo_" + "y" * 43
SECRETS = {
    "KRANZQ_TOKEN": "whatever",
    "KRANZQ_TOKEN_FILE": "/home/ann/token",
    "KRANZQ_OPERATOR_KEY": "whatever",
    "AGENTMUX_AGENT_TOKEN": TOKEN,
    "AGENTMUX_AUTH_KEY": KEY,
    "MY_HEADERS": f"Authorization: Bearer {TOKEN}\n",
}


def test_tokens_are_left_out_under_whatever_name() -> None:
    """Also when the settings name the variable."""
    assert mission_environment({**SECRETS, "PATH": "/bin"}) == {"PATH": "/bin"}
    assert mission_environment(SECRETS, tuple(SECRETS)) == {}


@pytest.mark.parametrize(
    ("given", "kept"),
    [
        ("http://127.0.0.1:8080", "http://127.0.0.1:8080"),
        ("https://queue.example/base", "https://queue.example/base"),
        ("https://ann:secret@queue.example:8443/base", "https://queue.example:8443/base"),
        ("https://secret@queue.example", "https://queue.example"),
        ("https://a@b@queue.example/x@y", "https://queue.example/x@y"),
        ("https://queue.example?token=secret", "https://queue.example"),
        ("https://queue.example/#secret", "https://queue.example/"),
        (f"https://queue.example?{TOKEN}", "https://queue.example"),
        ("unix:/run/user/1000/a@b.sock", "unix:/run/user/1000/a@b.sock"),
        ("unix:///run/x.sock?authkey=secret", "unix:///run/x.sock"),
    ],
)
def test_the_server_is_told_without_what_opens_it(given: str, kept: str) -> None:
    """So that what a mission asks goes to the same server, or fails, and never to another place unnoticed."""
    assert mission_environment({"KRANZQ_SERVER": given}) == {"KRANZQ_SERVER": kept}


def test_an_entry_brings_no_token_along(tmp_path: object) -> None:
    """One that another program made, or one of before: it lies in the checkout, where others read it."""
    checkout = Checkout(str(tmp_path), has_git=False)
    entry = make_entry("m-1", 2, "true")
    assert entry.own is not None
    entry.own.env.update({"KRANZQ_TOKEN": "x", "A": f"a {TOKEN}", "B": KEY, "C": "kept"})  # type: ignore[attr-defined]
    runner = MissionRunner((), lambda command, **_: tuple(command), {"PATH": "/bin:/usr/bin"})
    found = runner.prepare(checkout, entry, {})

    assert isinstance(found, Prepared)
    assert {name: text for name, text in found.env.items() if name not in {"PATH", "PWD"}} == {"C": "kept"}
