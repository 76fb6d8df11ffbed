"""Wafer placement on the contest's twenty cases, beside the contest's winner and GigaPlacer, with bounds.

Every answer is passed by the checker. Targets: no case above the better of the two published costs, within 60 CPU
seconds; mean gap to the bound ≤ 5 % where adapters do not count and ≤ 20 % elsewhere. Published costs: GigaPlacer,
ASPDAC 2021, Table 1. The first ten cases are those that parameters were chosen on. Compilation is not counted.
``--moves`` and ``--cases`` make it shorter.
"""

import math
import statistics
import sys
import time

from benchmarks.recording import Record, Results, parser_of
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

CHOSEN, OTHERS = "ABCDEFGHIJ", "KLMNOPQRST"
LIMIT_S, GAP, GAP_WITH_ADAPTERS = 60, 0.05, 0.20
RECORD = Record(
    "wafer",
    ("mean", "mean_chosen", "mean_other", "bound_chosen", "bound_other", "proven", "row_p", "row_e", "at_most"),
    {
        "main": (
            "case",
            "kernels",
            "cost",
            "over GigaPlacer's",
            "over the contest winner's",
            "bound",
            "gap",
            "CPU s until within 1 %",
            "CPU s",
        )
    },
)


def contest_case(letter):
    """A case of the contest, made by :mod:`dse.wafer.networks`."""
    return chosen_problems(letter)[letter]


def measure(results, case, moves, seed):
    """One line of the table; (cost / GigaPlacer, bound / GigaPlacer, gap, whether adapters count, target met)."""
    problem = contest_case(case)
    begun, improved = time.process_time(), []
    context = SearchContext(
        problem,
        InProcessExecutor(),
        seed,
        moves,
        improved=lambda each: improved.append((time.process_time() - begun, each.total)),
    )
    answer = search(context)
    bound = cost_bound(problem, answer)
    seconds = time.process_time() - begun
    assert not violations(problem, answer.placement)
    near_s = next(when for when, total in improved if total <= 1.01 * answer.total)
    winner, giga = PUBLISHED[case]
    gap, met = max(0.0, 1 - bound / answer.total), answer.total <= min(winner, giga) and seconds <= LIMIT_S
    costs = f"{answer.total:,.1f}", f"{answer.total / giga:.4f}", f"{answer.total / winner:.4f}", f"{bound:,.1f}"
    times = f"{near_s:.1f}", f"{seconds:.1f}"
    results.row("main", case, len(problem.kernels), *costs, "proven" if not gap else f"{100 * gap:.2f} %", *times)
    return answer, bound / giga, gap, problem.weights.adapter > 0, met


def geometric_mean(values):
    """exp of the mean logarithm."""
    return math.exp(statistics.mean(map(math.log, values)))


def table(results, cases, moves, seed):
    """The table and its means; whether all targets are met."""
    lines = {case: measure(results, case, moves, seed) for case in cases}
    ratios = {case: line[0].total / PUBLISHED[case][1] for case, line in lines.items()}
    results.figure("mean", f"{geometric_mean(ratios.values()):.3f}")
    for name, letters in (("chosen", CHOSEN), ("other", OTHERS)):
        known = [case for case in letters if case in lines]
        if known:
            results.figure(f"mean_{name}", f"{geometric_mean([ratios[case] for case in known]):.3f}")
            results.figure(f"bound_{name}", f"{geometric_mean([lines[case][1] for case in known]):.3f}")
    results.figure("proven", ", ".join(case for case, line in lines.items() if not line[2]))
    for case in "PE":
        if case in lines:
            results.figure(f"row_{case.lower()}", f"{lines[case][0].total:,.0f}")
    no_dearer = sum(line[0].total <= min(PUBLISHED[case]) for case, line in lines.items())
    results.figure("at_most", f"{no_dearer} of {len(lines)}")
    met = all(line[4] for line in lines.values())
    for counts, target in ((False, GAP), (True, GAP_WITH_ADAPTERS)):
        gaps = [line[2] for line in lines.values() if line[3] == counts]
        if gaps:
            what = "count" if counts else "do not count"
            print(f"mean gap where adapters {what}: {100 * statistics.mean(gaps):.2f} % (target {100 * target:.0f} %)")
            met = met and statistics.mean(gaps) <= target
    return met


if __name__ == "__main__":
    parser, measured = parser_of(__doc__), Results(RECORD)
    parser.add_argument("--cases", default=None, help="letters, as ADK [all]")
    parser.add_argument("--moves", type=int, default=MOVES)
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    warm = contest_case("A")
    cost_bound(warm, search(SearchContext(warm, InProcessExecutor(), moves=1000)))
    is_met = table(measured, arguments.cases or PUBLISHED, arguments.moves, arguments.seed)
    measured.save(arguments.record)
    sys.exit(0 if is_met else 1)
