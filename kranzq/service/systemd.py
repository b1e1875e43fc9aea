"""A unit of the user's own systemd, one a checkout.

Why so little hardening: a mission is any command of the user's, and inherits whatever the daemon is denied. What
systemd can take from a service of a user it takes together with the right to become another one (`sudo`), or by a view
of the files of its own, which agents and their helpers outside do not share. So the unit confines nothing; whoever
knows the missions adds a drop-in.
"""

from __future__ import annotations

import os
import re
import shlex
import time
from collections.abc import Mapping, Sequence

from kranzq.errors import EXIT_REFUSED, EXIT_USAGE, UsageFault
from kranzq.model.frozen import frozen
from kranzq.model.whole import parse_whole
from kranzq.service.facts import RETRY_S, STOP_S, WATCHDOG_S, Facts
from kranzq.service.manager import State, ask
from kranzq.service.mark import marked
from kranzq.service.quoting import assignment, command_line, is_assignable, shown
from kranzq.trust.key import base_dir

_OF_THE_SHELL = re.compile(r'(Environment="?PATH=|UMask=|# kranzq service: )')
_ASKED = (
    *("LoadState", "ActiveState", "SubState", "UnitFileState", "FragmentPath", "NeedDaemonReload"),
    *("Result", "MainPID", "ExecMainStatus", "ExecMainStartTimestampMonotonic", "NRestarts"),
)
_LINGER = "/var/lib/systemd/linger"
_STOPS = 'test "$(systemctl --user is-system-running)" != stopping || exec "$@"'
"""Before the user's manager itself ends, at the last logout or with the machine, and with it by KILL all that it ever
started: keepers as well."""
_TEMPLATE = """\
# kranzq dispatches the missions of {root} here. Written by: kranzq service install
# Changes of your own belong into a drop-in, which kranzq leaves alone: systemctl --user edit {unit}

[Unit]
Description=Missions of {description} (kranzq)
# Never give up: a disk that is mounted late or was full comes back.
StartLimitIntervalSec=0

[Service]
Type=notify
NotifyAccess=main
ExecStart={start}
# When your last session or the machine ends, keepers would be killed: the running mission is ended in order before, and
# its entry goes back, uncounted. At any other stop or restart the mission goes on.
ExecStop=-{stop}
Restart=always
RestartSec={retry}
# What only a person can mend: wrong settings ({usage}), an unsafe path or a missing right ({refused}).
RestartPreventExitStatus={usage} {refused}
WatchdogSec={watchdog}
TimeoutStopSec={patience}
# Only the daemon is signalled; missions live on in their keepers, and the next daemon adopts them.
KillMode=process
# A mission that takes too much memory ends, not the daemon.
OOMPolicy=continue
# As in a terminal: the bounds of your user's slice count, no closer ones.
TasksMax=infinity
# As in the shell from which it was installed; missions inherit it.
UMask={umask:04o}
{environment}
[Install]
WantedBy=default.target
"""


@frozen
class Systemd:
    """The unit of one checkout. `environ` is the environment of this process."""

    facts: Facts
    environ: Mapping[str, str]

    @property
    def kind(self) -> str:
        """As the contract has it."""
        return "systemd"

    @property
    def unit(self) -> str:
        """As the contract has it."""
        return f"{self.facts.name}.service"

    @property
    def path(self) -> str:
        """As the contract has it."""
        return f"{base_dir(self.environ, 'XDG_CONFIG_HOME', '.config')}/systemd/user/{self.unit}"

    def text(self) -> str:
        """As the contract has it."""
        for name, value in self.facts.environment:
            if not is_assignable(value):
                raise UsageFault(
                    f"${name} has bytes in it that systemd does not take ({value!r}).",
                    f"Set another {name}, then repeat the command.",
                )
        facts = self.facts
        body = _TEMPLATE.format(
            root=shown(facts.root),
            description=shown(facts.root).replace("%", "%%"),
            unit=self.unit,
            start=command_line(facts.words("daemon")),
            stop=command_line(["/bin/sh", "-c", _STOPS, "sh", *facts.words("stop", "--now")]),
            retry=RETRY_S,
            usage=EXIT_USAGE,
            refused=EXIT_REFUSED,
            watchdog=WATCHDOG_S,
            patience=STOP_S,
            umask=facts.umask,
            environment="".join(f"Environment={assignment(*one)}\n" for one in facts.environment),
        )
        return marked(body, "")

    def is_same(self, installed: str, wanted: str) -> bool:
        """As the contract has it."""
        return _without_shell(installed) == _without_shell(wanted)

    def state(self) -> State | None:
        """As the contract has it."""
        answer = ask(["systemctl", "--user", "show", self.unit, f"--property={','.join(_ASKED)}"])
        if not answer.ended_well:
            return None
        told = dict.fromkeys(_ASKED, "") | dict(line.split("=", 1) for line in answer.said.splitlines() if "=" in line)
        parts = [f"{told['ActiveState']} ({told['SubState']})", told["UnitFileState"] or "not enabled"]
        parts += [f"pid {told['MainPID']}"] if told["MainPID"] not in {"", "0"} else []
        parts += [f"started anew {told['NRestarts']} times"] if told["NRestarts"] not in {"", "0"} else []
        if told["Result"] not in {"", "success"}:
            parts.append(f"result {told['Result']} (exit code {told['ExecMainStatus']})")
        active = told["ActiveState"] in {"active", "activating", "reloading"}
        stale = active and self._is_older(told["ExecMainStartTimestampMonotonic"])
        return State(active, ", ".join(parts), self._advice(told, stale=stale), stale)

    def to_start(self, *, active: bool) -> Sequence[Sequence[str]]:
        """As the contract has it."""
        reload = ["systemctl", "--user", "daemon-reload"]
        enable = ["systemctl", "--user", "enable", "--now", self.unit]
        restart = ["systemctl", "--user", "restart", self.unit]
        return [reload, enable, restart] if active else [reload, enable]

    def to_stop(self) -> Sequence[Sequence[str]]:
        """As the contract has it."""
        return [["systemctl", "--user", "disable", "--now", self.unit]]

    def to_forget(self) -> Sequence[Sequence[str]]:
        """As the contract has it."""
        return [["systemctl", "--user", "daemon-reload"]]

    def to_know(self) -> Sequence[tuple[str, Sequence[str]]]:
        """As the contract has it."""
        log = ("its log", ["journalctl", "--user", "-f", "-u", self.unit])
        linger = ("let it outlive your last session", ["loginctl", "enable-linger"])
        return [log] if self._lingers() else [log, linger]

    def links(self) -> Sequence[str]:
        """As the contract has it."""
        return [f"{os.path.dirname(self.path)}/default.target.wants/{self.unit}"]

    def kept(self) -> str | None:
        """As the contract has it."""
        return f"{self.path}.d" if os.path.isdir(f"{self.path}.d") else None

    def _advice(self, told: Mapping[str, str], *, stale: bool) -> str:
        if told["LoadState"] == "not-found":
            return f"systemd does not look for it there. Type: {shlex.join(['systemctl', '--user', 'link', self.path])}"
        if (read := told["FragmentPath"]) and os.path.realpath(read) != os.path.realpath(self.path):
            return f"systemd reads another file than this shell would write: {read}"
        if stale or told["NeedDaemonReload"] == "yes":
            restart = [self.to_start(active=True)[0], self.to_start(active=True)[-1]] if stale else self.to_forget()
            return f"Its file has changed since. Type: {' && '.join(map(shlex.join, restart))}"
        if told["ActiveState"] == "failed":
            return f"See why: journalctl --user -e -u {self.unit}"
        if told["ActiveState"] != "active" or told["UnitFileState"] != "enabled":
            return f"Type: {shlex.join(self.to_start(active=False)[-1])}"
        return (
            "" if self._lingers() else "It ends with your last session; to prevent that, type: loginctl enable-linger"
        )

    def _is_older(self, started_us: str) -> bool:
        """Whether a daemon that began then, in microseconds of the monotonic clock, began before the file was made."""
        try:
            written_s = os.stat(self.path).st_mtime
            return time.time() - (time.monotonic() - parse_whole(started_us, 1) / 1_000_000) < written_s
        except (OSError, ValueError):
            return False

    def _lingers(self) -> bool:
        import pwd  # noqa: PLC0415 - only systems that have it get here

        try:
            return os.path.exists(f"{_LINGER}/{pwd.getpwuid(os.getuid()).pw_name}")
        except KeyError:
            return False


def _without_shell(text: str) -> list[str]:
    return [line for line in text.split("\n") if _OF_THE_SHELL.match(line) is None]


def unit_of(pid: int) -> str | None:
    """The unit of a living process, by its control group; None where that does not tell."""
    try:
        with open(f"/proc/{pid}/cgroup", encoding="utf-8", errors="replace") as file:
            found = re.findall(r"/([^/\n]+\.service)$", file.read(), re.MULTILINE)
    except OSError:
        return None
    return found[-1] if found else None
