"""``dse partition``: operators of a model over the chips of a multi-chip module."""

import json
from collections.abc import Mapping
from contextlib import nullcontext
from pathlib import Path
from typing import Any, get_args

import click
from rich.markup import escape

from dse.cli.run import executor_for, progress, run, run_options, settings_from, stop_signal
from dse.cli.terminal import console, print_table
from dse.graph.trace import Granularity
from dse.partition.answer import answer
from dse.partition.constraints.sampler import SolverMode
from dse.partition.evaluators.simulator import SimulatorEvaluator
from dse.partition.formats import partition_from_document
from dse.partition.methods import ALL, METHODS, SOLVER_MODES, Method, methods_of
from dse.partition.options import DEFAULT_PACKAGE, EvaluatorName, PartitionOptions, Question, question_of
from dse.partition.problem import ObjectiveName
from dse.partition.report import report
from dse.partition.samples import sample_log
from dse.partition.tables import (
    CHIP_HEADERS,
    METHOD_HEADERS,
    about,
    chip_rows,
    method_rows,
    notes,
    nothing_found,
    verdict,
)
from dse.results.result import Result, digest
from dse.run.directory import REPORT_FILE, RESULT_FILE, RunDirectory, journal_of
from hardware.inputs import fail
from policies.partition.methods import is_installed, learned_methods, weights_digest

PIPELINE_TRACE_FILE = "pipeline.trace.json"

_WORK_S = {"portfolio": 20.0, "dp": 5.0, "cp-sat": 2.0, "lns": 8.0}
"""What methods take on one core, about; sampling takes less."""


@click.command("partition")
@click.argument("source", metavar="GRAPH")
@click.option("--package", metavar="SPEC", help=f"Package spec, a name of `dse specs` or a file [{DEFAULT_PACKAGE}].")
@click.option("--chips", type=int, metavar="N", help="Chips of a package without a spec, for graphs with latencies.")
@click.option("--link-bytes-per-s", type=float, metavar="X", help="Bandwidth of its links [20e9].")
@click.option(
    "--method",
    default="portfolio",
    show_default=True,
    metavar="NAME[,NAME…]",
    help=f"{', '.join(METHODS)}, rl; several are shown beside each other, `{ALL}` all of them.",
)
@click.option("--checkpoint", metavar="DIR", help="Weights that `rl` begins with: of `dse pretrain`, or a checkpoint.")
@click.option("--samples", type=click.IntRange(1, 10**8), default=600, show_default=True, help="Of sampling methods.")
@click.option(
    "--solver-mode",
    type=click.Choice(get_args(SolverMode)),
    help=f"How {', '.join(SOLVER_MODES)} draw: from distributions, or near candidates [what each does as a rule].",
)
@click.option(
    "--emit-samples",
    type=click.Path(path_type=Path, dir_okay=False),
    metavar="FILE",
    help="Write every distinct valid partition that was evaluated, as JSON lines.",
)
@click.option("--evaluator", type=click.Choice(get_args(EvaluatorName)), default="analytical", show_default=True)
@click.option("--objective", type=click.Choice(get_args(ObjectiveName)), default="throughput", show_default=True)
@click.option("--microbatch", type=click.IntRange(1, 10**6), help="Samples of one input, of an imported model [1].")
@click.option("--sequence", type=click.IntRange(1, 10**7), help="Tokens a sample, for models that let one choose.")
@click.option("--granularity", type=click.Choice(get_args(Granularity)), help="What an operator is [operator].")
@run_options
def command(**options: Any) -> None:
    """Partition GRAPH over a ring of chips, so that inputs follow each other as fast as can be, and bound that.

    GRAPH is a name from `dse models`, a YAML file of hyper-parameters, FILE.py:FUNCTION that returns a PyTorch module
    and example inputs, an ONNX file, a config.json of transformers, or a graph (dse.graph/1; docs/formats.md).
    """
    settings, samples = settings_from(options), options.pop("emit_samples")
    chosen = PartitionOptions(**options)
    known = _known(chosen)
    methods = methods_of(chosen.method, chosen.solver_mode, known)
    if chosen.checkpoint is not None and "rl" not in methods:
        raise fail("dse partition", "--checkpoint", chosen.checkpoint, "belongs to --method rl")
    if samples is not None and settings.resume:
        raise fail("dse partition", "--emit-samples", str(samples), "what an earlier run evaluated is not kept")
    question = question_of(chosen)

    def solve(directory: RunDirectory | None) -> Result:
        logged = nullcontext() if samples is None else sample_log(samples, question.problem)
        keeping = journal_of(directory)
        with keeping as journal, progress(settings) as report, stop_signal(settings) as stop, logged as log:
            executor = executor_for(settings, sum(_WORK_S.get(name, 0.5) for name in methods))
            result = answer(chosen, executor, report, stop, settings.seed, question, known, log, journal)
        if settings.json and not settings.quiet and result.objective.value is not None:
            for line in notes(result):
                click.echo(line, err=True)
        return result

    run(
        settings,
        "partition",
        chosen.document(),
        digest([question.problem.document(), None if chosen.checkpoint is None else weights_digest(chosen.checkpoint)]),
        solve,
        lambda result: _show(result, settings.out),
        lambda directory, result: _keep(directory, question, result),
    )


def _known(options: PartitionOptions) -> Mapping[str, Method]:
    """All methods; where the extra ``learn`` is not installed, `all` means those that are."""
    learned = learned_methods(None if options.checkpoint is None else Path(options.checkpoint))
    return METHODS if options.method == ALL and not is_installed() else {**METHODS, **learned}


def _keep(directory: RunDirectory, question: Question, result: Result) -> None:
    """The report and, for a package that can be simulated, what chips and links do in time (Perfetto)."""
    chip = partition_from_document(question.problem, result.solution, RESULT_FILE)
    directory.write_text(REPORT_FILE, report(question.problem, result, chip))
    if question.package is not None:
        simulator = SimulatorEvaluator(question.problem, question.package)
        directory.write_text(PIPELINE_TRACE_FILE, json.dumps(simulator.trace(chip)))


def _show(result: Result, out: Path | None) -> None:
    screen = console()
    if result.objective.value is None:
        screen.print(nothing_found(result), soft_wrap=True, markup=False)
    else:
        screen.print(f"[bold]{escape(result.problem.name)}[/bold]: {verdict(result)}", soft_wrap=True)
        for line in (about(result), *notes(result)):
            screen.print(line, soft_wrap=True, markup=False)
        print_table(CHIP_HEADERS, chip_rows(result))
    if "methods" in result.metrics:
        print_table(METHOD_HEADERS, method_rows(result), title="methods")
    if out is not None and (out / REPORT_FILE).exists():
        screen.print(f"report: {out / REPORT_FILE}", soft_wrap=True)
