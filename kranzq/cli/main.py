"""The command group. Verbs are named here with their short help, so that neither start nor `--help` imports them all.

Also the one place where faults become exit codes: an expected one is a sentence on stderr, an unexpected one leaves a
report and 70.
"""

from __future__ import annotations

import contextlib
import importlib
import os
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import click

from kranzq import __version__
from kranzq.cli.say import clean, complain, complain_of
from kranzq.errors import EXIT_FAULT, EXIT_STORE, BadSetting, KranzqError, NotFound, UsageFault
from kranzq.model.tokens import without_tokens

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

VERBS: dict[str, tuple[str, str]] = {
    "init": ("kranzq.cli.queueing:init", "Make the queue of this checkout."),
    "enqueue": ("kranzq.cli.queueing:enqueue", "Approve a mission: queue it, durably."),
    "cancel": ("kranzq.cli.withdrawing:cancel", "Take an approval back, or end a running mission."),
    "edit": ("kranzq.cli.amending:edit", "Change a mission that has not begun."),
    "park": ("kranzq.cli.amending:park", "Set a mission aside that has not begun."),
    "unpark": ("kranzq.cli.amending:unpark", "Let a parked mission run again."),
    "retry": ("kranzq.cli.amending:retry", "Run a mission once more."),
    "source": ("kranzq.cli.sourcing:source", "Whose items missions are: list, returned, cancelled, reclaim."),
    "trust": ("kranzq.cli.trusting:trust", "What may run here: settings, unsigned or moved entries, keys."),
    "pause": ("kranzq.cli.permitting:pause", "Let no new mission begin."),
    "resume": ("kranzq.cli.permitting:resume", "Let missions begin again."),
    "list": ("kranzq.cli.looking:list_", "What waits, in order."),
    "status": ("kranzq.cli.looking:status", "What runs, since when, and who does it."),
    "repos": ("kranzq.cli.repos:repos", "The checkouts that you work in: list, add, remove, forget."),
    "why": ("kranzq.cli.looking:why", "Why a mission does not run, and what would clear it."),
    "history": ("kranzq.cli.looking:history", "How runs ended."),
    "logs": ("kranzq.cli.looking:logs", "A run's output."),
    "wait": ("kranzq.cli.looking:wait", "Wait until a mission has ended."),
    "check": ("kranzq.cli.checking:check", "Look for trouble without starting anything."),
    "daemon": ("kranzq.cli.dispatching:daemon", "Dispatch missions of this checkout, in the foreground."),
    "drain": ("kranzq.cli.dispatching:drain", "Run what is due, then leave; needs no daemon."),
    "stop": ("kranzq.cli.dispatching:stop", "Stop the daemon of this checkout."),
    "recover": ("kranzq.cli.dispatching:recover", "After a crash: put every claim where it belongs."),
    "service": ("kranzq.cli.service:service", "Keep the daemon as a service: install, status, remove."),
    "guard": ("kranzq.cli.guarding:guard", "Refuse what a mission does when its claim is no longer its own."),
    "hook": ("kranzq.cli.hooking:hook", "Hooks for git, agents and CI: install, list, remove."),
    "notify": ("kranzq.cli.notifying:notify", "Who is told of events: test, list, secret."),
    "presence": ("kranzq.cli.presence:presence", "Say what you work on, and ask who else does; blocks nobody."),
    "work": ("kranzq.cli.working:work", "Items that agents share: enqueue, claim, complete, list."),
    "agent": ("kranzq.cli.agents:agent", "Who may call a server: add, list, rotate, revoke; the operator's key."),
    "serve": ("kranzq.cli.serving:serve", "Serve the work queue, presence and missions over HTTP."),
    "mcp": ("kranzq.cli.mcp:mcp", "Serve an agent over MCP: its tools for items, presence and missions."),
    "schema": ("kranzq.cli.schema:schema", "The schema of the work queue's database: show, migrate."),
}
INTERRUPTED, TERMINATED = 130, 143
COMPLETING = "_KRANZQ_COMPLETE"
"""The variable by which a shell asks what could come next."""


class _ReaderGone(Exception):
    """Whoever read the output has enough. No OSError: of a broken pipe click itself makes exit code 1."""


class Verbs(click.Group):
    """A group whose verbs are imported when they are used."""

    def make_context(self, *given: Any, **more: Any) -> click.Context:
        """As click does; `--help` and `--version` are printed here."""
        try:
            return super().make_context(*given, **more)
        except BrokenPipeError as fault:
            raise _ReaderGone from fault

    def invoke(self, ctx: click.Context) -> Any:
        """As click does; whoever called a verb wrongly is told where it is described, if nothing nearer was said."""
        try:
            return super().invoke(ctx)
        except BrokenPipeError as fault:
            raise _ReaderGone from fault
        except UsageFault as fault:
            if not fault.advice:
                verb = f" {ctx.invoked_subcommand}" if ctx.invoked_subcommand else ""
                in_file = isinstance(fault, BadSetting) and not fault.sentence.startswith("command line")
                fault.advice = "Mend it there, then: kranzq check" if in_file else f"See: kranzq{verb} --help"
            raise

    def list_commands(self, ctx: click.Context) -> list[str]:
        """The verbs, in the order of the table."""
        del ctx
        return list(VERBS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import one verb."""
        del ctx
        if cmd_name not in VERBS:
            return None
        module, _, name = VERBS[cmd_name][0].partition(":")
        command = getattr(importlib.import_module(module), name)
        assert isinstance(command, click.Command)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """The verbs with their short help, without importing one."""
        del ctx
        with formatter.section("Verbs"):
            formatter.write_dl([(name, short) for name, (_, short) in VERBS.items()])

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """As click does, with a suggestion for a mistyped verb."""
        if args and args[0] not in VERBS and not args[0].startswith("-"):
            import difflib

            near = difflib.get_close_matches(args[0], VERBS, 1)
            hint = f" Did you mean '{near[0]}'?" if near else ""
            raise click.UsageError(f"There is no verb '{args[0]}'.{hint}", ctx)
        is_here = ctx.params.get("directory") is not None or ctx.resilient_parsing
        if args and not is_here and os.environ.get("KRANZQ_SERVER", "").strip():
            from kranzq.cli.which_server import check_here

            check_here(args[0], args[1:])
        name, command, rest = super().resolve_command(ctx, args)
        if name is not None and command is not None and _is_help(rest, command):
            from kranzq.cli.examples import attach

            attach(command, name)
        return name, command, rest

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        """The verbs with their short help and the options, without importing a verb."""
        from click.shell_completion import CompletionItem

        verbs = [CompletionItem(name, help=short) for name, (_, short) in VERBS.items() if name.startswith(incomplete)]
        return verbs + click.Command.shell_complete(self, ctx, incomplete)


@click.group(cls=Verbs, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="kranzq")
@click.option("-C", "directory", metavar="DIR", help="Work as if started in DIR.")
@click.pass_context
def cli(ctx: click.Context, directory: str | None) -> None:
    """Dispatch missions in a checkout: nothing approved is lost, nothing runs twice, never two in one tree."""
    try:
        ctx.obj = os.path.abspath(directory) if directory is not None else os.getcwd()
    except FileNotFoundError as fault:
        raise NotFound("The current directory is gone.", "Go to one that is there, or name one with -C DIR.") from fault
    ctx.meta["kranzq.here"] = directory is not None


def run(argv: Sequence[str]) -> int:
    """Run one command line; the exit code."""
    return _complete(argv) if COMPLETING in os.environ else _run(argv)


def _run(argv: Sequence[str]) -> int:
    try:
        return int(cli.main(list(argv), prog_name="kranzq", standalone_mode=False) or 0)
    except click.exceptions.Exit as done:
        return done.exit_code
    except click.ClickException as fault:  # a usage error among them has 2
        with contextlib.suppress(OSError):  # nobody reads it
            _show(fault)
        return fault.exit_code
    except KranzqError as fault:
        complain_of(fault)
        return fault.exit_code
    except (KeyboardInterrupt, click.Abort):
        complain("Interrupted.")
        return INTERRUPTED
    except _ReaderGone:
        import signal

        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # whoever read has enough; that is no fault
        return 128 + signal.SIGPIPE
    except OSError as fault:
        complain(f"{fault.filename or 'The disk'}: {fault.strerror or fault}.", "  Look at it with: kranzq check")
        return EXIT_STORE
    except Exception as fault:  # noqa: BLE001 - the last resort: a person gets a sentence and a file, not a traceback
        complain(f"A fault of kranzq itself: {fault!r}.", f"  The report lies in {_report()}; please pass it on.")
        return EXIT_FAULT


def _show(fault: click.ClickException) -> None:
    """A fault of the call, whose text repeats what was typed; of the help of a group alone nothing was."""
    if isinstance(fault, click.exceptions.NoArgsIsHelpError):
        fault.show()
        return
    if isinstance(fault, click.NoSuchOption) and fault.option_name == "--server":
        from kranzq.cli.which_server import no_server_option

        complain_of(no_server_option(fault.ctx.info_name if fault.ctx is not None else None))
        return
    shown = without_tokens(clean(fault.format_message()))
    (click.UsageError(shown, fault.ctx) if isinstance(fault, click.UsageError) else click.ClickException(shown)).show()


def _is_help(rest: Sequence[str], command: click.Command) -> bool:
    """Whether the help of a verb or of one below it may be asked for; a group alone shows it, too."""
    return "--help" in rest or "-h" in rest or (not rest and isinstance(command, click.Group))


def _complete(argv: Sequence[str]) -> int:
    """Answer the shell, or print its script. A key press must never print a fault: then there is nothing to offer."""
    try:
        cli.main(list(argv), prog_name="kranzq", complete_var=COMPLETING, standalone_mode=False)
    except Exception:  # noqa: BLE001 - see above
        return EXIT_FAULT
    return 0


def _report() -> str:
    import tempfile
    import traceback

    with tempfile.NamedTemporaryFile("wb", prefix="kranzq-fault-", suffix=".txt", delete=False) as file:
        text = f"kranzq {__version__}, Python {sys.version}\n\n{without_tokens(traceback.format_exc())}"
        file.write(text.encode("utf-8", "backslashreplace"))
    return file.name
