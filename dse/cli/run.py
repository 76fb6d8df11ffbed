"""What all solving commands share: their options, the run directory, progress, and how an answer leaves the program."""

import math
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import click
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from dse.cli.executors import executor_of
from dse.cli.exit_codes import EXIT_INTERRUPTED
from dse.cli.methods import upper_document, upper_methods
from dse.problem import ProblemType
from dse.results.session import Session, opened
from dse.run.directory import RunDirectory
from dse.run.executor import Executor
from dse.run.journal import Journal
from dse.run.mirror import Mirror
from dse.run.pace import Pace, duration_text
from dse.run.progress import ProgressCallback, StopSignal, never_stop
from hardware.inputs import fail

Decorated = TypeVar("Decorated", bound=Callable[..., Any])

_PLAIN_LINE_INTERVAL_S = 2.0
_RATE_AFTER_S = 0.5


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
    if value.isdigit():
        return int(value)
    raise click.BadParameter(f"{value}: must be 0, 1, 2, … or auto", context, parameter)


def _seconds(context: click.Context, parameter: click.Parameter, value: float | None) -> float | None:
    if value is None or (math.isfinite(value) and value > 0):
        return value
    raise click.BadParameter(f"{value}: must be a positive number of seconds", context, parameter)


_OPTIONS: Mapping[str, Callable[[Any], Any]] = {
    "json": click.option("--json", is_flag=True, help="Print only the result, as JSON, on stdout."),
    "out": click.option(
        "--out", type=click.Path(path_type=Path), metavar="DIR", help="Save result, journal, tables and report there."
    ),
    "resume": click.option("--resume", is_flag=True, help="Continue the run in --out DIR."),
    "mirror": click.option(
        "--mirror",
        metavar="URI",
        help="Copy --out DIR to URI every minute (s3://, gs://, file://); --resume fetches it.",
    ),
    "seed": click.option(
        "--seed",
        type=click.IntRange(min=0, max=2**63 - 1),
        default=0,
        show_default=True,
        metavar="N",
        help="Seed of all random choices.",
    ),
    "workers": click.option(
        "--workers",
        callback=_workers,
        default="auto",
        show_default=True,
        metavar="N|auto",
        help="Ray workers. 0: in-process, without Ray; auto: in-process if the work is short, else all CPUs.",
    ),
    "address": click.option(
        "--address", metavar="ADDR", help="Address of an existing Ray cluster (default: a private local one)."
    ),
    "item_timeout": click.option(
        "--item-timeout",
        type=float,
        callback=_seconds,
        metavar="S",
        help="Abandon an evaluation after S seconds on a worker, compilation excluded (default: no limit).",
    ),
    "time_limit": click.option(
        "--time-limit",
        type=float,
        callback=_seconds,
        metavar="S",
        help="Stop after S seconds with the best answer so far.",
    ),
    "quiet": click.option("--quiet", is_flag=True, help="Show no progress and no tables."),
    "debug": click.option("--debug", is_flag=True, help="Show tracebacks."),
}

_IN_PROCESS: Mapping[str, Callable[[Any], Any]] = {
    "workers": click.option(
        "--workers",
        callback=_workers,
        default="auto",
        metavar="N|auto",
        help="Has no effect: this command always runs in-process, on one core.",
    ),
    "address": click.option("--address", metavar="ADDR", help="Has no effect, for the same reason."),
    "time_limit": click.option(
        "--time-limit",
        type=float,
        callback=_seconds,
        metavar="S",
        help="Has no effect: the work has a limit of its own, counted in steps.",
    ),
}
"""The common options, for commands on which they have no effect."""


def run_options(function: Decorated) -> Decorated:
    """Add the common options to a command."""
    return _with(function, _OPTIONS)


def in_process_options(function: Decorated) -> Decorated:
    """Add the common options to a command that never uses Ray; help says which have no effect."""
    common = {name: option for name, option in _OPTIONS.items() if name != "item_timeout"}
    return _with(function, {**common, **_IN_PROCESS})


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
        raise fail("dse", "--address", settings.address, "--workers 0 uses no cluster; leave out one of the two")
    return settings


def run_directory_of(
    settings: RunSettings, command: str, arguments: Mapping[str, Any], problem_digest: str
) -> RunDirectory | None:
    """The directory of ``--out``, fetched from its mirror where a run is resumed on another machine."""
    return opened(settings.out, settings.resume, settings.mirror, command, arguments, problem_digest)


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
    )


def stopping(settings: RunSettings, can_be_stopped: bool) -> AbstractContextManager[StopSignal]:
    """What tells the work to stop; short work with nothing to keep ends at once."""
    return stop_signal(settings) if can_be_stopped else ending_at_once()


@contextmanager
def stop_signal(settings: RunSettings) -> Iterator[StopSignal]:
    """What tells long work to stop: the time limit from now, or Ctrl-C.

    An interrupt must not be raised inside compiled code, which it would crash. So the first Ctrl-C only asks the work
    to stop after the piece in flight, and the second one ends the program at once.
    """
    deadline_s = math.inf if settings.time_limit is None else time.monotonic() + settings.time_limit
    interrupts = 0

    def interrupted(_number: int, _frame: object) -> None:
        nonlocal interrupts
        interrupts += 1
        if interrupts > 1:
            os._exit(EXIT_INTERRUPTED)
        click.echo("stopping after the work in flight; Ctrl-C again ends at once", err=True)

    def stop() -> str | None:
        if interrupts:
            return "interrupted"
        return "time limit" if time.monotonic() > deadline_s else None

    before = signal.signal(signal.SIGINT, interrupted)
    try:
        yield stop
    finally:
        signal.signal(signal.SIGINT, before)


@contextmanager
def ending_at_once() -> Iterator[StopSignal]:
    """Short work with nothing to keep: Ctrl-C ends the program at once, also inside compiled code."""

    def interrupted(_number: int, _frame: object) -> None:
        click.echo("interrupted", err=True)
        os._exit(EXIT_INTERRUPTED)

    before = signal.signal(signal.SIGINT, interrupted)
    try:
        yield never_stop
    finally:
        signal.signal(signal.SIGINT, before)


def executor_for(settings: RunSettings, predicted_s: float, journal: Journal | None = None) -> Executor:
    """Where the work of a command runs: :func:`dse.cli.executors.executor_of`."""
    predicted_s = min(predicted_s, settings.time_limit or math.inf)
    return executor_of(
        settings.workers, settings.address, predicted_s, journal, settings.item_timeout, _notice(settings)
    )


def _notice(settings: RunSettings) -> Callable[[str], None]:
    """Says on stderr what people should know while work goes on."""
    return (lambda _text: None) if settings.quiet else (lambda text: click.echo(f"dse: {text}", err=True))


@contextmanager
def progress(settings: RunSettings) -> Iterator[ProgressCallback]:
    """A progress display on stderr: bars with rate and remaining time on a terminal, plain lines elsewhere."""
    if settings.quiet:
        with nullcontext():
            yield lambda _phase, _done, _total: None
        return
    console = Console(stderr=True)
    if not console.is_terminal:
        yield _PlainLines()
        return
    columns = (
        TextColumn("{task.description:<34}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TextColumn("{task.fields[pace]}"),
    )
    with Progress(*columns, console=console, transient=True) as bars:
        tasks: dict[str, Any] = {}
        paces: dict[str, Pace] = {}

        def update(phase: str, done: int, total: int) -> None:
            now_s = time.monotonic()
            pace = paces.setdefault(phase, Pace(now_s))
            pace.update(now_s, done, total)
            if phase not in tasks:
                tasks[phase] = bars.add_task(phase, total=total, pace="")
            text = _pace_text(pace, now_s) if now_s - pace.began_s > _RATE_AFTER_S and total > 1 else ""
            bars.update(tasks[phase], completed=done, total=total, pace=text)

        yield update


class _PlainLines:
    """Progress as plain lines, one every few seconds, for logs and ``ray job submit``."""

    def __init__(self) -> None:
        self._paces: dict[str, Pace] = {}
        self._last_s = 0.0

    def __call__(self, phase: str, done: int, total: int) -> None:
        now_s = time.monotonic()
        pace = self._paces.setdefault(phase, Pace(now_s))
        pace.update(now_s, done, total)
        if done < total and now_s - self._last_s < _PLAIN_LINE_INTERVAL_S:
            return
        if done >= total and now_s - pace.began_s < _PLAIN_LINE_INTERVAL_S:
            return
        self._last_s = now_s
        if total == 1:
            click.echo(f"{phase}{' …' if done < total else ''}", err=True)
            return
        text = _pace_text(pace, now_s)
        click.echo(f"{phase}: {done:,} of {total:,}{f' ({text})' if text else ''}", err=True)


def _pace_text(pace: Pace, now_s: float) -> str:
    """The rate, and the remaining time where it can be estimated."""
    left_s = pace.left_s(now_s)
    left = "" if left_s is None else f"about {duration_text(left_s)} left"
    return ", ".join(text for text in (pace.rate(now_s), left) if text)


@contextmanager
def said_if_slow(text: str, quiet: bool, after_s: float = 1.0) -> Iterator[None]:
    """Say on stderr what is being done where it takes more than a second and cannot tell how far it is."""
    timer = threading.Timer(after_s, lambda: click.echo(f"{text} …", err=True))
    timer.daemon = True
    if not quiet:
        timer.start()
    try:
        yield
    finally:
        timer.cancel()
