"""Executors of any number of workers in the Ray of the test session."""

from contextlib import contextmanager

from actors.ray_executor import RayExecutor
from actors.worker_kind import WorkerKind


@contextmanager
def workers(*arguments, **settings):
    """An executor in the Ray of the test session, whose workers end with the context."""
    executor = RayExecutor(*arguments, **settings)
    try:
        yield executor
    finally:
        executor.release()


class Inside:
    """An executor in the Ray of the test session, which stays, as its workers do, when a search closes it."""

    def __init__(self, workers, cpus=0.5):
        self._executor = RayExecutor((WorkerKind(workers, cpus),))
        self.workers, self.release = workers, self._executor.release
        self.outcomes, self.map = self._executor.outcomes, self._executor.map

    def __enter__(self):
        return self._executor

    def __exit__(self, *_):
        """The workers stay for the next search."""
