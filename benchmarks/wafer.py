"""Wafer placement on the contest's twenty cases, beside the contest's winner and GigaPlacer, with bounds.

Every answer is passed by the checker. Targets: no case above the better of the two published costs, within 60 s on two
cores; mean gap to the bound ≤ 5 % where adapters do not count and ≤ 20 % elsewhere. Published costs: GigaPlacer,
ASPDAC 2021, Table 1. Compilation is not counted. ``--moves`` and ``--cases`` make it shorter.
"""

import argparse
import math
import statistics
import sys
import time

from dse.reproduce.gigaplacer.cases import chosen_problems
from dse.reproduce.gigaplacer.published import read_published
from dse.run.executor import InProcessExecutor
from dse.wafer.answer import cost_bound
from dse.wafer.check import violations
from dse.wafer.options import MOVES
from dse.wafer.search.context import SearchContext
from dse.wafer.search.portfolio import search

PUBLISHED = {name: (case.winner.total, case.gigaplacer.total) for name, case in read_published().cases.items()}
"""(contest winner, GigaPlacer) total costs."""

LIMIT_S, GAP, GAP_WITH_ADAPTERS = 60, 0.05, 0.20


def contest_case(letter):
    """A case of the contest, made by :mod:`dse.wafer.networks`."""
    return chosen_problems(letter)[letter]


def measure(case, moves, seed):
    """One line of the table; (cost / GigaPlacer, gap, whether adapters count, whether the target is met)."""
    problem = contest_case(case)
    begun, rows_s = time.perf_counter(), []
    context = SearchContext(
        problem,
        InProcessExecutor(),
        seed,
        moves,
        improved=lambda each: rows_s.append((time.perf_counter() - begun, each.total)),
    )
    answer = search(context)
    search_s = time.perf_counter() - begun
    bound = cost_bound(problem, answer)
    seconds = time.perf_counter() - begun
    assert not violations(problem, answer.placement)
    near_s = next(when for when, total in rows_s if total <= 1.01 * answer.total)
    winner, giga = PUBLISHED[case]
    gap, met = 1 - bound / answer.total, answer.total <= min(winner, giga) and seconds <= LIMIT_S
    print(
        f"{case:<5} {len(problem.kernels):>4} {answer.cost.time:>12,.6g} {answer.cost.distance:>9,.1f} "
        f"{answer.cost.adapter:>5} {answer.total:>13,.1f} {winner:>13,.1f} {giga:>13,.1f} {answer.total / giga:>8.4f} "
        f"{bound:>13,.1f} {100 * gap:>6.2f} % {near_s:>6.1f} {search_s:>6.1f} {seconds:>6.1f}{'' if met else ' no'}",
        flush=True,
    )
    return answer.total / giga, gap, problem.weights.adapter > 0, met


def table(cases, moves, seed):
    """The table and its means; whether all targets are met."""
    print(
        f"{'case':<5} {'n':>4} {'time':>12} {'distance':>9} {'adpt.':>5} {'total cost':>13} {'winner':>13} "
        f"{'GigaPlacer':>13} {'ratio':>8} {'bound':>13} {'gap':>8} {'1 % s':>6} {'found':>6} {'proven':>6}"
    )
    lines = [measure(case, moves, seed) for case in cases]
    ratio = math.exp(statistics.mean(math.log(line[0]) for line in lines))
    print(f"geometric mean over GigaPlacer: {ratio:.4f}")
    met = all(line[3] for line in lines)
    for counts, target in ((False, GAP), (True, GAP_WITH_ADAPTERS)):
        gaps = [line[1] for line in lines if line[2] == counts]
        if gaps:
            what = "count" if counts else "do not count"
            print(f"mean gap where adapters {what}: {100 * statistics.mean(gaps):.2f} % (target {100 * target:.0f} %)")
            met = met and statistics.mean(gaps) <= target
    return met


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cases", default=None, help="letters, as ADK [all]")
    parser.add_argument("--moves", type=int, default=MOVES)
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    warm = contest_case("A")
    cost_bound(warm, search(SearchContext(warm, InProcessExecutor(), moves=1000)))
    sys.exit(0 if table(arguments.cases or PUBLISHED, arguments.moves, arguments.seed) else 1)
