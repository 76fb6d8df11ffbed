"""Placements of one training job: for every choice of a plan its placement problem, its bound and its exact optimum.

Memory, transfers and pipelines do not depend on the architecture, so all that follows from them is worked out once for
each choice; architectures then come as arrays of layer latencies.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from dse.codesign.evaluation.graph_energy import Joules, graph_energy_j, keeps_last_activations
from dse.codesign.evaluation.pricing import LayerLatencies
from dse.codesign.problem import TrainingJob
from dse.graph.operator_graph import ModelGraph
from dse.placement.bound import BatchBound
from dse.placement.problem import LayerGraph, Placement, PlacementLayer, PlacementProblem
from dse.placement.search.chain_dp import ChainLatencies
from dse.placement.solve import ChainSolver
from hardware.energy_model import EnergyModel
from hardware.machines import Machines

Bounds = npt.NDArray[np.float64]
GraphKey = tuple[int, int]
"""(microbatch, tensor-parallel width): what the shape of a graph depends on."""


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


_PIPELINE_RANGES = 32
"""Ranges of numbers of pipelines that are bounded apart, where energy depends on them."""

_ABOVE = 1e-9
"""How far above a limit, relative to it, bounds are distinguished from the limit: far more than their rounding."""


class JobPlacements:
    """The placement problems of ``job``, whose graphs are ``graphs``."""

    def __init__(self, job: TrainingJob, graphs: Mapping[GraphKey, ModelGraph]) -> None:
        self._job = job
        self._graphs = graphs
        self._solvers: dict[Choice, ChainSolver] = {}
        self._bounds_by_pipelines: dict[Choice, list[BatchBound]] = {}

    def bound(self, key: GraphKey, latencies: LayerLatencies, least: Bounds | None = None) -> Bounds:
        """Lower bounds on the batch time of one graph, float64[H, A], or ``least`` where that is less.

        Placements that cannot fall below ``least`` are not bounded further; nor are those of a larger memory that
        cannot fall below the bound of a smaller one, which holds for the larger one too.
        """
        shape = (len(self._job.hbm_bytes), latencies.forward_s.shape[1])
        bounds = np.full(shape, np.inf) if least is None else least.copy()
        for row, hbm_bytes in enumerate(self._job.hbm_bytes):
            if row:
                np.minimum(bounds[row], bounds[row - 1], out=bounds[row])
            for recompute in (False, True):
                bound = self._batch_bounds[Choice(*key, hbm_bytes, recompute)]
                lower = bound(latencies.forward_s, latencies.backward_s, latencies.update_s, bounds[row])
                np.minimum(bounds[row], lower, out=bounds[row])
        return bounds

    def solve(self, choice: Choice, latencies: LayerLatencies, cutoff_s: Bounds) -> dict[int, Placement]:
        """The optimal placements on A architectures, by position, where one is faster than ``cutoff_s`` [A].

        The bound keeps all others from being solved.
        """
        bound = self._batch_bounds[choice](latencies.forward_s, latencies.backward_s, latencies.update_s, cutoff_s)
        chosen = np.flatnonzero(bound < cutoff_s)
        if len(chosen) == 0:
            return {}
        layers = np.array(self._graphs[choice.key].layer_index, dtype=np.int64)
        parts = (latencies.forward_s, latencies.backward_s, latencies.update_s)
        by_layer = [np.ascontiguousarray(part[:, chosen][layers].T) for part in parts]
        solver = self._solver(choice)
        placements = {}
        for position, column in enumerate(chosen.tolist()):
            placement = solver(ChainLatencies(*(part[position] for part in by_layer)), float(cutoff_s[column]))
            if placement is not None:
                placements[column] = placement
        return placements

    def attained_s(self, latencies: Mapping[GraphKey, LayerLatencies], hbm_bytes: int) -> Bounds:
        """The batch time of a placement that exists on each of A architectures, [A]; infinite where none is found.

        It is that of the graph with the least bound, placed optimally.
        """
        count = next(iter(latencies.values())).forward_s.shape[1]
        bound_s, attained_s = np.full((2, count), np.inf)
        leading = np.full(count, -1)
        choices = [Choice(*key, hbm_bytes, recompute) for key in latencies for recompute in (False, True)]
        for number, choice in enumerate(choices):
            parts = latencies[choice.key]
            lower = self._batch_bounds[choice](parts.forward_s, parts.backward_s, parts.update_s, bound_s)
            leading[lower < bound_s] = number
            bound_s = np.minimum(bound_s, lower)
        for number in np.unique(leading[leading >= 0]).tolist():
            choice, columns = choices[number], np.flatnonzero(leading == number)
            placements = self.solve(choice, latencies[choice.key].columns(columns), attained_s[columns])
            for position, placement in placements.items():
                attained_s[columns[position]] = placement.batch_s
        return attained_s

    def bounds_by_pipelines(self, choice: Choice, latencies: LayerLatencies, limit_s: Bounds) -> Bounds:
        """Lower bounds on the batch time for each range of numbers of pipelines, float64[ranges, A].

        Those that exceed ``limit_s`` [A] are only known to do so.
        """
        if choice not in self._bounds_by_pipelines:
            problem, index = self.problem(choice, None), self._graphs[choice.key].layer_index
            most = [*(fewest - 1 for fewest in self._fewest_pipelines(choice.key)[1:]), None]
            self._bounds_by_pipelines[choice] = [BatchBound(problem, choice.tensor, index, each) for each in most]
        parts = (latencies.forward_s, latencies.backward_s, latencies.update_s)
        above_s = limit_s * (1 + _ABOVE)
        return np.stack([bound(*parts, above_s) for bound in self._bounds_by_pipelines[choice]])

    def work_by_pipelines(self, key: GraphKey, recompute: bool, machines: Machines, model: EnergyModel) -> Joules:
        """Lower bounds on the joules of a batch besides static power, for the same ranges, float64[ranges, A]."""
        microbatches, fewest = self._job.global_batch // key[0], self._fewest_pipelines(key)
        recomputed = recompute and not keeps_last_activations(self._job)
        return graph_energy_j(self._graphs[key], key[1], microbatches, recomputed, fewest, machines, model)

    def _fewest_pipelines(self, key: GraphKey) -> list[int]:
        """The smallest number of pipelines in each range that is bounded apart.

        The time depends on how many microbatches the busiest pipeline gets. So each range begins with the fewest
        pipelines for such a count: with the counts that many pipelines leave, and with some of the others.
        """
        microbatches = self._job.global_batch // key[0]

        def first(pipelines: int) -> int:
            return -(-microbatches // -(-microbatches // pipelines))

        fewest: list[int] = []
        half = _PIPELINE_RANGES // 2
        left = min(microbatches, max(1, self._job.accelerators // key[1]))
        while left and len(fewest) < half:
            fewest.append(first(left))
            left = fewest[-1] - 1
        others = np.geomspace(1, left, half).astype(int).tolist() if left else []
        return sorted({*map(first, others), *fewest})

    def _solver(self, choice: Choice) -> ChainSolver:
        if choice not in self._solvers:
            self._solvers[choice] = ChainSolver(self.problem(choice, None), choice.tensor)
        return self._solvers[choice]

    @cached_property
    def _batch_bounds(self) -> dict[Choice, BatchBound]:
        choices = [
            Choice(*key, hbm_bytes, recompute)
            for key in self._graphs
            for hbm_bytes in self._job.hbm_bytes
            for recompute in (False, True)
        ]
        return {
            choice: BatchBound(self.problem(choice, None), choice.tensor, self._graphs[choice.key].layer_index)
            for choice in choices
        }

    def problem(self, choice: Choice, latencies: LayerLatencies | None) -> PlacementProblem:
        """The placement problem of one choice, with the latencies of one architecture (zeros where None)."""
        job = self._job
        state_factor = job.cost_model.state_factor
        return PlacementProblem(
            name=job.name,
            accelerators=job.accelerators,
            microbatches=job.global_batch // choice.microbatch,
            hbm_bytes=choice.hbm_bytes,
            network_bytes_per_s=job.network_bytes_per_s,
            recompute=choice.recompute,
            state_factor=state_factor,
            gradient_sync_factor=job.cost_model.training.gradient_sync_factor.value,
            tensor_parallel={choice.tensor: _layer_graph(self._graphs[choice.key], latencies, state_factor)},
            pipeline_schedule=job.pipeline_schedule,
            node_accelerators=job.network.node_accelerators,
            node_bytes_per_s=job.node_bytes_per_s,
            recompute_granularity=job.cost_model.training.recompute_granularity.name,
        )


def _layer_graph(graph: ModelGraph, latencies: LayerLatencies | None, state_factor: float) -> LayerGraph:
    """The layers of ``graph`` to be placed.

    A frozen byte counts as 1 / ``state_factor`` weight bytes, so that it takes one byte of memory; its share of the
    gradient synchronisation is time that no real run spends (docs/method/codesign.md).
    """
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
        weight_bytes = layer.weight_bytes + layer.frozen_bytes / state_factor
        layers.append(
            PlacementLayer(name, forward_s, backward_s, weight_bytes, layer.activation_bytes, layer.sliced, update_s)
        )
    return LayerGraph(tuple(layers), tuple((source, target, float(size)) for source, target, size in graph.edges))
