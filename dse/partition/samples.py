"""``--emit-samples``: every distinct valid partition that a search has priced, as JSON lines.

A line is what a result has for its solution and value: ``{"chip": {operator: chip, …}, "throughput_per_s": x}``.
:class:`RecordedEvaluator` records what an evaluator prices, on whatever worker; :class:`RecordingExecutor` returns that
with the value of each item, and the log writes those that are new, once the independent checker has passed it.
"""

import hashlib
import json
import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Any, Protocol, TypeVar, cast

import numpy as np

from dse.partition.check import violations
from dse.partition.formats import partition_document
from dse.partition.problem import Chips, Floats, PartitionProblem
from dse.partition.search.context import Evaluator
from dse.results.result import FailedCheckError
from dse.run.executor import Arrived, Executor, Failed, ignore
from dse.run.progress import StopSignal, never_stop
from hardware.inputs import fail

Item = TypeVar("Item")
Value = TypeVar("Value")

Priced = tuple[Chips, Floats]
"""Partitions and their costs, [B, N] and [B]."""


class PriceRecorder(Protocol):
    """Receives what a :class:`RecordedEvaluator` prices."""

    def add(self, chips: Chips, costs: Floats) -> None:
        """``chips`` [B, N] cost ``costs`` [B]."""
        ...


class SampleLog:
    """Writes partitions that can run to a file, each once, in the order in which they arrive."""

    def __init__(self, file: IO[str], path: Path, problem: PartitionProblem) -> None:
        self._file, self._path, self._problem = file, path, problem
        self._key = "throughput_per_s" if problem.objective == "throughput" else "latency_s"
        self._seen: set[bytes] = set()

    def add(self, chips: Chips, costs: Floats) -> None:
        """Write those of ``chips`` [B, N] that are new and whose cost [B] is finite.

        Raises:
            FailedCheckError: one of them is not valid.
            InputError: they cannot be written.
        """
        for chip, cost_s in zip(chips, costs.tolist(), strict=True):
            digest = hashlib.blake2b(chip.tobytes(), digest_size=16).digest()
            if not np.isfinite(cost_s) or digest in self._seen:
                continue
            self._seen.add(digest)
            where = tuple(chip.tolist())
            broken = violations(self._problem, where)
            if broken:
                raise FailedCheckError("; ".join(broken))
            value = cost_s if self._problem.objective == "latency" else 1 / cost_s
            line = partition_document(self._problem, where) | {self._key: value}
            with _writing(self._path):
                self._file.write(json.dumps(line) + "\n")


@contextmanager
def sample_log(path: Path, problem: PartitionProblem) -> Iterator[SampleLog]:
    """A log that is ``path`` once the search has ended, however it did; until then it has a temporary name there.

    Raises:
        InputError: it cannot be written.
    """
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        with _writing(path):
            path.parent.mkdir(parents=True, exist_ok=True)
            file = temporary.open("w", encoding="utf-8")
        with file:
            yield SampleLog(file, path, problem)
        with _writing(path):
            temporary.replace(path)
    finally:
        with suppress(OSError):
            temporary.unlink(missing_ok=True)


@contextmanager
def _writing(path: Path) -> Iterator[None]:
    """A full disk, or a folder that cannot be written to, as bad input."""
    try:
        yield
    except OSError as error:
        raise fail("dse partition", "--emit-samples", str(path), f"cannot be written: {error.strerror}") from error


class SampleRecorder:
    """Passes what is priced to a log; in another process, where the log is not, it collects it until :meth:`taken`."""

    def __init__(self, log: SampleLog | None = None) -> None:
        self._log = log
        self._priced: list[Priced] = []

    def __reduce__(self) -> tuple[type["SampleRecorder"], tuple[()]]:
        return SampleRecorder, ()

    def add(self, chips: Chips, costs: Floats) -> None:
        """These were priced."""
        if self._log is not None:
            self._log.add(chips, costs)
        else:
            self._priced.append((chips.copy(), costs))

    def taken(self) -> list[Priced]:
        """What was priced since the last call, without a log."""
        priced, self._priced = self._priced, []
        return priced


class RecordedEvaluator:
    """Another evaluator, whose prices a recorder receives; in all else it is that evaluator.

    Args:
        evaluator: what partitions are priced by.
        recorder: receives every partition that is priced, in that order.
    """

    def __init__(self, evaluator: Evaluator, recorder: PriceRecorder) -> None:
        self._evaluator, self._recorder = evaluator, recorder

    @property
    def is_reference(self) -> bool:
        """As the evaluator's own."""
        return self._evaluator.is_reference

    def costs(self, chips: Chips) -> Floats:
        """As the evaluator's own, recorded."""
        costs_s = self._evaluator.costs(chips)
        self._recorder.add(np.asarray(chips, dtype=np.int8), costs_s)
        return costs_s

    def busy_s(self, chips: Chips) -> Floats:
        """As the evaluator's own."""
        return self._evaluator.busy_s(chips)


class _Reporting:
    """A mapped function that returns what was recorded in addition to its value.

    It is pickled as a whole, so on a worker its recorder is the one of the function's evaluator there.
    """

    def __init__(self, function: Callable[[Any], Any], recorder: SampleRecorder) -> None:
        self.function, self.recorder = function, recorder

    def __call__(self, item: Any) -> tuple[Any, list[Priced]]:
        value = self.function(item)
        return value, self.recorder.taken()


class RecordingExecutor(Executor):
    """An executor whose functions price with evaluators of one recorder, wherever they run.

    Args:
        executor: where they run; entered and left by its owner.
        recorder: of this process, with its log.
    """

    def __init__(self, executor: Executor, recorder: SampleRecorder) -> None:
        self._executor, self._recorder = executor, recorder
        self._reporting: _Reporting | None = None

    @property
    def workers(self) -> int:
        """Those of the executor."""
        return self._executor.workers

    def outcomes(
        self,
        function: Callable[[Item], Value],
        items: Iterable[Item],
        stop: StopSignal = never_stop,
        arrived: Arrived = ignore,
    ) -> Iterator[Value | Failed]:
        """As the executor's; what an item has priced is logged before its value is yielded."""
        if self._reporting is None or self._reporting.function is not function:
            # One for all maps of a function, because workers live as long as their function is the same.
            self._reporting = _Reporting(function, self._recorder)

        def forward(finished: Any) -> None:
            arrived([(item, outcome if isinstance(outcome, Failed) else outcome[0]) for item, outcome in finished])

        for outcome in self._executor.outcomes(self._reporting, items, stop, forward):
            if isinstance(outcome, Failed):
                yield outcome
                continue
            value, recorded = outcome
            for chips, costs in recorded:
                self._recorder.add(chips, costs)
            yield cast("Value", value)
