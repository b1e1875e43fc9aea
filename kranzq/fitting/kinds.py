"""The kinds of fittings, and what a person wishes of one: values, and the mark that says what was made for it."""

from __future__ import annotations

import enum
import json
import re
from collections.abc import Mapping

from kranzq.errors import UsageFault
from kranzq.model.frozen import frozen
from kranzq.model.ids import MissionId
from kranzq.model.tokens import has_token

_LONGEST_OBJECT = "0" * 64
_MARK = re.compile(r"(\S+) made=(\S*)(?: with=(\{.*\}))?")
FILE, FOLDER = "file", "folder"
"""What may have been made for a fitting, and goes with it if nobody has put anything else there."""


class Place(enum.Enum):
    """In what kind of file a fitting lies."""

    GIT = "a script of git's"
    SETTINGS = "the settings of a coding agent"
    SERVERS = "an agent's list of MCP servers"
    NOWHERE = "nowhere: it is only printed"


@frozen
class Kind:
    """One kind: its name on the command line, where it lies, and what it does. `file` is the script's, or a path."""

    name: str
    place: Place
    file: str
    enqueues: bool
    mission: str
    """What ids of its missions begin with, unless said otherwise."""
    short: str


KINDS: tuple[Kind, ...] = (
    Kind("git-pre-commit", Place.GIT, "pre-commit", False, "", "guard before each commit"),
    Kind("git-pre-merge", Place.GIT, "pre-merge-commit", False, "", "guard before each commit of a merge"),
    Kind("git-pre-push", Place.GIT, "pre-push", False, "", "guard before each git push"),
    Kind("git-post-commit", Place.GIT, "post-commit", True, "commit", "enqueue a mission after each commit, once"),
    Kind("git-post-merge", Place.GIT, "post-merge", True, "merge", "enqueue a mission after each merge or pull, once"),
    Kind(
        "claude",
        Place.SETTINGS,
        ".claude/settings.local.json",
        True,
        "plan",
        "enqueue when a plan was approved; guard when the agent stops",
    ),
    Kind("mcp", Place.SERVERS, ".mcp.json", False, "", "let an agent's host start kranzq mcp"),
    Kind("ci", Place.NOWHERE, "", True, "ci", "print a job that guards and enqueues"),
)
_BY_NAME = {kind.name: kind for kind in KINDS}


def kind_named(name: str) -> Kind:
    """The kind of that name. Raises UsageFault."""
    if name in _BY_NAME:
        return _BY_NAME[name]
    import difflib  # noqa: PLC0415 - only a mistake needs it

    near = difflib.get_close_matches(name, _BY_NAME, 1)
    raise UsageFault(
        f"There is no kind of hook {name!r}.",
        f"Did you mean {near[0]}?" if near else f"There are: {', '.join(_BY_NAME)}",
    )


@frozen
class Wish:
    """What a fitting shall do: the mission that it enqueues, or who the agent is. Texts as on the command line."""

    mission: str = ""
    priority: int | None = None
    timeout: str = ""
    missions_too: bool = False
    """Whether it enqueues for what missions do themselves as well: then a mission may bring on the next one."""
    command: tuple[str, ...] = ()
    agent: str = ""

    def __post_init__(self) -> None:
        """Check what becomes a part of each mission's id. Raises BadMissionId, UsageFault."""
        if self.mission:
            MissionId(f"{self.mission}-{_LONGEST_OBJECT}")
        if any("\0" in word for word in (*self.command, self.agent)):
            raise UsageFault("A word of the command has a NUL in it, which no shell can pass on.")
        if any(has_token(word) for word in (*self.command, self.agent)):
            raise UsageFault(
                "A word of the command has a token in it, and the file of a hook is read by others.",
                "Name the file that holds it: KRANZQ_TOKEN_FILE.",
            )

    def words(self) -> list[str]:
        """The options of `kranzq enqueue`, in words."""
        found = ["--once"]
        if self.priority is not None:
            found += ["--priority", str(self.priority)]
        if self.timeout:
            found += ["--timeout", self.timeout]
        return found

    def to_json(self) -> str:
        """On one line, in ASCII."""
        shown = {
            "mission": self.mission,
            "priority": self.priority,
            "timeout": self.timeout,
            "missionsToo": self.missions_too or None,
            "command": list(self.command),
        }
        return json.dumps({name: value for name, value in shown.items() if value or value == 0})

    @classmethod
    def of_agent(cls, agent: object) -> Wish:
        """What an entry of an MCP server says. What somebody has put there that would be refused is no wish."""
        try:
            return cls(agent=agent if isinstance(agent, str) else "")
        except UsageFault:  # what it marks can still be taken out
            return cls()

    @classmethod
    def from_json(cls, text: str) -> Wish:
        """What a mark says, as far as it can be understood."""
        try:
            value = json.loads(text)
        except (ValueError, RecursionError):
            return cls()
        if not isinstance(value, Mapping):
            return cls()
        priority, command = value.get("priority"), value.get("command")
        mission, timeout = value.get("mission"), value.get("timeout")
        try:
            return cls(
                mission if isinstance(mission, str) else "",
                priority if type(priority) is int else None,
                timeout if isinstance(timeout, str) else "",
                value.get("missionsToo") is True,
                tuple(map(str, command)) if isinstance(command, list) else (),
            )
        except UsageFault:  # somebody has changed the mark: what it marks can still be taken out
            return cls()


@frozen
class Mark:
    """What a fitting says of itself: which version wrote it, what was made for it, and what was wished."""

    version: str
    made: tuple[str, ...] = ()
    wish: Wish | None = None

    def render(self) -> str:
        """As it stands in a comment, on one line."""
        told = f"{self.version} made={','.join(self.made)}"
        return told if self.wish is None else f"{told} with={self.wish.to_json()}"

    @classmethod
    def parse(cls, text: str) -> Mark | None:
        """A mark that was read; None when it is none."""
        found = _MARK.fullmatch(text.strip())
        if found is None:
            return None
        wish = Wish.from_json(found[3]) if found[3] is not None else None
        return cls(found[1], tuple(part for part in found[2].split(",") if part), wish)
