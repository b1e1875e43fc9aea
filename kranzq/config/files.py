"""The user's settings file: where it lies, whether it is safe to believe, and what it says as plain tables.

It names what is executed, so it must belong to the user or the system. The trusted settings of a checkout have the
same form and are read by the same function.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping

from kranzq.disk.atomic import store_fault
from kranzq.disk.read import Unreadable, read_regular
from kranzq.errors import BadSetting, UnsafePath
from kranzq.trust.key import base_dir

FILE_LIMIT = 256 * 1024
_KEY = re.compile(r"\s*(\[{0,2}[\w.-]{1,60}\]{0,2})\s*(?:=|$)")


def config_path(environ: Mapping[str, str]) -> str:
    """The user's file: `$XDG_CONFIG_HOME/kranzq/config.toml`, else below `~/.config`."""
    return base_dir(environ, "XDG_CONFIG_HOME", ".config") + "/kranzq/config.toml"


def parse_settings(where: str, data: bytes) -> dict[str, object]:
    """The tables in a settings file's bytes. Raises BadSetting with the line."""
    import tomllib  # noqa: PLC0415 - without a file it is not needed, and the command line starts fast

    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as fault:
        raise _not_toml(where, data[: fault.start + 1].decode("utf-8", "replace"), "it is not UTF-8") from fault
    try:
        return tomllib.loads(text)
    except (ValueError, RecursionError) as fault:  # ValueError: also numbers with thousands of digits
        position = re.search(r"at line ([0-9]+)", str(fault))
        lines = text.split("\n")
        upto = lines[: int(position[1])] if position else lines
        raise _not_toml(where, "\n".join(upto), str(fault)) from fault


def read_settings(path: str) -> dict[str, object]:
    """What the user's file says. A link is followed, for many keep such files elsewhere; its target is checked."""
    try:
        content = read_regular(os.path.realpath(path), limit=FILE_LIMIT)
    except Unreadable as fault:
        raise (store_fault(path, fault.lacking) if fault.lacking else UnsafePath(path, fault.why)) from fault
    if content is None:
        if os.path.lexists(path):
            raise UnsafePath(path, "it is a link to nothing")
        return {}
    if content.stat.st_uid not in {os.geteuid(), 0}:
        raise UnsafePath(path, f"it belongs to user {content.stat.st_uid}, and it names what is executed")
    if content.stat.st_mode & 0o002:
        raise UnsafePath(path, "everybody may write it, and it names what is executed")
    return parse_settings(path, content.data)


def _not_toml(where: str, upto: str, why: str) -> BadSetting:
    lines = upto.rstrip("\n").split("\n")
    found = _KEY.match(lines[-1])  # of a list over several lines it may be a value, even a webhook's secret URL
    key = found[1] if found is not None else ""
    return BadSetting(f"{where}, line {len(lines)}", key, f"cannot be read: {why}", "The file is TOML: https://toml.io")
