"""``dse codesign``: the best accelerator and placement for a training job, proven."""

from functools import partial
from pathlib import Path
from typing import Any, get_args

import click
from click.core import ParameterSource

from dse.cli.run import executor_for, progress, run, run_options, settings_from, stop_signal
from dse.cli.terminal import console, print_table
from dse.codesign.answer import SearchFunction, solve
from dse.codesign.formats import JournalledEvaluations, problem_document
from dse.codesign.objective import Mean, Per
from dse.codesign.options import CodesignOptions, Rule, Search, predicted_seconds
from dse.codesign.problem import CodesignProblem, SearchOutcome
from dse.codesign.proven import ProvenOptima
from dse.codesign.report.report import further_sentences, keep
from dse.codesign.report.table import answer_rows, comparison, verdict
from dse.codesign.search import exhaustive, sweep
from dse.codesign.search.hysteresis import RULES, AreaWalk, least_architectures
from dse.placement.problem import PipelineSchedule
from dse.results.result import Result, digest
from dse.run.directory import REPORT_FILE, TUNE_FOLDER, RunDirectory, journal_of
from dse.run.executor import Executor, InProcessExecutor
from hardware.inputs import fail
from hardware.machines import Machines


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
@click.option("--area-budget", metavar="SPEC|MM2", help="Largest die (default: that of tpuv4-phaze, 278.8 mm²).")
@click.option("--fixed", metavar="SPEC", help="Plan for this accelerator: search no architectures.")
@click.option(
    "--search",
    type=click.Choice(get_args(Search)),
    default="exhaustive",
    show_default=True,
    help="Proven; the paper's walk from the largest area; or Optuna's TPE (its answer may depend on --workers).",
)
@click.option(
    "--hysteresis",
    type=click.IntRange(1, 10**6),
    default=6,
    show_default=True,
    metavar="LEVEL",
    help="Area groups that must only decrease before the hysteresis search stops.",
)
@click.option(
    "--hysteresis-rule",
    type=click.Choice(get_args(Rule)),
    default="decreasing",
    show_default=True,
    help="The paper's rule, or as many groups without a new best.",
)
@click.option(
    "--samples",
    type=click.IntRange(1, 10**6),
    default=200,
    show_default=True,
    help="Architectures that the bayesian search evaluates.",
)
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
@click.option("--pareto", is_flag=True, help="Add the proven front of throughput, area and power.")
@click.option("--sensitivity", is_flag=True, help="Add what would change the answer: limits, takeovers, regret.")
@run_options
def command(**options: Any) -> None:
    """Find and prove the best accelerator and placement for training each MODEL.

    MODEL is a name from `dse models`, a YAML file of hyper-parameters (docs/example-model.yaml), FILE.py:FUNCTION that
    returns a PyTorch module and example inputs, a config.json of transformers, or an ONNX file. Several models share
    one accelerator.
    """
    settings = settings_from(options)
    _refuse_idle_options(options["search"])
    chosen = CodesignOptions(**options)
    problem = chosen.problem()
    machines = problem.machines()
    seen: list[SearchOutcome] = []

    def answer(directory: RunDirectory | None) -> Result:
        with journal_of(directory) as journal, progress(settings) as report, stop_signal(settings) as stop:
            store = None if journal is None else JournalledEvaluations(journal, problem, machines)
            executor = executor_for(settings, _predicted_s(chosen, problem, machines), journal)
            search = _search(chosen, machines, executor, settings.seed, directory)
            result, outcome = solve(
                chosen, executor, store, report, stop, settings.seed, search, ProvenOptima(), journal
            )
        seen.append(outcome)
        return result

    run(
        settings,
        "codesign",
        chosen.document(),
        digest(problem_document(problem)),
        answer,
        lambda result: _show(result, settings.out),
        lambda directory, result: keep(directory, problem, result, seen[0]),
    )


def _predicted_s(options: CodesignOptions, problem: CodesignProblem, machines: Machines) -> float:
    """What the chosen search is predicted to take on one core."""
    if options.search == "exhaustive":
        return predicted_seconds(problem, machines)
    if options.search == "hysteresis":
        return sweep.predicted_seconds(problem, least_architectures(machines, options.hysteresis))
    return sweep.predicted_seconds(problem, options.samples)


def _refuse_idle_options(search: str) -> None:
    """InputError at options that were given for another search than the one asked for."""
    given = click.get_current_context().get_parameter_source
    for name, needs in (("hysteresis", "hysteresis"), ("hysteresis_rule", "hysteresis"), ("samples", "bayesian")):
        if search != needs and given(name) is ParameterSource.COMMANDLINE:
            option = "--" + name.replace("_", "-")
            raise fail("dse codesign", option, "", f"belongs to --search {needs}, but --search is {search}")


def _search(
    options: CodesignOptions, machines: Machines, executor: Executor, seed: int, directory: RunDirectory | None
) -> SearchFunction:
    """The search that the options name: in this process, or driven by Tune where there are workers."""
    if options.search == "exhaustive":
        return exhaustive.search
    alone = isinstance(executor, InProcessExecutor)
    proposer: sweep.Proposer
    if options.search == "hysteresis":
        proposer = AreaWalk(machines.area_mm2, RULES[options.hysteresis_rule](options.hysteresis))
    else:
        from dse.codesign.search.bayesian import ArchitectureStudy

        proposer = ArchitectureStudy(machines, options.samples, seed, executor.workers)
    if alone:
        return partial(sweep.search, proposer=proposer)
    from actors import tune_sweep

    logs = None if directory is None else directory.path / TUNE_FOLDER
    return partial(tune_sweep.search, proposer=proposer, logs=logs)


def _show(result: Result, out: Path | None) -> None:
    screen = console()
    screen.print(f"[bold]{result.problem.name}[/bold]: {verdict(result)}", soft_wrap=True)
    if "architecture" in result.solution:
        print_table(("", ""), answer_rows(result))
        if result.metrics["baselines"]:
            print_table(*comparison(result))
        for sentence in further_sentences(result):
            screen.print(sentence, soft_wrap=True)
    if out is not None and (out / REPORT_FILE).exists():
        screen.print(f"report: {out / REPORT_FILE}", soft_wrap=True)
