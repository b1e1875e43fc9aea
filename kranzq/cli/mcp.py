"""The verb `mcp`: the tools of an agent, over its standard streams. What they do is done in `kranzq.mcp`."""

from __future__ import annotations

import os

import click

from kranzq.cli.agent import agent_option, named_server, store_option
from kranzq.errors import MissingPackage, UsageFault
from kranzq.wiring.remote import open_server


@click.command()
@click.option("--group", "groups", metavar="NAME", multiple=True, help="A group of yours; else $KRANZQ_AGENT_GROUPS.")
@click.option("--allow-commands", is_flag=True, help="Missions that the agent enqueues may bring a command.")
@agent_option
@store_option
@click.pass_obj
def mcp(directory: str, *, groups: tuple[str, ...], allow_commands: bool, agent: str | None, url: str | None) -> None:
    """Serve an agent over MCP, on the standard streams: queue items, presence notes, missions of this checkout.

    An agent's host starts this; see docs/howto/mcp.md for what to write there. It ends when its input is closed.
    """
    try:
        from kranzq.mcp.caller import Here
        from kranzq.mcp.serving import serve
    except ModuleNotFoundError as fault:
        if (fault.name or "").partition(".")[0] == "kranzq":
            raise
        raise MissingPackage("MCP", str(fault.name), "mcp") from fault
    here, server = Here(directory, os.environ), named_server()
    if server is None:
        from kranzq.mcp.local import LocalCaller

        serve(LocalCaller(here, url, agent, groups, may_command=allow_commands))
        return
    if agent or groups or allow_commands:
        raise UsageFault(
            "With a server the token says who the agent is, its groups, and what it may do.",
            "Leave --agent, --group and --allow-commands out.",
        )
    from kranzq.client.remote import RemoteStore
    from kranzq.mcp.remote import RemoteCaller

    client = open_server(server, os.environ)
    serve(RemoteCaller(here, client, RemoteStore(client)))
