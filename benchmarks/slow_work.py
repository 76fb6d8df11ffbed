"""Work that takes a while on workers, for ``benchmarks/killing.py`` to kill them amid it."""

import time


class Slow:
    """Negates after a while, and says on which node that was."""

    def __init__(self, seconds):
        self._seconds = seconds

    def __call__(self, item):
        import ray

        time.sleep(self._seconds)
        return -item, ray.get_runtime_context().get_node_id()


class Doomed(Slow):
    """The same, but on the node ``victim`` no item ends from when there is a file ``hold`` in ``folder``: the first
    leaves a file ``held``, and the node dies amid it.
    """

    def __init__(self, seconds, victim, folder):
        super().__init__(seconds)
        self._victim, self._folder = victim, folder

    def __call__(self, item):
        value, node = super().__call__(item)
        while node == self._victim and (self._folder / "hold").exists():
            (self._folder / "held").touch()
            time.sleep(0.1)
        return value, node


def described(outcome):
    """An outcome of :class:`Slow` as JSON types: the value, or the reason why there is none."""
    from dse.run.executor import Failed

    return outcome.reason if isinstance(outcome, Failed) else outcome[0]


def nodes_of(arrived):
    """The nodes on which items of :class:`Slow` were finished."""
    return {outcome[1] for _, outcome in arrived if isinstance(outcome, tuple)}


class Slowed:
    """Evaluators that take so much longer over each architecture."""

    def __init__(self, evaluators, each_s):
        self._evaluators, self._each_s = evaluators, each_s

    def __call__(self, job_task):
        time.sleep(self._each_s * len(job_task.task.indices))
        return self._evaluators(job_task)
