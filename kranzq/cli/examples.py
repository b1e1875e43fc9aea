"""Two examples for each verb, shown below its options and in the manual. Imported only when help is asked for.

A test reads each one against the verbs as they are.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import click

EXAMPLES: Mapping[str, tuple[str, ...]] = {
    "init": ("kranzq init", "kranzq -C ~/src/app init --yes            # in a script"),
    "enqueue": (
        "kranzq enqueue fix-login --priority 1 --timeout 2h -- make fix",
        "kranzq enqueue add-tests --file TASK.md --after fix-login   # for the configured command",
    ),
    "cancel": ("kranzq cancel fix-login --why 'done by hand'", "kranzq cancel 'old-*' --yes"),
    "edit": ("kranzq edit fix-login --priority 0 --not-before now", "kranzq edit add-tests --timeout 30m"),
    "park": ("kranzq park fix-login", "kranzq park add-tests wait for the design"),
    "unpark": ("kranzq unpark fix-login", "kranzq unpark add-tests --json"),
    "retry": ("kranzq retry fix-login", "kranzq retry add-tests --json"),
    "source": ("kranzq source list --ended", "kranzq source show fix-login"),
    "source cancelled": ("kranzq source cancelled fix-login", "kranzq source cancelled fix-login --json"),
    "source list": ("kranzq source list", "kranzq source list --ended --json"),
    "source reclaim": ("kranzq source reclaim", "kranzq source reclaim --yes"),
    "source returned": ("kranzq source returned fix-login", "kranzq source returned fix-login --json"),
    "source show": ("kranzq source show fix-login", "kranzq source show fix-login --json"),
    "trust": (
        "kranzq trust                            # what is allowed here, and what waits for what",
        "kranzq trust --settings",
    ),
    "pause": ("kranzq pause", "kranzq pause until the release is out"),
    "resume": ("kranzq resume", "kranzq -C ~/src/app resume"),
    "list": ("kranzq list --all --watch", "kranzq list --json | jq -r '.entries[].mission'"),
    "status": ("kranzq status --all --watch", "kranzq status --json | jq .busy"),
    "repos": ("kranzq repos add ~/src/app", "kranzq repos list --json | jq -r '.repos[].repo'"),
    "repos add": ("kranzq repos add", "kranzq repos add ~/src/app"),
    "repos forget": ("kranzq repos forget", "kranzq repos forget && kranzq status --all"),
    "repos list": ("kranzq repos list", "kranzq repos list --json"),
    "repos remove": ("kranzq repos remove ~/src/old", "kranzq -C ~/src/app repos remove"),
    "why": ("kranzq why fix-login", "kranzq why fix-login --json"),
    "history": ("kranzq history --last 10", "kranzq history fix-login --all"),
    "logs": ("kranzq logs fix-login --follow", "kranzq logs fix-login --run 2 --tail 50"),
    "wait": ("kranzq wait fix-login && git push", "kranzq wait fix-login --timeout 2h"),
    "check": ("kranzq check", "kranzq check --prove --seconds 30"),
    "daemon": ("kranzq daemon", "kranzq daemon --on-stop leave"),
    "drain": ("kranzq drain", "kranzq drain --once"),
    "stop": ("kranzq stop", "kranzq stop --now"),
    "recover": ("kranzq recover --dry-run", "kranzq recover --yes"),
    "service": (
        "kranzq service install            # show the unit, ask, write it, say what to type next",
        "kranzq -C ~/src/app service status",
    ),
    "service install": (
        "kranzq service install --print | less     # what would it be?",
        "kranzq service install --yes --now        # in a script",
    ),
    "service remove": (
        "kranzq service remove",
        "kranzq service remove --yes --force       # although somebody has edited the file",
    ),
    "service status": ("kranzq service status", "kranzq service status --json | jq -r .condition"),
    "guard": (
        "kranzq guard && git push origin HEAD",
        "kranzq guard --item w-9 --attempt 2 && git merge work/w-9-2",
    ),
    "hook": ("kranzq hook install git-pre-push", "kranzq hook list"),
    "hook install": (
        "kranzq hook install git-pre-push",
        "kranzq hook install git-post-commit --timeout 1h -- make test",
    ),
    "hook list": ("kranzq hook list", "kranzq hook list --json --file ~/.claude/settings.json"),
    "hook remove": (
        "kranzq hook remove git-pre-push",
        "kranzq hook remove claude --file ~/.claude/settings.json --yes",
    ),
    "notify": ("kranzq notify test", "kranzq notify list"),
    "notify test": ("kranzq notify test", "kranzq notify test failed"),
    "notify list": ("kranzq notify list", "kranzq notify list --json"),
    "notify drop": ("kranzq notify drop", "kranzq notify drop --json"),
    "notify secret": ("kranzq notify secret", "kranzq notify secret --new"),
    "presence": ("kranzq presence claim src/login --note 'the races'", "kranzq presence who src/login"),
    "presence claim": (
        "kranzq presence claim src/login docs --ttl 30m",
        "kranzq presence claim --branch fix-login --note 'rebasing'",
    ),
    "presence list": ("kranzq presence list", "kranzq presence list --mine --json"),
    "presence release": ("kranzq presence release --all", "kranzq presence release c-1 c-2"),
    "presence who": ("kranzq presence who src/login/form.py", "kranzq presence who --branch fix-login --json"),
    "work": (
        "kranzq work enqueue --title 'review the login' --payload 'look for races'",
        "kranzq work claim --exec sh -c 'echo \"reviewing: $(cat)\"'",
    ),
    "work cancel": ("kranzq work cancel w-9", "kranzq work cancel w-9 --reason 'done by hand'"),
    "work claim": (
        "kranzq work claim --kind review --wait 30s",
        "kranzq work claim --forever --exec ./review.sh",
    ),
    "work complete": (
        "kranzq work complete w-9 --attempt 2 --result 'two races found'",
        "kranzq work complete w-9 --attempt 2 --failed --result-file report.txt",
    ),
    "work enqueue": (
        "kranzq work enqueue --title 'review the login' --file TASK.md --group reviewers",
        "kranzq work enqueue --batch items.jsonl",
    ),
    "work heartbeat": (
        "kranzq work heartbeat w-9 --attempt 2",
        "kranzq work heartbeat w-9 --attempt 2 --lease 10m",
    ),
    "work list": ("kranzq work list --state open", "kranzq work list --json | jq -r '.items[].id'"),
    "work prune": ("kranzq work prune", "kranzq work prune --older-than 7d"),
    "work recover": ("kranzq work recover", "kranzq work recover --json"),
    "work release": (
        "kranzq work release w-9 --attempt 2 --reason 'needs a bigger machine'",
        "kranzq work release w-9 --attempt 2 --declined --delay 10m",
    ),
    "work show": ("kranzq work show w-9", "kranzq work show w-9 --json"),
    "work stats": ("kranzq work stats", "kranzq work stats --json"),
    "agent": ("kranzq agent add ann --token-file ~/ann.token", "kranzq agent list"),
    "agent add": (
        "kranzq agent add ann --token-file ~/ann.token",
        "kranzq agent add ci --group reviewers --expires 90d",
    ),
    "agent key": ("kranzq agent key", "kranzq agent key --rotate"),
    "agent list": ("kranzq agent list", "kranzq agent list --json"),
    "agent revoke": ("kranzq agent revoke ann", "kranzq agent revoke ci --json"),
    "agent rotate": (
        "kranzq agent rotate ann --token-file ~/ann.token",
        "kranzq agent rotate ci --expires never",
    ),
    "serve": ("kranzq serve", "kranzq serve --listen 127.0.0.1:8787"),
    "mcp": ("kranzq mcp", "kranzq mcp --agent ann --group reviewers"),
    "schema": ("kranzq schema show", "kranzq schema migrate"),
    "schema migrate": ("kranzq schema migrate", "kranzq schema migrate --url postgresql://me@db/work"),
    "schema show": ("kranzq schema show", "kranzq schema show --json"),
}


def attach(command: click.Command, name: str) -> None:
    """Let a verb, and all below it, show its examples behind its options."""
    for path, one in below(command, name):
        lines = EXAMPLES.get(path, ())
        one.epilog = "\n".join(["\b", "Examples:", *(f"  {line}" for line in lines)]) if lines else None


def below(command: click.Command, name: str) -> Iterator[tuple[str, click.Command]]:
    """A verb and all below it, each with its whole name."""
    yield name, command
    if isinstance(command, click.Group):
        for word, inner in sorted(command.commands.items()):
            yield from below(inner, f"{name} {word}")
