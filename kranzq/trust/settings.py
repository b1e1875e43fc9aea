"""The settings of a checkout, `.kranz/kranzq.toml`: read, and whether a person has allowed exactly these bytes.

They name what is executed and lie where anything that clones or writes can put them. So they count only while their
digest is the one in the approvals outside the checkout; any edit makes them wait for a person again.
"""

from __future__ import annotations

import os
from typing import Literal

from kranzq.disk.atomic import store_fault
from kranzq.disk.modes import counts
from kranzq.disk.read import LACKING, Unreadable, open_folder, read_regular
from kranzq.model.frozen import frozen
from kranzq.trust.approval import Approvals

NAME = "kranzq.toml"
LIMIT = 256 * 1024
ADVICE = "Look at them and allow them with: kranzq trust --settings"
State = Literal["none", "trusted", "not trusted", "changed", "refused"]
_WRITABLE_BY_ALL = 0o002


@frozen
class SettingsSeen:
    """One look at the file. `data` is what was read, `digest` that of these bytes; `since` when they were allowed."""

    path: str
    state: State
    data: bytes = b""
    digest: str = ""
    since: str = ""
    why: str = ""

    @property
    def notice(self) -> tuple[str, str] | None:
        """Why the file does not count and what to do, for people; None when it does, or is not there."""
        match self.state:
            case "not trusted":
                return f"{self.path} does not count: nobody has allowed it here", ADVICE
            case "changed":
                return f"{self.path} does not count: it was changed after it was allowed ({self.since})", ADVICE
            case "refused":
                return f"{self.path} does not count: {self.why}", "Look at it, and mend or remove it"
            case _:
                return None


def look_at_settings(root: str, approvals: Approvals) -> SettingsSeen:
    """The settings of the checkout at the canonical path `root`. Changes nothing on disk.

    Raises StoreUnavailable for want of descriptors or memory: settings that are there would not count.
    """
    path = f"{root}/.kranz/{NAME}"
    try:
        kranz = open_folder(f"{root}/.kranz")
    except OSError as fault:
        if fault.errno in LACKING:
            raise store_fault(path, fault) from fault
        return SettingsSeen(path, "none")
    try:
        found = read_regular(NAME, dir_fd=kranz, limit=LIMIT)
        if found is None:
            return SettingsSeen(path, "none")
        if not counts(found.stat, kranz):
            return SettingsSeen(path, "refused", why=f"it belongs to user {found.stat.st_uid}")
        if found.stat.st_mode & _WRITABLE_BY_ALL:
            return SettingsSeen(path, "refused", why="everybody may write it")
    except Unreadable as fault:
        if fault.lacking is not None:
            raise store_fault(path, fault.lacking) from fault
        return SettingsSeen(path, "refused", why=fault.why)
    finally:
        os.close(kranz)
    import hashlib  # noqa: PLC0415 - with OpenSSL it costs 4 ms, and most checkouts have no settings

    digest = hashlib.sha256(found.data).hexdigest()
    allowed, since = approvals.settings(root)
    if not allowed:
        return SettingsSeen(path, "not trusted", found.data, digest)
    return SettingsSeen(path, "trusted" if allowed == digest else "changed", found.data, digest, since)
