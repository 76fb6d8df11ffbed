"""The shortest time of any slicing tree that keeps the kernels of a wafer in the network's own order (for
:mod:`benchmarks.wafer`), regardless of its distance: exact, by dynamic programming over intervals and every side in
tiles (an interval is a kernel, or two shorter ones next to or above each other).
"""

import numpy as np

from dse.wafer.bound import area_bound_ticks
from dse.wafer.search.row_dp import depth_first_order
from dse.wafer.shapes import NEVER, shape_table, staircases

CLOSE = 2000
"""Shortest times are exact to a part in so many."""


def turned(widths):
    """[extent + 1] the least height for every width in tiles, from ``widths``: the least width for every height."""
    rising = np.minimum.accumulate(widths[1:])[::-1]
    # As many heights as have a width that fits are at least the least one.
    heights = len(rising) - np.searchsorted(rising, np.arange(len(widths)), side="right") + 1
    return np.where(heights <= len(rising), heights, NEVER)


def min_width(leaves, height):
    """The least width in tiles of all trees within ``height`` whose leaves, in order, are ``leaves``.

    ``leaves`` [N, extent + 1]: the least width of each for every height. They may be turned: ``turned`` leaves them as
    they are.
    """
    count, sides = leaves.shape
    # [begin, end] and [end, begin]: the intervals that begin or end at a kernel lie together.
    curves = np.full((count, count, sides), NEVER, dtype=np.int32)
    for length in range(1, count + 1):
        for begin in range(count - length + 1):
            end = begin + length - 1
            if length == 1:
                curve = leaves[begin]
            else:
                joined = curves[begin, begin:end] + curves[end, begin + 1 : end + 1]
                curve = np.minimum(joined.min(axis=0), NEVER)
                curve = np.minimum.accumulate(np.minimum(curve, turned(curve)))
            curves[begin, end] = curves[end, begin] = curve
    return int(curves[0, count - 1, height])


def shortest_time(problem, known):
    """(The shortest time of a tree in the network's order, to 0.05 % and at most ``known``; the area bound's time)."""
    table = shape_table(problem)
    group, wafer = table.group[list(depth_first_order(problem))], problem.wafer
    floor = area_bound_ticks(problem, table)
    low, high = floor, table.ticks_of(known)
    while high - low > floor // CLOSE:
        middle = (low + high) // 2
        leaves = staircases(problem, table, middle).least[group].astype(np.int32)
        if min_width(leaves, wafer.height_tiles) <= wafer.width_tiles:
            high = middle
        else:
            low = middle + 1
    return high / table.ticks_per_time, floor / table.ticks_per_time
