"""The screens of `status` and `list` where a server is asked."""

from __future__ import annotations

import time

from kranzq.cli import elsewhere_told as told
from kranzq.cli.elsewhere import THERE
from kranzq.cli.say import say
from kranzq.cli.screen import showing
from kranzq.cli.which_server import missions_at
from kranzq.dispatch.listed import Listing
from kranzq.dispatch.overview import Overview


def show_status(server: str, every_s: float | None) -> None:
    """What runs there, once or every so many seconds."""
    with missions_at(server, waits=every_s is None) as missions:

        def look() -> Overview:
            answer = missions.status()
            seen = told.read(missions.where, told.status, answer)
            listing = told.read(missions.where, told.listing, missions.listing(parked=False, everything=True))
            return Overview(seen, listing, None, time.time(), str(answer.get("version", "?")))

        showing.show_status(look, every_s, where=missions.where)
    if every_s is None:
        say(THERE)


def show_listing(server: str, every_s: float | None, *, parked: bool, everything: bool) -> None:
    """What waits there, once or every so many seconds."""
    with missions_at(server, waits=every_s is None) as missions:

        def look() -> Listing:
            return told.read(missions.where, told.listing, missions.listing(parked=parked, everything=everything))

        showing.show_listing(look, every_s, parked=parked)
    if every_s is None:
        say(THERE)
