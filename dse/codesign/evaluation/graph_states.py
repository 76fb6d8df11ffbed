"""What is known of a block of architectures for one job, graph by graph: bounds first, then schedules, then plans.

Every step works on all architectures of the block that need it; what is done to one does not depend on the others.
"""

from collections.abc import Mapping
from dataclasses import replace

import numpy as np
import numpy.typing as npt

from dse.codesign.evaluation.job_placements import Choice, GraphKey, JobPlacements
from dse.codesign.evaluation.pricing import LayerLatencies, PricedGraph
from dse.codesign.problem import TrainingJob, TrainingPlan
from dse.run.progress import StopSignal, ask, never_stop
from dse.schedule.search.segment_search import SearchLimits
from hardware.energy import static_w
from hardware.energy_model import EnergyModel
from hardware.machines import Machines

_ROUNDING = 1e-12
"""Relative weakening of lower bounds on energy: the rounding of their sums."""

Bounds = npt.NDArray[np.float64]
Columns = npt.NDArray[np.int64]


class GraphStates:
    """The graphs of ``job`` on A architectures.

    ``bounds`` [G, H, A] are lower bounds on the batch time with each graph (in ascending order of their keys), from
    optimistic layers where a graph is not ``scheduled`` [G, A], else from its schedules, searched within ``limits``.
    ``stop`` is checked before each graph is scheduled.
    """

    def __init__(
        self,
        job: TrainingJob,
        placements: JobPlacements,
        priced: Mapping[GraphKey, PricedGraph],
        limits: SearchLimits,
        stop: StopSignal = never_stop,
    ) -> None:
        self._job = job
        self._stop = stop
        self._placements = placements
        self._keys = sorted(priced)
        self._priced = [priced[key] for key in self._keys]
        self._limits = limits
        self.bounds = np.stack([placements.bound(key, priced[key].optimistic()) for key in self._keys])
        graphs, _, count = self.bounds.shape
        self._scheduled = np.zeros((graphs, count), dtype=np.bool_)
        self._proven = np.zeros((graphs, count), dtype=np.bool_)
        self._makespans = [LayerLatencies.of_parts(np.full((len(p.parts), count), np.nan)) for p in self._priced]
        self._least = [priced.optimistic() for priced in self._priced]

    def best_plans(self) -> tuple[list[list[TrainingPlan | None]], Bounds]:
        """For each HBM size the fastest plan found on each architecture, and bounds on any plan's batch time, [H, A].

        Graphs are scheduled in the order of their bounds, and only while a bound is below the best plan found.
        """
        count = self.bounds.shape[2]
        plans: list[TrainingPlan | None] = [None] * count
        by_size: list[list[TrainingPlan | None]] = []
        limits = np.empty(self.bounds.shape[1:])
        for row, hbm_bytes in enumerate(self._job.hbm_bytes):
            # A plan that fits a smaller memory fits this one, so it is a first incumbent.
            plans = [None if plan is None else replace(plan, hbm_bytes=hbm_bytes) for plan in plans]
            best_s = self._improve(row, plans)
            open_s = np.where(self._proven, np.inf, self.bounds[:, row]).min(axis=0)
            limits[row] = np.minimum(best_s, open_s)
            plans = [
                None if plan is None else replace(plan, bound_s=limit)
                for plan, limit in zip(plans, limits[row].tolist(), strict=True)
            ]
            by_size.append(plans)
        return by_size, limits

    def min_j(self, machines: Machines, model: EnergyModel, batch_s: Bounds) -> Bounds:
        """Lower bounds on the joules of a batch under the fastest plan, [H, A].

        The fastest plan has a graph, recomputes or not, and has some number of pipelines. Of each such choice the batch
        time and the energy are bounded together, the time for a range of pipelines and the energy for its fewest; a
        choice whose bound on the time exceeds ``batch_s`` [H, A], the time of a plan that exists, is not the fastest.
        """
        job = self._job
        min_j = np.full(batch_s.shape, np.inf)
        for number, key in enumerate(self._keys):
            for recompute in (False, True):
                work_j = self._placements.work_by_pipelines(key, recompute, machines, model)
                for row, hbm_bytes in enumerate(job.hbm_bytes):
                    choice = Choice(*key, hbm_bytes, recompute)
                    bound_s = self._placements.bounds_by_pipelines(choice, self._least[number], batch_s[row])
                    idle_w = job.accelerators * static_w(machines, hbm_bytes, model)
                    total_j = np.where(bound_s <= batch_s[row], work_j + idle_w * bound_s, np.inf)
                    np.minimum(min_j[row], total_j.min(axis=0), out=min_j[row])
        return min_j * (1 - _ROUNDING)

    def _improve(self, row: int, plans: list[TrainingPlan | None]) -> Bounds:
        """Replaces ``plans`` by better ones at HBM size ``row`` where there are any; the batch times, [A]."""
        best_s = np.array([np.inf if plan is None else plan.placement.batch_s for plan in plans])
        left = np.ones(self._scheduled.shape, dtype=np.bool_)
        while True:
            waiting = np.where(left, self.bounds[:, row], np.inf)
            leading = waiting.argmin(axis=0)
            active = waiting.min(axis=0) < best_s
            if not active.any():
                return best_s
            for graph in range(len(self._keys)):
                columns = np.flatnonzero(active & (leading == graph))
                placed = columns[self._scheduled[graph, columns]]
                self._schedule(graph, columns)  # the bounds of these may have risen above another graph's
                left[graph, placed] = False
                self._place(graph, row, placed, best_s, plans)

    def _place(self, graph: int, row: int, columns: Columns, best_s: Bounds, plans: list[TrainingPlan | None]) -> None:
        """The placements of one graph at HBM size ``row``, where they beat the best."""
        if len(columns) == 0:
            return
        key, hbm_bytes = self._keys[graph], self._job.hbm_bytes[row]
        makespans = self._makespans[graph].columns(columns)
        for recompute in (False, True):
            placements = self._placements.solve(Choice(*key, hbm_bytes, recompute), makespans, best_s[columns])
            for position, placement in placements.items():
                column = int(columns[position])
                best_s[column] = placement.batch_s
                plans[column] = TrainingPlan(
                    key[0], hbm_bytes, recompute, placement, placement.batch_s, self._limits.nodes
                )

    def _schedule(self, graph: int, columns: Columns) -> bool:
        """Schedules the layers of one graph on ``columns`` and tightens its bounds; False if all were scheduled."""
        columns = columns[~self._scheduled[graph, columns]]
        if len(columns) == 0:
            return False
        ask(self._stop)
        makespan, bound = self._priced[graph].scheduled(columns, self._limits)
        known = self._makespans[graph]
        proven = np.ones(len(columns), dtype=np.bool_)
        for part in ("forward_s", "backward_s", "update_s"):
            getattr(known, part)[:, columns] = getattr(makespan, part)
            proven &= (getattr(makespan, part) == getattr(bound, part)).all(axis=0)
        for part in ("forward_s", "backward_s", "update_s"):
            least = getattr(self._least[graph], part)
            least[:, columns] = np.maximum(least[:, columns], getattr(bound, part))
        tighter = self._placements.bound(self._keys[graph], bound)
        self.bounds[graph][:, columns] = np.maximum(self.bounds[graph][:, columns], tighter)
        self._scheduled[graph, columns] = True
        self._proven[graph, columns] = proven
        return True
