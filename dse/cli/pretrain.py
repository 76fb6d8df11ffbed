"""``dse pretrain``: a policy trained over many graphs and the best of its checkpoints, or a sweep over its learning."""

import json
import math
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any, Literal, get_args

import click

from dse.cli import EXIT_INTERRUPTED
from dse.cli.run import (
    RunSettings,
    executor_for,
    mirrored,
    progress,
    run_directory_of,
    run_options,
    settings_from,
    stop_signal,
)
from dse.cli.terminal import console, print_table
from dse.partition.options import EvaluatorName
from dse.results.result import digest
from dse.run.directory import JOURNAL_FILE, RunDirectory, write_text
from dse.run.executor import InProcessExecutor
from dse.run.journal import Journal
from dse.run.progress import ProgressCallback, StoppedError, StopSignal
from hardware.inputs import fail
from policies.partition.methods import ask_for_extra
from policies.partition.settings import MOST_REPEATED

if TYPE_CHECKING:
    from actors.ray_executor import RayExecutor
    from policies.partition.pretraining import PretrainingPlan, ScoreName
    from policies.partition.pretraining_run import PretrainingRun
    from policies.partition.sweep import ChoiceSummary, SweepRun

_CHOICES = ("fine_tuned", "zero_shot", "both")
_FORMS = ("refine", "prior", "plain", "paper")

_WORK_S = 600.0
"""Of the default plan on one core, about."""

_SHOWN = 5

_SWEEP_FILE = "sweep.json"


@dataclass(frozen=True)
class _Budget:
    """Samples of training, checkpoints, and samples and seeds of a validation graph, where the user does not say."""

    samples: int
    checkpoints: int
    validation_samples: int
    validation_seeds: int = 1


_BUDGET, _OF_A_TRIAL = _Budget(20_000, 200, 50), _Budget(1_000, 2, 60)
"""Of a run, and of a trial in a sweep. A trial that learns from 20 rollouts at a time is fine-tuned by two updates."""

_SWEPT: Mapping[str, tuple[float, ...]] = {
    "rollouts": (10, 20),
    "minibatches": (1, 4),
    "epochs": (4, 10),
    "learning_rate": (1e-3, 2e-3),
}
"""What a sweep tries where the user names nothing."""


def _numbers(
    kind: Callable[[str], float], most: float = math.inf
) -> Callable[[click.Context, click.Parameter, str | None], Any]:
    """A callback for positive numbers up to ``most`` with commas between them."""

    def read(context: click.Context, parameter: click.Parameter, text: str | None) -> tuple[float, ...]:
        try:
            found = () if text is None else tuple(kind(part) for part in text.split(","))
        except ValueError:
            found = (math.nan,)
        if not all(math.isfinite(value) and 0 < value <= most for value in found):
            what = "whole numbers" if kind is int else "numbers"
            limit = f", at most {most:g}" if math.isfinite(most) else ""
            rule = f"{text}: must be positive {what} with commas between them{limit}"
            raise click.BadParameter(rule, context, parameter)
        return found

    return read


@click.command("pretrain")
@click.argument("problem", type=click.Choice(["partition"]))
@click.option(
    "--samples",
    type=click.IntRange(1, 10**9),
    help=f"Of training, in all [{_BUDGET.samples}], or of each trial of a sweep [{_OF_A_TRIAL.samples}].",
)
@click.option(
    "--checkpoints",
    type=click.IntRange(1, 10**6),
    help=f"Made and scored [{_BUDGET.checkpoints}; of a trial {_OF_A_TRIAL.checkpoints}; one an update at most].",
)
@click.option(
    "--package",
    "packages",
    multiple=True,
    metavar="SPEC",
    help="Trained and scored on; may be given several times [mcm-36].",
)
@click.option(
    "--form",
    type=click.Choice(_FORMS),
    default="refine",
    show_default=True,
    help="What is learned: to change the best partition known; to correct a prior; from nothing; as in the paper.",
)
@click.option("--evaluator", type=click.Choice(get_args(EvaluatorName)), default="analytical", show_default=True)
@click.option(
    "--validation-samples",
    type=click.IntRange(1, 10**6),
    help="Candidates of a validation graph, for each of the two scores "
    f"[{_BUDGET.validation_samples}; of a trial {_OF_A_TRIAL.validation_samples}].",
)
@click.option(
    "--validation-seeds",
    type=click.IntRange(1, 1000),
    help=f"How often each is made; one says little where checkpoints are nearly as good [{_BUDGET.validation_seeds}].",
)
@click.option("--choose-by", type=click.Choice(_CHOICES), default="fine_tuned", show_default=True)
@click.option(
    "--rollouts", callback=_numbers(int, MOST_REPEATED), metavar="N[,N…]", help="Of a graph, learned from together."
)
@click.option(
    "--minibatches", callback=_numbers(int, MOST_REPEATED), metavar="N[,N…]", help="That the rollouts are divided into."
)
@click.option(
    "--epochs", callback=_numbers(int, MOST_REPEATED), metavar="N[,N…]", help="How often they are learned from."
)
@click.option("--learning-rate", callback=_numbers(float, most=1.0), metavar="X[,X…]", help="Adam's.")
@click.option(
    "--sweep",
    "seeds",
    type=click.IntRange(1, 1000),
    metavar="SEEDS",
    help="Try all combinations of the four above, each with so many seeds, and print what they reach.",
)
@run_options
def command(
    problem: str, choose_by: Literal["fine_tuned", "zero_shot", "both"], seeds: int | None, **options: Any
) -> None:
    """Pretrain the policy of PROBLEM and keep its best checkpoint in --out DIR/best.

    partition: a network that assigns operators to chips learns on 66 graphs of the catalogue; every checkpoint is
    scored on 5 others as it is and fine-tuned, while training goes on (with --workers 2 or more). Then
    `dse partition GRAPH --method rl --checkpoint DIR`. Needs the extra `learn`.

    With --sweep SEEDS: short trials of how it learns instead, the paper's choice of rollouts, minibatches and epochs
    (20, 4, 10) and the default among them.
    """
    settings = settings_from(options)
    ask_for_extra("dse pretrain", "PROBLEM", problem)
    if settings.out is None:
        raise fail("dse pretrain", "--out", "", "needs the directory of the run: --out DIR")
    learning = {name: options.pop(name) for name in _SWEPT}
    if seeds is not None:
        _sweep(settings, problem, _plan(settings, _OF_A_TRIAL, {}, **options), learning, seeds, choose_by)
    else:
        _pretrain(settings, problem, _plan(settings, _BUDGET, learning, **options), choose_by)


def _pretrain(settings: RunSettings, problem: str, plan: "PretrainingPlan", choose_by: "ScoreName") -> None:
    """One run of pretraining, and its best checkpoint."""
    from actors import pretraining
    from policies.partition import pretraining_run

    directory = _directory(settings, {"problem": problem, **plan.document()}, plan.identity)
    with mirrored(settings), Journal(directory.path / JOURNAL_FILE) as journal:
        run = pretraining_run.PretrainingRun(directory.path, journal, plan)
        here, on_ray = partial(pretraining_run.pretrain, run), partial(pretraining.pretrain, run)
        stopped = _worked(settings, plan.samples, here, on_ray)
        if run.scores():
            best = run.choose(choose_by)
            _show(settings, run, best.number, stopped)
    _end(settings, stopped, answered=bool(run.scores()))


def _sweep(
    settings: RunSettings,
    problem: str,
    plan: "PretrainingPlan",
    learning: Mapping[str, tuple[float, ...]],
    seeds: int,
    choose_by: "ScoreName",
) -> None:
    """Trials of every choice, and a table of what they reach."""
    from actors import learning_sweep
    from policies.partition import sweep

    asked = sweep.SweepPlan.over(plan, learning if any(learning.values()) else _SWEPT, seeds)
    for choice in asked.choices:
        _ask_for_enough(asked.plan_of(sweep.Trial(choice, settings.seed)), f"a trial of {choice.rollouts} rollouts")
    directory = _directory(settings, {"problem": problem, **asked.document()}, asked.identity)
    with mirrored(settings), Journal(directory.path / JOURNAL_FILE):
        run = sweep.SweepRun(directory.path, asked)
        samples = plan.samples * len(run.unfinished())
        stopped = _worked(settings, samples, partial(sweep.sweep, run), partial(learning_sweep.sweep, run))
        found = run.summaries(choose_by)
        document = {"chosen_by": choose_by, "stopped": stopped, "choices": [summary.document() for summary in found]}
        write_text(directory.path / _SWEEP_FILE, json.dumps(document, indent=2) + "\n")
        if settings.json:
            click.echo(json.dumps(document))
        elif found and not settings.quiet:
            _show_choices(run, found)
    _end(settings, stopped, answered=bool(found))


def _directory(settings: RunSettings, arguments: Mapping[str, Any], identity: Mapping[str, Any]) -> RunDirectory:
    directory = run_directory_of(settings, "pretrain", arguments, digest(identity))
    assert directory is not None
    return directory


def _end(settings: RunSettings, stopped: str | None, *, answered: bool) -> None:
    """Say how to go on where work was stopped, and leave with the code of what was found."""
    if stopped is not None and not settings.quiet:
        click.echo(f"{stopped}; continue with --out {settings.out} --resume", err=True)
    sys.exit(EXIT_INTERRUPTED if stopped == "interrupted" else 0 if answered else 3)


def _plan(
    settings: RunSettings,
    budget: _Budget,
    learning: Mapping[str, tuple[float, ...]],
    *,
    form: str,
    evaluator: EvaluatorName,
    packages: tuple[str, ...],
    **asked: int | None,
) -> "PretrainingPlan":
    """The plan that the options ask for."""
    from policies.partition.pretraining import PretrainingPlan
    from policies.partition.settings import FORMS

    for name, values in learning.items():
        if len(values) > 1:
            option = f"--{name.replace('_', '-')}"
            raise fail("dse pretrain", option, ",".join(map(str, values)), "one value, or several with --sweep SEEDS")
    given: dict[str, Any] = {name: values[0] for name, values in learning.items() if values}
    sizes: dict[str, Any] = {name: getattr(budget, name) if value is None else value for name, value in asked.items()}
    learning_settings = replace(FORMS[form], **given)
    most = sizes["samples"] // (learning_settings.rollouts * learning_settings.graphs)
    if asked["checkpoints"] is None:
        sizes["checkpoints"] = max(1, min(budget.checkpoints, most))
    plan = PretrainingPlan(
        learning_settings,
        # The same package twice would be graphs of the same name.
        packages=tuple(dict.fromkeys(packages)) or ("mcm-36",),
        evaluator=evaluator,
        seed=settings.seed,
        **sizes,
    )
    _ask_for_enough(plan, form)
    return plan


def _ask_for_enough(plan: "PretrainingPlan", learner: str) -> None:
    """Refuse budgets that updates cannot have; ``learner`` for people.

    Raises:
        InputError: there are too few samples for one update, too many checkpoints, or nothing to fine-tune with.
    """
    group = plan.settings.rollouts * plan.settings.graphs
    at_a_time = f"{learner} learns from {group} samples at a time"
    if plan.samples < group:
        raise fail("dse pretrain", "--samples", str(plan.samples), f"{at_a_time}, so at least so many")
    most = plan.samples // group
    if plan.checkpoints > most:
        rule = f"{at_a_time}, so at most {most} with {plan.samples:,} samples"
        raise fail("dse pretrain", "--checkpoints", str(plan.checkpoints), rule)
    least = plan.least_validation_samples
    if plan.validation_samples < least:
        rule = f"with fewer than {least}, {learner} learns nothing on a validation graph"
        raise fail("dse pretrain", "--validation-samples", str(plan.validation_samples), rule)


def _worked(
    settings: RunSettings,
    samples: int,
    here: Callable[[ProgressCallback, StopSignal], None],
    on_ray: Callable[["RayExecutor", ProgressCallback, StopSignal], None],
) -> str | None:
    """Work of so many samples, in this process or on Ray; why it was stopped, None if it was not."""
    with (
        progress(settings) as report,
        stop_signal(settings) as stop,
        executor_for(settings, _WORK_S * samples / _BUDGET.samples) as executor,
    ):
        try:
            if isinstance(executor, InProcessExecutor):
                here(report, stop)
            else:
                from actors.ray_executor import RayExecutor

                assert isinstance(executor, RayExecutor)
                on_ray(executor, report, stop)
        except StoppedError as reason:
            return str(reason)
    return None


def _show(settings: RunSettings, run: "PretrainingRun", best: int, stopped: str | None) -> None:
    scores = run.scores()
    if settings.json:
        document = {"best": best, "stopped": stopped, "scores": [score.document() for score in scores]}
        click.echo(json.dumps(document))
        return
    if settings.quiet:
        return
    ordered = sorted(scores, key=lambda score: -score.mean("fine_tuned"))[:_SHOWN]
    if best not in [score.number for score in ordered]:
        ordered.append(next(score for score in scores if score.number == best))
    rows = [
        (
            f"{score.number}{' (chosen)' if score.number == best else ''}",
            f"{score.samples:,}",
            *(f"{score.mean(name):.4f}" for name in ("zero_shot", "fine_tuned")),
        )
        for score in ordered
    ]
    print_table(("checkpoint", "samples", "zero-shot", "fine-tuned"), rows, title="throughput over the simple bound's")
    screen = console()
    scored = "1 checkpoint" if len(scores) == 1 else f"{len(scores):,} checkpoints"
    screen.print(f"{scored} scored; {run.folder / 'best'}", soft_wrap=True)
    left_out = run.left_out()
    if left_out:
        screen.print(
            f"left out of validation, as nothing that was tried can run: {', '.join(left_out)}", soft_wrap=True
        )


def _show_choices(run: "SweepRun", found: "list[ChoiceSummary]") -> None:
    """A row for each choice, the best first; scores as mean ± deviation over the seeds."""
    from policies.partition.sweep import LearningChoice

    own = LearningChoice.of(run.plan.plan.settings)
    rows = []
    for summary in found:
        choice = summary.choice
        whose = [name for name, is_so in (("paper", choice.is_papers), ("default", choice == own)) if is_so]
        scores = []
        names: tuple[ScoreName, ...] = ("zero_shot", "fine_tuned")
        for name in names:
            spread = f" ± {summary.deviation(name):.4f}" if run.plan.seeds > 1 else ""
            scores.append(f"{summary.mean(name):.4f}{spread}")
        sizes = map(str, (choice.rollouts, choice.minibatches, choice.epochs, choice.learning_rate))
        rows.append((*sizes, " = ".join(whose), f"{summary.steps:,}", *scores, str(len(summary.fine_tuned))))
    head = ("rollouts", "minibatches", "epochs", "rate", "", "steps", "zero-shot", "fine-tuned", "seeds")
    plan = run.plan.plan
    title = f"throughput over the simple bound's after {plan.samples:,} samples, {len(plan.validation)} graphs"
    print_table(head, rows, title=title)
    console().print(f"steps: of the optimiser; {run.folder / _SWEEP_FILE}", soft_wrap=True)
