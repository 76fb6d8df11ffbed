"""Which searches earn their place: every method of a portfolio, and the portfolio without each of its steps.

A method stays if a paper states it, or if it gives the best answer somewhere.

1. Partitions: every method of ``dse partition`` on every graph of ``benchmarks/data``, for throughput and latency under
   the reference evaluator and for throughput on a simulated package, with as many evaluations; the cost over the best
   of all methods, and the CPU seconds.
2. Wafers: the default method of ``dse wafer`` on the contest's cases without each of its steps, over the whole.
3. Fabrics: placements of ``dse fabric place`` on blocks of families that nothing was trained on, by cost, with as much
   CPU time (:mod:`benchmarks.fabric_placement`); the slots of a sample over those of the best cost.
4. Wins: from the recorded tables of these and of ``benchmarks.schedule``, on how many questions a method is within
   0.01 % of the best, and alone there; on how many cases a placement costs more, and less, without a step.

A placement of layers (``dse place``) has one exact search for chains and one for graphs that branch, and no portfolio.

Seeds and numbers of evaluations and moves are the same for all; the median of ``--seeds`` seeds is shown.
"""

import json
import statistics
import time
from dataclasses import replace

import numpy as np

from benchmarks import DATA, fabric_placement, schedule
from benchmarks.recording import Record, Results, parser_of
from dse.partition.evaluators.analytical import AnalyticalEvaluator
from dse.partition.evaluators.simulator import SimulatorEvaluator
from dse.partition.formats import read_graph
from dse.partition.methods import METHODS
from dse.partition.problem import PartitionProblem
from dse.partition.search.context import SearchContext
from dse.reproduce.gigaplacer.cases import chosen_problems
from dse.run.executor import InProcessExecutor
from dse.wafer.search.context import STEPS
from dse.wafer.search.context import SearchContext as WaferContext
from dse.wafer.search.portfolio import search
from hardware.packages import package

GRAPHS = ("lstm10x2", "lstm20x4", "unet", "resnet50", "inception", "bert24")
QUESTIONS = (("throughput", False), ("latency", False), ("throughput", True))
"""(objective, whether partitions are simulated)."""

PARTITIONS = Record("partition_methods", tables={"main": ("graph", "question", *(f"`{method}`" for method in METHODS))})
STEP_NAMES = tuple(sorted(STEPS))
WAFER_STEPS = Record("wafer_steps", tables={"main": ("case", "whole", *(f"without {step}" for step in STEP_NAMES))})
COSTS = {
    "rules": "mixture",
    "tuned": "tuned",
    "simulator": "tuned, judged",
    "learned": "learned",
    "learned+simulator": "learned, judged",
    "learned+simulator, one chain": "student",
}
"""Methods of :mod:`benchmarks.fabric_placement` by what ``dse fabric place`` calls them; all without rounds."""

FABRICS = Record("fabric_costs", tables={"main": ("graph", *(f"`{cost}`" for cost in COSTS))})
METHOD_WINS = ("method", "best", "alone", "CPU s", "stated by")
STEP_WINS = ("step", "costs more without", "costs less without")
SCHEDULE_WINS = ("method", "best", "alone", "proven", "stated by")
WINS = Record(
    "portfolios",
    ("near", "questions", "cases", "layers", "graphs"),
    {
        "methods": METHOD_WINS,
        "steps": STEP_WINS,
        "schedules": SCHEDULE_WINS,
        "fabrics": ("cost", "best", "alone"),
    },
)
SCHEDULERS = (("`auto`", "makespan", "gap", None), ("`cp-sat`", "CP-SAT: makespan", "gap ", None))
SCHEDULERS += (("`scip`", "SCIP: makespan", "gap  ", "the PHAZE paper"),)
"""Methods of ``dse schedule``, their columns in the table of :mod:`benchmarks.schedule`, and who states them."""

STATED = dict.fromkeys(("greedy", "anneal", "random"), "the MCM paper")
"""Methods of ``dse partition`` that are baselines of a paper."""

CHIPS, LINK_BYTES_PER_S, PACKAGE = 8, 20e9, "mcm-8"
NEAR_PERCENT = 0.01
WAFERS, MOVES = "ABCDEFGHIJKLMNOPQRST", 3_000_000
FABRIC, BUDGET_S, DEADLOCK = "plasticine-8x16", 1.0, "deadlock"
PARTS = ("partitions", "wafers", "fabrics", "wins")


def partition_costs(name, objective, simulated, samples, seeds):
    """By method: (median cost, median CPU seconds) on a graph."""
    problem = PartitionProblem(
        read_graph(DATA / "partition" / f"{name}.json"), CHIPS, LINK_BYTES_PER_S, objective=objective
    )
    evaluator = SimulatorEvaluator(problem, package(PACKAGE)) if simulated else AnalyticalEvaluator(problem)
    costs = {}
    for method, solve in METHODS.items():
        found = []
        for seed in range(seeds):
            begun = time.process_time()
            answer = solve(SearchContext(problem, evaluator, InProcessExecutor(), seed, samples))
            found.append((answer.cost_s, time.process_time() - begun))
        costs[method] = tuple(statistics.median(column) for column in zip(*found, strict=True))
    return costs


def partitions(results, samples, seeds):
    """The table of partitions."""
    cpu_s = {method: [] for method in METHODS}
    print(f"partitions over {CHIPS} chips, {samples:,} evaluations: cost over the best of all, in %, and CPU s")
    for objective, simulated in QUESTIONS:
        for name in GRAPHS:
            costs = partition_costs(name, objective, simulated, samples, seeds)
            best = min(cost for cost, _ in costs.values())
            results.row(
                "main",
                name,
                f"{objective}{', simulated' if simulated else ''}",
                *(f"{100 * (cost / best - 1):.3g}" for cost, _ in costs.values()),
            )
            for method, (_, seconds) in costs.items():
                cpu_s[method].append(seconds)
    results.row("main", "median", "CPU seconds", *(f"{statistics.median(cpu_s[method]):.1f}" for method in METHODS))


def wafers(results, letters, moves, seeds):
    """The table of wafers."""
    print(f"\nwafers, {moves:,} moves: cost without a step over the whole, in %")
    for letter in letters:
        problem = chosen_problems(letter)[letter]

        def median_cost(steps, problem=problem):
            contexts = [WaferContext(problem, InProcessExecutor(), seed, moves) for seed in range(seeds)]
            return float(np.median([search(replace(context, steps=steps)).total for context in contexts]))

        whole = median_cost(STEPS)
        changes = [100 * (median_cost(STEPS - {step}) / whole - 1) for step in STEP_NAMES]
        cells = [f"{change:+.3f}".replace("-", "−") if change else "0" for change in changes]
        results.row("main", letter, f"{whole:,.1f}", *cells)


def fabrics(results, seeds):
    """The table of fabrics."""
    print(f"\n{FABRIC}, {BUDGET_S:g} CPU s: slots of a sample over those of the best cost, in %")
    bench = fabric_placement.Bench(FABRIC, None, None, COSTS.values())
    for number, name in enumerate(fabric_placement.families(FABRIC)):
        graph = bench.graph(name)
        if number == 0:
            graph.speeds()  # loads compiled code
        speeds = graph.speeds()
        shares = [
            statistics.median(graph.run(method, speeds, BUDGET_S, seed)["share"] for seed in range(seeds))
            for method in COSTS.values()
        ]
        best = max(shares)
        results.row("main", name, *(f"{100 * (best / share - 1):.3g}" if share else DEADLOCK for share in shares))


def recorded(record):
    """The rows of the main table of a result file."""
    return json.loads(record.path.read_text(encoding="utf-8"))["tables"]["main"]["rows"]


def standing(rows):
    """(how often it is the best, how often alone) of each column of costs; None where a method has no answer."""
    near = []
    for row in rows:
        limit = min(cost for cost in row if cost is not None) * (1 + NEAR_PERCENT / 100)
        near.append([cost is not None and cost <= limit for cost in row])
    for column in zip(*near, strict=True):
        yield sum(column), sum(is_near and sum(row) == 1 for is_near, row in zip(column, near, strict=True))


def over_the_best(cells):
    """Costs from per cent over the best one; None where there is none."""
    return [None if cell == DEADLOCK else 1 + float(cell) / 100 for cell in cells]


def wins(results):
    """How often each method and each step wins, by the recorded tables."""
    *rows, (_, _, *cpu_s) = recorded(PARTITIONS)
    results.figure("near", f"{NEAR_PERCENT} %")
    results.figure("questions", len(rows))
    found = standing([over_the_best(cells) for _, _, *cells in rows])
    for method, (best, alone), seconds in zip(METHODS, found, cpu_s, strict=True):
        results.row("methods", f"`{method}`", best, alone, seconds, STATED.get(method))
    changes = [[float(cell.replace("−", "-")) for cell in cells] for _, _, *cells in recorded(WAFER_STEPS)]
    results.figure("cases", len(changes))
    for step, column in zip(STEP_NAMES, zip(*changes, strict=True), strict=True):
        results.row("steps", step, sum(change > 0 for change in column), sum(change < 0 for change in column))
    layers = [dict(zip(schedule.RECORD.tables["main"], row, strict=True)) for row in recorded(schedule.RECORD)]
    results.figure("layers", len(layers))
    makespans = [[_milliseconds(layer[column]) for _, column, _, _ in SCHEDULERS] for layer in layers]
    for (method, _, gap, paper), (best, alone) in zip(SCHEDULERS, standing(makespans), strict=True):
        results.row("schedules", method, best, alone, sum(layer[gap] == "proven" for layer in layers), paper)
    graphs = [over_the_best(cells) for _, *cells in recorded(FABRICS)]
    results.figure("graphs", len(graphs))
    for cost, (best, alone) in zip(COSTS, standing(graphs), strict=True):
        results.row("fabrics", f"`{cost}`", best, alone)


def _milliseconds(cell):
    number, _, unit = cell.partition(" ")
    return float(number) if unit == "ms" else None


if __name__ == "__main__":
    parser = parser_of(__doc__)
    parser.add_argument("parts", nargs="*", default=PARTS, metavar="PART", help=f"{', '.join(PARTS)}; all by default")
    parser.add_argument("--samples", type=int, default=600)
    parser.add_argument("--moves", type=int, default=MOVES)
    parser.add_argument("--cases", default=WAFERS, help="letters of the contest's cases")
    parser.add_argument("--seeds", type=int, default=3)
    given = parser.parse_args()
    if "partitions" in given.parts:
        of_partitions = Results(PARTITIONS)
        partitions(of_partitions, given.samples, given.seeds)
        of_partitions.save(given.record)
    if "wafers" in given.parts:
        of_wafers = Results(WAFER_STEPS)
        wafers(of_wafers, given.cases, given.moves, given.seeds)
        of_wafers.save(given.record)
    if "fabrics" in given.parts:
        of_fabrics = Results(FABRICS)
        fabrics(of_fabrics, given.seeds)
        of_fabrics.save(given.record)
    if "wins" in given.parts:
        of_wins = Results(WINS)
        wins(of_wins)
        of_wins.save(given.record)
