"""What one architecture is worth, at three levels of effort, each a bound on the next.

1. :meth:`Evaluator.bound`: operators priced, layers bounded, placements bounded; a few microseconds an architecture.
2. :meth:`Evaluator.refine`: layers scheduled exactly, placements bounded.
3. :meth:`Evaluator.evaluate`: layers scheduled exactly, placements solved exactly.

The evaluator is a plain picklable object; graphs are built once a process, on first use.
"""

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from dse.codesign.pricing import LayerLatencies, optimistic_latencies, scheduled_latencies
from dse.codesign.problem import CodesignProblem, Evaluation, TrainingPlan
from dse.graph.operator_graph import ModelGraph
from dse.models.transformer import build
from dse.placement.bound import BatchBound
from dse.placement.problem import LayerGraph, PlacementLayer, PlacementProblem
from dse.placement.solve import solve
from hardware.machines import Machines

Bounds = npt.NDArray[np.float64]
Indices = npt.NDArray[np.int64]
GraphLatencies = dict[tuple[int, int], LayerLatencies]
"""Layer latencies for each (microbatch, tensor-parallel width)."""


@dataclass(frozen=True)
class Choice:
    """One combination of the training job's choices that do not depend on the architecture."""

    microbatch: int
    hbm_bytes: int
    recompute: bool


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
    """Ask for :meth:`Evaluator.evaluate` of ``index``."""

    index: int


class Evaluator:
    """Bounds and evaluates the architectures ``machines`` for one problem.

    It is called with a task, so that one object serves a map of any of the three levels and keeps its graphs.
    """

    def __call__(self, task: Bound | Refine | Evaluate) -> Any:
        """The answer to ``task``."""
        match task:
            case Bound(indices):
                return self.bound(indices)
            case Refine(indices):
                return self.refine(indices)
            case Evaluate(index):
                return self.evaluate(index)

    def __init__(self, problem: CodesignProblem, machines: Machines) -> None:
        self.problem = problem
        self.machines = machines

    def __getstate__(self) -> dict[str, object]:
        # Workers rebuild the graphs from the problem: cheaper than sending them.
        return {"problem": self.problem, "machines": self.machines}

    @cached_property
    def graphs(self) -> dict[tuple[int, int], ModelGraph]:
        """The model's graph for each (microbatch, tensor-parallel width)."""
        return {
            (microbatch, width): build(
                self.problem.model, microbatch, width, self.problem.recipe
            )
            for microbatch in self.problem.microbatches
            for width in self.problem.tensor_parallel
        }

    @cached_property
    def choices(self) -> tuple[Choice, ...]:
        """Every combination of microbatch, HBM size and recompute, in the order that ties are broken."""
        return tuple(
            Choice(microbatch, hbm_bytes, recompute)
            for hbm_bytes in self.problem.hbm_bytes
            for microbatch in self.problem.microbatches
            for recompute in (False, True)
        )

    def bound(self, indices: Indices) -> Bounds:
        """Lower bounds on the batch time for each HBM size, float64[H, len(indices)], from optimistic layers."""
        machines = self.machines.take(indices)
        return self._placement_bounds(
            {
                key: optimistic_latencies(graph, machines, self.problem.network)
                for key, graph in self.graphs.items()
            }
        )

    def refine(self, indices: Indices) -> Bounds:
        """As :meth:`bound`, from scheduled layers (their own bounds where a schedule is not proven)."""
        machines = self.machines.take(indices)
        return self._placement_bounds(
            {
                key: scheduled_latencies(graph, machines, self.problem.network)[1]
                for key, graph in self.graphs.items()
            }
        )

    def evaluate(self, index: int) -> Evaluation:
        """The exact optimum on one architecture, for each HBM size."""
        makespan, bound = self.layer_latencies(index)
        plans = self.plans(makespan)
        proven = all(_equal(makespan[key], bound[key]) for key in makespan)
        optimistic = plans if proven else self.plans(bound)
        limits = tuple(plan.placement.batch_s if plan else np.inf for plan in optimistic)
        plans = tuple(replace(plan, bound_s=limit) if plan else None for plan, limit in zip(plans, limits, strict=True))
        return Evaluation(index, plans, limits)

    def layer_latencies(self, index: int) -> tuple[GraphLatencies, GraphLatencies]:
        """Makespans of the scheduled layers of every graph on one architecture, and lower bounds on them."""
        machine = self.machines.one(index)
        both = {key: scheduled_latencies(graph, machine, self.problem.network) for key, graph in self.graphs.items()}
        return {key: pair[0] for key, pair in both.items()}, {key: pair[1] for key, pair in both.items()}

    def plans(self, latencies: GraphLatencies) -> tuple[TrainingPlan | None, ...]:
        """The best plan for each HBM size under the layer latencies of one architecture; None where nothing fits."""
        bounds = {
            choice: min(
                float(self._placement_bound(choice, width, latencies[choice.microbatch, width])[0])
                for width in self.problem.tensor_parallel
            )
            for choice in self.choices
        }
        plans: list[TrainingPlan | None] = []
        for hbm_bytes in self.problem.hbm_bytes:
            best: TrainingPlan | None = None
            # A plan that fits a smaller memory fits this one, so it is a first incumbent.
            if plans and plans[-1] is not None:
                best = replace(plans[-1], hbm_bytes=hbm_bytes)
            candidates = [choice for choice in self.choices if choice.hbm_bytes == hbm_bytes]
            for choice in sorted(candidates, key=lambda choice: bounds[choice]):
                cutoff_s = best.placement.batch_s if best else np.inf
                if not bounds[choice] < cutoff_s:
                    break
                placement = solve(self.placement_problem(choice, latencies), cutoff_s).placement
                if placement is not None and placement.batch_s < cutoff_s:
                    best = TrainingPlan(choice.microbatch, hbm_bytes, choice.recompute, placement, placement.batch_s)
            plans.append(best)
        return tuple(plans)

    def _placement_bounds(self, latencies: GraphLatencies) -> Bounds:
        columns = next(iter(latencies.values())).forward_s.shape[1]
        bounds = np.full((len(self.problem.hbm_bytes), columns), np.inf)
        for choice in self.choices:
            row = self.problem.hbm_bytes.index(choice.hbm_bytes)
            for width in self.problem.tensor_parallel:
                bound = self._placement_bound(choice, width, latencies[choice.microbatch, width])
                np.minimum(bounds[row], bound, out=bounds[row])
        return bounds

    def _placement_bound(self, choice: Choice, width: int, latencies: LayerLatencies) -> Bounds:
        bound = self._batch_bounds[choice, width]
        return bound(latencies.forward_s, latencies.backward_s, latencies.update_s)

    @cached_property
    def _batch_bounds(self) -> dict[tuple[Choice, int], BatchBound]:
        """What bounds every placement of a choice at a width: it depends on memory, not on the architecture."""
        return {
            (choice, width): BatchBound(template, width, self.graphs[choice.microbatch, width].layer_index)
            for choice in self.choices
            for template in [self.placement_problem(choice, None)]
            for width in self.problem.tensor_parallel
        }

    def placement_problem(
        self,
        choice: Choice,
        latencies: GraphLatencies | None,
        widths: tuple[int, ...] | None = None,
    ) -> PlacementProblem:
        """The placement problem of one choice, with the latencies of one architecture (zeros where None).

        ``widths`` restricts the tensor-parallel widths (None: all of the problem's).
        """
        problem = self.problem
        return PlacementProblem(
            name=problem.model.name,
            accelerators=problem.accelerators,
            microbatches=problem.global_batch // choice.microbatch,
            hbm_bytes=choice.hbm_bytes,
            network_bytes_per_s=problem.network_bytes_per_s,
            recompute=choice.recompute,
            state_factor=problem.cost_model.training.state_factor.value,
            gradient_sync_factor=problem.cost_model.training.gradient_sync_factor.value,
            tensor_parallel={
                width: _layer_graph(
                    self.graphs[choice.microbatch, width],
                    None if latencies is None else latencies[choice.microbatch, width],
                )
                for width in widths or problem.tensor_parallel
            },
        )

    def utilisation(self, index: int, plan: TrainingPlan) -> float:
        """Model FLOPs utilisation (PaLM, appendix B): model FLOPs a second over the peak of all accelerators."""
        graph = self.graphs[plan.microbatch, plan.placement.tensor]
        peak_flops = self.problem.accelerators * float(self.machines.peak_flops[index])
        return plan.throughput_per_s(self.problem.global_batch) * graph.flops_per_sample / peak_flops


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
        np.array_equal(getattr(makespan, part), getattr(bound, part)) for part in ("forward_s", "backward_s", "update_s")
    )
