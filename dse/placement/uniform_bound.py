"""The optimum of a chain of equal layers between at most one different layer at each end, in closed form.

Transformers are such chains: an embedding, N equal layers, a head. As a microsecond is enough for one of them, this is
the bound for whole architecture spaces; it equals the optimum up to rounding.

Of s stages the N equal layers fill s_run, and the first layer (*prefix*) either shares the first of these or has a
stage of its own, likewise the last layer (*suffix*): four arrangements. In each, with ``a`` layers in the first stage
of the run, ``z`` in the last and at most ``c`` in every one between, memory allows at most
``G(c) = sum over depths of min(capacity(depth), c)`` layers between, so that a split exists exactly if
``a + z + G(c) ≥ N``. The loads of the three kinds of stages grow with a, z and c. Hence for a given ``a`` the least
load of the rest is where the load of ``c`` layers crosses that of ``z = N − a − G(c)``; and as ``a`` grows from there
on only the load of the first stage grows, while below only gradient synchronisation shrinks.
"""

import numpy as np
from numpy.typing import NDArray

from dse.placement.uniform_tables import UniformTables
from hardware.compiled import compiled, kernel


def uniform_optimum(
    tables: UniformTables,
    forward_s: NDArray[np.float64],
    backward_s: NDArray[np.float64],
    update_s: NDArray[np.float64],
    limit_s: NDArray[np.float64],
) -> NDArray[np.float64]:
    """Optimal ``batch_s`` of A latency assignments, float64[A], or ``limit_s`` (float64[A]) where that is less.

    It is infinite where nothing fits memory. The latencies are float64[3, A]: the seconds of prefix (zeros if there is
    none), an equal layer, and suffix.
    """
    return np.asarray(
        _uniform_optima(
            forward_s,
            backward_s,
            update_s,
            limit_s,
            tables.run[1] - tables.run[0],
            tables.plans,
            tables.choices,
            tables.held,
            tables.transfer_s,
            tables.weight_bytes,
            (tables.recompute, tables.last_recomputes),
        )
    )


# Below, numba kernels. Few arrays are passed, as counting references to many costs more than the arithmetic.
# ``times`` is (forward, backward) of layer, prefix, suffix; ``weights`` (bytes, update) of prefix, layer, suffix;
# ``recompute`` whether the pipeline's stages but the last, and whether that one, repeat their forward pass.
# Kernels carry no annotations: numba infers the types of every call.
# ruff: noqa: ANN001, ANN202
# mypy: disable-error-code="no-untyped-def,no-untyped-call"


@kernel
def _load(forward, backward, arrival, departure, repeats):
    """Load of a stage of a chain from its sums and its two transfers."""
    if repeats:
        return arrival + forward + backward + max(forward, departure)
    return arrival + forward + departure + backward


@kernel
def _plan(plans, arrangement, stages):
    """One row of the plans as numbers."""
    return (
        plans[arrangement, stages, 0], plans[arrangement, stages, 1], plans[arrangement, stages, 2],
        plans[arrangement, stages, 3], plans[arrangement, stages, 4], plans[arrangement, stages, 5],
        plans[arrangement, stages, 6],
    )  # fmt: skip


@kernel
def _batch_s(load, first_bytes, stages, plan, choices):
    """Seconds a batch takes with the best number of pipelines, without the update (convex over the hull's vertices)."""
    best = np.inf
    for choice in range(plan[3] - 1, plan[2] - 1, -1):
        batch_s = load * (choices[choice, 0] + (stages - 1)) + choices[choice, 1] * first_bytes
        if batch_s > best:
            break
        best = batch_s
    return best


@kernel
def _run_load(layers, kind):
    """Load of a stage of ``layers`` equal layers; kind: (end forward, end backward, forward, backward, arrival, …)."""
    end_forward, end_backward, forward, backward, arrival, departure, repeats = kind
    return _load(end_forward + layers * forward, end_backward + layers * backward, arrival, departure, repeats)


@kernel
def _closes(c, needed, last_capacity, low, high, middle, last, held):
    """Whether, with c layers in each stage between, the last stage is no longer the one that limits."""
    left = max(1, needed - (held[high, c] - held[low, c]))
    return left <= last_capacity and _run_load(left, last) <= _run_load(c, middle)


@kernel
def _rest_load(needed, rest, held):
    """Least load with which the run's stages after its first hold ``needed`` layers: ``between`` ones and the last.

    G(c) is ``held[high, c] − held[low, c]``, and ``largest`` the maximum number of layers of any stage between.
    """
    between, last_capacity, low, high, largest, middle, last = rest
    if between == 0:
        return _run_load(needed, last) if needed <= last_capacity else np.inf
    c = min(max((needed + between) // (between + 1), 1), largest)
    while c < largest and not _closes(c, needed, last_capacity, low, high, middle, last, held):
        c += 1
    while c > 1 and _closes(c - 1, needed, last_capacity, low, high, middle, last, held):
        c -= 1
    best = np.inf
    for layers in range(max(1, c - 1), c + 1):  # the last stage limits, or the ones between do
        left = max(1, needed - (held[high, layers] - held[low, layers]))
        if left <= last_capacity:
            best = min(best, max(_run_load(layers, middle), _run_load(left, last)))
    return best


@kernel
def _share_load(plan, ends_pipeline, forward, backward, recompute):
    """What the stages of the run must at least reach; the pipeline's last stage, if among them, may repeat nothing."""
    once = forward + backward
    others_recompute, last_recomputes = recompute
    if not others_recompute:
        return plan[4] * once
    repeated = plan[4] * (once + forward)
    return min(repeated, plan[5] * once) if ends_pipeline and not last_recomputes else repeated


@kernel
def _arranged_bound(floor, kinds, length, run_stages, own_prefix, weights, stages, plan, choices):
    """Bound of a plan whose run fills several stages, by equal shares of work and transfers.

    With a layers in front the rest reaches ``((length − a) · once + behind) / rest_stages`` at least: load and first
    weights are linear in a, so one of two splits is cheapest: one layer in front, or as many as leave the rest no more
    than ``floor``.
    """
    first, middle, last = kinds
    end_bytes, end_update, layer_bytes, layer_update, _, _ = weights
    _, _, forward, backward, inside, _, recompute = middle
    once, rest_stages = forward + backward, run_stages - 1.0
    front, behind = first[0] + first[1] + first[4], last[0] + last[1] + inside * rest_stages
    if recompute:  # late gradients may hide behind the repeated pass
        front += first[0]
        if last[6]:
            behind += last[0]
        elif once > 0.0:
            rest_stages += forward / once  # the pipeline's last stage repeats nothing, at most this share of its load
        once += forward
    else:
        front += inside
        behind += last[5] + inside * (run_stages - 2.0)
    floor = max(floor, (length * once + front + behind) / (rest_stages + 1.0))
    if own_prefix:
        return _batch_s(floor, end_bytes, stages, plan, choices) + end_update
    fewest = max(floor, ((length - 1) * once + behind) / rest_stages)
    bound_s = _batch_s(fewest, end_bytes + layer_bytes, stages, plan, choices) + layer_update
    if fewest > floor and once > 0.0:
        split = max(1.0, length - (floor * rest_stages - behind) / once)
        balanced_s = _batch_s(floor, end_bytes + split * layer_bytes, stages, plan, choices) + split * layer_update
        bound_s = min(bound_s, balanced_s)
    return bound_s + end_update


@kernel
def _arrange(prefix, suffix, stages, length, floor, times, weights, transfers, recompute, best_s, plan, choices, held):
    """Least batch_s of one arrangement of ``stages`` stages, or ``best_s`` if that is less.

    ``floor`` is the load of the ends' own stages.
    """
    forward, backward, prefix_forward, prefix_backward, suffix_forward, suffix_backward = times
    end_bytes, end_update, layer_bytes, layer_update, tail_bytes, tail_update = weights
    entering, inside, leaving, _ = transfers
    others_recompute, last_recomputes = recompute
    begin_forward, begin_backward, arrival = prefix_forward, prefix_backward, 0.0
    if prefix == 1:
        begin_forward, begin_backward, arrival = 0.0, 0.0, entering
    end_forward, end_backward, departure, repeats = suffix_forward, suffix_backward, 0.0, last_recomputes
    if suffix == 1:
        end_forward, end_backward, departure, repeats = 0.0, 0.0, leaving, others_recompute
    run_stages = stages - prefix - suffix
    if run_stages == 1:
        both = (
            begin_forward + end_forward,
            begin_backward + end_backward,
            forward,
            backward,
            arrival,
            departure,
            repeats,
        )
        load = max(floor, _run_load(length, both))
        bytes_, update = end_bytes, end_update
        if prefix == 0:
            shared = 0.0 if suffix == 1 else 1.0
            bytes_ += length * layer_bytes + shared * tail_bytes
            update += length * layer_update + shared * tail_update
        return min(best_s, _batch_s(load, bytes_, stages, plan, choices) + update)
    first = (begin_forward, begin_backward, forward, backward, arrival, inside, others_recompute)
    middle = (0.0, 0.0, forward, backward, inside, inside, others_recompute)
    last = (end_forward, end_backward, forward, backward, inside, departure, repeats)
    share = _share_load(plan, suffix == 0, forward, backward, recompute)
    share = max(floor, share if others_recompute else share + inside)
    kinds = (first, middle, last)
    if _arranged_bound(share, kinds, length, run_stages, prefix == 1, weights, stages, plan, choices) >= best_s:
        return best_s
    rest = (run_stages - 2, plan[1], 1 + suffix, stages - prefix - 1, plan[6], middle, last)
    return _best_first(length, floor, first, rest, prefix == 1, weights, stages, best_s, plan, choices, held)


@kernel
def _best_first(length, floor, first, rest, own_prefix, weights, stages, best_s, plan, choices, held):
    """Least batch_s over the number of layers in the run's first stage, or ``best_s`` if that is less."""
    between, max_first = rest[0], plan[0]
    end_bytes, end_update, layer_bytes, layer_update, _, _ = weights
    a = min(max((length + between + 1) // (between + 2), 1), max_first)
    shared, growing = 0.0 if own_prefix else 1.0, True
    while a >= 1:
        load = max(floor, _rest_load(length - a, rest, held))
        growing = growing and a < max_first and _run_load(a, first) < load
        if growing:
            a += 1
            continue
        whole = max(load, _run_load(a, first))
        update = end_update + shared * a * layer_update
        batch_s = _batch_s(whole, end_bytes + shared * a * layer_bytes, stages, plan, choices) + update
        best_s = min(best_s, batch_s)
        # fewer layers in front leave no less load behind, and save at most the weights of all but one of them
        shorter_s = _batch_s(load, end_bytes + shared * layer_bytes, stages, plan, choices) + end_update
        if _run_load(a, first) <= load and (own_prefix or shorter_s >= best_s):
            break
        a -= 1
    return best_s


@compiled
def _uniform_optima(
    forward_s, backward_s, update_s, limit_s, length, plans, choices, held, transfers, weight_bytes, recompute
):
    """One optimum for each column of the latencies."""
    optima = np.empty(forward_s.shape[1])
    bounds_s = np.empty(plans.shape[1])
    for column in range(forward_s.shape[1]):
        head, layer, tail = forward_s[0, column], forward_s[1, column], forward_s[2, column]
        head_back, layer_back, tail_back = backward_s[0, column], backward_s[1, column], backward_s[2, column]
        times = (layer, layer_back, head, head_back, tail, tail_back)
        weights = (
            weight_bytes[0], update_s[0, column], weight_bytes[1], update_s[1, column],
            weight_bytes[2], update_s[2, column],
        )  # fmt: skip
        head_own = _load(head, head_back, 0.0, transfers[0], recompute[0])
        tail_own = _load(tail, tail_back, transfers[2], 0.0, recompute[1])
        best = limit_s[column]
        promising = _bounds_by_stages(times, weights, length, transfers, recompute, best, plans, choices, bounds_s)
        for turn in range(len(bounds_s)):
            stages = promising if turn == 0 else turn
            if stages == 0 or bounds_s[stages] >= best or (turn == promising and turn > 0):
                continue
            for prefix in range(2):
                for suffix in range(2):
                    plan = _plan(plans, 2 * prefix + suffix, stages)
                    if plan[0] > 0 and plan[2] < plan[3]:
                        floor = max(prefix * head_own, suffix * tail_own)
                        best = _arrange(
                            prefix, suffix, stages, length, floor, times, weights, transfers, recompute, best, plan,
                            choices, held,
                        )  # fmt: skip
        optima[column] = best
    return optima


@kernel
def _bounds_by_stages(times, weights, length, transfers, recompute, limit_s, plans, choices, bounds_s):
    """Fills bounds_s[s], a quick lower bound for s stages; returns the s of the least (0: none is below the limit)."""
    layer, layer_back, head, head_back, tail, tail_back = times
    total = head + head_back + tail + tail_back + length * (layer + layer_back)
    longest = max(layer + layer_back, head + head_back, tail + tail_back)
    saved = 0.0  # a last stage that repeats nothing saves at most this share of its load
    others_recompute, last_recomputes = recompute
    cut = transfers[3] if others_recompute else 2.0 * transfers[3]  # a late gradient may hide behind the repeated pass
    if others_recompute:
        total += head + tail + length * layer
    if others_recompute and not last_recomputes:
        for pair in ((layer, layer_back), (head, head_back), (tail, tail_back)):
            if pair[0] + pair[1] > 0.0:
                saved = max(saved, pair[0] / (pair[0] + pair[1]))
    promising, min_s = 0, limit_s
    for stages in range(1, len(bounds_s)):
        plan = _plan(plans, 4, stages)
        bounds_s[stages] = np.inf
        if plan[0] > 0 and plan[2] < plan[3]:
            share = _share_load(plan, True, layer, layer_back, recompute)
            load = max(longest, share, (total + (stages - 1) * cut) / (stages + saved))
            bounds_s[stages] = load * (choices[plan[3] - 1, 0] + (stages - 1))
            if bounds_s[stages] < min_s:
                bounds_s[stages] = _batch_s(load, weights[0], stages, plan, choices) + weights[1]
                if bounds_s[stages] < min_s:
                    promising, min_s = stages, bounds_s[stages]
    return promising
