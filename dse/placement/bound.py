"""Lower bounds on ``batch_s`` for many architectures at once.

The co-search bounds tens of thousands of architectures for each microbatch size, memory size, recomputation choice and
width. Memory, transfers, slicing and pipelines do not depend on the architecture, so they are tabled once.

*Chains of equal layers* with at most one other layer at each end (transformers) take the closed form of
:mod:`dse.placement.uniform_bound`: the bound is the optimum, less 1e-12 of it for rounding.

*Other chains* take, over s and the end j of the first stage, the least of
``L · (ceil(M/d) + s − 1) + synchronisation and update of the layers before j``, with L the largest of: the longest
layer; the first stage's own load (layers one after another, and its last gradient's transfer); and an equal share of
the rest, ``(work + transfers over the cuts) / (s − 1)``. With recomputation all but the last stage repeat their forward
pass; as the last one saves at most the share ρ of its own load (the largest forward / (forward + backward) of any
layer), the loads of the rest with it repeated are at most ``(s − 1 + ρ) · L``. Only s and j are taken for which some
split fits memory.
"""

from collections.abc import Sequence

import numpy as np
from numba import njit
from numpy.typing import NDArray

from dse.placement.chain_structure import chain_structure, is_totally_ordered
from dse.placement.problem import PlacementProblem
from dse.placement.uniform_bound import uniform_optimum
from dse.placement.uniform_tables import uniform_run, uniform_tables

_SLACK = 1e-12
"""Relative accuracy of sums of doubles, by which bounds are weakened."""

Latencies = NDArray[np.float64]


class BatchBound:
    """Lower bounds for one problem and width; build it once and call it for many sets of architectures.

    Args:
        problem: the problem; latencies in it are ignored.
        tensor: the width.
        layer_index: for each layer of the width its position among the D distinct layers (L entries).

    Raises:
        ValueError: the layers are not totally ordered, or ``layer_index`` has another length.
    """

    def __init__(self, problem: PlacementProblem, tensor: int, layer_index: Sequence[int]) -> None:
        graph = problem.tensor_parallel[tensor]
        if len(layer_index) != len(graph.layers):
            raise ValueError(f"layer_index must have {len(graph.layers)} entries, but has {len(layer_index)}")
        if not is_totally_ordered(graph):
            raise ValueError(f"the layers of width {tensor} must be totally ordered to be bounded, but they branch")
        self._index = np.array(layer_index, dtype=np.int64)
        self._structure = chain_structure(problem, tensor)
        run = uniform_run(graph, layer_index)
        self._uniform = uniform_tables(problem, self._structure, run) if run else None
        self._splits = _splits(self._structure.last_end)

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
        if limit_s is None:
            limit_s = np.full(forward_s.shape[1], np.inf)
        if self._uniform is not None:
            first, end = self._uniform.run
            parts = [self._ends(values, first, end) for values in (forward_s, backward_s, update_s)]
            forward_s, backward_s, update_s = parts
            bounds = uniform_optimum(self._uniform, forward_s, backward_s, update_s, limit_s * (1.0 + _SLACK))
            return np.minimum(bounds * (1.0 - _SLACK), limit_s)
        structure = self._structure
        cut = np.arange(structure.layers)
        bounds = np.asarray(
            _chain_bounds(
                np.ascontiguousarray(forward_s),
                np.ascontiguousarray(backward_s),
                np.ascontiguousarray(update_s),
                self._index,
                structure.recompute,
                structure.arrival_s[cut, cut],
                np.append(0.0, structure.departure_s[cut[1:], cut[:-1]]),
                self._splits,
                structure.last_end[:, 0],
                structure.plain_stages,
                np.append(0.0, np.cumsum(structure.weight_bytes)),
                structure.choice_offset,
                structure.choice_rounds,
                structure.choice_sync_s_per_byte,
                structure.fewest_passes,
                limit_s * (1.0 + _SLACK),
            )
        )
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


def batch_lower_bound(
    problem: PlacementProblem,
    tensor: int,
    layer_index: Sequence[int],
    forward_s: Latencies,
    backward_s: Latencies,
    update_s: Latencies,
) -> NDArray[np.float64]:
    """:class:`BatchBound` for a single use."""
    return BatchBound(problem, tensor, layer_index)(forward_s, backward_s, update_s)


# Below, numba kernels.
# ruff: noqa: ANN001, ANN202
# mypy: disable-error-code="no-untyped-def,no-untyped-call"


@njit(cache=True)
def _splits(last_end):
    """splits[s, j]: whether the layers from j on split into s stages that fit memory."""
    stage_limit, count = last_end.shape[0] - 1, last_end.shape[1]
    splits = np.zeros((stage_limit + 1, count + 1), dtype=np.bool_)
    splits[0, count] = True
    for stages in range(1, stage_limit + 1):
        for begin in range(count - stages + 1):
            for end in range(begin + 1, last_end[stages, begin] + 1):
                if splits[stages - 1, end]:
                    splits[stages, begin] = True
                    break
    return splits


@njit(cache=True)
def _chain_bounds(
    forward_s,
    backward_s,
    update_s,
    index,
    recompute,
    entering_s,
    leaving_s,
    splits,
    first_end,
    plain_stages,
    prefix_bytes,
    offset,
    rounds,
    sync_s_per_byte,
    fewest_passes,
    limit_s,
):
    """One bound for each column of the latencies."""
    count = len(index)
    stage_limit = len(fewest_passes) - 1
    bounds = np.empty(forward_s.shape[1])
    once, work, update = np.zeros(count + 1), np.zeros(count + 1), np.zeros(count + 1)
    for column in range(forward_s.shape[1]):
        longest, saved = 0.0, 0.0
        for layer in range(count):
            forward, backward = forward_s[index[layer], column], backward_s[index[layer], column]
            single = forward + backward
            once[layer + 1] = once[layer] + single
            work[layer + 1] = work[layer] + (single + forward if recompute else single)
            update[layer + 1] = update[layer] + update_s[index[layer], column]
            longest = max(longest, single)
            if recompute and single > 0.0:
                saved = max(saved, forward / single)
        best = limit_s[column]
        for stages in range(1, stage_limit + 1):
            if max(longest, work[count] / (stages + saved)) * fewest_passes[stages] >= best:
                continue
            best = _stages_bound(
                stages, longest, saved, once, work, update, recompute, entering_s, leaving_s, splits, first_end,
                plain_stages, prefix_bytes, offset, rounds, sync_s_per_byte, best,
            )  # fmt: skip
        bounds[column] = best
    return bounds


@njit(cache=True)
def _stages_bound(
    stages, longest, saved, once, work, update, recompute, entering_s, leaving_s, splits, first_end,
    plain_stages, prefix_bytes, offset, rounds, sync_s_per_byte, best,
):  # fmt: skip
    """The bound for ``stages`` stages, or ``best`` if that is less."""
    count = len(once) - 1
    if not splits[stages, 0]:
        return best
    # the most plain stages leave the most pipelines; one stage at least is sliced where slicing costs accelerators
    row = stages * (plain_stages + 1) + min(plain_stages, stages - 1)
    cut_s = np.inf  # what any cut behind the first stage costs its two sides at least
    for cut in range(2, count):
        cut_s = min(cut_s, entering_s[cut] + (0.0 if recompute else leaving_s[cut]))
    least = np.inf
    for end in range(count if stages == 1 else 1, min(first_end[stages], count - stages + 1) + 1):
        if not splits[stages - 1, end]:
            continue
        load = longest
        if stages == 1:
            load = max(load, once[count])
        else:
            own = work[end] if recompute else work[end] + leaving_s[end]
            rest = work[count] - work[end] + entering_s[end]
            if stages > 2:
                rest += (stages - 2) * cut_s
            load = max(load, own, rest / (stages - 1 + saved))
        for choice in range(offset[row], offset[row + 1]):
            best = min(
                best,
                load * (rounds[choice] + stages - 1) + sync_s_per_byte[choice] * prefix_bytes[end] + update[end],
            )
        least = min(least, load)
        if work[end] >= least:
            break  # a longer first stage only costs more
    return best
