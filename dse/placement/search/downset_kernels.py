"""Numba kernels of :mod:`dse.placement.search.downset_dp`.

A *pair* (D, E) of downsets, D ⊂ E, stands for the stage E − D. The pairs of D are at ``offset[D] : offset[D + 1]``,
``target`` is E and ``bound`` a lower bound of the stage's load on as many groups as are ever useful. ``rules`` is
(recompute, last_recomputes, one_by_one, state_factor, hbm_bytes, stashes, growth): ``recompute`` says whether the
stages but the last repeat their forward pass, ``last_recomputes`` whether that one does, and ``one_by_one`` whether
they do so layer by layer; the s-th stage from the end stashes
``stashes + growth · (s − 1)`` microbatches. Accelerators are counted in the unit of the caller.
"""

import numpy as np
from numba import njit

from dse.placement.search.stage_groups import layer_needs, load_bounds, may_fit, min_load
from hardware.compiled import compiled, kernel

# Kernels carry no annotations: numba infers the types of every call.
# ruff: noqa: ANN001, ANN201, ANN202
# mypy: disable-error-code="no-untyped-def,no-untyped-call"


@njit
def _stage_of(member, small, large, local):
    """The layers of ``large`` that are not in ``small``; fills ``local``. Empty where ``small`` is not a subset."""
    count = 0
    for layer in range(member.shape[1]):
        local[layer] = -1
        if member[small, layer]:
            if not member[large, layer]:
                return np.empty(0, dtype=np.int64)
        elif member[large, layer]:
            local[layer] = count
            count += 1
    stage = np.empty(count, dtype=np.int64)
    for layer in range(member.shape[1]):
        if local[layer] >= 0:
            stage[local[layer]] = layer
    return stage


@njit
def _doubled(values):
    """``values`` with as many again behind them, of any value."""
    doubled = np.empty(2 * len(values), dtype=values.dtype)
    for place in range(len(values)):
        doubled[place] = values[place]
    return doubled


@compiled(error_model="numpy")
def stage_pairs(member, graph, rules, width, limit_s):
    """(offset, target, least) of all pairs whose stage may fit memory and have a load below ``limit_s``."""
    downsets = len(member)
    recompute, last_recomputes, one_by_one, state_factor, hbm_bytes, stashes, _ = rules
    offset = np.zeros(downsets + 1, dtype=np.int64)
    target, bound = np.empty(1024, dtype=np.int64), np.empty(1024)
    local = np.empty(member.shape[1], dtype=np.int64)
    count = 0
    for small in range(downsets):
        for large in range(small + 1, downsets):
            stage = _stage_of(member, small, large, local)
            if len(stage) == 0:
                continue
            stage_rules = (False, recompute, one_by_one, state_factor, hbm_bytes, stashes)
            needs, peaks = layer_needs(stage, local, graph, stage_rules)
            if not may_fit(needs, peaks, width, hbm_bytes):
                continue
            repeats = recompute if large < downsets - 1 else last_recomputes
            forward, behind = load_bounds(stage, local, graph, width, repeats)
            if forward + behind >= limit_s:
                continue
            if count == len(target):
                target, bound = _doubled(target), _doubled(bound)
            target[count], bound[count] = large, forward + behind
            count += 1
        offset[small + 1] = count
    return offset, target[:count], bound[:count]


@njit
def _fits_to(stage, local, group_of, graph, rules, from_end, stage_limit):
    """A number of stages from the end up to which this assignment fits memory."""
    recompute, _, one_by_one, state_factor, hbm_bytes, stashes, growth = rules
    stashed = stashes + growth * (from_end - 1)
    fixed = (False, recompute, one_by_one, state_factor, hbm_bytes)
    now, peaks = layer_needs(stage, local, graph, (*fixed, stashed))
    then, _ = layer_needs(stage, local, graph, (*fixed, stashed + growth))
    depth, groups = stage_limit, 0
    for place in range(len(stage)):
        groups = max(groups, group_of[place] + 1)
    for group in range(groups):
        need, peak, more = 0.0, 0.0, 0.0
        for place in range(len(stage)):
            if group_of[place] == group:
                need += now[place]
                peak = max(peak, peaks[place])
                more += then[place] - now[place]
        if more > 0.0:
            # one less than what division gives, as it rounds: then the stage is searched again, no more
            depth = min(depth, from_end + max(0, int((hbm_bytes - need - peak) / more) - 1))
    return depth


@compiled(error_model="numpy")
def solve_downsets(
    member, graph, rules, width, slots, pairs, first_costs, choices, passes, incumbent_s, slack, steps, optimistic,
    value, cut, flag,
):  # fmt: skip
    """Fills ``value[s, D, k]`` and ``cut[s, D, k] = (pair, groups)``; returns the best first stage.

    The answer is (batch_s, largest load, stages, accelerators, choice, pair, groups), with 0 stages where nothing is
    faster than the incumbent, and whether every stage was searched to its end. With ``optimistic``, a stage that was
    not counts with its lower bound. ``steps`` is (limit of one search, limit of all together); ``passes[s]`` the fewest
    passes of s or more stages; ``slots[v]`` the accelerators of a group that runs layer v (at least). ``flag``, [1],
    ends it before (:mod:`dse.run.watched`).
    """
    offset, target, bound = pairs
    recompute, last_recomputes, one_by_one, state_factor, hbm_bytes, stashes, growth = rules
    stage_limit = value.shape[0] - 1
    known = np.empty((len(target), width + 1))  # loads found so far, and up to which depth they hold
    known_to = np.zeros((len(target), width + 1), dtype=np.int64)
    local = np.empty(member.shape[1], dtype=np.int64)
    best = (incumbent_s, 0.0, 0, 0, 0, 0, 0)
    complete, left = True, steps[1]
    for accelerators in range(value.shape[2]):
        value[0, len(member) - 1, accelerators] = 0.0
    for stages in range(1, stage_limit + 1):
        stashed = stashes + growth * (stages - 1)
        repeats = recompute if stages > 1 else last_recomputes
        stage_rules = (repeats, recompute, one_by_one, state_factor, hbm_bytes, stashed)
        for small in range(len(member) - 1):
            for pair in range(offset[small], offset[small + 1]):
                rest = value[stages - 1, target[pair]]
                limit_s = best[0] / passes[stages if small == 0 else stages + 1] * (1.0 + slack)
                if flag[0]:
                    return best, False
                if bound[pair] >= limit_s or rest[-1] >= limit_s:
                    continue
                stage = _stage_of(member, small, target[pair], local)
                size = slots[stage[0]]
                for layer in stage:
                    size = max(size, slots[layer])
                for groups in range(1, min(width, len(stage)) + 1):
                    if groups * size >= len(rest):
                        break
                    if known_to[pair, groups] < stages:
                        load, lower, group_of, used = min_load(
                            stage, local, graph, groups, stage_rules, limit_s, slack, min(steps[0], left)
                        )
                        left -= min(used, left)
                        complete = complete and lower == load
                        load = lower if optimistic else load
                        known[pair, groups] = load
                        known_to[pair, groups] = stage_limit
                        if load < np.inf:
                            known_to[pair, groups] = _fits_to(stage, local, group_of, graph, rules, stages, stage_limit)
                    load = known[pair, groups]
                    if load == np.inf:
                        continue
                    if small == 0:
                        front = (stages, pair, groups, target[pair])
                        best = _first(best, load, rest, groups * size, front, first_costs, choices)
                    else:
                        place = (pair, groups)
                        _relax(load, rest, groups * size, limit_s, place, value[stages, small], cut[stages, small])
                    if load <= bound[pair] * (1.0 + slack):
                        break  # more groups cannot shorten the stage
    return best, complete


@kernel
def _relax(load, rest, used, limit_s, place, value, cut):
    """Improves the values of one downset by a stage before ``rest``."""
    for accelerators in range(used, len(rest)):
        candidate = max(load, rest[accelerators - used])
        if candidate < value[accelerators] and candidate < limit_s:
            value[accelerators] = candidate
            cut[accelerators, 0], cut[accelerators, 1] = place


@kernel
def _first(best, load, rest, used, place, first_costs, choices):
    """The better of ``best`` and the placements that begin with this stage."""
    stages, pair, groups, end = place
    first_bytes, first_update_s = first_costs
    offset, rounds, sync_s_per_byte = choices
    lowest = np.inf
    for accelerators in range(used, len(rest)):
        largest = max(load, rest[accelerators - used])
        if largest >= lowest:
            continue
        lowest = largest
        for choice in range(offset[accelerators], offset[accelerators + 1]):
            batch_s = largest * (rounds[choice] + stages - 1)
            batch_s += sync_s_per_byte[choice] * first_bytes[end] + first_update_s[end]
            if batch_s < best[0]:
                best = (batch_s, largest, stages, accelerators, choice, pair, groups)
    return best
