"""Kernels of :mod:`dse.parallel.pipeline.exact` that bound the first microbatch and exposed all-reduces together.

What is exposed is at least any weighted mean of 0 and of what each stage alone would expose. With weights μ_s ≥ 0,
Σ μ_s ≤ 1, and v_s the sum of the weights of all stages behind stage s,

    Σ (F + B + 2 X) + max(0, max_s (AR_s - Σ_{t<s} (B_t + X_t)))
        ≥ Σ_s (F_s + B_s + 2 X_s - v_s (B_s + X_s) + μ_s AR_s)

The right side is a sum over stages, whose minimum a dynamic program finds (:func:`_tails`). :func:`together` raises it
along the subgradient, which is what each stage would expose at the minimum, by steps of Polyak (1969).

An all-reduce depends on the *cells* of the cuts of its stage: between cuts of a cell no trained tensor is read. Where
cells were merged, it is at least that from the last cut of the one to the first cut of the other.
"""

# ruff: noqa: ANN001, ANN201, ANN202
# mypy: disable-error-code="no-untyped-def,no-untyped-call"

import numpy as np
from numba import njit

from dse.parallel.pipeline.cut_kernels import stage_closing_s
from hardware.compiled import compiled

_BEYOND = 1.1
"""What steps aim at, as a multiple of the target: aimed at the target itself, they come near it and never reach it."""


@njit(cache=False)
def _add_closings(case, stage, window, cell, edges, closing):
    """Fill in the least closing of a stage between all cells that its cuts can be in, [K, G, G]."""
    for start in range(cell[window[0, stage]], cell[window[1, stage]] + 1):
        for end in range(max(start + 1, cell[window[0, stage + 1]]), cell[window[1, stage + 1]] + 1):
            closing[stage, start, end] = stage_closing_s(case, stage, edges[start + 1] - 1, edges[end])


@njit(cache=False)
def _tails(case, cap_s, window, cell, edges, closing, weights):
    """Least weighted seconds from each cut, the start of each stage, on; and its best end: [K + 1, N + 1].

    Infinite where a cap or the rule of variables leaves no way; of memory, a stage may end as far as any that begins at
    or before its start, so that finite seconds need not be those of a plan. O(K (N + G²)), G cells; in merged cells,
    as many steps more as cuts of one cell.
    """
    stages, points = len(case.share), case.work_s.shape[1] - 1
    tail_s = np.full((stages + 1, points + 1), np.inf)
    best_end = np.full((stages + 1, points + 1), -1, dtype=np.int64)
    tail_s[stages, points] = 0.0
    value_s, least = np.empty(points + 1), np.empty(points + 1, dtype=np.int64)
    behind = 0.0
    for stage in range(stages - 1, -1, -1):
        work_s, back_s, send_s = case.work_s[stage], case.backward_s[stage], case.send_s[stage]
        low, high, weight = window[0, stage + 1], window[1, stage + 1], weights[stage]
        for end in range(low, high + 1):
            value_s[end] = np.inf
            if 2 * send_s[end] <= cap_s:
                value_s[end] = work_s[end] - behind * back_s[end] + (2 - behind) * send_s[end] + tail_s[stage + 1, end]
            least[end] = end
            if end > low and cell[end - 1] == cell[end] and value_s[least[end - 1]] <= value_s[end]:
                least[end] = least[end - 1]  # in its cell up to here
        reach, furthest, passed, start_cell = low - 1, 0, 0, -1
        best_s, best = np.inf, -1
        for start in range(window[0, stage], window[1, stage] + 1):
            furthest = max(furthest, case.fits[stage, start])
            while reach < min(high, furthest) and work_s[reach + 1] - work_s[start] <= cap_s:
                reach += 1
            if cell[start] != start_cell:
                start_cell = cell[start]
                passed, best_s, best = max(start_cell + 1, cell[low]), np.inf, -1
            if reach < low:
                continue
            while passed < cell[reach]:  # whole cells
                end = least[edges[passed + 1] - 1]
                seconds = value_s[end] + weight * closing[stage, start_cell, passed]
                if seconds < best_s:
                    best_s, best = seconds, end
                passed += 1
            least_s, end = best_s, best
            if cell[reach] > start_cell:
                seconds = value_s[least[reach]] + weight * closing[stage, start_cell, cell[reach]]
                if seconds < least_s:
                    least_s, end = seconds, least[reach]
            last = min(edges[start_cell + 1] - 1, high)
            if case.variables[last] != case.variables[start]:  # a cell of several trained tensors
                for inner in range(max(start + 1, low), last + 1):
                    if value_s[inner] < least_s:
                        least_s, end = value_s[inner], inner
            if end >= 0:
                tail_s[stage, start] = least_s - work_s[start] + behind * back_s[start]
                best_end[stage, start] = end
        behind += weight
    return tail_s, best_end


@njit(cache=False)
def _onto_simplex(weights):
    """The nearest weights that are not negative and have a sum of 1 (Held, Wolfe, Crowder 1974)."""
    total, level = 0.0, 0.0
    for count, weight in enumerate(np.sort(weights)[::-1]):
        total += weight
        if weight - (total - 1) / (count + 1) > 0:
            level = (total - 1) / (count + 1)
    return np.maximum(weights - level, 0.0)


@njit(cache=False)
def _exposures(case, cuts):
    """(first microbatch, slowest, what each stage alone would expose and 0 behind them) of a plan."""
    stages = len(case.share)
    exposed_s, first_s, slowest_s, drain_s = np.zeros(stages + 1), 0.0, 0.0, 0.0
    for stage in range(stages):
        start, end = cuts[stage], cuts[stage + 1]
        work_s, send_s = case.work_s[stage, end] - case.work_s[stage, start], case.send_s[stage, end]
        exposed_s[stage] = stage_closing_s(case, stage, start, end) - drain_s
        drain_s += case.backward_s[stage, end] - case.backward_s[stage, start] + send_s
        first_s += work_s + 2 * send_s
        slowest_s = max(slowest_s, work_s, 2 * send_s)
    return first_s, slowest_s, exposed_s


@compiled
def together(case, cap_s, window, cell, edges, weights, target_s, max_steps, flag):
    """Raise the least seconds of a first microbatch and what is exposed, under a cap, towards a target.

    Args:
        case: the points and devices,
        cap_s: with no stage or cut above it,
        window: and every cut in its window.
        cell: of each cut, [N + 1].
        edges: the first cut of each cell, and N + 1, [G + 1].
        weights: to begin with, of what each stage exposes and of 0; their sum is 1, [K + 1].
        target_s: above which no bound is of use.
        max_steps: of the subgradient.
        flag: whether to end early; what is returned then means nothing.

    Returns:
        (bound, its weights, its tails [K + 1, N + 1], cuts of the shortest plan on the way [K + 1], its length); the
        plan may need more memory than there is.
    """
    stages, cells = len(case.share), len(edges) - 1
    closing, has_closing = np.zeros((stages, cells, cells)), np.zeros(stages, dtype=np.bool_)
    bound_s, bound_weights, bound_tail_s = -np.inf, weights, np.empty((0, 0))
    cuts, plan, plan_s = np.zeros(stages + 1, dtype=np.int64), np.zeros(stages + 1, dtype=np.int64), np.inf
    for _ in range(max_steps):
        for stage in range(stages):
            if flag[0]:
                break
            if weights[stage] > 0 and not has_closing[stage]:
                _add_closings(case, stage, window, cell, edges, closing)
                has_closing[stage] = True
        if flag[0]:
            break
        tail_s, ends = _tails(case, cap_s, window, cell, edges, closing, weights)
        seconds = tail_s[0, 0]
        if seconds > bound_s:
            bound_s, bound_weights, bound_tail_s = seconds, weights, tail_s
        if not seconds < target_s:
            break
        for stage in range(stages):
            cuts[stage + 1] = ends[stage, cuts[stage]]
        first_s, slowest_s, exposed_s = _exposures(case, cuts)
        length_s = first_s + (case.microbatches - 1) * slowest_s + exposed_s.max()
        if length_s < plan_s:
            plan, plan_s = cuts.copy(), length_s
        slope = exposed_s - exposed_s.mean()
        steepness = (slope * slope).sum()
        if steepness == 0 or first_s + exposed_s.max() <= seconds * (1 + 1e-12):  # no weights have a higher minimum
            break
        aim_s = _BEYOND * min(target_s, first_s + exposed_s.max())
        weights = _onto_simplex(weights + (aim_s - seconds) / steepness * slope)
    return bound_s, bound_weights, bound_tail_s, plan, plan_s
