"""Write the manual page, which the package installs, from the verbs' own help: `share/man/man1/kranzq.1`.

.venv/bin/python scripts/manual.py [--check]     --check: change nothing, 1 when it would change
"""

from __future__ import annotations

import inspect
import re
import sys
from collections.abc import Iterator
from pathlib import Path

import click

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from kranzq import errors  # noqa: E402 - the path comes first
from kranzq.cli.examples import EXAMPLES, below  # noqa: E402
from kranzq.cli.main import VERBS, cli  # noqa: E402

PAGE = ROOT / "share/man/man1/kranzq.1"
EXITS = (
    (0, "done, also when there was nothing to change"),
    (errors.EXIT_FAILED, "the mission or the operation failed"),
    (errors.EXIT_USAGE, "usage or configuration"),
    (errors.EXIT_NOT_FOUND, "no such mission, item or checkout"),
    (errors.EXIT_BUSY, "busy or conflict"),
    (errors.EXIT_REFUSED, "refused: untrusted, unsafe path, permission"),
    (errors.EXIT_STORE, "store unavailable: disk full, read-only, database down; nothing was changed"),
    (errors.EXIT_FAULT, "a fault of kranzq itself, with where the report lies"),
    (errors.EXIT_LATER, "try again later"),
    ("130, 143", "interrupted"),
)
FILES = (
    (".kranz/queue/", "the queue of a checkout; .kranz/missions/ has runs and their output"),
    (".kranz/kranzq.toml", "settings of the checkout; they count only after: kranzq trust --settings"),
    ("$XDG_CONFIG_HOME/kranzq/config.toml", "settings of the user; else below ~/.config"),
    ("$XDG_STATE_HOME/kranzq/", "keys, what was trusted, items; else below ~/.local/state"),
)


def text(words: str) -> str:
    """Words as roff shows them: nothing in them is a request, and a dash stays one that can be typed."""
    plain = words.replace("\\", "\\e").replace("-", "\\-").replace("~", "\\(ti").replace("^", "\\(ha")
    return re.sub(r"(?m)^([.'])", r"\\&\1", plain)


def paragraphs(command: click.Command) -> Iterator[str]:
    """What the help of a verb says, a paragraph each; one that is not to be wrapped keeps its lines."""
    for part in inspect.cleandoc(command.help or "").split("\n\n"):
        if part.startswith("\b"):
            yield f".nf\n{text(part.removeprefix(chr(8)).strip(chr(10)))}\n.fi"
        else:
            yield text(" ".join(part.split()))


def of_verb(name: str, command: click.Command) -> Iterator[str]:
    """The lines about one verb: how it is called, what it does, its options, examples."""
    context = click.Context(command, info_name=name)
    usage = " ".join(command.collect_usage_pieces(context))
    yield f'.SS "{text(f"kranzq {name} {usage}".strip())}"'
    for number, part in enumerate(paragraphs(command)):
        yield from (".PP", part) if number else (part,)
    for parameter in command.get_params(context):
        record = parameter.get_help_record(context)
        if isinstance(parameter, click.Option) and record is not None and "--help" not in parameter.opts:
            yield from (".TP", f".B {text(record[0])}", text(" ".join(record[1].split())))
    if name in EXAMPLES:
        yield from (".PP", "Examples:", ".RS", ".nf", *map(text, EXAMPLES[name]), ".fi", ".RE")


def manual() -> str:
    """The page, section 1. Without version and date, so that it changes only with the verbs."""
    context = click.Context(cli, info_name="kranzq")
    lines = [
        '.\\" Made by scripts/manual.py from the help of the verbs.',
        '.TH KRANZQ 1 "" kranzq "User Commands"',
        ".SH NAME",
        "kranzq \\- dispatch missions in a checkout, one after the other, whatever is killed meanwhile",
        ".SH SYNOPSIS",
        ".B kranzq",
        "[\\-C DIR] VERB [OPTIONS] [ARGUMENTS]",
        ".SH DESCRIPTION",
        *paragraphs(cli),
        ".PP",
        "Each verb takes \\-\\-help. The checkout is the nearest one upwards; \\-C DIR names another.",
        ".SH VERBS",
    ]
    for verb in VERBS:
        command = cli.get_command(context, verb)
        assert command is not None
        for name, one in below(command, verb):
            lines += of_verb(name, one)
    lines.append('.SH "EXIT STATUS"')
    for code, what in EXITS:
        lines += [".TP", f".B {code}", text(what)]
    lines.append(".SH FILES")
    for path, what in FILES:
        lines += [".TP", f".I {text(path)}", text(what)]
    return "\n".join(lines) + "\n"


def main(*words: str) -> int:
    """Write the page, or say whether it would change."""
    wanted = manual()
    if PAGE.exists() and PAGE.read_text(encoding="utf-8") == wanted:
        return 0
    if "--check" in words:
        print(f"{PAGE} is not what the verbs say; type: .venv/bin/python scripts/manual.py")
        return 1
    PAGE.parent.mkdir(parents=True, exist_ok=True)
    PAGE.write_text(wanted, encoding="utf-8")
    print(f"{PAGE} was written")
    return 0


if __name__ == "__main__":
    raise SystemExit(main(*sys.argv[1:]))
