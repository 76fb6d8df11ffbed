"""Pretraining on Ray: one actor trains while others validate its checkpoints as they appear.

The driver hands snapshots from one to the other and keeps them; the actors keep nothing that cannot be recomputed from
their arguments, so one that has died is started again and its call repeated. Actors wait for room on the cluster, and
the wait is explained as that of a map is.
"""

import time
from typing import Any

import ray

from actors.ray_executor import RayExecutor
from actors.windowed_map import PATIENCE_S
from dse.run.progress import ProgressCallback, StopSignal, ask
from policies.learning.pretraining import Trainer, Validator
from policies.learning.pretraining_run import TRAINED, VALIDATED, PretrainingRun

_POLL_S = 0.5


def pretrain(run: PretrainingRun, executor: RayExecutor, progress: ProgressCallback, stop: StopSignal) -> None:
    """As :func:`policies.learning.pretraining_run.pretrain`, on the Ray that ``executor`` has joined.

    Of the executor's workers one trains, and the others, at least one, validate. Scores and weights are those of one
    process: both depend on the plan alone.

    Raises:
        StoppedError: ``stop`` gave a reason; finished work is in the directory.
    """
    _Pipeline(run, executor, progress).work(stop)


class _Pipeline:
    """What is under way: at most one call of the trainer, and one of every validator."""

    def __init__(self, run: PretrainingRun, executor: RayExecutor, progress: ProgressCallback) -> None:
        self._run, self._progress = run, progress
        self._notice_wait = executor.notice_wait
        # Of one worker, trainer and validator have half each.
        cpus = 1 if executor.workers > 1 else 0.5
        durable = ray.remote(num_cpus=cpus, max_restarts=-1, max_task_retries=-1)
        self._trainer: Any = durable(Trainer).remote(run.plan)
        self._idle: list[Any] = [durable(Validator).remote(run.plan) for _ in range(max(1, executor.workers - 1))]
        self._actors: list[Any] = [self._trainer, *self._idle]
        self._scoring: dict[Any, Any] = {}
        self._unscored = run.unscored()
        self._latest = run.latest()
        self._training: Any = None
        self._noticed_s = time.monotonic()
        # They answer the first call as soon as they run: their first work takes minutes.
        self._starting: list[Any] = [actor.__ray_ready__.remote() for actor in self._actors]

    def work(self, stop: StopSignal) -> None:
        """Until every checkpoint has its score."""
        try:
            while self._send():
                ask(stop)
                calls = [*self._scoring, *([] if self._training is None else [self._training])]
                ready, _ = ray.wait(calls, num_returns=1, timeout=_POLL_S)
                for call in ready:
                    self._take(call)
                self._explain()
        finally:
            for actor in self._actors:
                ray.kill(actor)

    def _send(self) -> bool:
        """Give work to whoever has none; whether any is under way."""
        if self._training is None and self._latest.number < self._run.plan.checkpoints:
            self._training = self._trainer.advance.remote(self._latest)
        while self._idle and self._unscored:
            validator = self._idle.pop()
            self._scoring[validator.score.remote(self._run.checkpoint(self._unscored.pop(0)))] = validator
        return self._training is not None or bool(self._scoring)

    def _take(self, call: Any) -> None:
        if call == self._training:
            self._latest, self._training = ray.get(call), None
            self._run.keep(self._latest)
            self._unscored.append(self._latest.number)
            self._progress(TRAINED, self._latest.number, self._run.plan.checkpoints)
            return
        self._idle.append(self._scoring.pop(call))
        self._run.keep_score(ray.get(call))
        self._progress(VALIDATED, len(self._run.scores()), self._run.plan.checkpoints)

    def _explain(self) -> None:
        """Say what the workers need, while none runs yet."""
        if not self._starting or ray.wait(self._starting, timeout=0)[0]:
            self._starting = []
        elif time.monotonic() - self._noticed_s > PATIENCE_S:
            self._noticed_s = time.monotonic()
            self._notice_wait()
