"""The cheapest single row of a contest case, over every time at which a size changes.

On cases E and P the search ends with all kernels in one row, above the aims of 45,200 and 102,000. This goes through
all times from the area bound to what the answer costs. The row's order is the answer's (on E, a chain, no other is
shorter), its (h, w, c) come from the dynamic program over protocols. Nothing is below the answer: what is better has to
leave the row, and two kernels above each other are some 300 tiles apart. Fails where a row is cheaper. Minutes a case.
"""

import argparse
import sys

import numpy as np

from benchmarks.wafer import contest_case
from dse.run.executor import InProcessExecutor
from dse.wafer.bound import area_bound_ticks
from dse.wafer.search.context import SearchContext
from dse.wafer.search.ladder import ladder_of
from dse.wafer.search.layout import measure
from dse.wafer.search.portfolio import search
from dse.wafer.search.protocol_dp import with_protocols
from dse.wafer.search.row_dp import layout_of
from dse.wafer.shapes import classes_of, shape_table, staircases


def times(table, high, first, last):
    """All ticks from ``first`` to ``last`` at which some kernel no taller than ``high`` gets a smaller k."""
    starts = {first}
    for group, place in np.argwhere(table.outputs > 0):
        outputs = table.outputs[group, place]
        rounds = np.unique(-(-outputs // np.arange(1, outputs + 1)))
        each = np.unique(table.ticks[group, table.protocols.tall <= high, place])[:, None] * rounds
        starts.update(each[(each >= first) & (each <= last)].tolist())
    return sorted(starts)


def cheapest_row(problem, order, known):
    """(cost, time) of the cheapest row of kernels in ``order`` at times up to ``known``; how many were tried."""
    table = shape_table(problem)
    wide, high = problem.wafer.width_tiles, problem.wafer.height_tiles
    classes, low = classes_of(table.protocols), table.protocols.tall <= high
    best, before, tried = (np.inf, 0), b"", 0
    for limit in times(table, high, area_bound_ticks(problem, table), table.ticks_of(known / problem.weights.time)):
        if staircases(problem, table, limit).least[table.group, high].sum() > wide:
            continue
        # Sizes of taller ones change at other times.
        sizes = table.widths(limit)[:, low].tobytes()
        if sizes == before:
            continue
        before, tried = sizes, tried + 1
        ladder = ladder_of(problem, table, [limit])
        row = with_protocols(ladder, 0, layout_of(order, [0], [high]), classes)
        if row is not None:
            best = min(best, (measure(ladder, row, 0)[0], limit / table.ticks_per_time))
    return *best, tried


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cases", default="EP", help="letters [EP]")
    parser.add_argument("--moves", type=int, default=1_000_000, help="of the search that gives the order")
    arguments = parser.parse_args()
    above = 0
    for case in arguments.cases:
        problem = contest_case(case)
        answer = search(SearchContext(problem, InProcessExecutor(), moves=arguments.moves))
        order = sorted(range(len(problem.kernels)), key=lambda number: answer.placement.placed[number].x)
        cost, time, tried = cheapest_row(problem, order, answer.total)
        print(
            f"{case}: search {answer.total:,.1f}; best of {tried} single rows {cost:,.1f}, at time {time:,.6g}",
            flush=True,
        )
        above += cost < answer.total
    sys.exit(above > 0)
