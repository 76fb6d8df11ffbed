"""Exact placement of totally ordered layers: a dynamic program over (position, stages to the end).

For each number of stages s, ``value[s, q, i]`` is the least largest load of splitting the layers from i on into exactly
s stages (q of them plain, where sliced and unsliced layers mix), the paper's ``dp[D][k][s]`` (section 5): with one
number of accelerators a stage, k follows from s and q. The memory rule enters as a last end for each beginning and
depth. The first stage is chosen with the number of pipelines, because gradient synchronisation depends on both.

Two facts make it fast and leave it exact. The best cut balances the stage's load against the rest: the work of a stage
(a bound of its load that ignores transfers) grows with its end, the running minimum of the rest falls with it, and from
where they cross one scans each way only as long as the bound is below the best cut so far. And only a few numbers of
pipelines can be optimal (:mod:`dse.placement.search.pipelines`).

Of placements of equal ``batch_s`` the first by this order is returned: smaller width, fewer stages, more plain stages
(fewer accelerators), earlier end of the first stage, fewer pipelines, and then, stage by stage, the earliest cut that
keeps the largest load of the rest minimal. Under GPipe, where memory depends on the number of pipelines, the program
runs once for each memory rule, with what it found before as its cutoff.
"""

import math
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dse.placement.search.chain_structure import ChainStructure
from hardware.compiled import compiled, kernel

_SLACK = 1e-12
"""Relative accuracy of a sum of doubles; bounds are weakened by it, so that rounding never prunes an optimum."""


@dataclass(frozen=True)
class ChainOptimum:
    """The optimum of one chain: ``cuts`` are the first layers of all stages but the first."""

    batch_s: float
    tensor: int
    data: int
    cuts: tuple[int, ...]


@dataclass(frozen=True)
class ChainLatencies:
    """Seconds of each layer at one width: three contiguous float64 arrays with one entry per layer."""

    forward_s: NDArray[np.float64]
    backward_s: NDArray[np.float64]
    update_s: NDArray[np.float64]


def optimum(widths: Iterable[tuple[ChainStructure, ChainLatencies]], cutoff_s: float = math.inf) -> ChainOptimum | None:
    """The best placement over several widths (given by ascending width); None where none is faster than ``cutoff_s``.

    Under GPipe each structure of a width is given by itself; of equal ones the first wins, so that the roomiest rule
    (fewest microbatches a pipeline) does. It is meant to be called thousands of times: structures are computed once,
    only latencies change.
    """
    best: ChainOptimum | None = None
    for structure, latencies in widths:
        candidate = width_optimum(structure, latencies, cutoff_s)
        if candidate is not None:
            best, cutoff_s = candidate, candidate.batch_s
    return best


def width_optimum(
    structure: ChainStructure, latencies: ChainLatencies, cutoff_s: float = math.inf
) -> ChainOptimum | None:
    """The best placement at one width; None where none fits memory, or none is faster than ``cutoff_s``."""
    batch_s, data, stages, cuts = _solve(
        latencies.forward_s,
        latencies.backward_s,
        latencies.update_s,
        structure.recompute,
        structure.last_recomputes,
        structure.arrival_s,
        structure.departure_s,
        structure.last_end,
        structure.plain_end,
        structure.plain_stages,
        structure.weight_bytes,
        structure.choice_offset,
        structure.choice_data,
        structure.choice_rounds,
        structure.choice_sync_s_per_byte,
        structure.fewest_passes,
        cutoff_s,
        _SLACK,
    )
    if stages == 0:
        return None
    return ChainOptimum(batch_s, structure.tensor, data, tuple(cuts[1:stages].tolist()))


# The kernels below are numba's: every array is indexed as in ChainStructure, and constants come as arguments.
# Kernels carry no annotations: numba infers the types of every call.
# ruff: noqa: ANN001, ANN202
# mypy: disable-error-code="no-untyped-def,no-untyped-call"


@kernel
def _stage_loads(forward_s, backward_s, recompute, last_recomputes, arrival_s, departure_s, loads):
    """Fills loads[i, j], the load of stage [i, j); the last stage is the one with j = n."""
    count = len(forward_s)
    for begin in range(count):
        finish = 0.0
        for layer in range(begin, count):
            finish = max(finish, arrival_s[begin, layer]) + forward_s[layer]
            loads[begin, layer + 1] = finish
    for end in range(1, count + 1):
        finish = 0.0
        backward_work = 0.0
        forward_work = 0.0
        repeats = recompute if end < count else last_recomputes
        for layer in range(end - 1, -1, -1):
            finish = max(finish, departure_s[end, layer]) + backward_s[layer]
            backward_work += backward_s[layer]
            if repeats:
                # with the backward pass held back until the recomputed forward pass ends, a gradient that comes later
                # is the only other thing that can delay it
                forward_work += forward_s[layer]
                loads[layer, end] += max(finish, forward_work + backward_work)
            else:
                loads[layer, end] += finish


@kernel
def _best_cut(begin, first_end, last_end, loads, work, rest, rest_min, limit):
    """Earliest end in first_end … last_end of the least max(load of [begin, end), rest[end]) that is below limit.

    ``work`` are prefix sums that bound loads from below; ``rest_min[j]`` is the least of rest[1 … j].
    """
    low, high = first_end, last_end + 1
    while low < high:  # the first end at which the work of the stage reaches the running minimum of the rest
        middle = (low + high) // 2
        if work[middle] - work[begin] >= rest_min[middle]:
            high = middle
        else:
            low = middle + 1
    best = limit
    best_end = 0
    for end in range(low, last_end + 1):
        if work[end] - work[begin] >= best:
            break
        value = max(loads[begin, end], rest[end])
        if value < best:
            best = value
            best_end = end
    for end in range(low - 1, first_end - 1, -1):
        if rest_min[end] > best:
            break
        value = max(loads[begin, end], rest[end])
        if value < best or (value == best and best_end > 0):
            best = value
            best_end = end
    return best, best_end


@kernel
def _extend(stages, value, cut, rest_mins, loads, work, last_end, plain_end, plain_stages, limit):
    """Fills value[stages] and cut[stages] from value[stages − 1]: one more stage before every suffix."""
    count = loads.shape[0]
    for plain in range(min(plain_stages, stages) + 1):
        for begin in range(1, count - stages + 1):
            best, best_end = limit, 0
            stop = min(last_end[stages, begin], count - stages + 1)
            plain_stop = min(plain_end[begin], stop)
            for part in range(2):  # ends of plain first stages, then of others; one call, which is compiled once
                row = plain - 1 + part
                start = begin + 1 if part == 0 else max(begin + 1, plain_end[begin] + 1)
                last = plain_stop if part == 0 else stop
                if row >= 0 and start <= last:
                    rest, rest_min = value[stages - 1, row], rest_mins[row]
                    candidate, candidate_end = _best_cut(begin, start, last, loads, work, rest, rest_min, best)
                    if candidate_end > 0:
                        best, best_end = candidate, candidate_end
            if best_end > 0:
                value[stages, plain, begin] = best
                cut[stages, plain, begin] = best_end


@kernel
def _best_first_stage(
    stages, plain, value, loads, work, last_end, plain_end, prefix_bytes, prefix_update_s, choices, best_s
):
    """Best (batch_s, d, first end) of ``stages`` stages of which ``plain`` are plain, if faster than ``best_s``."""
    count = loads.shape[0]
    plain_counts = value.shape[1]
    offset, data, rounds, sync_s_per_byte = choices
    row = stages * plain_counts + plain
    best_data, best_end, min_load = 0, 0, np.inf
    if offset[row] == offset[row + 1]:
        return best_s, best_data, best_end
    first_end = count if stages == 1 else 1
    for end in range(first_end, min(last_end[stages, 0], count - stages + 1) + 1):
        if work[end] >= min_load:
            break
        rest_plain = plain - 1 if end <= plain_end[0] else plain
        if rest_plain < 0:
            continue
        load = loads[0, end]
        if stages > 1:
            load = max(load, value[stages - 1, rest_plain, end])
        elif rest_plain > 0:
            continue
        if load >= min_load:  # a longer first stage also synchronises and updates more
            continue
        min_load = load
        for choice in range(offset[row], offset[row + 1]):
            batch_s = (
                load * (rounds[choice] + stages - 1)
                + sync_s_per_byte[choice] * prefix_bytes[end]
                + prefix_update_s[end]
            )
            if batch_s < best_s:
                best_s, best_data, best_end = batch_s, data[choice], end
    return best_s, best_data, best_end


@kernel
def _bounds_ahead(total, longest, fewest_passes, bounds_s, passes):
    """For every s: no placement of s or more stages takes less than bounds_s[s], or makes fewer passes than passes[s].

    A largest load is at least the longest layer and an equal share of all work.
    """
    bounds_s[0], passes[0] = np.inf, np.inf
    bounds_s[len(fewest_passes)], passes[len(fewest_passes)] = np.inf, np.inf
    for stages in range(len(fewest_passes) - 1, 0, -1):
        passes[stages] = min(passes[stages + 1], fewest_passes[stages])
        bounds_s[stages] = min(bounds_s[stages + 1], max(total / stages, longest) * fewest_passes[stages])


@kernel
def _sum_layers(forward_s, backward_s, update_s, weight_bytes, recompute, last_recomputes, slack, sums):
    """Fills sums[:, n], of the first n layers: work, the least work of each, weights and updates; returns the longest
    of the least.

    A loop, not expressions of whole arrays: Numba takes seconds to compile what these need.
    """
    longest = 0.0
    for layer in range(len(forward_s)):
        once = (forward_s[layer] + backward_s[layer]) * (1.0 - slack)
        repeated = once + forward_s[layer] * (1.0 - slack)
        least = repeated if last_recomputes else once  # no stage does less for a layer than the last one
        sums[0, layer + 1] = sums[0, layer] + (repeated if recompute else once)
        sums[1, layer + 1] = sums[1, layer] + least
        sums[2, layer + 1] = sums[2, layer] + weight_bytes[layer]
        sums[3, layer + 1] = sums[3, layer] + update_s[layer]
        longest = max(longest, least)
    return longest


@kernel
def _smallest_so_far(values, smallest):
    """Fills smallest[p, n] with the least of values[p, : n + 1]."""
    for row in range(values.shape[0]):
        least = np.inf
        for place in range(values.shape[1]):
            least = min(least, values[row, place])
            smallest[row, place] = least


@compiled
def _solve(
    forward_s,
    backward_s,
    update_s,
    recompute,
    last_recomputes,
    arrival_s,
    departure_s,
    last_end,
    plain_end,
    plain_stages,
    weight_bytes,
    choice_offset,
    choice_data,
    choice_rounds,
    choice_sync_s_per_byte,
    fewest_passes,
    cutoff_s,
    slack,
):
    """Returns (batch_s, d, number of stages, beginnings of the stages); 0 stages where nothing beats cutoff_s."""
    count = len(forward_s)
    stage_limit = len(fewest_passes) - 1
    sums = np.zeros((4, count + 1))
    longest = _sum_layers(forward_s, backward_s, update_s, weight_bytes, recompute, last_recomputes, slack, sums)
    work, least_work, prefix_bytes, prefix_update_s = sums[0], sums[1], sums[2], sums[3]
    bounds_s, passes = np.empty(stage_limit + 2), np.empty(stage_limit + 2)
    _bounds_ahead(least_work[count], longest, fewest_passes, bounds_s, passes)
    beginnings = np.zeros(stage_limit + 1, dtype=np.int64)
    best_s, best_data, best_stages, best_plain, best_end = cutoff_s, 0, 0, 0, 0
    if bounds_s[1] >= best_s:
        return best_s, best_data, best_stages, beginnings
    choices = (choice_offset, choice_data, choice_rounds, choice_sync_s_per_byte)
    loads = np.empty((count, count + 1))
    _stage_loads(forward_s, backward_s, recompute, last_recomputes, arrival_s, departure_s, loads)
    value = np.empty((stage_limit + 1, plain_stages + 1, count + 1))
    for stages in range(stage_limit + 1):
        for plain in range(plain_stages + 1):
            for begin in range(count + 1):
                value[stages, plain, begin] = np.inf
    cut = np.zeros(value.shape, dtype=np.int64)
    rest_mins = np.empty((plain_stages + 1, count + 1))
    for stages in range(1, stage_limit + 1):
        if bounds_s[stages] >= best_s:
            break
        bound = least_work if stages == 1 else work
        for plain in range(min(plain_stages, stages), -1, -1):
            candidate_s, candidate_data, candidate_end = _best_first_stage(
                stages, plain, value, loads, bound, last_end, plain_end, prefix_bytes, prefix_update_s, choices, best_s
            )
            if candidate_end > 0:
                best_s, best_data, best_end = candidate_s, candidate_data, candidate_end
                best_stages, best_plain = stages, plain
        limit = best_s / passes[stages + 1] * (1.0 + slack)
        if stages == 1:
            _begin(value, cut, loads, last_end, plain_end, plain_stages, limit)
        else:
            _extend(stages, value, cut, rest_mins, loads, work, last_end, plain_end, plain_stages, limit)
        _smallest_so_far(value[stages], rest_mins)
    _trace(best_stages, best_plain, best_end, cut, plain_end, beginnings)
    return best_s, best_data, best_stages, beginnings


@kernel
def _begin(value, cut, loads, last_end, plain_end, plain_stages, limit):
    """Fills value[1]: the last stage alone."""
    count = loads.shape[0]
    for begin in range(1, count):
        plain = 1 if plain_stages > 0 and plain_end[begin] == count else 0
        if last_end[1, begin] == count and loads[begin, count] <= limit:
            value[1, plain, begin] = loads[begin, count]
            cut[1, plain, begin] = count


@kernel
def _trace(stages, plain, first_end, cut, plain_end, beginnings):
    """Writes where each stage begins, following the cuts from the end of the first stage."""
    begin, end = 0, first_end
    for position in range(1, stages):
        plain -= 1 if end <= plain_end[begin] else 0
        beginnings[position] = end
        begin, end = end, cut[stages - position, plain, end]
