"""What every test gets: a home of its own, no settings of the machine's user, and honest skips.

A test that needs a right or a tool is marked `system`, with the tools as arguments. At home it is skipped with the
reason; with `CI=true` it fails instead, so that no promise goes untested unseen.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
from collections.abc import Generator, Iterator
from pathlib import Path

import hypothesis
import pytest

from kranzq.liveness import me
from tests import postgres
from tests.laboratory import Laboratory
from tests.servers import SHORT_WAYS, Served, serving
from tests.token_watch import Watch, in_files

signal.signal(signal.SIGHUP, signal.SIG_DFL)  # run under nohup, every process that a test starts would be deaf to it
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # and to this one, run in the background of a shell
    signal.signal(signal.SIGINT, signal.default_int_handler)
LEFT_OUT = ("KRANZQ_", "KRANZ_", "GIT_", "XDG_")
OF_A_SERVICE = frozenset(
    {"DBUS_SESSION_BUS_ADDRESS", "INVOCATION_ID", "LISTEN_FDS", "LISTEN_PID", "NOTIFY_SOCKET", "WATCHDOG_USEC"}
)
IN_CI = os.environ.get("CI") == "true"
GATES_FAILED = bool(os.environ.get("GATES_FAILED"))
KILLS_TAKE_S = 120.0

hypothesis.settings.register_profile("home", max_examples=50, deadline=None)
hypothesis.settings.register_profile("ci", max_examples=200, deadline=None, derandomize=True)
hypothesis.settings.load_profile("ci" if IN_CI else "home")

me()  # kept for the life of a process: not from a test in which the boot has another name


@pytest.fixture(autouse=True)
def isolated(monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A home directory of the test's own; nothing of the user who runs the tests is seen or changed."""
    home = tmp_path_factory.mktemp("home")
    for name in os.environ:
        if name.startswith(LEFT_OUT) or name in OF_A_SERVICE:
            monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(home / "config"))
    monkeypatch.setenv("XDG_STATE_HOME", str(home / "state"))
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(home))
    return home


@pytest.fixture(scope="session", autouse=True)
def tokens_stay_secret(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Nothing that these tests start or leave behind shows a token."""
    folder = tmp_path_factory.getbasetemp()
    watch = Watch(folder)
    yield
    shown = watch.end() | set(in_files([folder, *SHORT_WAYS]))
    assert not shown, "\n".join(sorted(shown))


@pytest.fixture
def checkout(tmp_path: Path, isolated: Path) -> Path:
    """The root of a git repository with one commit."""
    root = tmp_path / "checkout"
    root.mkdir()
    who = ("-c", "user.name=A Person", "-c", "user.email=person@example.org", "-c", "commit.gpgSign=false")
    for words in (("init", "--quiet", "--initial-branch=main"), ("commit", "--quiet", "--allow-empty", "-m", "begin")):
        subprocess.run(["git", *who, *words], cwd=root, check=True, stdin=subprocess.DEVNULL)
    return root


@pytest.fixture
def lab(checkout: Path) -> Iterator[Laboratory]:
    """A checkout to experiment in, cleared of everything that was started there."""
    with Laboratory(checkout) as one:
        yield one


@pytest.fixture(scope="session")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """A server on a socket and on TCP, one for each process that runs tests: take names and kinds of your own."""
    with serving(tmp_path_factory.mktemp("served"), "--listen", "127.0.0.1:0") as one:
        yield one


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[str]:
    """The URL of a server, one for each process that runs tests, with a role that may do anything."""
    if postgres.GIVEN:
        yield postgres.GIVEN
        return
    if not postgres.is_there():
        pytest.skip(postgres.MISSING)
    with postgres.running() as server:
        yield server.url()


@pytest.fixture(scope="session")
def postgres_database(postgres_server: str) -> Iterator[str]:
    """The URL of a database with our schema, which tests share one after the other."""
    with postgres.database(postgres_server) as url:
        postgres.migrate(url)
        yield url


@pytest.fixture
def postgres_url(postgres_database: str) -> str:
    """The URL of a database with our schema in which nothing is."""
    postgres.empty(postgres_database)
    return postgres_database


@pytest.fixture
def bare_postgres_url(postgres_server: str) -> Iterator[str]:
    """The URL of a database in which not even a schema is."""
    with postgres.database(postgres_server) as url:
        yield url


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Give those that race and kill real processes more time, where they name none."""
    for item in items:
        if item.get_closest_marker("timeout") is None and {"crash", "race"} & {
            mark.name for mark in item.iter_markers()
        }:
            item.add_marker(pytest.mark.timeout(KILLS_TAKE_S))


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Skip a test whose tools are missing."""
    for mark in item.iter_markers("system"):
        for tool in mark.args:
            if shutil.which(tool) is None:
                pytest.skip(f"needs {tool}")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """In continuous integration nothing that needs the system is skipped: it fails."""
    report = yield
    if IN_CI and report.skipped and not hasattr(report, "wasxfail"):
        reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else str(report.longrepr)
        if item.get_closest_marker("system") is not None or "needs " in reason:
            report.outcome = "failed"
            report.longrepr = f"{item.nodeid} may not be skipped here. {reason}"
    if report.skipped and isinstance(report.longrepr, tuple) and postgres.MISSING in report.longrepr[2]:
        report.longrepr = (__file__, 0, report.longrepr[2])  # one line for all of them, not one each
    return report


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Name a gate that failed just before the closing line, which would otherwise tell of the tests alone."""
    if GATES_FAILED:
        terminalreporter.write_line("A gate of scripts/check failed; see the top of this output.", red=True)
