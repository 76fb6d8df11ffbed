"""``dse fabric tune``: weights of the placer's rules and its schedule, tuned on training graphs with the simulator."""

import json
import sys
from dataclasses import asdict
from typing import Any

import click

from dse.cli.exit_codes import EXIT_INTERRUPTED
from dse.cli.help import GroupedCommand
from dse.cli.problem_command import parameter_of
from dse.cli.progress import progress
from dse.cli.run import RunSettings, executor_for, mirrored, run_directory_of, run_options, settings_from
from dse.cli.stopping import stop_signal
from dse.cli.terminal import print_table, print_text
from dse.fabric.setting import TunedSetting
from dse.fabric.tuning.judge import plan_digest
from dse.fabric.tuning.options import TuningOptions
from dse.fabric.tuning.plan import TuningPlan
from dse.fabric.tuning.tuning import Tuning, tune
from dse.run.directory import RunDirectory, journal_of
from dse.run.executor import InProcessExecutor
from dse.run.options import option_fields
from dse.run.progress import StoppedError
from hardware.documents import yaml_of
from hardware.inputs import fail

_EXAMPLES = (
    "dse fabric tune --out runs/tuned",
    "dse fabric tune --fabric sn10 --out runs/sn10 --workers 8",
    "dse fabric tune --simulations 500 --graphs 16 --out runs/short",
)

SETTING_FILE = "tuned.yaml"

_SIMULATION_S = 0.25
"""CPU seconds of annealing and simulating once, about."""


def _tune(**given: Any) -> None:
    settings = settings_from(given)
    options = TuningOptions(**given)
    if settings.out is None:
        raise fail("dse fabric tune", "--out", "", "must be given: --out DIR, the run directory")
    plan = options.plan(settings.seed)
    directory = run_directory_of(settings, "fabric tune", asdict(plan), plan_digest(plan))
    assert directory is not None
    with mirrored(settings):
        tuned = _tuned(settings, plan, directory)
    document = tuned.model_dump(mode="json", by_alias=True)
    directory.write(SETTING_FILE, yaml_of(document, sort_keys=False))
    if settings.json:
        click.echo(json.dumps(document))
    elif not settings.quiet:
        _show(tuned)
        print_text(f"in {directory.path}: {SETTING_FILE}")


def _tuned(settings: RunSettings, plan: TuningPlan, directory: RunDirectory) -> TunedSetting:
    """The result; leaves where the work was stopped."""
    with (
        journal_of(directory) as journal,
        progress(settings.quiet) as report,
        stop_signal(settings.time_limit) as stop,
        executor_for(settings, _SIMULATION_S * plan.simulations) as executor,
    ):
        assert journal is not None
        try:
            if isinstance(executor, InProcessExecutor):
                return tune(Tuning(plan, journal), report, stop)
            from actors.ray_executor import RayExecutor
            from actors.rule_tuning import tune_rules

            assert isinstance(executor, RayExecutor)
            return tune_rules(Tuning(plan, journal, executor.workers), executor, report, stop)
        except StoppedError as reason:
            if not settings.quiet:
                click.echo(f"{reason}; continue with --out {settings.out} --resume", err=True)
            sys.exit(EXIT_INTERRUPTED if str(reason) == "interrupted" else 3)


def _show(tuned: TunedSetting) -> None:
    """The setting, and what it is worth on the graphs that it was tuned on."""
    print_text(
        f"{tuned.share_of_bound:.1%} of the bound on {tuned.graphs} training graphs "
        f"({tuned.mixture_share_of_bound:.1%} with the untuned mixture), after {tuned.simulations:,} simulations"
    )
    setting = tuned.setting.model_dump()
    rows = [*setting.pop("weights").items(), *setting.items()]
    print_table(("", "tuned"), [(name.replace("_", " "), f"{value:.4g}") for name, value in rows])


def _command() -> click.Command:
    decorated = run_options(_tune)
    for field in reversed(option_fields(TuningOptions)):
        decorated = parameter_of(field)(decorated)
    text = (
        "Tune the rule weights and the annealing schedule of the placer on random training graphs.\n\n"
        "The objective is simulated throughput as a share of its upper bound, so the result shows how close to the "
        "bound placements come without a learned model. Pass DIR/tuned.yaml to `dse fabric place GRAPH --tuned FILE`."
    )
    return click.command("tune", cls=GroupedCommand, help=text, examples=_EXAMPLES)(decorated)


command = _command()
