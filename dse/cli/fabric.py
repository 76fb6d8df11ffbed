"""``dse fabric train`` and ``dse fabric evaluate``: the learned cost model of placements."""

import json
import sys
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import click

from dse.cli.exit_codes import EXIT_INTERRUPTED
from dse.cli.help import GroupedCommand
from dse.cli.problem_command import parameter_of
from dse.cli.progress import progress
from dse.cli.run import executor_for, in_process_options, mirrored, run_directory_of, run_options, settings_from
from dse.cli.stopping import stop_signal
from dse.cli.terminal import print_table, print_text
from dse.results.result import digest
from dse.run.directory import journal_of
from dse.run.options import option_fields
from dse.run.progress import StoppedError
from hardware.inputs import fail
from policies.fabric.options import FabricEvaluation, FabricTraining, ask_for_extra

if TYPE_CHECKING:
    from policies.fabric.study.accuracy import Accuracy
    from policies.fabric.study.study import Row

_HEAD = ("RE", "placer RE", "rho", "placer rho", "within graphs")


def _command(
    name: str,
    kind: type[FabricTraining | FabricEvaluation],
    examples: Sequence[str],
    run: Callable[..., None],
    common: Any,
) -> click.Command:
    decorated = common(run)
    for field in reversed(option_fields(kind)):
        decorated = parameter_of(field)(decorated)
    return click.command(name, cls=GroupedCommand, help=kind.description, examples=examples)(decorated)


def _train(**given: Any) -> None:
    settings = settings_from(given)
    options = FabricTraining(**given)
    ask_for_extra(options)
    if settings.out is None:
        raise fail(options.command(), "--out", "", "must be given: --out DIR, the run directory")
    options.require_inputs()
    from policies.fabric.train import inputs_of, train

    arguments = options.run_document() | {"seed": settings.seed}
    inputs = inputs_of(options)
    run_directory_of(settings, options.COMMAND, arguments, digest(list(inputs.values())), inputs)
    with (
        mirrored(settings),
        progress(settings.quiet) as report,
        stop_signal(settings.time_limit) as stop,
        executor_for(settings, options.predicted_s()) as executor,
    ):
        try:
            trained = train(options, settings.out, settings.seed, executor, report, stop)
        except StoppedError as reason:
            _stopped(str(reason), f"continue with --out {settings.out} --resume", settings.quiet)
    if settings.json:
        click.echo(json.dumps(trained.document()))
    elif not settings.quiet:
        assert trained.placing is not None
        print_text(trained.placing.verdict)
        rows = [(name, *_figures(each)) for name, each in trained.validation.items()]
        graphs = next(iter(trained.validation.values())).placements
        print_table(("model", *_HEAD), rows, title=f"{graphs:,} placements of held-out graphs")
        print_text(f"trained on {trained.placements:,} placements of {trained.graphs:,} graphs")
        print_text(f"in {settings.out}: best")


def _evaluate(**given: Any) -> None:
    settings = settings_from(given)
    options = FabricEvaluation(**given)
    ask_for_extra(options)
    from policies.fabric.evaluate import evaluate, inputs_of, row_document

    arguments = options.run_document() | {"seed": settings.seed}
    inputs = inputs_of(options)
    directory = run_directory_of(settings, options.COMMAND, arguments, digest(list(inputs.values())), inputs)
    with (
        mirrored(settings),
        journal_of(directory) as journal,
        progress(settings.quiet) as report,
        stop_signal(settings.time_limit) as stop,
    ):
        try:
            rows = evaluate(options, settings.seed, stop, journal, report)
        except StoppedError as reason:
            rest = f"continue with --out {settings.out} --resume" if journal is not None else "no progress is saved"
            _stopped(str(reason), rest, settings.quiet)
        document = json.dumps([row_document(row) for row in rows])
        if directory:
            directory.write("evaluation.json", f"{document}\n")
    if settings.json:
        click.echo(document)
    elif not settings.quiet:
        _print_tables(rows)


def _stopped(reason: str, rest: str, quiet: bool) -> None:
    if not quiet:
        click.echo(f"{reason}; {rest}", err=True)
    sys.exit(EXIT_INTERRUPTED if reason == "interrupted" else 3)


def _print_tables(rows: Sequence["Row"]) -> None:
    print_text(_verdict(rows))
    for title in dict.fromkeys(row.table for row in rows):
        own = [row for row in rows if row.table == title]
        cells = [
            (row.model, row.part, *_figures(row.accuracy, row.ranks_only), _ratio(row), f"{row.accuracy.placements:,}")
            for row in own
        ]
        print_table(("model", "part", *_HEAD, "RE ratio", "placements"), cells, title=title)
    print_text(
        "RE ratio: relative error divided by that of the best baseline, with a 90 % interval over graphs. If a kind is "
        "left out or annotations are missing, the divisor is the same model in folds by graph with annotations; for "
        "another version, it is the retrained model. If a kind is left out, models are trained on all other kinds, "
        "otherwise on the other folds, so the numbers of training graphs differ."
    )


def _verdict(rows: Sequence["Row"]) -> str:
    """The model with the least error in the first table that has one."""
    judged = [row for row in rows if not row.ranks_only and row.accuracy.error is not None and not row.part]
    if not judged:
        return "no model has a relative error on graphs that it was not trained on"
    first = [row for row in judged if row.table == judged[0].table]
    best = min(first, key=lambda row: row.accuracy.error)
    return f"{best.model} is the most accurate: mean relative error {best.accuracy.error:.4f} ({best.table})"


def _figures(accuracy: "Accuracy", ranks_only: bool = False) -> tuple[str, ...]:
    errors = (None, None) if ranks_only else (accuracy.error, accuracy.placer_error)
    ranks = (accuracy.correlation, accuracy.placer_correlation, accuracy.within)
    return tuple("" if value is None else f"{value:.4f}" for value in (*errors, *ranks))


def _ratio(row: "Row") -> str:
    return "" if row.ratio is None else f"{row.ratio.value:.3f} [{row.ratio.low:.3f}, {row.ratio.high:.3f}]"


def _in_process(function: Callable[..., None]) -> Callable[..., None]:
    return in_process_options(function, has_journal=True)


_TRAINING_EXAMPLES = (
    "dse fabric train --out runs/trained",
    "dse fabric train --fabric sn10 --graphs 200 --out runs/sn10 --workers 8",
    "dse fabric train --out runs/trained --resume",
)
_EVALUATION_EXAMPLES = (
    "dse fabric evaluate runs/trained --out runs/tables",
    "dse fabric evaluate runs/trained --table main --table left-out",
    "dse fabric evaluate runs/trained --model ridge --model trees",
)

train_command = _command("train", FabricTraining, _TRAINING_EXAMPLES, _train, run_options)
evaluate_command = _command("evaluate", FabricEvaluation, _EVALUATION_EXAMPLES, _evaluate, _in_process)
