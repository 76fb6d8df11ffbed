"""What all solving commands share: their options, the run directory, and where work runs."""

import math
from collections.abc import Callable, Iterable, Mapping
from contextlib import AbstractContextManager, nullcontext, suppress
from dataclasses import dataclass
from functools import partial, wraps
from pathlib import Path
from types import MappingProxyType
from typing import Any, TypeVar, cast

import click
from click.core import ParameterSource

from dse.cli.executors import executor_of
from dse.cli.help import FIRST, RUN, GroupedOption
from dse.cli.methods import upper_document, upper_methods
from dse.cli.number_types import AnyDecimalNumber, WholeNumber
from dse.cli.progress import said_if_slow
from dse.cli.stopping import began_s
from dse.problem import ProblemType
from dse.results.session import Session, opened
from dse.run.directory import RunDirectory
from dse.run.executor import Executor
from dse.run.journal import Journal
from dse.run.mirror import Mirror
from dse.run.progress import Notice, ProgressCallback, StopSignal, silent_notice
from hardware.inputs import fail
from hardware.number_text import whole_number_of

Decorated = TypeVar("Decorated", bound=Callable[..., Any])


@dataclass(frozen=True)
class RunSettings:
    """The options that every solving command takes (``--help`` of any of them says what they mean).

    The last two are not offered by all of them.
    """

    json: bool
    out: Path | None
    resume: bool
    seed: int
    workers: int | None
    address: str | None
    time_limit: float | None
    quiet: bool
    debug: bool
    mirror: str | None = None
    item_timeout: float | None = None


def _workers(context: click.Context, parameter: click.Parameter, value: str) -> int | None:
    if value == "auto":
        return None
    with suppress(ValueError):
        if (workers := whole_number_of(value)) >= 0:
            return workers
    raise click.BadParameter(f"{value}: must be 0, 1, 2, … or auto", context, parameter)


def _seconds(context: click.Context, parameter: click.Parameter, value: float | None) -> float | None:
    if value is None or (math.isfinite(value) and value > 0):
        return value
    raise click.BadParameter(f"{value}: must be a positive number of seconds", context, parameter)


def _option(group: str, *names: str, **attributes: Any) -> Callable[[Any], Any]:
    return click.option(*names, cls=GroupedOption, group=group, **attributes)


_OPTIONS: Mapping[str, Callable[[Any], Any]] = {
    "json": _option(FIRST, "--json", is_flag=True, help="Print only the result, as JSON, on stdout."),
    "out": _option(
        FIRST,
        "--out",
        type=click.Path(path_type=Path),
        metavar="DIR",
        help="Save result, journal, tables and report in DIR.",
    ),
    "resume": _option(RUN, "--resume", is_flag=True, help="Continue the run in --out DIR."),
    "mirror": _option(
        RUN,
        "--mirror",
        metavar="URI",
        help="Copy --out DIR to URI every minute (s3://, gs://, file://); --resume restores it.",
    ),
    "seed": _option(
        RUN,
        "--seed",
        type=WholeNumber(min=0, max=2**63 - 1),
        default=0,
        show_default=True,
        metavar="N",
        help="Seed of all random choices.",
    ),
    "workers": _option(
        RUN,
        "--workers",
        callback=_workers,
        default="auto",
        show_default=True,
        metavar="N|auto",
        help=(
            "Number of Ray workers. 0: in-process, without Ray; auto: in-process if the work is short, else one per "
            "CPU."
        ),
    ),
    "address": _option(
        RUN, "--address", metavar="ADDR", help="Address of an existing Ray cluster (default: a private local one)."
    ),
    "item_timeout": _option(
        RUN,
        "--item-timeout",
        type=AnyDecimalNumber(),
        callback=_seconds,
        metavar="S",
        help="Abandon an evaluation after S seconds on a worker, compilation excluded (default: no limit).",
    ),
    "time_limit": _option(
        FIRST,
        "--time-limit",
        type=AnyDecimalNumber(),
        callback=_seconds,
        metavar="S",
        help="Stop S seconds after the command starts, with the best answer so far.",
    ),
    "quiet": _option(RUN, "--quiet", is_flag=True, help="Show no progress and no tables."),
    "debug": _option(RUN, "--debug", is_flag=True, help="Show tracebacks."),
}

_IN_PROCESS: Mapping[str, Callable[[Any], Any]] = {
    "resume": _option(
        RUN,
        "--resume",
        is_flag=True,
        help="Return the answer of the finished run in --out DIR; a stopped run starts over.",
    ),
    "workers": _option(
        RUN,
        "--workers",
        callback=_workers,
        default="auto",
        metavar="N|auto",
        help="Has no effect: this command always runs in-process, on one core.",
    ),
    "address": _option(RUN, "--address", metavar="ADDR", help="Has no effect: this command uses no Ray cluster."),
}
"""The common options, for commands on which they have no effect, or less than on others."""


def run_options(function: Decorated) -> Decorated:
    """Add the common options to a command."""
    return _with(function, _OPTIONS)


def in_process_options(function: Decorated, has_journal: bool = False) -> Decorated:
    """Add the common options to a command that never uses Ray; help and a note say which have no effect."""
    common = {name: option for name, option in _OPTIONS.items() if name != "item_timeout"}
    idle = {name: option for name, option in _IN_PROCESS.items() if name != "resume" or not has_journal}

    @wraps(function)
    def noting(*arguments: Any, **options: Any) -> Any:
        _note_idle([name for name in idle if name != "resume"], options)
        return function(*arguments, **options)

    return _with(cast(Decorated, noting), {**common, **idle})


def _note_idle(names: Iterable[str], options: Mapping[str, Any]) -> None:
    """Say on stderr which of the options have no effect, though they were given."""
    context = click.get_current_context()
    for name in names:
        is_given = context.get_parameter_source(name) is ParameterSource.COMMANDLINE
        if is_given and options[name] not in (None, 0) and not options["quiet"]:
            reason = "this command runs in one process"
            click.echo(f"{context.command_path}: --{name} {options[name]} has no effect: {reason}", err=True)


def unmirrored_options(function: Decorated) -> Decorated:
    """Add the common options to a command that copies nothing to another place."""
    return _with(function, {name: option for name, option in _OPTIONS.items() if name != "mirror"})


def _with(function: Decorated, options: Mapping[str, Callable[[Any], Any]]) -> Decorated:
    for option in reversed([*options.values()]):
        function = option(function)
    return function


def settings_from(options: dict[str, Any]) -> RunSettings:
    """Take the common options out of ``options``, a command's keyword arguments.

    Raises:
        InputError: two of them contradict each other.
    """
    names = [name for name in RunSettings.__dataclass_fields__ if name in options]
    settings = RunSettings(**{name: options.pop(name) for name in names})
    if settings.address is not None and settings.workers == 0:
        raise fail(
            "dse", "--address", settings.address, "conflicts with --workers 0, which uses no cluster; omit one of them"
        )
    return settings


def run_directory_of(
    settings: RunSettings,
    command: str,
    arguments: Mapping[str, Any],
    problem_digest: str,
    inputs: Mapping[str, str | None] = MappingProxyType({}),
) -> RunDirectory | None:
    """The directory of ``--out``, fetched from its mirror where a run is resumed on another machine."""
    return opened(settings.out, settings.resume, settings.mirror, command, arguments, problem_digest, inputs)


def mirrored(settings: RunSettings) -> AbstractContextManager[Any]:
    """Copies the run directory while it is being written, with ``--mirror``."""
    if settings.out is None or settings.mirror is None:
        return nullcontext()
    return Mirror(settings.out, settings.mirror, _notice(settings))


def session_of(
    settings: RunSettings, problem: ProblemType[Any, Any], report: ProgressCallback, stop: StopSignal
) -> Session:
    """How the run is made: the common options, with the workers and methods of the floors above the engine."""
    return Session(
        out=settings.out,
        resume=settings.resume,
        mirror=settings.mirror,
        seed=settings.seed,
        time_limit_s=math.inf if settings.time_limit is None else settings.time_limit,
        item_timeout_s=settings.item_timeout,
        progress=report,
        stop=stop,
        notice=_notice(settings),
        announce=partial(said_if_slow, quiet=settings.quiet),
        executor=partial(executor_for, settings),
        methods=partial(upper_methods, problem.name),
        document=partial(upper_document, problem.name),
        began_s=began_s(),
    )


def executor_for(
    settings: RunSettings,
    predicted_s: float,
    journal: Journal | None = None,
    extra_cpus: int = 0,
    extra_gpus: int = 0,
) -> Executor:
    """Where the work of a command runs: :func:`dse.cli.executors.executor_of`."""
    predicted_s = min(predicted_s, settings.time_limit or math.inf)
    where, notice = (settings.workers, settings.address), _notice(settings)
    return executor_of(*where, predicted_s, journal, settings.item_timeout, notice, extra_cpus, extra_gpus)


def _notice(settings: RunSettings) -> Notice:
    """Shows messages on stderr while work goes on."""
    return silent_notice if settings.quiet else (lambda text: click.echo(f"dse: {text}", err=True))
