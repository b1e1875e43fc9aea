"""Folders of items' commands: outside any checkout, one for each run, with the payload and the keeper's records.

They lie in `items/` of the user's state directory and are removed when their item is settled. One that a killed agent
left is removed after two days: no lease is that long, so nothing of its command can live.
"""

from __future__ import annotations

import contextlib
import os
import re
import secrets
import shutil
import time

from kranzq.disk.atomic import store_fault, write_new
from kranzq.disk.read import open_folder
from kranzq.model.ids import MissionId
from kranzq.runs.folder import RunFolder

PAYLOAD = "payload"
"""The file in a run folder with what the item carries, in a checkout as for an agent: its command gets it so."""
_KEPT_S = 2 * 86400.0
_NAME = re.compile(r"[0-9a-f]{16}")
_ANY = MissionId("item")


def new_item_folder(state: str, payload: str) -> RunFolder:
    """Make a folder with the payload in it, 0700 and 0600. Raises StoreUnavailable, Refused."""
    parent = f"{state}/items"
    path = f"{parent}/{secrets.token_hex(8)}"
    try:
        os.makedirs(parent, 0o700, exist_ok=True)
        os.mkdir(path, 0o700)
        folder = RunFolder(open_folder(path), path, _ANY, 1, above=0)
    except OSError as fault:
        raise store_fault(path, fault) from fault
    try:
        write_new(folder.fd, PAYLOAD, payload.encode(), sync=False)
    except OSError as fault:
        discard_item_folder(folder)
        raise store_fault(f"{path}/{PAYLOAD}", fault) from fault
    return folder


def discard_item_folder(folder: RunFolder) -> None:
    """Close and remove it, with whatever its command has put there."""
    folder.close()
    shutil.rmtree(folder.path, ignore_errors=True)


def sweep_item_folders(state: str) -> None:
    """Remove what killed agents left long ago."""
    parent = f"{state}/items"
    with contextlib.suppress(OSError):
        for name in os.listdir(parent):
            path = f"{parent}/{name}"
            with contextlib.suppress(OSError):
                if _NAME.fullmatch(name) and time.time() - os.lstat(path).st_mtime > _KEPT_S:
                    shutil.rmtree(path, ignore_errors=True)
