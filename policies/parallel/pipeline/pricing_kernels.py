"""Kernels of :mod:`policies.parallel.pipeline.pricing`."""

# ruff: noqa: ANN001, ANN201
# mypy: disable-error-code="no-untyped-def,no-untyped-call"

import numpy as np

from dse.parallel.pipeline.cut_kernels import ring_s
from hardware.compiled import compiled

LENGTH, FITS, ALL_REDUCE, SEND, BALANCE = range(5)
"""Columns of :func:`prices`."""


@compiled
def prices(profile, cuts, edges, reduce_rows, send_rows, reduce_rings, send_rings, microbatches, memory):
    """What plans cost, [B, 5]: seconds of a batch, 1 where every device has memory enough, seconds of the slowest
    all-reduce of gradients, seconds of the slowest transfer, least over largest computing time of a stage.

    Args:
        profile: (work, backward, stash, weight, cut bytes: of all points in front of each cut, of a whole batch, the
            last at each cut; shared bytes, first and next readers), as :class:`dse.parallel.pipeline.cut_kernels.Case`.
        cuts: of the points with both ends, [B, K + 1].
        edges: of the devices with both ends, [B, K + 1].
        reduce_rows: of each stage in ``reduce_rings``, [B, K].
        send_rows: of each cut in ``send_rings``, [B, K]; the last one is not used.
        reduce_rings: of all-reduces, [rows, R, 6].
        send_rings: of transfers, of which the slowest counts, [rows, R, 6].
        microbatches: M.
        memory: (bytes of a device, 0 for no limit; bytes for each byte of weights; 1 for recomputation).
    """
    work, backward, stash, weights, cut_bytes, shared_bytes, first_reader, next_reader = profile
    limit_bytes, state_factor, recompute = memory
    plans, stages = len(cuts), cuts.shape[1] - 1
    priced = np.empty((plans, 5))
    for plan in range(plans):
        first_s = slowest_s = exposed_s = drain_s = 0.0
        longest_reduce_s = longest_send_s = longest_s = 0.0
        shortest_s, fits = np.inf, 1.0
        for stage in range(stages):
            start, end = cuts[plan, stage], cuts[plan, stage + 1]
            share = 1.0 / (microbatches * (edges[plan, stage + 1] - edges[plan, stage]))
            work_s = (work[end] - work[start]) * share
            backward_s = (backward[end] - backward[start]) * share
            size_bytes = weights[end] - weights[start]
            for group in range(len(shared_bytes)):
                if first_reader[group] < start and next_reader[group, start] < end:
                    size_bytes += shared_bytes[group]
            send_s = 0.0
            if stage + 1 < stages:
                for ring in range(send_rings.shape[1]):
                    row = send_rows[plan, stage]
                    send_s = max(send_s, ring_s(send_rings[row, ring : ring + 1], cut_bytes[end] / microbatches))
            reduce_s = ring_s(reduce_rings[reduce_rows[plan, stage]], size_bytes)
            first_s += work_s + 2 * send_s
            slowest_s = max(slowest_s, work_s, 2 * send_s)
            exposed_s = max(exposed_s, reduce_s - drain_s)
            drain_s += backward_s + send_s
            longest_reduce_s, longest_send_s = max(longest_reduce_s, reduce_s), max(longest_send_s, send_s)
            shortest_s, longest_s = min(shortest_s, work_s), max(longest_s, work_s)
            if limit_bytes > 0:
                flying = min(microbatches, stages - stage)
                stash_bytes = stash[end] - stash[start]
                stash_bytes = stash_bytes + flying * cut_bytes[start] if recompute > 0 else stash_bytes * flying
                if size_bytes * state_factor + stash_bytes * share > limit_bytes:
                    fits = 0.0
        priced[plan, 0] = first_s + (microbatches - 1) * slowest_s + exposed_s
        priced[plan, 1], priced[plan, 2], priced[plan, 3] = fits, longest_reduce_s, longest_send_s
        priced[plan, 4] = shortest_s / longest_s if longest_s > 0 else 1.0
    return priced
