"""The stories that the casts tell: what is typed, by whom, and what is waited for in between."""

from __future__ import annotations

from dataclasses import dataclass

AGENT = """#!/bin/sh
# Stands for a coding agent. The first run of the first mission takes for ever, the others do not.
echo "$1: reading the code"
if [ "$KRANZ_MISSION_ID$KRANZ_RUN_NUMBER" = fix-login1 ]; then
    echo $$ >"$HOME/agent.pid"
    exec sleep 600 # one process: what is ended together is told in no particular order
fi
echo "$1: done, the tests pass"
"""
REVIEWER = """#!/bin/sh
echo "read $(wc -w) words: $KRANZ_ITEM_TITLE, done"
"""


@dataclass(frozen=True)
class Typed:
    """A command that is typed and runs to its end. `{daemon}` and `{keeper}` are numbers of processes."""

    command: str
    by: str = ""
    """An agent's name, which stands in the prompt; without one it is the person at the keyboard."""


@dataclass(frozen=True)
class Started:
    """A daemon that is started and goes on beside."""

    command: str


@dataclass(frozen=True)
class Until:
    """What is waited for, unseen: the shell's condition becomes true."""

    condition: str


@dataclass(frozen=True)
class Said:
    """A line for the reader."""

    text: str


Step = Typed | Started | Until | Said


@dataclass(frozen=True)
class Story:
    """A cast: its file's name, its title, and its steps."""

    name: str
    title: str
    steps: tuple[Step, ...]


STORIES = (
    Story(
        "first",
        "Approve, run, look",
        (
            Typed("kranzq init --yes"),
            Typed("kranzq enqueue fix-login --priority 1 -- sh -c 'echo \"mending the login\"'"),
            Typed("kranzq enqueue add-tests -- sh -c 'echo \"adding tests\"'"),
            Typed("kranzq list"),
            Typed("kranzq drain"),
            Typed("kranzq logs fix-login"),
            Typed("kranzq history"),
        ),
    ),
    Story(
        "crash",
        "Approve, dispatch, crash, recover",
        (
            Typed('kranzq enqueue fix-login --priority 1 -- ./agent "the login"'),
            Typed('kranzq enqueue add-tests -- ./agent "tests"'),
            Started("kranzq daemon"),
            Until('grep -qx sleep "/proc/$(cat "$HOME/agent.pid")/comm"'),
            Until('grep -q \'"state": *"running"\' .kranz/missions/fix-login/dispatch/001/run.json'),
            Typed("kranzq status"),
            Said("the worst: the daemon and the mission's keeper are killed"),
            Typed("kill -KILL {daemon} {keeper}"),
            Typed("kranzq why fix-login"),
            Typed("kranzq recover --yes"),
            Said("nothing is lost: it is in its old place, and runs again"),
            Typed("kranzq drain"),
            Typed("kranzq history"),
        ),
    ),
    Story(
        "agents",
        "Two agents take work from one queue",
        (
            Typed('kranzq work enqueue --id login --title "review the login" --payload "Look for races."'),
            Typed('kranzq work enqueue --id tests --title "add tests" --payload "Cover the parser."'),
            Typed("kranzq work claim --exec ./reviewer", by="bob"),
            Typed("kranzq work claim --lease 1s", by="ann"),
            Said("ann is gone, nobody renews her lease; when it is over, bob gets her item"),
            Until("kranzq work stats --json | grep -q '\"overdue\": *1'"),
            Typed("kranzq work claim --exec ./reviewer", by="bob"),
            Said("ann comes back, too late: her attempt is not the one that counts"),
            Typed('kranzq work complete tests --attempt 1 --result "all good"', by="ann"),
            Typed("kranzq work show tests"),
        ),
    ),
    Story(
        "presence",
        "Who works on what",
        (
            Typed('kranzq presence claim src/login --note "mending the races"', by="ann"),
            Typed("kranzq presence claim src/login/form.py", by="bob"),
            Said("nobody is blocked: bob knows now, and asks before he goes on"),
            Typed("kranzq presence who src/login/form.py", by="bob"),
            Typed("kranzq presence release --all", by="ann"),
            Typed("kranzq presence who src/login/form.py", by="bob"),
        ),
    ),
)
