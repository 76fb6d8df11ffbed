"""Lower bounds on ``batch_s`` for many architectures at once.

The co-search bounds tens of thousands of architectures for each microbatch size, memory size, recomputation choice and
width. Memory, transfers, slicing and pipelines do not depend on the architecture, so they are tabled once.

*Chains of equal layers* with at most one other layer at each end (transformers) take the closed form of
:mod:`dse.placement.uniform_bound`: the bound is the optimum, less 1e-12 of it for rounding.

*Other chains* take the bound of :mod:`dse.placement.chain_bound`.

Under GPipe, where memory depends on the number of pipelines, the bound is the least over the memory rules, each bounded
up to the least of those before.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from dse.placement.chain_bound import chain_bounds
from dse.placement.problem import PlacementProblem
from dse.placement.search.chain_structure import ChainStructure, chain_structures, is_totally_ordered
from dse.placement.uniform_bound import uniform_optimum
from dse.placement.uniform_tables import UniformTables, uniform_run, uniform_tables

_SLACK = 1e-12
"""Relative accuracy of sums of doubles, by which bounds are weakened."""

Latencies = NDArray[np.float64]


class BatchBound:
    """Lower bounds for one problem and width; build it once and call it for many sets of architectures.

    Args:
        problem: the problem; latencies in it are ignored.
        tensor: the width.
        layer_index: for each layer of the width its position among the D distinct layers (L entries).
        max_pipelines: bound only placements with at most so many pipelines (any number by default).

    Raises:
        ValueError: the layers are not totally ordered, or ``layer_index`` has another length.
    """

    def __init__(
        self, problem: PlacementProblem, tensor: int, layer_index: Sequence[int], max_pipelines: int | None = None
    ) -> None:
        graph = problem.tensor_parallel[tensor]
        if len(layer_index) != len(graph.layers):
            raise ValueError(f"layer_index must have {len(graph.layers)} entries, but has {len(layer_index)}")
        if not is_totally_ordered(graph):
            raise ValueError(f"the layers of width {tensor} must be totally ordered for a bound, but they branch")
        self._index = np.array(layer_index, dtype=np.int64)
        structures = chain_structures(problem, tensor, max_pipelines)
        run = uniform_run(graph, layer_index)
        self._parts = [
            (structure, uniform_tables(problem, structure, run) if run else None) for structure in structures
        ]

    def __call__(
        self,
        forward_s: Latencies,
        backward_s: Latencies,
        update_s: Latencies,
        limit_s: NDArray[np.float64] | None = None,
    ) -> NDArray[np.float64]:
        """Bounds on the optimal ``batch_s`` of A architectures: float64[A], infinite where nothing fits memory.

        With ``limit_s``, the lesser of bound and limit: the least bound over several problems is then found several
        times as fast.

        Args:
            forward_s: seconds of each distinct layer on each architecture, float64[D, A].
            backward_s: the same for the backward pass.
            update_s: the same for the optimizer step.
            limit_s: what bounds are needed up to, float64[A] (none by default).
        """
        bounds = np.full(forward_s.shape[1], np.inf) if limit_s is None else limit_s
        for structure, tables in self._parts:
            bounds = self._bound(structure, tables, (forward_s, backward_s, update_s), bounds)
        return bounds

    def _bound(
        self,
        structure: ChainStructure,
        tables: UniformTables | None,
        latencies: tuple[Latencies, Latencies, Latencies],
        limit_s: NDArray[np.float64],
    ) -> NDArray[np.float64]:
        """The bounds of one structure, or ``limit_s`` where that is less."""
        loose_s = limit_s * (1.0 + _SLACK)
        if tables is None:
            bounds = chain_bounds(structure, self._index, *latencies, loose_s)
        else:
            forward_s, backward_s, update_s = (self._ends(values, *tables.run) for values in latencies)
            bounds = uniform_optimum(tables, forward_s, backward_s, update_s, loose_s)
        return np.asarray(np.minimum(bounds * (1.0 - _SLACK), limit_s))

    def _ends(self, values: Latencies, first: int, end: int) -> Latencies:
        """Prefix, equal layer and suffix of [D, A] values as [3, A]; zeros for an end that does not exist."""
        index = self._index
        return np.stack(
            [
                values[index[0]] if first else np.zeros(values.shape[1]),
                values[index[first]],
                values[index[-1]] if end < len(index) else np.zeros(values.shape[1]),
            ]
        )
