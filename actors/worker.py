"""The process at the other end of a map: one function, applied to what it is given (:mod:`actors.windowed_map`)."""

import pickle
import time
import traceback
from collections.abc import Callable, Sequence
from typing import Any

import ray

import dse
from actors.in_band import InBand
from dse.run.executor import Failed, applied


class Worker:
    """Holds one function at a time and applies it.

    Every call brings a reference to the function inside a list, which the driver keeps alive, so that a worker that was
    restarted finds it again; an argument of the constructor could be lost before that.
    """

    def __init__(self) -> None:
        self._function: Callable[[Any], Any] | None = None
        self._reference: Any = None

    def up(self) -> None:
        """Answer, once the process has started."""

    def ready(self, reference: list[Any]) -> str:
        """The version of the program here, once the process has started and read its function."""
        function: Callable[[Any], Any] = ray.get(reference[0])
        self._function, self._reference = function, reference[0]
        return dse.__version__

    def apply(self, reference: list[Any], items: Sequence[Any]) -> tuple[InBand, float]:
        """(outcome of every item, seconds of work)."""
        if self._function is None or reference[0] != self._reference:
            self.ready(reference)
        assert self._function is not None
        started = time.perf_counter()
        outcomes = [sendable(applied(self._function, item)) for item in items]
        return InBand(outcomes), time.perf_counter() - started


def sendable(outcome: Any) -> Any:
    """An outcome that the driver can read: an exception brings its traceback along, or stays behind with its reason."""
    if not isinstance(outcome, Failed) or outcome.error is None:
        return outcome
    outcome.error.add_note("".join(traceback.format_exception(outcome.error)))
    try:
        pickle.loads(pickle.dumps(outcome))
    except Exception:
        # An exception of somebody else's code can raise anything where it is pickled or rebuilt.
        return Failed(outcome.reason)
    return outcome
