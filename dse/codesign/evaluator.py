"""What one architecture is worth, at three levels of effort, each a bound on the next.

1. :meth:`Evaluator.bound`: operators priced, layers bounded, placements bounded; a few microseconds an architecture.
2. :meth:`Evaluator.refine`: layers scheduled exactly, placements bounded.
3. :meth:`Evaluator.evaluate`: layers scheduled exactly, placements solved exactly.

The evaluator is a plain picklable object; graphs are built once a process, on first use.
"""

from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from dse.codesign.pricing import LayerLatencies, optimistic_latencies, scheduled_latencies
from dse.codesign.problem import Evaluation, TrainingJob, TrainingPlan
from dse.graph.operator_graph import ModelGraph
from dse.placement.bound import BatchBound
from dse.placement.problem import LayerGraph, PlacementLayer, PlacementProblem
from dse.placement.solve import solve
from dse.schedule.layer import DEFAULT_LIMITS
from dse.schedule.segment_search import SearchLimits
from hardware.machines import Machines

Bounds = npt.NDArray[np.float64]
Indices = npt.NDArray[np.int64]
GraphKey = tuple[int, int]
"""(microbatch, tensor-parallel width): what the shape of a graph depends on."""

REFINE_LIMITS = SearchLimits(nodes=20_000)
"""How far the schedules of level 2 are searched before a bound has to do."""


@dataclass(frozen=True)
class Choice:
    """One combination of what a training plan chooses besides the placement itself."""

    microbatch: int
    tensor: int
    hbm_bytes: int
    recompute: bool

    @property
    def key(self) -> GraphKey:
        """The graph that is trained."""
        return self.microbatch, self.tensor


@dataclass
class _Evaluation:
    """What is known of one architecture: bounds by graph, float64[H], and the layers that have been scheduled."""

    limits: SearchLimits
    bounds: dict[GraphKey, Bounds]
    makespans: dict[GraphKey, LayerLatencies] = field(default_factory=dict)
    proven: set[GraphKey] = field(default_factory=set)

    def open_bound(self, row: int) -> float:
        """The least bound at HBM size ``row`` of the graphs whose schedules are not proven."""
        return float(min((bound[row] for key, bound in self.bounds.items() if key not in self.proven), default=np.inf))


@dataclass(frozen=True)
class Bound:
    """Ask for :meth:`Evaluator.bound` of ``indices``."""

    indices: Indices


@dataclass(frozen=True)
class Refine:
    """Ask for :meth:`Evaluator.refine` of ``indices``."""

    indices: Indices


@dataclass(frozen=True)
class Evaluate:
    """Ask for :meth:`Evaluator.evaluate` of ``index``, with its schedules searched as far as ``nodes`` states."""

    index: int
    nodes: int


Task = Bound | Refine | Evaluate


class Evaluator:
    """Bounds and evaluates the architectures ``machines`` for one training job.

    It is called with a task, so that one object serves a map of any of the three levels and keeps its graphs.
    """

    def __init__(self, job: TrainingJob, machines: Machines) -> None:
        self.job = job
        self.machines = machines

    def __getstate__(self) -> dict[str, object]:
        # Workers rebuild the graphs from the job: cheaper than sending them.
        return {"job": self.job, "machines": self.machines}

    def __call__(self, task: Task) -> Any:
        """The answer to ``task``."""
        match task:
            case Bound(indices):
                return self.bound(indices)
            case Refine(indices):
                return self.refine(indices)
            case Evaluate(index, nodes):
                return self.evaluate(index, nodes)

    @cached_property
    def graphs(self) -> dict[GraphKey, ModelGraph]:
        """The model's graph for each (microbatch, tensor-parallel width)."""
        return {
            (microbatch, width): self.job.workload.graph(microbatch, width, self.job.recipe)
            for microbatch in self.job.microbatches
            for width in self.job.tensor_parallel
        }

    def choice(self, key: GraphKey, hbm_bytes: int, recompute: bool) -> Choice:
        """The choice of one graph, HBM size, and recompute or stash."""
        return Choice(key[0], key[1], hbm_bytes, recompute)

    def bound(self, indices: Indices) -> Bounds:
        """Lower bounds on the batch time for each HBM size, float64[H, len(indices)], from optimistic layers."""
        machines = self.machines.take(indices)
        least: Bounds | None = None
        for key, graph in self.graphs.items():
            least = self._graph_bound(key, optimistic_latencies(graph, machines, self.job.network), least)
        assert least is not None
        return least

    def refine(self, indices: Indices) -> Bounds:
        """As :meth:`bound`, with scheduled layers wherever they decide the bound."""
        machines = self.machines.take(indices)
        rough = self._optimistic(machines)
        columns = [
            self._refined(machines.one(column), {key: bound[:, column] for key, bound in rough.items()})
            for column in range(len(machines))
        ]
        return np.stack(columns, axis=1)

    def evaluate(self, index: int, nodes: int = DEFAULT_LIMITS.nodes) -> Evaluation:
        """The optimum on one architecture, for each HBM size: exact where the schedules that matter are proven.

        ``nodes`` limits, in states, how far a schedule is searched before its bound has to do.
        Graphs are scheduled in the order of their bounds, and only while a bound is below the best plan found.
        """
        machine = self.machines.one(index)
        rough = {key: bound[:, 0] for key, bound in self._optimistic(machine).items()}
        state = _Evaluation(SearchLimits(nodes=nodes), rough)
        plans: list[TrainingPlan | None] = []
        limits: list[float] = []
        for row, hbm_bytes in enumerate(self.job.hbm_bytes):
            # A plan that fits a smaller memory fits this one, so it is a first incumbent.
            last = plans[-1] if plans else None
            best = None if last is None else replace(last, hbm_bytes=hbm_bytes)
            best = self._best_plan(machine, state, row, best)
            best_s = np.inf if best is None else best.placement.batch_s
            limit = min(best_s, state.open_bound(row))
            plans.append(None if best is None else replace(best, bound_s=limit))
            limits.append(limit)
        return Evaluation(index, tuple(plans), tuple(limits))

    def _best_plan(
        self, machine: Machines, state: "_Evaluation", row: int, best: TrainingPlan | None
    ) -> TrainingPlan | None:
        """The best plan at HBM size ``row`` that beats ``best``, or ``best``."""
        hbm_bytes = self.job.hbm_bytes[row]
        left = set(self.graphs)
        while left:
            key = min(left, key=lambda key: (state.bounds[key][row], key))
            best_s = np.inf if best is None else best.placement.batch_s
            if not state.bounds[key][row] < best_s:
                break
            if key not in state.makespans:
                self._schedule(machine, state, key)
                continue  # its bound may have risen above another graph's
            left.discard(key)
            for recompute in (False, True):
                choice = self.choice(key, hbm_bytes, recompute)
                placement = solve(self.placement_problem(choice, state.makespans[key]), best_s).placement
                if placement is not None and placement.batch_s < best_s:
                    best_s, nodes = placement.batch_s, state.limits.nodes
                    best = TrainingPlan(choice.microbatch, hbm_bytes, recompute, placement, best_s, nodes)
        return best

    def _schedule(self, machine: Machines, state: "_Evaluation", key: GraphKey) -> None:
        """Schedule the layers of one graph and tighten its bounds."""
        makespan, bound = scheduled_latencies(self.graphs[key], machine, self.job.network, state.limits)
        state.makespans[key] = makespan
        if _equal(makespan, bound):
            state.proven.add(key)
        state.bounds[key] = np.maximum(state.bounds[key], self._graph_bound(key, bound)[:, 0])

    def _refined(self, machine: Machines, bounds: dict[GraphKey, Bounds]) -> Bounds:
        """Bounds float64[H] of one machine, after scheduling the graphs that have the least bound at some HBM size."""
        scheduled: set[GraphKey] = set()
        rows = range(len(self.job.hbm_bytes))
        while True:
            leading = {min(bounds, key=lambda key: (bounds[key][row], key)) for row in rows}
            if leading <= scheduled:
                return np.asarray(np.min(list(bounds.values()), axis=0), dtype=np.float64)
            for key in sorted(leading - scheduled):
                _, bound = scheduled_latencies(self.graphs[key], machine, self.job.network, REFINE_LIMITS)
                bounds[key] = np.maximum(bounds[key], self._graph_bound(key, bound)[:, 0])
                scheduled.add(key)

    def _optimistic(self, machines: Machines) -> dict[GraphKey, Bounds]:
        """For each graph lower bounds on the batch time, float64[H, A], from optimistic layers."""
        return {
            key: self._graph_bound(key, optimistic_latencies(graph, machines, self.job.network))
            for key, graph in self.graphs.items()
        }

    def _graph_bound(self, key: GraphKey, latencies: LayerLatencies, least: Bounds | None = None) -> Bounds:
        """Lower bounds on the batch time of one graph, float64[H, A], or ``least`` where that is less.

        Placements that cannot fall below ``least`` are not bounded further; nor are those of a larger memory that
        cannot fall below the bound of a smaller one, which holds for the larger one too.
        """
        shape = (len(self.job.hbm_bytes), latencies.forward_s.shape[1])
        bounds = np.full(shape, np.inf) if least is None else least.copy()
        for row, hbm_bytes in enumerate(self.job.hbm_bytes):
            if row:
                np.minimum(bounds[row], bounds[row - 1], out=bounds[row])
            for recompute in (False, True):
                bound = self._batch_bounds[self.choice(key, hbm_bytes, recompute)]
                found = bound(latencies.forward_s, latencies.backward_s, latencies.update_s, bounds[row])
                np.minimum(bounds[row], found, out=bounds[row])
        return bounds

    @cached_property
    def _batch_bounds(self) -> dict[Choice, BatchBound]:
        """What bounds every placement of a choice: it depends on memory, not on the architecture."""
        choices = [
            self.choice(key, hbm_bytes, recompute)
            for key in self.graphs
            for hbm_bytes in self.job.hbm_bytes
            for recompute in (False, True)
        ]
        return {
            choice: BatchBound(self.placement_problem(choice, None), choice.tensor, self.graphs[choice.key].layer_index)
            for choice in choices
        }

    def placement_problem(self, choice: Choice, latencies: LayerLatencies | None) -> PlacementProblem:
        """The placement problem of one choice, with the latencies of one architecture (zeros where None)."""
        job = self.job
        return PlacementProblem(
            name=job.name,
            accelerators=job.accelerators,
            microbatches=job.global_batch // choice.microbatch,
            hbm_bytes=choice.hbm_bytes,
            network_bytes_per_s=job.network_bytes_per_s,
            recompute=choice.recompute,
            state_factor=job.cost_model.training.state_factor.value,
            gradient_sync_factor=job.cost_model.training.gradient_sync_factor.value,
            tensor_parallel={choice.tensor: _layer_graph(self.graphs[choice.key], latencies)},
        )

    def fits(self) -> bool:
        """Whether some placement fits the memory; that does not depend on the architecture."""
        return bool(np.isfinite(self.bound(np.array([0]))).any())

    def utilisation(self, index: int, plan: TrainingPlan) -> float:
        """Model FLOPs utilisation (PaLM, appendix B): model FLOPs a second over the peak of all accelerators."""
        graph = self.graphs[plan.microbatch, plan.placement.tensor]
        peak_flops = self.job.accelerators * float(self.machines.peak_flops[index])
        return plan.throughput_per_s(self.job.global_batch) * graph.flops_per_sample / peak_flops


def _layer_graph(graph: ModelGraph, latencies: LayerLatencies | None) -> LayerGraph:
    layers = []
    for name, layer, distinct in zip(graph.names, graph.layers, graph.layer_index, strict=True):
        forward_s, backward_s, update_s = (
            (0.0, 0.0, 0.0)
            if latencies is None
            else (
                float(latencies.forward_s[distinct, 0]),
                float(latencies.backward_s[distinct, 0]),
                float(latencies.update_s[distinct, 0]),
            )
        )
        layers.append(
            PlacementLayer(
                name, forward_s, backward_s, layer.weight_bytes, layer.activation_bytes, layer.sliced, update_s
            )
        )
    return LayerGraph(tuple(layers), tuple((source, target, float(size)) for source, target, size in graph.edges))


def _equal(makespan: LayerLatencies, bound: LayerLatencies) -> bool:
    """Whether every schedule is proven: makespan and bound agree."""
    return all(
        np.array_equal(getattr(makespan, part), getattr(bound, part))
        for part in ("forward_s", "backward_s", "update_s")
    )
