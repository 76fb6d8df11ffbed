"""The command line: parses, dispatches, prints. No logic.

The commands that solve problems are made from what the problem packages offer (:mod:`dse.cli.problem_command`); every
other one is a module of this package. Both are imported when they are called, so ``dse --help`` answers at once. Exit
codes: 0 answered; 1 proven infeasible, or a check failed; 2 bad usage or bad input; 3 stopped before any feasible
answer; 130 interrupted; 70 a fault of the program itself.
"""

import importlib
import os
import sys
import time
from typing import Any

import click

from dse.cli.exit_codes import EXIT_BAD_INPUT, EXIT_INTERNAL_FAULT, EXIT_INTERRUPTED
from dse.cli.help import WIDTH
from dse.cli.stopping import interruptible
from dse.problem import registered
from dse.version import VERSION

_OTHERS = {
    "pretrain": "Train a policy on many graphs and choose its best checkpoint.",
    "models": "List the built-in models, or show the parameters and FLOPs of any model.",
    "specs": "List the hardware specs by kind, or show one with the source of every value.",
    "chip": "Show a chip: peak rates, ridge points, memory, links, cores.",
    "calibrate": "Fit the constants of an accelerator to measured kernels.",
    "convert": "Convert a chip spec of an earlier version to the current format.",
    "check": "Recompute a result from its input and list every violation.",
    "report": "Rewrite the report of a finished run.",
    "compare": "Show the options and outcomes in which runs differ.",
    "reproduce": "Print a paper's tables and figures next to our recomputed ones.",
}
"""The commands that solve no problem: each is a module of this package."""


def _summaries() -> dict[str, str]:
    """One line for every command: the problems first."""
    return {name: each.summary for name, each in registered().items()} | _OTHERS


class _ReaderIsGoneError(Exception):
    """Nobody reads what a command prints any more (``dse models | head``)."""


class _LazyGroup(click.Group):
    """A group that knows its commands' names and imports a command only when it is called."""

    # Click itself would end the program with 1, which says that nothing is feasible.
    def make_context(self, *args: Any, **extra: Any) -> click.Context:
        try:
            return super().make_context(*args, **extra)
        except BrokenPipeError as error:
            raise _ReaderIsGoneError from error

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except BrokenPipeError as error:
            raise _ReaderIsGoneError from error

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(_summaries())

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name in _OTHERS:
            command: click.Command = importlib.import_module(f"dse.cli.{cmd_name}").command
            return command
        if cmd_name in registered():
            from dse.cli.verbs import command_or_verbs

            return command_or_verbs(registered()[cmd_name])
        return None

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if args and args[0] not in _summaries() and not args[0].startswith("-"):
            from hardware.inputs import choose

            choose("dse", "command", args[0], _summaries(), "command")
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl(list(_summaries().items()))


@click.group(
    cls=_LazyGroup,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": WIDTH},
    epilog="Getting started:  dse codesign bert-large  ·  dse models  ·  dse COMMAND --help",
)
@click.version_option(VERSION, message="dse %(version)s")
def group() -> None:
    """Search and design-space exploration for machine-learning accelerators.

    Which hardware, and which mapping of this model onto it, is best, how sure are we, and what would change the answer?
    """


def main() -> None:
    """Run the command line and exit with its code."""
    debug = "--debug" in sys.argv
    try:
        _require_text(sys.argv)
        with interruptible():
            sys.exit(group.main(standalone_mode=False, obj=time.monotonic()))
    except click.exceptions.NoArgsIsHelpError as error:
        click.echo(error.format_message())
        sys.exit(0)
    except click.ClickException as error:
        context = getattr(error, "ctx", None)
        path = context.command_path if context is not None else "dse"
        from hardware.inputs import one_line

        click.echo(f"error: {path}: {one_line(_message(error), 1000)}", err=True)
        sys.exit(EXIT_BAD_INPUT)
    except (KeyboardInterrupt, click.Abort):
        click.echo("interrupted", err=True)
        sys.exit(EXIT_INTERRUPTED)
    except _ReaderIsGoneError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # what is left to print goes nowhere
        sys.exit(0)
    except Exception as error:
        if debug:
            raise
        _report(error)


def _message(error: click.ClickException) -> str:
    """Of a fault; of an option that is a key of a training plan, the option that takes it."""
    context = getattr(error, "ctx", None)
    if isinstance(error, click.NoSuchOption) and context is not None:
        from dse.plan.training_plan import ALIASES, KEYS

        name = error.option_name.removeprefix("--").replace("-", "_")
        key = ALIASES.get(name, name)
        if key in KEYS and "plan" in {each.name for each in context.command.params}:
            return f"No such option '{error.option_name}'; use --plan {key}=… instead."
    return error.format_message()


def _require_text(arguments: list[str]) -> None:
    """Refuse arguments that no command line can hold, as another program may hand over: no file has such a name."""
    for argument in arguments:
        try:
            os.fsencode(argument)
        except UnicodeEncodeError as error:
            from hardware.inputs import fail

            raise fail("dse", "", argument, "is not text") from error


def _report(error: Exception) -> None:
    """Print ``error`` in one line for each fault and exit; bad input is the user's to mend, the rest is ours."""
    from hardware.inputs import InputError

    if isinstance(error, InputError):
        for fault in error.faults:
            click.echo(f"error: {fault}", err=True)
        sys.exit(EXIT_BAD_INPUT)
    click.echo(f"internal error: {type(error).__name__}: {error} (--debug shows where)", err=True)
    sys.exit(EXIT_INTERNAL_FAULT)
