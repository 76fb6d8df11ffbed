"""A trial of a sweep through Ray Tune: what runs in its worker."""

import faulthandler
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from ray import tune

import dse
from actors.limits import Limits
from actors.worker import sendable
from dse.codesign.evaluation.job_evaluators import JobEvaluators, JobTask
from dse.codesign.search.sweep import architectures_of
from dse.run.executor import applied

NO_LIMITS = Limits()
"""For sweeps of which nobody has said what an architecture may take."""

_STDERR = 2
"""The file number of standard error: ``sys.stderr`` of a worker need not be a file."""


class ChunkTrial(tune.Trainable):
    """One trial: the evaluations of a chunk. The actor is reused, with the graphs that its evaluators have built."""

    def setup(self, config: Mapping[str, Any], evaluators: JobEvaluators, limits: Limits) -> None:  # type: ignore[override]
        """Take what all chunks share, and the first one."""
        self._evaluators = evaluators
        self._limits = limits
        self._warm = False
        self.reset_config(config)

    def reset_config(self, new_config: Mapping[str, Any]) -> bool:
        """Take the next chunk. Always true: every trial can reuse the actor of another one."""
        self._parts: list[JobTask] = new_config["parts"]
        self._next = 0
        self._begun = False
        return True

    def step(self) -> dict[str, Any]:
        """Evaluate the next part; at first, say that the trial has begun: until then no part is to blame."""
        if not self._begun:
            self._begun = True
            return {"started": True, "version": dse.__version__}
        part = self._next
        self._next += 1
        begun = time.perf_counter()
        with self._limited(len(architectures_of(self._parts[part]))):
            answer = sendable(applied(self._evaluators, self._parts[part]))
        seconds = time.perf_counter() - begun
        return {
            "done": self._next == len(self._parts),
            "part": part,
            "answer": answer,
            "seconds": seconds,
            "architectures_per_s": len(architectures_of(self._parts[part])) / seconds,
        }

    @contextmanager
    def _limited(self, architectures: int) -> Iterator[None]:
        """Ends this process, also amid compiled code, where the architectures take longer than they may."""
        if self._limits.timeout_s is None:
            yield
            return
        limit_s = self._limits.of_a_call(architectures, warm=self._warm)
        faulthandler.dump_traceback_later(limit_s, exit=True, file=_STDERR)
        self._warm = True
        try:
            yield
        finally:
            faulthandler.cancel_dump_traceback_later()
