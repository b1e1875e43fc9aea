"""Agents in one line of shell: a command and the settings in, a ready worker out."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from kranzq.errors import UsageFault
from kranzq.model.database_url import stripped
from kranzq.wiring.remote import SERVER
from kranzq.wiring.working import database_url, work_config

if TYPE_CHECKING:
    from kranzq.agents.item_command import CommandPlan
    from kranzq.agents.work import Worker
    from kranzq.backend import Wanted
    from kranzq.backend.items import WorkStore
    from kranzq.dispatch.output import Sink
    from kranzq.model.claim import Holder

_DEFAULT_PATH = "/usr/local/bin:/usr/bin:/bin"


def command_plan(
    environ: Mapping[str, str],
    directory: str,
    command: Sequence[str],
    timeout_s: float | None,
    url: str | None,
    server: str | None = None,
) -> CommandPlan:
    """How a command is run with items of the database `url` or of a server, of which it is told, but no secret.

    Raises UsageFault when the command is not there: then nothing is claimed for it.
    """
    from kranzq.agents.item_command import CommandPlan
    from kranzq.runner import Prepared
    from kranzq.runs.command import WORK_URL, find_executable, mission_environment
    from kranzq.runs.item_folder import sweep_item_folders
    from kranzq.trust.key import state_dir

    executable = find_executable(command[0], environ.get("PATH", _DEFAULT_PATH), directory)
    if executable is None:
        raise UsageFault(f"The command {command[0]!r} was not found, or is not executable.", "Nothing was claimed.")
    mission = work_config(environ, directory).mission
    env = {**mission_environment(environ, mission.environment), "PWD": directory}
    if server is not None:
        env[SERVER] = server  # an address never has a secret in it
    elif (plain := stripped(database_url(url, environ, directory).text)) is not None:
        env[WORK_URL] = plain
        env.pop(SERVER, None)  # else what the command enqueues would go there
    sweep_item_folders(state_dir(environ))
    return CommandPlan(
        Prepared(executable, tuple(command), env, directory),
        state_dir(environ),
        mission.grace_seconds,
        timeout_s,
        mission.output_cap,
    )


def worker(  # noqa: PLR0913 - all that an agent is told; each of them once
    store: WorkStore,
    plan: CommandPlan,
    lease_s: float,
    holder: Holder,
    wanted: Wanted,
    *,
    sink: Callable[[], Sink],
    tell: Callable[[str], None],
    seconds: float | None,
    most: int | None,
    request_id: str,
    fail_on_error: bool,
) -> Worker:
    """An agent that listens to TERM, INT and HUP of this process from now on, and to which orphans come."""
    from kranzq.agents.item_run import ItemRunner
    from kranzq.agents.work import Worker
    from kranzq.daemon.stopping import Stopping
    from kranzq.daemon.wake import Wake
    from kranzq.runs.leftovers import become_subreaper

    become_subreaper()
    wake = Wake()
    stopping = Stopping(wake, "wait", tell)
    stopping.listen()
    runner = ItemRunner(store, plan, lease_s, stopping, wake, sink, tell, fail_on_error)
    return Worker(runner, holder, wanted, seconds, most, request_id)
