r"""The standard streams of an agent's host: lines of JSON, of which each that can be read is answered.

The library drops a line that it cannot read, and whoever waits for its answer waits for ever. A text that was cut
inside a character reaches us with half of one (`\ud83d`), which is such a line; that half becomes `�`.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, TextIO

import anyio
from mcp.server.stdio import stdio_server

_HALF = re.compile(r"\\u[dD][89a-fA-F]")
_HALVES = re.compile("[\ud800-\udfff]")


class MendedLines(anyio.AsyncFile[str]):
    """A file of lines that can be read."""

    async def __aiter__(self) -> AsyncIterator[str]:
        """Each line."""
        async for line in super().__aiter__():
            yield mended(line)


@asynccontextmanager
async def standard_streams() -> AsyncIterator[tuple[Any, Any]]:
    """Both streams of messages. Nobody else reads the input meanwhile, nor does what is printed go to the output."""
    async with stdio_server(stdin=MendedLines(_private_input())) as streams:
        yield streams


def mended(line: str) -> str:
    """A line without half characters; one that is no JSON stays as it is."""
    if _HALF.search(line) is None:
        return line
    try:
        return json.dumps(_whole(json.loads(line)), ensure_ascii=False) + "\n"
    except (ValueError, RecursionError):
        return line


def _private_input() -> TextIO:
    """The input under a number of its own; in its old place lies nothing, so that no child reads from it.

    Never closed: a thread may still stand in a read of it when all is over.
    """
    private = os.dup(0)
    null = os.open(os.devnull, os.O_RDONLY)
    os.dup2(null, 0)
    os.close(null)
    return open(private, encoding="utf-8", errors="replace", closefd=False)


def _whole(value: object) -> object:
    if isinstance(value, str):
        return _HALVES.sub("\ufffd", value)
    if isinstance(value, dict):
        return {_HALVES.sub("\ufffd", key): _whole(one) for key, one in value.items()}
    return [_whole(one) for one in value] if isinstance(value, list) else value
