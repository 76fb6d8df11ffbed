"""Kernels of :mod:`dse.parallel.pipeline.exact` that find the shortest plan by labels, with devices cut already.

A label stands for the stages before a cut; those that another one dominates go.
"""

# ruff: noqa: ANN001, ANN201, ANN202
# mypy: disable-error-code="no-untyped-def,no-untyped-call"

import numpy as np
from numba import njit

from dse.parallel.pipeline.cut_kernels import stage_closing_s
from hardware.compiled import compiled


@njit(cache=False)
def _undominated(labels, count, flag):
    """Which of the first ``count`` labels no other one dominates, in the order of their first seconds; only some of
    them where ``flag`` says to end early.
    """
    order = np.argsort(labels[0, :count], kind="mergesort")
    undominated = np.empty(count, dtype=np.int64)
    size = 0
    for place in range(count):
        if flag[0]:
            break
        each, is_dominated = order[place], False
        for other in undominated[:size]:
            if (
                labels[1, other] <= labels[1, each]
                and labels[2, other] <= labels[2, each]
                and labels[3, other] >= labels[3, each]
            ):
                is_dominated = True
                break
        if not is_dominated:
            undominated[size] = each
            size += 1
    return undominated[:size]


@njit(cache=False)
def _rest(case, stage):
    """(the stage behind this one with fewest devices, its part of the least seconds of all work behind)."""
    if stage + 1 == len(case.share):
        return stage, 0.0
    # On fewer devices the same work takes no more device seconds.
    narrowest = stage + 1 + case.share[stage + 1 :].argmax()
    return narrowest, 1 / (1 / case.share[stage + 1 :]).sum() / case.share[narrowest]


@njit(cache=False)
def _hideable_s(case, stage, end):
    """Seconds of the longest all-reduce of the stages behind this one, if it ends at a cut."""
    longest_s = 0.0
    for later in range(stage + 1, len(case.share)):
        longest_s = max(longest_s, stage_closing_s(case, later, end, case.work_s.shape[1] - 1))
    return longest_s


@njit(cache=False)
def _longer(labels, numbers):
    """Room for as many labels again, and for as many numbers."""
    return (
        np.concatenate((labels, np.empty_like(labels)), axis=1),
        np.concatenate((numbers, np.empty_like(numbers))),
    )


@njit(cache=False)
def _ending_at(case, stage, end, starts, limit_s, behind, rest_s, label, first_label, buffer, origin, flag):
    """Labels of a stage that ends at a cut, from those of the stage in front: (how many, in, from which).

    Args:
        case: the points and devices.
        stage: the number of the stage.
        end: its last cut.
        starts: the first cut at which it may begin, and that behind the last one.
        limit_s: what a plan must be shorter than.
        behind: the sum of the weights of the stages behind.
        rest_s: of these the least weighted seconds, the least time of the slowest, and the longest all-reduce.
        label: those of the stage in front.
        first_label: of each cut.
        buffer: room for labels,
        origin: and for the labels that they come from.
        flag: whether to end early; what is returned then means nothing.
    """
    count = 0
    send_s = case.send_s[stage, end]
    for start in range(starts[0], starts[1]):
        if first_label[start] == first_label[start + 1] or end > case.fits[stage, start]:
            continue
        if case.variables[start] == case.variables[end] or flag[0]:
            break
        time_s = case.work_s[stage, end] - case.work_s[stage, start]
        joined_s = stage_closing_s(case, stage, start, end)
        back_s = case.backward_s[stage, end] - case.backward_s[stage, start] + send_s
        for each in range(first_label[start], first_label[start + 1]):
            first_s = label[0, each] + time_s + 2 * send_s
            slowest_s = max(label[1, each], time_s, 2 * send_s, rest_s[1])
            exposed_s = max(label[2, each], joined_s - label[3, each])
            drain_s = min(label[3, each] + back_s, rest_s[2] - exposed_s)
            weighed_s = first_s + (1 - behind) * exposed_s - behind * drain_s + rest_s[0]
            if weighed_s + (case.microbatches - 1) * slowest_s >= limit_s:
                continue
            if count == len(origin):
                buffer, origin = _longer(buffer, origin)
            buffer[0, count], buffer[1, count], buffer[2, count] = first_s, slowest_s, exposed_s
            buffer[3, count], origin[count] = drain_s, each
            count += 1
    return count, buffer, origin


@njit(cache=False)
def _extended(case, stage, cap_s, window, tail_s, weights, limit_s, label, first_label, flag):
    """The labels of a stage from those before it: (labels, first of each cut, from which, ends)."""
    points, work_s = case.work_s.shape[1] - 1, case.work_s[stage]
    narrowest, rest_share = _rest(case, stage)
    behind = weights[stage + 1 : -1].sum()
    buffer, origin = np.empty((4, 1024)), np.empty(1024, dtype=np.int64)
    grown, grown_from = np.empty((4, 1024)), np.empty(1024, dtype=np.int64)
    next_first, ends = np.zeros(points + 2, dtype=np.int64), np.empty(1024, dtype=np.int64)
    total = 0
    low = window[0, stage]
    for end in range(window[0, stage + 1], window[1, stage + 1] + 1):
        next_first[end] = total
        if tail_s[stage + 1, end] < np.inf and 2 * case.send_s[stage, end] <= cap_s:
            slowest_s = (case.work_s[narrowest, points] - case.work_s[narrowest, end]) * rest_share
            while low < end and work_s[end] - work_s[low] > cap_s:
                low += 1
            starts = (low, min(window[1, stage], end - 1) + 1)
            rest_s = (tail_s[stage + 1, end], slowest_s, _hideable_s(case, stage, end))
            count, buffer, origin = _ending_at(
                case, stage, end, starts, limit_s, behind, rest_s, label, first_label, buffer, origin, flag
            )
            for each in _undominated(buffer, count, flag):
                if total == len(ends):
                    ends = np.concatenate((ends, np.empty_like(ends)))
                    grown, grown_from = _longer(grown, grown_from)
                grown[:, total], grown_from[total], ends[total] = buffer[:, each], origin[each], end
                total += 1
        next_first[end + 1] = total
    next_first[window[1, stage + 1] + 1 :] = total
    return grown[:, :total].copy(), next_first, grown_from[:total].copy(), ends[:total].copy()


@compiled
def shortest(case, cap_s, window, tail_s, weights, limit_s, flag):
    """The shortest plan under a cap that is shorter than ``limit_s``: (seconds, cuts).

    Labels (first microbatch, slowest, exposed so far, time to hide all-reduces in) of stages before each cut, from
    the first stage on. A label goes if another one of the same cut is as good in all four, or if even the shortest
    rest by its weighted tails (:mod:`dse.parallel.pipeline.weighed_kernels`) cannot bring it below the limit. The
    seconds are infinite if there is no such plan, and not a number if ``flag`` was set before that was known.

    Labels can grow exponentially with the stages.
    """
    stages, points = len(case.share), case.work_s.shape[1] - 1
    cuts = np.full(stages + 1, -1, dtype=np.int64)
    label = np.zeros((4, 1))  # first, slowest, exposed, drain
    first_label = np.zeros(points + 2, dtype=np.int64)
    first_label[1:] = 1
    parents, ends = [np.full(1, -1, dtype=np.int64)], [np.zeros(1, dtype=np.int64)]
    for stage in range(stages):
        label, first_label, origin, end = _extended(
            case, stage, cap_s, window, tail_s, weights, limit_s, label, first_label, flag
        )
        parents.append(origin)
        ends.append(end)
    if flag[0]:
        return np.nan, cuts
    best, best_s = -1, np.inf
    for each in range(label.shape[1]):
        seconds = label[0, each] + (case.microbatches - 1) * label[1, each] + label[2, each]
        if seconds < best_s:
            best_s, best = seconds, each
    for stage in range(stages, -1, -1):
        if best >= 0:
            cuts[stage] = ends[stage][best]
            best = parents[stage][best]
    return best_s, cuts
