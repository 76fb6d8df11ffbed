"""What one architecture is worth: at most, in a few microseconds, and exactly.

1. :meth:`Evaluator.bound`: operators priced, layers bounded, placements bounded.
2. :meth:`Evaluator.evaluate_many`: layers scheduled exactly, placements solved exactly.

Each takes any number of architectures. The evaluator is a plain picklable object; graphs are built once per process, on
first use.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from dse.codesign.evaluation.graph_states import GraphStates
from dse.codesign.evaluation.job_placements import Choice, GraphKey, JobPlacements
from dse.codesign.evaluation.pricing import LayerLatencies, Pricing, price
from dse.codesign.problem import Evaluation, TrainingJob, TrainingPlan
from dse.graph.operator_graph import ModelGraph
from dse.placement.problem import PlacementProblem
from dse.run.progress import StopSignal, never_stop
from dse.schedule.search.layer import DEFAULT_LIMITS
from dse.schedule.search.segment_search import SearchLimits
from hardware.energy_model import EnergyModel
from hardware.machines import Machines

Bounds = npt.NDArray[np.float64]
Indices = npt.NDArray[np.int64]

_ROUNDING = 1e-9
"""Relative weakening of bounds on the fastest plan, far above the rounding of sums and of schedules to whole units."""

_BLOCK = 512
"""Architectures that are evaluated at once: their priced operators take tens of megabytes."""


@dataclass(frozen=True)
class Bound:
    """Ask for :meth:`Evaluator.bound` of ``indices``."""

    indices: Indices


@dataclass(frozen=True)
class Evaluate:
    """Ask for :meth:`Evaluator.evaluate` of ``index``, with its schedules searched as far as ``nodes`` states."""

    index: int
    nodes: int


@dataclass(frozen=True)
class EvaluateMany:
    """Ask for :meth:`Evaluator.evaluate_many` of ``indices``, each as :class:`Evaluate` asks."""

    indices: tuple[int, ...]
    nodes: int


@dataclass(frozen=True)
class Confine:
    """Ask for :meth:`Evaluator.confine` of ``indices`` at one HBM size."""

    indices: Indices
    batch_s: Bounds
    hbm_bytes: int
    energy: EnergyModel


Task = Bound | Evaluate | EvaluateMany | Confine


class Evaluator:
    """Bounds and evaluates the architectures ``machines`` for one training job.

    It is called with a task, so that one object serves a map of any of the three levels and keeps its graphs. ``stop``
    is checked between the graphs of an evaluation, which ends with a :class:`~dse.run.progress.StoppedError` where it
    gives a reason; pickled evaluators are never stopped. With an ``energy`` model it also bounds the joules of a batch.
    ``pricing`` gives operators their latencies.
    """

    def __init__(
        self,
        job: TrainingJob,
        machines: Machines,
        stop: StopSignal = never_stop,
        energy: EnergyModel | None = None,
        pricing: Pricing = price,
    ) -> None:
        self.job = job
        self.machines = machines
        self.energy = energy
        self.pricing = pricing
        self._stop = stop

    def __getstate__(self) -> dict[str, object]:
        # Workers rebuild the graphs from the job: cheaper than sending them.
        state = {"job": self.job, "machines": self.machines, "energy": self.energy, "pricing": self.pricing}
        return {**state, "_stop": never_stop}

    def __call__(self, task: Task) -> Any:
        """The answer to ``task``."""
        match task:
            case Bound(indices):
                return self.bound(indices)
            case Evaluate(index, nodes):
                return self.evaluate(index, nodes)
            case EvaluateMany(indices, nodes):
                return self.evaluate_many(indices, nodes)
            case Confine(indices, batch_s, hbm_bytes, energy):
                return self.confine(indices, batch_s, hbm_bytes, energy)

    @cached_property
    def graphs(self) -> dict[GraphKey, ModelGraph]:
        """The model's graph for each (microbatch, tensor-parallel width)."""
        return {
            (microbatch, width): self.job.workload.graph(microbatch, width, self.job.recipe)
            for microbatch in self.job.microbatch_sizes
            for width in self.job.tensor_parallel
        }

    @cached_property
    def placements(self) -> JobPlacements:
        """The job's placement problems."""
        return JobPlacements(self.job, self.graphs)

    def choice(self, key: GraphKey, hbm_bytes: int, recompute: bool) -> Choice:
        """The choice of one graph, HBM size, and recompute or stash."""
        return Choice(*key, hbm_bytes, recompute)

    def placement_problem(self, choice: Choice, latencies: LayerLatencies | None) -> PlacementProblem:
        """The placement problem of one choice, with the latencies of one architecture (zeros where None)."""
        return self.placements.problem(choice, latencies)

    def bound(self, indices: Indices) -> Bounds:
        """Lower bounds on the batch time for each HBM size, float64[H, len(indices)], from optimistic layers."""
        machines = self.machines.take(indices)
        least: Bounds | None = None
        for key, graph in self.graphs.items():
            (priced,) = self.pricing([graph], machines, self.job.network)
            least = self.placements.bound(key, priced.optimistic(), least)
        assert least is not None
        return least

    def confine(self, indices: Indices, batch_s: Bounds, hbm_bytes: int, energy: EnergyModel) -> Bounds:
        """What the fastest plan of each architecture takes at most and spends at least; no schedule is searched for.

        Args:
            indices: the architectures.
            batch_s: batch times of plans that exist, [len(indices)]; infinite where none is known.
            hbm_bytes: one of the job's HBM sizes.
            energy: what things cost in joules.

        Returns:
            Upper bounds on its batch time, which plans attain that run one operator after the other, and lower bounds
            on its joules a batch besides static power, float64[2, len(indices)]: the least over all choices whose bound
            on the batch time is no more than that.
        """
        machines = self.machines.take(indices)
        priced = dict(
            zip(self.graphs, self.pricing(list(self.graphs.values()), machines, self.job.network), strict=True)
        )
        serial = {key: graph.serial() for key, graph in priced.items()}
        batch_s = np.minimum(batch_s, self.placements.attained_s(serial, hbm_bytes)) * (1 + _ROUNDING)
        min_j = np.full(len(indices), np.inf)
        for key, graph in priced.items():
            latencies = graph.optimistic()
            for recompute in (False, True):
                choice = self.choice(key, hbm_bytes, recompute)
                bound_s = self.placements.bounds_by_pipelines(choice, latencies, batch_s)
                work_j = self.placements.work_by_pipelines(key, recompute, machines, energy)
                np.minimum(min_j, np.where(bound_s <= batch_s, work_j, np.inf).min(axis=0), out=min_j)
        return np.stack([batch_s, min_j * (1 - _ROUNDING)])

    def evaluate(self, index: int, nodes: int = DEFAULT_LIMITS.nodes) -> Evaluation:
        """The optimum on one architecture: :meth:`evaluate_many` of one."""
        return self.evaluate_many([index], nodes)[0]

    def evaluate_many(self, indices: Sequence[int], nodes: int = DEFAULT_LIMITS.nodes) -> list[Evaluation]:
        """The optimum on each architecture for each HBM size: exact where the schedules that matter are proven.

        ``nodes`` limits, in states, how far a schedule is searched before its bound has to do. An architecture's
        evaluation does not depend on the others.
        """
        evaluations = []
        limits = SearchLimits(nodes=nodes)
        for start in range(0, len(indices), _BLOCK):
            block = indices[start : start + _BLOCK]
            chosen = np.array(block, dtype=np.int64)
            states = self._states(chosen, limits)
            plans, bounds = states.best_plans()
            bound_j = np.empty((0, len(block))) if self.energy is None else self._bound_j(states, chosen, plans)
            evaluations += [
                Evaluation(
                    int(index),
                    tuple(size[column] for size in plans),
                    tuple(bounds[:, column].tolist()),
                    tuple(bound_j[:, column].tolist()),
                )
                for column, index in enumerate(block)
            ]
        return evaluations

    def _bound_j(self, states: GraphStates, indices: Indices, plans: Sequence[Sequence[TrainingPlan | None]]) -> Bounds:
        """Lower bounds on the joules of a batch under the fastest plan, [H, len(indices)], given ``plans``."""
        assert self.energy is not None
        batch_s = np.array([[np.inf if plan is None else plan.placement.batch_s for plan in row] for row in plans])
        return states.min_j(self.machines.take(indices), self.energy, batch_s)

    def _states(self, indices: Indices, limits: SearchLimits) -> GraphStates:
        machines = self.machines.take(indices)
        priced = self.pricing(list(self.graphs.values()), machines, self.job.network)
        return GraphStates(self.job, self.placements, dict(zip(self.graphs, priced, strict=True)), limits, self._stop)

    def fits(self) -> bool:
        """Whether some placement fits the memory; that does not depend on the architecture."""
        return bool(np.isfinite(self.bound(np.array([0]))).any())

    def utilisation(self, index: int, plan: TrainingPlan) -> float:
        """Model FLOPs utilisation (PaLM, appendix B): model FLOPs a second over the peak of all accelerators."""
        graph = self.graphs[plan.microbatch, plan.placement.tensor]
        peak_flops = self.job.accelerators * float(self.machines.peak_flops[index])
        return plan.throughput_per_s(self.job.global_batch) * graph.flops_per_sample / peak_flops
