"""The command of a problem, made from what its package offers: arguments and options from its dataclass of options."""

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from types import NoneType, UnionType
from typing import Any, Literal, Union, get_args, get_origin

import click
from click.core import ParameterSource
from rich.text import Text

from dse.cli.help import GroupedCommand, GroupedOption
from dse.cli.methods import with_upper_defaults
from dse.cli.number_types import AnyDecimalNumber, AnyWholeNumber, DecimalNumber, WholeNumber
from dse.cli.progress import progress
from dse.cli.run import RunSettings, in_process_options, run_options, session_of, settings_from
from dse.cli.side_by_side import exit_code_of, name_of, print_side_by_side, values_of
from dse.cli.stopping import stop_signal
from dse.cli.terminal import print_text, print_view_table
from dse.problem import ProblemType
from dse.report.units import counted
from dse.report.view import View
from dse.results.answer import Answer
from dse.results.result import Result
from dse.results.session import answer
from dse.run.directory import JOURNAL_FILE, REPORT_FILE
from dse.run.options import OptionField, option_fields
from hardware.inputs import fail


def command_of(problem: ProblemType[Any, Any]) -> click.Command:
    """``dse NAME`` for a problem."""

    def run(*, notes: bool, **given: Any) -> None:
        settings = settings_from(given)
        _refuse_idle(problem)
        _require_out(problem, given, settings)
        values = values_of(problem, given)
        with progress(settings.quiet) as report, stop_signal(settings.time_limit) as stop:

            def answered_with(own: RunSettings, **changed: Any) -> Answer:
                options = with_upper_defaults(problem.name, problem.Options(**given | changed))
                return answer(problem, options, session_of(own, problem, report, stop))

            answers = {
                value: answered_with(
                    replace(settings, out=settings.out and settings.out / name_of(value)),
                    **{problem.side_by_side: value},
                )
                for value in values
            }
            answered = answered_with(settings) if not values else next(iter(answers.values()))
        if values:
            _print_all(problem, answers, settings)
            click.get_current_context().exit(exit_code_of(answers))
        _print(answered, settings, notes)
        _leave(answered.result, settings)

    noted = NOTES(run)
    command = run_options(noted) if problem.parallel else in_process_options(noted)
    for field in reversed(option_fields(problem.Options)):
        command = parameter_of(field)(command)
    epilog = problem.epilog or None
    named = click.command(problem.name, cls=GroupedCommand, help=problem.help, epilog=epilog, examples=problem.examples)
    return named(command)


NOTES = click.option("--notes", is_flag=True, cls=GroupedOption, help="Show all notes and tables.")


_METAVARS = {WholeNumber: "N", DecimalNumber: "X"}
"""Numbers in help; click would write ``INTEGER RANGE``."""


def parameter_of(field: OptionField) -> Any:
    """The click argument or option of one field."""
    kind, many = _type_of(field)
    option = field.option
    if option.positional:
        shown = f"{option.metavar}…" if option.metavar and many else option.metavar
        usual = {} if field.required or many else {"default": field.default}
        return click.argument(field.name, nargs=-1 if many else 1, required=field.required, metavar=shown, **usual)
    if field.kind is bool:
        return click.option(
            f"--{field.key}",
            field.name,
            cls=GroupedOption,
            group=option.group,
            is_flag=True,
            default=field.default,
            help=option.help,
        )
    return click.option(
        *field.flags,
        field.name,
        cls=GroupedOption,
        group=option.group,
        type=kind,
        multiple=many,
        default=field.default,
        show_default=field.default not in (None, (), ""),
        metavar=option.metavar or _METAVARS.get(type(kind)),
        help=option.help or None,
    )


def _type_of(field: OptionField) -> tuple[Any, bool]:
    """(click's type of a field's values, whether there may be several)."""
    kind = _without_none(field.kind)
    many = get_origin(kind) is tuple
    if many:
        kind = get_args(kind)[0]
    low, high = field.option.min, field.option.max
    if get_origin(kind) is Literal:
        return click.Choice(get_args(kind)), many
    if kind in (int, float) and low is high is None:
        return (AnyWholeNumber() if kind is int else AnyDecimalNumber()), many
    if kind is int:
        return WholeNumber(None if low is None else int(low), None if high is None else int(high)), many
    if kind is float:
        return DecimalNumber(low, high), many
    if kind is Path:
        return click.Path(path_type=Path, dir_okay=False), many
    return str, many


def _without_none(kind: Any) -> Any:
    if get_origin(kind) not in (UnionType, Union):
        return kind
    rest = [each for each in get_args(kind) if each is not NoneType]
    return next((each for each in rest if each is str or get_origin(each) is tuple), rest[0])


def _refuse_idle(problem: ProblemType[Any, Any]) -> None:
    """InputError at options that were given, but belong to another choice than the one that was made."""
    context = click.get_current_context()
    for field in option_fields(problem.Options):
        needs = field.option.belongs_to
        if needs is None or context.get_parameter_source(field.name) is not ParameterSource.COMMANDLINE:
            continue
        name, *values = needs
        chosen = context.params[name]
        if chosen not in values:
            flag = name.replace("_", "-")
            rule = f"applies only to --{flag} {' or '.join(values)}, but --{flag} is {chosen}"
            raise fail(problem.Options.command(), field.flag, "", rule)


def _require_out(problem: ProblemType[Any, Any], given: Mapping[str, Any], settings: RunSettings) -> None:
    """InputError at options that write files, without a folder for them."""
    for field in option_fields(problem.Options):
        if field.option.needs_out and given[field.name] and settings.out is None:
            rule = "needs --out DIR, in which its files are written"
            raise fail(problem.Options.command(), field.flag, str(given[field.name]), rule)


def _print(answered: Answer, settings: RunSettings, whole: bool) -> None:
    """The result as JSON alone on stdout and notes on stderr; or for people, with all notes and tables if ``whole``."""
    if settings.json:
        if not settings.quiet:
            for note in answered.view.notes:
                click.echo(note, err=True)
        click.echo(answered.result.to_json(), nl=False)
        return
    if settings.quiet:
        if answered.value is None:  # an exit code without a word would not say what is wrong
            click.echo(answered.view.verdict, err=True)
        return
    print_view(answered.view, "" if answered.value is None else answered.result.problem.name, whole)
    if answered.value is not None and settings.out is not None:
        pictures = set(answered.view.pictures)
        made = [name for name in (*answered.file_names, REPORT_FILE) if (settings.out / name).exists()]
        print_text(f"in {settings.out}: {', '.join(made)}")
        if pictures and not pictures & set(made):
            print_text(f"stopped before the report was drawn; dse report {settings.out} draws it")


def _print_all(problem: ProblemType[Any, Any], answers: dict[str, Answer], settings: RunSettings) -> None:
    """Several answers: their results as one JSON object by value, or as one table."""
    if settings.json:
        results = {value: each.result.model_dump(mode="json", by_alias=True) for value, each in answers.items()}
        click.echo(json.dumps(results, indent=2, allow_nan=False))
    elif not settings.quiet:
        print_side_by_side(problem, answers)
        if settings.out is not None:
            folders = ", ".join(f"{name_of(value)}/" for value in answers)
            print_text(f"in {settings.out}: {folders}")


def print_view(view: View, name: str, whole: bool) -> None:
    """Print the answer first, then its table, then the notes that matter most; all tables and notes if ``whole``."""
    tables, notes = (view.tables, view.notes) if whole else (view.first_tables, view.first_notes)
    print_text(Text.assemble((name, "bold"), f": {view.verdict}") if name else view.verdict)
    for table in tables:
        print_view_table(table)
    for note in notes:
        print_text(note)
    if hidden := [
        counted(number, what)
        for number, what in ((len(view.notes) - len(notes), "note"), (len(view.tables) - len(tables), "table"))
        if number
    ]:
        print_text(Text(f"--notes also shows {' and '.join(hidden)}", style="dim"))


def _leave(result: Result, settings: RunSettings) -> None:
    """Exit with the result's code; say how an interrupted run is continued."""
    if result.status == "interrupted":
        click.echo(f"interrupted; {_continued(settings.out)}", err=True)
    click.get_current_context().exit(result.exit_code)


def _continued(out: Path | None) -> str:
    """How a run that was interrupted is continued; not every method has finished work to keep before it ends."""
    if out is None:
        return "use --out DIR to keep progress"
    if (out / JOURNAL_FILE).stat().st_size:
        return f"continue with --out {out} --resume"
    return f"no finished work to continue from; --out {out} --resume starts again"
