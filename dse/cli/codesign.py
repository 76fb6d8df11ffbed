"""``dse codesign``: the best accelerator and placement for a training job, proven."""

from pathlib import Path
from typing import Any, get_args

import click

from dse.cli.run import executor_for, progress, run, run_options, settings_from, stop_signal
from dse.cli.terminal import console, print_table
from dse.codesign.answer import solve
from dse.codesign.formats import JournalledEvaluations, problem_document
from dse.codesign.objective import Mean, Per
from dse.codesign.options import CodesignOptions, Search, predicted_seconds
from dse.codesign.problem import PipelineSchedule, SearchOutcome
from dse.codesign.report import keep
from dse.codesign.table import answer_rows, comparison, verdict
from dse.result import Result, digest
from dse.run_directory import REPORT_FILE, RunDirectory, journal_of


@click.command("codesign")
@click.argument("models", nargs=-1, required=True, metavar="MODEL…")
@click.option("--accelerators", type=click.IntRange(1, 10**7), default=1024, show_default=True)
@click.option("--global-batch", type=click.IntRange(1, 10**9), default=4096, show_default=True, help="Samples a batch.")
@click.option("--microbatch", default="1,2,4,8", show_default=True, metavar="N,…", help="Sizes to choose from.")
@click.option("--hbm-gb", metavar="GB,…", help="Sizes to choose from (default: 32,64,80; with --fixed its own).")
@click.option(
    "--tensor-parallel",
    default="1,2,4,8",
    show_default=True,
    metavar="N,…",
    help="Widths to choose from, where the model has them.",
)
@click.option("--area-budget", default="tpuv4", show_default=True, metavar="SPEC|MM2", help="Largest die.")
@click.option("--fixed", metavar="SPEC", help="Plan for this accelerator: search no architectures.")
@click.option("--search", type=click.Choice(get_args(Search)), default="exhaustive", show_default=True)
@click.option("--hysteresis", type=click.IntRange(1, 10**6), default=6, show_default=True, help="Its level.")
@click.option("--samples", type=click.IntRange(1, 10**6), default=200, show_default=True, help="Bayesian trials.")
@click.option("--network", metavar="SPEC", help="Network spec (default: the accelerator's or the cost model's own).")
@click.option("--objective", type=click.Choice(get_args(Per)), default="throughput", show_default=True)
@click.option("--mean", type=click.Choice(get_args(Mean)), default="geometric", show_default=True, help="Over models.")
@click.option("--weights", metavar="W,…", help="Weights of the models in the mean (default: equal).")
@click.option("--cost-model", type=click.Choice(["consistent", "phaze-2024"]), default="consistent", show_default=True)
@click.option(
    "--pipeline-schedule",
    type=click.Choice(get_args(PipelineSchedule)),
    default="1f1b",
    show_default=True,
    help="How microbatches pass a pipeline.",
)
@click.option("--sequence", type=click.IntRange(1, 10**7), help="Tokens a sample, for a config.json of transformers.")
@run_options
def command(**options: Any) -> None:
    """Find and prove the best accelerator and placement for training each MODEL.

    MODEL is a name from `dse models`, a YAML file of hyper-parameters (docs/example-model.yaml), FILE.py:FUNCTION that
    returns a PyTorch module and example inputs, a config.json of transformers, or an ONNX file. Several models share
    one accelerator.
    """
    settings = settings_from(options)
    chosen = CodesignOptions(**options)
    problem = chosen.problem()
    machines = problem.machines()
    seen: list[SearchOutcome] = []

    def answer(directory: RunDirectory | None) -> Result:
        with journal_of(directory) as journal, progress(settings) as report, stop_signal(settings) as stop:
            store = None if journal is None else JournalledEvaluations(journal, problem, machines)
            executor = executor_for(settings, predicted_seconds(problem, machines))
            result, outcome = solve(chosen, executor, store, report, stop, settings.seed)
        seen.append(outcome)
        return result

    run(
        settings,
        "codesign",
        chosen.document(),
        digest(problem_document(problem)),
        answer,
        lambda result: _show(result, settings.out),
        lambda directory, result: keep(directory, machines, result, seen[0]),
    )


def _show(result: Result, out: Path | None) -> None:
    screen = console()
    screen.print(f"[bold]{result.problem.name}[/bold]: {verdict(result)}", soft_wrap=True)
    if "architecture" in result.solution:
        print_table(("", ""), answer_rows(result))
        if result.metrics["baselines"]:
            print_table(*comparison(result))
    if out is not None and (out / REPORT_FILE).exists():
        screen.print(f"report: {out / REPORT_FILE}", soft_wrap=True)
