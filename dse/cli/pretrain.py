"""``dse pretrain``: a learner trained over many environments and the best of its checkpoints, or a sweep over how it
learns.
"""

import json
import math
import sys
from collections.abc import Callable, Mapping
from dataclasses import fields
from functools import partial
from typing import TYPE_CHECKING, Any, Literal, get_args, get_origin, get_type_hints

import click

from actors.before_ray import expect_private_ray
from dse.cli.exit_codes import EXIT_INTERRUPTED
from dse.cli.help import GroupedCommand, GroupedOption
from dse.cli.number_types import AnyWholeNumber, WholeNumber
from dse.cli.problem_command import print_view
from dse.cli.progress import progress
from dse.cli.run import (
    RunSettings,
    executor_for,
    mirrored,
    run_directory_of,
    run_options,
    settings_from,
)
from dse.cli.stopping import stop_signal
from dse.cli.terminal import print_table, print_text
from dse.report.units import counted
from dse.results.result import digest
from dse.run.directory import REPORT_FILE, RunDirectory, write_text
from dse.run.executor import InProcessExecutor
from dse.run.options import Option
from dse.run.progress import ProgressCallback, StoppedError, StopSignal
from hardware.inputs import choose, fail
from hardware.number_text import number_of, whole_number_of
from policies.learners import LEARNERS
from policies.learning import COMMAND
from policies.learning.actors import NO_ACTORS, TrainingActors
from policies.learning.options import PretrainingOptions, check_gpus

if TYPE_CHECKING:
    from actors.ray_executor import RayExecutor
    from policies.learning.pretraining_run import PretrainingRun
    from policies.learning.scores import Score
    from policies.learning.sweep import SweepRun

_ON_CLUSTER = "--out runs/policy --address auto --workers 8"


class _Learners(click.Group):
    """A command for each learner, made of its options when it is called."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(LEARNERS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        learner = LEARNERS.get(cmd_name)
        return None if learner is None else _command(cmd_name, learner.load())

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if not args[0].startswith("-"):
            choose(COMMAND, "PROBLEM", args[0], LEARNERS, "learner")
        if not any(argument.startswith("--address") for argument in args):
            # A learner imports RLlib, and so Ray.
            expect_private_ray()
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Problems"):
            formatter.write_dl([(name, learner.summary) for name, learner in LEARNERS.items()])


@click.group("pretrain", cls=_Learners, subcommand_metavar="PROBLEM [OPTIONS]")
def command() -> None:
    """Train the policy of PROBLEM on many environments and save its best checkpoint in --out DIR/best."""


def _command(name: str, kind: type[PretrainingOptions]) -> click.Command:
    """The command of one learner."""

    def run(**given: Any) -> None:
        settings = settings_from(given)
        options = kind(**given)
        options.require_extra()
        if settings.out is None:
            raise fail(COMMAND, "--out", "", "must be given: --out DIR, the run directory")
        (_pretrain if options.sweep is None else _sweep)(settings, name, options)

    decorated = run_options(run)
    hints, defaults = get_type_hints(kind, include_extras=True), {field.name: field.default for field in fields(kind)}
    # In the order of the learner's own class; the dataclass has the fields of its base first.
    for field in reversed([field for field in kind.__annotations__ if field in defaults]):
        annotated, option = get_args(hints[field])
        decorated = _option(field, annotated, option, defaults[field])(decorated)
    examples = [f"{COMMAND} {name} {rest}" for rest in ("--out runs/policy", "--out runs/policy --resume", _ON_CLUSTER)]
    return click.command(name, cls=GroupedCommand, help=kind.description, examples=examples)(decorated)


def _option(name: str, kind: Any, option: Option, default: Any) -> Callable[[Any], Any]:
    """The option of one field."""
    given: dict[str, Any] = {"help": option.help, "metavar": option.metavar}
    if get_origin(kind) is tuple:
        item = get_args(kind)[0]
        if get_origin(item) is Literal:
            given |= {"type": click.Choice(get_args(item))}
        is_several = item is str or get_origin(item) is Literal
        given |= {"multiple": True} if is_several else {"callback": _numbers(item, option.max)}
    elif kind is bool:
        given = {"help": option.help, "is_flag": True}
    elif get_origin(kind) is Literal:
        given |= {"type": click.Choice(get_args(kind)), "default": default, "show_default": True}
    elif str in get_args(kind):
        given |= {"default": default}
    else:
        low, high = (None if limit is None else int(limit) for limit in (option.min, option.max))
        kind = AnyWholeNumber() if low is high is None else WholeNumber(low, high)
        given |= {"type": kind, "default": default, "metavar": option.metavar or "N"}
    return click.option(f"--{name.replace('_', '-')}", name, cls=GroupedOption, group=option.group, **given)


def _numbers(kind: type[float], limit: float | None) -> Callable[[click.Context, click.Parameter, str | None], Any]:
    """A callback for positive numbers up to ``limit``, separated by commas."""
    read_number = whole_number_of if kind is int else number_of

    def read(context: click.Context, parameter: click.Parameter, text: str | None) -> tuple[float, ...]:
        try:
            values = () if text is None else tuple(read_number(part) for part in text.split(","))
        except ValueError:
            values = (math.nan,)
        if not all(math.isfinite(value) and 0 < value <= (limit or math.inf) for value in values):
            what = "whole numbers" if kind is int else "numbers"
            largest = "" if limit is None else f", at most {limit:g}"
            rule = f"{text}: must be positive {what} separated by commas{largest}"
            raise click.BadParameter(rule, context, parameter)
        return values

    return read


def _pretrain(settings: RunSettings, name: str, options: PretrainingOptions) -> None:
    """One run of pretraining, and its best checkpoint."""
    from actors import pretraining
    from policies.learning.pretraining_run import PretrainingRun, pretrain

    plan = options.plan(settings.seed)
    _check(settings, plan.actors)
    directory = _directory(settings, {"problem": name, **plan.document()}, plan.identity)
    with mirrored(settings), PretrainingRun(directory.path, plan) as run:
        on_ray = partial(pretraining.pretrain, run)
        work_s, here = options.predicted_s(plan.samples), partial(pretrain, run)
        stopped = _worked(settings, work_s, here, on_ray, plan.actors)
        scores = run.scores()
        if scores:
            _show(settings, run, options.choose_by, run.choose(options.choose_by), stopped)
    _end(settings, stopped, answered=bool(scores))


def _check(settings: RunSettings, actors: TrainingActors) -> None:
    """Refuse actors that this run cannot have.

    Raises:
        InputError: it uses no Ray, or its own machine has too few GPUs.
    """
    if actors != NO_ACTORS and settings.workers == 0:
        raise fail(COMMAND, "--workers", "0", "disables Ray, but runners and learners are Ray actors; omit --workers 0")
    if actors.gpus and settings.address is None:
        check_gpus(actors.learners)


def _sweep(settings: RunSettings, name: str, options: PretrainingOptions) -> None:
    """Trials of every choice, and a table of their scores."""
    from actors import learning_sweep
    from policies.learning.sweep import SweepRun, sweep

    plan = options.sweep_plan(settings.seed)
    directory = _directory(settings, {"problem": name, **plan.document()}, plan.identity)
    with mirrored(settings), SweepRun(directory.path, plan) as run:
        work_s = options.predicted_s(plan.plan.samples * len(run.unfinished()))
        stopped = _worked(settings, work_s, partial(sweep, run), partial(learning_sweep.sweep, run))
        document = run.write_summaries(options.choose_by, stopped)
        if settings.json:
            click.echo(json.dumps(document))
        elif document["choices"] and not settings.quiet:
            _show_choices(run, options.choose_by)
    _end(settings, stopped, answered=bool(document["choices"]))


def _directory(settings: RunSettings, arguments: Mapping[str, Any], identity: Mapping[str, Any]) -> RunDirectory:
    directory = run_directory_of(settings, "pretrain", arguments, digest(identity))
    assert directory is not None
    return directory


def _end(settings: RunSettings, stopped: str | None, *, answered: bool) -> None:
    """Say how to go on where work was stopped, and exit."""
    if stopped is not None and not settings.quiet:
        click.echo(f"{stopped}; continue with --out {settings.out} --resume", err=True)
    sys.exit(EXIT_INTERRUPTED if stopped == "interrupted" else 0 if answered else 3)


def _worked(
    settings: RunSettings,
    work_s: float,
    here: Callable[[ProgressCallback, StopSignal], None],
    on_ray: Callable[["RayExecutor", ProgressCallback, StopSignal], None],
    actors: TrainingActors = NO_ACTORS,
) -> str | None:
    """Work of about so many seconds, in this process or on Ray; why it was stopped, None if it was not."""
    with (
        progress(settings.quiet) as report,
        stop_signal(settings.time_limit) as stop,
        executor_for(settings, work_s, None, actors.cpus, actors.learners if actors.gpus else 0) as executor,
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


def _show(settings: RunSettings, run: "PretrainingRun", criterion: str, best: "Score", stopped: str | None) -> None:
    """Write the page of the run, and print its best checkpoints by the criterion, the chosen one marked."""
    from dse.report.render import page
    from dse.run.versions import versions
    from policies.learning.report import view_of

    view = view_of(run, criterion, best)
    footer = ", ".join(f"{name} {version}" for name, version in versions().items())
    write_text(run.folder / REPORT_FILE, page(view, f"seed {settings.seed} · {footer}"))
    if settings.json:
        document = {
            "best": best.number,
            "stopped": stopped,
            "scores": [score.document() for score in run.scores()],
        }
        click.echo(json.dumps(document))
    elif not settings.quiet:
        print_view(view, "", whole=True)
        print_text(f"in {run.folder}: best, {REPORT_FILE}")


def _show_choices(run: "SweepRun", criterion: str) -> None:
    """A row for each choice, the best first; scores as mean ± deviation over the seeds."""
    from policies.learning.sweep import SWEEP_FILE

    summaries, plan = run.summaries(criterion), run.plan.plan
    names = list(summaries[0].scores)
    rows = []
    for summary in summaries:
        scores = [
            f"{summary.mean(name):.4f}" + (f" ± {summary.deviation(name):.4f}" if run.plan.seeds > 1 else "")
            for name in names
        ]
        labels = " = ".join(run.plan.labels(summary.choice))
        values = map(str, summary.choice.values.values())
        rows.append((*values, labels, f"{summary.steps:,}", *scores, str(summary.trials)))
    settings_names = (name.replace("_", " ") for name in plan.task.swept)
    head = (*settings_names, "", "optimizer steps", *map(_hyphenated, names), "seeds")
    title = f"{plan.task.score_title} after {plan.samples:,} samples, {len(plan.task.validation_names)} environments"
    best = summaries[0]
    chosen = ", ".join(f"{name.replace('_', ' ')} {value}" for name, value in best.choice.values.items())
    scored = ", ".join(f"{_hyphenated(name)} {best.mean(name):.4f}" for name in names)
    print_text(f"best of {counted(len(summaries), 'choice')}, by {_hyphenated(criterion)}: {chosen}; {scored}")
    print_table(head, rows, title=title)
    print_text(f"in {run.folder}: {SWEEP_FILE}")


def _hyphenated(name: str) -> str:
    return name.replace("_", "-")
