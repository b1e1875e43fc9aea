"""What `init` may propose: the command of a coding agent that is on the search path.

Flags that let an agent act without asking are no proposal of ours: whoever wants them puts them in.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from kranzq.model.frozen import frozen

_TASK = "Do what the files in {mission_dir}/input say. This is mission {mission_id}."
AGENTS: tuple[tuple[str, ...], ...] = (
    ("claude", "-p", _TASK),
    ("codex", "exec", _TASK),
    ("gemini", "-p", _TASK),
    ("opencode", "run", _TASK),
    ("cursor-agent", "-p", _TASK),
    ("copilot", "-p", _TASK),
    ("qwen", "-p", _TASK),
    ("goose", "run", "-t", _TASK),
    ("aider", "--message", _TASK),
    ("kranz", "run", "{mission_id}"),
)
"""How each is started without a terminal, so that it leaves when it is done."""


@frozen
class Found:
    """An agent that is there: where, and what is proposed."""

    path: str
    command: tuple[str, ...]


def agents_on(which: Callable[[str], str | None]) -> Iterator[Found]:
    """The agents that are there, the one that is proposed first. `which` says where a program is."""
    for command in AGENTS:
        if (path := which(command[0])) is not None:
            yield Found(path, command)
