"""Runner for missions: which command, which environment, and the checks that come before a start.

A command of the entry's own is the entry's fault when it is missing; the configured one is everybody's environment.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Protocol

from kranzq.model.checkout import Checkout
from kranzq.model.database_url import has_password, stripped
from kranzq.model.entry import Entry
from kranzq.model.frozen import frozen
from kranzq.model.outcome import Ending, NotStarted, Outcome
from kranzq.model.tokens import has_token
from kranzq.runner import Prepared
from kranzq.runs.preflight import why_not_here

if TYPE_CHECKING:
    from kranzq.model.work import ItemClaim

GIT_LOCATIONS = frozenset(
    {
        "GIT_ALTERNATE_OBJECT_DIRECTORIES",
        "GIT_CEILING_DIRECTORIES",
        "GIT_COMMON_DIR",
        "GIT_CONFIG",
        "GIT_CONFIG_PARAMETERS",
        "GIT_DIR",
        "GIT_DISCOVERY_ACROSS_FILESYSTEM",
        "GIT_EXEC_PATH",
        "GIT_GRAFT_FILE",
        "GIT_IMPLICIT_WORK_TREE",
        "GIT_INDEX_FILE",
        "GIT_INTERNAL_SUPER_PREFIX",
        "GIT_NAMESPACE",
        "GIT_OBJECT_DIRECTORY",
        "GIT_PREFIX",
        "GIT_QUARANTINE_PATH",
        "GIT_REFLOG_ACTION",
        "GIT_REPLACE_REF_BASE",
        "GIT_SHALLOW_FILE",
        "GIT_WORK_TREE",
    }
)
"""Where git found a repository for whoever started us, and with what it was called; a mission must find its own."""
OF_ONE_COMMIT = frozenset({"GIT_AUTHOR_DATE", "GIT_COMMITTER_DATE"})
"""What git tells the hooks of one commit: a daemon that a hook started would date all commits of missions by it."""
OF_THE_DISPATCHER = frozenset(
    {
        "INVOCATION_ID",
        "LISTEN_FDNAMES",
        "LISTEN_FDS",
        "LISTEN_PID",
        "NOTIFY_SOCKET",
        "OLDPWD",
        "WATCHDOG_PID",
        "WATCHDOG_USEC",
    }
)
"""What a service manager or a shell said to the dispatcher and to nobody else."""
SESSION_MARKERS = frozenset(
    {
        "AI_AGENT",
        "CLAUDECODE",
        "CLAUDE_CODE_ENTRYPOINT",
        "CLAUDE_CODE_SESSION_ID",
        "CLAUDE_CODE_SSE_PORT",
        "CODEX_SANDBOX",
        "CODEX_SANDBOX_NETWORK_DISABLED",
        "CODEX_THREAD_ID",
        "CURSOR_AGENT",
        "CURSOR_TRACE_ID",
        "GEMINI_CLI",
        "OPENCODE",
    }
)
"""By which an agent knows that it runs inside another: a mission is nobody's inner session, and some refuse to be."""
OF_A_VIRTUALENV = frozenset(
    {
        "PYTHONHOME",
        "VIRTUAL_ENV",
        "VIRTUAL_ENV_PROMPT",
        "_OLD_VIRTUAL_PATH",
        "_OLD_VIRTUAL_PS1",
        "_OLD_VIRTUAL_PYTHONHOME",
        "__PYVENV_LAUNCHER__",
    }
)
"""What an activated virtualenv says of itself; PATH stays, since the configured command may lie in it."""
OF_AN_ITEM = frozenset(
    {
        "KRANZ_ITEM_ATTEMPT",
        "KRANZ_ITEM_ID",
        "KRANZ_ITEM_KIND",
        "KRANZ_ITEM_PAYLOAD",
        "KRANZ_ITEM_TITLE",
    }
)
"""What the command of an item is told of it: nothing of it is true for what that command dispatches itself."""
MARKS = OF_AN_ITEM | {
    "KRANZ_CLAIM",
    "KRANZ_MISSION_DIR",
    "KRANZ_MISSION_ID",
    "KRANZ_REPO",
    "KRANZ_RUN_DIR",
    "KRANZ_RUN_NUMBER",
}
NOT_PASSED_ON = GIT_LOCATIONS | OF_ONE_COMMIT | OF_THE_DISPATCHER | SESSION_MARKERS | OF_A_VIRTUALENV | MARKS
WORK_URL, SERVER, TOKEN = "KRANZQ_WORK_URL", "KRANZQ_SERVER", "KRANZQ_TOKEN"
_SECRET_WORDS = ("TOKEN", "SECRET", "KEY", "PASSWORD")
_DEFAULT_PATH = "/usr/local/bin:/usr/bin:/bin"


class Expand(Protocol):
    """Fills the placeholders of a configured command."""

    def __call__(self, command: Sequence[str], *, mission_id: str, mission_dir: str, repo: str) -> tuple[str, ...]:
        """The command for one mission."""
        ...


@frozen
class MissionRunner:
    """Prepares missions. `expand` fills the placeholders of `configured`; `names` limits the environment."""

    configured: tuple[str, ...]
    expand: Expand
    environ: Mapping[str, str]
    names: tuple[str, ...] | None = None
    min_free_disk: int = 0

    def can_run(self, entry: Entry) -> bool:
        """Whether there is a command at all."""
        return bool((entry.own is not None and entry.own.command) or self.configured)

    def prepare(self, checkout: Checkout, entry: Entry, marks: Mapping[str, str]) -> Prepared | Ending:
        """What to start, or why it cannot be started. `entry` is already without what its signature does not cover."""
        if (why := why_not_here(checkout, self.min_free_disk)) is not None:
            return _not_started(NotStarted.ENVIRONMENT, why)
        own = entry.own.command if entry.own is not None else ()
        env = {**mission_environment(self.environ, self.names), **_of_entry(entry), **marks}
        cwd = os.path.join(checkout.root, entry.own.cwd) if entry.own is not None and entry.own.cwd else checkout.root
        if not _is_inside(cwd, checkout.root):
            return _not_started(NotStarted.ENTRY, f"its directory {cwd} is not a directory inside the checkout")
        argv = own or self._filled(entry, marks)
        executable = find_executable(argv[0], env.get("PATH", _DEFAULT_PATH), cwd)
        if executable is None:
            kind = NotStarted.ENTRY if own else NotStarted.ENVIRONMENT
            return _not_started(kind, f"command {argv[0]!r} was not found, or is not executable")
        return Prepared(executable, argv, {**env, "PWD": cwd}, cwd)

    def _filled(self, entry: Entry, marks: Mapping[str, str]) -> tuple[str, ...]:
        return self.expand(
            self.configured,
            mission_id=str(entry.mission),
            mission_dir=marks["KRANZ_MISSION_DIR"],
            repo=marks["KRANZ_REPO"],
        )


def mission_environment(environ: Mapping[str, str], names: tuple[str, ...] | None = None) -> dict[str, str]:
    """A mission's environment: the dispatcher's without NOT_PASSED_ON and our secrets."""
    kept = {name: text for name, text in environ.items() if names is None or name in names}
    if plain := stripped(kept.get(WORK_URL, "")):
        kept[WORK_URL] = plain  # else what it enqueues would go to another database, and nobody would be told
    if kept.get(SERVER):
        kept[SERVER] = _without_credentials(kept[SERVER])  # as above
    return {name: text for name, text in kept.items() if name not in NOT_PASSED_ON and not _is_secret(name, text)}


def marks_of_item(claim: ItemClaim, payload: str) -> dict[str, str]:
    """What a command is told of its item, whoever runs it; `payload` is the path of the file with what it carries."""
    return {
        "KRANZ_ITEM_ID": claim.id,
        "KRANZ_ITEM_ATTEMPT": str(claim.attempt),
        "KRANZ_ITEM_TITLE": claim.item.title,
        "KRANZ_ITEM_KIND": claim.item.kind,
        "KRANZ_ITEM_PAYLOAD": payload,
    }


def find_executable(name: str, path: str, cwd: str) -> str | None:
    """The absolute path of a program as execvp would find it from `cwd`, or None."""
    if "/" in name:
        candidates = [os.path.join(cwd, name)]
    else:
        candidates = [os.path.join(cwd, folder or ".", name) for folder in path.split(os.pathsep)]
    return next((one for one in candidates if _is_executable(one)), None)


def _is_executable(path: str) -> bool:
    try:
        return stat.S_ISREG(os.stat(path).st_mode) and os.access(path, os.X_OK)
    except (OSError, ValueError):
        return False


def _of_entry(entry: Entry) -> dict[str, str]:
    """What the entry says, but for tokens: it lies in the checkout, where others may read it."""
    named = entry.own.env if entry.own is not None else {}
    return {name: text for name, text in named.items() if name != TOKEN and not has_token(text)}


def _without_credentials(url: str) -> str:
    """The URL of a server without what may open it: what stands before the host, and all behind the path."""
    scheme, mark, rest = re.split(r"[?#]", url, maxsplit=1)[0].partition("://")
    if not mark:  # unix:/path, which may have any sign in it
        return scheme
    host, slash, path = rest.partition("/")
    return f"{scheme}{mark}{host.rpartition('@')[2]}{slash}{path}"


def _is_secret(name: str, text: str) -> bool:
    if has_token(text):  # under whatever name
        return True
    if name.startswith("KRANZQ_HOOKS_") and "://" in text:  # who knows a webhook's URL may post to it
        return True
    return name.startswith("KRANZQ_") and (any(word in name for word in _SECRET_WORDS) or has_password(text))


def _is_inside(cwd: str, root: str) -> bool:
    real = os.path.realpath(cwd)
    return os.path.isdir(real) and (real == root or real.startswith(root.rstrip("/") + "/"))


def _not_started(kind: NotStarted, reason: str) -> Ending:
    return Ending(Outcome.NOT_STARTED, reason, not_started=kind, counted=False)
