"""Progress on stderr: bars on a terminal, plain lines elsewhere."""

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import click
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from dse.run.pace import Pace, duration_text
from dse.run.progress import ProgressCallback, silent

_PLAIN_LINE_INTERVAL_S = 2.0
_RATE_AFTER_S = 0.5
_WIDE = 130


@contextmanager
def progress(quiet: bool) -> Iterator[ProgressCallback]:
    """A progress display on stderr: bars with rate and remaining time on a terminal, plain lines elsewhere."""
    if quiet:
        yield silent
        return
    console = Console(stderr=True)
    if not console.is_terminal:
        yield _PlainLines()
        return
    is_wide = console.width >= _WIDE  # a narrow terminal has no room for bars beside the numbers
    columns = (
        TextColumn("{task.description:<34}" if is_wide else "{task.description}", markup=False),
        *([BarColumn()] if is_wide else []),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TextColumn("{task.fields[pace]}", markup=False),
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
    """Say on stderr what is being done, for work without progress that takes more than a second."""
    timer = threading.Timer(after_s, lambda: click.echo(f"{text} …", err=True))
    timer.daemon = True
    if not quiet:
        timer.start()
    try:
        yield
    finally:
        timer.cancel()
