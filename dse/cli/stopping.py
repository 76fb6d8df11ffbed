"""What stops work: the time limit, Ctrl-C, and SIGTERM, which batch systems and containers send."""

import math
import os
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

import click

from dse.cli.exit_codes import EXIT_INTERRUPTED
from dse.run.progress import StopSignal


def began_s() -> float:
    """What time limits count from: when the command line was called, before anything that it needs was imported."""
    context = click.get_current_context(silent=True)
    began: float | None = None if context is None else context.obj
    return time.monotonic() if began is None else began


@contextmanager
def stop_signal(time_limit_s: float | None) -> Iterator[StopSignal]:
    """What tells long work to stop: the time limit from :func:`began_s` on, Ctrl-C or SIGTERM.

    An interrupt must not be raised inside compiled code, which it would crash. So the first signal only asks the work
    to stop after the piece in flight, and the second one ends the program at once.
    """
    deadline_s = math.inf if time_limit_s is None else began_s() + time_limit_s
    interrupts = 0

    def interrupted(_number: int, _frame: FrameType | None) -> None:
        nonlocal interrupts
        interrupts += 1
        if interrupts > 1:
            os._exit(EXIT_INTERRUPTED)
        click.echo("stopping after the work in flight; interrupt again to stop immediately", err=True)

    def stop() -> str | None:
        if interrupts:
            return "interrupted"
        return "time limit" if time.monotonic() > deadline_s else None

    with _signals(interrupted):
        yield stop


@contextmanager
def interruptible() -> Iterator[None]:
    """Where nothing else handles it, SIGTERM raises KeyboardInterrupt, as Ctrl-C does."""
    before = signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


@contextmanager
def _signals(handler: Callable[[int, FrameType | None], Any]) -> Iterator[None]:
    """``handler`` for Ctrl-C and SIGTERM, for the time of the context."""
    before = {number: signal.signal(number, handler) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, earlier in before.items():
            signal.signal(number, earlier)
