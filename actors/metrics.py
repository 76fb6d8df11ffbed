"""What a map over actors reports to Ray's metrics (Prometheus text at every node's export port, graphs in Grafana).

``dse_items_finished``, ``dse_items_failed`` and ``dse_worker_deaths`` count, so their rates are evaluations, failures
and deaths per second; ``dse_items_queued`` is the depth of the queue; figures of the run in addition to these, as how
many evaluations came from its journal (``dse_journal_hits``), are read when the others are reported.
"""

import time
from collections.abc import Callable, Mapping

from ray.util.metrics import Counter, Gauge

_INTERVAL_S = 1.0
"""Time between two reports; Ray exports every ten seconds."""

Watched = Mapping[str, Callable[[], float]]
"""Figures of the run by the metric's name."""


class MapMetrics:
    """The metrics of one executor. Reporting costs some microseconds per second.

    Args:
        watched: figures to report in addition to those of the map.
    """

    def __init__(self, watched: Watched) -> None:
        self._watched = watched
        self._finished = Counter("dse_items_finished", "Items that workers have finished.")
        self._failed = Counter("dse_items_failed", "Items that failed.")
        self._deaths = Counter("dse_worker_deaths", "Worker processes that died while working.")
        self._queued = Gauge("dse_items_queued", "Items sent to workers and not yet finished.")
        self._gauges = {name: Gauge(name, "A value of the run.") for name in watched}
        self._counts = {self._finished: 0, self._failed: 0, self._deaths: 0}
        self._reported_s = 0.0

    def count(self, finished: int, failed: int) -> None:
        """Items that have been finished, and those among them that were given up."""
        self._counts[self._finished] += finished
        self._counts[self._failed] += failed

    def died(self) -> None:
        """A worker process has died."""
        self._counts[self._deaths] += 1

    def report(self, queued: Callable[[], int], *, last: bool = False) -> None:
        """Report what has been counted, at most once a second until the ``last`` time."""
        now = time.monotonic()
        if not last and now - self._reported_s < _INTERVAL_S:
            return
        self._reported_s = now
        for counter, value in self._counts.items():
            if value:
                counter.inc(value)
                self._counts[counter] = 0
        self._queued.set(queued())
        for name, gauge in self._gauges.items():
            gauge.set(self._watched[name]())
