"""The tools on missions of a checkout: enqueue one, see where they are, ask why one does not run."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

from pydantic import Field

from kranzq.errors import UsageFault
from kranzq.mcp.caller import Caller
from kranzq.mcp.telling import told
from kranzq.model.entry import DEFAULT_PRIORITY

PROMPT = "prompt.md"
"""The name under which the mission finds what it is to do, in its folder of inputs."""
Mission = Annotated[str, Field(description="The id of the mission.")]
Answer = dict[str, object]


class MissionTools:
    """The tools, for one caller. The docstring of each is what its agent reads."""

    def __init__(self, caller: Caller) -> None:
        self._caller = caller

    def enqueue(  # noqa: PLR0913, PLR0917 - the parameters of the tool
        self,
        mission: Annotated[str, Field(description="An id; empty: one is made.")] = "",
        prompt: Annotated[str, Field(description=f"What is to be done; the mission finds it in input/{PROMPT}.")] = "",
        priority: Annotated[int, Field(description="0 to 255; lower goes first, unlike an item's.")] = DEFAULT_PRIORITY,
        not_before: Annotated[
            str, Field(description="Not before: +90m, +2h30m, or RFC 3339 with its zone; empty: now.")
        ] = "",
        after: Annotated[Sequence[str], Field(description="Only when these missions have succeeded.")] = (),
        timeout: Annotated[str, Field(description="End it after this time: 90s, 5m, 2h; empty: never.")] = "",
        retries: Annotated[int, Field(description="How often a failed run is tried again.")] = 0,
        ticket: Annotated[str, Field(description="The ticket that it is for.")] = "",
        command: Annotated[
            Sequence[str], Field(description="The command and its arguments; empty: the configured one.")
        ] = (),
        once: Annotated[bool, Field(description="Change nothing if it has ended before.")] = False,  # noqa: FBT002
        again: Annotated[bool, Field(description="Queue one more run behind a running one.")] = False,  # noqa: FBT002
        future: Annotated[bool, Field(description="One in after may be a mission that comes later.")] = False,  # noqa: FBT002
    ) -> Answer:
        """Enqueue a mission: it runs in this checkout when its turn comes, alone in the working tree.

        The same mission again changes nothing while it waits or runs.
        """
        with told():
            answer = self._caller.missions.enqueue(
                {
                    "mission": mission or None,
                    "priority": priority,
                    "not_before": not_before or None,
                    "after": tuple(after),
                    "timeout": timeout or None,
                    "retries": retries,
                    "ticket": ticket or None,
                    "command": tuple(command),
                    "once": once,
                    "again": again,
                    "future": future,
                    "files": {PROMPT: prompt.encode()} if prompt else {},
                }
            )
            note = "" if answer["created"] else "Nothing was changed; ask MissionStatus where it is."
            return answer | {"note": note}

    def status(
        self, mission: Annotated[str, Field(description="One mission; empty: all of the checkout.")] = ""
    ) -> Answer:
        """Show where a mission is and how its runs went; without one, what runs and what waits in the checkout."""
        with told():
            missions = self._caller.missions
            return missions.one(mission) if mission else missions.status() | missions.listing()

    def why(self, mission: Mission) -> Answer:
        """Tell why a mission does not run, or how it ended, and what would clear it."""
        with told():
            if not mission.strip():
                raise UsageFault("No mission is named.", "See what there is with MissionStatus.")
            return self._caller.missions.why(mission)
