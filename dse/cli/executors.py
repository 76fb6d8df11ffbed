"""Where work runs: in this process, or on Ray workers. The choice is made at the roof, which may import Ray."""

import os

from dse.run.executor import Executor, InProcessExecutor
from dse.run.journal import Journal
from dse.run.progress import Notice, silent_notice

SHORT_S = 30.0
"""Work that is predicted to take less is not worth the start of workers."""


def executor_of(
    workers: int | None,
    address: str | None,
    predicted_s: float,
    journal: Journal | None = None,
    item_timeout_s: float | None = None,
    notice: Notice = silent_notice,
    extra_cpus: int = 0,
    extra_gpus: int = 0,
) -> Executor:
    """In-process without workers and, where their number is left open, for work predicted under 30 s; else on Ray.

    Args:
        workers: how many; None leaves the number open.
        address: an existing Ray cluster; None for a private local one.
        predicted_s: the problem's own estimate of its work on one core.
        journal: watched by Ray's metrics.
        item_timeout_s: how long a worker may take for one item; None for no limit.
        notice: shows a message to the user while the work goes on.
        extra_cpus: of actors that the workers start.
        extra_gpus: of the same; if either is set, even short work runs on Ray.
    """
    needs_ray = bool(extra_cpus or extra_gpus)
    if workers is None:
        if address is None and predicted_s < SHORT_S and not needs_ray:
            return InProcessExecutor()
        # On a cluster: all that it has, which only the cluster knows.
        workers = None if address else os.cpu_count() or 1
    if workers == 0:
        return InProcessExecutor()
    from actors.before_ray import expect_cluster, expect_private_ray

    if address is None:
        expect_private_ray()
    else:
        expect_cluster()
    from actors.limits import Limits
    from actors.ray_executor import RayExecutor
    from actors.worker_kind import WorkerKind

    watched = {} if journal is None else {"dse_journal_hits": lambda: float(journal.hits)}
    extra = WorkerKind(1, extra_cpus, extra_gpus) if needs_ray else None
    return RayExecutor(workers, address, Limits(timeout_s=item_timeout_s), notice, watched, extra)
