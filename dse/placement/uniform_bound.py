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
from numba import njit
from numpy.typing import NDArray

from dse.placement.uniform_tables import UniformTables


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
            tables.first_capacity,
            tables.last_capacity,
            tables.choice_offset,
            tables.choice_rounds,
            tables.choice_sync_s_per_byte,
            tables.capacity,
            tables.capacity_sum,
            tables.least_share,
            tables.least_last,
            tables.fewest_passes,
            tables.transfer_s,
            tables.weight_bytes,
            tables.recompute,
        )
    )


# Below, numba kernels. ``times`` is (forward, backward) of prefix, layer, suffix: six numbers, and three updates.
# ruff: noqa: ANN001, ANN202
# mypy: disable-error-code="no-untyped-def,no-untyped-call"


@njit(cache=True)
def _load(forward, backward, arrival, departure, repeats):
    """Load of a stage of a chain from its sums and its two transfers."""
    if repeats:
        return arrival + forward + backward + max(forward, departure)
    return arrival + forward + departure + backward


@njit(cache=True)
def _batch_s(load, first_bytes, choices, rounds, sync_s_per_byte):
    """Seconds a batch takes with the best number of pipelines, without the update (convex over the hull's vertices)."""
    stages, begin, end = choices
    best = np.inf
    for choice in range(end - 1, begin - 1, -1):
        batch_s = load * (rounds[choice] + stages - 1) + sync_s_per_byte[choice] * first_bytes
        if batch_s > best:
            break
        best = batch_s
    return best


@njit(cache=True)
def _run_load(layers, kind):
    """Load of a stage of ``layers`` equal layers; kind: (end forward, end backward, forward, backward, arrival, …)."""
    end_forward, end_backward, forward, backward, arrival, departure, repeats = kind
    return _load(end_forward + layers * forward, end_backward + layers * backward, arrival, departure, repeats)


@njit(cache=True)
def _closes(c, needed, last_capacity, low, high, middle, last, held):
    """Whether, with c layers in each stage between, the last stage is no longer the one that limits."""
    left = max(1, needed - (held[high, c] - held[low, c]))
    return left <= last_capacity and _run_load(left, last) <= _run_load(c, middle)


@njit(cache=True)
def _rest_load(needed, rest, held):
    """Least load with which the run's stages after its first hold ``needed`` layers: ``between`` ones and the last.

    G(c) is ``held[high, c] − held[low, c]``, and ``largest`` the most layers of any stage between.
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


@njit(cache=True)
def _share_load(stages, ends_pipeline, forward, backward, recompute, least_share, least_last):
    """What the stages of the run must at least reach; the pipeline's last stage, if among them, repeats nothing."""
    once = forward + backward
    if not recompute:
        return least_share[stages] * once
    repeated = least_share[stages] * (once + forward)
    return min(repeated, least_last[stages] * once) if ends_pipeline else repeated


@njit(cache=True)
def _least_shared(floor, run_stages, length, ends, forward, backward, recompute, weights, choices, rounds, sync):
    """Bound of the arrangements whose first stage holds layers of the run, by equal shares of the rest.

    With a layers in front the rest reaches ``(length − a) · once / rest_stages`` at least: load and first weights are
    linear in a, so one of two splits is cheapest: one layer in front, or as many as leave the rest ``floor``.
    """
    end_bytes, end_update, layer_bytes, layer_update, _, _ = weights
    once, behind, rest_stages = forward + backward, ends[0] + ends[1], run_stages - 1.0
    if recompute and once > 0.0:
        if ends[3]:
            behind += ends[0]
        else:
            rest_stages += forward / once  # the pipeline's last stage repeats nothing, at most this share of its load
        once += forward
    fewest = max(floor, ((length - 1) * once + behind) / rest_stages)
    least_s = _batch_s(fewest, end_bytes + layer_bytes, choices, rounds, sync) + layer_update
    if fewest > floor and once > 0.0:
        split = max(1.0, length - (floor * rest_stages - behind) / once)
        balanced_s = _batch_s(floor, end_bytes + split * layer_bytes, choices, rounds, sync) + split * layer_update
        least_s = min(least_s, balanced_s)
    return least_s + end_update


@njit(cache=True)
def _arrange(
    prefix,
    suffix,
    stages,
    length,
    floor,
    times,
    weights,
    transfers,
    recompute,
    best_s,
    first_capacity,
    last_capacity,
    offset,
    rounds,
    sync,
    capacity,
    held,
    least_share,
    least_last,
):
    """Least batch_s of one arrangement of ``stages`` stages, or ``best_s`` if that is less.

    ``floor`` is the load of the ends' own stages; ``weights`` are (bytes, update) of prefix, equal layer and suffix.
    """
    forward, backward, prefix_forward, prefix_backward, suffix_forward, suffix_backward = times
    end_bytes, end_update, layer_bytes, layer_update, tail_bytes, tail_update = weights
    entering, inside, leaving, _ = transfers
    row = (2 * prefix + suffix) * first_capacity.shape[1] + stages
    most_first, most_last = first_capacity[2 * prefix + suffix, stages], last_capacity[2 * prefix + suffix, stages]
    low, high = offset[row], offset[row + 1]
    if most_first == 0 or low == high:
        return best_s
    begins = (0.0, 0.0, entering) if prefix == 1 else (prefix_forward, prefix_backward, 0.0)
    ends = (0.0, 0.0, leaving, recompute) if suffix == 1 else (suffix_forward, suffix_backward, 0.0, False)
    run_stages = stages - prefix - suffix
    floor = max(floor, _share_load(run_stages, suffix == 0, forward, backward, recompute, least_share, least_last))
    choices = (stages, low, high)
    least_s = _batch_s(floor, end_bytes, choices, rounds, sync) + end_update
    if prefix == 0 and run_stages > 1:
        least_s = _least_shared(
            floor, run_stages, length, ends, forward, backward, recompute, weights, choices, rounds, sync
        )
    if least_s >= best_s:
        return best_s
    if run_stages == 1:
        both = (begins[0] + ends[0], begins[1] + ends[1], forward, backward, begins[2], ends[2], ends[3])
        load = max(floor, _run_load(length, both))
        bytes_, update = end_bytes, end_update
        if prefix == 0:
            shared = 0.0 if suffix == 1 else 1.0
            bytes_ += length * layer_bytes + shared * tail_bytes
            update += length * layer_update + shared * tail_update
        return min(best_s, _batch_s(load, bytes_, choices, rounds, sync) + update)
    if most_last == 0:
        return best_s
    first = (begins[0], begins[1], forward, backward, begins[2], inside, recompute)
    last = (ends[0], ends[1], forward, backward, inside, ends[2], ends[3])
    middle = (0.0, 0.0, forward, backward, inside, inside, recompute)
    between = run_stages - 2
    largest = capacity[2 + suffix] if between > 0 else 0
    if between > 0 and capacity[stages - prefix - 1] == 0:
        return best_s
    most_first = min(most_first, length - 1 - between)
    rest = (between, most_last, 1 + suffix, stages - prefix - 1, largest, middle, last)
    return _best_first(
        most_first, length, floor, first, rest, prefix == 1, weights, choices, best_s, held, rounds, sync
    )


@njit(cache=True)
def _best_first(most_first, length, floor, first, rest, own_prefix, weights, choices, best_s, held, rounds, sync):
    """Least batch_s over the number of layers in the run's first stage, or ``best_s`` if that is less."""
    between = rest[0]
    end_bytes, end_update, layer_bytes, layer_update, _, _ = weights
    a = min(max((length + between + 1) // (between + 2), 1), most_first)
    load = max(floor, _rest_load(length - a, rest, held))
    while a < most_first and _run_load(a, first) < load:
        a += 1
        load = max(floor, _rest_load(length - a, rest, held))
    shared = 0.0 if own_prefix else 1.0
    while a >= 1:
        whole = max(load, _run_load(a, first))
        update = end_update + shared * a * layer_update
        batch_s = _batch_s(whole, end_bytes + shared * a * layer_bytes, choices, rounds, sync) + update
        best_s = min(best_s, batch_s)
        # fewer layers in front leave no less load behind, and save at most the weights of all but one of them
        least_s = _batch_s(load, end_bytes + shared * layer_bytes, choices, rounds, sync) + end_update
        if _run_load(a, first) <= load and (own_prefix or least_s >= best_s):
            break
        a -= 1
        load = max(floor, _rest_load(length - a, rest, held))
    return best_s


@njit(cache=True)
def _uniform_optima(
    forward_s,
    backward_s,
    update_s,
    limit_s,
    length,
    first_capacity,
    last_capacity,
    choice_offset,
    choice_rounds,
    choice_sync_s_per_byte,
    capacity,
    capacity_sum,
    least_share,
    least_last,
    fewest_passes,
    transfers,
    weight_bytes,
    recompute,
):
    """One optimum for each column of the latencies."""
    stage_limit = first_capacity.shape[1] - 1
    optima = np.empty(forward_s.shape[1])
    least_s = np.empty(stage_limit + 1)
    for column in range(forward_s.shape[1]):
        head, layer, tail = forward_s[0, column], forward_s[1, column], forward_s[2, column]
        head_back, layer_back, tail_back = backward_s[0, column], backward_s[1, column], backward_s[2, column]
        times = (layer, layer_back, head, head_back, tail, tail_back)
        weights = (
            weight_bytes[0], update_s[0, column], weight_bytes[1], update_s[1, column],
            weight_bytes[2], update_s[2, column],
        )  # fmt: skip
        own = (_load(head, head_back, 0.0, transfers[0], recompute), _load(tail, tail_back, transfers[2], 0.0, False))
        promising = _least_by_stages(
            times, length, transfers, recompute, least_share, least_last, fewest_passes, least_s
        )
        best = limit_s[column]
        for turn in range(stage_limit + 1):
            stages = promising if turn == 0 else turn
            if stages == 0 or least_s[stages] >= best or (turn == promising and turn > 0):
                continue
            for arrangement in range(4):
                prefix, suffix = divmod(arrangement, 2)
                floor = max(prefix * own[0], suffix * own[1])
                best = _arrange(
                    prefix,
                    suffix,
                    stages,
                    length,
                    floor,
                    times,
                    weights,
                    transfers,
                    recompute,
                    best,
                    first_capacity,
                    last_capacity,
                    choice_offset,
                    choice_rounds,
                    choice_sync_s_per_byte,
                    capacity,
                    capacity_sum,
                    least_share,
                    least_last,
                )
        optima[column] = best
    return optima


@njit(cache=True)
def _least_by_stages(times, length, transfers, recompute, least_share, least_last, fewest_passes, least_s):
    """Fills least_s[s], a quick lower bound for s stages; returns the s of the least (0 where all are infinite)."""
    layer, layer_back, head, head_back, tail, tail_back = times
    total = head + head_back + tail + tail_back + length * (layer + layer_back)
    longest = max(layer + layer_back, head + head_back, tail + tail_back)
    saved = 0.0  # the last stage repeats nothing: at most this share of its load
    cut = transfers[3] if recompute else 2.0 * transfers[3]  # a late gradient may hide behind the repeated pass
    if recompute:
        total += head + tail + length * layer
        for pair in ((layer, layer_back), (head, head_back), (tail, tail_back)):
            if pair[0] + pair[1] > 0.0:
                saved = max(saved, pair[0] / (pair[0] + pair[1]))
    promising = 0
    least_s[0] = np.inf
    for stages in range(1, len(least_s)):
        if least_share[stages] > length:
            least_s[stages] = np.inf
            continue
        share = _share_load(stages, True, layer, layer_back, recompute, least_share, least_last)
        load = max(longest, share, (total + (stages - 1) * cut) / (stages + saved))
        least_s[stages] = load * fewest_passes[stages]
        if least_s[stages] < least_s[promising]:
            promising = stages
    return promising
