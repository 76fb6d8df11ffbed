"""The least load of one stage on several groups of accelerators, over all assignments of its layers to groups.

Each group runs its layers one at a time in the problem's order (:mod:`dse.placement.problem`). The search assigns layer
after layer; it prunes by the longest path behind each finished layer and by the memory of each group, treats groups
that are still empty as one, and starts from a list schedule. It ends at once where the bound (the longest path, or
equal shares of the work) is reached: so with one group for each branch there is almost nothing to search.

In the kernels a *stage* is an array of layer positions in ascending order, ``local[v]`` the place of layer v in it (−1
outside), and ``graph`` what :func:`graph_arrays` returns. ``rules`` is (repeats, recompute, one_by_one, state_factor,
hbm_bytes, stashed): whether this stage repeats its forward pass, whether the problem does, and layer by layer, the
problem's numbers, and the microbatches that the stage stashes.
"""

import numpy as np
from numba import njit
from numpy.typing import NDArray

from dse.placement.problem import LayerGraph
from hardware.compiled import compiled, kernel

Offsets = NDArray[np.int64]
Amounts = NDArray[np.float64]
GraphArrays = tuple[Amounts, Offsets, Offsets, Amounts, Offsets, Offsets, Amounts]


def graph_arrays(graph: LayerGraph, network_bytes_per_s: float) -> GraphArrays:
    """The graph as (layers, in_offset, in_end, in_amount, out_offset, out_end, out_amount).

    ``layers[v]`` is (forward_s, backward_s, weight_bytes, activation_bytes). The in-edges of v are at
    ``in_offset[v] : in_offset[v + 1]``; ``in_end`` is the other layer, ``in_amount`` (seconds, bytes). Likewise out.
    """
    layers = [(layer.forward_s, layer.backward_s, layer.weight_bytes, layer.activation_bytes) for layer in graph.layers]
    arrays = []
    for own, other in ((1, 0), (0, 1)):
        edges = sorted(graph.edges, key=lambda edge: (edge[own], edge[other]))
        offset = np.searchsorted([edge[own] for edge in edges], np.arange(len(layers) + 1)).astype(np.int64)
        ends = np.array([edge[other] for edge in edges], dtype=np.int64)
        amounts = np.array([(edge[2] / network_bytes_per_s, edge[2]) for edge in edges], dtype=np.float64)
        arrays.append((offset, ends, amounts.reshape(-1, 2)))
    (in_offset, in_end, in_amount), (out_offset, out_end, out_amount) = arrays
    return np.array(layers, dtype=np.float64), in_offset, in_end, in_amount, out_offset, out_end, out_amount


# Kernels carry no annotations: numba infers the types of every call.
# ruff: noqa: ANN001, ANN201, ANN202
# mypy: disable-error-code="no-untyped-def,no-untyped-call"


# Loops, not expressions of whole arrays: Numba takes seconds to compile what these need.


@kernel
def _pass_s(stage, local, group_of, layers, part, edges, begin_s, transfers, reverse, free, finish):
    """Fills ``finish`` of every layer in one pass, and returns the last; ``edges`` is what a layer waits for.

    Its latency is ``layers[v, part]``; ``edges`` is (offset, end, amount). ``free`` is scratch space with one entry
    per layer.
    """
    offset, ends, amounts = edges
    latest = begin_s
    for group in range(len(stage)):
        free[group] = begin_s
    for step in range(len(stage)):
        place = len(stage) - 1 - step if reverse else step
        layer = stage[place]
        start = free[group_of[place]]
        for edge in range(offset[layer], offset[layer + 1]):
            other = local[ends[edge]]
            if other >= 0:
                start = max(start, finish[other])
            elif transfers:
                start = max(start, amounts[edge, 0])
        finish[place] = free[group_of[place]] = start + layers[layer, part]
        latest = max(latest, finish[place])
    return latest


@njit
def _passes_s(stage, local, group_of, graph, repeats, forward_share, backward_share):
    """(forward, backward with its repetition) of the stage on the groups ``group_of``: no less than the shares."""
    inward, outward = (graph[1], graph[2], graph[3]), (graph[4], graph[5], graph[6])
    free, finish = np.empty(len(stage)), np.empty(len(stage))
    forward, begin, behind = 0.0, 0.0, 0.0
    for turn in range(3):  # forward, forward once more, backward
        if turn == 1 and not repeats:
            continue
        edges = outward if turn == 2 else inward
        part = 1 if turn == 2 else 0
        latest = _pass_s(stage, local, group_of, graph[0], part, edges, begin, turn != 1, turn == 2, free, finish)
        if turn == 0:
            forward = max(latest, forward_share)
        elif turn == 1:
            begin = max(latest, forward_share)
        else:
            behind = max(latest, begin + backward_share)
    return forward, behind


@njit
def assigned_load(stage, local, group_of, graph, repeats):
    """Load of the stage with its layers on the groups ``group_of``."""
    forward, behind = _passes_s(stage, local, group_of, graph, repeats, 0.0, 0.0)
    return forward + behind


@njit
def load_bounds(stage, local, graph, groups, repeats):
    """Lower bounds of (forward part, backward part with its repetition) on ``groups`` groups."""
    apart = np.empty(len(stage), dtype=np.int64)
    forward_s, backward_s = 0.0, 0.0
    for place in range(len(stage)):
        apart[place] = place
        forward_s += graph[0][stage[place], 0]
        backward_s += graph[0][stage[place], 1]
    return _passes_s(stage, local, apart, graph, repeats, forward_s / groups, backward_s / groups)


@njit
def layer_needs(stage, local, graph, rules):
    """(needs, peaks): bytes that each layer adds to the memory of its group, and those that it needs while it runs.

    A group takes the sum of the needs of its layers and the largest of their peaks. Only where layers are recomputed
    one by one are there peaks above 0.
    """
    layers, in_offset, in_end, in_amount = graph[0], graph[1], graph[2], graph[3]
    _, recompute, one_by_one, state_factor, _, stashed = rules
    needs, peaks = np.empty(len(stage)), np.empty(len(stage))
    for place in range(len(stage)):
        layer = stage[place]
        stash = layers[layer, 3]
        if recompute:
            stash = 0.0
            for edge in range(in_offset[layer], in_offset[layer + 1]):
                if one_by_one or local[in_end[edge]] < 0:
                    stash += in_amount[edge, 1]
        needs[place] = state_factor * layers[layer, 2] + stashed * stash
        peaks[place] = layers[layer, 3] if one_by_one else 0.0
        if not one_by_one:
            needs[place] += layers[layer, 3]
    return needs, peaks


@kernel
def may_fit(needs, peaks, groups, hbm_bytes):
    """Whether the layers may fit the groups: by their sum, each alone, and by how many of the smallest one would."""
    total, peak, largest, smallest = 0.0, 0.0, 0.0, np.inf
    for place in range(len(needs)):
        total += needs[place]
        peak = max(peak, peaks[place])
        largest = max(largest, needs[place] + peaks[place])
        smallest = min(smallest, needs[place])
    if total + peak > groups * hbm_bytes or largest > hbm_bytes:
        return False
    return smallest <= 0.0 or groups * np.floor(hbm_bytes / smallest) >= len(needs)


@compiled
def min_load(stage, local, graph, groups, rules, limit_s, slack, steps):
    """(load, lower, group_of, used): the least load on at most ``groups`` groups, if below ``limit_s``.

    The load is infinite where no assignment fits memory or none is below the limit. ``lower`` bounds it from below: it
    is the load itself unless the search ended after ``steps`` steps, of which ``used`` were taken.
    """
    repeats, hbm_bytes = rules[0], rules[4]
    needs, peaks = layer_needs(stage, local, graph, rules)
    best_of = np.zeros(len(stage), dtype=np.int64)
    best, lower, used = np.inf, np.inf, 0
    if groups == 1:
        if _fits_one(needs, peaks, hbm_bytes):
            best = lower = assigned_load(stage, local, best_of, graph, repeats)
    elif may_fit(needs, peaks, groups, hbm_bytes):
        forward, behind = load_bounds(stage, local, graph, groups, repeats)
        lower = forward + behind
        if lower < limit_s:
            listed, fits = _list_schedule(stage, local, graph, groups, needs, peaks, hbm_bytes)
            if fits:
                best = assigned_load(stage, local, listed, graph, repeats)
                for place in range(len(stage)):
                    best_of[place] = listed[place]
            if best > lower * (1.0 + slack):
                below_s = min(best, limit_s)
                load, used = _search(
                    stage,
                    local,
                    graph,
                    groups,
                    needs,
                    peaks,
                    hbm_bytes,
                    repeats,
                    forward,
                    behind,
                    below_s,
                    slack,
                    best_of,
                    steps,
                )
                best = min(best, load)
            if used <= steps:
                lower = best
    if best >= limit_s:
        best = np.inf
    return best, (lower if lower < limit_s else np.inf), best_of, used


@kernel
def _fits_one(needs, peaks, hbm_bytes):
    """Whether the layers fit a single group."""
    total, peak = 0.0, 0.0
    for place in range(len(needs)):
        total += needs[place]
        peak = max(peak, peaks[place])
    return total + peak <= hbm_bytes


@kernel
def _ready_s(layer, local, finish, graph):
    """When the inputs of a layer are there, in the forward pass."""
    in_offset, in_end, in_amount = graph[1], graph[2], graph[3]
    ready = 0.0
    for edge in range(in_offset[layer], in_offset[layer + 1]):
        other = local[in_end[edge]]
        ready = max(ready, finish[other] if other >= 0 else in_amount[edge, 0])
    return ready


@njit
def _list_schedule(stage, local, graph, groups, needs, peaks, hbm_bytes):
    """Each layer on the group where it starts first (of equal ones, where the wait was shortest); whether it fits."""
    layers = graph[0]
    group_of = np.zeros(len(stage), dtype=np.int64)
    free, filled, finish = np.zeros(groups), np.zeros(groups), np.zeros(len(stage))
    peak = np.zeros(groups)
    for place in range(len(stage)):
        ready = _ready_s(stage[place], local, finish, graph)
        chosen = -1
        for group in range(groups):
            if filled[group] + needs[place] + max(peak[group], peaks[place]) > hbm_bytes:
                continue
            if chosen >= 0:
                start, best_start = max(free[group], ready), max(free[chosen], ready)
                if start > best_start or (start == best_start and free[group] <= free[chosen]):
                    continue
            chosen = group
        if chosen < 0:
            return group_of, False
        group_of[place] = chosen
        filled[chosen] += needs[place]
        peak[chosen] = max(peak[chosen], peaks[place])
        free[chosen] = finish[place] = max(free[chosen], ready) + layers[stage[place], 0]
    return group_of, True


@njit
def _search(
    stage, local, graph, groups, needs, peaks, hbm_bytes, repeats, forward, behind, below_s, slack, best_of, steps
):
    """Depth-first search over assignments for a load below ``below_s``; writes ``best_of``.

    Returns the load (infinite if none was found) and the steps taken; one more than ``steps`` if they did not suffice.
    """
    layers, count = graph[0], len(stage)
    outward = (graph[4], graph[5], graph[6])
    group_of, used = np.empty(count, dtype=np.int64), np.zeros(count + 1, dtype=np.int64)  # groups of layers before
    free_before, filled_before, peak_before = np.zeros(count), np.zeros(count), np.zeros(count)  # to undo
    longest, tail = np.empty(count + 1), np.empty(count)
    free, filled, peak, finish = np.zeros(groups), np.zeros(groups), np.zeros(groups), np.zeros(count)
    for place in range(count):
        group_of[place] = place
    _pass_s(stage, local, group_of, layers, 0, outward, 0.0, False, True, free_before, tail)
    longest[0] = forward
    for place in range(count):
        group_of[place] = -1
        tail[place] -= layers[stage[place], 0]
    best, place, taken = np.inf, 0, 0
    while place >= 0:
        if place == count:
            load = assigned_load(stage, local, group_of, graph, repeats)
            if load < below_s:
                best = below_s = load
                for each in range(count):
                    best_of[each] = group_of[each]
                if best <= (forward + behind) * (1.0 + slack):
                    break
            place -= 1
            continue
        group = group_of[place]
        if group >= 0:  # undo the last try
            free[group] = free_before[place]
            filled[group] = filled_before[place]
            peak[group] = peak_before[place]
        group += 1
        if group > min(used[place], groups - 1):
            group_of[place] = -1
            place -= 1
            continue
        taken += 1
        if taken > steps:
            break
        group_of[place] = group
        free_before[place], filled_before[place], peak_before[place] = free[group], filled[group], peak[group]
        filled[group] += needs[place]
        peak[group] = max(peak[group], peaks[place])
        ready = _ready_s(stage[place], local, finish, graph)
        free[group] = finish[place] = max(free[group], ready) + layers[stage[place], 0]
        longest[place + 1] = max(longest[place], finish[place] + tail[place])
        used[place + 1] = max(used[place], group + 1)
        if filled[group] + peak[group] <= hbm_bytes and longest[place + 1] + behind < below_s:
            place += 1
    return best, taken
