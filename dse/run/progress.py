"""How long work tells how far it is, and how it is told to stop."""

from collections.abc import Callable

ProgressCallback = Callable[[str, int, int], None]
"""Called as (phase, done, total): the phase's name for people, items done, items in all."""


def silent(_phase: str, _done: int, _total: int) -> None:
    """The callback that shows nothing."""


StopSignal = Callable[[], str | None]
"""Asked between pieces of work: why to stop now (``time limit``, ``interrupted``), or None to go on."""


class StoppedError(Exception):
    """Work was told to stop; the message says why."""


def ask(stop: StopSignal) -> None:
    """Go on, unless ``stop`` gives a reason not to.

    Raises:
        StoppedError: it does.
    """
    reason = stop()
    if reason is not None:
        raise StoppedError(reason)


def never_stop() -> None:
    """The signal of work that is never stopped."""
    return
