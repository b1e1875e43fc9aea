"""Adding tables to the user's settings file. What somebody wrote there is never changed: new tables go behind it."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping

from kranzq.config.files import config_path, parse_settings, read_settings
from kranzq.config.settings import setting_named
from kranzq.disk import atomic

Tables = Mapping[str, Mapping[str, object]]


def text_of(tables: Tables) -> str:
    """The tables as one would write them. JSON's texts, numbers and lists are TOML's, too."""
    parts = []
    for table, keys in tables.items():
        lines = [f"{key} = {json.dumps(value, ensure_ascii=False)}" for key, value in keys.items()]
        parts.append("\n".join([f"[{table}]", *lines]))
    return "\n\n".join(parts) + "\n"


def add(environ: Mapping[str, str], tables: Tables) -> bool:
    """Write them into the file, which is made if it is missing; False when one of them is there already.

    Then a person must put the keys in. Raises BadSetting for a value that would not do or a file that is broken,
    UnsafePath, and StoreUnavailable when the disk takes nothing.
    """
    path = config_path(environ)
    for table, keys in tables.items():
        for key, value in keys.items():
            setting_named(path, f"{table}.{key}").value_of(value, path, f"{table}.{key}")
    if read_settings(path).keys() & tables.keys():
        return False
    real = os.path.realpath(path)
    folder, name = os.path.split(real)
    try:
        os.makedirs(folder, 0o700, exist_ok=True)
        fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            _write(fd, name, path, text_of(tables))
        finally:
            os.close(fd)
    except OSError as fault:
        raise atomic.store_fault(path, fault) from fault
    return True


def _write(folder: int, name: str, path: str, added: str) -> None:
    try:
        with open(os.open(name, os.O_RDONLY | os.O_CLOEXEC, dir_fd=folder), "rb") as file:
            old, mode = file.read(), os.fstat(file.fileno()).st_mode & 0o777
    except FileNotFoundError:
        old, mode = b"", 0o600
    between = b"" if not old else b"\n" if old.endswith(b"\n") else b"\n\n"
    new = old + between + added.encode()
    parse_settings(path, new)  # whatever stood there before: a file that does not parse stops every verb
    atomic.replace(folder, name, new, mode=mode, sync=True, owner=atomic.owner_of(folder, name))
