"""An agent of the user's launchd, one a checkout. Best effort: what it does was read in launchd.plist(5), not tried.

launchd says nothing to its agents by which a daemon would know it, so what a stop does is said on its command line.
"""

from __future__ import annotations

import os
import plistlib
import re
import shlex
from collections.abc import Mapping, Sequence
from typing import Any

from kranzq.errors import UsageFault
from kranzq.model.frozen import frozen
from kranzq.service.facts import RETRY_S, STOP_S, Facts
from kranzq.service.manager import State, ask
from kranzq.service.mark import marked

_HEAD_LINES = 2
"""The XML declaration and the type: the mark comes behind them."""


@frozen
class Launchd:
    """The agent of one checkout. `environ` is the environment of this process."""

    facts: Facts
    environ: Mapping[str, str]

    @property
    def kind(self) -> str:
        """As the contract has it."""
        return "launchd"

    @property
    def unit(self) -> str:
        """As the contract has it."""
        return self.facts.name

    @property
    def path(self) -> str:
        """As the contract has it."""
        return f"{self._library}/LaunchAgents/{self.unit}.plist"

    def text(self) -> str:
        """As the contract has it."""
        log = f"{self._library}/Logs/{self.unit}.log"
        told: dict[str, Any] = {
            "Label": self.unit,
            "ProgramArguments": [*self.facts.words("daemon", "--on-stop", "leave")],
            "EnvironmentVariables": dict(self.facts.environment),
            "WorkingDirectory": "/",
            "RunAtLoad": True,
            "KeepAlive": True,
            "ThrottleInterval": RETRY_S,
            "ExitTimeOut": STOP_S,
            "AbandonProcessGroup": True,  # missions live on in their keepers, and the next daemon adopts them
            "ProcessType": "Interactive",  # any other kind is slowed down, and the missions with it
            "Umask": self.facts.umask,
            "StandardOutPath": log,
            "StandardErrorPath": log,
        }
        try:
            lines = plistlib.dumps(told, sort_keys=False).decode().split("\n", _HEAD_LINES)
        except ValueError as fault:  # UnicodeEncodeError among them
            raise UsageFault(
                f"launchd cannot be told of {self.facts.root}: a path or variable has a control character or is no "
                "UTF-8.",
                "Move the checkout, or set another value, then repeat the command.",
            ) from fault
        head = "".join(f"{line}\n" for line in lines[:_HEAD_LINES])
        return marked(head, lines[-1], before="<!-- ", after=" -->")

    def is_same(self, installed: str, wanted: str) -> bool:
        """As the contract has it."""
        return _without_shell(installed) == _without_shell(wanted)

    def state(self) -> State | None:
        """As the contract has it."""
        answer = ask(["launchctl", "print", self._target])
        if not answer.ended_well:
            started = ask(["launchctl", "print", self._domain]).ended_well
            advice = f"Type: {shlex.join(self._bootstrap)}"
            return State(active=False, text="not loaded", advice=advice) if started else None
        told = dict(re.findall(r"^\s*(state|pid|last exit code|runs) = (.*)$", answer.said, re.MULTILINE))
        parts = [told.get("state", "loaded"), *(f"{name} {value}" for name, value in told.items() if name != "state")]
        return State(active=True, text=", ".join(parts))

    def to_start(self, *, active: bool) -> Sequence[Sequence[str]]:
        """As the contract has it."""
        return [["launchctl", "bootout", self._target], self._bootstrap] if active else [self._bootstrap]

    def to_stop(self) -> Sequence[Sequence[str]]:
        """As the contract has it."""
        return [["launchctl", "bootout", self._target]]

    def to_forget(self) -> Sequence[Sequence[str]]:
        """As the contract has it."""
        return []

    def to_know(self) -> Sequence[tuple[str, Sequence[str]]]:
        """As the contract has it."""
        return [("its log", ["tail", "-f", f"{self._library}/Logs/{self.unit}.log"])]

    def links(self) -> Sequence[str]:
        """As the contract has it."""
        return []

    def kept(self) -> str | None:
        """As the contract has it."""
        return None

    @property
    def _library(self) -> str:
        return f"{self.environ.get('HOME') or os.path.expanduser('~')}/Library"

    @property
    def _domain(self) -> str:
        return f"gui/{os.getuid()}"

    @property
    def _target(self) -> str:
        return f"{self._domain}/{self.unit}"

    @property
    def _bootstrap(self) -> list[str]:
        return ["launchctl", "bootstrap", self._domain, self.path]


def _without_shell(text: str) -> object:
    try:
        told = plistlib.loads(text.encode())
    except (plistlib.InvalidFileException, ValueError, OverflowError, SyntaxError):
        return None
    if isinstance(told, dict):
        told.pop("Umask", None)
        if isinstance(variables := told.get("EnvironmentVariables"), dict):
            variables.pop("PATH", None)
    return told
