"""Kernels of :mod:`dse.parallel.hybrid.chain`."""

# ruff: noqa: ANN001, ANN201
# mypy: disable-error-code="no-untyped-def,no-untyped-call"

import numpy as np

from hardware.compiled import compiled


@compiled
def undominated(slowest_s, exposed_s, slowest_tolerance_s, exposed_tolerance_s):
    """The numbers of those labels that no earlier label equals or undercuts in both times.

    The tolerances are added to what a label has. Labels are sorted by their third time. O(labels · log steps)
    where few steps of the staircase of smallest labels move.
    """
    count = len(slowest_s)
    chosen = np.empty(count, dtype=np.int64)
    size = steps = 0
    stair_s, height_s = np.empty(count), np.empty(count)  # rising slowest times, falling exposed ones
    for label in range(count):
        slowest, exposed = slowest_s[label], exposed_s[label]
        below = np.searchsorted(stair_s[:steps], slowest + slowest_tolerance_s, side="right")
        if below > 0 and height_s[below - 1] <= exposed + exposed_tolerance_s:
            continue
        chosen[size] = label
        size += 1
        place = np.searchsorted(stair_s[:steps], slowest, side="left")
        end = place
        while end < steps and height_s[end] >= exposed:
            end += 1
        if place > 0 and height_s[place - 1] <= exposed:
            continue
        moved = steps - end
        stair_s[place + 1 : place + 1 + moved] = stair_s[end:steps].copy()
        height_s[place + 1 : place + 1 + moved] = height_s[end:steps].copy()
        stair_s[place], height_s[place] = slowest, exposed
        steps = place + 1 + moved
    return chosen[:size]
