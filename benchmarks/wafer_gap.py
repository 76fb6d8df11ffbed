"""Where the contest's twenty cases lose to their bounds: what the cost consists of, and whether shorter times fit.

Beside each answer stand the time that its kernels' least areas allow (the area bound) and the shortest time of any
slicing tree that keeps the kernels in the network's own order, whatever its distance: exact, by dynamic programming
over intervals and every side in tiles (an interval is a kernel, or two shorter ones beside or above each other).
"ideal" is what the answer would cost at that time with the distance that it has now, over GigaPlacer's cost. It is no
bound: it shows how much room the time leaves. Where adapters count, the answer's own time is taken for it: there, times
are far above the area bound for the sake of distance and adapters.
"""

import math
import statistics

import numpy as np

from benchmarks.recording import Record, Results, parser_of
from dse.reproduce.gigaplacer.published import read_published
from dse.run.executor import InProcessExecutor
from dse.wafer.answer import cost_bound
from dse.wafer.bound import area_bound_ticks
from dse.wafer.options import MOVES
from dse.wafer.search.context import SearchContext
from dse.wafer.search.portfolio import search
from dse.wafer.search.row_dp import depth_first_order
from dse.wafer.shapes import NEVER, shape_table, staircases

RECORD = Record(
    "wafer_gap",
    ("mean", "mean_bound", "mean_at_shortest", "limits_low", "limits_high"),
    {
        "main": (
            "case",
            "kernels",
            "cost over GigaPlacer's",
            "bound over GigaPlacer's",
            "time, distance, adapters in the cost",
            "area bound on the time",
            "shortest time of a tree in the network's order",
            "time of the answer",
            "cost at the shortest time over GigaPlacer's",
        )
    },
)

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


def measure(results, case, published, moves, seed):
    """One line of the table; (cost, bound and ideal over GigaPlacer), and the gap where adapters count."""
    problem = published.problem(case)
    placement = search(SearchContext(problem, InProcessExecutor(), seed, moves))
    bound, weights, cost = cost_bound(problem, placement), problem.weights, placement.cost
    shortest, floor = shortest_time(problem, cost.time)
    ideal = placement.total
    if weights.adapter == 0:
        ideal -= weights.time * (cost.time - shortest)
    parts = weights.time * cost.time, weights.distance * cost.distance, weights.adapter * cost.adapter
    over = published.gigaplacer.total
    ratios = placement.total / over, bound / over, ideal / over
    shares = ", ".join(f"{100 * part / placement.total:.1f} %" for part in parts)
    times = (f"{each:,.7g}" for each in (floor, shortest, cost.time))
    over_cost, over_bound, over_ideal = (f"{ratio:.4f}" for ratio in ratios)
    results.row("main", case, len(problem.kernels), over_cost, over_bound, shares, *times, over_ideal)
    return ratios, 1 - bound / placement.total if weights.adapter else 0.0


def table(results, cases, moves, seed):
    """The table and its geometric means."""
    published = read_published().cases
    measured = {case: measure(results, case, published[case], moves, seed) for case in cases or published}
    ratios = [each for each, _ in measured.values()]
    gaps = {case: gap for case, (_, gap) in measured.items() if gap > 0}
    means = (math.exp(statistics.mean(map(math.log, column))) for column in zip(*ratios, strict=True))
    for path, mean in zip(("mean", "mean_bound", "mean_at_shortest"), means, strict=True):
        results.figure(path, f"{mean:.3f}")
    for path, case in (("limits_low", min(gaps, key=gaps.get)), ("limits_high", max(gaps, key=gaps.get))):
        results.figure(path, f"{100 * gaps[case]:.0f} % ({case})")


if __name__ == "__main__":
    parser, measured = parser_of(__doc__), Results(RECORD)
    parser.add_argument("--cases", default=None, help="letters, as ADK [all twenty]")
    parser.add_argument("--moves", type=int, default=MOVES)
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    table(measured, arguments.cases, arguments.moves, arguments.seed)
    measured.save(arguments.record)
