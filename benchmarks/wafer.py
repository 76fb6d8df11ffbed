"""Wafer placement on the contest's twenty cases, next to the contest's winner and GigaPlacer, with bounds.

Every answer is passed by the checker. Targets: no case above the better of the two published costs, within 60 CPU
seconds; mean gap to the bound ≤ 5 % where adapters do not count and ≤ 20 % elsewhere. Published costs: GigaPlacer,
ASPDAC 2021, Table 1. The first ten cases are those that parameters were chosen on. Compilation is not counted.
``--moves`` and ``--cases`` make it shorter.

The second table, a file of its own, says where the cases lose to their bounds. Each answer is shown with the time that
its kernels' least areas allow (the area bound) and the shortest time of a slicing tree in the network's own order
(:mod:`benchmarks.wafer_gap`). Its last column is what the answer would cost at that time with the distance that it has
now. It is not a bound: it shows how much room the time leaves. The answer's own time is taken for it where the answer
is
proven, and where adapters count: there, times are far above the area bound for the sake of distance and adapters.
"""

import math
import statistics
import sys
import time

from benchmarks.recording import Record, Results, cpu_s, parser_of
from benchmarks.wafer_gap import shortest_time
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


GAPS = Record(
    "wafer_gap",
    ("mean_at_shortest", "limits_low", "limits_high", "seconds"),
    {
        "main": (
            "case",
            "time, distance, adapters in the cost",
            "area bound on the time",
            "shortest time of a tree in the network's order",
            "time of the answer",
            "cost over GigaPlacer's",
            "the same at the shortest time",
        )
    },
)
"""``limits`` are gaps of cases whose adapters count; the seconds are those of the whole command."""


def measure(results, gaps, case, moves, seed):
    """One line of each table; (answer, bound and cost at the shortest time / GigaPlacer, gap, whether adapters count,
    target met)."""
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
    ideal = at_shortest(gaps, case, problem, answer, gap > 0) / giga
    return answer, bound / giga, ideal, gap, problem.weights.adapter > 0, met


def at_shortest(gaps, case, problem, answer, is_open):
    """One line of the second table; the cost at the shortest time."""
    cost, weights = answer.cost, problem.weights
    shortest, floor = shortest_time(problem, cost.time)
    could_be_shorter = is_open and not weights.adapter
    ideal = answer.total - could_be_shorter * weights.time * (cost.time - shortest)
    parts = weights.time * cost.time, weights.distance * cost.distance, weights.adapter * cost.adapter
    shares = ", ".join(f"{100 * part / answer.total:.1f} %" for part in parts)
    times, giga = (f"{each:,.7g}" for each in (floor, shortest, cost.time)), PUBLISHED[case][1]
    gaps.row("main", case, shares, *times, f"{answer.total / giga:.4f}", f"{ideal / giga:.4f}")
    return ideal


def geometric_mean(values):
    """exp of the mean logarithm."""
    return math.exp(statistics.mean(map(math.log, values)))


def table(results, gaps, cases, moves, seed):
    """The tables and their means; whether all targets are met."""
    lines = {case: measure(results, gaps, case, moves, seed) for case in cases}
    ratios = {case: line[0].total / PUBLISHED[case][1] for case, line in lines.items()}
    results.figure("mean", f"{geometric_mean(ratios.values()):.3f}")
    for name, letters in (("chosen", CHOSEN), ("other", OTHERS)):
        known = [case for case in letters if case in lines]
        if known:
            results.figure(f"mean_{name}", f"{geometric_mean([ratios[case] for case in known]):.3f}")
            results.figure(f"bound_{name}", f"{geometric_mean([lines[case][1] for case in known]):.3f}")
    results.figure("proven", ", ".join(case for case, line in lines.items() if not line[3]))
    for case in "PE":
        if case in lines:
            results.figure(f"row_{case.lower()}", f"{lines[case][0].total:,.0f}")
    no_dearer = sum(line[0].total <= min(PUBLISHED[case]) for case, line in lines.items())
    results.figure("at_most", f"{no_dearer} of {len(lines)}")
    met = all(line[5] for line in lines.values())
    for counts, target in ((False, GAP), (True, GAP_WITH_ADAPTERS)):
        known = {case: line[3] for case, line in lines.items() if line[4] == counts}
        if known:
            mean, what = statistics.mean(known.values()), "count" if counts else "do not count"
            print(f"mean gap where adapters {what}: {100 * mean:.2f} % (target {100 * target:.0f} %)")
            met = met and mean <= target
        open_ = {case: gap for case, gap in known.items() if gap}
        if open_ and counts:
            for path, extreme in (("low", min), ("high", max)):
                case = extreme(open_, key=open_.get)
                gaps.figure(f"limits_{path}", f"{100 * open_[case]:.0f} % ({case})")
    gaps.figure("mean_at_shortest", f"{geometric_mean([line[2] for line in lines.values()]):.3f}")
    gaps.figure("seconds", f"{cpu_s():.0f} CPU seconds")
    return met


if __name__ == "__main__":
    parser, measured, gaps = parser_of(__doc__), Results(RECORD), Results(GAPS)
    parser.add_argument("--cases", default=None, help="letters, as ADK [all]")
    parser.add_argument("--moves", type=int, default=MOVES)
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    warm = contest_case("A")
    cost_bound(warm, search(SearchContext(warm, InProcessExecutor(), moves=1000)))
    is_met = table(measured, gaps, arguments.cases or PUBLISHED, arguments.moves, arguments.seed)
    measured.save(arguments.record)
    gaps.save(arguments.record)
    sys.exit(0 if is_met else 1)
