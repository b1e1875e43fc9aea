"""The examples in the help of each verb are calls that the verbs take, and there are two of each."""

from __future__ import annotations

import re
import shlex

import click
import pytest

from kranzq.cli.examples import EXAMPLES, below
from kranzq.cli.main import VERBS, cli, run

SHELL = {"|", "&&", "||", ";", "<", ">"}


def commands() -> dict[str, click.Command]:
    """All verbs and all below them, by whole name."""
    context = click.Context(cli)
    found: dict[str, click.Command] = {}
    for verb in VERBS:
        command = cli.get_command(context, verb)
        assert command is not None
        found |= dict(below(command, verb))
    return found


def calls(line: str) -> list[list[str]]:
    """The calls of kranzq in a line of shell, each as arguments."""
    lexer = shlex.shlex(re.sub(r"\s+# .*", "", line), posix=True, punctuation_chars="|&;<>")
    lexer.whitespace_split = True
    parts: list[list[str]] = [[]]
    for word in lexer:
        if word in SHELL:
            parts.append([])
        else:
            parts[-1].append(word)
    return [part[1:] for part in parts if part[:1] == ["kranzq"]]


def test_each_verb_has_two_examples_and_no_other_has() -> None:
    """A verb that is new is shown in use, and one that is gone is shown no more."""
    assert {name: len(lines) for name, lines in EXAMPLES.items()} == dict.fromkeys(commands(), 2)


@pytest.mark.parametrize(("name", "line"), [(name, line) for name, lines in EXAMPLES.items() for line in lines])
def test_each_example_is_a_call_of_its_verb(name: str, line: str) -> None:
    """Its options and arguments are read as the program reads them; nothing is carried out."""
    (words, *_) = calls(line)
    context = cli.make_context("kranzq", list(words))
    called: list[str] = []
    group: click.Command = cli
    while isinstance(group, click.Group):
        word, group_or_verb, rest = group.resolve_command(context, [*context._protected_args, *context.args])
        assert word is not None
        assert group_or_verb is not None
        called.append(word)
        context, group = group_or_verb.make_context(word, rest, parent=context), group_or_verb

    assert " ".join(called).startswith(name)


@pytest.mark.parametrize("words", ["enqueue", "work claim", "hook install", "presence"])
def test_help_ends_with_them(words: str, capsys: pytest.CaptureFixture[str]) -> None:
    """As a person sees it: below the options, one a line."""
    assert run([*words.split(), "--help"]) == 0
    shown = capsys.readouterr().out.splitlines()

    assert [line.strip() for line in shown[-3:]] == ["Examples:", *EXAMPLES[words]]
