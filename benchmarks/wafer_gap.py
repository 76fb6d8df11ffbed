"""Where the contest's twenty cases lose to their bounds: what the cost consists of, and whether shorter times fit.

Beside each answer stand the time that its kernels' least areas allow (the area bound) and the shortest time of any
slicing tree that keeps the kernels in the network's own order, whatever its distance: exact, by dynamic programming
over intervals and every side in tiles (an interval is a kernel, or two shorter ones beside or above each other).
"ideal" is what the answer would cost at that time with the distance that it has now, over GigaPlacer's cost. It is no
bound: it shows how much room the time leaves. Where adapters count, the answer's own time is taken for it: there, times
are far above the area bound for the sake of distance and adapters.
"""

import argparse
import math
import statistics

import numpy as np

from dse.reproduce.gigaplacer.published import read_published
from dse.run.executor import InProcessExecutor
from dse.wafer.answer import cost_bound
from dse.wafer.bound import area_bound_ticks
from dse.wafer.options import MOVES
from dse.wafer.search.context import SearchContext
from dse.wafer.search.portfolio import search
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


def measure(case, published, moves, seed):
    """One line of the table; (cost / GigaPlacer, bound / GigaPlacer, ideal / GigaPlacer)."""
    problem = published.problem(case)
    placement = search(SearchContext(problem, InProcessExecutor(), seed, moves))
    bound, weights, cost = cost_bound(problem, placement), problem.weights, placement.cost
    shortest, floor = shortest_time(problem, cost.time)
    ideal = placement.total
    if weights.adapter == 0:
        ideal -= weights.time * (cost.time - shortest)
    parts = weights.time * cost.time, weights.distance * cost.distance, weights.adapter * cost.adapter
    over = published.gigaplacer.total
    print(
        f"{case:<5}{len(problem.kernels):>4}{placement.total:>12,.6g}{placement.total / over:>8.4f}{bound / over:>8.4f}"
        + "".join(f"{part / placement.total:>9.1%}" for part in parts)
        + f"{floor:>12,.7g}{shortest:>12,.7g}{cost.time:>12,.7g}{ideal / over:>8.4f}",
        flush=True,
    )
    return placement.total / over, bound / over, ideal / over


def table(cases, moves, seed):
    """The table and its geometric means."""
    published = read_published().cases
    print(
        f"{'case':<5}{'n':>4}{'cost':>12}{'ratio':>8}{'bound':>8}{'time':>9}{'distance':>9}{'adapters':>9}"
        f"{'area time':>12}{'tree time':>12}{'its time':>12}{'ideal':>8}"
    )
    lines = [measure(case, published[case], moves, seed) for case in cases or published]
    means = [math.exp(statistics.mean(map(math.log, column))) for column in zip(*lines, strict=True)]
    print("geometric means over GigaPlacer: cost {:.4f}, bound {:.4f}, ideal {:.4f}".format(*means))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cases", default=None, help="letters, as ADK [all twenty]")
    parser.add_argument("--moves", type=int, default=MOVES)
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    table(arguments.cases, arguments.moves, arguments.seed)
