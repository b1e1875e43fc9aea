"""The verb that serves the work queue, presence and missions over HTTP."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

import click

from kranzq.cli.agent import url_option
from kranzq.cli.say import mention
from kranzq.errors import MissingPackage


@click.command()
@click.option("--socket", metavar="PATH", help="Another Unix socket than the one in the state directory.")
@click.option("--listen", metavar="HOST:PORT", help="Listen on TCP as well; a port of 0 lets the system choose one.")
@click.option("--allow-remote", is_flag=True, help="Let --listen name an address that other machines reach.")
@click.option("--key-file", metavar="FILE", help="The operator's key, else server.key in the state directory.")
@click.option("--host-name", "host_names", metavar="NAME", multiple=True, help="A further name of this server.")
@click.option("--allow-origin", "origins", metavar="ORIGIN", multiple=True, help="Let pages of that origin call.")
@url_option
@click.pass_obj
def serve(directory: str, /, **said: Any) -> None:
    """Serve the work queue, presence and missions over HTTP, in the foreground, until stopped.

    On a Unix socket that only you can open; with --listen also on TCP, where every call needs a token.
    """
    try:
        from kranzq.server import serving
    except ModuleNotFoundError as fault:
        if (fault.name or "").partition(".")[0] == "kranzq":
            raise
        raise MissingPackage("Serving", str(fault.name), "server") from fault
    serving.serve(
        serving.Options(directory, **said),
        os.environ,
        _serves,
    )


def _serves(urls: Sequence[str]) -> None:
    lines = [f"kranzq serves {' and '.join(urls)} as process {os.getpid()}; stop it with Ctrl-C"]
    if any(url.startswith("http") for url in urls):
        lines.append("  In a browser, sign in with what this prints: kranzq agent key")
    mention(*lines)
