"""The pages about tools and client name each tool with its parameters, each resource, and what the package offers."""

from __future__ import annotations

import asyncio
import json
import os
import re
from pathlib import Path

from mcp import Client

from kranzq import client
from kranzq.mcp.caller import Here
from kranzq.mcp.local import LocalCaller
from kranzq.mcp.serving import tool_server

DOCS = Path(__file__).resolve().parents[2] / "docs"
PAGE = (DOCS / "reference/mcp.md").read_text()


def test_every_tool_is_described_with_its_parameters() -> None:
    """With a star where one must be given; none more, none fewer, in their order."""

    async def tools() -> dict[str, list[tuple[str, bool]]]:
        async with Client(tool_server(LocalCaller(Here("/", os.environ)))) as one:
            return {
                tool.name: [
                    (name, name in tool.input_schema.get("required", [])) for name in tool.input_schema["properties"]
                ]
                for tool in (await one.list_tools()).tools
            }

    told = {
        name: [(word, bool(star)) for word, star in re.findall(r"`(\w+)`(\*?)", cell)]
        for name, cell in re.findall(r"^\| `([A-Z]\w+)` \| ([^|]*) \| [^|]*\|$", PAGE, flags=re.MULTILINE)
    }
    assert told == asyncio.run(tools())


def test_every_resource_is_described() -> None:
    """By its address."""

    async def addresses() -> set[str]:
        async with Client(tool_server(LocalCaller(Here("/", os.environ)))) as one:
            plain = {str(found.uri) for found in (await one.list_resources()).resources}
            return plain | {found.uri_template for found in (await one.list_resource_templates()).resource_templates}

    assert set(re.findall(r"^\| `(kranzq://[^`]*)`", PAGE, flags=re.MULTILINE)) == asyncio.run(addresses())


def test_what_the_client_offers_is_described() -> None:
    """Whoever imports a name finds it on the page."""
    page = (DOCS / "reference/client.md").read_text()
    assert [name for name in client.__all__ if not re.search(rf"`{name}[`(]", page)] == []


def test_what_a_host_is_given_can_be_read() -> None:
    """Each example of a host's file is JSON that starts `kranzq mcp`."""
    examples = re.findall(r"```json\n(.*?)```", (DOCS / "howto/mcp.md").read_text(), flags=re.DOTALL)
    assert len(examples) == 2
    for text in examples:
        server = json.loads(text)["mcpServers"]["kranzq"]
        assert (server["command"], server["args"]) == ("kranzq", ["mcp"])
