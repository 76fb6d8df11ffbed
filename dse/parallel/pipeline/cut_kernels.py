"""Kernels of :mod:`dse.parallel.pipeline.exact`, for devices that are cut already.

A :class:`Case` is taken with a cap: no stage and no cut may take longer for a microbatch. Under a cap, the places of
each cut lie in a window.
"""

# ruff: noqa: ANN001, ANN201
# mypy: disable-error-code="no-untyped-def,no-untyped-call"

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from dse.parallel.pipeline.problem import Floats, Integers
from hardware.compiled import compiled, kernel


class Case(NamedTuple):
    """Points and devices of every stage, as the kernels take them; K stages, N points.

    Attributes:
        work_s: of all points before each cut, forward and backward, of a microbatch on a device of each stage,
            [K, N + 1].
        backward_s: the same for the backward pass alone, [K, N + 1].
        share: the part of a batch that a device of each stage does of a microbatch, [K].
        send_s: from each stage to the next if it ends at a cut, one way, [K, N + 1]; 0 for the last stage.
        weight_bytes, variables: of all points before each cut, counted with their first readers, [N + 1].
        shared_bytes: of each of V groups of trained tensors with several readers, [V].
        first_reader: the first reader of each group, [V].
        next_reader: the next reader of each group from each cut on, or N where there is none, [V, N + 1].
        fits: the last cut at which a stage that begins at each cut can end, for its memory, [K, N + 1].
        rings: of the all-reduce of each stage (:class:`hardware.network.Ring`), [K, R, 6]; steps of 0 fill up.
        joined_s: what follows the last microbatch too, of all points before each cut, [K, N + 1].
        copied_s: and of copies of each group, [K, V].
        microbatches: M.
        places: the first and the last place that each cut may have at all, [2, K + 1].
    """

    work_s: Floats
    backward_s: Floats
    share: Floats
    send_s: Floats
    weight_bytes: Floats
    variables: Integers
    shared_bytes: Floats
    first_reader: Integers
    next_reader: Integers
    fits: Integers
    rings: Floats
    joined_s: Floats
    copied_s: Floats
    microbatches: int
    places: Integers


Windows = npt.NDArray[np.int64]


@compiled
def ring_s(rings, size_bytes):
    """:meth:`hardware.network.Ring.seconds`, summed over rings."""
    seconds = 0.0
    for launch_s, latency_s, bytes_per_s, channels, steps, share in rings:
        step_bytes = size_bytes * share
        if steps == 0 or step_bytes == 0:
            continue
        used = channels
        if latency_s > 0:
            used = min(max(np.sqrt(step_bytes * channels / (bytes_per_s * latency_s)), 1.0), channels)
        seconds += launch_s + steps * (used * latency_s + step_bytes * channels / (used * bytes_per_s))
    return seconds


@compiled
def slowest_ring_s(rings, sizes):
    """Of each size the seconds of the ring that takes longest; 0 without rings."""
    slowest = np.zeros(len(sizes))
    for place in range(len(sizes)):
        for ring in range(len(rings)):
            slowest[place] = max(slowest[place], ring_s(rings[ring : ring + 1], sizes[place]))
    return slowest


@kernel
def stage_bytes(weight_bytes, shared_bytes, first_reader, next_reader, start, end):
    """Weights of a stage from one cut to another: those of its points, and copies that points in front read first.

    They never fall as the end rises, and never rise with the start.
    """
    size_bytes = weight_bytes[end] - weight_bytes[start]
    for group in range(len(shared_bytes)):
        if first_reader[group] < start and next_reader[group, start] < end:
            size_bytes += shared_bytes[group]
    return size_bytes


@kernel
def stage_closing_s(case, stage, start, end):
    """What follows the last microbatch of a stage from one cut to another; it behaves as :func:`stage_bytes`."""
    size_bytes = stage_bytes(case.weight_bytes, case.shared_bytes, case.first_reader, case.next_reader, start, end)
    seconds = ring_s(case.rings[stage], size_bytes)
    seconds += case.joined_s[stage, end] - case.joined_s[stage, start]
    for group in range(len(case.shared_bytes)):
        if case.first_reader[group] < start and case.next_reader[group, start] < end:
            seconds += case.copied_s[stage, group]
    return seconds


@compiled
def last_fitting(weight_bytes, shared_bytes, first_reader, next_reader, stash_bytes, state_factor, limit_bytes):
    """The last cut at which a stage that begins at each cut fits, [N + 1]; before its start where none does.

    Args:
        weight_bytes: as of :class:`Case`, and so
        shared_bytes: those of groups,
        first_reader: and their first
        next_reader: and next readers.
        stash_bytes: on a device, of all points before each cut, [N + 1].
        state_factor: bytes on a device for each byte of weights.
        limit_bytes: of a device, for a stage that begins at each cut, [N + 1].
    """
    points = len(weight_bytes) - 1
    fits = np.empty(points + 1, dtype=np.int64)
    for start in range(points + 1):
        low, high = start - 1, points
        while low < high:
            middle = (low + high + 1) // 2
            weights = stage_bytes(weight_bytes, shared_bytes, first_reader, next_reader, start, middle)
            used = weights * state_factor + stash_bytes[middle] - stash_bytes[start]
            if used <= limit_bytes[start]:
                low = middle
            else:
                high = middle - 1
        fits[start] = low
    return fits


@compiled
def windows(case, cap_s):
    """The first and the last place of each cut under a cap, [2, K + 1]; a last one before its first: no plan.

    Ends are as far as stages of the cap reach from either side. Exact without a memory limit; otherwise no cut of a
    plan is outside.
    """
    stages, points = len(case.share), case.work_s.shape[1] - 1
    window = np.empty((2, stages + 1), dtype=np.int64)
    window[:, 0], window[:, stages] = 0, points
    furthest = 0
    for stage in range(stages - 1):
        work_s, end = case.work_s[stage], window[1, stage]
        limit_s = work_s[end] + cap_s
        for cut in range(window[0, 0], window[1, stage] + 1):
            furthest = max(furthest, case.fits[stage, cut])
        while end < points and end < furthest and work_s[end + 1] <= limit_s:
            end += 1
        while end > 0 and case.variables[points] - case.variables[end] < stages - 1 - stage:
            end -= 1
        window[1, stage + 1], furthest = end, 0
    for stage in range(stages - 1, 0, -1):
        work_s, start = case.work_s[stage], window[0, stage + 1]
        limit_s = work_s[start] - cap_s
        while start > 0 and work_s[start - 1] >= limit_s:
            start -= 1
        while start < points and case.variables[start] < stage:
            start += 1
        window[0, stage] = start
    if case.work_s[0, window[0, 1]] > cap_s:
        window[1, 1] = -1
    for stage in range(1, stages + 1):  # first places never fall, and last ones neither
        window[0, stage] = max(window[0, stage], case.places[0, stage], window[0, stage - 1])
    for stage in range(stages - 1, -1, -1):
        window[1, stage] = min(window[1, stage], case.places[1, stage], window[1, stage + 1])
    return window
