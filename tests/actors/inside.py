"""Executors of any number of workers in the Ray of the test session."""

from actors.ray_executor import RayExecutor, WorkerKind


class Inside:
    """An executor in the Ray of the test session, which stays when the search closes it."""

    def __init__(self, workers):
        self._executor = RayExecutor((WorkerKind(workers, cpus=0.5),))
        self.workers = workers
        self.outcomes, self.map = self._executor.outcomes, self._executor.map

    def __enter__(self):
        return self._executor

    def __exit__(self, *_):
        self._executor.release()
