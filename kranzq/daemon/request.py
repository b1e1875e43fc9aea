"""`kranzq stop`: a wish in the queue that names the daemon it is for. Works across users' terminals and namespaces."""

from __future__ import annotations

import json
import os
import time

from kranzq.daemon.single import RECORD
from kranzq.daemon.stopping import STOP
from kranzq.disk import atomic
from kranzq.disk.read import Unreadable, open_folder, read_regular
from kranzq.dispatch.daemon_seen import is_daemon_locked
from kranzq.liveness import judge
from kranzq.model.checkout import Checkout
from kranzq.model.clock import rfc3339
from kranzq.model.process import Liveness, ProcessIdentity

_LOOK_S = 0.05


def request_stop(checkout: Checkout, *, now: bool, wait: bool) -> str | None:
    """Write the wish for the daemon that lives; None when there is none. With `wait` until it has gone."""
    try:
        queue = open_folder(checkout.queue)
    except OSError:
        return None
    try:
        found = _daemon(queue)
        if found is None:
            return None
        shown = {"process": found.to_json(), "now": now, "at": rfc3339(time.time()), "by": os.getpid()}
        try:
            atomic.replace(queue, STOP, json.dumps(shown).encode(), sync=False)
        except OSError as fault:
            raise atomic.store_fault(f"{checkout.queue}/{STOP}", fault) from fault
        if not wait:
            return f"The daemon (pid {found.pid}) was asked to stop."
        while _daemon(queue) == found:
            time.sleep(_LOOK_S)
        return f"The daemon (pid {found.pid}) has stopped."
    finally:
        os.close(queue)


def _daemon(queue: int) -> ProcessIdentity | None:
    """The daemon that has said who it is and still lives."""
    try:
        found = read_regular(RECORD, dir_fd=queue)
        value = json.loads(found.data) if found is not None else None
    except (Unreadable, ValueError, RecursionError):
        return None
    process = ProcessIdentity.from_json(value.get("process")) if isinstance(value, dict) else None
    if process is None or judge(process).verdict is Liveness.GONE:
        return None
    return None if is_daemon_locked(queue) is False else process  # a record without its lock is no daemon's
