"""How a tool answers: its result as JSON, every fault as a sentence and the next step. Nothing is hidden.

The library would cut an unexpected fault down to "error executing tool"; an agent that reads that can do nothing.
"""

from __future__ import annotations

import difflib
import logging
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from mcp.server.mcpserver import Context, MCPServer
from mcp.server.mcpserver.exceptions import ResourceError, ResourceNotFoundError, ToolError
from mcp.types import CallToolResult, InputRequiredResult
from pydantic import ValidationError

from kranzq.errors import KranzqError, NoSuchItem, NoSuchMission, NotFound, PresenceFull, TryLater
from kranzq.mcp.lines import standard_streams
from kranzq.model.tokens import without_tokens

_log = logging.getLogger("kranzq.mcp")
_NEXT_STEPS: tuple[tuple[type[KranzqError], str], ...] = (
    (NoSuchItem, "See what there is with WorkList."),
    (NoSuchMission, "See what there is with MissionStatus."),
    (PresenceFull, "End what is over with ReleaseWork."),
    (TryLater, "Call it again in a few seconds; nothing was changed."),
)


class ToolServer(MCPServer[Any]):
    """A server whose tools refuse what they do not know, and answer a fault with its own words and nothing else."""

    async def run_stdio_async(self) -> None:
        """Serve over the standard streams until the input is closed."""
        server = self._lowlevel_server
        async with standard_streams() as (read, write):
            await server.run(read, write, server.create_initialization_options())

    async def call_tool(
        self, name: str, arguments: dict[str, Any], context: Context[Any, Any] | None = None
    ) -> CallToolResult | InputRequiredResult:
        """Call a tool. Raises ToolError with what the agent shall read."""
        known = {tool.name: tool for tool in await self.list_tools()}
        if name not in known:
            raise ToolError(f"There is no tool {name[:100]!r}.{_near(name, known)}")
        parameters = known[name].input_schema["properties"]
        if unknown := sorted(arguments.keys() - parameters.keys()):
            raise ToolError(
                f"{name} has no parameter {unknown[0][:100]!r}; nothing was done.{_near(unknown[0], parameters)}"
            )
        try:
            return await super().call_tool(name, arguments, context)
        except ToolError as fault:
            raise ToolError(_sentence(name, fault.__cause__ or fault)) from fault


@contextmanager
def told() -> Iterator[None]:
    """Turn a fault of a tool into what its agent reads."""
    try:
        yield
    except KranzqError as fault:
        raise ToolError(in_words(fault)) from fault
    except OSError as fault:
        raise ToolError(f"{fault.filename or 'The disk'}: {fault.strerror or fault}. Nothing more is known.") from fault
    except Exception as fault:
        raise ToolError(_own_fault(fault)) from fault


@contextmanager
def told_of_a_resource() -> Iterator[None]:
    """The same for a resource."""
    try:
        yield
    except NotFound as fault:
        raise ResourceNotFoundError(in_words(fault)) from fault
    except KranzqError as fault:
        raise ResourceError(in_words(fault)) from fault
    except Exception as fault:
        raise ResourceError(_own_fault(fault)) from fault


def in_words(fault: KranzqError) -> str:
    """The sentence and the next step of an expected fault: a tool to call, where a person would type a verb."""
    step = next((step for kind, step in _NEXT_STEPS if isinstance(fault, kind)), fault.advice)
    return without_tokens(f"{fault.sentence} {step}".rstrip())


def _own_fault(fault: Exception) -> str:
    _log.error("a fault of kranzq itself", exc_info=fault)
    return (
        f"A fault of kranzq itself: {without_tokens(repr(fault))[:300]}. Whether something was changed is not known; "
        "look with WorkList. The report is in this server's error output; a person should pass it on."
    )


def _sentence(name: str, fault: BaseException) -> str:
    if not isinstance(fault, ValidationError):
        return str(fault)
    wrong = fault.errors(include_url=False, include_input=False)
    parts = [f"{'.'.join(str(part) for part in one['loc'])}: {one['msg']}" for one in wrong]
    return f"{name} was not called as it can be; nothing was done. {'; '.join(parts)}"


def _near(name: str, known: Mapping[str, object]) -> str:
    near = difflib.get_close_matches(name, known, 1)
    return f" Did you mean {near[0]}?" if near else f" There are: {', '.join(known)}."
