"""The table of all settings: each described once, for reading, for the names of the variables and for the reference.

A new setting is one row here and one field in `kranzq.config`; its check is a parser in `values`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping

from kranzq.config.values import (
    one_of,
    parse_backends,
    parse_cap,
    parse_command,
    parse_count,
    parse_database,
    parse_duration,
    parse_environment,
    parse_groups,
    parse_hook,
    parse_lease,
    parse_name,
    parse_positive,
    parse_size,
    parse_timeout,
    split_command,
    split_names,
)
from kranzq.errors import BadSetting
from kranzq.model.frozen import frozen

OTHER_VARIABLES: Mapping[str, str] = {
    "KRANZQ_AS_ROOT": "1: root means to work in another user's checkout, as in a container",
    "KRANZQ_AGENT": "the name under which one enqueues and claims items; without it user@host",
    "KRANZQ_AGENT_UID": "the uid that goes with that name",
    "KRANZQ_AGENT_GROUPS": "the groups whose items one may claim, with spaces or commas between them",
    "KRANZQ_SERVER": "a kranzq server, used in the place of a database and of a checkout's missions",
    "KRANZQ_TOKEN_FILE": "the file in which one's token for that server lies; mode 600",
    "KRANZQ_TOKEN": "that token, where there is no such file",
    "KRANZQ_HOOK": "the mark by which `kranzq hook` knows the entry of an MCP server that it has made",
}
"""`KRANZQ_*` variables that are no settings, each with its meaning; whoever reads one puts it here."""


@frozen
class Setting:
    """One setting. `default` is written as one would write it in the file; `kind` and `text` are for people."""

    name: str
    kind: str
    default: object
    text: str
    parse: Callable[[object], object]
    """Raises ValueError with half a sentence."""
    split: Callable[[str], object] | None = None
    """Makes of a variable's or flag's text what would stand in a file."""

    @property
    def variable(self) -> str:
        """The variable that sets it."""
        return "KRANZQ_" + self.name.replace(".", "_").upper()

    def value_of(self, value: object, where: str, key: str, *, as_text: bool = False) -> object:
        """The parsed value. Raises BadSetting, which names where it stood and under which key.

        `as_text` tells that it came from a variable or a flag, where everything is a text.
        """
        try:
            if as_text and isinstance(value, str) and self.split is not None:
                value = self.split(value)
            return self.parse(value)
        except ValueError as fault:
            raise BadSetting(where, key, str(fault)) from fault


SETTINGS: tuple[Setting, ...] = (
    Setting(
        "backends",
        "list of words",
        ["file"],
        'What a dispatcher serves: "file", the queue of its checkout, and perhaps "sql", items of the work queue.',
        parse_backends,
        split_names,
    ),
    Setting(
        "mission.command",
        "list of texts",
        [],
        "What runs a mission that has no command of its own; {mission_id}, {mission_dir} and {repo} are filled in.",
        parse_command,
        split_command,
    ),
    Setting(
        "mission.grace_seconds", "duration", 10, "Time between TERM and KILL when a mission is ended.", parse_duration
    ),
    Setting(
        "mission.on_survivors",
        '"end" or "report"',
        "end",
        "What happens to processes that outlive the end of their mission.",
        one_of("end", "report"),
    ),
    Setting(
        "mission.on_interrupted",
        '"again" or "park"',
        "again",
        "Whether an interrupted mission runs again or is parked for a person.",
        one_of("again", "park"),
    ),
    Setting(
        "mission.interruption_limit",
        "whole number",
        3,
        "How often a mission may be interrupted within one start of the machine; then it is parked.",
        parse_count,
    ),
    Setting(
        "mission.deferral_limit",
        'duration or "none"',
        "24h",
        "How long after its first deferral a mission may still defer itself; then it is parked.",
        parse_timeout,
    ),
    Setting(
        "mission.timeout",
        'duration or "none"',
        "none",
        "How long a mission may take that says nothing itself.",
        parse_timeout,
    ),
    Setting(
        "mission.environment",
        '"inherit" or list of names',
        "inherit",
        "Which variables of the dispatcher a mission gets.",
        parse_environment,
        split_names,
    ),
    # Four times the cap of a mission's output: below it, output, end record and the mission's own commits do not all
    # fit, and a mission that costs hours would fail at its end; far more would refuse small containers for nothing.
    Setting(
        "mission.min_free_disk", "size", "256MiB", "No mission is started with less free space than this.", parse_size
    ),
    Setting(
        "mission.output_cap",
        'size or "none"',
        "64MiB",
        "How much of a mission's output is kept: half from its beginning, half from its end.",
        parse_cap,
    ),
    Setting(
        "daemon.on_stop",
        '"wait", "leave", "end" or "auto"',
        "auto",
        "What a stopped daemon does about the running mission; auto: wait, but leave it under a service manager.",
        one_of("wait", "leave", "end", automatic="auto"),
    ),
    Setting(
        "daemon.poll_seconds", "duration", 5, "How often directories that cannot be watched are read.", parse_positive
    ),
    Setting(
        "daemon.scan_seconds",
        "duration",
        10,
        "How often everything is looked at, whatever was watched.",
        parse_positive,
    ),
    Setting(
        "daemon.recover_seconds",
        "duration",
        60,
        "How often claims are examined while nothing else happens.",
        parse_positive,
    ),
    Setting(
        "status.long_run", "duration", "2h", "A mission that runs for longer is named by `status`.", parse_positive
    ),
    Setting("status.long_silence", "duration", "30m", "So is one that has said nothing for this long.", parse_positive),
    # What a person looks for after a bad night are the last few runs of each mission; a quarter of a year covers the
    # slowest "when did this begin?". The counts bound what a mission that fails every minute can fill.
    Setting("retention.runs_per_mission", "whole number", 20, "So many runs of a mission are kept.", parse_count),
    Setting("retention.runs_age", "duration", "90d", "Runs that ended longer ago are removed.", parse_positive),
    Setting("retention.quarantine_count", "whole number", 1000, "So many quarantined files are kept.", parse_count),
    Setting("retention.quarantine_age", "duration", "90d", "Files quarantined longer ago are removed.", parse_positive),
    Setting(
        "work.url",
        'URL or "own"',
        "own",
        "The database of the work queue; own: the user's own SQLite file below the state directory.",
        parse_database,
    ),
    Setting("work.lease", "duration", "2m", "How long a claim of an item counts without a heartbeat.", parse_lease),
    # An item's end is looked at within days, its history for the sake of who did what: a month covers both, and with
    # a million items a day it is already a large database.
    Setting("work.retention", "duration", "30d", "Items that ended longer ago are removed.", parse_positive),
    Setting(
        "work.sweep_seconds",
        "duration",
        15,
        "How often a daemon or server lets overdue leases lapse and opens what is due.",
        parse_positive,
    ),
    Setting(
        "work.command",
        "list of texts",
        [],
        "What runs an item of the work queue in this checkout; without it mission.command does.",
        parse_command,
        split_command,
    ),
    Setting(
        "work.agent",
        'name or "auto"',
        "auto",
        "The name under which a dispatcher claims items; auto: kranzq@HOST:PATH of its checkout.",
        parse_name,
    ),
    Setting(
        "work.groups",
        "list of names",
        [],
        "The groups whose items a dispatcher claims, besides that of its repository.",
        parse_groups,
        split_names,
    ),
    Setting(
        "work.mission_lease",
        "duration",
        "15m",
        "How long an item that runs in a checkout counts as held without a renewal.",
        parse_lease,
    ),
    *(
        Setting(
            f"hooks.{name}", "list of texts", [], f"The program or URL that is told {when}.", parse_hook, split_command
        )
        for name, when in (
            ("enqueued", "when a mission was approved; the event is JSON on its input"),
            ("started", "when a mission's process runs"),
            ("ended", "when a run has ended, with its outcome and its fate"),
            ("failed", "when a run failed or timed out and no further try follows"),
            ("parked", "when a mission was set aside for a person"),
            ("drained", "when a dispatcher has run missions and nothing more may run now"),
            ("needs_person", "when something waits for a person: parked, quarantined, unsigned, without a command"),
        )
    ),
    # Ten seconds: long enough that a queue of quick failures is one message, short enough that nobody waits for news.
    Setting(
        "hooks.window",
        "duration",
        10,
        "When a hook was told three events within this time, the next ones are told together; 0: never.",
        parse_duration,
    ),
)
TABLES = frozenset(setting.name.partition(".")[0] for setting in SETTINGS if "." in setting.name)
_BY_NAME = {setting.name: setting for setting in SETTINGS}


def unknown_variables(environ: Mapping[str, str]) -> tuple[str, ...]:
    """The `KRANZQ_*` variables that mean nothing; `check` names them, for they are often typing mistakes."""
    known = {setting.variable for setting in SETTINGS} | set(OTHER_VARIABLES)
    return tuple(sorted(name for name in environ if name.startswith("KRANZQ_") and name not in known))


def setting_named(where: str, name: str) -> Setting:
    """The setting of that name. Raises BadSetting when there is none."""
    if name not in _BY_NAME:
        raise unknown_setting(where, name)
    return _BY_NAME[name]


def unknown_setting(where: str, name: str) -> BadSetting:
    """The error about a name that is no setting, with the one that was probably meant."""
    import difflib  # noqa: PLC0415 - only a mistake needs it

    forms = {name.rpartition(".")[2]: name for name in _BY_NAME} | {name: name for name in _BY_NAME}
    close = difflib.get_close_matches(name, forms, n=1) or difflib.get_close_matches(name, TABLES, n=1)
    advice = f"Did you mean {forms.get(close[0], close[0])!r}?" if close else "Known are: " + ", ".join(_BY_NAME)
    shown = re.sub(
        r"://.*", "://…", name, flags=re.DOTALL
    )  # a URL that slipped to the left of its key is a secret still
    return BadSetting(where, shown, "is unknown", advice)
