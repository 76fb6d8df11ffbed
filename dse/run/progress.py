"""How long work reports its progress, and how it is stopped."""

from collections.abc import Callable

ProgressCallback = Callable[[str, int, int], None]
"""Called as (phase, done, total): the phase's name for people, items done, items in all."""


def silent(_phase: str, _done: int, _total: int) -> None:
    """The callback that shows nothing."""


Notice = Callable[[str], None]
"""Called with a message for the user while work goes on."""


def silent_notice(_text: str) -> None:
    """The notice that shows nothing."""


StopSignal = Callable[[], str | None]
"""Called between pieces of work: why to stop now (``time limit``, ``interrupted``), or None to go on."""


class StoppedError(Exception):
    """Work was stopped; the message says why."""


def ask(stop: StopSignal) -> None:
    """Return if the work is to go on.

    Raises:
        StoppedError: ``stop`` gave a reason.
    """
    reason = stop()
    if reason is not None:
        raise StoppedError(reason)


def never_stop() -> None:
    """The signal of work that is never stopped."""
    return
