"""How long work tells how far it is."""

from collections.abc import Callable

ProgressCallback = Callable[[str, int, int], None]
"""Called as (phase, done, total): the phase's name for people, items done, items in all."""


def silent(_phase: str, _done: int, _total: int) -> None:
    """The callback that shows nothing."""
