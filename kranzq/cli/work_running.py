"""`work claim --exec`: an agent in one line of shell. What it does is done in `kranzq.agents`."""

from __future__ import annotations

import os
import threading
from collections.abc import Sequence
from typing import Any

from kranzq.cli.agent import holder, named_server, open_store
from kranzq.cli.say import complain
from kranzq.cli.work_holding import lease_ms, seconds_of, wanted
from kranzq.errors import EXIT_BUSY, EXIT_FAILED, EXIT_LATER
from kranzq.wiring import agents

_CODES = {
    "done": 0,
    "failed": EXIT_FAILED,
    "released": EXIT_FAILED,
    "not started": EXIT_FAILED,
    "declined": EXIT_LATER,
    "interrupted": EXIT_LATER,
    "unsettled": EXIT_LATER,
    "lost": EXIT_BUSY,
}


def run_items(directory: str, command: Sequence[str], given: dict[str, Any]) -> int:
    """Claim items and run the command with each; the exit code."""
    from kranzq.agents.output_follower import OUTPUT_THREAD
    from kranzq.cli.showing import sink
    from kranzq.cli.work_showing import claimed_line

    lease, who = lease_ms(directory, given["lease"]), holder(given["agent"])
    timeout = seconds_of("--timeout", given["timeout"], positive=True) if given["timeout"] is not None else None
    wait_for = seconds_of("--wait", given["wait_for"] or "0")
    plan = agents.command_plan(os.environ, directory, command, timeout, given["url"], named_server())
    with open_store(directory, given["url"]) as store:
        worker = agents.worker(
            store,
            plan,
            lease / 1000,
            who,
            wanted(given),
            sink=sink,
            tell=complain,
            seconds=None if given["forever"] else wait_for,
            most=None if given["forever"] else given["count"],
            request_id=given["request_id"],
            fail_on_error=given["fail_on_error"],
        )
        worker.heard = lambda claim: complain(claimed_line(claim))
        stopping = worker.runner.stopping
        worker.work()
    code = _code(worker.ends, stopping.signal, now=stopping.now, forever=given["forever"])
    if code == EXIT_LATER and not worker.ends:
        complain("There is nothing to claim.", "  See what waits for whom: kranzq work list")
    if any(one.name == OUTPUT_THREAD for one in threading.enumerate()):
        os._exit(code)  # whoever reads our output stands still; the interpreter would wait for that
    return code


def _code(ends: Sequence[Any], number: int | None, *, now: bool, forever: bool) -> int:
    if now and number is not None:
        return 128 + number
    if forever and not any(one.how == "not started" for one in ends):
        return 0
    if not ends:
        return 128 + number if number is not None else EXIT_LATER
    return max((_CODES[one.how] for one in ends), key=lambda code: (code == EXIT_FAILED, code))
