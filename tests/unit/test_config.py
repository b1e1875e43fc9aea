"""Settings: one order of sources, every mistake named with its place, nothing believed from an unsafe file."""

from __future__ import annotations

import os
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kranzq.config import (
    PLACEHOLDERS,
    SETTINGS,
    Config,
    DaemonSettings,
    HookSettings,
    MissionSettings,
    RetentionSettings,
    StatusSettings,
    WorkSettings,
    config_path,
    expand,
    parse_duration,
    parse_settings,
    parse_size,
    unknown_variables,
)
from kranzq.errors import BadSetting, UnsafePath
from kranzq.model.database_url import DatabaseUrl


class Home:
    """A home directory with a settings file."""

    def __init__(self, path: Path) -> None:
        self.environ = {"HOME": str(path), "XDG_CONFIG_HOME": str(path / "config")}
        self.file = Path(config_path(self.environ))

    def write(self, text: str | bytes) -> Path:
        """Put this into the settings file."""
        self.file.parent.mkdir(parents=True, exist_ok=True)
        self.file.write_bytes(text if isinstance(text, bytes) else text.encode())
        return self.file

    def load(self, variables: dict[str, str] | None = None, **given: Any) -> Config:
        """The settings in this home."""
        return Config.load(self.environ | (variables or {}), **given)

    def fault(self, variables: dict[str, str] | None = None, **given: Any) -> BadSetting:
        """The error about the settings in this home."""
        with pytest.raises(BadSetting) as caught:
            self.load(variables, **given)
        return caught.value


@pytest.fixture
def home(tmp_path: Path) -> Home:
    """An empty home directory."""
    return Home(tmp_path)


def test_the_defaults(home: Home) -> None:
    """Without any file or variable everything has the documented default."""
    assert home.load() == Config(
        MissionSettings(
            command=(),
            grace_seconds=10.0,
            on_survivors="end",
            on_interrupted="again",
            interruption_limit=3,
            deferral_limit=86400.0,
            timeout=None,
            environment=None,
            min_free_disk=256 * 1024 * 1024,
            output_cap=64 * 1024 * 1024,
        ),
        DaemonSettings(on_stop=None, poll_seconds=5.0, scan_seconds=10.0, recover_seconds=60.0),
        StatusSettings(long_run=7200.0, long_silence=1800.0),
        RetentionSettings(20, 90 * 86400.0, 1000, 90 * 86400.0),
        WorkSettings(url=None, lease=120.0, retention=30 * 86400.0, sweep_seconds=15.0),
        HookSettings((), (), (), (), (), (), (), 10.0),
    )


def test_the_table_and_the_values_have_the_same_settings() -> None:
    """Each setting is described once, and each described one is a field."""
    named = ["backends", *(f"mission.{one.name}" for one in fields(MissionSettings))]
    named += [f"daemon.{one.name}" for one in fields(DaemonSettings)]
    named += [f"status.{one.name}" for one in fields(StatusSettings)]
    named += [f"retention.{one.name}" for one in fields(RetentionSettings)]
    named += [f"work.{one.name}" for one in fields(WorkSettings)]
    named += [f"hooks.{one.name}" for one in fields(HookSettings)]

    assert [setting.name for setting in SETTINGS] == named
    assert all(setting.kind and setting.text.endswith(".") for setting in SETTINGS)


def test_a_file_sets_everything(home: Home) -> None:
    """Every setting can stand in the file."""
    home.write("""
        backends = ["file", "sql"]
        [mission]
        command = ["kranz", "run", "{mission_id}"]
        grace_seconds = "1m"
        on_survivors = "report"
        on_interrupted = "park"
        interruption_limit = 5
        deferral_limit = "none"
        timeout = "2h"
        environment = ["PATH", "HOME"]
        min_free_disk = 1000
        output_cap = "none"
        [daemon]
        on_stop = "leave"
        poll_seconds = 0.5
        scan_seconds = "30s"
        recover_seconds = 5
        [status]
        long_run = "1h"
        long_silence = "5m"
        [retention]
        runs_per_mission = 3
        runs_age = "30d"
        quarantine_count = 4
        quarantine_age = "1d"
        [work]
        url = "postgresql://me@host/name"
        lease = "5m"
        retention = "7d"
        sweep_seconds = 20
        command = ["run-item"]
        agent = "a checkout"
        groups = ["review"]
        mission_lease = "5m"
        [hooks]
        enqueued = ["/a/b", "c"]
        started = ["b"]
        ended = ["/c"]
        parked = ["d", "./e"]
        drained = ["f"]
        failed = ["https://example.org:8443/x?y=z"]
        needs_person = ["g"]
        window = "1m"
    """)

    assert home.load() == Config(
        MissionSettings(
            command=("kranz", "run", "{mission_id}"),
            grace_seconds=60.0,
            on_survivors="report",
            on_interrupted="park",
            interruption_limit=5,
            deferral_limit=None,
            timeout=7200.0,
            environment=("PATH", "HOME"),
            min_free_disk=1000,
            output_cap=None,
        ),
        DaemonSettings(on_stop="leave", poll_seconds=0.5, scan_seconds=30.0, recover_seconds=5.0),
        StatusSettings(long_run=3600.0, long_silence=300.0),
        RetentionSettings(3, 30 * 86400.0, 4, 86400.0),
        WorkSettings(
            DatabaseUrl("postgresql://me@host/name"),
            300.0,
            7 * 86400.0,
            20.0,
            ("run-item",),
            "a checkout",
            ("review",),
            300.0,
        ),
        HookSettings(
            ("/a/b", "c"), ("b",), ("/c",), ("https://example.org:8443/x?y=z",), ("d", "./e"), ("f",), ("g",), 60.0
        ),
        ("file", "sql"),
    )


@pytest.mark.parametrize(
    "url",
    [
        "https:",
        "HTTP:x",
        "https://me:pass@example.org/",
        "https://example.org/#a",
        "https://example.org/ a",
        "https://example.org:0/",
        "https://example.org:port/",
    ],
)
def test_a_webhook_is_a_plain_url(home: Home, url: str) -> None:
    """What could go elsewhere than it seems is refused, and a password in it is not repeated."""
    home.write(f"[hooks]\nended = {[url]}\n")

    assert "hooks.ended" in home.fault().sentence
    assert "me:pass" not in home.fault().sentence


def test_a_webhook_may_stand_there_as_a_text(home: Home) -> None:
    """One URL needs no list around it, whatever the source."""
    home.write('[hooks]\nfailed = "https://chat.example.org/S3CRET"\n')

    assert home.load().hooks.failed == ("https://chat.example.org/S3CRET",)


@pytest.mark.parametrize(
    "text",
    [
        'failed = "HTTPS://chat.example.org/S3CRET"',
        'failed = " https://chat.example.org/S3CRET"',
        'failed = "curl https://chat.example.org/S3CRET"',
        'failed = ["https://chat.example.org/S3CRET", 1]',
        'failed = ["https://chat.example.org/S3CRET", "second"]',
        'failed = ["./S3CRET"]',
        'failed = {url = "https://chat.example.org/S3CRET"}',
        "failed = https://chat.example.org/S3CRET",
        'failed = [\n"https://example.org/S3CRET" = \n]',
        'failed =\n"https://example.org/S3CRET"',
        "https://example.org/S3CRET",
        '"https://example.org/S3CRET" = "failed"',
        '"ftp://example.org/S3CRET" = "failed"',
    ],
)  # fmt: skip
def test_what_is_wrong_about_a_hook_is_said_without_its_value(home: Home, text: str) -> None:
    """A webhook's URL is a secret, and what is wrong stands in logs: so no message repeats it, whatever the mistake."""
    home.write(f"[hooks]\n{text}\n")

    fault = home.fault()

    assert "S3CRET" not in fault.sentence + fault.advice


def test_each_source_is_stronger_than_the_one_before(home: Home) -> None:
    """The file, the checkout, variables and flags override each other in this order."""
    seen = [home.load().mission.timeout]
    home.write('mission.timeout = "1s"')
    checkout = {"mission": {"timeout": "2s"}}
    variables = {"KRANZQ_MISSION_TIMEOUT": "3s"}

    seen.append(home.load().mission.timeout)
    seen.append(home.load(checkout_settings=checkout).mission.timeout)
    seen.append(home.load(variables, checkout_settings=checkout).mission.timeout)
    seen.append(home.load(variables, checkout_settings=checkout, flags={"mission.timeout": "4s"}).mission.timeout)

    assert seen == [None, 1.0, 2.0, 3.0, 4.0]


def test_what_is_not_given_changes_nothing(home: Home) -> None:
    """An empty variable and a flag without a value leave the file's value."""
    home.write('daemon.on_stop = "end"')

    assert home.load({"KRANZQ_DAEMON_ON_STOP": ""}, flags={"daemon.on_stop": None}).daemon.on_stop == "end"


def test_a_stronger_source_can_go_back_to_the_default(home: Home) -> None:
    """What the file sets can be taken back with the words for the default."""
    home.write(
        'mission.timeout = "1h"\nmission.environment = ["PATH"]\nmission.command = ["x"]\ndaemon.on_stop = "end"'
    )
    variables = {
        "KRANZQ_MISSION_TIMEOUT": "none",
        "KRANZQ_MISSION_ENVIRONMENT": "inherit",
        "KRANZQ_DAEMON_ON_STOP": "auto",
    }

    config = home.load(variables, flags={"mission.command": []})

    assert (config.mission.timeout, config.mission.environment, config.daemon.on_stop) == (None, None, None)
    assert config.mission.command == ()


def test_lists_in_variables(home: Home) -> None:
    """A command in a variable is quoted as in a shell, names are separated by spaces or commas."""
    variables = {"KRANZQ_MISSION_COMMAND": "run 'a b' {repo}", "KRANZQ_MISSION_ENVIRONMENT": "PATH, HOME LANG"}

    mission = home.load(variables).mission

    assert mission.command == ("run", "a b", "{repo}")
    assert mission.environment == ("PATH", "HOME", "LANG")


@pytest.mark.parametrize(
    ("text", "key", "meant"),
    [
        ("mission.grace_second = 1", "mission.grace_second", "'mission.grace_seconds'"),
        ("[missions]\ncommand = []", "missions.command", "'mission.command'"),
        ("timeout = 1", "timeout", "'mission.timeout'"),
        ("[demon]", "demon", "'daemon'"),
        ("[qqq]\nzzz = 1", "qqq.zzz", "Known are: backends, mission.command,"),
    ],
)
def test_an_unknown_key_is_named_with_the_one_that_was_meant(home: Home, text: str, key: str, meant: str) -> None:
    """A misspelt key is an error that names the file, the key and the probable one."""
    path = home.write(text)

    fault = home.fault()

    assert fault.sentence == f"{path}: setting {key!r} is unknown."
    assert meant in fault.advice


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("mission = 1", "must be a table"),
        ('mission.command = "make"', "must be a list of texts"),
        ("mission.command = [1]", "must be a list of texts"),
        ('mission.command = ["\\u0000"]', "must be a list of texts"),
        ('mission.command = [""]', "must begin with a program"),
        ('mission.command = ["x", "{mision_id}"]', "{mision_id}; known are {mission_id}, {mission_dir}, {repo}"),
        ("mission.grace_seconds = -1", "must be a number of seconds"),
        ("mission.grace_seconds = true", "must be a number of seconds"),
        ("mission.grace_seconds = nan", "must be a number of seconds"),
        ('mission.on_survivors = "kill"', 'must be one of "end", "report", not \'kill\''),
        ("mission.on_interrupted = []", "must be one of"),
        ("mission.timeout = 0", "must be more than 0"),
        ('mission.environment = "all"', 'must be "inherit" or a list of names'),
        ('mission.environment = ["A=B"]', "has 'A=B', which is no name of a variable"),
        ('mission.min_free_disk = "much"', "must be a number of bytes"),
        ("mission.min_free_disk = -1", "must be a number of bytes"),
        ("mission.output_cap = 1000", "must be at least 64KiB"),
        ("retention.runs_per_mission = 0", "must be a whole number from 1 on"),
        ('work.url = "work.db"', "must be sqlite:///path or"),
        ("work.url = 5", "must be sqlite:///path or"),
        ('work.lease = "25h"', "must be at most 24h"),
        ("work.lease = 0", "must be more than 0"),
        ('retention.runs_per_mission = "many"', "must be a whole number from 1 on"),
        ("retention.quarantine_count = true", "must be a whole number from 1 on"),
        ('daemon.on_stop = "now"', '"wait", "leave", "end", "auto"'),
        ("daemon.poll_seconds = {x = 1}", "must be a number of seconds"),
    ],
)
def test_a_wrong_value_is_named_with_what_would_be_right(home: Home, text: str, why: str) -> None:
    """A wrong value is an error that names file and key and says what may stand there."""
    path = home.write(text)

    fault = home.fault()

    assert fault.sentence.startswith(f"{path}: setting '{text.partition(' ')[0]}' ")
    assert why in fault.sentence


def test_mistakes_elsewhere_name_their_place(home: Home) -> None:
    """A mistake in a variable, a flag or the checkout's settings names where it stands."""
    assert "environment: setting 'KRANZQ_DAEMON_ON_STOP'" in str(home.fault({"KRANZQ_DAEMON_ON_STOP": "x"}))
    assert "cannot be split" in str(home.fault({"KRANZQ_MISSION_COMMAND": "a 'b"}))
    assert "command line: setting 'mission.timeout'" in str(home.fault(flags={"mission.timeout": "x"}))
    assert "command line: setting 'mission.timeouts' is unknown" in str(home.fault(flags={"mission.timeouts": 1}))
    assert ".kranz/kranzq.toml: setting 'mission.x' is unknown" in str(
        home.fault(checkout_settings={"mission": {"x": 1}})
    )


@pytest.mark.parametrize(
    ("data", "line", "key"),
    [
        (b"[mission]\ntimeout = \ncommand = []\n", 2, "timeout"),
        (b"[mission]\n\ncommand = ['a'\n", 3, "command"),
        (b"[mission]\ntimeout = '\xff'\n", 2, "timeout"),
        (b"[mission]\ntimeout = " + b"1" * 5000, 2, "timeout"),
    ],
)
def test_a_file_that_is_no_toml_is_named_with_the_line(home: Home, data: bytes, line: int, key: str) -> None:
    """A file that cannot be read as TOML is an error with the file, the line and what stands there."""
    path = home.write(data)

    assert home.fault().sentence.startswith(f"{path}, line {line}: setting {key!r} cannot be read: ")


def test_endless_nesting_is_only_a_mistake() -> None:
    """A file nested without end is an error like any other, whatever the interpreter makes of it."""
    with pytest.raises(BadSetting):
        parse_settings("f", b"a = " + b"[" * 100_000)


def test_a_byte_order_mark_is_read_over() -> None:
    """A mark that some editors put at the beginning is not a mistake."""
    assert parse_settings("f", b"\xef\xbb\xbfmission.timeout = 1") == {"mission": {"timeout": 1}}


def test_a_link_to_a_file_of_ours_is_followed(home: Home, tmp_path: Path) -> None:
    """Settings that are kept elsewhere and linked count."""
    (tmp_path / "dotfiles.toml").write_text('daemon.on_stop = "end"', encoding="utf-8")
    home.file.parent.mkdir(parents=True)
    home.file.symlink_to(tmp_path / "dotfiles.toml")

    assert home.load().daemon.on_stop == "end"


def test_what_is_no_safe_regular_file_is_refused(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    """A directory, a FIFO, a link to nothing, a huge file and one that others can write are refused by name."""

    def refused(why: str) -> None:
        with pytest.raises(UnsafePath, match=why) as caught:
            home.load()
        assert str(home.file) in caught.value.sentence

    home.file.mkdir(parents=True)
    refused("directory")
    home.file.rmdir()
    os.mkfifo(home.file)
    refused("FIFO")
    home.file.unlink()
    home.file.symlink_to("nothing")
    refused("link to nothing")
    home.file.unlink()
    home.write(b"#" * 300_000)
    refused("300000 bytes")
    home.write("").chmod(0o666)
    refused("everybody may write")
    home.file.chmod(0o664)
    assert home.load().daemon.on_stop is None
    monkeypatch.setattr(os, "geteuid", lambda: 4242)
    monkeypatch.setattr("kranzq.config.files.read_regular", _of_user(4343))
    refused("belongs to user 4343")


def _of_user(uid: int) -> Any:
    from kranzq.disk.read import Content

    def read(name: str, *, limit: int) -> Content:
        seen = list(os.stat(name))
        seen[4] = uid
        return Content(b"", os.stat_result(seen))

    return read


def test_where_the_file_lies() -> None:
    """The file's place follows the XDG specification: relative values count as not set."""
    assert config_path({"XDG_CONFIG_HOME": "/c", "HOME": "/h"}) == "/c/kranzq/config.toml"
    assert config_path({"XDG_CONFIG_HOME": "c", "HOME": "/h"}) == "/h/.config/kranzq/config.toml"


def test_unknown_variables_are_listed() -> None:
    """Only variables with our prefix that mean nothing are named."""
    environ = {setting.variable: "x" for setting in SETTINGS}
    environ |= {"KRANZQ_MISSION_TIMEOT": "1", "KRANZQ_": "", "KRANZ_REPO": "r", "HOME": "/h"}

    assert unknown_variables(environ) == ("KRANZQ_", "KRANZQ_MISSION_TIMEOT")
    assert {"KRANZQ_MISSION_COMMAND", "KRANZQ_DAEMON_ON_STOP"} <= {setting.variable for setting in SETTINGS}


@pytest.mark.parametrize(
    ("value", "seconds"),
    [("90s", 90), ("5m", 300), ("2h", 7200), ("1d", 86400), ("1.5h", 5400), ("7 s", 7), ("0", 0), (3, 3), (0.25, 0.25)],
)
def test_durations(value: object, seconds: float) -> None:
    """A duration is a number of seconds or a number with a unit."""
    assert parse_duration(value) == seconds


@pytest.mark.parametrize(
    "value",
    [
        "",
        "5 minutes",
        "-1s",
        "1h30m",
        "1e3",
        "٣s",
        "+5",
        "1_0",
        " 5 ",
        "5\n",
        "5\u00a0s",
        None,
        True,
        -1,
        float("inf"),
        float("nan"),
        10**400,
        "4000d",
    ],
)
def test_no_durations(value: object) -> None:
    """Anything else is refused with examples, also what no clock could count."""
    with pytest.raises(ValueError, match="such as 90s, 5m"):
        parse_duration(value)


@pytest.mark.parametrize(
    ("value", "size"),
    [
        (0, 0),
        ("17", 17),
        ("1B", 1),
        ("2kB", 2000),
        ("2KiB", 2048),
        ("1.5 MiB", 1572864),
        ("1gib", 2**30),
        ("1TB", 10**12),
    ],
)
def test_sizes(value: object, size: int) -> None:
    """A size is a number of bytes or a number with a unit, decimal or binary."""
    assert parse_size(value) == size


@pytest.mark.parametrize("value", ["", "GiB", "-1", "+1", "1_0", "٣", " 1 ", "1\u212aB", "1XB", "1iB", True, 1.5, None])
def test_no_sizes(value: object) -> None:
    """Anything else is refused with examples."""
    with pytest.raises(ValueError, match="such as 512MiB"):
        parse_size(value)


def test_placeholders_are_filled_once() -> None:
    """Each placeholder becomes its value, whatever braces the value has; other braces and shell variables stay."""
    command = ("run", "--id={mission_id}", "{mission_dir}{repo}", "{{repo}}", "${repo}", '{"a": {}}', "{REPO}")

    filled = expand(command, mission_id="m-1", mission_dir="/r/{repo}", repo="/r")

    assert filled == ("run", "--id=m-1", "/r/{repo}/r", "{repo}", "${repo}", '{"a": {}}', "{REPO}")
    assert PLACEHOLDERS == ("mission_id", "mission_dir", "repo")


@given(st.lists(st.text(st.characters(exclude_characters="\0"), min_size=1), min_size=1, max_size=4))
def test_a_command_that_was_accepted_can_be_filled(command: list[str]) -> None:
    """No accepted command fails later, when its placeholders are filled in, and its arguments keep their number."""
    setting = SETTINGS[0]
    try:
        accepted = setting.parse(command)
    except ValueError:
        return

    assert isinstance(accepted, tuple)
    assert len(expand(accepted, mission_id="m", mission_dir="/d", repo="/r")) == len(command)


@pytest.mark.parametrize("command", ['["./hook"]', '["bin/hook", "x"]', '[""]', '"hook"', "[1]"])
def test_a_hook_is_a_name_or_an_absolute_path(home: Home, command: str) -> None:
    """A relative path would be looked up in the checkout, where anybody may have put something."""
    home.write(f"[hooks]\nended = {command}\n")

    assert "hooks.ended" in home.fault().sentence
