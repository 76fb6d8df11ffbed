"""What stops work: the time limit and Ctrl-C."""

import math
import os
import signal
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager

import click

from dse.cli.exit_codes import EXIT_INTERRUPTED
from dse.run.progress import StopSignal, never_stop


def stopping(time_limit_s: float | None, can_be_stopped: bool) -> AbstractContextManager[StopSignal]:
    """What tells the work to stop; short work with nothing to keep ends at once."""
    return stop_signal(time_limit_s) if can_be_stopped else ending_at_once()


@contextmanager
def stop_signal(time_limit_s: float | None) -> Iterator[StopSignal]:
    """What tells long work to stop: the time limit from now, or Ctrl-C.

    An interrupt must not be raised inside compiled code, which it would crash. So the first Ctrl-C only asks the work
    to stop after the piece in flight, and the second one ends the program at once.
    """
    deadline_s = math.inf if time_limit_s is None else time.monotonic() + time_limit_s
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
