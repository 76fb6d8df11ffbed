"""``dse reproduce``: a paper's tables and figures from fresh runs, next to the paper's own numbers.

Every paper is a subcommand whose options follow from the paper's own dataclass.
"""

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click
from click.core import ParameterSource
from rich.text import Text

from dse.cli.exit_codes import EXIT_INTERRUPTED
from dse.cli.help import GroupedCommand
from dse.cli.problem_command import NOTES, parameter_of
from dse.cli.progress import progress
from dse.cli.run import RunSettings, executor_for, settings_from, unmirrored_options
from dse.cli.stopping import stop_signal
from dse.cli.terminal import print_table, print_text
from dse.report.units import counted
from dse.report.view import MAX_NOTES
from dse.reproduce.driver import Job, job_of, journal_of, reproduce
from dse.reproduce.output import to_json, write
from dse.reproduce.paper import Paper
from dse.reproduce.papers import PAPERS, paper_named, summary_of
from dse.reproduce.section import Reproduction
from dse.run.directory import REPORT_FILE
from dse.run.options import option_fields
from dse.run.run import Run
from hardware.inputs import choose, fail


class _PaperCommand(GroupedCommand):
    """The command of one paper; it refuses the option of another paper with that paper's name.

    Args:
        parts: titles of its tables and figures, by name.
    """

    def __init__(self, *args: Any, parts: Mapping[str, str], **attributes: Any) -> None:
        super().__init__(*args, **attributes)
        self._parts = parts

    def format_help_text(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """The description, the parts and the examples."""
        super().format_help_text(ctx, formatter)
        with formatter.section("Parts"):
            formatter.write_dl(list(self._parts.items()))

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        try:
            return super().parse_args(ctx, args)
        except click.NoSuchOption as error:
            name = error.option_name
            owners = [each for each in PAPERS if each != self.name and name in _option_names(paper_named(each))]
            if not owners:
                raise
            rule = f"is an option of {' and '.join(owners)}, not of {self.name}"
            raise fail(f"dse reproduce {self.name}", name, "", rule) from error


class _Papers(click.Group):
    """The papers by name; one is imported when it is called."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(PAPERS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command:
        return _command_of(_at_the_roof(cmd_name))

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if args and not args[0].startswith("-"):
            choose("dse reproduce", "PAPER", args[0], PAPERS, "paper")
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Papers"):
            formatter.write_dl([(name, summary_of(name)) for name in PAPERS])


@click.group(
    "reproduce",
    cls=_Papers,
    invoke_without_command=True,
    no_args_is_help=False,
    options_metavar="",
    subcommand_metavar="PAPER [PART]… [OPTIONS]",
    epilog="`dse reproduce PAPER --help` lists the parts and options of a paper.",
)
@click.pass_context
def command(context: click.Context) -> None:
    """Print the tables and figures of PAPER next to our recomputed ones (all parts if no PART is named).

    Every search has its own limit; an answer that is not proven by then is printed with its gap. For each skipped part,
    the reason is printed.
    """
    if context.invoked_subcommand is None:
        raise fail("dse reproduce", "PAPER", "", f"is missing; papers: {', '.join(PAPERS)}")


def _at_the_roof(name: str) -> Paper[Any, Any]:
    """The paper, with the learned methods where it compares any and they are installed."""
    if name == "mcm":
        from dse.reproduce.mcm.parts import Learned, paper
        from policies.partition.contenders import ablations, contenders, identity
        from policies.partition.methods import is_installed

        if is_installed():
            return paper(Learned(contenders(), ablations(), identity))
    if name == "automap":
        from dse.reproduce.automap import parts as automap
        from policies.fabric.options import is_installed as can_train

        if can_train():
            from policies.parallel.reproduction import learned as trainings

            return automap.paper(trainings())
    if name == "rdu":
        from dse.reproduce.rdu import parts
        from policies.fabric.options import is_installed as can_learn

        if can_learn():
            from policies.fabric.reproduction import learned

            return parts.paper(learned())
    return paper_named(name)


def _command_of(paper: Paper[Any, Any]) -> click.Command:
    """The subcommand of a paper."""

    @unmirrored_options
    def made(parts: tuple[str, ...], quick: bool, notes: bool, **options: Any) -> None:
        settings = settings_from(options)
        source = click.get_current_context().get_parameter_source
        if quick:
            stated = {name for name in paper.quick if source(name) is not ParameterSource.DEFAULT}
            options |= {name: value for name, value in paper.quick.items() if name not in stated}
        job = job_of(paper, parts, paper.options(**options))
        _finish(_run(job, settings), settings, notes)

    shorter = " ".join(
        f"{field.flag} {paper.quick[field.name]}" for field in option_fields(paper.options) if field.name in paper.quick
    )
    made = NOTES(made)
    made = click.option("--quick", is_flag=True, help=f"A short run that prints a table for every part: {shorter}.")(
        made
    )
    for field in reversed(option_fields(paper.options)):
        made = parameter_of(field)(made)
    made = click.argument("parts", nargs=-1, metavar="[PART]…")(made)
    endings = ("--quick", next(iter(paper.parts)), "--out runs/paper")
    examples = [f"dse reproduce {paper.name} {ending}" for ending in endings]
    parts = {
        name: part.title if part.missing is None else f"{part.title} ({part.missing})"
        for name, part in paper.parts.items()
    }
    return click.command(paper.name, cls=_PaperCommand, help=paper.summary, examples=examples, parts=parts)(made)


def _option_names(paper: Paper[Any, Any]) -> set[str]:
    return {field.flag for field in option_fields(paper.options)}


def _run(job: Job, settings: RunSettings) -> Reproduction:
    with (
        journal_of(job, settings.seed, settings.out, settings.resume) as journal,
        progress(settings.quiet) as report,
        stop_signal(settings.time_limit) as stop,
        executor_for(settings, job.predicted_s) as executor,
    ):
        return reproduce(job, Run(executor, report, stop, settings.seed, journal))


def _finish(done: Reproduction, settings: RunSettings, notes: bool) -> None:
    """Write, print (all ``notes`` or the first ones) and exit."""
    if settings.out is not None:
        write(done, settings.out)
    if settings.json:
        click.echo(to_json(done), nl=False)
        if not settings.quiet:
            for section in done.sections:
                if section.skipped is not None:
                    click.echo(f"{section.part}: skipped: {section.skipped}", err=True)
    elif not settings.quiet:
        print_reproduction(done, settings.out, notes)
    sys.exit(EXIT_INTERRUPTED if done.stopped == "interrupted" else 0)


def print_reproduction(done: Reproduction, out: Path | None, whole: bool) -> None:
    """Print the verdict, then every section: its tables, and its first notes or the ``whole`` of them."""
    print_text(Text.assemble((done.paper, "bold"), f": {done.verdict}"))
    hidden = 0
    for section in done.sections:
        print_text(Text(f"\n{section.title}", style="bold"))
        for table in section.tables:
            print_table(table.headers, table.rows)
        notes = section.notes if whole or section.skipped is not None else section.notes[:MAX_NOTES]
        hidden += len(section.notes) - len(notes)
        for note in notes:
            print_text(f"{'·' if section.skipped is None else 'skipped:'} {note}")
    print_text(f"\n{done.citation}")
    print_text(done.summary)
    if hidden:
        print_text(Text(f"--notes shows {counted(hidden, 'note')} more", style="dim"))
    if out is not None:
        print_text(f"in {out}: {REPORT_FILE}")
