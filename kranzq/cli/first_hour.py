"""What `init` asks and proposes when a user has settled nothing yet: what runs missions, for how long, who is told."""

from __future__ import annotations

import shlex
import shutil
import sys
from collections.abc import Mapping

import click

from kranzq.cli.say import clean, complain, complain_of, say
from kranzq.config import config_path
from kranzq.config.adding import add, text_of
from kranzq.config.proposals import agents_on
from kranzq.config.settings import setting_named
from kranzq.errors import BadSetting, KranzqError
from kranzq.model.checkout import Checkout
from kranzq.wiring.configuring import load_config
from kranzq.wiring.hooks import is_url

NONE = "none"


def settle(checkout: Checkout, environ: Mapping[str, str], *, yes: bool) -> None:
    """Ask what nobody has said yet, and write the answers into the user's settings.

    With `yes` what is proposed is taken; where nobody is there to answer nothing is asked and nothing is written.
    """
    try:
        config = load_config(environ, checkout=checkout)
    except KranzqError as fault:
        complain_of(fault)
        return
    if config.mission.command:
        return
    found = list(agents_on(lambda name: shutil.which(name, path=environ.get("PATH"))))
    if yes:
        answers: dict[str, dict[str, object]] = {"mission": {"command": list(found[0].command)}} if found else {}
    elif sys.stdin.isatty() and sys.stdout.isatty():
        told = bool(config.hooks.failed or config.hooks.needs_person)
        answers = _ask([(one.path, shlex.join(one.command)) for one in found], told=told)
    else:
        if found:
            say(f"{found[0].command[0]} is on your PATH. To let it run missions, type: kranzq init --yes")
        return
    if answers:
        _write(environ, answers)
        _doubt(environ, answers)


def _ask(found: list[tuple[str, str]], *, told: bool) -> dict[str, dict[str, object]]:
    """The three questions. An empty answer takes what stands in brackets."""
    say("", "Three questions, for all your checkouts. Enter takes what stands in brackets.")
    for path, _ in found:
        say(f"  Found on your PATH: {path}")
    mission: dict[str, object] = {}
    hooks: dict[str, object] = {}
    command = _answer(
        "1  Which command runs a mission that has none of its own?", found[0][1] if found else NONE, "mission.command"
    )
    if command is not None:
        mission["command"] = shlex.split(command)
    timeout = _answer("2  How long may a mission take, such as 2h?", NONE, "mission.timeout")
    if timeout is not None:
        mission["timeout"] = timeout
    if not told:
        receiver = _answer("3  Who is told when something needs you: a URL or a program?", NONE, "hooks.failed")
        if receiver is not None:
            hooks = dict.fromkeys(("failed", "needs_person"), shlex.split(receiver))
    return {table: keys for table, keys in (("mission", mission), ("hooks", hooks)) if keys}


def _answer(question: str, proposed: str, name: str) -> str | None:
    """One answer that the setting takes; None for none."""

    def check(text: str) -> str:
        if text.strip() not in {NONE, ""}:
            try:
                setting_named("your answer", name).value_of(text, "your answer", name, as_text=True)
            except BadSetting as fault:
                raise click.UsageError(clean(fault.sentence)) from fault
        return text.strip()

    answer = str(click.prompt(clean(question), default=proposed, value_proc=check))
    return None if answer in {NONE, ""} else answer  # blanks are no command


def _doubt(environ: Mapping[str, str], answers: dict[str, dict[str, object]]) -> None:
    """Name the programs that are not there (yet): each once, with what shows whether they are mended."""
    named = (("command", answers.get("mission", {}).get("command")), ("hook", answers.get("hooks", {}).get("failed")))
    for what, command in named:
        if not isinstance(command, list) or is_url(command):
            continue
        if shutil.which(command[0], path=environ.get("PATH")) is None:
            check = "kranzq check" if what == "command" else "kranzq notify test"
            complain(f"{command[0]} is not there, or not executable.", f"  When it is: {check}")


def _write(environ: Mapping[str, str], answers: dict[str, dict[str, object]]) -> None:
    path = config_path(environ)
    if add(environ, answers):
        say(f"Written to {path}:", *(f"  {line}" for line in text_of(answers).splitlines() if line))
    else:
        say(
            f"{path} has such a table already. Put this into it:",
            *(f"  {line}" for line in text_of(answers).splitlines()),
        )
