"""The command of one item: kept by a keeper of its own, which ends it when its lease is not confirmed in time.

The keeper is the one of missions. So the command and all that it starts are ended as a mission is, what it leaves
behind is ended too, and if the agent is killed the keeper goes on alone and ends the command before the lease is over.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import signal
import threading
from collections.abc import Mapping
from typing import Self

from kranzq import __version__
from kranzq.leases.kept import grace_in
from kranzq.model.frozen import frozen
from kranzq.model.outcome import Ending, Outcome
from kranzq.model.work import ItemClaim
from kranzq.runner import Prepared
from kranzq.runs.command import marks_of_item
from kranzq.runs.folder import LOG, OUTPUT, RunFolder
from kranzq.runs.item_folder import PAYLOAD, discard_item_folder, new_item_folder
from kranzq.runs.keepers import Keeper, Order, start_keeper
from kranzq.runs.leftovers import end, look

TAIL_LINES, TAIL_BYTES = 50, 8 * 1024
"""So much of the end of its output becomes the result."""
_SHOWN = 500


@frozen
class CommandPlan:
    """How the commands of items are run. `state` is the user's state directory; lengths of time in seconds."""

    prepared: Prepared
    state: str
    grace_s: float = 10.0
    timeout_s: float | None = None
    output_cap: int | None = None


class ItemCommand:
    """A running command. `confirm` and `stop` may be called from any thread."""

    def __init__(self, keeper: Keeper, folder: RunFolder, output: int, nonce: str, grace_s: float) -> None:
        self._keeper, self._folder, self.output, self._nonce, self._grace = keeper, folder, output, nonce, grace_s
        self._mutex = threading.Lock()

    @classmethod
    def start(cls, plan: CommandPlan, claim: ItemClaim, lease_s: float, lease_ends: float) -> Self:
        """Start it. Raises KeeperLost, StoreUnavailable, OSError; then nothing was started."""
        grace = grace_in(lease_s, plan.grace_s)
        with contextlib.ExitStack() as undo:
            folder = new_item_folder(plan.state, claim.item.payload)
            undo.callback(discard_item_folder, folder)
            keeper = start_keeper()
            undo.callback(keeper.dismiss)
            nonce = secrets.token_hex(16)
            with contextlib.ExitStack() as given:
                cwd = os.open(plan.prepared.cwd, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
                given.callback(os.close, cwd)
                output, log = folder.open_for_writing(OUTPUT), folder.open_for_writing(LOG)
                given.callback(os.close, output)
                given.callback(os.close, log)
                payload = os.open(PAYLOAD, os.O_RDONLY | os.O_CLOEXEC, dir_fd=folder.fd)
                given.callback(os.close, payload)
                read = os.open(OUTPUT, os.O_RDONLY | os.O_CLOEXEC, dir_fd=folder.fd)
                undo.callback(os.close, read)
                keeper.go(
                    Order(
                        kranzq=__version__,
                        mission=claim.id,
                        run=claim.attempt,
                        nonce=nonce,
                        executable=plan.prepared.executable,
                        argv=plan.prepared.argv,
                        env={**plan.prepared.env, **_told(claim, folder)},
                        claim="",
                        run_path=folder.path,
                        timeout_seconds=plan.timeout_s,
                        grace_seconds=grace,
                        lease_ends_boottime=lease_ends - grace,
                        output_cap=plan.output_cap,
                    ),
                    locks=(),
                    run=folder.fd,
                    queue=folder.fd,
                    cwd=cwd,
                    output=output,
                    log=log,
                    input=payload,
                )
            undo.pop_all()
        return cls(keeper, folder, read, nonce, grace)

    def confirm(self, lease_ends: float) -> None:
        """Tell the keeper until when the lease is confirmed; it ends the command early enough to be done by then."""
        with self._mutex, contextlib.suppress(OSError):  # a full disk: then the keeper ends it in time
            self._folder.confirm_lease(lease_ends - self._grace)

    def stop(self) -> None:
        """Let the keeper end it: TERM, after the grace KILL, with all that it started."""
        with self._mutex, contextlib.suppress(ProcessLookupError):
            if self._keeper.pidfd >= 0:
                signal.pidfd_send_signal(self._keeper.pidfd, signal.SIGTERM)

    def fileno(self) -> int:
        """Readable when the keeper has ended, and with it everything of the command."""
        return self._keeper.pidfd

    @property
    def has_ended(self) -> bool:
        """Whether nothing of it lives any more."""
        return self._keeper.ended()

    def ending(self) -> Ending:
        """How it ended, once it has. A keeper that was killed left no word; what it left running is ended here."""
        self._keeper.reap()
        end_record = self._folder.read_exit(self._nonce)
        if end_record is None or not end_record.complete:
            end(lambda: look("/", orphans_of=os.getpid()), grace=self._grace)
        if end_record is None:
            return Ending(Outcome.INTERRUPTED, "its keeper was killed", counted=False)
        return end_record.ending

    def tail(self) -> str:
        """The last lines of its output, as a text that every database keeps."""
        size = os.fstat(self.output).st_size
        data = os.pread(self.output, TAIL_BYTES, max(0, size - TAIL_BYTES))
        lines = data.decode("utf-8", "replace").replace("\0", "\ufffd").rstrip().splitlines()
        return "\n".join(lines[-TAIL_LINES:])

    def close(self) -> None:
        """Remove its folder; only after its end."""
        with self._mutex:
            self._keeper.close()
            os.close(self.output)
            discard_item_folder(self._folder)


def why(ending: Ending, tail: str) -> str:
    """What a reason says of an end: the code first, then the last line of its output."""
    last = tail.rpartition("\n")[2].strip()[:_SHOWN]
    if ending.not_started is not None:
        return f"not started: {ending.reason}"
    if ending.outcome in {Outcome.FAILED, Outcome.DEFERRED}:
        code = f"exit code {ending.exit_code}" if ending.signal is None else f"killed by signal {ending.signal}"
        return f"{code}: {last}" if last else code
    return ending.reason


def _told(claim: ItemClaim, folder: RunFolder) -> Mapping[str, str]:
    """What a command is told of its item, and who it is for the work queue."""
    who = {"KRANZQ_AGENT": claim.holder.name, "KRANZQ_AGENT_UID": claim.holder.uid}
    return who | marks_of_item(claim, f"{folder.path}/{PAYLOAD}")
