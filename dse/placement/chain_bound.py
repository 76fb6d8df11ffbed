"""A lower bound on ``batch_s`` for any chain, for many architectures at once.

Over s and the end j of the first stage, the bound is the least of ``L · (ceil(M/d) + s − 1) + synchronisation and
update of the layers before j``, with L the largest of:

- the longest layer;
- the first stage's own load: its layers one after another, and its last gradient's transfer;
- an equal share of the rest, ``(work + transfers over the cuts) / (s − 1)``. With recomputation all stages repeat their
  forward pass, under 1F1B all but the last. That one saves at most the share ρ of its own load (the largest
  forward / (forward + backward) of any layer), so that the loads of the rest are at most ``(s − 1 + ρ) · L`` together
  even if it is repeated too; where it is repeated, ρ = 0;
- the least largest load of any split of the rest into s − 1 stages that fits memory, if layers took the time of a
  *model*, times the least ratio of any layer's real time to the model's. The model is the mean of the architectures,
  each scaled to equal work.

Only s and j are taken for which some split fits memory.
"""

import numpy as np
from numpy.typing import NDArray

from dse.placement.search.chain_structure import ChainStructure
from hardware.compiled import compiled


def chain_bounds(
    structure: ChainStructure,
    index: NDArray[np.int64],
    forward_s: NDArray[np.float64],
    backward_s: NDArray[np.float64],
    update_s: NDArray[np.float64],
    limit_s: NDArray[np.float64],
) -> NDArray[np.float64]:
    """Bounds on the optimal ``batch_s`` of A architectures, float64[A], or ``limit_s`` (float64[A]) where that is less.

    The latencies are float64[D, A], of D distinct layers; ``index`` (L entries) gives each layer of the chain its own.
    """
    cut = np.arange(structure.layers)
    once = forward_s + backward_s
    total = np.maximum(once[index].sum(axis=0), np.finfo(np.float64).tiny)
    in_last = once + forward_s if structure.last_recomputes else once
    in_others = once + forward_s if structure.recompute else once
    return np.asarray(
        _chain_bounds(
            np.ascontiguousarray(forward_s),
            np.ascontiguousarray(backward_s),
            np.ascontiguousarray(update_s),
            index,
            structure.recompute,
            structure.last_recomputes,
            structure.arrival_s[cut, cut],
            np.append(0.0, structure.departure_s[cut[1:], cut[:-1]]),
            (in_last / total).mean(axis=1),
            (in_others / total).mean(axis=1),
            structure.last_end,
            structure.plain_stages,
            np.append(0.0, np.cumsum(structure.weight_bytes)),
            structure.choice_offset,
            structure.choice_rounds,
            structure.choice_sync_s_per_byte,
            structure.fewest_passes,
            limit_s,
        )
    )


# Below, numba kernels.
# Kernels carry no annotations: numba infers the types of every call.
# ruff: noqa: ANN001, ANN202
# mypy: disable-error-code="no-untyped-def,no-untyped-call"


@compiled
def _model_loads(last_end, last_work, work):
    """model[s, j]: least largest load of splitting the layers from j on into s stages, if layers took the model's time.

    ``last_work`` and ``work`` are prefix sums, of a last stage and of the others. Infinite where no split fits memory.
    """
    stage_limit, count = last_end.shape[0] - 1, last_end.shape[1]
    model = np.full((stage_limit + 1, count + 1), np.inf)
    model[0, count] = 0.0
    for stages in range(1, stage_limit + 1):
        sums = last_work if stages == 1 else work
        for begin in range(count - stages + 1):
            for end in range(begin + 1, last_end[stages, begin] + 1):
                own = sums[end] - sums[begin]
                if own >= model[stages, begin]:
                    break
                model[stages, begin] = min(model[stages, begin], max(own, model[stages - 1, end]))
    return model


@compiled
def _chain_bounds(
    forward_s,
    backward_s,
    update_s,
    index,
    recompute,
    last_recomputes,
    entering_s,
    leaving_s,
    model_last_work,
    model_work,
    last_end,
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
    last_work, work, update = np.zeros(count + 1), np.zeros(count + 1), np.zeros(count + 1)
    for layer in range(count):
        last_work[layer + 1] = last_work[layer] + model_last_work[index[layer]]
        work[layer + 1] = work[layer] + model_work[index[layer]]
    model = _model_loads(last_end, last_work, work)
    for column in range(forward_s.shape[1]):
        longest, saved, ratio = 0.0, 0.0, np.inf
        for layer in range(count):
            forward, backward = forward_s[index[layer], column], backward_s[index[layer], column]
            in_last = forward + backward + (forward if last_recomputes else 0.0)
            in_others = forward + backward + (forward if recompute else 0.0)
            last_work[layer + 1] = last_work[layer] + in_last
            work[layer + 1] = work[layer] + in_others
            update[layer + 1] = update[layer] + update_s[index[layer], column]
            longest = max(longest, in_last)
            if recompute and not last_recomputes and in_last > 0.0:
                saved = max(saved, forward / in_last)
            if model_last_work[index[layer]] > 0.0:
                ratio = min(ratio, in_last / model_last_work[index[layer]], in_others / model_work[index[layer]])
        ratio = 0.0 if ratio == np.inf else ratio
        best = limit_s[column]
        for stages in range(1, stage_limit + 1):
            if max(longest, work[count] / (stages + saved)) * fewest_passes[stages] >= best:
                continue
            best = _stages_bound(
                stages, longest, saved, last_work, work, update, recompute, entering_s, leaving_s,
                model, ratio, last_end[stages, 0],
                plain_stages, prefix_bytes, offset, rounds, sync_s_per_byte, best,
            )  # fmt: skip
        bounds[column] = best
    return bounds


@compiled
def _stages_bound(
    stages, longest, saved, last_work, work, update, recompute, entering_s, leaving_s, model, ratio, first_end,
    plain_stages, prefix_bytes, offset, rounds, sync_s_per_byte, best,
):  # fmt: skip
    """The bound for ``stages`` stages, or ``best`` if that is less."""
    count = len(last_work) - 1
    if model[stages, 0] == np.inf:
        return best
    # the most plain stages leave the most pipelines; one stage at least is sliced where slicing costs accelerators
    row = stages * (plain_stages + 1) + min(plain_stages, stages - 1)
    cut_s = np.inf  # what any cut behind the first stage costs its two sides at least
    for cut in range(2, count):
        cut_s = min(cut_s, entering_s[cut] + (0.0 if recompute else leaving_s[cut]))
    min_load = np.inf
    for end in range(count if stages == 1 else 1, min(first_end, count - stages + 1) + 1):
        if model[stages - 1, end] == np.inf:
            continue
        load = max(longest, ratio * model[stages - 1, end])
        if stages == 1:
            load = max(load, last_work[count])
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
        min_load = min(min_load, load)
        if work[end] >= min_load:
            break  # a longer first stage only costs more
    return best
